use std::convert::Infallible;
use std::fmt;
use std::future::{Ready, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_tungstenite::tungstenite::protocol::Role;
use turms_core::{BoxFuture, Connection, ConnectionError, Endpoint, IntoEndpoint, ServeError, Shutdown};
use turms_http::{AccessPolicy, BodyError, BodyLimit, HttpBody, HttpHandler, Listener, RequestHead};

use crate::body::WsBody;
use crate::close::Farewell;
use crate::heartbeat::KeepAlive;
use crate::socket::{Socket, is_gone};
use crate::upgrade::{Refusal, Upgrade};

/// Serves clients over WebSocket.
///
/// It is a tower service that answers requests for an upgrade, so it can be mounted into any application on hyper or axum
/// (`router.route_service("/ws", server.ws())`), or be given to a [`Listener`].
///
/// A request is refused, with a line of text that says why, unless it is one for a WebSocket of version 13, comes from
/// a host and an origin that [`WsService::access`] lets in, and asks for the subprotocol `mcp` or for none at all. What its
/// headers say, its URI, and whatever the application's own middleware put into its extensions are there for the handlers of
/// every call over the connection. Who the client is has to be found out there: before it is upgraded.
#[derive(Clone)]
#[must_use]
pub struct WsService {
    endpoint: Endpoint,
    settings: Arc<Settings>,
    slots: Arc<Semaphore>,
    /// Begins with the shutdown of the server, or by [`WsService::shutdown`].
    shutdown: Shutdown,
}

#[derive(Debug, Clone)]
struct Settings {
    access: AccessPolicy,
    keep_alive: KeepAlive,
    max_connections: u32,
}

/// How long the answer to a request may take to leave.
const UPGRADING: Duration = Duration::from_secs(10);

impl WsService {
    /// How many connections there may be unless said otherwise.
    pub const DEFAULT_MAX_CONNECTIONS: u32 = 10_000;

    /// Serves this endpoint.
    pub fn new(endpoint: Endpoint) -> Self {
        let settings = Settings {
            access: AccessPolicy::new(),
            keep_alive: KeepAlive::default(),
            max_connections: Self::DEFAULT_MAX_CONNECTIONS,
        };
        let shutdown = endpoint.shutdown().child();
        Self { endpoint, settings: Arc::new(settings), slots: slots(Self::DEFAULT_MAX_CONNECTIONS), shutdown }
    }

    /// Lets in whom the policy lets in. Unless said otherwise: hosts and origins on loopback.
    pub fn access(mut self, policy: AccessPolicy) -> Self {
        self.settings_mut().access = policy;
        self
    }

    /// Pings a client that has been quiet for so long; 30 seconds unless said otherwise. `None` never does, and a client that
    /// is gone without a word is noticed only when something is sent to it.
    pub fn ping_interval(mut self, interval: impl Into<Option<Duration>>) -> Self {
        self.settings_mut().keep_alive.interval = interval.into();
        self
    }

    /// Gives a client up that has sent nothing for so long after a ping; 30 seconds unless said otherwise.
    pub fn ping_timeout(mut self, timeout: Duration) -> Self {
        self.settings_mut().keep_alive.timeout = timeout;
        self
    }

    /// Serves so many connections at once and refuses more with 503.
    ///
    /// Clones that were made before count on their own.
    pub fn max_connections(mut self, count: u32) -> Self {
        let most = u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX);
        self.settings_mut().max_connections = count.min(most);
        self.slots = slots(count.min(most));
        self
    }

    fn settings_mut(&mut self) -> &mut Settings {
        Arc::make_mut(&mut self.settings)
    }

    fn answer_or_refuse<B>(&self, request: http::Request<B>) -> http::Response<WsBody> {
        self.answer(request).unwrap_or_else(|refusal| {
            tracing::debug!(target: "turms::server", %refusal, "refused to open a WebSocket");
            refusal.response()
        })
    }

    fn answer<B>(&self, mut request: http::Request<B>) -> Result<http::Response<WsBody>, Refusal> {
        let upgrading = request.extensions().get::<OnUpgrade>().is_some().then(|| hyper::upgrade::on(&mut request));
        let (request, _) = request.into_parts();
        let upgrade = Upgrade::read(&request, &self.settings.access)?;
        let upgrading = upgrading.ok_or(Refusal::Impossible)?;
        let slot = self.slots.clone().try_acquire_owned().map_err(|_| Refusal::Full)?;
        tokio::spawn(self.clone().serve(upgrading, request, slot));
        Ok(upgrade.grant())
    }

    /// Serves one client, from the answer that grants the upgrade to the end.
    async fn serve(self, upgrading: OnUpgrade, request: Parts, slot: OwnedSemaphorePermit) {
        match tokio::time::timeout(UPGRADING, upgrading).await {
            Ok(Ok(stream)) => {
                if let Err(error) = self.drive(stream, request).await
                    && !is_gone(&error)
                {
                    tracing::debug!(target: "turms::server", error = &error as &dyn std::error::Error, "a connection broke");
                }
            }
            Ok(Err(error)) => {
                tracing::debug!(target: "turms::server", error = &error as &dyn std::error::Error, "a connection broke before it was upgraded");
            }
            Err(_) => tracing::debug!(target: "turms::server", "a connection was not upgraded in time"),
        }
        drop(slot);
    }

    async fn drive(&self, stream: Upgraded, request: Parts) -> Result<(), ConnectionError> {
        let (limits, keep_alive) = (&self.endpoint.info().limits, self.settings.keep_alive);
        let farewell = Arc::new(Farewell::default());
        let stream = TokioIo::new(stream);
        let socket = Socket::new(stream, Role::Server, limits.max_message_bytes, keep_alive, farewell.clone()).await;
        let (reader, writer) = tokio::io::split(socket);
        let (connection, handle) = Connection::server(reader, writer, &self.endpoint.info().versions, limits.clone());
        let Parts { headers, uri, mut extensions, .. } = request;
        extensions.insert(headers);
        extensions.insert(uri);
        let mut running = pin!(connection.with_extensions(extensions).run(self.endpoint.service().clone()));
        tokio::select! {
            // The shutdown first, so that no request is accepted after it.
            biased;
            () = self.shutdown.begun() => {
                farewell.go_away();
                handle.shutdown();
            }
            ended = &mut running => return ended,
        }
        running.await
    }
}

