//! Errors of the libraries, told to a person: what happened, on what, and what to try.

mod call;
mod connect;

use std::error::Error;
use std::sync::Arc;

use http::StatusCode;
use turms::core::Ended;
use turms::http::HttpError;
use turms::ws::WsConnectError;

pub(crate) use self::call::{ANSWERS, call};
pub(crate) use self::connect::connect;
use crate::error::Failure;

/// An error and all that caused it. What is shared stands behind an `Arc`, which is looked through.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let bare = |error: &'a (dyn Error + 'static)| match error.downcast_ref::<Arc<dyn Error + Send + Sync>>() {
        Some(inner) => &**inner as &(dyn Error + 'static),
        None => error,
    };
    std::iter::successors(Some(bare(error)), move |&error: &&'a (dyn Error + 'static)| error.source().map(bare))
}

/// The first of a kind among an error and its causes.
pub(crate) fn cause<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    chain(error).find_map(|error| error.downcast_ref())
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

/// What can be said of a status, whatever was asked.
fn hint_for_status(status: StatusCode, credentials: Credentials) -> Option<&'static str> {
    match (status, credentials) {
        (StatusCode::UNAUTHORIZED, Credentials::Given) => {
            Some("have the credentials expired, or are they for another server?")
        }
        (StatusCode::UNAUTHORIZED, _) => {
            Some("give a token with --bearer TOKEN, or a header with --header \"NAME: VALUE\"")
        }
        (StatusCode::FORBIDDEN, _) => {
            Some("the server knows of this address or these credentials, and does not let them in")
        }
        (StatusCode::PROXY_AUTHENTICATION_REQUIRED, _) => Some(PROXY_CREDENTIALS),
        (StatusCode::TOO_MANY_REQUESTS, _) => Some("the server is asked too often: try again in a while"),
        (status, _) if status.is_server_error() => Some("the fault is at the server, whose own log should say more"),
        _ => None,
    }
}

/// For proxies that want credentials.
const PROXY_CREDENTIALS: &str = "the proxy wants credentials: write them into its URL, http://USER:PASSWORD@HOST:PORT, with --proxy or in HTTPS_PROXY or HTTP_PROXY";

/// Whether the server was given any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Credentials {
    Given,
    None,
}

/// The limit of the library has a setting; that of this command has none.
fn too_long(limit: usize) -> String {
    format!("the answer is longer than {limit} bytes, the most that this command reads")
}

/// How a server ended, before what, with its last words if there are few.
fn ending(ended: &Ended, before: &str) -> String {
    match ended.stderr.as_slice() {
        [_, _, ..] => Ended::clone(ended).stderr(Vec::new()).before(before),
        _ => ended.before(before),
    }
}

/// The last words of a program, if there are more than fit into the message.
fn said_to_stderr(failure: Failure, ended: &Ended) -> Failure {
    match ended.stderr.len() {
        0 | 1 => failure,
        _ => failure.because(format!("it wrote to its standard error:\n    {}", ended.stderr.join("\n    "))),
    }
}
