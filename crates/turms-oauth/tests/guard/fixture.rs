//! Guarded servers, and clients that send requests byte for byte.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use turms_core::layer::{Next, from_fn};
use turms_core::{CallContext, Request as ServiceRequest};
use turms_http::{Listener, ServeHttp as _};
use turms_oauth::{TokenGuard, TokenGuardBuilder};
use turms_server::{Principal, Prompt, Resource, Server, ServerHandle, Tool, ToolError};
use turms_testkit::fixture::{Traces, server};
use turms_testkit::messages::{NEWEST_OLDER, call, initialize, modern_call, notification};
use turms_testkit::raw_http::{Connection, Request, Response, Stream};
use turms_testkit::{raw_ws, within};
use turms_ws::ServeWs as _;

use crate::issuer::TestIssuer;

/// The resource of the servers on the listener. Its port is none of a server: only its host matters to the guard.
pub(crate) const RESOURCE: &str = "http://localhost/mcp";
/// The resource of the servers in an application.
pub(crate) const MOUNTED: &str = "http://localhost/app/mcp";

/// The place of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mount {
    /// On the listener of `turms-http`.
    Listener,
    /// Below a path of an axum application.
    Axum,
}

impl Mount {
    pub(crate) const ALL: [Self; 2] = [Self::Listener, Self::Axum];

    pub(crate) fn resource(self) -> &'static str {
        match self {
            Self::Listener => RESOURCE,
            Self::Axum => MOUNTED,
        }
    }

    fn base(self) -> &'static str {
        match self {
            Self::Listener => "/mcp",
            Self::Axum => "/app/mcp",
        }
    }
}

/// A guarded server over HTTP and over WebSocket.
pub(crate) struct GuardedServer {
    pub(crate) http: SocketAddr,
    pub(crate) ws: SocketAddr,
    pub(crate) base: &'static str,
    pub(crate) handle: ServerHandle,
    pub(crate) traces: Arc<Traces>,
    /// Number of requests that reached the service.
    pub(crate) reached: Arc<AtomicUsize>,
    /// Permits for calls of the tool `later`.
    pub(crate) later: Arc<Semaphore>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for GuardedServer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Returns a builder of a guard for one issuer.
pub(crate) fn guard_for(issuer: &TestIssuer, mount: Mount) -> TokenGuardBuilder {
    TokenGuard::builder(mount.resource())
        .issuer(turms_oauth::Issuer::discover(&issuer.identifier))
        .scopes(["notes:read"])
        .implies("notes:write", ["notes:read"])
}

fn whoami(who: Principal) -> String {
    json!({
        "subject": who.subject(), "issuer": who.issuer(), "client": who.client_id(), "scopes": who.scopes(),
        "tenant": who.claim::<String>("tenant"),
    })
    .to_string()
}

fn administer(who: Principal) -> Result<&'static str, ToolError> {
    who.require(["notes:admin"])?;
    Ok("administered")
}

fn guarded(traces: &Arc<Traces>, reached: &Arc<AtomicUsize>, later: &Arc<Semaphore>) -> Server {
    let (reached, later) = (reached.clone(), later.clone());
    let counted = from_fn(move |request: ServiceRequest, cx: CallContext, next: Next| {
        reached.fetch_add(1, Ordering::SeqCst);
        next.run(request, cx)
    });
    let later = move || {
        let later = later.clone();
        async move {
            later.acquire().await.unwrap().forget();
            "done"
        }
    };
    server(traces)
        .layer(counted)
        .tool(Tool::builder("whoami").handler_sync(whoami))
        .tool(Tool::builder("write").scopes(["notes:write"]).handler_sync(|| "written"))
        .tool(Tool::builder("administer").handler_sync(administer))
        .tool(Tool::builder("later").task().handler(later))
        .prompt(Prompt::builder("draft").scopes(["notes:write"]).handler_sync(|| "?"))
        .resource(Resource::builder("memo://secret").name("secret").scopes(["notes:write"]).handler_sync(|| "?"))
}

impl GuardedServer {
    pub(crate) async fn start(mount: Mount, guard: TokenGuard) -> Self {
        Self::with(mount, guard, |server| server).await
    }

