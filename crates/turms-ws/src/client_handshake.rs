//! The client side of the handshake (RFC 6455, 4.1), over a connection of the dialer of `turms-http`.

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
use turms_http::__internal::{DialedStream, Dialer, SentSecrets};

use crate::body::WsBody;
use crate::error::WsError;
use crate::handshake::{SUBPROTOCOL, VERSION, has_token};
use crate::url::WsUrl;

/// Connects to a URL and opens a WebSocket. Returns it with the headers of the response.
pub(crate) async fn open(url: &WsUrl, headers: &HeaderMap, dialer: &Dialer) -> Result<(Upgraded, HeaderMap), WsError> {
    let (host, port) = (url.host(), url.port());
    let stream = dialer.dial(url.dial_url()).await.map_err(|error| match error.downcast::<io::Error>() {
        Ok(error) => WsError::Tls { host: host.to_owned(), source: *error },
        Err(source) => WsError::Connect { host: host.to_owned(), port, source },
    })?;
    upgrade(stream, url, headers).await
}

/// Opens a WebSocket over a stream.
async fn upgrade(stream: DialedStream, url: &WsUrl, headers: &HeaderMap) -> Result<(Upgraded, HeaderMap), WsError> {
    let key = generate_key();
    let request = upgrade_request(url, headers, &key)?;
    let secrets = SentSecrets::of(request.headers());
    let (mut sender, connection) = http1::handshake(stream).await.map_err(WsError::http)?;
    // Until the upgrade, the connection makes progress only while it is polled. It is polled here, together with the
    // exchange, and not spawned as a task, so that dropping this future closes it.
    let mut connection = pin!(connection.with_upgrades());
    let mut exchange = pin!(async {
        let mut response = sender.send_request(request).await.map_err(WsError::http)?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(rejection(response, &secrets).await);
        }
        check_response(response.headers(), &key)?;
        let headers = std::mem::take(response.headers_mut());
        Ok((hyper::upgrade::on(response).await.map_err(WsError::http)?, headers))
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

fn upgrade_request(url: &WsUrl, headers: &HeaderMap, key: &str) -> Result<Request<WsBody>, WsError> {
    let invalid = |_| WsError::Handshake("the host is not a valid header value");
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
fn check_response(headers: &HeaderMap, key: &str) -> Result<(), WsError> {
    if !has_token(headers, &UPGRADE, "websocket") || !has_token(headers, &CONNECTION, "upgrade") {
        return Err(WsError::Handshake("the response upgrades to another protocol"));
    }
    if headers.get(SEC_WEBSOCKET_ACCEPT).is_none_or(|accept| *accept != derive_accept_key(key.as_bytes())) {
        return Err(WsError::Handshake("`Sec-WebSocket-Accept` does not match the request"));
    }
    if headers.contains_key(SEC_WEBSOCKET_EXTENSIONS) {
        return Err(WsError::Handshake("the server chose extensions that were not offered"));
    }
    match headers.get(SEC_WEBSOCKET_PROTOCOL) {
        // Accepted, as our own server does: some servers do not support subprotocols.
        None => Ok(()),
        Some(name) if name == SUBPROTOCOL => Ok(()),
        Some(name) => Err(WsError::Subprotocol(String::from_utf8_lossy(name.as_bytes()).into_owned())),
    }
}

/// Maximum number of characters of the body in an error.
pub(crate) const MAX_BODY_CHARS: usize = 512;

/// Number of bytes of the body that are read: enough for a token that is repeated in it.
const MAX_READ_BYTES: usize = 16 * 1024;

/// Timeout for the body of a rejection. The status is enough for an error.
const BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// Creates the error for a response with another status than 101, with the beginning of its body. The server may repeat the credentials
/// in it.
async fn rejection(response: Response<Incoming>, secrets: &SentSecrets) -> WsError {
    let (mut head, mut body) = response.into_parts();
    secrets.hide_in_challenges(&mut head.headers);
    let mut text = Vec::new();
    let _ = tokio::time::timeout(BODY_TIMEOUT, read_body(&mut body, &mut text)).await;
    let text = secrets.hide(String::from_utf8_lossy(&text).into_owned());
    let text = text.trim().chars().take(MAX_BODY_CHARS).collect::<String>();
    let body = escape_control(&text).into_owned();
    WsError::Refused { status: head.status, headers: Box::new(head.headers), body }
}

async fn read_body(body: &mut Incoming, text: &mut Vec<u8>) {
    while text.len() < MAX_READ_BYTES
        && let Some(Ok(frame)) = poll_fn(|task| Pin::new(&mut *body).poll_frame(task)).await
    {
        text.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
    }
}
