use turms::client::{
    CallError, CallErrorKind, ClosedCause, DecodeCause, InputCause, TaskCause, TimeoutCause, UnsupportedCause,
};
use turms::proto::{ErrorCode, ErrorObject};

use super::{Credentials, chain, ending, hint_for_status, said_to_stderr, status, too_long};
use crate::error::{Exit, Failure};
use crate::show;

/// Questions are only declared where somebody can answer them.
pub(crate) const ANSWERS: &str = "questions are answered at a terminal, or from a file with --answers FILE";

/// Why a call has no result.
pub(crate) fn call(error: &CallError) -> Failure {
    let exit = match error.kind() {
        CallErrorKind::Unauthorized(_) => Exit::Unauthorized,
        _ if error.is_timeout() => Exit::Timeout,
        CallErrorKind::Cancelled => Exit::Interrupted,
        CallErrorKind::Encode(_) => Exit::Usage,
        _ if error.is_disconnected() => Exit::Connect,
        _ => Exit::Protocol,
    };
    let failure = Failure::new(exit, message(error)).caused_by(std::error::Error::source(error)).hint_if(hint(error));
    match error.kind() {
        CallErrorKind::Closed(ClosedCause::Lost(ended)) => said_to_stderr(failure, ended),
        CallErrorKind::ErrorResponse(object) => failure.answered(object),
        _ => failure,
    }
}

fn message(error: &CallError) -> String {
    let subject = error.target();
    // Whether it has run only matters where that changes something.
    let ran = if error.may_have_run() && subject.starts_with("tools/call") { "; it may have run" } else { "" };
    match error.kind() {
        CallErrorKind::Timeout(TimeoutCause::Response(limit)) => {
            format!("{subject}: no answer within {}{ran}", show::seconds(*limit))
        }
        CallErrorKind::Timeout(TimeoutCause::MaxDuration(limit)) => {
            format!("{subject}: no answer within {} in all{ran}", show::seconds(*limit))
        }
        CallErrorKind::Decode(DecodeCause::TooLarge { limit }) => {
            format!("{subject}: {}{ran}", too_long(*limit))
        }
        CallErrorKind::Closed(ClosedCause::Lost(ended)) => {
            format!("{subject}: {}{ran}", ending(ended, "before it answered"))
        }
        CallErrorKind::ErrorResponse(ErrorObject { data: Some(data), .. }) => {
            format!("{subject}: {}\n  with the data {}", error.kind(), show::beginning(data.as_str(), 1000))
        }
        CallErrorKind::Task(TaskCause::NotFound { .. }) | CallErrorKind::Task(TaskCause::Cancelled { .. }) => {
            format!("{subject}: {}", error.kind())
        }
        _ => error.to_string(),
    }
}

fn hint(error: &CallError) -> Option<&'static str> {
    if let Some(hint) = status(error).and_then(|status| hint_for_status(status, Credentials::None)) {
        return Some(hint);
    }
    match error.kind() {
        CallErrorKind::Timeout(TimeoutCause::Response(_)) => Some("--timeout SECONDS waits longer"),
        CallErrorKind::Timeout(TimeoutCause::MaxDuration(_)) => Some("--max-time SECONDS waits longer in all"),
        CallErrorKind::ErrorResponse(error) => hint_for_code(error),
        CallErrorKind::Input(InputCause::Refused { reason, .. }) if reason.contains("not filled in right") => {
            Some("the form in the file of answers does not fit what the server asks for")
        }
        CallErrorKind::Input(InputCause::Refused { .. }) => Some(ANSWERS),
        CallErrorKind::Closed(ClosedCause::Lost(ended)) if ended.stderr.is_empty() => {
            Some("start it by hand to see why")
        }
        CallErrorKind::Closed(ClosedCause::Lost(_)) => {
            Some("-v shows all that the server writes to its standard error")
        }
        CallErrorKind::Unsupported(UnsupportedCause::Revision { .. }) => {
            Some("`info` shows the revision that is spoken; --protocol legacy asks for an older one")
        }
        _ if chain(error).any(super::connect::is_refusal) => Some(super::connect::NOBODY),
        _ => None,
    }
}

fn hint_for_code(error: &ErrorObject) -> Option<&'static str> {
    match error.code {
        ErrorCode::METHOD_NOT_FOUND => Some("the server does not offer this; `info` shows what it does"),
        ErrorCode::MISSING_CLIENT_CAPABILITY => Some(ANSWERS),
        _ => None,
    }
}
