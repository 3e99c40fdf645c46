use std::convert::Infallible;
use std::fmt;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::request::Parts;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_tungstenite::tungstenite::protocol::Role;
use turms_core::{BoxFuture, Connection, ConnectionError, Endpoint, Error, IntoEndpoint, Remote, Shutdown};
use turms_http::__internal::{AccessPolicy, BodyError, BodyLimit, HttpHandler, RequestHead, SharedGuard, sleep_until};
use turms_http::{Guard, GuardRequest, HttpBody, Listener};

use crate::body::WsBody;
use crate::close::CloseState;
use crate::heartbeat::HeartbeatOptions;
use crate::socket::{WsByteStream, is_peer_closed};
use crate::upgrade::{UpgradeError, UpgradeRequest};

/// Serves clients over WebSocket.
///
/// It is a tower service that responds to upgrade requests: mount it in an application on hyper or axum
/// (`router.route_service("/ws", server.into_ws_service()?)`), or pass it to a [`Listener`].
///
/// A request is rejected, with the reason in the body, unless it requests a WebSocket of version 13, has an allowed
/// host and an allowed origin, and requests the subprotocol `mcp` or none. Its headers, its URI, and the extensions
/// that middleware has added are available to the handlers of every call over the connection. A
/// [guard](WsService::guard) or middleware checks credentials, before the upgrade.
#[derive(Clone)]
#[must_use]
pub struct WsService {
    endpoint: Endpoint,
    settings: Arc<WsServiceSettings>,
    connection_permits: Arc<Semaphore>,
    /// Begun by the shutdown of the server, or by [`WsService::shutdown`].
    shutdown: Shutdown,
}

#[derive(Debug, Clone)]
struct WsServiceSettings {
    access: AccessPolicy,
    guard: SharedGuard,
    heartbeat: HeartbeatOptions,
    max_connections: u32,
}

/// Timeout for the HTTP server to send the response and hand over the connection.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);

impl WsService {
    /// Default of [`Self::max_connections`].
    pub const DEFAULT_MAX_CONNECTIONS: u32 = 10_000;

    /// Creates a service for an endpoint.
    pub fn new(endpoint: Endpoint) -> Self {
        let settings = WsServiceSettings {
            access: AccessPolicy::default(),
            guard: SharedGuard::default(),
            heartbeat: HeartbeatOptions::default(),
            max_connections: Self::DEFAULT_MAX_CONNECTIONS,
        };
        let shutdown = endpoint.shutdown().child();
        let connection_permits = connection_permits(Self::DEFAULT_MAX_CONNECTIONS);
        Self { endpoint, settings: Arc::new(settings), connection_permits, shutdown }
    }

    /// Sets the allowed hosts: `example.com` with any port, `example.com:8443` with that port. Default: loopback hosts
    /// (`localhost`, `127.0.0.1`, `[::1]`); this replaces them. They are compared with the `Host` header. There are no
    /// wildcards.
    ///
    /// This prevents web pages from accessing a local server by DNS rebinding. It is not authentication: other clients
    /// can send any `Host`.
    #[doc(alias = "dns_rebinding")]
    #[doc(alias = "origin")]
    pub fn allowed_hosts<S: Into<String>>(mut self, hosts: impl IntoIterator<Item = S>) -> Self {
        self.settings_mut().access.set_hosts(hosts);
        self
    }

    /// Allows every host. For servers behind a proxy that checks the host.
    pub fn allow_any_host(mut self) -> Self {
        self.settings_mut().access.set_any_host();
        self
    }

    /// Sets the origins of web pages that may use the server, in the form of the `Origin` header:
    /// `https://app.example.com`. Default: loopback origins; this replaces them.
    #[doc(alias = "origin")]
    pub fn allowed_origins<S: Into<String>>(mut self, origins: impl IntoIterator<Item = S>) -> Self {
        self.settings_mut().access.set_origins(origins);
        self
    }

    /// Allows web pages of every origin.
    pub fn allow_any_origin(mut self) -> Self {
        self.settings_mut().access.set_any_origin();
        self
    }

    /// Sets the guard, which checks the credentials of a request before the connection is upgraded. Default: none; a `Principal` may come
    /// from the application's middleware.
    ///
    /// The connection is closed with 1008 when the token expires. Calls that have begun may finish within the drain timeout of the
    /// limits.
    #[doc(alias = "authorization")]
    pub fn guard(mut self, guard: impl Guard) -> Self {
        self.settings_mut().guard = SharedGuard::new(guard);
        self
    }

