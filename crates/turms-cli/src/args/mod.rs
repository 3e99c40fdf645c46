//! Command-line arguments.

mod auth;
mod command;
mod demo;
mod server;
mod usage_hint;

use std::ffi::{OsStr, OsString};

use clap::builder::Resettable;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

pub(crate) use self::auth::{
    AuthArgs, AuthCommand, ClientOptions, LoginArgs, LogoutArgs, NetworkOptions, ProfileOptions, StatusArgs, UrlArgs,
};
pub(crate) use self::command::{
    CallArgs, CompleteArgs, CompletionsArgs, ListenArgs, LogArgs, ManArgs, PromptArgs, RawArgs, ReadArgs, ServersArgs,
    TasksArgs, ToolsArgs, parse_level,
};
pub(crate) use self::demo::{DemoArgs, DemoAuthArgs, DemoTransport};
pub(crate) use self::server::{BEARER, ServerArgs, ServerOptions, WithServer};
pub(crate) use self::usage_hint::usage_hint;
use crate::error::ExitStatus;
use crate::printer::{ColourChoice, Printer, Verbosity};

/// A command-line client for Model Context Protocol (MCP) servers.
///
/// Without a command, opens the interactive shell on the built-in demo server.
#[derive(Debug, Parser)]
#[command(name = "turms", version, after_help = TARGETS, after_long_help = long_help(), propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Output options.
#[derive(Debug, Clone, Args)]
pub(crate) struct OutputArgs {
    /// Print the exact MCP objects on standard output, one per line
    #[arg(long, global = true, help_heading = "Output")]
    json: bool,
    /// Print more: -v the server's log and standard error, -vv Turms' own log, -vvv every request and response
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Output")]
    verbose: u8,
    /// Print only data and errors
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Output")]
    quiet: bool,
    /// When to use colours
    #[arg(
        long,
        visible_alias = "colour",
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Output"
    )]
    color: ColourChoice,
}

impl OutputArgs {
    pub(crate) fn printer(&self) -> Printer {
        let verbosity = match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, 0) => Verbosity::Normal,
            (false, 1) => Verbosity::Verbose,
            (false, 2) => Verbosity::Debug,
            (false, _) => Verbosity::Trace,
        };
        Printer::new(self.json, verbosity, self.color)
    }
}

/// The subcommands. Each has a file in `commands/`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Open the interactive shell
    Shell(WithServer),
    /// Serve the built-in demo server
    Demo(DemoArgs),
    /// Show the server's name, version and capabilities
    Info(WithServer),
    /// Ping the server and show the round-trip time
    Ping(WithServer),
    /// List the tools
    #[command(visible_alias = "list_tools")]
    Tools(WithServer<ToolsArgs>),
    /// Call a tool
    #[command(visible_alias = "call_tool")]
    Call(WithServer<CallArgs>),
    /// List the resources
    #[command(visible_alias = "list_resources")]
    Resources(WithServer),
    /// List the resource templates
    Templates(WithServer),
    /// Read a resource
    #[command(visible_alias = "read_resource")]
    Read(WithServer<ReadArgs>),
    /// List the prompts
    #[command(visible_alias = "list_prompts")]
    Prompts(WithServer),
    /// Get a prompt
    #[command(visible_alias = "get_prompt")]
    Prompt(WithServer<PromptArgs>),
    /// Complete an argument of a prompt or a resource template
    Complete(WithServer<CompleteArgs>),
    /// Show changes of lists and resources as they happen
    Listen(WithServer<ListenArgs>),
    /// Show the server's log messages as they arrive
    Log(WithServer<LogArgs>),
    /// List the tasks, or show, wait for or cancel one
    Tasks(WithServer<TasksArgs>),
    /// Send any request or notification
    Raw(WithServer<RawArgs>),
    /// Log in to a server, log out, or show logins
    Auth(AuthArgs),
    /// List the servers in configuration files
    Servers(ServersArgs),
    /// Print a completion script for your shell
    Completions(CompletionsArgs),
    /// Print the manual page of `turms` or of one command
    Man(ManArgs),
}

/// A command that runs against a connected server.
#[derive(Debug)]
pub(crate) enum ServerCommand {
    Info,
    Ping,
    Tools(ToolsArgs),
    Call(CallArgs),
    Resources,
    Templates,
    Read(ReadArgs),
    Prompts,
    Prompt(PromptArgs),
    Complete(CompleteArgs),
    Listen(ListenArgs),
    Log(LogArgs),
    Tasks(TasksArgs),
    Raw(RawArgs),
}

impl ServerCommand {
    /// Returns `true` if the command normally runs until Ctrl-C.
    pub(crate) fn runs_until_stopped(&self) -> bool {
        matches!(self, Self::Listen(_) | Self::Log(_))
    }
}

