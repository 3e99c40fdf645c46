//! Errors of the libraries, told to a person: what happened, on what, and what to try.

use std::error::Error;
use std::io;
use std::sync::Arc;

use http::StatusCode;
use turms::client::{CallError, CallErrorKind};
use turms::core::transport::SpawnError;
use turms::core::{ConnectError, Ended};
use turms::http::HttpError;
use turms::proto::session::OpenError;
use turms::proto::{ErrorCode, ErrorObject};
use turms::ws::WsConnectError;

use crate::exit::{Exit, Failure};
use crate::target::Target;

/// Why there is no connection.
pub(crate) fn connect(target: &Target, error: &ConnectError) -> Failure {
    let exit = match error {
        _ if status(error).is_some_and(is_authorization) => Exit::Unauthorized,
        _ if error.is_timeout() => Exit::Timeout,
        ConnectError::Refused(_) => Exit::Protocol,
        _ => Exit::Connect,
    };
    let failure = match error {
        ConnectError::Unreachable { .. } => unreachable(target, error),
        ConnectError::Rejected { .. } | ConnectError::Late { .. } => Failure::of(exit, error),
        _ => Failure::new(exit, format!("cannot connect to {target}: {error}")).caused_by(error.source()),
    };
    let failure = failure.hint_if(hint_for_connect(target, error));
    let failure = match error {
        ConnectError::Ended(ended) => said_to_stderr(failure, ended),
        _ => failure,
    };
    said_to_stdout(failure, target)
}

/// What the system says is worth more than what each library on the way says about it.
fn unreachable(target: &Target, error: &ConnectError) -> Failure {
    let failure = Failure::new(Exit::Connect, format!("cannot reach {target}"));
    match chain(error).find(|link| link.is::<io::Error>()) {
        Some(system) if !chain(error).any(|link| link.is::<SpawnError>()) => failure.caused_by(Some(system)),
        _ => failure.caused_by(error.source()),
    }
}

fn hint_for_connect(target: &Target, error: &ConnectError) -> Option<String> {
    if let Some(hint) = hint_for_any(error) {
        return Some(hint);
    }
    match (target, error) {
        (Target::Program { .. }, _) if !target.overheard().is_empty() => Some(
            "a server's standard output is for messages alone: is it an MCP server, and does it want to be told to use \
             standard input and output?"
                .to_owned(),
        ),
        (Target::Program { .. }, ConnectError::Ended(ended)) if ended.stderr.is_empty() => Some(
            "it ended before it said anything; start it by hand to see whether it needs arguments or variables (--env)"
                .to_owned(),
        ),
        (Target::Program { .. }, ConnectError::Ended(_)) => {
            Some("its own words above should tell why; variables are given with --env, its folder with --cwd".to_owned())
        }
        (Target::Program { .. }, _) if error.is_timeout() => Some(
            "is it a server that speaks MCP over standard input and output? -v shows what it writes to standard error, \
             --timeout gives it more time"
                .to_owned(),
        ),
        (Target::Url { .. }, _) if error.is_timeout() => {
            Some("is it an MCP server, and is the path right? --timeout gives it more time".to_owned())
        }
        (_, ConnectError::Refused(OpenError::NoCommonVersion { .. } | OpenError::OnlyOlder { .. })) => {
            Some("leave --protocol out, so that whatever the server speaks is spoken".to_owned())
        }
        (Target::Url { .. }, ConnectError::Rejected { .. }) => {
            Some("is the path right? MCP servers are often at /mcp, older ones at /sse with --transport sse".to_owned())
        }
        _ => None,
    }
}

/// Why a call has no result.
pub(crate) fn call(error: &CallError) -> Failure {
    let exit = match error.kind() {
        CallErrorKind::Unauthorized(_) => Exit::Unauthorized,
        _ if error.is_timeout() => Exit::Timeout,
        CallErrorKind::Cancelled => Exit::Interrupted,
        CallErrorKind::Unwritable(_) => Exit::Usage,
        _ if error.is_disconnected() => Exit::Connect,
        _ => Exit::Protocol,
    };
    let failure = Failure::of(exit, error).hint_if(hint_for_call(error));
    match error.kind() {
        CallErrorKind::Lost(ended) => said_to_stderr(failure, ended),
        _ => failure,
    }
}

