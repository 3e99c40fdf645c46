//! Resolves the server of a command.

mod authorization;
mod configured_servers;
mod dial_settings;
mod header;
mod recorded_results;
mod stray_output;
mod trace_connector;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use http::HeaderMap;
use turms::client::{ChildCommand, ServerTarget as Entry};
use turms::http::HttpConnector;
use turms::oauth::OAuth;
use turms::transport::{Connector, LocalConnector, TransportKind};
use turms::ws::WsConnector;

pub(crate) use self::authorization::{
    UrlCredentials, http_url, login_hint, new_oauth, read_secret, resource_parameter, scopes,
};
pub(crate) use self::configured_servers::{ConfiguredServer, ConfiguredServers, is_program};
pub(crate) use self::dial_settings::DialSettings;
pub(crate) use self::recorded_results::RecordedResults;
use self::stray_output::StrayOutput;
use crate::args::{NetworkOptions, ProfileOptions, ServerArgs, ServerOptions};
use crate::demo;
use crate::error::{CliError, CliResult, ExitStatus};
use crate::printer::{Printer, Verbosity};
use crate::session::quote;
use crate::text::StyledText;

/// The server of a command.
pub(crate) enum CliTarget {
    /// The built-in demo server, in this process.
    Demo,
    /// A server at a URL.
    Url { url: String, headers: HeaderMap, transport: TransportKind, dial: DialSettings, credentials: UrlCredentials },
    /// A program to start.
    Program { program: String, command: ChildCommand, stray_output: StrayOutput },
}

impl CliTarget {
    /// Resolves the arguments.
    pub(crate) fn resolve(args: &ServerArgs) -> CliResult<Self> {
        let options = &args.options;
        if let Some((program, rest)) = args.program.split_first() {
            // Like a command in a shell, it inherits the environment.
            let command = ChildCommand::new(program).args(rest).inherit_env();
            return Self::program(program, command, options);
        }
        match args.target.as_deref() {
            None => Err(CliError::usage("no server given").hint("give a TARGET, or a program to start after `--`")),
            Some("demo") => {
                reject_url_options(options, "the demo server")?;
                reject_program_options(options, "the demo server")?;
                Ok(Self::Demo)
            }
            Some(url) if url.contains("://") => {
                let name = without_secrets(url);
                Self::url(url.to_owned(), &name, HeaderMap::new(), None, options)
            }
            Some(name) => Self::named(name, options),
        }
    }

    fn program(program: &str, command: ChildCommand, options: &ServerOptions) -> CliResult<Self> {
        reject_url_options(options, &format!("the program {program:?}"))?;
        let command = with_options(command, options)?;
        Ok(Self::Program { program: program.to_owned(), command, stray_output: StrayOutput::default() })
    }

    /// `name` is the name of the server for other commands.
    fn url(
        url: String,
        name: &str,
        headers: HeaderMap,
        stated: Option<TransportKind>,
        options: &ServerOptions,
    ) -> CliResult<Self> {
        let scheme = check_url(&url)?;
        let is_websocket = scheme.starts_with("ws");
        let transport = match (options.transport, is_websocket) {
            (Some(_), true) => {
                return Err(CliError::usage("--transport is for http:// and https:// URLs")
                    .hint(format!("a {scheme}:// URL always uses WebSocket")));
            }
            (None, true) => TransportKind::WebSocket,
            (Some(choice), false) => choice.into(),
            (None, false) => stated.unwrap_or_default(),
        };
        reject_program_options(options, &without_secrets(&url))?;
        let headers = header::merge(headers, options)?;
        let dial = DialSettings::read(&options.network)?;
        let login_command = login_command(name, &options.config, &options.network, &options.profile);
        let client = (&options.profile, &options.client);
        let credentials = UrlCredentials::new(&url, &headers, &dial, client, login_command)?;
        Ok(Self::Url { url, headers, transport, dial, credentials })
    }

    fn named(name: &str, options: &ServerOptions) -> CliResult<Self> {
        let entry = ConfiguredServers::read(&options.config)?.find(name)?;
        match entry.target {
            Entry::Command { program, args, env, cwd, .. } => {
                let mut command = ChildCommand::new(&program).args(args);
                for (name, value) in env {
                    command = match value {
                        Some(value) => command.env(name, value),
                        None => command.env_remove(name),
                    };
                }
                if let Some(cwd) = cwd {
                    command = command.current_dir(cwd);
                }
                Self::program(&program, command, options)
            }
            Entry::Url { url, headers, transport, .. } => Self::url(url, name, headers, Some(transport), options),
            _ => Err(CliError::usage(format!("server {name:?}: unknown kind of server"))),
        }
    }