impl Command {
    /// Splits into the server and the command to run there; `None` if the command needs no server.
    pub(crate) fn split(self) -> Option<(ServerArgs, ServerCommand)> {
        let server = |args: WithServer| args.split().0;
        Some(match self {
            Self::Info(args) => (server(args), ServerCommand::Info),
            Self::Ping(args) => (server(args), ServerCommand::Ping),
            Self::Tools(args) => split_with(args, ServerCommand::Tools),
            Self::Call(args) => split_with(args, ServerCommand::Call),
            Self::Resources(args) => (server(args), ServerCommand::Resources),
            Self::Templates(args) => (server(args), ServerCommand::Templates),
            Self::Read(args) => split_with(args, ServerCommand::Read),
            Self::Prompts(args) => (server(args), ServerCommand::Prompts),
            Self::Prompt(args) => split_with(args, ServerCommand::Prompt),
            Self::Complete(args) => split_with(args, ServerCommand::Complete),
            Self::Listen(args) => split_with(args, ServerCommand::Listen),
            Self::Log(args) => split_with(args, ServerCommand::Log),
            Self::Tasks(args) => split_with(args, ServerCommand::Tasks),
            Self::Raw(args) => split_with(args, ServerCommand::Raw),
            Self::Shell(_) | Self::Demo(_) | Self::Auth(_) | Self::Servers(_) | Self::Completions(_) | Self::Man(_) => {
                return None;
            }
        })
    }
}

fn split_with<A: Args>(args: WithServer<A>, command: impl FnOnce(A) -> ServerCommand) -> (ServerArgs, ServerCommand) {
    let (server, args) = args.split();
    (server, command(args))
}

const TARGETS: &str = "\
TARGET is one of
  demo                 the built-in demo server
  URL                  http://, https://, ws:// or wss://
  NAME                 a server from a configuration file, listed by `turms servers`
To start a program as the server, omit TARGET and put the program last, after `--`:
  turms tools -- npx -y @modelcontextprotocol/server-everything";

fn long_help() -> String {
    format!("{TARGETS}\n\n{}", ExitStatus::TABLE)
}

/// Returns the clap definition, for completions and the manual page.
pub(crate) fn definition() -> clap::Command {
    Cli::command()
}

/// Parses the arguments; the first is the program name.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let args: Vec<OsString> = args.into_iter().collect();
    let mut definition = without_empty_variables(definition());
    if args.iter().any(|arg| arg == OsStr::new("--")) {
        definition = definition.mut_subcommands(without_target);
    }
    let matches = definition.try_get_matches_from_mut(args)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut definition))
}

/// Ignores variables of the environment that are empty. In scripts and containers, these often stand for no value.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |arg: &clap::Arg| arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
    let command = command.mut_args(|arg| if is_empty(&arg) { arg.env(Resettable::Reset) } else { arg });
    command.mut_subcommands(without_empty_variables)
}

/// Removes TARGET from the positional arguments of a command, for arguments with a program after `--`. The argument becomes a hidden
/// option, because the derived types require that it is defined.
fn without_target(command: clap::Command) -> clap::Command {
    if !command.get_arguments().any(|arg| arg.get_id() == "target") {
        return command;
    }
    command.mut_arg("target", |target| target.required(false).long("target").hide(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Cli, clap::Error> {
        parse(std::iter::once("turms").chain(line.split_whitespace()).map(OsString::from))
    }

    #[test]
    fn the_definitions_are_consistent() {
        definition().debug_assert();
        definition().mut_subcommands(without_target).debug_assert();
    }

    #[test]
    fn the_command_is_optional() {
        assert!(parsed("").unwrap().command.is_none());
    }

    #[test]
    fn the_first_argument_is_the_target() {
        let Some(Command::Call(call)) = parsed("call demo add a=1 b:=2").unwrap().command else { panic!() };
        let (server, args) = call.split();
        assert_eq!(server.target.as_deref(), Some("demo"));
        assert_eq!((args.name.as_str(), args.arguments.len()), ("add", 2));
    }

    #[test]
    fn there_is_no_target_before_a_program() {
        let Some(Command::Call(call)) = parsed("call add a=1 --json -- server --json x").unwrap().command else {
            panic!()
        };
        let (server, args) = call.split();
        assert_eq!(server.target, None);
        assert_eq!((args.name.as_str(), args.arguments.len()), ("add", 1));
        assert_eq!(server.program, ["server", "--json", "x"]);
    }

    #[test]
    fn the_target_is_required() {
        assert_eq!(parsed("tools").unwrap_err().kind(), clap::error::ErrorKind::MissingRequiredArgument);
    }

    #[test]
    fn command_names_of_other_clients_are_aliases() {
        assert!(matches!(parsed("list_tools demo").unwrap().command, Some(Command::Tools(_))));
        assert!(matches!(parsed("call_tool demo add").unwrap().command, Some(Command::Call(_))));
    }
}