    /// Starts a server with changes.
    pub(crate) async fn with(mount: Mount, guard: TokenGuard, change: impl FnOnce(Server) -> Server) -> Self {
        let (traces, reached, later) = (Arc::<Traces>::default(), Arc::default(), Arc::new(Semaphore::new(0)));
        let server = change(guarded(&traces, &reached, &later)).build().unwrap();
        let handle = server.handle().clone();
        let http = server.clone().into_http_service().unwrap().guard(guard.clone());
        let ws = server.into_ws_service().unwrap().guard(guard.clone());
        let mut tasks = Vec::new();
        let (http, ws) = match mount {
            Mount::Listener => {
                let [http_listener, ws_listener] =
                    [Listener::bind("127.0.0.1:0").await.unwrap(), Listener::bind("127.0.0.1:0").await.unwrap()];
                let addresses = (http_listener.local_addr().unwrap(), ws_listener.local_addr().unwrap());
                tasks.push(tokio::spawn(async move { http_listener.serve(http).await.unwrap() }));
                tasks.push(tokio::spawn(async move { ws_listener.serve(ws).await.unwrap() }));
                addresses
            }
            Mount::Axum => {
                let router = axum::Router::new()
                    .route_service(&guard.metadata_path(), guard.documents())
                    .nest_service("/app/mcp", http)
                    .nest_service("/app/ws", ws);
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr().unwrap();
                tasks.push(tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }));
                (address, address)
            }
        };
        Self { http, ws, base: mount.base(), handle, traces, reached, later, tasks }
    }

    pub(crate) fn reached(&self) -> usize {
        self.reached.load(Ordering::SeqCst)
    }

    /// Sends a request to the endpoint, unless it is for another path, and returns the connection.
    pub(crate) async fn open(&self, request: Request) -> Connection {
        let mut connection = Connection::open(self.http).await;
        connection.send(&self.at(request)).await;
        connection
    }

    fn at(&self, request: Request) -> Request {
        if request.path == "/mcp" { request.path(self.base) } else { request }
    }

    /// Sends a request and reads the whole response.
    pub(crate) async fn send(&self, request: Request) -> Response {
        within("a response", self.open(request).await.response()).await
    }

    /// Sends a request whose response must be an event stream.
    pub(crate) async fn stream(&self, request: Request) -> Stream {
        within("a stream", self.open(request).await.into_stream()).await
    }

    /// Begins a session of 2025-11-25.
    pub(crate) async fn session(&self, token: &str) -> Session {
        let response = self.send(bearer(Request::post(initialize(NEWEST_OLDER)), token)).await;
        let id = response.header("mcp-session-id").unwrap_or_else(|| panic!("{response}")).to_owned();
        let session = Session { id };
        self.send(bearer(session.post(notification("notifications/initialized")), token)).await.assert_accepted();
        session
    }

    /// Opens a pair of HTTP+SSE.
    pub(crate) async fn pair(&self, token: &str) -> Pair {
        let mut stream = self.stream(bearer(Request::get().path(format!("{}/sse", self.base)), token)).await;
        let endpoint = stream.event().await.data.unwrap();
        Pair { stream, endpoint: format!("{}/{endpoint}", self.base) }
    }

    /// Opens a pair and completes its handshake.
    pub(crate) async fn initialized_pair(&self, token: &str) -> Pair {
        let mut pair = self.pair(token).await;
        self.send(bearer(pair.post(initialize("2024-11-05")), token)).await.assert_accepted();
        assert_eq!(pair.stream.message().await["id"], 1);
        self.send(bearer(pair.post(notification("notifications/initialized")), token)).await.assert_accepted();
        pair
    }

    /// Returns the request that opens a WebSocket.
    pub(crate) fn upgrade(&self) -> Request {
        let mut request = Request::new("GET").path(if self.base == "/mcp" { "/" } else { "/app/ws" }).without("Host");
        for line in raw_ws::HEADERS {
            let (name, value) = line.split_once(": ").unwrap();
            request = request.also(name, value);
        }
        request
    }

    /// Opens a WebSocket and completes the handshake of MCP.
    pub(crate) async fn socket(&self, token: &str) -> raw_ws::WsConnection {
        let mut connection = Connection::open(self.ws).await;
        connection.send(&bearer(self.upgrade(), token)).await;
        assert_eq!(within("a response", connection.head()).await.status, 101);
        let mut socket = raw_ws::WsConnection { stream: connection.socket };
        socket.text(&initialize(NEWEST_OLDER).to_string()).await;
        let (response, _) = socket.message().await;
        assert!(response.contains("protocolVersion"), "{response}");
        socket.text(&notification("notifications/initialized").to_string()).await;
        socket
    }

    /// Returns every kind of request that a guard checks, over every transport, without credentials.
    pub(crate) fn entries(&self, session: &Session, pair: &Pair) -> Vec<Entry> {
        let http = |name, status, request| Entry { name, address: self.http, status, request: self.at(request) };
        vec![
            http("a call of 2026-07-28", 200, modern_call(1, "whoami", json!({}))),
            http("initialize", 200, Request::post(initialize(NEWEST_OLDER))),
            http("a call in a session", 200, session.post(call(2, "whoami", json!({})))),
            http("a notification in a session", 202, session.post(notification("notifications/roots/list_changed"))),
            http("the stream of a session", 200, session.get()),
            http("the stream of HTTP+SSE", 200, Request::get().path(format!("{}/sse", self.base))),
            http("a message of HTTP+SSE", 202, pair.post(call(3, "whoami", json!({})))),
            Entry { name: "WebSocket", address: self.ws, status: 101, request: self.upgrade() },
            http("the end of a session", 204, session.delete()),
        ]
    }
}