fn slots(count: u32) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(count as usize))
}

impl<B> tower_service::Service<http::Request<B>> for WsService {
    type Response = http::Response<WsBody>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        ready(Ok(self.answer_or_refuse(request)))
    }
}

impl WsService {
    /// Ends every connection, and waits for that, so that an application that has this at one of its addresses can end. Calls
    /// that run have the time that the options of connections give them.
    pub async fn shutdown(&self) {
        self.begin_shutdown();
        self.close().await;
    }
}

impl HttpHandler for WsService {
    const UPGRADES: bool = true;

    async fn check(&self, _: &mut RequestHead) -> Result<BodyLimit, Box<http::Response<HttpBody>>> {
        Ok(BodyLimit::unread())
    }

    fn handle(
        &self,
        head: RequestHead,
        _: Result<Bytes, BodyError>,
    ) -> impl Future<Output = http::Response<HttpBody>> + Send {
        let request = http::Request::from_parts(head.into_parts(), ());
        ready(self.answer_or_refuse(request).map(HttpBody::from))
    }

    fn shutdown_requested(&self) -> BoxFuture<'static, ()> {
        Box::pin(self.endpoint.shutdown().begun())
    }

    fn begin_shutdown(&self) {
        self.shutdown.begin();
    }

    /// Every connection ends by itself, in the time that its options give it.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // The semaphore is never closed.
            let _ = self.slots.acquire_many(self.settings.max_connections).await;
        })
    }
}

impl fmt::Debug for WsService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WsService").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Everything that can be served can be served over WebSocket.
pub trait ServeWs: IntoEndpoint + Sized {
    /// As a tower service, to be mounted into an application or to listen by itself.
    ///
    /// # Panics
    /// When the server cannot be built because something that was registered cannot be used, such as a tool whose schema is
    /// none. To see that as an error, build the server first: what it is built into never fails here.
    fn ws(self) -> WsService {
        match self.into_endpoint() {
            Ok(endpoint) => WsService::new(endpoint),
            Err(error) => panic!("the server cannot be served over WebSocket: {error}"),
        }
    }

    /// Listens at an address and serves whoever comes, at any path, until the server is shut down or the process is told to end
    /// (Ctrl-C, SIGTERM).
    ///
    /// Only requests to loopback names are answered, which keeps pages in browsers from reaching local servers. It does not keep
    /// others out who can reach the address. [`WsService::access`] lets in other names.
    ///
    /// # Errors
    /// When something that was registered cannot be used, or the address cannot be listened at.
    fn serve_ws(self, address: impl Into<String> + Send) -> impl Future<Output = Result<(), ServeError>> + Send
    where
        Self: Send,
    {
        async move {
            let service = self.into_endpoint().map(WsService::new)?;
            Listener::bind(address).await?.until_told_to_end().serve(service).await
        }
    }
}

impl<S: IntoEndpoint> ServeWs for S {}
