//! The commands of the shell.

use clap::{Args, CommandFactory as _, Parser, Subcommand};

use super::tokens;
use crate::args::{
    CallArgs, CompleteArgs, PromptArgs, RawArgs, ReadArgs, ServerCommand, TasksArgs, ToolsArgs, parse_level,
};
use crate::error::{CliError, CliResult};
use crate::suggest;
use turms::types::LoggingLevel;

/// A line of the shell.
#[derive(Debug, Parser)]
#[command(
    name = "",
    no_binary_name = true,
    disable_help_flag = true,
    disable_help_subcommand = true,
    disable_version_flag = true,
    help_template = "{subcommands}"
)]
struct ShellLine {
    #[command(subcommand)]
    command: ShellCommand,
}

/// Commands of the shell.
#[derive(Debug, Subcommand)]
pub(super) enum ShellCommand {
    /// Show all commands, or the usage of one
    #[command(visible_alias = "?")]
    Help { command: Option<String> },
    /// Show the server's name, version and capabilities
    Info,
    /// Ping the server and show the round-trip time
    Ping,
    /// List the tools, or show one with its schemas
    #[command(visible_alias = "list_tools")]
    Tools(ToolsArgs),
    /// Call a tool; prompts for missing arguments
    #[command(visible_alias = "call_tool")]
    Call(CallArgs),
    /// List the prompts
    #[command(visible_alias = "list_prompts")]
    Prompts,
    /// Get a prompt
    #[command(visible_alias = "get_prompt")]
    Prompt(PromptArgs),
    /// List the resources
    #[command(visible_alias = "list_resources")]
    Resources,
    /// Read a resource
    #[command(visible_alias = "read_resource")]
    Read(ReadArgs),
    /// List the resource templates
    Templates,
    /// Complete an argument of a prompt or a resource template
    Complete(CompleteArgs),
    /// Subscribe to a resource and show its changes
    Subscribe(UriArgs),
    /// Unsubscribe from a resource
    Unsubscribe(UriArgs),
    /// Set the minimum level of the server's log
    Log {
        /// debug, info, notice, warning, error, critical, alert or emergency
        #[arg(value_parser = parse_level)]
        level: LoggingLevel,
    },
    /// Show or change the roots: files and directories offered to the server
    Roots {
        /// Either add or remove
        #[arg(requires = "path", value_parser = ["add", "remove"])]
        change: Option<String>,
        /// A path or a URI
        path: Option<String>,
    },
    /// Show the state of the connection: protocol, capabilities, transport, pending calls, statistics
    #[command(visible_alias = "show_state")]
    State,
    /// List the tasks, or show, wait for or cancel one
    Tasks(TasksArgs),
    /// Send any request or notification
    Raw(RawArgs),
    /// Show the command history
    History,
    /// Clear the screen
    Clear,
    /// Leave the shell
    #[command(visible_alias = "quit")]
    Exit,
}

/// Arguments of `subscribe` and `unsubscribe`.
#[derive(Debug, Args)]
pub(super) struct UriArgs {
    /// URI of the resource
    pub(super) uri: String,
}

impl ShellCommand {
    /// Parses a line; `None` if it is empty or a comment.
    pub(super) fn parse(line: &str) -> CliResult<Option<Self>> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let words = split_json(line).map_or_else(|| tokens::split(line), Ok);
        let words = words.map_err(CliError::usage)?;
        match ShellLine::try_parse_from(&words) {
            Ok(typed) => Ok(Some(typed.command)),
            Err(error) => Err(usage_error(&words, &error)),
        }
    }

    /// Returns the same command of the command line, or the command itself if only the shell has it.
    pub(super) fn into_server_command(self) -> Result<ServerCommand, Self> {
        Ok(match self {
            Self::Info => ServerCommand::Info,
            Self::Ping => ServerCommand::Ping,
            Self::Tools(args) => ServerCommand::Tools(args),
            Self::Call(args) => ServerCommand::Call(args),
            Self::Prompts => ServerCommand::Prompts,
            Self::Prompt(args) => ServerCommand::Prompt(args),
            Self::Resources => ServerCommand::Resources,
            Self::Read(args) => ServerCommand::Read(args),
            Self::Templates => ServerCommand::Templates,
            Self::Complete(args) => ServerCommand::Complete(args),
            Self::Tasks(args) => ServerCommand::Tasks(args),
            Self::Raw(args) => ServerCommand::Raw(args),
            other => return Err(other),
        })
    }
}

/// Returns the names of all commands, or the aliases if no name has this prefix.
pub(super) fn names(prefix: &str) -> Vec<String> {
    let definition = ShellLine::command();
    let own: Vec<String> = definition.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    if own.iter().any(|name| name.starts_with(prefix)) {
        return own;
    }
    definition.get_subcommands().flat_map(clap::Command::get_visible_aliases).map(ToOwned::to_owned).collect()
}

/// Returns the options of a command, given its name or an alias.
pub(super) fn options(name: &str) -> Vec<String> {
    let definition = ShellLine::command();
    let arguments = definition.find_subcommand(name).into_iter().flat_map(clap::Command::get_arguments);
    arguments.filter_map(clap::Arg::get_long).map(|long| format!("--{long}")).collect()
}

