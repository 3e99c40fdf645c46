//! A channel over any byte stream.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use turms_proto::Notification;
use turms_proto::session::{ClientOptions, ConnectionStats};

use crate::channel::{
    Channel, ChannelControl, CloseInfo, ConnectContext, ConnectError, Connector, OpenChannel, OutgoingRequest,
};
use crate::connection::{Connection, ConnectionHandle};
use crate::limits::Limits;
use crate::payload::Payload;
use crate::peer::{BoxFuture, PeerError, PeerTransport as _};
use crate::service::Service;

/// Connects a client over a byte stream: a socket, a pipe, one end of [`memory`](super::memory).
///
/// A stream can be used once. To reconnect, use [`StreamConnector::from_fn`] or another [`Connector`].
pub struct StreamConnector {
    open: Box<dyn Fn() -> OpenStreamFuture + Send + Sync>,
    limits: Limits,
    identity: Option<String>,
    is_repeatable: bool,
}

type OpenStreamFuture = BoxFuture<'static, Result<ByteStream, ConnectError>>;
type ByteStream = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

impl StreamConnector {
    /// Creates a connector for one stream, which connects once.
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let stream: Mutex<Option<ByteStream>> = Mutex::new(Some((Box::new(reader), Box::new(writer))));
        let open = move || {
            let stream = stream.lock().take();
            Box::pin(async move { stream.ok_or(ConnectError::AlreadyUsed) }) as OpenStreamFuture
        };
        Self { open: Box::new(open), limits: Limits::default(), identity: None, is_repeatable: false }
    }

    /// Creates a connector that opens a new stream for each connection. `server` identifies the server, in errors and as the key of caches.
    pub fn from_fn<R, W, F>(server: impl Into<String>, open: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
        F: Future<Output = std::io::Result<(R, W)>> + Send + 'static,
    {
        let server = server.into();
        let name = server.clone();
        let open = move || {
            let (stream, name) = (open(), name.clone());
            Box::pin(async move {
                let (reader, writer) = stream.await.map_err(|error| ConnectError::unreachable(name, error))?;
                let stream: ByteStream = (Box::new(reader), Box::new(writer));
                Ok(stream)
            }) as OpenStreamFuture
        };
        Self { open: Box::new(open), limits: Limits::default(), identity: Some(server), is_repeatable: true }
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

impl Connector for StreamConnector {
    fn connect(&self, cx: ConnectContext) -> BoxFuture<'_, Result<OpenChannel, ConnectError>> {
        Box::pin(async move {
            let (reader, writer) = (self.open)().await?;
            cx.initializing();
            let channel = StreamChannel::open(reader, writer, cx.client, self.limits.clone(), cx.incoming);
            let opened = channel.connection.opened().await?;
            Ok(OpenChannel::of(Arc::new(channel), opened))
        })
    }

    fn is_repeatable(&self) -> bool {
        self.is_repeatable
    }

    fn identity(&self) -> Option<String> {
        self.identity.clone()
    }
}

impl fmt::Debug for StreamConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamConnector").field("server", &self.identity).finish_non_exhaustive()
    }
}

/// A channel with its connection in a task. Dropping it closes the connection.
#[derive(Debug)]
pub(super) struct StreamChannel {
    pub(super) connection: ConnectionHandle,
}

impl StreamChannel {
    pub(super) fn open<R, W>(
        reader: R,
        writer: W,
        client: ClientOptions,
        limits: Limits,
        service: Arc<dyn Service>,
    ) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (driver, connection) = Connection::client(reader, writer, client, limits);
        tokio::spawn(async move {
            if let Err(error) = driver.run(service).await {
                tracing::debug!(target: "turms::client", error = &error as &dyn std::error::Error, "connection failed");
            }
        });
        Self { connection }
    }
}

impl Drop for StreamChannel {
    fn drop(&mut self) {
        // Running calls have the drain timeout to finish.
        self.connection.shutdown();
    }
}

impl Channel for StreamChannel {
    fn call(&self, request: OutgoingRequest) -> BoxFuture<'_, Result<Payload, PeerError>> {
        Box::pin(async move { self.connection.call(request).await.map(Payload::json) })
    }

    fn call_batch(&self, requests: Vec<OutgoingRequest>) -> BoxFuture<'_, Vec<Result<Payload, PeerError>>> {
        Box::pin(async move {
            let responses = self.connection.call_batch(requests).await;
            responses.into_iter().map(|response| response.map(Payload::json)).collect()
        })
    }

    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        self.connection.notify(notification)
    }
}

impl ChannelControl for StreamChannel {
    fn stats(&self) -> ConnectionStats {
        self.connection.stats()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.connection.shutdown();
            self.connection.closed().await;
        })
    }

    fn closed(&self) -> BoxFuture<'_, CloseInfo> {
        Box::pin(async move {
            self.connection.closed().await;
            CloseInfo::new()
        })
    }
}
