//! [`WsError`].

use std::error::Error;
use std::io;

use http::{HeaderMap, StatusCode};
use turms_http::__internal::{DialOptionsError, is_rejection};
use turms_http::{AuthorizeError, Challenge};

use crate::client_handshake::MAX_BODY_CHARS;
use crate::handshake::SUBPROTOCOL;

/// Error of a WebSocket client: of [`WsConnector::new`](crate::WsConnector::new), and of connecting.
///
/// Then it is the source of a [`ConnectError::Unreachable`](turms_core::ConnectError::Unreachable), of a
/// [`ConnectError::Rejected`](turms_core::ConnectError::Rejected) if the server responded, or of a
/// [`ConnectError::Unauthorized`](turms_core::ConnectError::Unauthorized) if it requires other credentials.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum WsError {
    /// The URL is invalid: it has another scheme, no host, or credentials, which could appear in logs.
    #[error("{0}")]
    Url(String),
    /// A header is invalid.
    #[error("{0}")]
    Header(String),
    /// The TCP connection failed.
    #[error("cannot connect to {host}:{port}")]
    Connect {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// The cause: a [`DialError`](turms_http::DialError), or the error of the system.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// An option of the connector is invalid.
    #[error("{0}")]
    InvalidOption(&'static str),
    /// TLS cannot be set up: the system has no root certificates, or an added one is invalid.
    #[error("TLS cannot be set up")]
    Trust(#[source] Box<dyn Error + Send + Sync>),
    /// The TLS handshake failed, such as because of an untrusted certificate.
    #[error("TLS handshake with {host} failed")]
    Tls {
        /// The host.
        host: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The server did not send a valid HTTP response.
    #[error("no valid HTTP response to the upgrade request")]
    Http(#[source] Box<dyn Error + Send + Sync>),
    /// The server responded with another status than 101.
    #[error("the server responded with {status} instead of opening a WebSocket{}{}", challenge_error(.headers), after_colon(.body))]
    Refused {
        /// The status of the response.
        status: StatusCode,
        /// The headers of the response.
        headers: Box<HeaderMap>,
        /// The beginning of the body, at most 512 characters.
        body: String,
    },
    /// The authorizer has no credentials.
    #[error("cannot obtain credentials for {server}")]
    Authorize {
        /// The server: scheme, host and port.
        server: String,
        /// The error of the authorizer.
        #[source]
        source: AuthorizeError,
    },
    /// The response with status 101 is invalid.
    #[error("invalid WebSocket handshake: {0}")]
    Handshake(&'static str),
    /// The server chose another subprotocol.
    #[error("the server chose the subprotocol {0:?} instead of \"{SUBPROTOCOL}\"")]
    Subprotocol(String),
}

impl WsError {
    /// Returns `true` if the server requires other credentials, or none could be obtained.
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        match self {
            Self::Authorize { .. } => true,
            Self::Refused { status, .. } => is_rejection(*status),
            _ => false,
        }
    }

    pub(crate) fn http(error: hyper::Error) -> Self {
        Self::Http(Box::new(error))
    }

    pub(crate) fn of_options(error: DialOptionsError) -> Self {
        match error {
            DialOptionsError::Tls(error) => Self::Trust(Box::new(error)),
            DialOptionsError::Invalid(option) => Self::InvalidOption(option),
            _ => Self::InvalidOption("an option of the connector is invalid"),
        }
    }
}

/// Returns the error of the first challenge that has one (RFC 6750, section 3).
fn challenge_error(headers: &HeaderMap) -> String {
    let challenges = Challenge::of_headers(headers);
    let error = challenges.iter().find_map(|it| it.get("error_description").or_else(|| it.get("error")));
    let beginning = |error: &str| error.chars().take(MAX_BODY_CHARS).collect::<String>();
    error.map_or_else(String::new, |error| format!(": {:?}", beginning(error)))
}

/// Returns `: BODY`, or nothing for an empty body.
fn after_colon(body: &str) -> String {
    if body.is_empty() { String::new() } else { format!(": {body}") }
}

turms_core::__internal::debug_error! {
    WsError {
        Url(problem),
        Header(problem),
        Connect { host, port, source },
        InvalidOption(problem),
        Trust(source),
        Tls { host, source },
        Http(source),
        Refused { status, headers, body },
        Authorize { server, source },
        Handshake(problem),
        Subprotocol(name),
    }
}

turms_core::__internal::into_error! {
    Connection: WsError,
}
