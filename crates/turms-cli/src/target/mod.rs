//! What was typed about a server, and what it means.

mod configured_servers;
mod dial_settings;
mod header;
mod recorded_results;
mod stray_output;
mod trace_connector;

use std::fmt;
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use turms::client::{ChildCommand, Target as Entry};
use turms::core::transport::LocalConnector;
use turms::core::{Connector, UrlTransport};
use turms::http::HttpConnector;
use turms::ws::WsConnector;

pub(crate) use self::configured_servers::{Catalogue, Known, is_program};
use self::dial_settings::DialSettings;
pub(crate) use self::recorded_results::Record;
use self::stray_output::Overheard;
use crate::args::{ServerArgs, ServerOptions};
use crate::demo;
use crate::error::{Done, Exit, Failure};
use crate::printer::{Printer, Verbosity};
use crate::text::Text;

/// A server that can be connected to.
pub(crate) enum Target {
    /// The one that is built in, in this process.
    Demo,
    /// At an address.
    Url { url: String, headers: HeaderMap, transport: UrlTransport, dial: DialSettings },
    /// In a program to be started.
    Program { program: String, command: ChildCommand, overheard: Overheard },
}

impl Target {
    /// Finds out what was meant.
    pub(crate) fn resolve(args: &ServerArgs) -> Done<Self> {
        let options = &args.options;
        if let Some((program, rest)) = args.program.split_first() {
            // Typed like a command of the shell, so it is given the environment of the shell.
            let command = ChildCommand::new(program).args(rest).inherit_env();
            return Self::program(program, command, options);
        }
        match args.target.as_deref() {
            None => Err(Failure::usage("no server was named").hint("name one, or put a program to start after `--`")),
            Some("demo") => {
                only_for_addresses(options, "the demo server")?;
                only_for_programs(options, "the demo server")?;
                Ok(Self::Demo)
            }
            Some(url) if url.contains("://") => Self::address(url.to_owned(), HeaderMap::new(), None, options),
            Some(name) => Self::named(name, options),
        }
    }

    fn program(program: &str, command: ChildCommand, options: &ServerOptions) -> Done<Self> {
        only_for_addresses(options, &format!("the program {program:?}"))?;
        let command = with_options(command, options)?;
        Ok(Self::Program { program: program.to_owned(), command, overheard: Overheard::default() })
    }

    fn address(url: String, headers: HeaderMap, stated: Option<UrlTransport>, options: &ServerOptions) -> Done<Self> {
        let scheme = url.split("://").next().unwrap_or_default().to_ascii_lowercase();
        let is_socket = match scheme.as_str() {
            "http" | "https" => false,
            "ws" | "wss" => true,
            _ => {
                return Err(Failure::usage(format!("there is no way to an address that begins with {scheme}://"))
                    .hint("addresses of servers begin with http://, https://, ws:// or wss://"));
            }
        };
        let rest = &url[scheme.len() + "://".len()..];
        if rest.is_empty() || rest.starts_with(['/', '?', '#']) || rest.contains(char::is_whitespace) {
            return Err(Failure::usage(format!("{url:?} is not an address"))
                .hint("an address has a host, and no spaces, such as http://127.0.0.1:8080/mcp"));
        }
        let transport = match (options.transport, is_socket) {
            (Some(_), true) => {
                return Err(Failure::usage("--transport is about http:// addresses")
                    .hint(format!("a {scheme}:// address is always spoken to over WebSocket")));
            }
            (None, true) => UrlTransport::WebSocket,
            (Some(choice), false) => choice.into(),
            (None, false) => stated.unwrap_or_default(),
        };
        only_for_programs(options, &without_secrets(&url))?;
        let headers = header::merged(headers, options)?;
        Ok(Self::Url { url, headers, transport, dial: DialSettings::read(options)? })
    }

    fn named(name: &str, options: &ServerOptions) -> Done<Self> {
        let known = Catalogue::read(&options.config)?.find(name)?;
        match known.target {
            Entry::Command { program, args, env, cwd, .. } => {
                let mut command = ChildCommand::new(&program).args(args);
                for (name, value) in env {
                    command = match value {
                        Some(value) => command.env(name, value),
                        None => command.env_remove(name),
                    };
                }
                if let Some(cwd) = cwd {
                    command = command.cwd(cwd);
                }
                Self::program(&program, command, options)
            }
            Entry::Url { url, headers, transport, .. } => Self::address(url, headers, Some(transport), options),
            _ => Err(Failure::usage(format!("server {name:?}: its kind is not known here"))),
        }
    }

