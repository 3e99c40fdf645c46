//! The error of HTTP requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use turms_core::__internal::error_chain;
use turms_core::PeerError;
use turms_proto::format_duration;

use crate::authorize::AuthorizeError;
use crate::challenge::Challenge;
use crate::sse::EventTooLong;

/// Error of an HTTP request. It is the source of errors of clients and channels.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// No connection, so nothing was sent.
    #[error("cannot connect to {server}")]
    Connect {
        /// Origin of the server: scheme, host and port.
        server: String,
        /// The cause.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The connection closed after the request was started.
    #[error("connection to {server} closed before the end of the response")]
    Closed {
        /// Origin of the server: scheme, host and port.
        server: String,
        /// The cause.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// An event stream ended before the response and cannot be resumed.
    #[error("the event stream ended before the response")]
    StreamEnded,
    /// The response has an error status and is not JSON-RPC.
    #[error("status {status}{}", quote_body(body))]
    Status {
        /// The status.
        status: StatusCode,
        /// Beginning of the body.
        body: String,
    },
    /// The server denied access: it requires other credentials, or has another reason, which the body may contain.
    #[error(
        "{server} responded with status {status}{}{}{}",
        authorization_problem(*status, *was_authorized), challenge_error(challenges), quote_new(body, challenges)
    )]
    Unauthorized {
        /// Origin of the server: scheme, host and port.
        server: String,
        /// The status: 401 or 403.
        status: StatusCode,
        /// The challenges of `WWW-Authenticate`.
        challenges: Vec<Challenge>,
        /// `true` if the request had an `Authorization` header.
        was_authorized: bool,
        /// Beginning of the body.
        body: String,
    },
    /// The server uses another scheme than that of the URL.
    #[error("cannot connect to {server}: the server does not use {spoken}; try {other}://")]
    Scheme {
        /// Origin of the server: scheme, host and port.
        server: String,
        /// The transport that was tried.
        spoken: &'static str,
        /// The transport that the server may have.
        other: &'static str,
        /// The cause.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The response is neither JSON nor an event stream.
    #[error("the response is neither JSON nor an event stream: status {status}, content type {content_type:?}")]
    ContentType {
        /// The status.
        status: StatusCode,
        /// Its `Content-Type`; empty without one.
        content_type: String,
    },
    /// The response is not a valid JSON-RPC message.
    #[error("the response is not a valid message: {0}")]
    Message(String),
    /// The response is longer than the limit ([`max_message_bytes`](super::HttpConnector::max_message_bytes)), so it was not read.
    #[error("the response is longer than the limit of {0} bytes; raise max_message_bytes of the connector")]
    TooLarge(usize),
    /// A redirect to another origin, which must not receive the credentials.
    #[error("redirect from {from} to {to}, another origin: credentials are not sent there")]
    Redirect {
        /// The origin of the request: scheme, host and port.
        from: String,
        /// The target of the redirect.
        to: String,
    },
    /// Too many redirects, or a redirect that cannot be followed.
    #[error("cannot follow the redirect with status {0}")]
    RedirectLoop(StatusCode),
    /// No response within the timeout.
    #[error("no response within {}", format_duration(*.0))]
    TimedOut(Duration),
    /// The authorizer has no credentials.
    #[error("cannot obtain credentials for {server}")]
    Authorize {
        /// Origin of the server: scheme, host and port.
        server: String,
        /// The error of the authorizer.
        #[source]
        source: AuthorizeError,
    },
    /// A value is not valid as a header.
    #[error("{0} is not a valid header value")]
    Header(&'static str),
    /// Invalid options of the connector, such as certificates or a proxy.
    #[error("cannot set up the HTTP client: {0}")]
    Setup(String),
    /// The URL is invalid, or has another scheme.
    #[error("{0:?} is not a valid http:// or https:// URL")]
    Url(String),
    /// HTTP+SSE: the event stream has no `endpoint` event.
    #[error("the event stream did not begin with an `endpoint` event")]
    NoEndpoint,
    /// HTTP+SSE: the message endpoint has another origin, which must not receive the credentials.
    #[error("the server at {from} set its message endpoint to {to}, another origin")]
    ForeignEndpoint {
        /// The origin of the request: scheme, host and port.
        from: String,
        /// The target.
        to: String,
    },
    /// The server supports none of the transports. Contains the error of each.
    #[error("the server supports none of the transports: {}", list_errors(.0))]
    NoCommonTransport(Vec<(&'static str, Self)>),
}

/// Prints the message with its causes, so that an error returned by `main` is readable.
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
                | Self::Authorize { .. }
                | Self::Header(_)
                | Self::Setup(_)
                | Self::Url(_)
        )
    }

    /// Returns `true` if the same request may succeed later.
    fn is_transient(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Closed { .. } | Self::StreamEnded => true,
            Self::Status { status, .. } => status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS,
            _ => false,
        }
    }

    /// Returns `true` if the server responded.
    pub(super) fn is_response(&self) -> bool {
        !self.is_unsent() && !matches!(self, Self::Closed { .. } | Self::StreamEnded | Self::TimedOut(_))
    }

    /// Returns `true` if the server requires other credentials, or none could be obtained.
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        matches!(self, Self::Authorize { .. } | Self::Unauthorized { .. })
    }

    /// Returns the status of an error response.
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
        Self::TooLarge(error.0)
    }
}

