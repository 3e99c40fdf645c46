//! Serving over HTTP: every revision at one address.

#[cfg(feature = "fuzzing")]
pub mod fuzzing;
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
#[cfg(feature = "tls")]
mod tls;

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderValue;
use http::{Request, Response, StatusCode};
use http_body::Body;
use turms_core::{BoxFuture, CloseReason, Endpoint, IntoEndpoint, Limits, ServeError, Shutdown};
use turms_proto::session::unsupported_version;
use turms_proto::{Ability, ErrorObject, ProtocolVersion, RequestId};

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
pub use self::session::EventStream;
use self::session::SessionManager;
use self::stream_limit::StreamLimit;

/// Who is at the other end of the connection, for requests that came through a [`Listener`]. An extension of theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerAddress(pub SocketAddr);

impl PeerAddress {
    /// For middleware of applications that listen by themselves.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self(address)
    }
}

/// A server behind HTTP: a `tower` service that mounts into any application of axum or hyper.
///
/// It answers clients of every revision at one address: requests of 2026-07-28 one by one, those of 2025-03-26 to 2025-11-25
/// in sessions, and those of 2024-11-05 over HTTP+SSE at addresses that end in `/sse` and `/messages`.
///
/// ```
/// use turms_http::ServeHttp;
/// use turms_server::Server;
///
/// let server = Server::new("calculator", "1.0.0");
/// let service = server.http().body_limit(1024 * 1024);
/// // axum::Router::new().nest_service("/mcp", service)
/// ```
///
/// An application that is to end has to end this, too, or it waits for streams that go on for ever: call
/// [`HttpService::shutdown`] in the future that tells the application to end. A [`Listener`] does so by itself, and serves
/// whole applications with [`Listener::serve_tower`].
#[derive(Clone)]
pub struct HttpService(Arc<HttpState>);

/// The parts of an [`HttpService`]. A clone of the service clones one `Arc`.
#[derive(Clone)]
struct HttpState {
    endpoint: Endpoint,
    options: HttpOptions,
    state: Arc<SharedState>,
}

/// The state of all clones of a service, also of those with other options.
#[derive(Default)]
struct SharedState {
    sessions: Arc<SessionManager>,
    sse_sessions: Arc<SseSessions>,
    streams: StreamLimit,
    /// Begins with the shutdown of the server, or by [`HttpService::shutdown`].
    shutdown: Shutdown,
    has_denied: AtomicBool,
}

/// Something that can be served over HTTP: a server, or any endpoint.
pub trait ServeHttp: IntoEndpoint + Sized {
    /// As a `tower` service. A server that is to be reached in several ways is built once: `let router = server.build()?`, then
    /// `router.clone().http()` and so on.
    ///
    /// # Panics
    /// When something that was registered cannot be used, such as a tool whose schema is none. To be told instead, build the
    /// server first.
    #[must_use]
    fn http(self) -> HttpService {
        match self.into_endpoint() {
            Ok(endpoint) => HttpService::new(endpoint),
            Err(problem) => panic!("the server cannot be used: {problem}"),
        }
    }

    /// Listens at an address and serves whoever comes, at any path, until the server is shut down or the process is told to end
    /// (Ctrl-C, SIGTERM). Calls that run then have ten seconds to finish; told twice, the process does not wait.
    ///
    /// Only requests to loopback names are answered (`localhost`, `127.0.0.1`, `[::1]`), which keeps pages in browsers from
    /// reaching local servers. To answer for other names:
    ///
    /// ```no_run
    /// use turms_http::{AccessPolicy, Listener, ServeHttp};
    /// # use turms_server::{ServeError, Server};
    /// # async fn example(server: Server) -> Result<(), ServeError> {
    /// let service = server.http().access(AccessPolicy::new().hosts(["mcp.example.com", "localhost"]));
    /// Listener::bind("0.0.0.0:8080").await?.until_told_to_end().serve(service).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// When something that was registered cannot be used, or the address cannot be listened at.
    fn serve_http(self, address: impl Into<String> + Send) -> impl Future<Output = Result<(), ServeError>> + Send
    where
        Self: Send,
    {
        async move {
            let service = HttpService::new(self.into_endpoint()?);
            Listener::bind(address.into()).await?.until_told_to_end().serve(service).await
        }
    }
}

impl<T: IntoEndpoint> ServeHttp for T {}

