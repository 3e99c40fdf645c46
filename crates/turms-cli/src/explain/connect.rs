use std::error::Error;
use std::io;

use turms::core::ConnectError;
use turms::core::transport::SpawnError;
use turms::http::{DialError, HttpError};
use turms::proto::ProtocolVersion;
use turms::proto::session::OpenError;
use turms::ws::WsConnectError;

use super::{
    Credentials, PROXY_CREDENTIALS, cause, chain, ending, hint_for_status, is_authorization, said_to_stderr, status,
    too_long,
};
use crate::error::{Exit, Failure};
use crate::target::Target;

/// Why there is no connection.
pub(crate) fn connect(target: &Target, error: &ConnectError) -> Failure {
    let failure = Failure::new(exit(error), message(target, error));
    let failure = match error {
        ConnectError::Unreachable { .. } => unreachable(failure, error),
        _ => match cause::<HttpError>(error) {
            Some(HttpError::TooLong(limit)) => failure.because(too_long(*limit)),
            _ => failure.caused_by(error.source()),
        },
    };
    let failure = failure.hint_if(hint(target, error));
    let failure = match error {
        ConnectError::Ended(ended) => said_to_stderr(failure, ended),
        _ => failure,
    };
    said_to_stdout(failure, target)
}

fn exit(error: &ConnectError) -> Exit {
    match error {
        _ if status(error).is_some_and(is_authorization) => Exit::Unauthorized,
        _ if error.is_timeout() => Exit::Timeout,
        ConnectError::Refused(_) => Exit::Protocol,
        ConnectError::Rejected { .. } if is_no_answer(error) => Exit::Protocol,
        _ => Exit::Connect,
    }
}

/// Of addresses all of the path is told: it is what is wrong most often.
fn message(target: &Target, error: &ConnectError) -> String {
    match error {
        ConnectError::Unreachable { .. } => format!("cannot reach {target}"),
        ConnectError::Rejected { .. } if is_no_answer(error) => {
            format!("{target} does not answer as an MCP server does")
        }
        ConnectError::Rejected { .. } => format!("{target} turned the connection down"),
        ConnectError::Late { limit, .. } => format!("{target} was not ready within {}", crate::show::seconds(*limit)),
        ConnectError::Ended(ended) => {
            format!("cannot connect to {target}: {}", ending(ended, "before the connection was open"))
        }
        _ => format!("cannot connect to {target}: {error}"),
    }
}

/// Whether the server was there, and what it answered means nothing.
fn is_no_answer(error: &ConnectError) -> bool {
    let is = |error: &HttpError| {
        matches!(
            error,
            HttpError::ContentType { .. } | HttpError::Message(_) | HttpError::TooLong(_) | HttpError::NoEndpoint
        )
    };
    cause::<HttpError>(error).is_some_and(is)
}

