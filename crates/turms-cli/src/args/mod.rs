//! What was typed after `turms`.

mod command;
mod server;
mod usage_hint;

use std::ffi::{OsStr, OsString};

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

pub(crate) use self::command::{
    CallArgs, CompleteArgs, CompletionsArgs, DemoArgs, ListenArgs, LogArgs, ManArgs, PromptArgs, RawArgs, ReadArgs,
    ServersArgs, TasksArgs, ToolsArgs, parse_level,
};
pub(crate) use self::server::{BEARER, On, ServerArgs, ServerOptions};
pub(crate) use self::usage_hint::hint;
use crate::error::Exit;
use crate::printer::{ColourChoice, Printer, Verbosity};

/// Operates Model Context Protocol (MCP) servers from a terminal.
///
/// Without a command, opens the interactive shell on the demo server that is built in.
#[derive(Debug, Parser)]
#[command(name = "turms", version, after_help = TARGETS, after_long_help = long_help(), propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What is printed, and how.
#[derive(Debug, Clone, Args)]
pub(crate) struct OutputArgs {
    /// Print exact MCP objects on standard output, one on a line
    #[arg(long, global = true, help_heading = "Output")]
    json: bool,
    /// Tell more: -v what the server says unasked, -vv what Turms does, -vvv every request and answer
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Output")]
    verbose: u8,
    /// Tell nothing but errors beside the data
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
            (false, 0) => Verbosity::Usual,
            (false, 1) => Verbosity::Talkative,
            (false, 2) => Verbosity::Debug,
            (false, _) => Verbosity::Trace,
        };
        Printer::new(self.json, verbosity, self.color)
    }
}

/// What the command was asked to do. One file of `commands/` does each.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Open the interactive shell
    Shell(On),
    /// Serve the demo server to others
    Demo(DemoArgs),
    /// Show who the server is and what it can do
    Info(On),
    /// See whether the server answers, and how fast
    Ping(On),
    /// List the tools
    #[command(visible_alias = "list_tools")]
    Tools(On<ToolsArgs>),
    /// Call a tool
    #[command(visible_alias = "call_tool")]
    Call(On<CallArgs>),
    /// List the resources
    #[command(visible_alias = "list_resources")]
    Resources(On),
    /// List the templates of resources
    Templates(On),
    /// Read a resource
    #[command(visible_alias = "read_resource")]
    Read(On<ReadArgs>),
    /// List the prompts
    #[command(visible_alias = "list_prompts")]
    Prompts(On),
    /// Get a prompt
    #[command(visible_alias = "get_prompt")]
    Prompt(On<PromptArgs>),
    /// Ask the server how an argument could go on
    Complete(On<CompleteArgs>),
    /// Show changes at the server as they happen
    Listen(On<ListenArgs>),
    /// Show the server's log as it comes
    Log(On<LogArgs>),
    /// List the tasks, or look after one
    Tasks(On<TasksArgs>),
    /// Make any request
    Raw(On<RawArgs>),
    /// List the servers that configuration files name
    Servers(ServersArgs),
    /// Print a script that completes this command's arguments in your shell
    Completions(CompletionsArgs),
    /// Print the manual page, or that of one command
    Man(ManArgs),
}

/// What can be done at a server, whichever it is.
#[derive(Debug)]
pub(crate) enum Verb {
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

impl Verb {
    /// Whether it goes on until somebody ends it.
    pub(crate) fn lasts(&self) -> bool {
        matches!(self, Self::Listen(_) | Self::Log(_))
    }
}

impl Command {
    /// Which server, and what to do there, unless the command needs none.
    pub(crate) fn split(self) -> Option<(ServerArgs, Verb)> {
        let only = |on: On| on.split().0;
        Some(match self {
            Self::Info(on) => (only(on), Verb::Info),
            Self::Ping(on) => (only(on), Verb::Ping),
            Self::Tools(on) => with(on, Verb::Tools),
            Self::Call(on) => with(on, Verb::Call),
            Self::Resources(on) => (only(on), Verb::Resources),
            Self::Templates(on) => (only(on), Verb::Templates),
            Self::Read(on) => with(on, Verb::Read),
            Self::Prompts(on) => (only(on), Verb::Prompts),
            Self::Prompt(on) => with(on, Verb::Prompt),
            Self::Complete(on) => with(on, Verb::Complete),
            Self::Listen(on) => with(on, Verb::Listen),
            Self::Log(on) => with(on, Verb::Log),
            Self::Tasks(on) => with(on, Verb::Tasks),
            Self::Raw(on) => with(on, Verb::Raw),
            Self::Shell(_) | Self::Demo(_) | Self::Servers(_) | Self::Completions(_) | Self::Man(_) => return None,
        })
    }
}

fn with<A: Args>(on: On<A>, verb: impl FnOnce(A) -> Verb) -> (ServerArgs, Verb) {
    let (server, args) = on.split();
    (server, verb(args))
}

const TARGETS: &str = "\
TARGET is one of
  demo                 the server that is built in
  URL                  http:// or https://, ws:// or wss://
  NAME                 a server of a configuration file; `turms servers` lists them
or, in its place, a program to start comes last, after `--`:
  turms tools -- npx -y @modelcontextprotocol/server-everything";

fn long_help() -> String {
    format!("{TARGETS}\n\n{}", Exit::TABLE)
}

/// The arguments as clap knows them, for completions and the manual page.
pub(crate) fn definition() -> clap::Command {
    Cli::command()
}

/// Reads the arguments, the program's own name first.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let args: Vec<OsString> = args.into_iter().collect();
    let mut definition = definition();
    if args.iter().any(|arg| arg == OsStr::new("--")) {
        definition = definition.mut_subcommands(without_target);
    }
    let matches = definition.try_get_matches_from_mut(args)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut definition))
}

/// Where a program is given after `--`, the words before it are about what to do: TARGET is none of them.
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
    fn the_definitions_agree_with_themselves() {
        definition().debug_assert();
        definition().mut_subcommands(without_target).debug_assert();
    }

    #[test]
    fn no_command_is_a_command() {
        assert!(parsed("").unwrap().command.is_none());
    }

    #[test]
    fn the_first_word_is_the_target() {
        let Some(Command::Call(call)) = parsed("call demo add a=1 b:=2").unwrap().command else { panic!() };
        let (server, args) = call.split();
        assert_eq!(server.target.as_deref(), Some("demo"));
        assert_eq!((args.name.as_str(), args.arguments.len()), ("add", 2));
    }

    #[test]
    fn unless_a_program_comes_last() {
        let Some(Command::Call(call)) = parsed("call add a=1 --json -- server --json x").unwrap().command else {
            panic!()
        };
        let (server, args) = call.split();
        assert_eq!(server.target, None);
        assert_eq!((args.name.as_str(), args.arguments.len()), ("add", 1));
        assert_eq!(server.program, ["server", "--json", "x"]);
    }

    #[test]
    fn a_target_must_be_named() {
        assert_eq!(parsed("tools").unwrap_err().kind(), clap::error::ErrorKind::MissingRequiredArgument);
    }

    #[test]
    fn other_clients_names_for_commands_are_understood() {
        assert!(matches!(parsed("list_tools demo").unwrap().command, Some(Command::Tools(_))));
        assert!(matches!(parsed("call_tool demo add").unwrap().command, Some(Command::Call(_))));
    }
}
