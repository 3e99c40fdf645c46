//! The client's half of the handshake (RFC 6455, 4.1): a connection by the dialer of `turms-http`, and a request that is granted.

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
use turms_core::escape_control;
use turms_http::__internal::{DialOptionsError, DialedStream, Dialer};

use crate::body::WsBody;
use crate::handshake::{SUBPROTOCOL, VERSION, has_token};
use crate::url::WsUrl;

/// Why a server could not be reached over WebSocket. It is the source of a
/// [`ConnectError::Unreachable`](turms_core::ConnectError::Unreachable), or of a
/// [`ConnectError::Rejected`](turms_core::ConnectError::Rejected) if the server answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WsConnectError {
    /// Something that was to be sent as a header cannot be one.
    #[error("{0}")]
    Header(String),
    /// There is no connection to its address.
    #[error("cannot connect to {host}:{port}")]
    Connect {
        /// The host that was tried.
        host: String,
        /// The port that was tried.
        port: u16,
        /// Why not: a [`DialError`](turms_http::DialError), or the error of the system.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// An option of the connector is invalid.
    #[error("{0}")]
    InvalidOption(&'static str),
    /// TLS cannot be set up: this machine trusts no certificates, or an added root is invalid.
    #[error("TLS cannot be set up on this machine")]
    Trust(#[source] rustls::Error),
    /// The server did not prove who it is, or broke off while it did.
    #[error("no secure connection to {host}")]
    Tls {
        /// The host that it should have been.
        host: String,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// What it answered is not HTTP, or it went away.
    #[error("the server did not answer the request for a WebSocket")]
    Http(#[source] hyper::Error),
    /// It answered, but not with a WebSocket.
    #[error("the server answered {status} instead of opening a WebSocket{}", saying(.body))]
    Refused {
        /// The status of its answer.
        status: StatusCode,
        /// The headers of its answer.
        headers: Box<HeaderMap>,
        /// How its answer begins.
        body: String,
    },
    /// It opened something that is not a WebSocket.
    #[error("the server opened no WebSocket: {0}")]
    Handshake(&'static str),
    /// It speaks something else over WebSocket.
    #[error("the server speaks the subprotocol {0:?} over WebSocket, not \"{SUBPROTOCOL}\"")]
    Subprotocol(String),
}

fn saying(body: &str) -> String {
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

/// Opens a WebSocket at a URL.
pub(crate) async fn dial(url: &WsUrl, headers: &HeaderMap, dialer: &Dialer) -> Result<Upgraded, WsConnectError> {
    let (host, port) = (url.host(), url.port());
    let stream = dialer.dial(url.dialed()).await.map_err(|error| match error.downcast::<io::Error>() {
        Ok(error) => WsConnectError::Tls { host: host.to_owned(), source: *error },
        Err(source) => WsConnectError::Connect { host: host.to_owned(), port, source },
    })?;
    upgrade(stream, url, headers).await
}

/// Asks for a WebSocket over a stream.
async fn upgrade(stream: DialedStream, url: &WsUrl, headers: &HeaderMap) -> Result<Upgraded, WsConnectError> {
    let key = generate_key();
    let request = request(url, headers, &key)?;
    let (mut sender, connection) = http1::handshake(stream).await.map_err(WsConnectError::Http)?;
    // The connection lives for as long as the answer is read, so it needs no task of its own.
    let mut connection = pin!(connection.with_upgrades());
    let mut exchange = pin!(async {
        let response = sender.send_request(request).await.map_err(WsConnectError::Http)?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(refused(response).await);
        }
        check(response.headers(), &key)?;
        hyper::upgrade::on(response).await.map_err(WsConnectError::Http)
    });
    let mut alive = true;
    poll_fn(|task| {
        // Why it ended, the exchange knows better.
        if alive && connection.as_mut().poll(task).is_ready() {
            alive = false;
        }
        exchange.as_mut().poll(task)
    })
    .await
}

fn request(url: &WsUrl, headers: &HeaderMap, key: &str) -> Result<Request<WsBody>, WsConnectError> {
    let unfit = |_| WsConnectError::Handshake("its host cannot be written into a header");
    let mut request = Request::new(WsBody::default());
    // The URL was parsed, so its path is one.
    *request.uri_mut() = url.target().parse().unwrap_or_default();
    let own = request.headers_mut();
    *own = headers.clone();
    if !own.contains_key(HOST) {
        own.insert(HOST, HeaderValue::from_str(url.authority()).map_err(unfit)?);
    }
    if !own.contains_key(USER_AGENT) {
        own.insert(USER_AGENT, HeaderValue::from_static(concat!("turms/", env!("CARGO_PKG_VERSION"))));
    }
    own.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    own.insert(UPGRADE, HeaderValue::from_static("websocket"));
    own.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static(VERSION));
    own.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    own.insert(SEC_WEBSOCKET_KEY, HeaderValue::from_str(key).map_err(unfit)?);
    Ok(request)
}

/// Whether an answer grants what was asked for, and nothing else.
fn check(headers: &HeaderMap, key: &str) -> Result<(), WsConnectError> {
    if !has_token(headers, &UPGRADE, "websocket") || !has_token(headers, &CONNECTION, "upgrade") {
        return Err(WsConnectError::Handshake("it upgraded the connection to something else"));
    }
    if headers.get(SEC_WEBSOCKET_ACCEPT).is_none_or(|accept| *accept != derive_accept_key(key.as_bytes())) {
        return Err(WsConnectError::Handshake("its answer does not belong to our request"));
    }
    if headers.contains_key(SEC_WEBSOCKET_EXTENSIONS) {
        return Err(WsConnectError::Handshake("it wants extensions that were not offered"));
    }
    match headers.get(SEC_WEBSOCKET_PROTOCOL) {
        // As lenient as our own server is: there are servers that know of no subprotocols.
        None => Ok(()),
        Some(name) if name == SUBPROTOCOL => Ok(()),
        Some(name) => Err(WsConnectError::Subprotocol(String::from_utf8_lossy(name.as_bytes()).into_owned())),
    }
}

/// How much of an answer is shown.
const SHOWN: usize = 512;

/// How long the rest of an answer is waited for. Its status says the most.
const READING: Duration = Duration::from_secs(1);

/// Servers say in the body why they do not want to.
async fn refused(response: Response<Incoming>) -> WsConnectError {
    let (head, mut body) = response.into_parts();
    let mut text = Vec::new();
    let _ = tokio::time::timeout(READING, read(&mut body, &mut text)).await;
    let text = String::from_utf8_lossy(&text[..text.len().min(SHOWN)]);
    let body = escape_control(text.trim()).into_owned();
    WsConnectError::Refused { status: head.status, headers: Box::new(head.headers), body }
}

async fn read(body: &mut Incoming, text: &mut Vec<u8>) {
    while text.len() < SHOWN
        && let Some(Ok(frame)) = poll_fn(|task| Pin::new(&mut *body).poll_frame(task)).await
    {
        text.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
    }
}
