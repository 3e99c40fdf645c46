//! The HTTP server: all protocol revisions at one URL.

#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod guard;
mod handler;
mod http1;
mod http_sse;
mod hyper;
mod keep_alive;
mod listener;
mod options;
mod request;
mod response;
mod route;
mod session;
mod shutdown;
mod socket;
mod stateless;
mod stream_limit;
mod sync;
#[cfg(feature = "server-tls")]
mod tls;

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderValue, WWW_AUTHENTICATE};
use http::{Request, Response, StatusCode};
use http_body::Body;
use turms_core::{BoxFuture, CloseReason, Endpoint, Error, IntoEndpoint, Limits, Principal, Shutdown};
use turms_proto::session::unsupported_version;
use turms_proto::{Ability, ErrorObject, ProtocolVersion, RequestId};

pub use self::guard::{Guard, GuardDocument, GuardRejection, GuardRequest, SharedGuard, sleep_until};
pub use self::handler::{BodyLimit, HttpHandler};
use self::http_sse::SseSessions;
pub use self::listener::Listener;
use self::options::HttpOptions;
pub use self::options::SessionOptions;
pub use self::request::RequestHead;
pub use self::request::access::{AccessDenied, AccessPolicy};
pub use self::request::body::BodyError;
use self::request::headers::{self, McpHeaders};
pub use self::response::HttpBody;
use self::response::HttpResponse;
use self::session::SessionManager;
pub use self::session::StreamControl;
use self::stream_limit::StreamLimit;

/// The address of the client. A [`Listener`] adds it to the extensions of each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerAddress(pub SocketAddr);

impl PeerAddress {
    /// Creates a value for middleware of applications with their own listener.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self(address)
    }
}

/// An MCP server as a `tower` service for HTTP, which can be mounted in an application of axum 0.8, hyper 1 or another
/// crate that uses `http` 1.
///
/// It serves clients of every revision at one URL: single requests in 2026-07-28, sessions in 2025-03-26 to 2025-11-25,
/// and the HTTP+SSE transport of 2024-11-05 at paths that end in `/sse` and `/messages`.
///
/// ```
/// # mod turms { pub use turms_http::ServeHttp; pub use turms_server::Server; }
/// use turms::{ServeHttp, Server};
///
/// # async fn example(listener: tokio::net::TcpListener) -> Result<(), Box<dyn std::error::Error>> {
/// let mcp = Server::new("calculator", "1.0.0").into_http_service()?.allowed_hosts(["mcp.example.com"]);
/// let application = axum::Router::new().nest_service("/mcp", mcp.clone());
/// axum::serve(listener, application).with_graceful_shutdown(mcp.shutdown_signal()).await?;
/// # Ok(())
/// # }
/// ```
///
/// An application that shuts down gracefully must shut this service down as well, because event streams have no end of
/// their own: pass [`HttpService::shutdown_signal`] to its server, or call [`HttpService::shutdown`] on a signal of your
/// own. A [`Listener`] does so by itself, and serves whole applications with [`Listener::serve_tower`].
///
/// # Middleware
///
/// Handlers extract the values that middleware inserts into the extensions of the request: a `Principal` is the
/// authenticated caller, which sessions and tasks are then bound to; any other `T` is an `Extension<T>`.
///
/// ```
/// use axum::extract::Request;
/// use axum::http::StatusCode;
/// use axum::middleware::{Next, from_fn};
/// use axum::response::Response;
/// # mod turms { pub use turms_http::ServeHttp; pub use turms_server::*; }
/// use turms::{Principal, ServeHttp, Server, Tool};
///
/// async fn check_token(mut request: Request, next: Next) -> Result<Response, StatusCode> {
///     let header = request.headers().get("authorization").and_then(|value| value.to_str().ok());
///     let user = match header.and_then(|value| value.strip_prefix("Bearer ")) {
///         Some("secret of ann") => "ann",
///         _ => return Err(StatusCode::UNAUTHORIZED),
///     };
///     request.extensions_mut().insert(Principal::new(user));
///     Ok(next.run(request).await)
/// }
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let whoami = Tool::builder("whoami").handler(|caller: Principal| async move { caller.subject().to_owned() });
/// let mcp = Server::new("directory", "1.0.0").tool(whoami).into_http_service()?;
/// let application: axum::Router = axum::Router::new().nest_service("/mcp", mcp).layer(from_fn(check_token));
/// # Ok(())
/// # }
/// # example().unwrap();
/// ```
///
/// A [`Guard`] does the same without middleware, for servers that listen by themselves.
#[doc(alias = "streamable_http")]
#[doc(alias = "sse")]
#[doc(alias = "StreamableHttpService")]
#[derive(Clone)]
pub struct HttpService(Arc<HttpState>);

