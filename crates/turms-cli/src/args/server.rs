//! The server of a command and how to connect to it, as typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use turms::ProtocolVersion;
use turms::client::VersionChoice;
use turms::transport::TransportKind;

use super::auth::{ClientOptions, NetworkOptions, ProfileOptions, is_set};

/// Environment variable with the bearer token for servers that have no other credentials.
pub(crate) const BEARER: &str = "TURMS_BEARER";

/// The server that a command runs against, and the connection options. Either the target or the program is given.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerArgs {
    /// A URL, a name from a configuration file, or `demo`.
    pub(crate) target: Option<String>,
    /// The program to start, and its arguments.
    pub(crate) program: Vec<String>,
    pub(crate) options: ServerOptions,
}

/// Arguments of a command that runs against a server.
#[derive(Debug, Args)]
pub(crate) struct WithServer<A: Args = NoArgs> {
    /// Server: a URL, a name from a configuration file, or `demo`
    #[arg(required = true)]
    target: Option<String>,
    #[command(flatten)]
    pub(crate) args: A,
    /// Program to start as the server, with its arguments, in place of TARGET
    #[arg(last = true)]
    program: Vec<String>,
    #[command(flatten)]
    options: ServerOptions,
}

/// No further arguments.
#[derive(Debug, Args)]
pub(crate) struct NoArgs {}

impl<A: Args> WithServer<A> {
    /// Splits into the server and the arguments of the command.
    pub(crate) fn split(self) -> (ServerArgs, A) {
        let Self { target, args, program, options } = self;
        (ServerArgs { target, program, options }, args)
    }
}

impl ServerArgs {
    /// The demo server, with default options.
    pub(crate) fn demo() -> Self {
        Self { target: Some("demo".to_owned()), ..Self::default() }
    }
}

/// Connection options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerOptions {
    /// Transport for an http:// or https:// URL; detected if not given
    #[arg(long, value_name = "KIND")]
    pub(crate) transport: Option<TransportChoice>,
    /// Header to send with every request
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    #[command(flatten)]
    pub(crate) network: NetworkOptions,
    /// Environment variable for the program
    #[arg(long, short = 'e', value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// Working directory of the program
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Timeout for a response, renewed by progress; for `listen` and `log`, timeout for the next message
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, allow_negative_numbers = true)]
    pub(crate) timeout: Option<Duration>,
    /// Timeout for a response that progress does not renew [default: 3600]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, allow_negative_numbers = true)]
    pub(crate) max_time: Option<Duration>,
    /// Protocol revision: auto, modern (stateless), legacy (with handshake), or a date such as 2025-11-25
    #[arg(long, value_name = "REVISION", default_value = "auto", value_parser = parse_protocol)]
    pub(crate) protocol: ProtocolChoice,
    /// Configuration file for NAME, instead of those of other clients
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Vec<PathBuf>,
    /// File or directory to offer to the server as a root
    #[arg(long, value_name = "PATH")]
    pub(crate) root: Vec<String>,
    /// JSON file with answers to the server's input requests (elicitation and sampling)
    ///
    /// It holds an object: {"form": {"name": "Ann"}, "url": "accept", "sampling": "Paris"}. Each value may be a list of
    /// answers, which are used in order. "decline" and "cancel" are answers to a form or a URL.
    #[arg(long, value_name = "FILE")]
    pub(crate) answers: Option<PathBuf>,
    /// Bearer token to send with every request; `@FILE` reads it from a file
    #[arg(long, value_name = "TOKEN", env = BEARER, hide_env_values = true, allow_hyphen_values = true, help_heading = "Authorization")]
    pub(crate) bearer: Option<String>,
    #[command(flatten)]
    pub(crate) profile: ProfileOptions,
    #[command(flatten)]
    pub(crate) client: ClientOptions,
}