/// Returns the help of all commands or of one.
pub(super) fn help(command: Option<&str>) -> CliResult<String> {
    let mut definition = ShellLine::command();
    let Some(name) = command else {
        return Ok(definition.render_help().to_string().trim_end().to_owned());
    };
    definition.build();
    match definition.find_subcommand_mut(name) {
        // The name of the parent command is empty and leaves a space.
        Some(command) => Ok(command.render_long_help().to_string().trim_end().replace("Usage:  ", "Usage: ")),
        None => Err(unknown(name)),
    }
}

/// Splits a line with JSON after the name of a tool or a method. The JSON needs no quotes.
fn split_json(line: &str) -> Option<Vec<String>> {
    let (before, _) = line.split_once('{')?;
    let mut words: Vec<String> = before.split_whitespace().map(ToOwned::to_owned).collect();
    let json = &line[before.len()..];
    let applies = words.len() == 2 && matches!(words[0].as_str(), "call" | "call_tool" | "raw");
    (applies && before.ends_with(char::is_whitespace)).then(|| {
        words.push(json.to_owned());
        words
    })
}

fn usage_error(words: &[String], error: &clap::Error) -> CliError {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let name = words.first().map_or("", String::as_str);
    if error.kind() == ErrorKind::InvalidSubcommand {
        return unknown(name);
    }
    let message = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(missing))) => {
            format!("{name} needs {}", missing.join(" and "))
        }
        _ => {
            let rendered = error.render().to_string();
            let lines: Vec<&str> = rendered.lines().take_while(|line| !line.starts_with("Usage:")).collect();
            lines.join("\n").trim().trim_start_matches("error: ").to_owned()
        }
    };
    let usage = usage(name).map_or_else(String::new, |usage| format!("usage: `{usage}`; "));
    CliError::usage(message).hint(format!("{usage}`help {name}` shows more"))
}

/// Returns the usage line of a command.
fn usage(name: &str) -> Option<String> {
    let mut definition = ShellLine::command();
    definition.build();
    let usage = definition.find_subcommand(name)?.clone().bin_name(name).render_usage().to_string();
    Some(usage.trim_start_matches("Usage:").trim().to_owned())
}

fn unknown(name: &str) -> CliError {
    let names = names("");
    CliError::usage(format!("unknown command {name:?}")).hint(
        match suggest::closest(name, names.iter().map(String::as_str)) {
            Some(closest) => format!("did you mean {closest:?}?"),
            None => "`help` shows all commands".to_owned(),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> ShellCommand {
        ShellCommand::parse(line).unwrap().unwrap()
    }

    #[test]
    fn the_definitions_are_consistent() {
        ShellLine::command().debug_assert();
    }

    #[test]
    fn every_command_and_alias_is_parsed() {
        for line in [
            "help",
            "ping",
            "tools",
            "list_tools",
            "call a",
            "call_tool a",
            "prompts",
            "list_prompts",
            "prompt a",
            "get_prompt a",
            "resources",
            "list_resources",
            "read a",
            "read_resource a",
            "templates",
            "complete a b",
            "subscribe a",
            "log info",
            "roots",
            "state",
            "show_state",
            "history",
            "clear",
            "exit",
            "quit",
        ] {
            parse(line);
        }
    }

    #[test]
    fn json_needs_no_quotes() {
        let ShellCommand::Call(args) = parse(r#"call add {"a": 1, "b": "x y"}"#) else { panic!() };
        assert_eq!(args.arguments, [r#"{"a": 1, "b": "x y"}"#]);
        let ShellCommand::Call(args) = parse(r#"call add a:='{"b": 1}'"#) else { panic!() };
        assert_eq!(args.arguments, [r#"a:={"b": 1}"#]);
    }

    #[test]
    fn empty_lines_and_comments_are_skipped() {
        assert!(ShellCommand::parse("  ").unwrap().is_none());
        assert!(ShellCommand::parse("# call add").unwrap().is_none());
    }

    #[test]
    fn errors_have_hints() {
        let failure = ShellCommand::parse("tolls").unwrap_err();
        assert_eq!(failure.to_string(), "unknown command \"tolls\"");
        assert_eq!(failure.hints(), ["did you mean \"tools\"?"]);
        let failure = ShellCommand::parse("read").unwrap_err();
        assert_eq!(failure.to_string(), "read needs <URI>");
        assert_eq!(failure.hints(), ["usage: `read [OPTIONS] <URI>`; `help read` shows more"]);
        assert!(ShellCommand::parse("log loud").unwrap_err().to_string().contains("not a logging level"));
    }

    #[test]
    fn help_shows_every_command() {
        let help = help(None).unwrap();
        for name in ["call", "subscribe", "state", "exit"] {
            assert!(help.contains(name), "{help}");
        }
        assert!(super::help(Some("call")).unwrap().contains("Usage: call [OPTIONS] <NAME> [KEY=VALUE]..."));
        assert!(super::help(Some("cal")).is_err());
    }
}