/// The parts of an [`HttpService`]. Cloning the service clones one `Arc`.
#[derive(Clone)]
struct HttpState {
    endpoint: Endpoint,
    options: HttpOptions,
    state: Arc<SharedState>,
}

/// The state that all clones of a service share, including those with other options.
#[derive(Default)]
struct SharedState {
    sessions: Arc<SessionManager>,
    sse_sessions: Arc<SseSessions>,
    streams: StreamLimit,
    /// Triggered by the shutdown of the server or by [`HttpService::shutdown`].
    shutdown: Shutdown,
    has_denied: AtomicBool,
}

/// Extension trait for serving over HTTP. Implemented for `Server`, for a built `Router`, and for an `Endpoint`, which serves a custom
/// `Service`.
pub trait ServeHttp: IntoEndpoint + Sized {
    /// Converts it to a `tower` service, to mount in an application or to pass to a [`Listener`]. To use one server with
    /// several transports, build it once: `let router = server.build()?`, then `router.clone().into_http_service()?`
    /// and so on.
    ///
    /// # Errors
    /// If a component of the server is invalid, such as a tool with an invalid schema.
    fn into_http_service(self) -> Result<HttpService, Error> {
        self.into_endpoint().map(HttpService::new)
    }

    /// Listens on an address and serves all paths until the server shuts down or the process receives Ctrl-C or
    /// SIGTERM. Running calls then have ten seconds to finish. A second signal aborts them.
    ///
    /// Only requests to loopback hosts are accepted (`localhost`, `127.0.0.1`, `[::1]`), so that web pages cannot
    /// access local servers by DNS rebinding. To allow other hosts:
    ///
    /// ```no_run
    /// # mod turms { pub use turms_http::{self as http, ServeHttp}; }
    /// use turms::ServeHttp;
    /// use turms::http::Listener;
    /// # use turms_core::Error;
    /// # use turms_server::Server;
    /// # async fn example(server: Server) -> Result<(), Error> {
    /// let service = server.into_http_service()?.allowed_hosts(["mcp.example.com", "localhost"]);
    /// Listener::bind("0.0.0.0:8080").await?.shutdown_on_signal().serve(service).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// If a component of the server is invalid, or the address cannot be bound.
    fn serve_http(self, address: impl Into<String> + Send) -> impl Future<Output = Result<(), Error>> + Send
    where
        Self: Send,
    {
        async move {
            let service = HttpService::new(self.into_endpoint()?);
            Listener::bind(address.into()).await?.shutdown_on_signal().serve(service).await
        }
    }
}

impl<T: IntoEndpoint> ServeHttp for T {}

