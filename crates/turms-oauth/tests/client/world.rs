//! A development authorization server and a guarded MCP server, and clients that connect to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::LOCATION;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use turms_client::{Client, ClientBuilder};
use turms_core::ConnectError;
use turms_http::{HttpConnector, Listener, ServeHttp as _};
use turms_oauth::__internal::GuardClock;
use turms_oauth::dev::{DevServer, DevServerBuilder};
use turms_oauth::{
    Issuer, Login, LoginKey, MemoryStore, OAuth, StoredLogin, TokenGuard, TokenGuardBuilder, TokenStore,
};
use turms_proto::ProtocolVersion;
use turms_server::{Principal, Router, Server, Tool};
use turms_testkit::within;
use url::Url;

use crate::script::get;

/// The newest revision with a handshake, and the newest one.
pub(crate) const ERAS: [ProtocolVersion; 2] = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];

/// A person with a browser, who approves everything.
#[derive(Clone, Default)]
pub(crate) struct Browser {
    windows: Arc<AtomicUsize>,
    urls: Arc<Mutex<Vec<Url>>>,
    /// A person who waits until the test lets go.
    gate: Option<Arc<Semaphore>>,
}

impl Browser {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Creates a person who does nothing until [`release`](Self::release).
    pub(crate) fn waiting() -> Self {
        Self { gate: Some(Arc::new(Semaphore::new(0))), ..Self::default() }
    }

    pub(crate) fn release(&self) {
        self.gate.as_ref().unwrap().add_permits(1);
    }

    /// Returns a login with this browser.
    pub(crate) fn login(&self) -> Login {
        let this = self.clone();
        Login::with(move |prompt| {
            let this = this.clone();
            async move {
                this.windows.fetch_add(1, Ordering::SeqCst);
                this.urls.lock().push(prompt.url.clone());
                if let Some(gate) = &this.gate {
                    gate.acquire().await.unwrap().forget();
                }
                open(&prompt.url).await
            }
        })
    }

    /// Returns the number of windows that were opened.
    pub(crate) fn windows(&self) -> usize {
        self.windows.load(Ordering::SeqCst)
    }

    /// Returns a parameter of the last authorization URL.
    pub(crate) fn param(&self, name: &str) -> Option<String> {
        let url = self.urls.lock().last()?.clone();
        url.query_pairs().find(|(own, _)| own == name).map(|(_, value)| value.into_owned())
    }
}

/// Opens an authorization URL, and returns the URL of the callback.
pub(crate) async fn open(url: &Url) -> Result<String, String> {
    let response = get(url.as_str()).await;
    let location = response.headers.get(LOCATION).map(|value| value.to_str().unwrap().to_owned());
    location.ok_or_else(|| format!("{} {}", response.status, response.text()))
}

/// A development server where alice approves everything.
pub(crate) fn dev() -> DevServerBuilder {
    DevServer::builder().user("alice").scopes(["notes:read", "notes:write"]).auto_approve("alice")
}

/// A guarded MCP server.
pub(crate) struct Guarded {
    pub(crate) url: String,
    pub(crate) clock: GuardClock,
    serving: JoinHandle<()>,
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

pub(crate) fn notes() -> Router {
    Server::new("notes", "1.0.0")
        .tool(Tool::builder("whoami").handler_sync(|caller: Principal| caller.subject().to_owned()))
        .tool(Tool::builder("scopes").handler_sync(|caller: Principal| caller.scopes().join(" ")))
        .tool(Tool::builder("write").scopes(["notes:write"]).handler_sync(|| "written"))
        .build()
        .unwrap()
}

/// Returns the guard of a resource whose tokens the development server issues.
pub(crate) fn guard(dev: &DevServer, resource: &str, clock: &GuardClock) -> TokenGuardBuilder {
    let issuer = Issuer::keys(dev.issuer(), dev.jwk_set());
    TokenGuard::builder(resource).issuer(issuer).scopes(["notes:read"]).clock(clock.clone())
}

/// Starts a guarded MCP server.
pub(crate) async fn guarded(dev: &DevServer) -> Guarded {
    guarded_with(dev, |guard| guard).await
}

/// Starts a guarded MCP server with other settings of its guard.
pub(crate) async fn guarded_with(
    dev: &DevServer,
    change: impl FnOnce(TokenGuardBuilder) -> TokenGuardBuilder,
) -> Guarded {
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.address());
    let clock = GuardClock::standing_at(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs());
    let guard = change(guard(dev, &url, &clock)).build().unwrap();
    let service = notes().into_http_service().unwrap().guard(guard);
    let serving = tokio::spawn(async move { listener.serve(service).await.unwrap() });
    Guarded { url, clock, serving }
}

/// The world of most tests: a development server, a guarded server, a person and a store.
pub(crate) struct World {
    pub(crate) dev: DevServer,
    pub(crate) server: Guarded,
    pub(crate) browser: Browser,
    pub(crate) store: MemoryStore,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(dev()).await
    }

    pub(crate) async fn with(dev: DevServerBuilder) -> Self {
        let dev = dev.bind("127.0.0.1:0").await.unwrap();
        let server = guarded(&dev).await;
        Self { dev, server, browser: Browser::new(), store: MemoryStore::new() }
    }

    /// Creates a client that shares the store, as another process does.
    pub(crate) fn oauth(&self) -> OAuth {
        OAuth::new("notes-agent").store(self.store.clone()).login(self.browser.login())
    }

    pub(crate) async fn connect(&self, auth: &OAuth) -> Client {
        connect(&self.server.url, auth, Client::builder("agent", "1.0.0")).await.unwrap()
    }

    pub(crate) fn key(&self) -> LoginKey {
        LoginKey::new(&self.server.url.parse().unwrap(), "")
    }

    pub(crate) async fn stored(&self) -> Option<StoredLogin> {
        self.store.load(&self.key()).await.unwrap()
    }

    /// Changes the stored login.
    pub(crate) async fn change_stored(&self, change: impl FnOnce(&mut StoredLogin)) {
        let key = self.key();
        let mut lock = self.store.lock(&key).await.unwrap();
        let mut login = lock.load().await.unwrap().unwrap();
        change(&mut login);
        lock.save(&login).await.unwrap();
    }

    /// Logs in, and lets the stored access token expire. Clients that read the store afterwards know that it has expired.
    pub(crate) async fn log_in_and_expire(&self) {
        self.oauth().token(&self.server.url).await.unwrap();
        self.change_stored(|login| login.expires_at = Some(SystemTime::now() - Duration::from_secs(1))).await;
    }

    /// Makes the server reject all tokens that were issued before. Clients do not know it.
    pub(crate) fn expire_at_server(&self) {
        self.advance(Duration::from_secs(10 * 60));
    }

    /// Moves the clocks of both servers.
    pub(crate) fn advance(&self, time: Duration) {
        self.dev.advance(time);
        self.server.clock.advance(time);
    }
}

/// Connects to an MCP server.
pub(crate) async fn connect(url: &str, auth: &OAuth, builder: ClientBuilder) -> Result<Client, ConnectError> {
    let connector = HttpConnector::new(url).unwrap().authorizer(auth.clone());
    within("the connection", builder.connect(connector)).await
}

/// Calls a tool, and returns the text of its result.
pub(crate) async fn call(client: &Client, tool: &str) -> Result<String, turms_client::CallError> {
    within("the call", client.call_tool(tool, ())).await.map(|result| result.text())
}

/// Returns the message of an error with those of its sources.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
