use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio_tungstenite::tungstenite::protocol::Role;
use turms_core::transport::StreamConnector;
use turms_core::{BoxFuture, ChannelControl, ConnectError, Connector, Ended, Limits, OpenChannel, Service};
use turms_http::__internal::{DialOptions, DialProtocol, Dialer};
use turms_http::DialAddress;
use turms_proto::session::{ClientOptions, Stats};

use crate::client_handshake::{WsConnectError, dial};
use crate::close::Farewell;
use crate::heartbeat::KeepAlive;
use crate::socket::Socket;
use crate::url::{WsUrl, WsUrlError};

/// Connects a client over WebSocket, as often as it wants.
///
/// The server is asked for the subprotocol `mcp`. One that names another is refused; one that names none is not.
///
/// Proxies are those of the system: `HTTPS_PROXY` for `wss://`, `HTTP_PROXY` for `ws://`, `ALL_PROXY` and `NO_PROXY`. They are asked for a
/// tunnel.
///
/// ```no_run
/// use turms_ws::WsConnector;
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
    /// What was to be a header and cannot be one.
    wrong: Option<String>,
    dial: DialOptions,
    tls: Option<Arc<ClientConfig>>,
    /// Made by the first connection, and used by all later ones.
    dialer: OnceLock<Dialer>,
    connect_timeout: Duration,
    keep_alive: KeepAlive,
    options: Limits,
}

impl WsConnector {
    /// To the server at this URL: `ws://…`, or `wss://…` with TLS.
    ///
    /// # Errors
    /// When it is no such URL, or holds credentials: they belong into a header.
    pub fn new(url: impl AsRef<str>) -> Result<Self, WsUrlError> {
        Ok(Self {
            url: WsUrl::parse(url.as_ref())?,
            headers: HeaderMap::new(),
            wrong: None,
            dial: DialOptions::new(),
            tls: None,
            dialer: OnceLock::new(),
            connect_timeout: Duration::from_secs(30),
            keep_alive: KeepAlive::default(),
            options: Limits::default(),
        })
    }

    /// Sends a header with the request for a WebSocket, beside those that were given before. Those that make the request one
    /// for a WebSocket cannot be changed.
    /// What cannot be a header is an error when it comes to connecting.
    pub fn header(
        mut self,
        name: impl TryInto<HeaderName, Error: Into<http::Error>>,
        value: impl TryInto<HeaderValue, Error: Into<http::Error>>,
    ) -> Self {
        let Ok(name) = name.try_into() else {
            self.wrong = Some("the name of a header is none".to_owned());
            return self;
        };
        match value.try_into() {
            Ok(mut value) => {
                value.set_sensitive(true);
                self.headers.append(name, value);
            }
            // The value may be a secret.
            Err(_) => self.wrong = Some(format!("the value of the header {name:?} holds what a header cannot")),
        }
        self
    }

    /// Sends headers with the request for a WebSocket, as [`header`](Self::header).
    pub fn headers(mut self, mut headers: HeaderMap) -> Self {
        headers.values_mut().for_each(|value| value.set_sensitive(true));
        self.headers.extend(headers);
        self
    }

    /// Gives up if there is no WebSocket after so long; 30 seconds unless said otherwise.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Pings a server that has been quiet for so long; 30 seconds unless said otherwise. `None` never does.
    pub fn ping_interval(mut self, interval: impl Into<Option<Duration>>) -> Self {
        self.keep_alive.interval = interval.into();
        self
    }

    /// Gives a server up that has sent nothing for so long after a ping; 30 seconds unless said otherwise.
    pub fn ping_timeout(mut self, timeout: Duration) -> Self {
        self.keep_alive.timeout = timeout;
        self
    }

    /// Takes messages of at most so many bytes. A longer one closes the connection with 1009.
    pub fn limit(mut self, bytes: usize) -> Self {
        self.options.max_message_bytes = bytes;
        self
    }

    /// With other bounds.
    pub fn options(mut self, options: Limits) -> Self {
        self.options = options;
        self
    }

    /// Connects through this proxy, rather than those of the system: `http://user:password@proxy.example.com:8080`. An invalid URL
    /// is an error when it comes to connecting.
    pub fn proxy(mut self, url: impl AsRef<str>) -> Self {
        self.dial.set_proxy(url.as_ref());
        self
    }

