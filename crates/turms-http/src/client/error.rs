//! What can go wrong between a client and an HTTP server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use turms_core::{PeerError, error_chain};
use turms_proto::format_duration;
use turms_proto::session::RequestError;

use super::authorize::AuthorizeError;
use crate::sse::EventTooLong;

/// Why an HTTP exchange came to nothing. It stands below the errors of clients and channels, as their source.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// There is no connection, so nothing was sent.
    #[error("cannot connect to {server}")]
    Connect {
        /// To whom: scheme, host and port.
        server: String,
        /// Why not.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The connection broke after the request was begun.
    #[error("the connection to {server} broke")]
    Broken {
        /// To whom: scheme, host and port.
        server: String,
        /// The cause.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// An event stream ended before the answer came, and there is no way to go on with it.
    #[error("the event stream ended before the answer came")]
    Cut,
    /// The server says no, and not in JSON-RPC.
    #[error("status {status}{}", shown(body))]
    Status {
        /// The text of the response.
        status: StatusCode,
        /// The beginning of what else it says.
        body: String,
    },
    /// The server does not let us in: it wants other credentials than it got, if it got any, or has another reason, which it
    /// may say.
    #[error("status {status}{}{}{}", wanted(*status, *given), complaint(challenge.as_deref()), shown(body))]
    Unauthorized {
        /// 401 or 403.
        status: StatusCode,
        /// Its `WWW-Authenticate`.
        challenge: Option<String>,
        /// `true` if the request had an `Authorization`.
        given: bool,
        /// The beginning of what else it says.
        body: String,
    },
    /// The other side does not speak what the address says.
    #[error("cannot speak to {server}: it does not speak {spoken}; is the address one of {other}://?")]
    Scheme {
        /// To whom: scheme, host and port.
        server: String,
        /// The transport that was tried.
        spoken: &'static str,
        /// The transport that the server may have.
        other: &'static str,
        /// The cause.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The answer is neither JSON nor an event stream.
    #[error("the answer is neither JSON nor an event stream: status {status}, content type {content_type:?}")]
    ContentType {
        /// The status.
        status: StatusCode,
        /// Its `Content-Type`; empty without one.
        content_type: String,
    },
    /// The answer is no message of JSON-RPC.
    #[error("the answer is not a message: {0}")]
    Message(String),
    /// The answer is longer than the limit ([`message_limit`](super::HttpConnector::message_limit)), so it was not read.
    #[error("the answer is longer than the limit of {0} bytes: raise message_limit of the connector")]
    TooLong(usize),
    /// The server sends us elsewhere, where credentials must not go.
    #[error("redirected from {from} to {to}, another origin: credentials are not sent there")]
    Redirect {
        /// The origin of the request: scheme, host and port.
        from: String,
        /// The target of the redirect.
        to: String,
    },
    /// The server sends us round and round, or nowhere.
    #[error("redirected with status {0} to no avail")]
    RedirectLoop(StatusCode),
    /// The server did not answer in time.
    #[error("no response within {}", format_duration(*.0))]
    TimedOut(Duration),
    /// There are no credentials to be had.
    #[error("cannot be authorized")]
    Authorize(#[source] AuthorizeError),
    /// Something that was to become a header cannot be one.
    #[error("{0} cannot be a header")]
    Header(&'static str),
    /// HTTP cannot be spoken at all: no certificates, a bad proxy.
    #[error("the HTTP client cannot be set up: {0}")]
    Setup(String),
    /// The address is none that this transport can reach.
    #[error("{0:?} is not an address that begins with http:// or https://")]
    Url(String),
    /// HTTP+SSE: the server did not say where to post messages to.
    #[error("the server did not begin its event stream with an endpoint for messages")]
    NoEndpoint,
    /// HTTP+SSE: the server wants messages to be posted elsewhere, where credentials must not go.
    #[error("the server at {from} wants messages to be posted to {to}, another origin")]
    ForeignEndpoint {
        /// The origin of the request: scheme, host and port.
        from: String,
        /// The target.
        to: String,
    },
    /// The server understands none of what it was asked; what it said to each.
    #[error("the server understands none of the transports: {}", each(.0))]
    NothingUnderstood(Vec<(&'static str, Self)>),
}

/// The message with its causes, so that an error that leaves `main` reads as a sentence.
impl fmt::Debug for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&error_chain(self))
    }
}

impl HttpError {
    /// Returns `true` if the server has certainly not received the request.
    #[must_use]
    pub fn is_unsent(&self) -> bool {
        matches!(
            self,
            Self::Connect { .. }
                | Self::Scheme { .. }
                | Self::Authorize(_)
                | Self::Header(_)
                | Self::Setup(_)
                | Self::Url(_)
        )
    }

    /// Returns `true` if the same request may succeed later.
    fn is_passing(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Broken { .. } | Self::Cut => true,
            Self::Status { status, .. } => status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS,
            _ => false,
        }
    }

    /// Returns `true` if the server responded.
    pub(super) fn is_answer(&self) -> bool {
        !self.is_unsent() && !matches!(self, Self::Broken { .. } | Self::Cut | Self::TimedOut(_))
    }

    /// The status, if the server answered with one that is an error.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Status { status, .. } | Self::Unauthorized { status, .. } => Some(*status),
            _ => None,
        }
    }
}

