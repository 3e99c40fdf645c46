//! The commands of the shell.

use clap::{Args, CommandFactory as _, Parser, Subcommand};

use super::tokens;
use crate::args::{CallArgs, CompleteArgs, PromptArgs, RawArgs, ReadArgs, TasksArgs, ToolsArgs, Verb, parse_level};
use crate::error::{Done, Failure};
use crate::suggest;
use turms::types::LoggingLevel;

/// A line that was typed.
#[derive(Debug, Parser)]
#[command(
    name = "",
    no_binary_name = true,
    disable_help_flag = true,
    disable_help_subcommand = true,
    disable_version_flag = true,
    help_template = "{subcommands}"
)]
struct Typed {
    #[command(subcommand)]
    command: ShellCommand,
}

/// What can be typed.
#[derive(Debug, Subcommand)]
pub(super) enum ShellCommand {
    /// Show these commands, or how one is written
    #[command(visible_alias = "?")]
    Help { command: Option<String> },
    /// Show who the server is and what it can do
    Info,
    /// See whether the server answers, and how fast
    Ping,
    /// List the tools, or show one with its schemas
    #[command(visible_alias = "list_tools")]
    Tools(ToolsArgs),
    /// Call a tool; what is missing is asked for
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
    /// List the templates of resources
    Templates,
    /// Ask the server how an argument could go on
    Complete(CompleteArgs),
    /// Watch a resource: changes are shown as they come
    Subscribe(UriArgs),
    /// Watch a resource no more
    Unsubscribe(UriArgs),
    /// Say from which level on the server's log is shown
    Log {
        /// debug, info, notice, warning, error, critical, alert or emergency
        #[arg(value_parser = parse_level)]
        level: LoggingLevel,
    },
    /// Show the files and folders that the server may know of, or change them
    Roots {
        /// add or remove
        #[arg(requires = "path", value_parser = ["add", "remove"])]
        change: Option<String>,
        /// A path or a URI
        path: Option<String>,
    },
    /// Show how the connection stands: protocol, capabilities, transport, pending calls, statistics
    #[command(visible_alias = "show_state")]
    State,
    /// List the tasks, or look after one
    Tasks(TasksArgs),
    /// Make any request
    Raw(RawArgs),
    /// Show what was typed
    History,
    /// Clear the screen
    Clear,
    /// Leave the shell
    #[command(visible_alias = "quit")]
    Exit,
}

/// A resource.
#[derive(Debug, Args)]
pub(super) struct UriArgs {
    /// The resource
    pub(super) uri: String,
}

impl ShellCommand {
    /// Reads a line; `None` if there is nothing on it, or only a remark.
    pub(super) fn parse(line: &str) -> Done<Option<Self>> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let words = with_json(line).map_or_else(|| tokens::split(line), Ok);
        let words = words.map_err(Failure::usage)?;
        match Typed::try_parse_from(&words) {
            Ok(typed) => Ok(Some(typed.command)),
            Err(error) => Err(explained(&words, &error)),
        }
    }

    /// What it is at any server, if it is that.
    pub(super) fn into_verb(self) -> Result<Verb, Self> {
        Ok(match self {
            Self::Info => Verb::Info,
            Self::Ping => Verb::Ping,
            Self::Tools(args) => Verb::Tools(args),
            Self::Call(args) => Verb::Call(args),
            Self::Prompts => Verb::Prompts,
            Self::Prompt(args) => Verb::Prompt(args),
            Self::Resources => Verb::Resources,
            Self::Read(args) => Verb::Read(args),
            Self::Templates => Verb::Templates,
            Self::Complete(args) => Verb::Complete(args),
            Self::Tasks(args) => Verb::Tasks(args),
            Self::Raw(args) => Verb::Raw(args),
            other => return Err(other),
        })
    }
}

/// The names of commands that begin so; those of other clients only if there is no other.
pub(super) fn names(begun: &str) -> Vec<String> {
    let definition = Typed::command();
    let own: Vec<String> = definition.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    if own.iter().any(|name| name.starts_with(begun)) {
        return own;
    }
    definition.get_subcommands().flat_map(clap::Command::get_visible_aliases).map(ToOwned::to_owned).collect()
}

/// The options of a command, by whichever of its names.
pub(super) fn options(name: &str) -> Vec<String> {
    let definition = Typed::command();
    let arguments = definition.find_subcommand(name).into_iter().flat_map(clap::Command::get_arguments);
    arguments.filter_map(clap::Arg::get_long).map(|long| format!("--{long}")).collect()
}

/// The commands, or how one of them is written.
pub(super) fn help(command: Option<&str>) -> Done<String> {
    let mut definition = Typed::command();
    let Some(name) = command else {
        return Ok(definition.render_help().to_string().trim_end().to_owned());
    };
    definition.build();
    match definition.find_subcommand_mut(name) {
        // The name of the whole stands before it, and is empty.
        Some(command) => Ok(command.render_long_help().to_string().trim_end().replace("Usage:  ", "Usage: ")),
        None => Err(unknown(name)),
    }
}

/// JSON may follow the name of a tool, or a method, as it is: without quotes around it.
fn with_json(line: &str) -> Option<Vec<String>> {
    let (before, _) = line.split_once('{')?;
    let mut words: Vec<String> = before.split_whitespace().map(ToOwned::to_owned).collect();
    let json = &line[before.len()..];
    let applies = words.len() == 2 && matches!(words[0].as_str(), "call" | "call_tool" | "raw");
    (applies && before.ends_with(char::is_whitespace)).then(|| {
        words.push(json.to_owned());
        words
    })
}

fn explained(words: &[String], error: &clap::Error) -> Failure {
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
    let usage = usage(name).map_or_else(String::new, |usage| format!("it is written `{usage}`; "));
    Failure::usage(message).hint(format!("{usage}`help {name}` tells more"))
}

/// How a command is written.
fn usage(name: &str) -> Option<String> {
    let mut definition = Typed::command();
    definition.build();
    let usage = definition.find_subcommand(name)?.clone().bin_name(name).render_usage().to_string();
    Some(usage.trim_start_matches("Usage:").trim().to_owned())
}

fn unknown(name: &str) -> Failure {
    let names = names("");
    Failure::usage(format!("there is no command {name:?}")).hint(
        match suggest::nearest(name, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near:?}?"),
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
    fn the_definitions_agree_with_themselves() {
        Typed::command().debug_assert();
    }

    #[test]
    fn every_name_of_the_other_clients_is_understood() {
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
    fn nothing_and_remarks_are_passed_over() {
        assert!(ShellCommand::parse("  ").unwrap().is_none());
        assert!(ShellCommand::parse("# call add").unwrap().is_none());
    }

    #[test]
    fn a_slip_is_explained() {
        let failure = ShellCommand::parse("tolls").unwrap_err();
        assert_eq!(failure.to_string(), "there is no command \"tolls\"");
        assert_eq!(failure.hints(), ["did you mean \"tools\"?"]);
        let failure = ShellCommand::parse("read").unwrap_err();
        assert_eq!(failure.to_string(), "read needs <URI>");
        assert_eq!(failure.hints(), ["it is written `read [OPTIONS] <URI>`; `help read` tells more"]);
        assert!(ShellCommand::parse("log loud").unwrap_err().to_string().contains("not a level"));
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