impl HttpService {
    /// Creates a service for an endpoint, with the default options.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        let state = SharedState { shutdown: endpoint.shutdown().child(), ..SharedState::default() };
        Self(Arc::new(HttpState { endpoint, options: HttpOptions::default(), state: Arc::new(state) }))
    }

    fn with(mut self, change: impl FnOnce(&mut HttpOptions)) -> Self {
        change(&mut Arc::make_mut(&mut self.0).options);
        self
    }

    /// Sets the allowed hosts: `example.com` with any port, `example.com:8443` with that port. Default: loopback hosts
    /// (`localhost`, `127.0.0.1`, `[::1]`); this replaces them. They are compared with the `Host` header. There are no
    /// wildcards.
    ///
    /// This prevents web pages from accessing a local server by DNS rebinding. It is not authentication: other clients
    /// can send any `Host`.
    #[doc(alias = "dns_rebinding")]
    #[doc(alias = "origin")]
    #[must_use]
    pub fn allowed_hosts<S: Into<String>>(self, hosts: impl IntoIterator<Item = S>) -> Self {
        self.with(|options| options.access.set_hosts(hosts))
    }

    /// Allows every host. For servers behind a proxy that checks the host.
    #[must_use]
    pub fn allow_any_host(self) -> Self {
        self.with(|options| options.access.set_any_host())
    }

    /// Sets the origins of web pages that may use the server, in the form of the `Origin` header:
    /// `https://app.example.com`. Default: loopback origins; this replaces them. Pages can read the responses only
    /// with [`HttpService::cors`].
    #[doc(alias = "origin")]
    #[must_use]
    pub fn allowed_origins<S: Into<String>>(self, origins: impl IntoIterator<Item = S>) -> Self {
        self.with(|options| options.access.set_origins(origins))
    }

    /// Allows web pages of every origin.
    #[must_use]
    pub fn allow_any_origin(self) -> Self {
        self.with(|options| options.access.set_any_origin())
    }

    /// Enables CORS for the allowed origins. Default: off.
    #[must_use]
    pub fn cors(self) -> Self {
        self.with(|options| options.cors = true)
    }

    /// Sets the guard, which checks the credentials of every request before its body is read. Default: none; a `Principal` may come from
    /// the application's middleware.
    ///
    /// `Host`, `Origin` and CORS preflight requests are checked first, and the [documents](Guard::document) of the guard are served
    /// without a check.
    #[doc(alias = "authorization")]
    #[must_use]
    pub fn guard(self, guard: impl Guard) -> Self {
        self.with(|options| options.guard = SharedGuard::new(guard))
    }

    /// Maximum size of a request body, in bytes. Default: 4 MiB.
    #[must_use]
    pub fn max_body_bytes(self, bytes: usize) -> Self {
        self.with(|options| options.max_body_bytes = bytes)
    }

    /// Timeout for reading a request body. Default: 30 s.
    #[must_use]
    pub fn body_timeout(self, timeout: Duration) -> Self {
        self.with(|options| options.body_timeout = options::bounded(timeout))
    }

    /// Interval of keep-alive comments on idle event streams. Default: 15 s.
    #[must_use]
    pub fn keep_alive_interval(self, period: Duration) -> Self {
        self.with(|options| options.keep_alive = options::bounded(period))
    }

    /// Maximum number of open event streams, over all clients. Default: 16 384. Further streams are rejected.
    ///
    /// There is no limit per client. Use a proxy with such a limit if clients are not trusted.
    #[must_use]
    pub fn max_streams(self, max: usize) -> Self {
        self.with(|options| options.max_streams = max)
    }

    /// Sets the options for sessions of clients of 2025-03-26 to 2025-11-25.
    #[must_use]
    pub fn sessions(self, sessions: SessionOptions) -> Self {
        self.with(|options| options.sessions = Some(Arc::new(sessions)))
    }

    /// Disables sessions: each request of an older revision is served on its own, no state is kept, and the server
    /// cannot send requests to the client.
    #[must_use]
    pub fn without_sessions(self) -> Self {
        self.with(|options| options.sessions = None)
    }

    /// Disables the HTTP+SSE transport of 2024-11-05. Default: enabled.
    #[doc(alias = "sse")]
    #[must_use]
    pub fn without_http_sse(self) -> Self {
        self.with(|options| options.http_sse = false)
    }

    /// Returns the number of sessions.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.0.state.sessions.len()
    }

    /// Closes a session, as its client can with DELETE. Returns `false` if there is no session with this id.
    pub async fn close_session(&self, id: &str) -> bool {
        match self.0.options.sessions.as_ref() {
            Some(options) => self.0.state.sessions.close(id, options, CloseReason::Server).await,
            None => false,
        }
    }

    /// Ends event streams that do not belong to a call, so that the application that contains this service can shut
    /// down. Running calls may finish.
    pub fn shutdown(&self) {
        self.begin_shutdown();
    }

    /// Resolves when the process receives Ctrl-C (SIGINT) or SIGTERM, or when the server or this service is shut down.
    /// Event streams that do not belong to a call end then, as with [`HttpService::shutdown`]. For the graceful shutdown
    /// of the application that contains this service, such as axum's `with_graceful_shutdown`.
    ///
    /// The future is the same for every clone of the service. It does nothing before it is polled.
    pub fn shutdown_signal(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let shutdown = self.0.state.shutdown.clone();
        async move {
            tokio::select! {
                () = listener::termination_signal() => shutdown.begin(),
                () = shutdown.begun() => {}
            }
        }
    }

    /// Handles a request.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<HttpBody>
    where
        B: Body + Send,
        B::Data: Send,
        B::Error: fmt::Display,
    {
        handler::handle_request(self, request, None).await
    }
}

