//! Connections to servers: direct, through a proxy, or to a Unix socket, with TLS for `https://`.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::Scheme;
use http::{HeaderValue, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use rustls::ClientConfig;
use tower_service::Service;
use turms_core::BoxFuture;
use turms_proto::format_duration;

use super::address_check::{AddressCheck, CheckedResolver, check_address};
use super::dialed_stream::{DialedStream, RouteStream};

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Error for a connection that was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// It took longer than the connect timeout.
    #[error("no connection within {}", format_duration(*.0))]
    Timeout(Duration),
    /// The address check refused an address.
    #[error("cannot connect to {host}: its address {ip} is not allowed")]
    AddressRefused {
        /// Host of the URL.
        host: String,
        /// The address that was refused.
        ip: IpAddr,
        /// The error of the check.
        #[source]
        source: BoxError,
    },
    /// Connecting to the Unix socket failed.
    #[error("cannot connect to the Unix socket")]
    UnixSocket(#[source] io::Error),
    /// Connecting to the proxy failed, or it refused the tunnel.
    #[error("cannot connect through the proxy")]
    Proxy(#[source] BoxError),
    /// The proxy has a scheme that is not supported.
    #[error("proxy scheme {0:?} is not supported; use http or https")]
    ProxyScheme(String),
}

/// Connects to servers. Cheap to clone: the client of hyper-util makes a clone for each request.
#[derive(Clone)]
pub struct Dialer(Arc<DialerState>);

struct DialerState {
    route: Route,
    tls: Arc<ClientConfig>,
}

/// The path to a server, up to TLS.
#[derive(Clone)]
pub(super) struct Route {
    pub(super) proxies: Option<Arc<Matcher>>,
    /// TLS to proxies.
    pub(super) proxy_tls: Arc<ClientConfig>,
    /// `true` to ask proxies for a tunnel for plain connections, too.
    pub(super) is_tunnelled: bool,
    pub(super) socket: Option<PathBuf>,
    pub(super) check: Option<Arc<AddressCheck>>,
    /// Timeout for a connection: name resolution, TCP, the proxy and TLS together.
    pub(super) timeout: Duration,
}

impl Dialer {
    pub(super) fn new(route: Route, tls: Arc<ClientConfig>) -> Self {
        Self(Arc::new(DialerState { route, tls }))
    }

    /// Connects to the host and port of a URL.
    ///
    /// # Errors
    /// A [`DialError`], an `io::Error` of the TLS handshake, or the error of hyper-util for name resolution and TCP.
    pub async fn dial(&self, uri: Uri) -> Result<DialedStream, BoxError> {
        let DialerState { route, tls } = &*self.0;
        let mut connector = HttpsConnector::from((route.clone(), tls.clone()));
        let dialed = tokio::time::timeout(route.timeout, connector.call(uri)).await;
        dialed.map_err(|_| DialError::Timeout(route.timeout))?
    }

    /// Returns the credentials for a proxy that plain requests to this server are sent to.
    pub(super) fn proxy_authorization(&self, uri: &Uri) -> Option<HeaderValue> {
        let route = &self.0.route;
        route.proxy(uri).filter(|_| route.is_forwarded(uri))?.basic_auth().cloned()
    }
}

impl Route {
    async fn open(self, uri: Uri) -> Result<RouteStream, BoxError> {
        #[cfg(unix)]
        if let Some(path) = &self.socket {
            let stream = tokio::net::UnixStream::connect(path).await.map_err(DialError::UnixSocket)?;
            return Ok(RouteStream::direct(hyper_util::rt::TokioIo::new(stream)));
        }
        self.check_literal(&uri, false)?;
        let Some(proxy) = self.proxy(&uri) else { return Ok(RouteStream::direct(self.tcp(false).call(uri).await?)) };
        self.check_literal(proxy.uri(), true)?;
        let scheme = proxy.uri().scheme_str().unwrap_or_default();
        if !matches!(scheme, "http" | "https") {
            return Err(DialError::ProxyScheme(scheme.to_owned()).into());
        }
        let mut connector = HttpsConnector::from((self.tcp(true), self.proxy_tls.clone()));
        if self.is_forwarded(&uri) {
            let stream = connector.call(proxy.uri().clone()).await.map_err(DialError::Proxy)?;
            return Ok(RouteStream::forwarded(stream));
        }
        let mut tunnel = Tunnel::new(proxy.uri().clone(), connector);
        if let Some(credentials) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(credentials.clone());
        }
        let stream = tunnel.call(uri).await.map_err(|error| DialError::Proxy(error.into()))?;
        Ok(RouteStream::direct(stream))
    }

    fn proxy(&self, uri: &Uri) -> Option<Intercept> {
        self.proxies.as_ref().filter(|_| self.socket.is_none())?.intercept(uri)
    }

    /// Returns `true` if a proxy gets requests to this server itself, rather than tunnels to it.
    fn is_forwarded(&self, uri: &Uri) -> bool {
        uri.scheme() == Some(&Scheme::HTTP) && !self.is_tunnelled
    }

    fn tcp(&self, is_proxy: bool) -> HttpConnector<CheckedResolver> {
        let mut tcp = HttpConnector::new_with_resolver(CheckedResolver { check: self.check.clone(), is_proxy });
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(self.timeout));
        tcp.set_keepalive(Some(KEEP_ALIVE));
        tcp.set_keepalive_interval(Some(KEEP_ALIVE));
        tcp.set_keepalive_retries(Some(3));
        tcp
    }

    /// Checks a host that is an address: such a host does not reach the resolver.
    fn check_literal(&self, uri: &Uri, is_proxy: bool) -> Result<(), DialError> {
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        match (&self.check, host.parse()) {
            (Some(check), Ok(ip)) => check_address(&**check, host, ip, is_proxy),
            _ => Ok(()),
        }
    }
}

/// Interval of TCP keep-alive probes on an idle connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

impl Service<Uri> for Route {
    type Response = RouteStream;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<RouteStream, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().open(uri))
    }
}

impl Service<Uri> for Dialer {
    type Response = DialedStream;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<DialedStream, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let dialer = self.clone();
        Box::pin(async move { dialer.dial(uri).await })
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer").field("timeout", &self.0.route.timeout).finish_non_exhaustive()
    }
}
