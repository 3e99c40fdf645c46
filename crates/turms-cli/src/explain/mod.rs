//! Converts errors of the libraries to [`CliError`]: the message, its causes, and hints.

mod authorization;
mod call;
mod connect;

use std::error::Error;
use std::sync::Arc;

use http::StatusCode;
use turms::http::HttpError;
use turms::transport::CloseInfo;
use turms::ws::WsError;

pub(crate) use self::authorization::{LoginSource, authorization_error};
pub(crate) use self::call::{ANSWERS_HINT, call_error};
pub(crate) use self::connect::connect_error;
use crate::error::CliError;
use crate::target::{CliTarget, UrlCredentials};

/// Iterates over an error and its sources. Errors in an `Arc` are unwrapped.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let bare = |error: &'a (dyn Error + 'static)| match error.downcast_ref::<Arc<dyn Error + Send + Sync>>() {
        Some(inner) => &**inner as &(dyn Error + 'static),
        None => error,
    };
    std::iter::successors(Some(bare(error)), move |&error: &&'a (dyn Error + 'static)| error.source().map(bare))
}

/// Returns the first error of type `E` among an error and its sources.
pub(crate) fn cause<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    chain(error).find_map(|error| error.downcast_ref())
}

/// Returns the HTTP status of an error response.
fn status(error: &(dyn Error + 'static)) -> Option<StatusCode> {
    chain(error).find_map(|error| match (error.downcast_ref::<HttpError>(), error.downcast_ref::<WsError>()) {
        (Some(HttpError::NoCommonTransport(tried)), _) => tried.iter().find_map(|(_, error)| error.status()),
        (Some(error), _) => error.status(),
        (_, Some(WsError::Refused { status, .. })) => Some(*status),
        _ => None,
    })
}

fn is_authorization(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// Returns a hint for an HTTP status.
fn hint_for_status(status: StatusCode) -> Option<&'static str> {
    match status {
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => Some(PROXY_CREDENTIALS),
        StatusCode::TOO_MANY_REQUESTS => Some("too many requests: try again later"),
        status if status.is_server_error() => Some("the server failed: its log should tell why"),
        _ => None,
    }
}

/// Hint for a proxy that requires credentials.
const PROXY_CREDENTIALS: &str = "the proxy requires credentials: put them into its URL, http://USER:PASSWORD@HOST:PORT, with --proxy, HTTPS_PROXY or HTTP_PROXY";

/// Returns the source of the tokens for a target.
fn login_source(target: &CliTarget) -> LoginSource<'_> {
    let credentials = target.credentials();
    LoginSource {
        command: credentials.filter(|credentials| !credentials.is_program()).map(UrlCredentials::login_command),
        has_client: credentials.is_some_and(UrlCredentials::is_program),
    }
}

/// Returns the message for a response that exceeds the limit. Unlike that of the library, it names no setting: the command has
/// none.
fn too_large(limit: usize) -> String {
    format!("the response is larger than {limit} bytes, the maximum of this command")
}

/// Describes how the connection closed, with the last line of the server's standard error if there is only one.
fn close_reason(ended: &CloseInfo, before: &str) -> String {
    match ended.stderr.as_slice() {
        [_, _, ..] => CloseInfo::clone(ended).stderr(Vec::new()).before(before),
        _ => ended.before(before),
    }
}

/// Adds the last lines of a program's standard error, if there is more than one.
fn with_stderr(failure: CliError, ended: &CloseInfo) -> CliError {
    match ended.stderr.len() {
        0 | 1 => failure,
        _ => failure.because(format!("standard error of the server:\n    {}", ended.stderr.join("\n    "))),
    }
}