fn hint_for_call(error: &CallError) -> Option<String> {
    if let Some(hint) = hint_for_any(error) {
        return Some(hint);
    }
    match error.kind() {
        CallErrorKind::TimedOut(_) => Some("--timeout SECONDS waits longer".to_owned()),
        CallErrorKind::Server(error) => hint_for_code(error),
        CallErrorKind::Question { .. } => Some(ANSWERS.to_owned()),
        CallErrorKind::Lost(_) => Some("-v shows what the server writes to its standard error".to_owned()),
        CallErrorKind::NotInRevision { .. } => {
            Some("`info` shows the revision that is spoken; --protocol legacy asks for an older one".to_owned())
        }
        _ => None,
    }
}

/// Questions are only declared where somebody can answer them.
pub(crate) const ANSWERS: &str = "questions are answered at a terminal, or from a file with --answers FILE";

fn hint_for_code(error: &ErrorObject) -> Option<String> {
    match error.code {
        ErrorCode::METHOD_NOT_FOUND => Some("the server does not offer this; `info` shows what it does".to_owned()),
        ErrorCode::MISSING_CLIENT_CAPABILITY => Some(ANSWERS.to_owned()),
        _ => None,
    }
}

/// What can be said of the system's own errors, wherever they stand in the chain.
fn hint_for_any(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(status) = status(error) {
        match status {
            StatusCode::UNAUTHORIZED => {
                return Some("give a token with --bearer TOKEN, or a header with --header \"NAME: VALUE\"".to_owned());
            }
            StatusCode::FORBIDDEN => {
                return Some(
                    "the server knows of this address or these credentials, and does not let them in".to_owned(),
                );
            }
            _ => {}
        }
    }
    for error in chain(error) {
        if error.downcast_ref::<SpawnError>().is_some_and(SpawnError::is_not_found) {
            return Some(
                "is it installed, and in PATH? a program in this folder is written with its path, such as ./server"
                    .to_owned(),
            );
        }
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            return Some("nobody listens there: is the server running, and is the port right?".to_owned());
        }
    }
    None
}

/// An error and all that caused it. What is shared stands behind an `Arc`, which is looked through.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let bare = |error: &'a (dyn Error + 'static)| match error.downcast_ref::<Arc<dyn Error + Send + Sync>>() {
        Some(inner) => &**inner as &(dyn Error + 'static),
        None => error,
    };
    std::iter::successors(Some(bare(error)), move |&error: &&'a (dyn Error + 'static)| error.source().map(bare))
}

/// The HTTP status that the server answered with, if it is an error.
fn status(error: &(dyn Error + 'static)) -> Option<StatusCode> {
    chain(error).find_map(|error| match (error.downcast_ref::<HttpError>(), error.downcast_ref::<WsConnectError>()) {
        (Some(HttpError::NothingUnderstood(tried)), _) => tried.iter().find_map(|(_, error)| error.status()),
        (Some(error), _) => error.status(),
        (_, Some(WsConnectError::Refused { status, .. })) => Some(*status),
        _ => None,
    })
}

fn is_authorization(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// The last words of a program, all of them: its message names only the last line.
fn said_to_stderr(failure: Failure, ended: &Ended) -> Failure {
    match ended.stderr.len() {
        0 | 1 => failure,
        _ => failure.because(format!("it wrote to its standard error:\n    {}", ended.stderr.join("\n    "))),
    }
}

/// What a program wrote where only messages belong: it is often why it is not understood.
fn said_to_stdout(failure: Failure, target: &Target) -> Failure {
    match target.overheard() {
        lines if lines.is_empty() => failure,
        lines => failure.because(format!("it wrote to its standard output:\n    {}", lines.join("\n    "))),
    }
}