/// What the system says is worth more than what each library on the way says about it.
fn unreachable(failure: Failure, error: &ConnectError) -> Failure {
    if let Some(spoken) = cause::<HttpError>(error).filter(|error| matches!(error, HttpError::Scheme { .. })) {
        return failure.because(spoken.to_string());
    }
    if let Some(spawned) = cause::<SpawnError>(error) {
        // That there is no such program says more than that there is no such file or directory.
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

/// For those to whom nobody listens.
pub(super) const NOBODY: &str = "nobody listens there: is the server running, and is the port right?";

const PROXY: &str = "is the proxy right? it comes from --proxy, HTTPS_PROXY, HTTP_PROXY or ALL_PROXY; `--proxy none` connects without one";

const PATH: &str = "is the path right? MCP servers are often at /mcp, older ones at /sse with --transport sse";

fn hint(target: &Target, error: &ConnectError) -> Option<String> {
    if let Some(spawned) = cause::<SpawnError>(error) {
        return hint_for_spawning(target, spawned).map(ToOwned::to_owned);
    }
    let hint = match target {
        Target::Program { .. } => hint_for_program(target, error),
        Target::Url { .. } => hint_for_address(target, error),
        Target::Demo => None,
    };
    match (hint, error) {
        (Some(hint), _) => Some(hint.to_owned()),
        (None, ConnectError::Refused(error)) => hint_for_versions(error).map(ToOwned::to_owned),
        (None, _) => cause::<HttpError>(error).and_then(hint_for_redirect),
    }
}

fn hint_for_spawning(target: &Target, error: &SpawnError) -> Option<&'static str> {
    let is_several_words = matches!(target, Target::Program { program, .. } if program.contains(' '));
    match error {
        SpawnError::NotFound { .. } if is_several_words => {
            Some("the program and each of its arguments are words of their own: without quotes around all of them")
        }
        SpawnError::NotFound { .. } => {
            Some("is it installed, and in PATH? a program in this folder is written with its path, such as ./server")
        }
        SpawnError::Refused { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => Some(
            "is it a program? a script is made one by `chmod +x`, or comes after its interpreter, as in `-- python3 server.py`",
        ),
        _ => None,
    }
}

fn hint_for_program(target: &Target, error: &ConnectError) -> Option<&'static str> {
    match error {
        _ if !target.overheard().is_empty() => Some(
            "a server's standard output is for messages alone: is it an MCP server, and does it want to be told to use \
             standard input and output?",
        ),
        ConnectError::Ended(ended) if ended.stderr.is_empty() => {
            Some("it said nothing before that; start it by hand to see whether it needs arguments or variables (--env)")
        }
        ConnectError::Ended(_) => {
            Some("its own words should tell why; variables are given with --env, its folder with --cwd")
        }
        _ if error.is_timeout() => Some(
            "is it a server that speaks MCP over standard input and output? -v shows what it writes to standard error, \
             --timeout gives it more time",
        ),
        _ => None,
    }
}

fn hint_for_address(target: &Target, error: &ConnectError) -> Option<&'static str> {
    let credentials = if target.has_credentials() { Credentials::Given } else { Credentials::None };
    if let Some(hint) = status(error).and_then(|status| hint_for_status(status, credentials)) {
        return Some(hint);
    }
    if let Some(DialError::Proxy(source)) = cause::<DialError>(error) {
        // hyper-util has no type for it.
        let wants_credentials = source.to_string().contains("authorization required");
        return Some(if wants_credentials { PROXY_CREDENTIALS } else { PROXY });
    }
    match error {
        _ if error.is_timeout() => Some("is it an MCP server, and is the path right? --timeout gives it more time"),
        _ if chain(error).any(is_refusal) => Some(NOBODY),
        _ if cause::<WsConnectError>(error).is_some_and(|error| matches!(error, WsConnectError::Tls { .. })) => Some(
            "does it speak TLS, with a certificate that this machine trusts? --ca-file adds an authority; without TLS an address begins with ws://",
        ),
        _ if chain(error).any(is_certificate) => Some(
            "its certificate is none that this machine trusts, or is for another host; --ca-file adds an authority",
        ),
        _ if chain(error).any(is_unknown_host) => Some("is the name of the host right, and is there a network?"),
        ConnectError::Rejected { .. } if cause::<HttpError>(error).and_then(hint_for_redirect).is_none() => Some(PATH),
        _ => None,
    }
}

fn hint_for_redirect(error: &HttpError) -> Option<String> {
    match error {
        HttpError::Redirect { to, .. } => Some(format!("if you trust it, connect to the address at {to} itself")),
        _ => None,
    }
}

fn hint_for_versions(error: &OpenError) -> Option<&'static str> {
    match error {
        OpenError::NoCommonVersion { ours, .. } if ours.len() == ProtocolVersion::ALL.len() => {
            Some("the server is older or newer than this command; is there another version of either?")
        }
        OpenError::NoCommonVersion { .. } | OpenError::OnlyOlder { .. } => {
            Some("leave --protocol out, so that whatever the server speaks is spoken")
        }
        _ => None,
    }
}

pub(super) fn is_refusal(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// The words are those of the library that checks certificates, and stand nowhere else.
fn is_certificate(error: &(dyn Error + 'static)) -> bool {
    error.to_string().contains("invalid peer certificate")
}

/// The system has no kind of error for it.
fn is_unknown_host(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.to_string().contains("lookup address"))
}

/// What a program wrote where only messages belong: it is often why it is not understood.
fn said_to_stdout(failure: Failure, target: &Target) -> Failure {
    match target.overheard() {
        lines if lines.is_empty() => failure,
        lines => failure.because(format!("it wrote to its standard output:\n    {}", lines.join("\n    "))),
    }
}
