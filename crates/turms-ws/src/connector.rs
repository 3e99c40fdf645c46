use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::protocol::Role;
use turms_core::transport::StreamConnector;
use turms_core::{
    BoxFuture, CallClock, ChannelControl, CloseInfo, ConnectContext, ConnectError, Connector, Limits, OpenChannel,
};
use turms_http::__internal::{AuthorizeAttempts, DialOptions, DialProtocol, Dialer, ServerAuthorizer, is_rejection};
use turms_http::{AuthorizeError, Authorizer, DialAddress, RequestPurpose};
use turms_proto::session::ConnectionStats;

use crate::client_handshake::open;
use crate::close::CloseState;
use crate::error::WsError;
use crate::heartbeat::HeartbeatOptions;
use crate::socket::WsByteStream;
use crate::url::WsUrl;
use ::url::Url;

/// Connects a client over WebSocket.
///
/// It requests the subprotocol `mcp`. A server that chooses another one is rejected; a server that chooses none is accepted.
///
/// It uses the proxies of the system: `HTTPS_PROXY` for `wss://`, `HTTP_PROXY` for `ws://`, `ALL_PROXY` and `NO_PROXY`. They must support
/// `CONNECT`.
///
/// ```no_run
/// # mod turms { pub use turms_ws as ws; }
/// use turms::ws::WsConnector;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let connector = WsConnector::new("wss://example.com/mcp")?.header("authorization", "Bearer very-secret");
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct WsConnector {
    url: WsUrl,
    headers: HeaderMap,
    /// The error of an invalid header, returned by `connect`.
    header_error: Option<String>,
    authorizer: Option<ServerAuthorizer>,
    authorize_timeout: Duration,
    /// The URL for the authorizer.
    http_url: Option<Url>,
    dial_options: DialOptions,
    /// Created by the first connection.
    dialer: OnceLock<Dialer>,
    connect_timeout: Duration,
    heartbeat: HeartbeatOptions,
    limits: Limits,
}

impl WsConnector {
    /// Creates a connector for a URL: `ws://…`, or `wss://…` with TLS.
    ///
    /// # Errors
    /// If the URL is invalid, or contains credentials: they belong in a header.
    pub fn new(url: impl AsRef<str>) -> Result<Self, WsError> {
        let url = WsUrl::parse(url.as_ref())?;
        Ok(Self {
            authorizer: None,
            authorize_timeout: ServerAuthorizer::DEFAULT_TIMEOUT,
            http_url: url.http_url(),
            url,
            headers: HeaderMap::new(),
            header_error: None,
            dial_options: DialOptions::new(),
            dialer: OnceLock::new(),
            connect_timeout: Duration::from_secs(30),
            heartbeat: HeartbeatOptions::default(),
            limits: Limits::default(),
        })
    }

    /// Adds a header to the upgrade request. The headers of the WebSocket handshake itself cannot be changed. An invalid header is reported by
    /// `connect`.
    pub fn header(
        mut self,
        name: impl TryInto<HeaderName, Error: Into<http::Error>>,
        value: impl TryInto<HeaderValue, Error: Into<http::Error>>,
    ) -> Self {
        let Ok(name) = name.try_into() else {
            self.header_error = Some("invalid header name".to_owned());
            return self;
        };
        match value.try_into() {
            Ok(mut value) => {
                value.set_sensitive(true);
                self.headers.append(name, value);
            }
            // The value is not shown, because it may be a secret.
            Err(_) => self.header_error = Some(format!("header {name:?}: invalid value")),
        }
        self
    }

    /// Adds headers to the upgrade request, as [`header`](Self::header).
    pub fn headers(mut self, mut headers: HeaderMap) -> Self {
        headers.values_mut().for_each(|value| value.set_sensitive(true));
        self.headers.extend(headers);
        self
    }

    /// Sets the source of credentials for the upgrade request, as [`HttpConnector::authorizer`](turms_http::HttpConnector::authorizer). It
    /// gets the URL with the scheme `http` or `https`. Its headers replace those [set here](Self::header). The timeouts of connecting
    /// do not run while it works.
    pub fn authorizer(mut self, authorizer: impl Authorizer) -> Self {
        match &self.http_url {
            Some(url) => self.authorizer = Some(ServerAuthorizer::new(authorizer, url)),
            None => self.header_error = Some("the URL is not valid for an authorizer".to_owned()),
        }
        self
    }

