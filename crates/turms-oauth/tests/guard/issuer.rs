//! A scripted issuer: its metadata, its keys and its introspection endpoint, each of which can fail.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use turms_oauth::SigningKey;

use crate::tokens::{claims, sign};

/// What an issuer does with requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Up,
    /// Responds with 500.
    Failing,
    /// Never responds.
    Silent,
}

/// An issuer on loopback.
pub(crate) struct TestIssuer {
    pub(crate) identifier: String,
    pub(crate) state: Arc<IssuerState>,
    serving: tokio::task::JoinHandle<()>,
}

pub(crate) struct IssuerState {
    identifier: String,
    pub(crate) keys: Mutex<Vec<Arc<SigningKey>>>,
    pub(crate) mode: Mutex<Mode>,
    pub(crate) cache_control: Mutex<Option<String>>,
    /// Responses instead of the usual ones: the media type and the body, by the last segment of the path.
    pub(crate) documents: Mutex<HashMap<&'static str, (&'static str, Vec<u8>)>>,
    /// Responses of the introspection endpoint, by token.
    pub(crate) tokens: Mutex<HashMap<String, Value>>,
    pub(crate) metadata_requests: AtomicUsize,
    pub(crate) key_requests: AtomicUsize,
    pub(crate) introspections: AtomicUsize,
    /// Introspection requests in progress, and the most there were.
    running: AtomicUsize,
    pub(crate) most_running: AtomicUsize,
    /// If set, each introspection waits for a permit.
    pub(crate) is_gated: AtomicBool,
    pub(crate) gate: Semaphore,
}

/// The credentials of the guard at the introspection endpoint: `guard:a secret`, encoded as of RFC 6749, 2.3.1.
pub(crate) const GUARD: (&str, &str) = ("guard", "a:secret %");
const BASIC: &str = "Basic Z3VhcmQ6YSUzQXNlY3JldCslMjU=";

impl TestIssuer {
    /// Starts an issuer with one key, `k1`.
    pub(crate) async fn start() -> Self {
        Self::with_path("").await
    }

    /// Starts an issuer whose identifier has a path, as tenants have.
    pub(crate) async fn with_path(path: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        let identifier = format!("http://{address}{path}");
        let state = Arc::new(IssuerState {
            identifier: identifier.clone(),
            keys: Mutex::new(vec![Arc::new(crate::tokens::key("k1"))]),
            mode: Mutex::new(Mode::Up),
            cache_control: Mutex::default(),
            documents: Mutex::default(),
            tokens: Mutex::default(),
            metadata_requests: AtomicUsize::new(0),
            key_requests: AtomicUsize::new(0),
            introspections: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            most_running: AtomicUsize::new(0),
            is_gated: AtomicBool::new(false),
            gate: Semaphore::new(0),
        });
        let router = Router::new().fallback(respond).with_state(state.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { identifier, state, serving }
    }

    /// Returns the newest key.
    pub(crate) fn key(&self) -> Arc<SigningKey> {
        self.state.keys.lock().last().unwrap().clone()
    }

    /// Replaces the keys by a new one.
    pub(crate) fn rotate(&self, kid: &str) {
        *self.state.keys.lock() = vec![Arc::new(crate::tokens::key(kid))];
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        *self.state.mode.lock() = mode;
    }

    pub(crate) fn introspection_url(&self) -> String {
        format!("{}/introspect", self.identifier)
    }

    pub(crate) fn key_requests(&self) -> usize {
        self.state.key_requests.load(Ordering::SeqCst)
    }

    pub(crate) fn introspections(&self) -> usize {
        self.state.introspections.load(Ordering::SeqCst)
    }

    /// Signs a valid token with changes of its claims.
    pub(crate) fn token(&self, resource: &str, changes: Value) -> String {
        sign(&self.key(), &crate::tokens::changed(claims(&self.identifier, resource), changes))
    }

    /// Makes an opaque token known to the introspection endpoint.
    pub(crate) fn opaque(&self, token: &str, response: Value) {
        self.state.tokens.lock().insert(token.to_owned(), response);
    }
}

impl Drop for TestIssuer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn respond(State(state): State<Arc<IssuerState>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let counter = match &*path {
        path if path.ends_with("/jwks") => &state.key_requests,
        path if path.ends_with("/introspect") => &state.introspections,
        _ => &state.metadata_requests,
    };
    counter.fetch_add(1, Ordering::SeqCst);
    let mode = *state.mode.lock();
    match mode {
        Mode::Up => {}
        Mode::Failing => return status(StatusCode::INTERNAL_SERVER_ERROR),
        Mode::Silent => std::future::pending().await,
    }
    let document = state.documents.lock().get(path.rsplit('/').next().unwrap_or_default()).cloned();
    if let Some((media_type, body)) = document {
        return Response::builder().header(header::CONTENT_TYPE, media_type).body(Body::from(body)).unwrap();
    }
    if path.ends_with("/jwks") {
        let keys: Vec<_> = state.keys.lock().iter().map(|key| key.public_jwk()).collect();
        let cache = state.cache_control.lock().clone();
        return json_response(&json!({ "keys": keys }), cache.as_deref());
    }
    if path.ends_with("/introspect") {
        return introspect(&state, request).await;
    }
    if path.contains("/.well-known/") {
        let issuer = &state.identifier;
        let metadata = json!({
            "issuer": issuer, "jwks_uri": format!("{issuer}/jwks"), "introspection_endpoint": format!("{issuer}/introspect"),
            "authorization_endpoint": format!("{issuer}/authorize"), "token_endpoint": format!("{issuer}/token"),
            "response_types_supported": ["code"],
        });
        return json_response(&metadata, None);
    }
    status(StatusCode::NOT_FOUND)
}

async fn introspect(state: &IssuerState, request: Request) -> Response {
    let credentials = request.headers().get(header::AUTHORIZATION).cloned();
    if request.method() != "POST" || credentials.is_none_or(|value| value != BASIC) {
        return status(StatusCode::UNAUTHORIZED);
    }
    let body = axum::body::to_bytes(request.into_body(), 64 * 1024).await.unwrap();
    let form: HashMap<_, _> = url::form_urlencoded::parse(&body).into_owned().collect();
    let _running = Running::begin(state);
    if state.is_gated.load(Ordering::SeqCst) {
        state.gate.acquire().await.unwrap().forget();
    }
    let known = state.tokens.lock().get(&form["token"]).cloned();
    json_response(&known.unwrap_or_else(|| json!({ "active": false })), None)
}

/// An introspection in progress, until it is answered or its client has gone.
struct Running<'a>(&'a IssuerState);

impl<'a> Running<'a> {
    fn begin(state: &'a IssuerState) -> Self {
        let running = state.running.fetch_add(1, Ordering::SeqCst) + 1;
        state.most_running.fetch_max(running, Ordering::SeqCst);
        Self(state)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

fn status(status: StatusCode) -> Response {
    Response::builder().status(status).body(Body::empty()).unwrap()
}

fn json_response(value: &Value, cache_control: Option<&str>) -> Response {
    let mut response = Response::builder().header(header::CONTENT_TYPE, "application/json");
    if let Some(cache_control) = cache_control {
        response = response.header(header::CACHE_CONTROL, cache_control);
    }
    response.body(Body::from(value.to_string())).unwrap()
}
