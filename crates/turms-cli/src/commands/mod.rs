//! The commands, one file each.

pub(crate) mod auth;
pub(crate) mod call;
pub(crate) mod complete;
pub(crate) mod completions;
pub(crate) mod demo;
mod demo_auth;
pub(crate) mod info;
pub(crate) mod listen;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod ping;
pub(crate) mod prompt;
pub(crate) mod prompts;
pub(crate) mod raw;
pub(crate) mod read;
mod repeat;
pub(crate) mod resources;
pub(crate) mod servers;
pub(crate) mod tasks;
pub(crate) mod templates;
pub(crate) mod tools;

use crate::args::ServerCommand;
use crate::error::CliResult;
use crate::printer::{Printer, Verbosity};
use crate::session::CliSession;
use crate::text::StyledText;

/// Runs a command on a connected server, for the command line and the shell.
pub(crate) async fn run(session: &CliSession, command: &ServerCommand) -> CliResult {
    match command {
        ServerCommand::Info => info::run(session),
        ServerCommand::Ping => ping::run(session).await,
        ServerCommand::Tools(args) => tools::run(session, args).await,
        ServerCommand::Call(args) => call::run(session, args).await,
        ServerCommand::Resources => resources::run(session).await,
        ServerCommand::Templates => templates::run(session).await,
        ServerCommand::Read(args) => read::run(session, args).await,
        ServerCommand::Prompts => prompts::run(session).await,
        ServerCommand::Prompt(args) => prompt::run(session, args).await,
        ServerCommand::Complete(args) => complete::run(session, args).await,
        ServerCommand::Listen(args) => listen::run(session, args).await,
        ServerCommand::Log(args) => log::run(session, args).await,
        ServerCommand::Tasks(args) => tasks::run(session, args).await,
        ServerCommand::Raw(args) => raw::run(session, args).await,
    }
}

/// Prints a list, or a note if it is empty.
fn print_list<T>(printer: &Printer, what: &str, items: &[T], show: impl Fn(&T, bool) -> StyledText) -> CliResult {
    if items.is_empty() {
        printer.note(format!("the server has no {what}"));
    }
    let in_full = printer.shows(Verbosity::Verbose);
    items.iter().try_for_each(|item| printer.line(show(item, in_full)))
}