    /// Sets the timeout for the authorizer to obtain credentials, such as by a login. Default: 10 min.
    pub fn authorize_timeout(mut self, timeout: Duration) -> Self {
        self.authorize_timeout = timeout;
        self
    }

    /// Sets the timeout for the connection and the WebSocket handshake. Default: 30 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the time without messages after which the server is pinged; `None` for no pings. Default: 30 s.
    pub fn ping_interval(mut self, interval: impl Into<Option<Duration>>) -> Self {
        self.heartbeat.interval = interval.into();
        self
    }

    /// Sets the timeout for any message after a ping. Default: 30 s. Then the connection is closed.
    pub fn ping_timeout(mut self, timeout: Duration) -> Self {
        self.heartbeat.timeout = timeout;
        self
    }

    /// Sets the maximum length of a message in bytes. Default: 16 MiB. A longer one closes the connection with 1009.
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.limits.max_message_bytes = bytes;
        self
    }

    /// Sets the limits.
    pub fn options(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Connects through this proxy instead of those of the system: `http://user:password@proxy.example.com:8080`. An invalid URL is reported
    /// by `connect`.
    pub fn proxy(mut self, url: impl AsRef<str>) -> Self {
        self.dial_options.set_proxy(url.as_ref());
        self
    }

    /// Connects without a proxy.
    pub fn no_proxy(mut self) -> Self {
        self.dial_options.set_no_proxy();
        self
    }

    /// Trusts these root certificates, in PEM, in addition to those of the system. Invalid ones are reported by `connect`.
    pub fn root_certificates(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.dial_options.add_root_certificates(pem.as_ref());
        self
    }

    /// Connects to this Unix socket, without a proxy. The host and path of the request are still those of the URL.
    #[cfg(unix)]
    pub fn unix_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.dial_options.set_unix_socket(path.into());
        self
    }

    /// Checks each IP address before connecting to it, as [`HttpConnector::address_check`](turms_http::HttpConnector::address_check).
    pub fn address_check<E: Into<Box<dyn Error + Send + Sync>>>(
        mut self,
        check: impl Fn(&DialAddress<'_>) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        self.dial_options.set_address_check(check);
        self
    }

    /// Sets the TLS configuration for `wss://`, such as with a client certificate. It replaces the root certificates of the system and
    /// [those added](Self::root_certificates). Needs the feature `rustls-0_23`.
    #[cfg(feature = "rustls-0_23")]
    pub fn tls_config(mut self, config: Arc<rustls::ClientConfig>) -> Self {
        self.dial_options.set_tls_config(config);
        self
    }

    /// Opens a WebSocket. The clock stops while the authorizer works.
    async fn open(&self, cx: &ConnectContext, clock: &CallClock) -> Result<Upgraded, WsError> {
        if let Some(error) = &self.header_error {
            return Err(WsError::Header(error.clone()));
        }
        let dialer = self.dialer()?;
        let authorizer = self.authorizer.clone().map(|authorizer| authorizer.timeout(self.authorize_timeout));
        let (Some(authorizer), Some(url)) = (&authorizer, &self.http_url) else {
            return Ok(open(&self.url, &self.headers, dialer).await?.0);
        };
        let unauthorized =
            |source: AuthorizeError| WsError::Authorize { server: url.origin().ascii_serialization(), source };
        let purpose = if cx.is_background { RequestPurpose::Stream } else { RequestPurpose::Call };
        let mut attempts = AuthorizeAttempts::new(Some(authorizer), &Method::GET, purpose);
        loop {
            let mut headers = self.headers.clone();
            let credentials = match attempts.cached(url) {
                Some(credentials) => credentials,
                None => clock.paused(cx.pauses.during(attempts.authorize(url))).await.map_err(unauthorized)?,
            };
            credentials.apply(&mut headers);
            let was_authorized = headers.contains_key(AUTHORIZATION);
            let refused = match open(&self.url, &headers, dialer).await {
                Ok((stream, headers)) => {
                    authorizer.responded(url, StatusCode::SWITCHING_PROTOCOLS, &headers);
                    return Ok(stream);
                }
                Err(error) => error,
            };
            let WsError::Refused { status, headers, .. } = &refused else { return Err(refused) };
            if !is_rejection(*status) {
                authorizer.responded(url, *status, headers);
                return Err(refused);
            }
            let rejected = attempts.rejected(*status, headers, url, was_authorized);
            if !clock.paused(cx.pauses.during(rejected)).await.map_err(unauthorized)? {
                return Err(refused);
            }
        }
    }

    fn dialer(&self) -> Result<&Dialer, WsError> {
        if let Some(dialer) = self.dialer.get() {
            return Ok(dialer);
        }
        let mut options = self.dial_options.clone();
        // The whole handshake has the same timeout.
        options.set_connect_timeout(self.connect_timeout);
        let dialer = options.build(&self.url.dial_url(), DialProtocol::Upgrade).map_err(WsError::of_options)?;
        Ok(self.dialer.get_or_init(|| dialer))
    }
}