impl HttpService {
    /// Serves an endpoint, with safe defaults.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        let state = SharedState { shutdown: endpoint.shutdown().child(), ..SharedState::default() };
        Self(Arc::new(HttpState { endpoint, options: HttpOptions::default(), state: Arc::new(state) }))
    }

    fn with(mut self, change: impl FnOnce(&mut HttpOptions)) -> Self {
        change(&mut Arc::make_mut(&mut self.0).options);
        self
    }

    /// For which hosts it answers, and which pages may use it: loopback names unless said otherwise.
    #[must_use]
    pub fn access(self, access: AccessPolicy) -> Self {
        self.with(|options| options.access = access)
    }

    /// Lets browsers show answers to the pages that may use it.
    #[must_use]
    pub fn cors(self) -> Self {
        self.with(|options| options.cors = true)
    }

    /// How long the body of a request may be, in bytes: 4 MiB unless said otherwise.
    #[must_use]
    pub fn body_limit(self, bytes: usize) -> Self {
        self.with(|options| options.body_limit = bytes)
    }

    /// How long a body may take to arrive: 30 seconds unless said otherwise.
    #[must_use]
    pub fn body_timeout(self, timeout: Duration) -> Self {
        self.with(|options| options.body_timeout = options::bounded(timeout))
    }

    /// How long an event stream may be quiet before a comment shows that it is alive: 15 seconds unless said otherwise.
    #[must_use]
    pub fn keep_alive(self, period: Duration) -> Self {
        self.with(|options| options.keep_alive = options::bounded(period))
    }

    /// How many event streams may be open at once, whoever reads them; more are refused. 16 384 unless said otherwise.
    ///
    /// There is no bound for each client: whoever cannot be trusted with all of them needs a proxy that has one.
    #[must_use]
    pub fn max_streams(self, max: usize) -> Self {
        self.with(|options| options.max_streams = max)
    }

    /// How sessions of clients of 2025-03-26 to 2025-11-25 are kept.
    #[must_use]
    pub fn sessions(self, sessions: SessionOptions) -> Self {
        self.with(|options| options.sessions = Some(Arc::new(sessions)))
    }

    /// Serves clients of older revisions without sessions: every request stands alone, nothing is remembered, and the server
    /// can ask the client nothing.
    #[must_use]
    pub fn stateless(self) -> Self {
        self.with(|options| options.sessions = None)
    }

    /// Does not offer the HTTP+SSE transport of 2024-11-05.
    #[must_use]
    pub fn without_sse_transport(self) -> Self {
        self.with(|options| options.http_sse = false)
    }

    /// How many sessions there are.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.0.state.sessions.len()
    }

    /// Ends a session, as its client can by DELETE; false if there is none of this id.
    pub async fn close_session(&self, id: &str) -> bool {
        match self.0.options.sessions.as_ref() {
            Some(options) => self.0.state.sessions.close(id, options, CloseReason::Server).await,
            None => false,
        }
    }

    /// Ends what would go on for ever, such as streams that belong to no call, so that an application that has this at one of
    /// its addresses can end. Calls that run may finish.
    pub fn shutdown(&self) {
        self.begin_shutdown();
    }

    /// Responds to a request.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<HttpBody>
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

    /// The endpoint for connections that end when this service does.
    fn connection_endpoint(&self) -> Endpoint {
        let endpoint = &self.endpoint;
        Endpoint::with_shutdown(endpoint.service().clone(), endpoint.info().clone(), self.state.shutdown.clone())
    }

    /// Resolves when the server or this service shuts down.
    fn shutting_down(&self) -> BoxFuture<'static, ()> {
        Box::pin(self.state.shutdown.begun())
    }

    /// Refuses somebody, and tells whoever runs the server what to do if they should be let in. Once, so that nobody can fill
    /// the log.
    fn deny(&self, denied: &AccessDenied) -> HttpResponse {
        if !self.state.has_denied.swap(true, Ordering::Relaxed) {
            let remedy = match denied {
                AccessDenied::Host(_) => {
                    "if it should, name the host in AccessPolicy::hosts and give the policy to HttpService::access"
                }
                AccessDenied::Origin(_) => {
                    "if it may, name the origin in AccessPolicy::origins and give the policy to HttpService::access"
                }
            };
            tracing::warn!("{denied}; {remedy}. Further refusals are logged at the level debug");
        }
        response::refuse(StatusCode::FORBIDDEN, denied.to_string())
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
        Box::pin(async move { Ok(this.answer(request).await) })
    }
}

impl HttpHandler for HttpService {
    fn check(&self, head: &mut RequestHead) -> impl Future<Output = Result<BodyLimit, Box<HttpResponse>>> + Send {
        std::future::ready(self.0.check_head(head))
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

fn unreadable_version(head: &McpHeaders<'_>, id: Option<&RequestId>) -> HttpResponse {
    let problem = headers::single(head.version, turms_proto::header::PROTOCOL_VERSION).err();
    let problem = problem.unwrap_or_else(|| ErrorObject::invalid_request("the protocol version cannot be read"));
    response::error(StatusCode::BAD_REQUEST, id, &problem)
}

/// A header value of our own making.
fn header_value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}
