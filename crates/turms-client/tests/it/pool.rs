//! Pools: every server responds with its name, so that tests see which member a call reaches.

mod choice;
mod maintenance;
mod subscriptions;
mod whole;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use turms_client::{
    Backoff, CallErrorKind, Change, CircuitBreaker, Client, ClientBuilder, ClosedCause, ConnectionEvent,
    ConnectionStatus, Event, Events, HealthCheck, MemberId, NoServerCause, Pool, PoolStrategy,
};
use turms_core::transport::{StreamConnector, memory};
use turms_core::{CallContext, ConnectError, Connection, Limits, NotifyFuture, Request, ResponseFuture, Service};
use turms_proto::types::{LoggingLevel, SubscriptionFilter};
use turms_proto::{Notification, ProtocolVersion};
use turms_server::{Resource, Router, Server, Tool};
use turms_testkit::within;

const SECOND: Duration = Duration::from_secs(1);
const URI: &str = "memo://notes";

/// A server that returns its name, records its requests, and can be silenced and disconnected.
struct Site {
    name: &'static str,
    router: Router,
    front: Front,
    /// Methods of the requests that have arrived.
    asked: mpsc::UnboundedReceiver<String>,
    /// Semaphore that calls of "wait" acquire.
    gate: Arc<Semaphore>,
    connections: Vec<JoinHandle<()>>,
}

/// A service in front of a router that records requests, and does not respond while it is silent.
#[derive(Clone)]
struct Front {
    service: Arc<dyn Service>,
    asked: mpsc::UnboundedSender<String>,
    silent: Arc<AtomicBool>,
}

impl Service for Front {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        let _ = self.asked.send(request.method.to_string());
        if self.silent.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        self.service.call(request, cx)
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        let _ = self.asked.send(notification.method.to_string());
        self.service.notify(notification, cx)
    }
}

impl Site {
    fn new(name: &'static str) -> Self {
        Self::with(name, |server| server)
    }

    fn with(name: &'static str, more: impl FnOnce(Server) -> Server) -> Self {
        let gate = Arc::new(Semaphore::new(0));
        let passing = gate.clone();
        let server = Server::new(name, "1")
            .tool(Tool::builder("whoami").handler_sync(move || name))
            .tool(Tool::builder("wait").handler(move || {
                let passing = passing.clone();
                async move {
                    passing.acquire().await.unwrap().forget();
                    name
                }
            }))
            .resource(Resource::builder(URI).handler_sync(move || name));
        let router = more(server).build().unwrap();
        let (sender, asked) = mpsc::unbounded_channel();
        let front = Front { service: Arc::new(router.clone()), asked: sender, silent: Arc::default() };
        Self { name, router, front, asked, gate, connections: Vec::new() }
    }

    /// Connects a client in process.
    async fn local(&self) -> Client {
        app().connect_service(self.front.clone()).await.unwrap()
    }

    /// Connects a client over a pair of pipes.
    async fn remote(&mut self) -> Client {
        self.remote_with(app()).await
    }

    async fn remote_with(&mut self, builder: ClientBuilder) -> Client {
        let (near, far) = memory();
        self.connections.push(serve(self.front.clone(), far));
        builder.connect_stream(near.0, near.1).await.unwrap()
    }

    /// Closes all connections.
    async fn hang_up(&mut self) {
        for connection in self.connections.drain(..) {
            connection.abort();
            let _ = connection.await;
        }
    }

    /// Waits until all connections have ended.
    async fn deserted(&mut self) {
        for connection in self.connections.drain(..) {
            within("the end of a connection", connection).await.unwrap();
        }
    }

    /// Waits for a request.
    async fn asked(&mut self, method: &str) {
        let asked = async { while self.asked.recv().await.unwrap() != method {} };
        within(&format!("{method} at {}", self.name), asked).await;
    }

    /// Discards the recorded requests.
    fn overlook(&mut self) {
        while self.asked.try_recv().is_ok() {}
    }

    fn set_silent(&self, silent: bool) {
        self.front.silent.store(silent, Ordering::SeqCst);
    }
}

fn serve(front: Front, (reader, writer): turms_core::transport::MemoryEnd) -> JoinHandle<()> {
    tokio::spawn(async move {
        let options = Limits::default();
        let (connection, handle) = Connection::server(reader, writer, &ProtocolVersion::ALL, options);
        drop(handle);
        let _ = connection.run(front).await;
    })
}

fn app() -> ClientBuilder {
    Client::builder("app", "1")
}

async fn pool_of(strategy: PoolStrategy, clients: impl IntoIterator<Item = Client>) -> Pool {
    Pool::builder().strategy(strategy).clients(clients).build().await.unwrap()
}

async fn whoami(client: &Client) -> String {
    client.call_tool("whoami", ()).await.unwrap().text()
}

/// Returns the names of the servers that a number of consecutive calls reach.
async fn landings(pool: &Pool, calls: usize) -> Vec<String> {
    let client = pool.as_client();
    let mut names = Vec::new();
    for _ in 0..calls {
        names.push(whoami(&client).await);
    }
    names
}

fn wait_call(client: &Client) -> JoinHandle<Result<String, turms_client::CallError>> {
    let client = client.clone();
    tokio::spawn(async move { client.call_tool("wait", ()).await.map(|result| result.text()) })
}

async fn hear(events: &mut Events, wanted: impl Fn(&Event) -> bool) -> Event {
    let heard = events.find(|event| wanted(&event).then_some(event));
    within("an event", heard).await.expect("the event stream is open")
}

fn connected(event: &Event) -> bool {
    matches!(event, Event::Connection(ConnectionEvent::Connected { .. }))
}

/// Returns the method that subscribes to a resource in a revision.
fn asks(version: ProtocolVersion) -> &'static str {
    if version == ProtocolVersion::LATEST { "subscriptions/listen" } else { "resources/subscribe" }
}

fn ids(pool: &Pool) -> Vec<MemberId> {
    pool.stats().members.iter().map(|member| member.id).collect()
}

/// A member factory that opens a new connection to a site on each attempt, or fails.
#[derive(Clone)]
struct Factory {
    front: Front,
    connections: Arc<Mutex<Vec<JoinHandle<()>>>>,
    /// Number of attempts that fail before one succeeds.
    failures: Arc<AtomicUsize>,
    attempts: Arc<AtomicUsize>,
}

impl Factory {
    fn new(site: &Site) -> Self {
        Self {
            front: site.front.clone(),
            connections: Arc::default(),
            failures: Arc::default(),
            attempts: Arc::default(),
        }
    }

    async fn connect(self) -> Result<Client, ConnectError> {
        self.attempts.fetch_add(1, Ordering::SeqCst);
        let fails = |left: usize| left.checked_sub(1);
        if self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails).is_ok() {
            return Err(ConnectError::unreachable("the site", "no answer"));
        }
        let (near, far) = memory();
        self.connections.lock().unwrap().push(serve(self.front, far));
        app().connect_stream(near.0, near.1).await
    }

    /// Closes the current connections.
    async fn hang_up(&self) {
        let connections = std::mem::take(&mut *self.connections.lock().unwrap());
        for connection in connections {
            connection.abort();
            let _ = connection.await;
        }
    }

    async fn deserted(&self) {
        let connections = std::mem::take(&mut *self.connections.lock().unwrap());
        for connection in connections {
            within("the end of a connection", connection).await.unwrap();
        }
    }
}
