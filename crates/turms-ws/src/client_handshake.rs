//! The client side of the handshake (RFC 6455, 4.1), over a connection of the dialer of `turms-http`.

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::time::Duration;

use http::header::{
    CONNECTION, HOST, HeaderMap, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE, USER_AGENT,
};
use http::{Request, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use turms_core::__internal::escape_control;
use turms_http::__internal::{DialOptionsError, DialedStream, Dialer, is_rejection};
use turms_http::{AuthorizeError, Challenge};

use crate::body::WsBody;
use crate::handshake::{SUBPROTOCOL, VERSION, has_token};
use crate::url::WsUrl;

/// Error of connecting over WebSocket. It is the source of a [`ConnectError::Unreachable`](turms_core::ConnectError::Unreachable), of a
/// [`ConnectError::Rejected`](turms_core::ConnectError::Rejected) if the server responded, or of a
/// [`ConnectError::Unauthorized`](turms_core::ConnectError::Unauthorized) if it requires other credentials.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WsConnectError {
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
    Trust(#[source] rustls::Error),
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
    Http(#[source] hyper::Error),
    /// The server responded with another status than 101.
    #[error("the server responded with {status} instead of opening a WebSocket{}{}", challenge_error(.headers), after_colon(.body))]
    Refused {
        /// The status of the response.
        status: StatusCode,
        /// The headers of the response.
        headers: Box<HeaderMap>,
        /// The beginning of the body, at most 512 bytes.
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

/// Returns the error of the first challenge that has one (RFC 6750, section 3).
fn challenge_error(headers: &HeaderMap) -> String {
    let challenges = Challenge::of_headers(headers);
    let error = challenges.iter().find_map(|it| it.get("error_description").or_else(|| it.get("error")));
    error.map_or_else(String::new, |error| format!(": {error:?}"))
}

impl WsConnectError {
    /// Returns `true` if the server requires other credentials, or none could be obtained.
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        match self {
            Self::Authorize { .. } => true,
            Self::Refused { status, .. } => is_rejection(*status),
            _ => false,
        }
    }
}

/// Returns `: BODY`, or nothing for an empty body.
fn after_colon(body: &str) -> String {
    if body.is_empty() { String::new() } else { format!(": {body}") }
}

impl From<DialOptionsError> for WsConnectError {
    fn from(error: DialOptionsError) -> Self {
        match error {
            DialOptionsError::Tls(error) => Self::Trust(error),
            DialOptionsError::Invalid(option) => Self::InvalidOption(option),
            _ => Self::InvalidOption("an option of the connector is invalid"),
        }
    }
}

/// Connects to a URL and opens a WebSocket. Returns it with the headers of the response.
pub(crate) async fn open(
    url: &WsUrl,
    headers: &HeaderMap,
    dialer: &Dialer,
) -> Result<(Upgraded, HeaderMap), WsConnectError> {
    let (host, port) = (url.host(), url.port());
    let stream = dialer.dial(url.dial_url()).await.map_err(|error| match error.downcast::<io::Error>() {
        Ok(error) => WsConnectError::Tls { host: host.to_owned(), source: *error },
        Err(source) => WsConnectError::Connect { host: host.to_owned(), port, source },
    })?;
    upgrade(stream, url, headers).await
}

/// Opens a WebSocket over a stream.
async fn upgrade(
    stream: DialedStream,
    url: &WsUrl,
    headers: &HeaderMap,
) -> Result<(Upgraded, HeaderMap), WsConnectError> {
    let key = generate_key();
    let request = upgrade_request(url, headers, &key)?;
    let (mut sender, connection) = http1::handshake(stream).await.map_err(WsConnectError::Http)?;
    // Until the upgrade, the connection makes progress only while it is polled. It is polled here, together with the
    // exchange, and not spawned as a task, so that dropping this future closes it.
    let mut connection = pin!(connection.with_upgrades());
    let mut exchange = pin!(async {
        let mut response = sender.send_request(request).await.map_err(WsConnectError::Http)?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(rejection(response).await);
        }
        check_response(response.headers(), &key)?;
        let headers = std::mem::take(response.headers_mut());
        Ok((hyper::upgrade::on(response).await.map_err(WsConnectError::Http)?, headers))
    });
    let mut is_open = true;
    poll_fn(|task| {
        // The error of the connection is ignored: that of the exchange is more precise.
        if is_open && connection.as_mut().poll(task).is_ready() {
            is_open = false;
        }
        exchange.as_mut().poll(task)
    })
    .await
}

fn upgrade_request(url: &WsUrl, headers: &HeaderMap, key: &str) -> Result<Request<WsBody>, WsConnectError> {
    let invalid = |_| WsConnectError::Handshake("the host is not a valid header value");
    let mut request = Request::new(WsBody::default());
    // The URL was parsed, so its path is valid.
    *request.uri_mut() = url.target().parse().unwrap_or_default();
    let sent = request.headers_mut();
    *sent = headers.clone();
    if !sent.contains_key(HOST) {
        sent.insert(HOST, HeaderValue::from_str(url.authority()).map_err(invalid)?);
    }
    if !sent.contains_key(USER_AGENT) {
        sent.insert(USER_AGENT, HeaderValue::from_static(concat!("turms/", env!("CARGO_PKG_VERSION"))));
    }
    sent.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    sent.insert(UPGRADE, HeaderValue::from_static("websocket"));
    sent.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static(VERSION));
    sent.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    sent.insert(SEC_WEBSOCKET_KEY, HeaderValue::from_str(key).map_err(invalid)?);
    Ok(request)
}

/// Checks the headers of a response with status 101.
fn check_response(headers: &HeaderMap, key: &str) -> Result<(), WsConnectError> {
    if !has_token(headers, &UPGRADE, "websocket") || !has_token(headers, &CONNECTION, "upgrade") {
        return Err(WsConnectError::Handshake("the response upgrades to another protocol"));
    }
    if headers.get(SEC_WEBSOCKET_ACCEPT).is_none_or(|accept| *accept != derive_accept_key(key.as_bytes())) {
        return Err(WsConnectError::Handshake("`Sec-WebSocket-Accept` does not match the request"));
    }
    if headers.contains_key(SEC_WEBSOCKET_EXTENSIONS) {
        return Err(WsConnectError::Handshake("the server chose extensions that were not offered"));
    }
    match headers.get(SEC_WEBSOCKET_PROTOCOL) {
        // Accepted, as our own server does: some servers do not support subprotocols.
        None => Ok(()),
        Some(name) if name == SUBPROTOCOL => Ok(()),
        Some(name) => Err(WsConnectError::Subprotocol(String::from_utf8_lossy(name.as_bytes()).into_owned())),
    }
}

/// Maximum number of bytes of the body in an error.
const MAX_BODY_BYTES: usize = 512;

/// Timeout for the body of a rejection. The status is enough for an error.
const BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// Creates the error for a response with another status than 101, with the beginning of its body.
async fn rejection(response: Response<Incoming>) -> WsConnectError {
    let (head, mut body) = response.into_parts();
    let mut text = Vec::new();
    let _ = tokio::time::timeout(BODY_TIMEOUT, read_body(&mut body, &mut text)).await;
    let text = String::from_utf8_lossy(&text[..text.len().min(MAX_BODY_BYTES)]);
    let body = escape_control(text.trim()).into_owned();
    WsConnectError::Refused { status: head.status, headers: Box::new(head.headers), body }
}

async fn read_body(body: &mut Incoming, text: &mut Vec<u8>) {
    while text.len() < MAX_BODY_BYTES
        && let Some(Ok(frame)) = poll_fn(|task| Pin::new(&mut *body).poll_frame(task)).await
    {
        text.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
    }
}

turms_core::__internal::into_error! {
    Connection: WsConnectError,
    Setup: crate::url::WsUrlError,
}
