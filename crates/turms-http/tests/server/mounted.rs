//! The server mounted in an axum application: under a path, behind middleware, and next to other routes.

use std::net::SocketAddr;

use axum::extract::Request as Asked;
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response as Answered};
use axum::routing::get;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use turms_core::Principal;
use turms_http::{Listener, PeerAddress, ServeHttp as _};
use turms_server::{Extension, Server, ServerHandle, Tool};
use turms_testkit::within;

use crate::dialog::{NEWEST_OLDER, SESSIONS, Session, call, initialize, modern_call, notification, with_progress};
use crate::fixture::server;
use crate::wire::{Connection, Request, Response, Stream};

/// An application with the server at `/mcp`.
struct Application {
    address: SocketAddr,
    handle: ServerHandle,
    end: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

/// Middleware that requires a known bearer token and adds its principal to the request.
async fn check_token(mut request: Asked, next: Next) -> Answered {
    let token = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let who = match token.and_then(|value| value.strip_prefix("Bearer ")) {
        Some("token-of-ann") => Principal::new("ann").with_scopes(["add"]),
        Some("token-of-bob") => Principal::new("bob"),
        _ => return StatusCode::UNAUTHORIZED.into_response(),
    };
    request.extensions_mut().insert(who);
    next.run(request).await
}

/// The tool `seen`: returns the principal, a header and the peer address that a handler gets.
fn seen(who: Principal, headers: http::HeaderMap, Extension(peer): Extension<PeerAddress>) -> String {
    let color = headers.get("x-color").and_then(|value| value.to_str().ok()).unwrap_or("none");
    json!({ "who": who.subject(), "scopes": who.scopes(), "color": color, "peer": peer.0 }).to_string()
}

fn with_seen(server: Server) -> Server {
    server.tool(Tool::builder("seen").handler_sync(seen))
}

impl Application {
    async fn start() -> Self {
        let server = with_seen(server(&Default::default()));
        let handle = server.handle();
        let router = axum::Router::new()
            .nest_service("/mcp", server.into_http_service().unwrap())
            .layer(from_fn(check_token))
            .route("/health", get(async || "well"));
        let (end, told) = oneshot::channel::<()>();
        let listener = Listener::bind("127.0.0.1:0").await.unwrap().with_graceful_shutdown(async {
            let _ = told.await;
        });
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move { listener.serve_tower(router).await.unwrap() });
        Self { address, handle, end, serving }
    }

    async fn connect(&self, request: &Request) -> Connection {
        let mut connection = Connection::open(self.address).await;
        connection.send(request).await;
        connection
    }

    async fn send(&self, request: Request) -> Response {
        within("a response", self.connect(&request).await.response()).await
    }

    async fn stream(&self, request: Request) -> Stream {
        within("a stream", self.connect(&request).await.into_stream()).await
    }

    async fn begin(&self, who: &str, version: &'static str) -> Session {
        let response = self.send(by(who, Request::post(initialize(version)))).await;
        let id = response.header("mcp-session-id").unwrap_or_else(|| panic!("{response}")).to_owned();
        let session = Session { id, version };
        let initialized = session.post(notification("notifications/initialized"));
        self.send(by(who, initialized)).await.assert_accepted();
        session
    }
}

fn by(who: &str, request: Request) -> Request {
    request.header("Authorization", format!("Bearer token-of-{who}")).header("X-Color", "green")
}

#[track_caller]
fn assert_seen(text: &str, peer: SocketAddr) {
    let seen: Value = serde_json::from_str(text).unwrap();
    assert_eq!(seen, json!({ "who": "ann", "scopes": ["add"], "color": "green", "peer": peer }));
}

#[tokio::test]
async fn the_middleware_of_the_application_guards_the_server() {
    let application = Application::start().await;
    let well = application.send(Request::new("GET").path("/health")).await;
    assert_eq!((well.status(), &*well.body), (200, &b"well"[..]));
    let session = application.begin("ann", NEWEST_OLDER).await;
    for request in [
        modern_call(1, "seen", json!({})),
        Request::post(initialize(NEWEST_OLDER)),
        session.post(call(2, "seen", json!({}))),
        session.get(),
        session.delete(),
        Request::get().path("/mcp/sse"),
    ] {
        assert_eq!(application.send(request.clone()).await.status(), 401, "{request:?}");
        let unknown = application.send(by("eve", request)).await;
        assert_eq!(unknown.status(), 401, "{unknown}");
    }
    assert_eq!(application.send(by("ann", Request::get().path("/elsewhere"))).await.status(), 404);
    // A valid token gives no access to sessions of other principals.
    let stolen = application.send(by("bob", session.post(call(2, "seen", json!({}))))).await;
    assert_eq!(stolen.status(), 404, "{stolen}");
}