    /// Connects without a proxy.
    pub fn no_proxy(mut self) -> Self {
        self.dial.set_no_proxy();
        self
    }

    /// Trusts these certificates, in PEM, beside those that the system trusts: for a private authority. Invalid ones are an
    /// error when it comes to connecting.
    pub fn root_certificates(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.dial.add_root_certificates(pem.as_ref());
        self
    }

    /// Connects to this Unix socket, without a proxy. The URL still says which host and path are asked for.
    #[cfg(unix)]
    pub fn unix_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.dial.set_unix_socket(path.into());
        self
    }

    /// Checks each address before it is connected to, as
    /// [`HttpConnector::address_check`](turms_http::HttpConnector::address_check).
    pub fn address_check<E: Into<Box<dyn Error + Send + Sync>>>(
        mut self,
        check: impl Fn(&DialAddress<'_>) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        self.dial.set_address_check(check);
        self
    }

    /// Uses this TLS configuration for `wss://`, in place of the roots of the system and [those added](Self::root_certificates):
    /// with a certificate of the client's own, for example.
    pub fn tls_config(mut self, config: Arc<ClientConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    async fn dial(&self) -> Result<Upgraded, WsConnectError> {
        match &self.wrong {
            Some(wrong) => Err(WsConnectError::Header(wrong.clone())),
            None => dial(&self.url, &self.headers, self.dialer()?).await,
        }
    }

    fn dialer(&self) -> Result<&Dialer, WsConnectError> {
        if let Some(dialer) = self.dialer.get() {
            return Ok(dialer);
        }
        let mut options = self.dial.clone();
        // The same timeout runs around it, together with the handshake.
        options.set_connect_timeout(self.connect_timeout);
        let dialer = options.build(&self.url.dialed(), DialProtocol::Upgrade, self.tls.clone())?;
        Ok(self.dialer.get_or_init(|| dialer))
    }
}

impl Connector for WsConnector {
    fn connect(
        &self,
        client: ClientOptions,
        service: Arc<dyn Service>,
    ) -> BoxFuture<'_, Result<OpenChannel, ConnectError>> {
        Box::pin(async move {
            let stream = tokio::time::timeout(self.connect_timeout, self.dial())
                .await
                .map_err(|_| ConnectError::Late { server: self.url.to_string(), limit: self.connect_timeout })?
                .map_err(|error| match error {
                    WsConnectError::Refused { .. } => ConnectError::rejected(self.url.to_string(), error),
                    error => ConnectError::unreachable(self.url.to_string(), error),
                })?;
            let farewell = Arc::new(Farewell::default());
            let limit = self.options.max_message_bytes;
            let stream = TokioIo::new(stream);
            let socket = Socket::new(stream, Role::Client, limit, self.keep_alive, farewell.clone()).await;
            let (reader, writer) = tokio::io::split(socket);
            let stream = StreamConnector::new(reader, writer).options(self.options.clone());
            match stream.connect(client, service).await {
                Ok(OpenChannel { channel, control: inner, negotiated, .. }) => {
                    Ok(OpenChannel::new(channel, Arc::new(WsControl { inner, farewell }), negotiated))
                }
                Err(ConnectError::Ended(_)) => Err(ConnectError::Ended(farewell.ended())),
                Err(error) => Err(error),
            }
        })
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn identity(&self) -> Option<String> {
        Some(match self.dial.unix_socket() {
            Some(socket) => format!("{} {}", self.url.full(), socket.display()),
            None => self.url.full(),
        })
    }
}

/// Headers and the query of the URL may hold secrets and are not shown.
impl fmt::Debug for WsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WsConnector").field("url", &self.url).finish_non_exhaustive()
    }
}

/// The control of a WebSocket connection, with the reason of its close frame.
struct WsControl {
    inner: Arc<dyn ChannelControl>,
    farewell: Arc<Farewell>,
}

impl ChannelControl for WsControl {
    fn stats(&self) -> Stats {
        self.inner.stats()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }

    fn closed(&self) -> BoxFuture<'_, Ended> {
        Box::pin(async move {
            self.inner.closed().await;
            self.farewell.ended()
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
}
