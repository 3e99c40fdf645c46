use std::error::Error;
use std::io;

use turms::ProtocolVersion;
use turms::http::{DialError, HttpError};
use turms::transport::{ConnectError, OpenError, SpawnError};
use turms::ws::WsError;

use super::authorization::{authorization_error, hint_for_challenge, oauth_error};
use super::{
    PROXY_CREDENTIALS, cause, chain, close_reason, hint_for_status, is_authorization, login_source, status, too_large,
    with_stderr,
};
use crate::error::{CliError, ExitStatus};
use crate::target::CliTarget;

/// Converts the error of a connection attempt.
pub(crate) fn connect_error(target: &CliTarget, error: &ConnectError) -> CliError {
    if let Some(error) = oauth_error(error) {
        return authorization_error(error, login_source(target));
    }
    let failure = CliError::new(exit(error), message(target, error));
    let failure = match error {
        ConnectError::Unreachable { .. } => unreachable(failure, error),
        _ => match cause::<HttpError>(error) {
            Some(HttpError::TooLarge(limit)) => failure.because(too_large(*limit)),
            _ => failure.caused_by(error.source()),
        },
    };
    let failure = failure.hint_if(hint(target, error));
    let failure = match error {
        ConnectError::Closed(ended) => with_stderr(failure, ended),
        _ => failure,
    };
    with_stray_output(failure, target)
}

fn exit(error: &ConnectError) -> ExitStatus {
    match error {
        ConnectError::Unauthorized { .. } => ExitStatus::Unauthorized,
        _ if status(error).is_some_and(is_authorization) => ExitStatus::Unauthorized,
        _ if error.is_timeout() => ExitStatus::Timeout,
        ConnectError::Negotiation(_) => ExitStatus::Protocol,
        ConnectError::Rejected { .. } if is_not_mcp(error) => ExitStatus::Protocol,
        _ => ExitStatus::Connect,
    }
}

/// Returns the message. It shows the path of a URL, which is the most frequent mistake.
fn message(target: &CliTarget, error: &ConnectError) -> String {
    match error {
        ConnectError::Unreachable { .. } => format!("cannot reach {target}"),
        ConnectError::Rejected { .. } if is_not_mcp(error) => {
            format!("{target} did not send a valid MCP response")
        }
        ConnectError::Rejected { .. } => format!("{target} rejected the connection"),
        ConnectError::Unauthorized { .. } => format!("cannot connect to {target}: not authorized"),
        ConnectError::Timeout { limit, .. } => {
            format!("cannot connect to {target}: no response within {}", crate::show::duration(*limit))
        }
        ConnectError::Closed(ended) => {
            format!("cannot connect to {target}: {}", close_reason(ended, "before the connection was open"))
        }
        _ => format!("cannot connect to {target}: {error}"),
    }
}

/// Returns `true` if the server responded with something other than an MCP message.
fn is_not_mcp(error: &ConnectError) -> bool {
    let is = |error: &HttpError| {
        matches!(
            error,
            HttpError::ContentType { .. } | HttpError::Message(_) | HttpError::TooLarge(_) | HttpError::NoEndpoint
        )
    };
    cause::<HttpError>(error).is_some_and(is)
}

/// Adds the cause of an unreachable server. The error of the system says more than those of the libraries around it.
fn unreachable(failure: CliError, error: &ConnectError) -> CliError {
    if let Some(scheme) = cause::<HttpError>(error).filter(|error| matches!(error, HttpError::Scheme { .. })) {
        return failure.because(scheme.to_string());
    }
    if let Some(spawned) = cause::<SpawnError>(error) {
        // "no such program" says more than the system's "no such file or directory".
        let system = if spawned.is_not_found() { None } else { spawned.source() };
        return failure.because(spawned.to_string()).caused_by(system);
    }
    if let Some(dialed @ DialError::Proxy(source)) = cause::<DialError>(error) {
        return failure.because(dialed.to_string()).caused_by(Some(&**source));
    }
    match chain(error).find(|link| link.is::<io::Error>()) {
        Some(system) => failure.caused_by(Some(system)),
        None => failure.caused_by(error.source()),
    }
}

/// Hint for a refused connection.
pub(super) const CONNECTION_REFUSED_HINT: &str = "is the server running, and is the port right?";

/// Hint for a certificate that is not accepted.
pub(super) const CERTIFICATE_HINT: &str =
    "the certificate is not trusted, or is for another host; --ca-file adds a certificate authority";

/// Hint for a host name that cannot be resolved.
pub(super) const UNKNOWN_HOST_HINT: &str = "is the host name right, and is the network up?";

const PROXY_HINT: &str = "is the proxy right? it is set by --proxy, HTTPS_PROXY, HTTP_PROXY or ALL_PROXY; `--proxy none` connects without one";

const PATH_HINT: &str =
    "is the path right? MCP servers are often at /mcp, HTTP+SSE servers at /sse (with --transport sse)";