#[tokio::test]
async fn handlers_see_the_request_in_every_revision() {
    let application = Application::start().await;
    let ask = async |request: Request| {
        let mut connection = application.connect(&by("ann", request)).await;
        let peer = connection.socket.local_addr().unwrap();
        assert_seen(&within("a response", connection.response()).await.text(), peer);
    };
    for path in ["/mcp", "/mcp/"] {
        ask(modern_call(1, "seen", json!({})).path(path)).await;
    }
    for version in SESSIONS {
        let session = application.begin("ann", version).await;
        ask(session.post(call(2, "seen", json!({})))).await;
    }
}

/// mcp-remote sends such headers.
#[tokio::test]
async fn a_session_of_an_older_revision_may_name_methods_in_headers() {
    let application = Application::start().await;
    for version in SESSIONS {
        let session = application.begin("ann", version).await;
        let add = session.post(call(2, "add", json!({ "a": 1, "b": 2 }))).header("Mcp-Method", "tools/call");
        assert_eq!(application.send(by("ann", add)).await.text(), "3", "{version}");
    }
}

#[tokio::test]
async fn streams_go_through_the_application() {
    let application = Application::start().await;
    let session = application.begin("ann", NEWEST_OLDER).await;
    let mut standalone = application.stream(by("ann", session.get())).await;
    let count = session.post(with_progress(call(2, "count", json!({ "n": 3 })), 2));
    let counted = application.send(by("ann", count)).await;
    assert!(counted.head.is_stream(), "{counted}");
    assert_eq!((counted.messages().len(), counted.text()), (4, "counted to 3".to_owned()));
    application.send(by("ann", session.post(call(3, "grow", json!({}))))).await;
    assert_eq!(standalone.message().await["method"], "notifications/tools/list_changed");
    assert_eq!(application.send(by("ann", session.delete())).await.status(), 204);
    standalone.rest().await;
}

/// The endpoint is relative to the URL of the stream, because the server does not know the path under which it is mounted.
#[tokio::test]
async fn http_sse_is_served_under_the_same_path() {
    let application = Application::start().await;
    let open = by("ann", Request::get().path("/mcp/sse"));
    let connection = application.connect(&open).await;
    let peer = connection.socket.local_addr().unwrap();
    let mut stream = within("a stream", connection.into_stream()).await;
    let endpoint = stream.event().await;
    assert_eq!(endpoint.kind.as_deref(), Some("endpoint"));
    let endpoint = endpoint.data.unwrap();
    assert!(!endpoint.starts_with('/') && !endpoint.contains("://"), "{endpoint}");
    let post = |body: Value| Request::post(body).path(format!("/mcp/{endpoint}"));
    let refused = application.send(by("bob", post(initialize("2024-11-05")))).await;
    assert_eq!(refused.status(), 404, "{refused}");
    application.send(by("ann", post(initialize("2024-11-05")))).await.assert_accepted();
    assert_eq!(stream.message().await["result"]["protocolVersion"], "2024-11-05");
    application.send(by("ann", post(notification("notifications/initialized")))).await.assert_accepted();
    application.send(by("ann", post(call(2, "seen", json!({}))))).await.assert_accepted();
    let answer = stream.message().await;
    assert_seen(answer["result"]["content"][0]["text"].as_str().unwrap(), peer);
}

/// The test calls `service.shutdown()`. SIGTERM triggers the same signal; `tests/signal.rs` covers that.
#[tokio::test]
async fn the_shutdown_signal_ends_the_streams_of_an_axum_server() {
    let service = server(&Default::default()).into_http_service().unwrap();
    let router = axum::Router::new().nest_service("/mcp", service.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let signal = service.shutdown_signal();
    let serving = tokio::spawn(axum::serve(listener, router).with_graceful_shutdown(signal).into_future());
    let mut connection = Connection::open(address).await;
    connection.send(&Request::get().path("/mcp/sse")).await;
    let mut stream = within("a stream", connection.into_stream()).await;
    assert_eq!(stream.event().await.kind.as_deref(), Some("endpoint"));
    assert!(!serving.is_finished());
    service.shutdown();
    within("the end of the server", serving).await.unwrap().unwrap();
    within("the end of the stream", async { while stream.next().await.is_some() {} }).await;
}

#[test]
fn a_server_that_cannot_be_built_is_an_error() {
    let tool = || Tool::builder("").handler_sync(|| "");
    let error = Server::new("broken", "1.0.0").tool(tool()).tool(tool()).into_http_service().unwrap_err();
    assert!(error.to_string().contains("tool"), "{error}");
}

/// The listener does not know the MCP server inside the application, so both are shut down separately.
#[tokio::test]
async fn an_application_ends_with_its_listener() {
    let application = Application::start().await;
    let session = application.begin("ann", NEWEST_OLDER).await;
    let standalone = application.stream(by("ann", session.get())).await;
    let old = application.stream(by("ann", Request::get().path("/mcp/sse"))).await;
    application.handle.shutdown();
    standalone.rest().await;
    within("the end of a stream", async {
        let mut old = old;
        while old.next().await.is_some() {}
    })
    .await;
    application.end.send(()).unwrap();
    within("the end of the application", application.serving).await.unwrap();
}