    /// Sets the time without messages after which a client is pinged. Default: 30 s. With `None` there are no pings,
    /// and a client that has disconnected without a close frame is noticed only when a message is sent to it.
    pub fn ping_interval(mut self, interval: impl Into<Option<Duration>>) -> Self {
        self.settings_mut().heartbeat.interval = interval.into();
        self
    }

    /// Sets the timeout for any message after a ping. When it elapses, the connection is closed. Default: 30 s.
    pub fn ping_timeout(mut self, timeout: Duration) -> Self {
        self.settings_mut().heartbeat.timeout = timeout;
        self
    }

    /// Sets the maximum number of connections. Default: 10 000. More are rejected with 503.
    ///
    /// Existing clones of the service keep their own count.
    pub fn max_connections(mut self, count: u32) -> Self {
        let count = count.min(u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX));
        self.settings_mut().max_connections = count;
        self.connection_permits = connection_permits(count);
        self
    }

    fn settings_mut(&mut self) -> &mut WsServiceSettings {
        Arc::make_mut(&mut self.settings)
    }

    async fn respond(self, mut request: Parts) -> http::Response<WsBody> {
        if let Err(response) = self.check(&mut request).await {
            return *response;
        }
        self.upgrade(request).unwrap_or_else(|error| {
            tracing::debug!(target: "turms::server", %error, "WebSocket upgrade rejected");
            error.response()
        })
    }

    /// Checks the access and the credentials of a request. The response is a rejection, or a public document of the guard.
    async fn check(&self, request: &mut Parts) -> Result<(), Box<http::Response<WsBody>>> {
        let WsServiceSettings { access, guard, .. } = &*self.settings;
        if let Err(denied) = access.check(&request.headers, request.uri.authority()) {
            return Err(Box::new(UpgradeError::from(denied).response()));
        }
        if let Some(document) = guard.document(&request.method, request.uri.path()) {
            return Err(Box::new(document.map(WsBody::from)));
        }
        match guard.check(&GuardRequest::new(request)).await {
            Ok(Some(principal)) => drop(request.extensions.insert(principal)),
            Ok(None) => {}
            Err(rejection) => return Err(Box::new(rejection.into_response().map(WsBody::from))),
        }
        Ok(())
    }

    fn upgrade(&self, mut request: Parts) -> Result<http::Response<WsBody>, UpgradeError> {
        let upgrade = UpgradeRequest::parse(&request)?;
        let on_upgrade = request.extensions.remove::<OnUpgrade>().ok_or(UpgradeError::Impossible)?;
        let permit = self.connection_permits.clone().try_acquire_owned().map_err(|_| UpgradeError::Full)?;
        tokio::spawn(self.clone().serve(on_upgrade, request, permit));
        Ok(upgrade.accept())
    }

    /// Serves one client, from the upgrade until the connection is closed.
    async fn serve(self, on_upgrade: OnUpgrade, request: Parts, permit: OwnedSemaphorePermit) {
        match tokio::time::timeout(UPGRADE_TIMEOUT, on_upgrade).await {
            Ok(Ok(stream)) => {
                if let Err(error) = self.drive(stream, request).await
                    && !is_peer_closed(&error)
                {
                    tracing::debug!(target: "turms::server", error = &error as &dyn std::error::Error, "connection failed");
                }
            }
            Ok(Err(error)) => {
                tracing::debug!(target: "turms::server", error = &error as &dyn std::error::Error, "connection failed before it was upgraded");
            }
            Err(_) => tracing::debug!(target: "turms::server", "connection was not upgraded in time"),
        }
        drop(permit);
    }

    async fn drive(&self, stream: Upgraded, request: Parts) -> Result<(), ConnectionError> {
        let (limits, heartbeat) = (&self.endpoint.info().limits, self.settings.heartbeat);
        let close = Arc::new(CloseState::default());
        let stream = TokioIo::new(stream);
        let socket = WsByteStream::new(stream, Role::Server, limits.max_message_bytes, heartbeat, close.clone()).await;
        let (reader, writer) = tokio::io::split(socket);
        let (connection, handle) = Connection::server(reader, writer, &self.endpoint.info().versions, limits.clone());
        let Parts { headers, uri, mut extensions, .. } = request;
        let expiry = self.settings.guard.stream_end(extensions.get());
        extensions.insert(headers);
        extensions.insert(uri);
        extensions.insert(Remote);
        let mut running = pin!(connection.with_extensions(extensions).run(self.endpoint.service().clone()));
        tokio::select! {
            // Poll the shutdown first, so that no request is accepted after it.
            biased;
            () = self.shutdown.begun() => {
                close.begin_shutdown();
                handle.shutdown();
            }
            () = expired(expiry) => {
                close.token_expired();
                handle.shutdown();
            }
            ended = &mut running => return ended,
        }
        running.await
    }
}

