//! Plain HTTP/1.1 by ourselves, where neither TLS nor a proxy is wanted: whoever asks writes and reads in a future of their
//! own, with no task and no channel between. Everything else goes the way of `reqwest`.

mod connection;
mod pool;
mod response;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Url;

use self::connection::{Connection, Request};
use self::pool::Pool;
pub(super) use self::response::Head;
use self::response::HeadError;
pub(super) use self::response::WireBody;
use super::headers::Headers;
use crate::framing::ChunkError;

/// The connections to one server.
pub(super) struct Wire {
    connector: HttpConnector,
    /// The server without any path, as connectors want it.
    server: Uri,
    host: String,
    connect_timeout: Duration,
    read_timeout: Option<Duration>,
    pool: Arc<Pool>,
}

/// Why an exchange came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    #[error("no connection")]
    Connect(#[source] Box<dyn Error + Send + Sync>),
    #[error("the connection failed")]
    Io(#[source] io::Error),
    #[error("the connection was closed before the answer was complete")]
    Closed,
    #[error("nothing was heard for {0:?}")]
    Silent(Duration),
    #[error("the answer is none of HTTP/1.1")]
    Head(#[from] HeadError),
    #[error("the body of the answer cannot be read")]
    Chunk(#[from] ChunkError),
}

impl WireError {
    /// Whether there was no connection at all.
    pub(super) fn is_connect(&self) -> bool {
        matches!(self, Self::Connect(_))
    }

    /// Whether what came back is nothing that speaks HTTP.
    pub(super) fn is_not_http(&self) -> bool {
        matches!(self, Self::Head(HeadError::NotHttp(httparse::Error::Version)))
    }
}

impl Wire {
    /// To this server, if it can be reached plainly: without TLS, credentials in the address, or a proxy of the system.
    pub(super) fn new(
        url: &Url,
        minds_proxies: bool,
        connect_timeout: Duration,
        read_timeout: Option<Duration>,
    ) -> Option<Self> {
        if url.scheme() != "http" || !url.username().is_empty() || url.password().is_some() {
            return None;
        }
        let host = match url.port() {
            Some(port) => format!("{}:{port}", url.host_str()?),
            None => url.host_str()?.to_owned(),
        };
        let server: Uri = format!("http://{host}/").parse().ok()?;
        if minds_proxies && Matcher::from_system().intercept(&server).is_some() {
            return None;
        }
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(connect_timeout));
        connector.set_keepalive(Some(KEEP_ALIVE));
        connector.set_keepalive_interval(Some(KEEP_ALIVE));
        connector.set_keepalive_retries(Some(3));
        Some(Self { connector, server, host, connect_timeout, read_timeout, pool: Arc::default() })
    }

    /// Sends a request and reads the head of its answer.
    pub(super) async fn send(
        &self,
        method: &Method,
        url: &Url,
        headers: &Headers<'_>,
        body: &Bytes,
    ) -> Result<(Head, WireBody), WireError> {
        let mut request = Request::new(method, url, &self.host, headers, body);
        loop {
            let kept = self.pool.take();
            let is_kept = kept.is_some();
            let mut connection = match kept {
                Some(connection) => connection,
                None => self.connect().await?,
            };
            match within(self.read_timeout, connection.exchange(&mut request)).await {
                Ok(head) => {
                    let body = WireBody::new(connection, &head, self.read_timeout, self.pool.clone());
                    return Ok((head, body));
                }
                // The server has closed it while nobody used it, so nothing of the request was seen.
                Err(_) if is_kept && request.is_unsent() => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn connect(&self) -> Result<Connection, WireError> {
        use tower_service::Service as _;
        let mut connector = self.connector.clone();
        // The limit of the connector is one for the connection alone, when it is known where the server is.
        let stream = tokio::time::timeout(self.connect_timeout, connector.call(self.server.clone())).await;
        let stream = stream.map_err(|elapsed| WireError::Connect(Box::new(elapsed)))?;
        let stream = stream.map_err(|error| WireError::Connect(Box::new(error)))?;
        Ok(Connection::new(stream.into_inner()))
    }
}

/// How often a connection on which nothing happens is asked whether the other side is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Waits no longer than this, if there is a limit.
async fn within<T>(limit: Option<Duration>, work: impl Future<Output = Result<T, WireError>>) -> Result<T, WireError> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, work).await.unwrap_or(Err(WireError::Silent(limit))),
        None => work.await,
    }
}