    /// Returns the source of tokens for requests to a URL: the stored login, or that of client credentials.
    pub(crate) async fn authorizer(&self, printer: &Printer) -> CliResult<Option<OAuth>> {
        match self.credentials() {
            Some(credentials) => credentials.authorizer(printer).await,
            None => Ok(None),
        }
    }

    /// Returns a connector. The printer gets the server's standard error, and its messages with `-vvv`.
    pub(crate) fn connector(
        &self,
        printer: &Printer,
        record: &RecordedResults,
        authorizer: Option<OAuth>,
    ) -> CliResult<Arc<dyn Connector>> {
        let connector: Arc<dyn Connector> = match self {
            Self::Demo => {
                let router = demo::server().build().map_err(|error| CliError::of(ExitStatus::Failure, &error))?;
                Arc::new(LocalConnector::new(router))
            }
            Self::Url { url, headers, transport: TransportKind::WebSocket, dial, .. } => {
                let connector = WsConnector::new(url).map_err(|error| CliError::of(ExitStatus::Usage, &error))?;
                let connector = connector.headers(headers.clone());
                Arc::new(dial.ws(authorizer.into_iter().fold(connector, WsConnector::authorizer)))
            }
            Self::Url { url, headers, transport, dial, .. } => {
                let connector = HttpConnector::new(url).map_err(|error| CliError::of(ExitStatus::Usage, &error))?;
                let connector = connector.headers(headers.clone()).transport(*transport);
                Arc::new(dial.http(authorizer.into_iter().fold(connector, HttpConnector::authorizer)))
            }
            Self::Program { command, stray_output, .. } => {
                let (printer, stray_output) = (printer.clone(), stray_output.clone());
                let command = command.clone().on_stdout(move |bytes| stray_output.push(bytes)).on_stderr(move |line| {
                    printer.detail(Verbosity::Verbose, StyledText::new().dim("server: ").plain(line));
                });
                Arc::new(command)
            }
        };
        let is_traced = printer.shows(Verbosity::Trace) || printer.is_json();
        Ok(if is_traced { trace_connector::traced(connector, printer.clone(), record.clone()) } else { connector })
    }

    /// Returns `true` if the server runs independently of this command.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self, Self::Url { .. })
    }

    /// Returns the lines of a program's standard output that are not messages.
    pub(crate) fn stray_output(&self) -> Vec<String> {
        match self {
            Self::Program { stray_output, .. } => stray_output.lines(),
            Self::Demo | Self::Url { .. } => Vec::new(),
        }
    }

    /// Returns the credentials of requests to a URL.
    pub(crate) fn credentials(&self) -> Option<&UrlCredentials> {
        match self {
            Self::Url { credentials, .. } => Some(credentials),
            Self::Demo | Self::Program { .. } => None,
        }
    }

    /// Returns the name of the transport.
    pub(crate) fn transport(&self) -> &'static str {
        match self {
            Self::Demo => "in process",
            Self::Program { .. } => "stdio",
            Self::Url { transport: TransportKind::WebSocket, .. } => "WebSocket",
            Self::Url { transport: TransportKind::HttpSse, .. } => "HTTP+SSE",
            Self::Url { .. } => "HTTP",
        }
    }
}

/// Shows no secrets: a URL without credentials and query, a program without arguments.
impl fmt::Display for CliTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Demo => f.write_str("the demo server"),
            Self::Program { program, .. } => write!(f, "the program {program:?}"),
            Self::Url { url, .. } => f.write_str(&without_secrets(url)),
        }
    }
}

impl fmt::Debug for CliTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns a URL without user, password, query and fragment.
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

/// Checks the form of a URL, and returns its scheme in lower case.
fn check_url(url: &str) -> CliResult<String> {
    let scheme = url.split("://").next().unwrap_or_default().to_ascii_lowercase();
    if !matches!(scheme.as_str(), "http" | "https" | "ws" | "wss") {
        return Err(CliError::usage(format!("unsupported URL scheme {scheme}://"))
            .hint("URLs of servers begin with http://, https://, ws:// or wss://"));
    }
    let rest = &url[scheme.len() + "://".len()..];
    if rest.is_empty() || rest.starts_with(['/', '?', '#']) || rest.contains(char::is_whitespace) {
        return Err(CliError::usage(format!("{url:?} is not a valid URL"))
            .hint("a URL has a host and no spaces, such as http://127.0.0.1:8080/mcp"));
    }
    Ok(scheme)
}