impl ServerOptions {
    /// Returns the options that another command needs to reach the same server at its URL. Secrets are replaced by `...`, and values of
    /// environment variables are left out.
    pub(crate) fn repeated(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
        if let Some(transport) = self.transport {
            add("--transport", if transport == TransportChoice::Sse { "sse" } else { "http" }.to_owned());
        }
        for header in &self.header {
            add("--header", format!("{}: ...", header.split(':').next().unwrap_or_default()));
        }
        if let Some(token) = self.bearer.as_deref().filter(|token| !is_set(BEARER, token)) {
            add("--bearer", if token.starts_with('@') { token } else { "..." }.to_owned());
        }
        words.extend(self.profile.repeated());
        words.extend(self.client.repeated());
        words.extend(self.network.repeated());
        let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
        for (option, time) in [("--timeout", self.timeout), ("--max-time", self.max_time)] {
            if let Some(time) = time {
                add(option, time.as_secs_f64().to_string());
            }
        }
        match self.protocol.0 {
            VersionChoice::Stateless => add("--protocol", "modern".to_owned()),
            VersionChoice::Handshake => add("--protocol", "legacy".to_owned()),
            VersionChoice::Only(version) => add("--protocol", version.to_string()),
            _ => {}
        }
        self.config.iter().for_each(|file| add("--config", file.display().to_string()));
        self.root.iter().for_each(|root| add("--root", root.clone()));
        self.answers.iter().for_each(|file| add("--answers", file.display().to_string()));
        words
    }
}

/// Transport for an `http://` or `https://` URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TransportChoice {
    /// Streamable HTTP
    Http,
    /// HTTP+SSE, the transport of 2024-11-05
    Sse,
}

impl From<TransportChoice> for TransportKind {
    fn from(choice: TransportChoice) -> Self {
        match choice {
            TransportChoice::Http => Self::StreamableHttp,
            TransportChoice::Sse => Self::HttpSse,
        }
    }
}

/// Allowed protocol revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ProtocolChoice(pub(crate) VersionChoice);

fn parse_protocol(text: &str) -> Result<ProtocolChoice, String> {
    let choice = match text {
        "auto" => VersionChoice::Auto,
        "modern" => VersionChoice::Stateless,
        "legacy" => VersionChoice::Handshake,
        version => VersionChoice::Only(version.parse().map_err(|_| {
            let versions = ProtocolVersion::ALL.map(ProtocolVersion::as_str).join(", ");
            format!("not a protocol revision; expected auto, modern, legacy, {versions}")
        })?),
    };
    Ok(ProtocolChoice(choice))
}

pub(super) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if seconds < 0.0 {
        return Err("must be greater than 0".to_owned());
    }
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| "too large".to_owned())?;
    if duration.is_zero() { Err("must be greater than 0".to_owned()) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_a_name_or_a_date() {
        assert_eq!(parse_protocol("modern").unwrap().0, VersionChoice::Stateless);
        assert_eq!(parse_protocol("2025-06-18").unwrap().0, VersionChoice::Only(ProtocolVersion::V2025_06_18));
        assert!(parse_protocol("2025").unwrap_err().contains("2024-11-05"));
    }

    #[test]
    fn options_are_repeated_without_secrets() {
        let options = ServerOptions {
            header: vec!["X-Key: secret".to_owned()],
            bearer: Some("secret".to_owned()),
            network: NetworkOptions { proxy: Some("http://ann:secret@proxy:3128".to_owned()), ca_file: None },
            profile: ProfileOptions { profile: Some("work".to_owned()), allow_private_network: false },
            client: ClientOptions {
                client_id: Some("robot".to_owned()),
                client_secret: Some("secret".to_owned()),
                scope: vec!["a:b".to_owned()],
                ..ClientOptions::default()
            },
            timeout: Some(Duration::from_millis(500)),
            protocol: parse_protocol("2025-11-25").unwrap(),
            answers: Some("answers.json".into()),
            ..ServerOptions::default()
        };
        let expected = "--header X-Key: ... --bearer ... --profile work --client-id robot --client-secret ... \
                        --scope a:b --proxy http://proxy:3128 --timeout 0.5 --protocol 2025-11-25 --answers answers.json";
        assert_eq!(options.repeated().join(" "), expected);
        assert!(ServerOptions::default().repeated().is_empty());
    }

    #[test]
    fn a_timeout_is_greater_than_zero() {
        assert_eq!(parse_seconds("0.5").unwrap(), Duration::from_millis(500));
        for wrong in ["0", "-1", "soon", "inf"] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
    }
}