impl HttpState {
    fn limits(&self) -> &Limits {
        &self.endpoint.info().limits
    }

    fn versions(&self) -> &[ProtocolVersion] {
        &self.endpoint.info().versions
    }

    /// Returns an endpoint for connections that end with this service.
    fn connection_endpoint(&self) -> Endpoint {
        let endpoint = &self.endpoint;
        Endpoint::with_shutdown(endpoint.service().clone(), endpoint.info().clone(), self.state.shutdown.clone())
    }

    /// Resolves when the server or this service shuts down.
    fn shutting_down(&self) -> BoxFuture<'static, ()> {
        Box::pin(self.state.shutdown.begun())
    }

    /// Rejects a request by the access policy. The first rejection is logged with a hint on how to allow it. Only once,
    /// so that clients cannot fill the log.
    fn deny(&self, denied: &AccessDenied) -> HttpResponse {
        if !self.state.has_denied.swap(true, Ordering::Relaxed) {
            let remedy = match denied {
                AccessDenied::Host(_) => "to allow it, add the host to HttpService::allowed_hosts",
                AccessDenied::Origin(_) => "to allow it, add the origin to HttpService::allowed_origins",
            };
            tracing::warn!("{denied}; {remedy}. Further rejections are logged at level debug");
        }
        response::refuse(StatusCode::FORBIDDEN, denied.to_string())
    }

    /// Returns the response to a call that needs more scopes, without its body.
    fn forbidden(&self, principal: Option<&Principal>, scopes: &[String]) -> HttpResponse {
        let mut response = response::empty(StatusCode::FORBIDDEN);
        let challenge = self.options.guard.insufficient_scope(principal, scopes);
        response.headers_mut().extend(challenge.map(|challenge| (WWW_AUTHENTICATE, challenge)));
        response
    }

    /// Returns the future that ends a stream: when the token of its principal expires, and at the shutdown unless the stream belongs to
    /// a call.
    fn stream_end(&self, principal: Option<&Principal>, ends_at_shutdown: bool) -> Option<BoxFuture<'static, ()>> {
        let shutdown = self.state.shutdown.clone();
        match (self.options.guard.stream_end(principal), ends_at_shutdown) {
            (None, false) => None,
            (None, true) => Some(self.shutting_down()),
            (Some(expiry), false) => Some(Box::pin(sleep_until(expiry))),
            (Some(expiry), true) => Some(Box::pin(async move {
                tokio::select! {
                    () = shutdown.begun() => {}
                    () = sleep_until(expiry) => {}
                }
            })),
        }
    }

    fn speaks_with(&self, ability: Ability) -> bool {
        self.versions().iter().any(|version| version.has(ability))
    }

    fn has_http_sse(&self) -> bool {
        self.options.http_sse && self.speaks_with(Ability::Handshake)
    }

    fn has_sessions(&self) -> bool {
        self.options.sessions.is_some() && self.speaks_with(Ability::Handshake)
    }

    fn refuse_version(&self, id: Option<&RequestId>, named: &str) -> HttpResponse {
        let error = unsupported_version(named, self.versions());
        response::error(StatusCode::BAD_REQUEST, id, &error)
    }
}