impl Connector for WsConnector {
    fn connect(&self, cx: ConnectContext) -> BoxFuture<'_, Result<OpenChannel, ConnectError>> {
        Box::pin(async move {
            let (server, limit) = (self.url.to_string(), self.connect_timeout);
            let clock = CallClock::new(Some(limit), None);
            let stream = clock
                .run(self.open(&cx, &clock))
                .await
                .map_err(|_| ConnectError::Timeout { server: Some(server.clone()), limit })?
                .map_err(|error| match error {
                    WsError::Authorize { ref source, .. } => {
                        let transient = source.is_transient();
                        ConnectError::Unauthorized { server, source: Arc::new(error), transient }
                    }
                    error if error.is_unauthorized() => ConnectError::unauthorized(server, error),
                    WsError::Refused { .. } => ConnectError::rejected(server, error),
                    error => ConnectError::unreachable(server, error),
                })?;
            let close = Arc::new(CloseState::default());
            let limit = self.limits.max_message_bytes;
            let stream = TokioIo::new(stream);
            let socket = WsByteStream::new(stream, Role::Client, limit, self.heartbeat, close.clone()).await;
            let (reader, writer) = tokio::io::split(socket);
            let stream = StreamConnector::new(reader, writer).limits(self.limits.clone());
            match stream.connect(cx).await {
                Ok(OpenChannel { channel, control: inner, negotiated, .. }) => {
                    Ok(OpenChannel::new(channel, Arc::new(WsControl { inner, close }), negotiated))
                }
                Err(ConnectError::Closed(_)) => Err(ConnectError::Closed(close.reason())),
                Err(error) => Err(error),
            }
        })
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn identity(&self) -> Option<String> {
        Some(match self.dial_options.unix_socket() {
            Some(socket) => format!("{} {}", self.url.full(), socket.display()),
            None => self.url.full(),
        })
    }
}

/// Hides the headers and the query of the URL, which may contain secrets.
impl fmt::Debug for WsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WsConnector").field("url", &self.url).finish_non_exhaustive()
    }
}

/// The control of a WebSocket connection, with the reason of its close frame.
struct WsControl {
    inner: Arc<dyn ChannelControl>,
    close: Arc<CloseState>,
}

impl ChannelControl for WsControl {
    fn stats(&self) -> ConnectionStats {
        self.inner.stats()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }

    fn closed(&self) -> BoxFuture<'_, CloseInfo> {
        Box::pin(async move {
            self.inner.closed().await;
            self.close.reason()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_is_marked_sensitive() {
        let many = HeaderMap::from_iter([(HeaderName::from_static("x-key"), HeaderValue::from_static("very-secret"))]);
        let connector = WsConnector::new("wss://example.com/mcp").unwrap();
        let connector = connector.header("authorization", "Bearer very-secret").headers(many);
        assert_eq!(connector.headers.len(), 2);
        assert!(connector.headers.values().all(HeaderValue::is_sensitive), "{:?}", connector.headers);
        assert!(!format!("{:?}", connector.headers).contains("very-secret"));
    }

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, bytes, time};

        let it = WsConnector::new("wss://example.com/mcp").unwrap();
        let interval = it.heartbeat.interval.unwrap();
        let code = [
            ("WsConnector::authorize_timeout", time(it.authorize_timeout)),
            ("WsConnector::connect_timeout", time(it.connect_timeout)),
            ("WsConnector::ping_interval", time(interval)),
            ("WsConnector::ping_timeout", time(it.heartbeat.timeout)),
            ("WsConnector::max_message_bytes", bytes(it.limits.max_message_bytes)),
        ];
        assert_documented(include_str!("connector.rs"), &code);
    }
}