impl From<EventTooLong> for HttpError {
    fn from(error: EventTooLong) -> Self {
        Self::TooLong(error.0)
    }
}

impl From<HttpError> for PeerError {
    fn from(error: HttpError) -> Self {
        match error {
            HttpError::TimedOut(after) => Self::Request(RequestError::TimedOut(after)),
            HttpError::TooLong(limit) => Self::Request(RequestError::TooLong { limit }),
            error @ (HttpError::Authorize(_) | HttpError::Unauthorized { .. }) => Self::Unauthorized(Arc::new(error)),
            HttpError::Header(_) => Self::from(turms_proto::EncodeError::custom(error)),
            error if error.is_passing() || error.is_unsent() => {
                Self::Unreachable { sent: !error.is_unsent(), source: Arc::new(error) }
            }
            // The server has answered, if not well: asking again would bring the same.
            error => Self::Request(RequestError::Invalid(error.to_string())),
        }
    }
}

/// Returns the subject of a refusal. Only 401 is always about credentials.
fn wanted(status: StatusCode, given: bool) -> &'static str {
    match (status, given) {
        (StatusCode::UNAUTHORIZED, false) => ": the server wants authorization, and the request had none",
        (StatusCode::UNAUTHORIZED, true) => ": the server does not accept the authorization of the request",
        _ => "",
    }
}

/// Returns the error that `WWW-Authenticate` names (RFC 6750, 3).
fn complaint(challenge: Option<&str>) -> String {
    let said = |name| challenge.and_then(|challenge| parameter(challenge, name));
    match (said("error"), said("error_description")) {
        (Some(error), Some(description)) => format!(": {error:?}, {description:?}"),
        (Some(only), None) | (None, Some(only)) => format!(": {only:?}"),
        (None, None) => String::new(),
    }
}

/// A parameter of a challenge: `name=value` or `name="value"`.
fn parameter<'a>(challenge: &'a str, name: &str) -> Option<&'a str> {
    let found = challenge.match_indices(name).find_map(|(at, _)| {
        let begins = challenge[..at].chars().next_back().is_none_or(|before| matches!(before, ' ' | ','));
        challenge[at + name.len()..].trim_start().strip_prefix('=').filter(|_| begins)
    })?;
    let found = found.trim_start();
    match found.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => found.split([',', ' ']).next(),
    }
}

/// Returns the text of a response, for error messages.
fn shown(body: &str) -> String {
    if body.is_empty() { String::new() } else { format!(": {body:?}") }
}

fn each(refusals: &[(&'static str, HttpError)]) -> String {
    refusals.iter().map(|(what, error)| format!("{what}: {error}")).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_tells_what_is_wrong() {
        let told = |challenge| complaint(Some(challenge));
        assert_eq!(
            told(r#"Bearer realm="error=1", error="invalid_token", error_description="it expired""#),
            r#": "invalid_token", "it expired""#
        );
        assert_eq!(told("Bearer error=insufficient_scope, scope=a"), r#": "insufficient_scope""#);
        assert_eq!(told("Bearer"), "");
        assert_eq!(told(r#"Bearer error_description="#), r#": """#);
        assert_eq!(complaint(None), "");
    }
}
