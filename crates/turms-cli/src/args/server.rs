use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use turms::client::VersionChoice;
use turms::core::UrlTransport;
use turms::proto::ProtocolVersion;

/// The variable that has a token for servers about which nothing else is said.
pub(crate) const BEARER: &str = "TURMS_BEARER";

/// The variable that names a file of certificates.
const CA_FILE: &str = "TURMS_CA_FILE";

/// Which server, and how to speak to it. The same for every command.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerArgs {
    pub(crate) target: Option<String>,
    pub(crate) program: Vec<String>,
    pub(crate) options: ServerOptions,
}

/// A server, and what to do there.
#[derive(Debug, Args)]
pub(crate) struct On<A: Args = Nothing> {
    /// The server: a URL, a name from a configuration file, or `demo`
    #[arg(required = true)]
    target: Option<String>,
    #[command(flatten)]
    pub(crate) args: A,
    /// A program to start as the server, and its arguments; there is no TARGET then
    #[arg(last = true)]
    program: Vec<String>,
    #[command(flatten)]
    options: ServerOptions,
}

/// No further arguments.
#[derive(Debug, Args)]
pub(crate) struct Nothing {}

impl<A: Args> On<A> {
    /// The server, and what to do there, apart from each other.
    pub(crate) fn split(self) -> (ServerArgs, A) {
        let Self { target, args, program, options } = self;
        (ServerArgs { target, program, options }, args)
    }
}

impl ServerArgs {
    /// Without anything said about it.
    pub(crate) fn demo() -> Self {
        Self { target: Some("demo".to_owned()), ..Self::default() }
    }
}

/// How to speak to the server.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerOptions {
    /// How to speak to an http:// address, if the server cannot be asked
    #[arg(long, value_name = "KIND")]
    pub(crate) transport: Option<TransportChoice>,
    /// A header for every request
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// A bearer token for every request; `@FILE` reads it from a file
    #[arg(long, value_name = "TOKEN", env = BEARER, hide_env_values = true)]
    pub(crate) bearer: Option<String>,
    /// A proxy for addresses, in place of HTTPS_PROXY and the like: http://USER:PASSWORD@HOST:PORT, or none; `@FILE` reads it from a file
    #[arg(long, value_name = "URL")]
    pub(crate) proxy: Option<String>,
    /// A file of certificates in PEM that are trusted beside those of the system
    #[arg(long, value_name = "FILE", env = CA_FILE)]
    pub(crate) ca_file: Option<PathBuf>,
    /// A variable for the environment of the program
    #[arg(long, short = 'e', value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// The folder to start the program in
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// How long to wait for an answer, or for what is listened to, in seconds; progress renews it
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, allow_negative_numbers = true)]
    pub(crate) timeout: Option<Duration>,
    /// How long to wait for an answer in all, whatever progress is reported, in seconds [default: 3600]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, allow_negative_numbers = true)]
    pub(crate) max_time: Option<Duration>,
    /// The revision to speak: auto, modern, legacy, or one such as 2025-11-25
    #[arg(long, value_name = "REVISION", default_value = "auto", value_parser = parse_protocol)]
    pub(crate) protocol: ProtocolChoice,
    /// A configuration file to look names up in, rather than those of other clients
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Vec<PathBuf>,
    /// A file or folder that the server may know of
    #[arg(long, value_name = "PATH")]
    pub(crate) root: Vec<String>,
    /// A file with answers to what the server asks: forms, pages, the model
    ///
    /// It is written as a JSON object: {"form": {"name": "Ann"}, "url": "accept", "sampling": "Paris"}. Each may be a list
    /// of answers, which are given one after another, and "decline" or "cancel" says no to a form or a page.
    #[arg(long, value_name = "FILE")]
    pub(crate) answers: Option<PathBuf>,
}

/// How to speak to an `http://` address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TransportChoice {
    /// Streamable HTTP
    Http,
    /// HTTP+SSE, the transport of 2024-11-05
    Sse,
}

impl From<TransportChoice> for UrlTransport {
    fn from(choice: TransportChoice) -> Self {
        match choice {
            TransportChoice::Http => Self::StreamableHttp,
            TransportChoice::Sse => Self::Sse,
        }
    }
}

/// Which revisions may be spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ProtocolChoice(pub(crate) VersionChoice);

fn parse_protocol(text: &str) -> Result<ProtocolChoice, String> {
    let choice = match text {
        "auto" => VersionChoice::Auto,
        "modern" => VersionChoice::Stateless,
        "legacy" => VersionChoice::Handshake,
        version => VersionChoice::Only(version.parse().map_err(|_| {
            let known = ProtocolVersion::ALL.map(ProtocolVersion::as_str).join(", ");
            format!("not a revision of the protocol; there are auto, modern, legacy, {known}")
        })?),
    };
    Ok(ProtocolChoice(choice))
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if seconds < 0.0 {
        return Err("nobody can wait for less than no time".to_owned());
    }
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| "not a time that can be waited for".to_owned())?;
    if duration.is_zero() { Err("too short to be answered in".to_owned()) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_have_names_and_dates() {
        assert_eq!(parse_protocol("modern").unwrap().0, VersionChoice::Stateless);
        assert_eq!(parse_protocol("2025-06-18").unwrap().0, VersionChoice::Only(ProtocolVersion::V2025_06_18));
        assert!(parse_protocol("2025").unwrap_err().contains("2024-11-05"));
    }

    #[test]
    fn a_time_is_more_than_nothing() {
        assert_eq!(parse_seconds("0.5").unwrap(), Duration::from_millis(500));
        for wrong in ["0", "-1", "soon", "inf"] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
    }
}