/// Resolves when a token has expired.
async fn expired(expiry: Option<SystemTime>) {
    match expiry {
        Some(expiry) => sleep_until(expiry).await,
        None => pending().await,
    }
}

fn connection_permits(count: u32) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(count as usize))
}

impl<B> tower_service::Service<http::Request<B>> for WsService {
    type Response = http::Response<WsBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let (request, _) = request.into_parts();
        let response = self.clone().respond(request);
        Box::pin(async move { Ok(response.await) })
    }
}

impl WsService {
    /// Closes every connection and waits until all are closed, so that an application in which the service is mounted
    /// can shut down. Running calls have the drain timeout of the limits to finish.
    pub async fn shutdown(&self) {
        self.begin_shutdown();
        self.close().await;
    }
}

impl HttpHandler for WsService {
    const UPGRADES: bool = true;

    async fn check(&self, _: &mut RequestHead) -> Result<BodyLimit, Box<http::Response<HttpBody>>> {
        // `handle` checks the request, because a service in an application gets no call of this method.
        Ok(BodyLimit::unread())
    }

    fn handle(
        &self,
        head: RequestHead,
        _: Result<Bytes, BodyError>,
    ) -> impl Future<Output = http::Response<HttpBody>> + Send {
        let response = self.clone().respond(head.into_parts());
        async move { response.await.map(HttpBody::from) }
    }

    fn shutdown_requested(&self) -> BoxFuture<'static, ()> {
        Box::pin(self.endpoint.shutdown().begun())
    }

    fn begin_shutdown(&self) {
        self.shutdown.begin();
    }

    /// Waits until every connection is closed, at the latest after its drain timeout.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // Each connection holds a permit, so all of them are available when the last one is closed. The error is that of
            // a closed semaphore, and this one is never closed.
            let _ = self.connection_permits.acquire_many(self.settings.max_connections).await;
        })
    }
}

impl fmt::Debug for WsService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WsService").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Serves a server or an endpoint over WebSocket.
pub trait ServeWs: IntoEndpoint + Sized {
    /// Converts it to a tower service, to mount in an application or to pass to a [`Listener`].
    ///
    /// # Errors
    /// If a component of the server is invalid, such as a tool with an invalid schema.
    fn into_ws_service(self) -> Result<WsService, Error> {
        self.into_endpoint().map(WsService::new)
    }

    /// Listens on an address and serves clients at any path, until the server is shut down or the process receives a
    /// signal (Ctrl-C, SIGTERM).
    ///
    /// Only requests to loopback names are accepted, which keeps web pages in browsers from reaching local servers. It
    /// does not authenticate clients that can reach the address. [`WsService::allowed_hosts`] allows other names.
    ///
    /// # Errors
    /// If a component of the server is invalid, or the server cannot listen on the address.
    fn serve_ws(self, address: impl Into<String> + Send) -> impl Future<Output = Result<(), Error>> + Send
    where
        Self: Send,
    {
        async move {
            let service = self.into_endpoint().map(WsService::new)?;
            Listener::bind(address).await?.shutdown_on_signal().serve(service).await
        }
    }
}

impl<S: IntoEndpoint> ServeWs for S {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use http::header::ORIGIN;
        use http::uri::Authority;
        use http::{HeaderMap, HeaderValue};
        use turms_defaults::{assert_documented, count, time, when};

        let endpoint = turms_server::Server::new("server", "1").into_endpoint().unwrap();
        let it = WsService::new(endpoint).settings;
        let interval = it.heartbeat.interval.unwrap();
        let allows_host = |host| it.access.check(&HeaderMap::new(), Some(&Authority::from_static(host))).is_ok();
        let allows_origin = |origin| {
            let headers = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static(origin))]);
            it.access.check(&headers, Some(&Authority::from_static("localhost"))).is_ok()
        };
        let loopback_hosts =
            ["localhost", "127.0.0.1", "[::1]"].into_iter().all(allows_host) && !allows_host("example.com");
        let loopback_origins = allows_origin("http://localhost:3000") && !allows_origin("https://example.com");
        let code = [
            ("WsService::allowed_hosts", when(loopback_hosts, "loopback hosts (`localhost`, `127.0.0.1`, `[::1]`)")),
            ("WsService::allowed_origins", when(loopback_origins, "loopback origins")),
            ("WsService::guard", when(!it.guard.is_some(), "none")),
            ("WsService::ping_interval", time(interval)),
            ("WsService::ping_timeout", time(it.heartbeat.timeout)),
            ("WsService::max_connections", count(it.max_connections)),
        ];
        assert_documented(include_str!("service.rs"), &code);
    }
}