impl<B> tower_service::Service<Request<B>> for HttpService
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: fmt::Display,
{
    type Response = Response<HttpBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move { Ok(this.handle(request).await) })
    }
}

impl HttpHandler for HttpService {
    fn check(&self, head: &mut RequestHead) -> impl Future<Output = Result<BodyLimit, Box<HttpResponse>>> + Send {
        self.0.check_head(head)
    }

    fn handle(&self, head: RequestHead, body: Result<Bytes, BodyError>) -> impl Future<Output = HttpResponse> + Send {
        self.0.handle(head, body)
    }

    fn reject(&self, status: StatusCode, reason: String) -> HttpResponse {
        response::refuse(status, reason)
    }

    fn shutdown_requested(&self) -> BoxFuture<'static, ()> {
        Box::pin(self.0.endpoint.shutdown().begun())
    }

    fn begin_shutdown(&self) {
        self.0.state.shutdown.begin();
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.state.sessions.close_all();
        Box::pin(std::future::ready(()))
    }
}

impl fmt::Debug for HttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpService").field("options", &self.0.options).finish_non_exhaustive()
    }
}

/// Returns the error for an invalid `MCP-Protocol-Version` header.
fn unreadable_version(head: &McpHeaders<'_>, id: Option<&RequestId>) -> HttpResponse {
    let problem = headers::single(head.version, turms_proto::header::PROTOCOL_VERSION).err();
    let problem = problem.unwrap_or_else(|| ErrorObject::invalid_request("the protocol version cannot be read"));
    response::error(StatusCode::BAD_REQUEST, id, &problem)
}

/// Creates a header value from trusted text.
fn header_value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use http::header::ORIGIN;
        use http::uri::Authority;
        use http::{HeaderMap, HeaderValue};
        use turms_defaults::{assert_documented, bytes, count, time, when};

        let it = HttpOptions::default();
        let allows_host = |host| it.access.check(&HeaderMap::new(), Some(&Authority::from_static(host))).is_ok();
        let allows_origin = |origin| {
            let headers = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static(origin))]);
            it.access.check(&headers, Some(&Authority::from_static("localhost"))).is_ok()
        };
        let loopback_hosts =
            ["localhost", "127.0.0.1", "[::1]"].into_iter().all(allows_host) && !allows_host("example.com");
        let loopback_origins = allows_origin("http://localhost:3000") && !allows_origin("https://example.com");
        let code = [
            ("HttpService::allowed_hosts", when(loopback_hosts, "loopback hosts (`localhost`, `127.0.0.1`, `[::1]`)")),
            ("HttpService::allowed_origins", when(loopback_origins, "loopback origins")),
            ("HttpService::cors", when(!it.cors, "off")),
            ("HttpService::guard", when(!it.guard.is_some(), "none")),
            ("HttpService::max_body_bytes", bytes(it.max_body_bytes)),
            ("HttpService::body_timeout", time(it.body_timeout)),
            ("HttpService::keep_alive_interval", time(it.keep_alive)),
            ("HttpService::max_streams", count(it.max_streams)),
            ("HttpService::without_http_sse", when(it.http_sse, "enabled")),
        ];
        assert_documented(include_str!("mod.rs"), &code);
    }
}