/// Returns the URL of a server with logins, with the scheme of HTTP: of a URL, or of a name in a configuration file.
pub(crate) fn login_url(target: &str, config: &[PathBuf]) -> CliResult<String> {
    let url = match target {
        "demo" => {
            return Err(CliError::usage("the built-in demo server needs no login")
                .hint("`turms demo --http 8080 --auth` serves one that does"));
        }
        url if url.contains("://") => url.to_owned(),
        name => match ConfiguredServers::read(config)?.find(name)?.target {
            Entry::Url { url, .. } => url,
            _ => {
                return Err(
                    CliError::usage(format!("server {name:?} is a program")).hint("only servers at a URL have logins")
                );
            }
        },
    };
    check_url(&url)?;
    Ok(http_url(&url))
}

/// Returns `true` if the configuration of a server has a header `Authorization`. A URL has no configuration.
pub(crate) fn has_header(target: &str, config: &[PathBuf]) -> CliResult<bool> {
    if target.contains("://") {
        return Ok(false);
    }
    let target = ConfiguredServers::read(config)?.find(target)?.target;
    Ok(matches!(target, Entry::Url { headers, .. } if headers.contains_key(http::header::AUTHORIZATION)))
}

/// Returns the command that logs in to a server, which is a URL without secrets or a name.
pub(crate) fn login_command(
    name: &str,
    config: &[PathBuf],
    network: &NetworkOptions,
    profile: &ProfileOptions,
) -> String {
    let config = config.iter().flat_map(|file| ["--config".to_owned(), file.display().to_string()]);
    let words = std::iter::once(name.to_owned()).chain(profile.repeated()).chain(network.repeated()).chain(config);
    words.fold("turms auth login".to_owned(), |line, word| line + " " + &quote(&word))
}

/// Rejects options for URLs. Not `--bearer` and `--ca-file`, which may come from the environment.
fn reject_url_options(options: &ServerOptions, target: &str) -> CliResult {
    let given = [
        ("--header", !options.header.is_empty()),
        ("--transport", options.transport.is_some()),
        ("--proxy", options.network.proxy.is_some()),
        ("--profile", options.profile.profile.is_some()),
        ("--client-id", options.client.is_typed()),
    ];
    reject_options(&given, "is only for URLs", target)
}

/// Rejects options for programs.
fn reject_program_options(options: &ServerOptions, target: &str) -> CliResult {
    let given = [("--env", !options.env.is_empty()), ("--cwd", options.cwd.is_some())];
    reject_options(&given, "is only for programs", target)
}

fn reject_options(given: &[(&str, bool)], what: &str, target: &str) -> CliResult {
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(CliError::usage(format!("{option} {what}, not for {target}"))),
        None => Ok(()),
    }
}

fn with_options(mut command: ChildCommand, options: &ServerOptions) -> CliResult<ChildCommand> {
    for variable in &options.env {
        let Some((name, value)) = variable.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(CliError::usage("--env: expected NAME=VALUE"));
        };
        command = command.env(name, value);
    }
    Ok(match &options.cwd {
        Some(directory) => command.current_dir(directory),
        None => command,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(target: &str) -> CliResult<CliTarget> {
        CliTarget::resolve(&ServerArgs { target: Some(target.to_owned()), ..ServerArgs::default() })
    }

    #[test]
    fn the_scheme_selects_the_transport() {
        assert!(matches!(resolve("demo"), Ok(CliTarget::Demo)));
        let Ok(CliTarget::Url { transport, .. }) = resolve("wss://example.com") else { panic!() };
        assert_eq!(transport, TransportKind::WebSocket);
        let Err(failure) = resolve("ftp://example.com") else { panic!() };
        assert_eq!(failure.message(), "unsupported URL scheme ftp://");
    }

    #[test]
    fn a_url_is_shown_without_secrets() {
        assert_eq!(without_secrets("https://ann:pw@example.com:1/mcp?key=1#x"), "https://example.com:1/mcp");
        assert_eq!(without_secrets("http://a?b=@c"), "http://a");
    }
}
