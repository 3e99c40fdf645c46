use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio_rustls::rustls::ClientConfig;
use tokio_tungstenite::tungstenite::protocol::Role;
use turms_core::transport::StreamConnector;
use turms_core::{
    BoxFuture, Channel, ConnectError, Connector, Ended, Established, Limits, Outgoing, Payload, PeerError, Service,
};
use turms_proto::Notification;
use turms_proto::session::{ClientOptions, Stats};

use crate::dial::{WsConnectError, dial, system_tls};
use crate::farewell::Farewell;
use crate::pulse::KeepAlive;
use crate::socket::Socket;
use crate::url::{WsUrl, WsUrlError};

/// Connects a client over WebSocket, as often as it wants.
///
/// The server is asked for the subprotocol `mcp`. One that names another is refused; one that names none is not.
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
    tls: OnceLock<Arc<ClientConfig>>,
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
            tls: OnceLock::new(),
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

    /// With TLS as configured here, such as for a private authority or with a certificate of the client's own. Unless said
    /// otherwise, what this machine trusts is trusted. Has no meaning for `ws://`.
    pub fn tls_config(mut self, config: Arc<ClientConfig>) -> Self {
        self.tls = OnceLock::from(config);
        self
    }

    async fn dial(&self) -> Result<Upgraded, WsConnectError> {
        match &self.wrong {
            Some(wrong) => Err(WsConnectError::Header(wrong.clone())),
            None => dial(&self.url, &self.headers, self.tls()?).await,
        }
    }

    fn tls(&self) -> Result<Option<Arc<ClientConfig>>, WsConnectError> {
        if !self.url.tls() {
            return Ok(None);
        }
        if let Some(config) = self.tls.get() {
            return Ok(Some(config.clone()));
        }
        let config = system_tls()?;
        Ok(Some(self.tls.get_or_init(|| config).clone()))
    }
}

impl Connector for WsConnector {
    fn connect(
        &self,
        client: ClientOptions,
        service: Arc<dyn Service>,
    ) -> BoxFuture<'_, Result<Established, ConnectError>> {
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
                Ok(Established { channel, opened, .. }) => {
                    Ok(Established::new(Arc::new(WsChannel { channel, farewell }), opened))
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
        Some(self.url.full())
    }
}

/// Headers and the query of the URL may hold secrets and are not shown.
impl fmt::Debug for WsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WsConnector").field("url", &self.url).finish_non_exhaustive()
    }
}

/// A channel that knows how it ended.
struct WsChannel {
    channel: Arc<dyn Channel>,
    farewell: Arc<Farewell>,
}

impl Channel for WsChannel {
    fn request(&self, request: Outgoing) -> BoxFuture<'_, Result<Payload, PeerError>> {
        self.channel.request(request)
    }

    fn batch(&self, requests: Vec<Outgoing>) -> BoxFuture<'_, Vec<Result<Payload, PeerError>>> {
        self.channel.batch(requests)
    }

    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        self.channel.notify(notification)
    }

    fn stats(&self) -> Stats {
        self.channel.stats()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.channel.close()
    }

    fn closed(&self) -> BoxFuture<'_, Ended> {
        Box::pin(async move {
            self.channel.closed().await;
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