/// A request over one of the transports.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    address: SocketAddr,
    /// The status if the guard accepts it.
    pub(crate) status: u16,
    pub(crate) request: Request,
}

impl Entry {
    /// Sends the request with changes. The response must not be a stream.
    pub(crate) async fn send(&self, change: impl FnOnce(Request) -> Request) -> Response {
        let mut connection = Connection::open(self.address).await;
        connection.send(&change(self.request.clone())).await;
        within(self.name, connection.response()).await
    }

    /// Sends the request with changes, and returns the status.
    pub(crate) async fn status(&self, change: impl FnOnce(Request) -> Request) -> u16 {
        let mut connection = Connection::open(self.address).await;
        connection.send(&change(self.request.clone())).await;
        within(self.name, connection.head()).await.status
    }

    /// Asserts that the guard accepts the request with a token.
    pub(crate) async fn assert_accepted(&self, token: &str) {
        assert_eq!(self.status(|request| bearer(request, token)).await, self.status, "{}", self.name);
    }
}

/// A session of 2025-11-25.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) id: String,
}

impl Session {
    fn with(&self, request: Request) -> Request {
        request.session(&self.id).version(NEWEST_OLDER)
    }

    pub(crate) fn post(&self, body: Value) -> Request {
        self.with(Request::post(body))
    }

    pub(crate) fn get(&self) -> Request {
        self.with(Request::get())
    }

    pub(crate) fn delete(&self) -> Request {
        self.with(Request::delete())
    }
}

/// A pair of HTTP+SSE: its stream, and the path for messages.
pub(crate) struct Pair {
    pub(crate) stream: Stream,
    pub(crate) endpoint: String,
}

impl Pair {
    pub(crate) fn post(&self, body: Value) -> Request {
        Request::post(body).path(&self.endpoint).without("Accept")
    }
}

/// Adds a bearer token to a request.
pub(crate) fn bearer(request: Request, token: &str) -> Request {
    request.header("Authorization", format!("Bearer {token}"))
}

/// Adds a token that is bound to a key, and a proof.
pub(crate) fn proven(request: Request, token: &str, proof: &str) -> Request {
    request.header("Authorization", format!("DPoP {token}")).header("DPoP", proof)
}

/// Returns the challenge of a response. Its parameters are checked as text: `name="value"`.
#[track_caller]
pub(crate) fn challenge(response: &Response) -> &str {
    response.header("www-authenticate").unwrap_or_else(|| panic!("no challenge: {response}"))
}

/// Asserts that a request was refused by the guard, with this status and error.
#[track_caller]
pub(crate) fn assert_refused(response: &Response, status: u16, error: &str, what: &str) {
    assert_eq!(response.status(), status, "{what}: {response}");
    let challenge = challenge(response);
    let expected = format!("error=\"{error}\"");
    assert!(challenge.contains(&expected), "{what}: {challenge}");
    assert!(challenge.contains("resource_metadata=\"http://localhost/.well-known/oauth-protected-resource/"), "{what}");
    assert_eq!(response.json()["error"]["code"], -32600, "{what}");
}