    /// What connects to it. What it writes to its standard error, and what is said on the way, is told to those who want to
    /// know.
    pub(crate) fn connector(&self, printer: &Printer, record: &Record) -> Done<Arc<dyn Connector>> {
        let connector: Arc<dyn Connector> = match self {
            Self::Demo => {
                let router = demo::server().build().map_err(|error| Failure::of(Exit::Failure, &error))?;
                Arc::new(LocalConnector::new(router))
            }
            Self::Url { url, headers, transport: UrlTransport::WebSocket, dial } => {
                let connector = WsConnector::new(url).map_err(|error| Failure::of(Exit::Usage, &error))?;
                Arc::new(dial.ws(connector.headers(headers.clone())))
            }
            Self::Url { url, headers, transport, dial } => {
                let connector = HttpConnector::new(url).map_err(|error| Failure::of(Exit::Usage, &error))?;
                Arc::new(dial.http(connector.headers(headers.clone()).transport(*transport)))
            }
            Self::Program { command, overheard, .. } => {
                let (printer, overheard) = (printer.clone(), overheard.clone());
                let command = command.clone().on_stdout(move |bytes| overheard.hear(bytes)).on_stderr(move |line| {
                    printer.detail(Verbosity::Talkative, Text::new().faint("server: ").plain(line));
                });
                Arc::new(command)
            }
        };
        let is_watched = printer.tells(Verbosity::Trace) || printer.is_json();
        Ok(if is_watched { trace_connector::watched(connector, printer.clone(), record.clone()) } else { connector })
    }

    /// Whether it is there without us.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Url { .. })
    }

    /// What it wrote to its standard output that is no message, if it is a program.
    pub(crate) fn overheard(&self) -> Vec<String> {
        match self {
            Self::Program { overheard, .. } => overheard.lines(),
            Self::Demo | Self::Url { .. } => Vec::new(),
        }
    }

    /// Whether it is given any, and of the usual kind.
    pub(crate) fn has_credentials(&self) -> bool {
        matches!(self, Self::Url { headers, .. } if headers.contains_key(AUTHORIZATION))
    }

    /// How it is spoken to.
    pub(crate) fn transport(&self) -> &'static str {
        match self {
            Self::Demo => "in process",
            Self::Program { .. } => "stdio",
            Self::Url { transport: UrlTransport::WebSocket, .. } => "WebSocket",
            Self::Url { transport: UrlTransport::Sse, .. } => "HTTP+SSE",
            Self::Url { .. } => "HTTP",
        }
    }
}

/// Without secrets: of an address, only what it leads to; of a program, only its name.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Demo => f.write_str("the demo server"),
            Self::Program { program, .. } => write!(f, "the program {program:?}"),
            Self::Url { url, .. } => f.write_str(&without_secrets(url)),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An address without user, password, query and fragment.
pub(crate) fn without_secrets(url: &str) -> String {
    let bare = url.split(['?', '#']).next().unwrap_or_default();
    match bare.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
            let host = authority.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}{path}")
        }
        None => bare.to_owned(),
    }
}

/// A token and a file of certificates may come from the environment, which is there for all commands.
fn only_for_addresses(options: &ServerOptions, target: &str) -> Done {
    let given = [
        ("--header", !options.header.is_empty()),
        ("--transport", options.transport.is_some()),
        ("--proxy", options.proxy.is_some()),
    ];
    refuse(&given, "is for addresses", target)
}

fn only_for_programs(options: &ServerOptions, target: &str) -> Done {
    let given = [("--env", !options.env.is_empty()), ("--cwd", options.cwd.is_some())];
    refuse(&given, "is for programs that are started", target)
}

fn refuse(given: &[(&str, bool)], what: &str, target: &str) -> Done {
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Failure::usage(format!("{option} {what}, and {target} is none"))),
        None => Ok(()),
    }
}

fn with_options(mut command: ChildCommand, options: &ServerOptions) -> Done<ChildCommand> {
    for variable in &options.env {
        let Some((name, value)) = variable.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(Failure::usage("--env: a variable is written NAME=VALUE"));
        };
        command = command.env(name, value);
    }
    Ok(match &options.cwd {
        Some(directory) => command.cwd(directory),
        None => command,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(target: &str) -> Done<Target> {
        Target::resolve(&ServerArgs { target: Some(target.to_owned()), ..ServerArgs::default() })
    }

    #[test]
    fn an_address_is_told_by_its_scheme() {
        assert!(matches!(resolve("demo"), Ok(Target::Demo)));
        let Ok(Target::Url { transport, .. }) = resolve("wss://example.com") else { panic!() };
        assert_eq!(transport, UrlTransport::WebSocket);
        let Err(failure) = resolve("ftp://example.com") else { panic!() };
        assert_eq!(failure.message(), "there is no way to an address that begins with ftp://");
    }

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        assert_eq!(without_secrets("https://ann:pw@example.com:1/mcp?key=1#x"), "https://example.com:1/mcp");
        assert_eq!(without_secrets("http://a?b=@c"), "http://a");
    }
}
