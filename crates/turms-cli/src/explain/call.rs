use turms::ErrorObject;
use turms::client::{
    CallError, CallErrorKind, ClosedCause, DecodeCause, InputCause, TaskCause, TimeoutCause, UnsupportedCause,
};
use turms::jsonrpc::ErrorCode;
use turms::transport::ConnectError;

use super::authorization::{authorization_error, hint_for_challenge, hint_for_forbidden, missing_scopes, oauth_error};
use super::{cause, chain, close_reason, hint_for_status, login_source, status, too_large, with_stderr};
use crate::error::{CliError, ExitStatus};
use crate::show;
use crate::target::CliTarget;

/// Hint for a tool that needs input requests, which the client only declares if they can be answered.
pub(crate) const ANSWERS_HINT: &str =
    "the server requests input: run the command at a terminal, or give answers with --answers FILE";

/// Converts the error of a call.
pub(crate) fn call_error(target: &CliTarget, error: &CallError) -> CliError {
    if let Some(error) = oauth_error(error) {
        return authorization_error(error, login_source(target));
    }
    let exit = match error.kind() {
        CallErrorKind::Unauthorized(_) => ExitStatus::Unauthorized,
        CallErrorKind::ErrorResponse(object) if missing_scopes(object).is_some() => ExitStatus::Unauthorized,
        _ if matches!(cause(error), Some(ConnectError::Unauthorized { .. })) => ExitStatus::Unauthorized,
        _ if error.is_timeout() => ExitStatus::Timeout,
        CallErrorKind::Cancelled => ExitStatus::Interrupted,
        CallErrorKind::Encode(_) => ExitStatus::Usage,
        _ if error.is_disconnected() => ExitStatus::Connect,
        _ => ExitStatus::Protocol,
    };
    let login_hint = match error.kind() {
        CallErrorKind::ErrorResponse(object) => hint_for_forbidden(target, object),
        _ => hint_for_challenge(target, error),
    };
    let hint = login_hint.or_else(|| hint(error).map(ToOwned::to_owned));
    let failure = CliError::new(exit, message(error)).caused_by(std::error::Error::source(error)).hint_if(hint);
    match error.kind() {
        CallErrorKind::Closed(ClosedCause::Lost(ended)) => with_stderr(failure, ended),
        CallErrorKind::ErrorResponse(object) => failure.error_response(object),
        _ => failure,
    }
}

fn message(error: &CallError) -> String {
    let target = error.target();
    // Only tools have side effects.
    let ran = if error.may_have_run() && target.starts_with("tools/call") { "; the call may have run" } else { "" };
    match error.kind() {
        CallErrorKind::Timeout(TimeoutCause::Response(limit)) => {
            format!("{target}: no response within {}{ran}", show::duration(*limit))
        }
        CallErrorKind::Timeout(TimeoutCause::MaxDuration(limit)) => {
            format!("{target}: no response within {} in total{ran}", show::duration(*limit))
        }
        CallErrorKind::Decode(DecodeCause::TooLarge { limit }) => {
            format!("{target}: {}{ran}", too_large(*limit))
        }
        CallErrorKind::Closed(ClosedCause::Lost(ended)) => {
            format!("{target}: {}{ran}", close_reason(ended, "before the response"))
        }
        CallErrorKind::ErrorResponse(ErrorObject { data: Some(data), .. }) => {
            format!("{target}: {}\n  data: {}", error.kind(), show::truncate(data.as_str(), 1000))
        }
        CallErrorKind::Task(TaskCause::NotFound { .. }) | CallErrorKind::Task(TaskCause::Cancelled { .. }) => {
            format!("{target}: {}", error.kind())
        }
        _ => error.to_string(),
    }
}

fn hint(error: &CallError) -> Option<&'static str> {
    if let Some(hint) = status(error).and_then(hint_for_status) {
        return Some(hint);
    }
    match error.kind() {
        CallErrorKind::Timeout(TimeoutCause::Response(_)) => Some("--timeout SECONDS sets a longer timeout"),
        CallErrorKind::Timeout(TimeoutCause::MaxDuration(_)) => Some("--max-time SECONDS sets a longer timeout"),
        CallErrorKind::ErrorResponse(error) => hint_for_code(error),
        CallErrorKind::Input(InputCause::InvalidForm { .. }) => {
            Some("the form in the answers file does not match the server's schema")
        }
        CallErrorKind::Input(InputCause::Refused { .. }) => Some(ANSWERS_HINT),
        CallErrorKind::Closed(ClosedCause::Lost(ended)) if ended.stderr.is_empty() => {
            Some("start the server by hand to see why")
        }
        CallErrorKind::Closed(ClosedCause::Lost(_)) => Some("-v shows the server's standard error"),
        CallErrorKind::Unsupported(UnsupportedCause::Revision { .. }) => {
            Some("`info` shows the protocol revision; --protocol legacy requests an older one")
        }
        _ if chain(error).any(super::connect::is_refusal) => Some(super::connect::CONNECTION_REFUSED_HINT),
        _ => None,
    }
}

fn hint_for_code(error: &ErrorObject) -> Option<&'static str> {
    match error.code {
        ErrorCode::METHOD_NOT_FOUND => Some("the server does not support this method; `info` shows its capabilities"),
        ErrorCode::MISSING_CLIENT_CAPABILITY => Some(ANSWERS_HINT),
        _ => None,
    }
}