impl From<HttpError> for PeerError {
    fn from(error: HttpError) -> Self {
        match error {
            HttpError::TimedOut(after) => Self::TimedOut(after),
            HttpError::TooLarge(limit) => Self::TooLarge { limit },
            error @ (HttpError::Authorize { .. } | HttpError::Unauthorized { .. }) => {
                Self::Unauthorized(Arc::new(error))
            }
            HttpError::Header(_) => Self::from(turms_proto::EncodeError::custom(error)),
            error if error.is_transient() || error.is_unsent() => {
                Self::Unreachable { sent: !error.is_unsent(), source: Arc::new(error) }
            }
            // The server has responded: a retry would have the same result.
            error => Self::InvalidResponse(error.to_string()),
        }
    }
}

/// Maximum number of characters of a text of the server in an error message.
const MAX_SHOWN_CHARS: usize = 300;

/// Describes the problem with the credentials. Only 401 is always about credentials.
fn authorization_problem(status: StatusCode, was_authorized: bool) -> &'static str {
    match (status, was_authorized) {
        (StatusCode::UNAUTHORIZED, false) => ": authorization is required, and the request had none",
        (StatusCode::UNAUTHORIZED, true) => ": the server rejected the authorization of the request",
        _ => "",
    }
}

/// Returns the error of the first challenge that has one (RFC 6750, section 3).
fn challenge_error(challenges: &[Challenge]) -> String {
    let shown = |challenge: &Challenge| match (challenge.get("error"), challenge.get("error_description")) {
        (Some(error), Some(description)) => Some(format!(": {:?}, {:?}", beginning(error), beginning(description))),
        (Some(only), None) | (None, Some(only)) => Some(format!(": {:?}", beginning(only))),
        (None, None) => None,
    };
    challenges.iter().find_map(shown).unwrap_or_default()
}

/// Returns the text of a response, for error messages.
fn quote_body(body: &str) -> String {
    if body.is_empty() { String::new() } else { format!(": {:?}", beginning(body)) }
}

/// Returns the part of a text of the server that is shown.
fn beginning(text: &str) -> &str {
    text.char_indices().nth(MAX_SHOWN_CHARS).map_or(text, |(end, _)| &text[..end])
}

/// Returns the text of a response, unless it only repeats the description of a challenge: as the message of an error response, or as
/// the error of an authorization server.
fn quote_new(body: &str, challenges: &[Challenge]) -> String {
    let object: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let text = object.as_ref().and_then(|object| object.get("error_description")?.as_str()).unwrap_or(body);
    let is_repeated = challenges.iter().any(|challenge| challenge.get("error_description") == Some(text));
    if is_repeated { String::new() } else { quote_body(body) }
}

fn list_errors(rejections: &[(&'static str, HttpError)]) -> String {
    rejections.iter().map(|(what, error)| format!("{what}: {error}")).collect::<Vec<_>>().join("; ")
}

turms_core::__internal::into_error! {
    Connection: super::DialError,
    Connection: HttpError,
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_error_of_a_challenge_is_shown() {
        let shown = |challenge| challenge_error(&Challenge::parse_all([&HeaderValue::from_static(challenge)]));
        assert_eq!(
            shown(r#"Bearer realm="error=1", error="invalid_token", error_description="it expired""#),
            r#": "invalid_token", "it expired""#
        );
        assert_eq!(shown("Bearer error=insufficient_scope, scope=a"), r#": "insufficient_scope""#);
        assert_eq!(shown(r#"Basic realm="x", Bearer error="invalid_token""#), r#": "invalid_token""#);
        assert_eq!(shown("Bearer"), "");
        assert_eq!(shown(r#"Bearer error_description="""#), r#": """#);
        assert_eq!(challenge_error(&[]), "");
        let giant = Challenge::new("Bearer").parameter("error", "é".repeat(50_000));
        assert_eq!(challenge_error(&[giant]).chars().count(), MAX_SHOWN_CHARS + 4);
    }

    #[test]
    fn a_body_that_repeats_the_challenge_is_not_shown() {
        let header = HeaderValue::from_static(r#"Bearer error="invalid_token", error_description="it expired""#);
        let challenges = Challenge::parse_all([&header]);
        assert_eq!(quote_new("it expired", &challenges), "");
        assert_eq!(quote_new(r#"{"error":"invalid_token","error_description":"it expired"}"#, &challenges), "");
        assert_eq!(quote_new("it expired: ask ann", &challenges), r#": "it expired: ask ann""#);
        assert_eq!(quote_new(r#"{"error":"other"}"#, &challenges), r#": "{\"error\":\"other\"}""#);
        assert_eq!(quote_new("", &challenges), "");
        assert_eq!(quote_new("it expired", &[]), r#": "it expired""#);
    }
}
