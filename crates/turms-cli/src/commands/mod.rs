//! Doing it: one file for each command.

pub(crate) mod call;
pub(crate) mod complete;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod info;
pub(crate) mod listen;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod ping;
pub(crate) mod prompt;
pub(crate) mod prompts;
pub(crate) mod raw;
pub(crate) mod read;
pub(crate) mod resources;
pub(crate) mod servers;
pub(crate) mod tasks;
pub(crate) mod templates;
pub(crate) mod tools;

use crate::args::Verb;
use crate::error::Done;
use crate::printer::{Printer, Verbosity};
use crate::session::Session;
use crate::text::Text;

/// Does one thing at a server, for the command line and for the shell.
pub(crate) async fn run(session: &Session, verb: &Verb) -> Done {
    match verb {
        Verb::Info => info::run(session),
        Verb::Ping => ping::run(session).await,
        Verb::Tools(args) => tools::run(session, args).await,
        Verb::Call(args) => call::run(session, args).await,
        Verb::Resources => resources::run(session).await,
        Verb::Templates => templates::run(session).await,
        Verb::Read(args) => read::run(session, args).await,
        Verb::Prompts => prompts::run(session).await,
        Verb::Prompt(args) => prompt::run(session, args).await,
        Verb::Complete(args) => complete::run(session, args).await,
        Verb::Listen(args) => listen::run(session, args).await,
        Verb::Log(args) => log::run(session, args).await,
        Verb::Tasks(args) => tasks::run(session, args).await,
        Verb::Raw(args) => raw::run(session, args).await,
    }
}

/// Prints a list, or that there is nothing in it.
fn print_list<T>(printer: &Printer, what: &str, items: &[T], show: impl Fn(&T, bool) -> Text) -> Done {
    if items.is_empty() {
        printer.note(format!("the server has no {what}"));
    }
    let in_full = printer.tells(Verbosity::Talkative);
    items.iter().try_for_each(|item| printer.line(show(item, in_full)))
}
