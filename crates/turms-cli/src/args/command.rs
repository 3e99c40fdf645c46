use std::path::PathBuf;

use clap::Args;
use turms::types::LoggingLevel;

/// `demo`
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct DemoArgs {
    /// Over standard input and output
    #[arg(long)]
    pub(crate) stdio: bool,
    /// Over Streamable HTTP at an address such as 127.0.0.1:8080, or at a port of this machine
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http: Option<String>,
    /// Over WebSocket at an address
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) ws: Option<String>,
    /// Over HTTP+SSE, the transport of 2024-11-05, at an address
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) sse: Option<String>,
}

/// `tools`
#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    /// Only this tool, with its schemas
    pub(crate) name: Option<String>,
}

/// `call`
#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The tool
    pub(crate) name: String,
    /// Arguments: KEY=VALUE, where the tool's schema says what the value is, or KEY:=JSON; @FILE as a value is what the file
    /// holds
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) arguments: Vec<String>,
    /// A file with all arguments as a JSON object, sent as it is; `-` reads standard input
    #[arg(long, value_name = "FILE", conflicts_with = "arguments")]
    pub(crate) args_json: Option<PathBuf>,
    /// Do not wait: if the server makes a task of the call, print its id
    #[arg(long)]
    pub(crate) task: bool,
    /// Save images, audio and other binary content to this file, or into this folder; `-` is standard output
    #[arg(long, short, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
}

/// `tasks`
#[derive(Debug, Args)]
pub(crate) struct TasksArgs {
    /// The task; without one, all of them are listed
    pub(crate) id: Option<String>,
    /// Wait until it is over, and print what came of it
    #[arg(long, short, requires = "id")]
    pub(crate) wait: bool,
    /// Tell the server that nobody wants it any more
    #[arg(long, requires = "id", conflicts_with = "wait")]
    pub(crate) cancel: bool,
    /// Save images, audio and other binary content to this file, or into this folder; `-` is standard output
    #[arg(long, short, value_name = "PATH", requires = "id")]
    pub(crate) output: Option<PathBuf>,
}

/// `read`
#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    /// The resource
    pub(crate) uri: String,
    /// Save the content to this file, or into this folder, byte for byte; `-` is standard output
    #[arg(long, short, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
}

/// `prompt`
#[derive(Debug, Args)]
pub(crate) struct PromptArgs {
    /// The prompt
    pub(crate) name: String,
    /// Arguments, which are text; @FILE as a value is what the file holds
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) arguments: Vec<String>,
    /// Save images, audio and other binary content to this file, or into this folder; `-` is standard output
    #[arg(long, short, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
}

/// `complete`
#[derive(Debug, Args)]
pub(crate) struct CompleteArgs {
    /// A prompt by its name, or a template of resources by its URI
    #[arg(value_name = "PROMPT|TEMPLATE")]
    pub(crate) reference: String,
    /// The argument
    pub(crate) argument: String,
    /// What has been typed of it
    #[arg(default_value = "")]
    pub(crate) value: String,
    /// Another argument that is known already
    #[arg(long = "with", value_name = "KEY=VALUE")]
    pub(crate) known: Vec<String>,
}

/// `listen`
#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    /// Watch this resource, beside the lists
    #[arg(long, short, value_name = "URI")]
    pub(crate) resource: Vec<String>,
    /// Stop after so many changes
    #[arg(long, short = 'n', value_name = "NUMBER")]
    pub(crate) count: Option<usize>,
}

/// `log`
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// From which level on: debug, info, notice, warning, error, critical, alert or emergency
    #[arg(default_value = "debug", value_parser = parse_level)]
    pub(crate) level: LoggingLevel,
    /// Stop after so many messages
    #[arg(long, short = 'n', value_name = "NUMBER")]
    pub(crate) count: Option<usize>,
}

/// `raw`
#[derive(Debug, Args)]
pub(crate) struct RawArgs {
    /// The method, such as tools/list
    pub(crate) method: String,
    /// Its parameters; `@FILE` reads them from a file, `-` from standard input
    #[arg(value_name = "JSON")]
    pub(crate) params: Option<String>,
    /// Tell it as a notification, which has no answer
    #[arg(long)]
    pub(crate) notify: bool,
}

/// `servers`
#[derive(Debug, Args)]
pub(crate) struct ServersArgs {
    /// A configuration file, rather than those of other clients
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Vec<PathBuf>,
}

/// `completions`
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// `man`
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command; without one, the page about all of them
    pub(crate) command: Option<String>,
}

/// A level by its name.
pub(crate) fn parse_level(text: &str) -> Result<LoggingLevel, String> {
    let json = turms::proto::RawJson::string(text);
    json.decode().map_err(|_| {
        "not a level; there are debug, info, notice, warning, error, critical, alert and emergency".to_owned()
    })
}