fn hint(target: &CliTarget, error: &ConnectError) -> Option<String> {
    if let Some(spawned) = cause::<SpawnError>(error) {
        return hint_for_spawning(target, spawned).map(ToOwned::to_owned);
    }
    let hint = match target {
        CliTarget::Program { .. } => hint_for_program(target, error),
        CliTarget::Url { .. } => match hint_for_challenge(target, error) {
            Some(hint) => return Some(hint),
            None => hint_for_address(error),
        },
        CliTarget::Demo => None,
    };
    match (hint, error) {
        (Some(hint), _) => Some(hint.to_owned()),
        (None, ConnectError::Negotiation(error)) => hint_for_versions(error).map(ToOwned::to_owned),
        (None, _) => cause::<HttpError>(error).and_then(hint_for_redirect),
    }
}

fn hint_for_spawning(target: &CliTarget, error: &SpawnError) -> Option<&'static str> {
    let is_several_words = matches!(target, CliTarget::Program { program, .. } if program.contains(' '));
    match error {
        SpawnError::NotFound { .. } if is_several_words => {
            Some("give the program and its arguments as separate words, not in one pair of quotes")
        }
        SpawnError::NotFound { .. } => {
            Some("is it installed, and in PATH? a program in the current directory needs its path, such as ./server")
        }
        SpawnError::Refused { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => Some(
            "is it executable? make a script executable with `chmod +x`, or run it with its interpreter, as in `-- python3 server.py`",
        ),
        _ => None,
    }
}

fn hint_for_program(target: &CliTarget, error: &ConnectError) -> Option<&'static str> {
    match error {
        _ if !target.stray_output().is_empty() => Some(
            "standard output must only contain MCP messages: is it an MCP server, and does it need an option to use \
             standard input and output?",
        ),
        ConnectError::Closed(ended) if ended.stderr.is_empty() => Some(
            "it wrote nothing to standard error; start it by hand to see whether it needs arguments or variables (--env)",
        ),
        ConnectError::Closed(_) => {
            Some("see its standard error for the reason; --env sets variables, --cwd the working directory")
        }
        _ if error.is_timeout() => Some(
            "is it an MCP server that uses standard input and output? -v shows its standard error, --timeout SECONDS sets a \
             longer timeout",
        ),
        _ => None,
    }
}

fn hint_for_address(error: &ConnectError) -> Option<&'static str> {
    if let Some(hint) = status(error).and_then(hint_for_status) {
        return Some(hint);
    }
    if let Some(DialError::Proxy(source)) = cause::<DialError>(error) {
        // hyper-util has no type for it.
        let needs_credentials = source.to_string().contains("authorization required");
        return Some(if needs_credentials { PROXY_CREDENTIALS } else { PROXY_HINT });
    }
    match error {
        _ if error.is_timeout() => {
            Some("is it an MCP server, and is the path right? --timeout SECONDS sets a longer timeout")
        }
        _ if chain(error).any(is_refusal) => Some(CONNECTION_REFUSED_HINT),
        _ if cause::<WsError>(error).is_some_and(|error| matches!(error, WsError::Tls { .. })) => Some(
            "does the server use TLS, with a trusted certificate? --ca-file adds a certificate authority; without TLS, use ws://",
        ),
        _ if chain(error).any(is_certificate) => Some(CERTIFICATE_HINT),
        _ if chain(error).any(is_unknown_host) => Some(UNKNOWN_HOST_HINT),
        ConnectError::Rejected { .. } if cause::<HttpError>(error).and_then(hint_for_redirect).is_none() => {
            Some(PATH_HINT)
        }
        _ => None,
    }
}

fn hint_for_redirect(error: &HttpError) -> Option<String> {
    match error {
        HttpError::Redirect { to, .. } => Some(format!("if you trust {to}, connect to it directly")),
        _ => None,
    }
}

fn hint_for_versions(error: &OpenError) -> Option<&'static str> {
    match error {
        OpenError::NoCommonVersion { ours, .. } if ours.len() == ProtocolVersion::ALL.len() => {
            Some("the server and this command have no common revision; try another version of either")
        }
        OpenError::NoCommonVersion { .. } | OpenError::OnlyOlder { .. } => {
            Some("omit --protocol to use any revision that the server supports")
        }
        _ => None,
    }
}

pub(super) fn is_refusal(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Matches the text of rustls: its error type is not reachable here.
pub(super) fn is_certificate(error: &(dyn Error + 'static)) -> bool {
    error.to_string().contains("invalid peer certificate")
}

/// Matches the text of the standard library, which has no `ErrorKind` for it.
pub(super) fn is_unknown_host(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.to_string().contains("lookup address"))
}

/// Adds the lines of a program's standard output that are not messages: often they are the reason.
fn with_stray_output(failure: CliError, target: &CliTarget) -> CliError {
    match target.stray_output() {
        lines if lines.is_empty() => failure,
        lines => failure.because(format!("the server wrote to standard output:\n    {}", lines.join("\n    "))),
    }
}
