//! The listener on the loopback interface that receives the callback.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::MAX_CALLBACK_BYTES;
use super::redirect::{LoopbackHost, RedirectUri};
use super::{LoginError, has_state};
use crate::flow::Callback;
use crate::secret::Secret;

/// Timeout for a whole connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of connections at a time. Others wait in the queue of the operating system.
const MAX_CONNECTIONS: usize = 32;

/// Maximum number of header fields of a request.
const MAX_HEADERS: usize = 64;

/// Pause after a connection could not be accepted, such as for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

const RECEIVED: &str = "The login is complete. You can close this window and return to the application.\n";
const FAILED: &str = "The login was not completed. You can close this window and return to the application.\n";
const NOT_FOUND: &str = "Not found.\n";
const REFUSED: &str = "This request does not belong to a login that is waited for.\n";

/// A listener on the loopback interface.
#[derive(Debug)]
pub(super) struct Listener {
    sockets: Vec<TcpListener>,
    redirect: RedirectUri,
}

impl Listener {
    /// Opens the listener of a redirect URI. Port 0 is replaced by a free one.
    pub(super) async fn bind(redirect: &RedirectUri) -> Result<Self, LoginError> {
        let host = redirect.loopback().unwrap_or(LoopbackHost::V4);
        let first: IpAddr = match host {
            LoopbackHost::V4 | LoopbackHost::Name => Ipv4Addr::LOCALHOST.into(),
            LoopbackHost::V6 => Ipv6Addr::LOCALHOST.into(),
        };
        let socket = listen(SocketAddr::new(first, redirect.port())).await?;
        let port = match redirect.port() {
            0 => socket.local_addr().map_err(|error| listen_error(first.to_string(), error))?.port(),
            port => port,
        };
        let mut sockets = vec![socket];
        if host == LoopbackHost::Name {
            // Browsers may try either address. One that another program listens on would receive the code.
            match listen(SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port)).await {
                Ok(socket) => sockets.push(socket),
                Err(LoginError::Listen { source, .. }) if source.kind() != io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
        }
        let redirect = if redirect.port() == 0 { redirect.with_port(port) } else { redirect.clone() };
        Ok(Self { sockets, redirect })
    }

    /// Returns the redirect URI with its port.
    pub(super) fn redirect_uri(&self) -> String {
        self.redirect.to_string()
    }

    /// Waits for a callback with this `state`. Other requests are refused, and the wait goes on.
    ///
    /// Returns when the response is sent. The listener is closed then.
    pub(super) async fn wait(self, state: &Secret) -> Callback {
        let expected = Arc::new(Expected::new(&self.redirect, state));
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                stream = accept(&self.sockets), if connections.len() < MAX_CONNECTIONS => match stream {
                    Ok(stream) => {
                        connections.spawn(serve(stream, expected.clone()));
                    }
                    Err(error) => {
                        tracing::debug!(%error, "cannot accept a connection to the login listener");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(callback) = connections.join_next() => {
                    if let Ok(Some(callback)) = callback {
                        return callback;
                    }
                }
            }
        }
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, LoginError> {
    TcpListener::bind(address).await.map_err(|error| listen_error(address.to_string(), error))
}

fn listen_error(address: String, error: io::Error) -> LoginError {
    LoginError::Listen { address, source: Arc::new(error) }
}

/// Waits for a connection to one of one or two sockets.
async fn accept(sockets: &[TcpListener]) -> io::Result<TcpStream> {
    let (stream, _) = match sockets {
        [first, second] => tokio::select! {
            accepted = first.accept() => accepted,
            accepted = second.accept() => accepted,
        },
        [first, ..] => first.accept().await,
        [] => std::future::pending().await,
    }?;
    Ok(stream)
}

/// Serves one request. Returns the callback if it was that.
async fn serve(stream: TcpStream, expected: Arc<Expected>) -> Option<Callback> {
    let received = Mutex::new(None);
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        let response = match expected.check(&request) {
            Ok(callback) => {
                let text = if callback.error.is_some() { FAILED } else { RECEIVED };
                *received.lock() = Some(callback);
                page(StatusCode::OK, text)
            }
            Err(response) => response,
        };
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let connection = http1::Builder::new()
        .max_buf_size(MAX_CALLBACK_BYTES)
        .max_headers(MAX_HEADERS)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(CONNECTION_TIMEOUT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection to the login listener failed"),
        Err(_) => tracing::debug!("a connection to the login listener took too long"),
    }
    received.into_inner()
}

/// The request that is waited for.
#[derive(Debug)]
struct Expected {
    state: Secret,
    path: String,
    hosts: Vec<String>,
    is_received: AtomicBool,
}

impl Expected {
    fn new(redirect: &RedirectUri, state: &Secret) -> Self {
        let mut hosts = vec![format!("{}:{}", redirect.host(), redirect.port())];
        if redirect.port() == 80 {
            hosts.push(redirect.host().to_owned());
        }
        Self { state: state.clone(), path: redirect.path().to_owned(), hosts, is_received: AtomicBool::new(false) }
    }

    /// Returns the callback, or the response to a request that is refused.
    #[expect(clippy::result_large_err, reason = "the response is returned at once")]
    fn check<B>(&self, request: &Request<B>) -> Result<Callback, Response<Full<Bytes>>> {
        if !self.has_host(request) {
            return Err(page(StatusCode::BAD_REQUEST, REFUSED));
        }
        if request.uri().path() != self.path {
            return Err(page(StatusCode::NOT_FOUND, NOT_FOUND));
        }
        if request.method() != Method::GET {
            let mut response = page(StatusCode::METHOD_NOT_ALLOWED, REFUSED);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
            return Err(response);
        }
        let callback = request
            .uri()
            .query()
            .and_then(|query| Callback::parse_query(query).ok())
            .filter(|callback| has_state(callback, &self.state));
        match callback {
            Some(callback) if !self.is_received.swap(true, Ordering::Relaxed) => Ok(callback),
            _ => Err(page(StatusCode::BAD_REQUEST, REFUSED)),
        }
    }

    /// Returns `true` if the request is for this listener by its name. A page of another site can reach the listener by a name that
    /// resolves to loopback.
    fn has_host<B>(&self, request: &Request<B>) -> bool {
        let mut values = request.headers().get_all(HOST).iter();
        let (Some(host), None) = (values.next(), values.next()) else {
            return false;
        };
        let is_ours = self.hosts.iter().any(|it| it.as_bytes().eq_ignore_ascii_case(host.as_bytes()));
        is_ours && request.uri().authority().is_none()
    }
}

/// A page with a fixed text. Nothing of the request appears in it.
fn page(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    let headers = [
        (CONTENT_TYPE, "text/plain; charset=utf-8"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (X_FRAME_OPTIONS, "DENY"),
        (CONNECTION, "close"),
    ];
    response.headers_mut().extend(headers.map(|(name, value)| (name, HeaderValue::from_static(value))));
    response
}

#[cfg(test)]
mod tests;
