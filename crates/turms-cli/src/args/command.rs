use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use turms::types::LoggingLevel;

/// `tools`
#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    /// Show only this tool, with its schemas
    pub(crate) name: Option<String>,
}

/// `call`
#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// Name of the tool
    pub(crate) name: String,
    /// Arguments: KEY=VALUE, converted by the tool's schema, or KEY:=JSON; a value @FILE reads the file
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) arguments: Vec<String>,
    /// Read all arguments from a file with a JSON object, without checks; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "arguments")]
    pub(crate) args_json: Option<PathBuf>,
    /// Do not wait: if the call becomes a task, print the task id
    #[arg(long)]
    pub(crate) task: bool,
    /// Save images, audio and other binary content to this file or directory; `-` is standard output
    #[arg(long, short, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Make the call this number of times, and print failures and times in place of results
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["task", "output"])]
    pub(crate) repeat: Option<NonZeroUsize>,
    /// Maximum number of these calls at a time [default: 1]
    #[arg(long, value_name = "NUMBER", requires = "repeat")]
    pub(crate) parallel: Option<NonZeroUsize>,
}

/// `tasks`
#[derive(Debug, Args)]
pub(crate) struct TasksArgs {
    /// Id of the task; without one, list all tasks
    pub(crate) id: Option<String>,
    /// Wait until the task ends, and print its result
    #[arg(long, short, requires = "id")]
    pub(crate) wait: bool,
    /// Cancel the task
    #[arg(long, requires = "id", conflicts_with = "wait")]
    pub(crate) cancel: bool,
    /// Save images, audio and other binary content to this file or directory; `-` is standard output
    #[arg(long, short, value_name = "PATH", requires = "id")]
    pub(crate) output: Option<PathBuf>,
}

/// `read`
#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    /// URI of the resource
    pub(crate) uri: String,
    /// Save the content to this file or directory, byte for byte; `-` is standard output
    #[arg(long, short, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
}

/// `prompt`
#[derive(Debug, Args)]
pub(crate) struct PromptArgs {
    /// Name of the prompt
    pub(crate) name: String,
    /// Arguments: KEY=VALUE; a value @FILE reads the file
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) arguments: Vec<String>,
    /// Save images, audio and other binary content to this file or directory; `-` is standard output
    #[arg(long, short, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
}

/// `complete`
#[derive(Debug, Args)]
pub(crate) struct CompleteArgs {
    /// Name of a prompt, or URI of a resource template
    #[arg(value_name = "PROMPT|TEMPLATE")]
    pub(crate) reference: String,
    /// Name of the argument to complete
    pub(crate) argument: String,
    /// Beginning of its value
    #[arg(default_value = "")]
    pub(crate) value: String,
    /// Value of another argument
    #[arg(long = "with", value_name = "KEY=VALUE")]
    pub(crate) arguments: Vec<String>,
}

/// `listen`
#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    /// Subscribe to this resource, in addition to the lists
    #[arg(long, short, value_name = "URI")]
    pub(crate) resource: Vec<String>,
    /// Stop after this number of changes
    #[arg(long, short = 'n', value_name = "NUMBER")]
    pub(crate) count: Option<usize>,
}

/// `log`
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Minimum level: debug, info, notice, warning, error, critical, alert or emergency
    #[arg(default_value = "debug", value_parser = parse_level)]
    pub(crate) level: LoggingLevel,
    /// Stop after this number of messages
    #[arg(long, short = 'n', value_name = "NUMBER")]
    pub(crate) count: Option<usize>,
}

/// `raw`
#[derive(Debug, Args)]
pub(crate) struct RawArgs {
    /// Method, such as tools/list
    pub(crate) method: String,
    /// Parameters; `@FILE` reads them from a file, `-` from standard input
    #[arg(value_name = "JSON")]
    pub(crate) params: Option<String>,
    /// Send a notification, which has no response
    #[arg(long)]
    pub(crate) notify: bool,
}

/// `servers`
#[derive(Debug, Args)]
pub(crate) struct ServersArgs {
    /// Configuration file to read, instead of those of other clients
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Vec<PathBuf>,
}

/// `completions`
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell
    pub(crate) shell: clap_complete::Shell,
}

/// `man`
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Command, such as `call` or `auth login`; without one, print the main page
    pub(crate) command: Vec<String>,
}

/// Parses the name of a logging level.
pub(crate) fn parse_level(text: &str) -> Result<LoggingLevel, String> {
    let json = turms::types::RawJson::string(text);
    json.decode().map_err(|_| {
        "not a logging level; expected debug, info, notice, warning, error, critical, alert or emergency".to_owned()
    })
}
