//! The server that the tests talk to.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use turms_client::{Client, ClientBuilder, VersionMemory};
use turms_core::ServeError;
use turms_http::Listener;
use turms_proto::Object;
use turms_proto::types::ElicitResult;
use turms_server::{Args, AskError, Context, Elicited, Extension, Headers, Progress, Resource, Router, Server, Tool};
use turms_testkit::{TIMEOUT, within};
use turms_ws::{ServeWs as _, WsConnector, WsService};

/// How many calls of `slow` run.
pub(crate) type Running = Arc<watch::Sender<usize>>;

/// Counts a call for as long as it runs.
struct Counted(Running);

impl Counted {
    fn new(running: &Running) -> Self {
        running.send_modify(|count| *count += 1);
        Self(running.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Name {
    name: String,
}

/// A value that the application's middleware finds out about a client.
#[derive(Debug, Clone)]
pub(crate) struct Badge(pub(crate) &'static str);

/// A server, and how many of its calls run.
pub(crate) fn server() -> (Router, Running) {
    let running = Running::default();
    let slow = running.clone();
    let server = Server::new("fixture", "1.0.0")
        .tool(Tool::builder("add").handler_sync(|Args(numbers): Args<Value>| {
            numbers["a"].as_i64().unwrap_or_default() + numbers["b"].as_i64().unwrap_or_default()
        }))
        .tool(
            Tool::builder("echo")
                .handler_sync(|Args(said): Args<Value>| said["text"].as_str().unwrap_or("").to_owned()),
        )
        .tool(Tool::builder("repeat").handler_sync(|Args(wish): Args<Value>| {
            "0123456789".repeat(wish["tens"].as_u64().unwrap_or_default() as usize)
        }))
        .tool(Tool::builder("steps").handler(|progress: Progress| async move {
            for step in 1..=3 {
                progress.report(step).await;
            }
            "done"
        }))
        .tool(Tool::builder("slow").handler(move || {
            let counted = Counted::new(&slow);
            async move {
                std::future::pending::<()>().await;
                drop(counted);
            }
        }))
        .tool(Tool::builder("greet").handler(|context: Context| async move {
            Ok::<_, AskError>(match context.elicit::<Name>("Your name?").await? {
                Elicited::Accepted(name) => format!("Hello {}", name.name),
                _ => "Hello nobody".to_owned(),
            })
        }))
        .tool(Tool::builder("touch").handler_sync(|context: Context| context.server().resource_updated("memo://a")))
        .tool(Tool::builder("header").handler_sync(|Headers(headers): Headers| {
            headers.get("x-test").map_or("none", |value| value.to_str().unwrap_or("unreadable")).to_owned()
        }))
        .tool(Tool::builder("uri").handler_sync(|Extension(uri): Extension<http::Uri>| uri.to_string()))
        .tool(Tool::builder("badge").handler_sync(|Extension(Badge(name)): Extension<Badge>| name))
        .resource(Resource::builder("memo://a").handler_sync(|| "a"));
    (server.build().unwrap(), running)
}

/// A server that listens.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) router: Router,
    pub(crate) running: Running,
    pub(crate) ended: JoinHandle<Result<(), ServeError>>,
}

impl Served {
    pub(crate) async fn new() -> Self {
        Self::with(|service| service).await
    }

    pub(crate) async fn with(settings: impl FnOnce(WsService) -> WsService) -> Self {
        let (router, running) = server();
        let listener = Listener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ended = tokio::spawn(listener.serve(settings(router.clone().ws())));
        Self { address, router, running, ended }
    }

    pub(crate) fn connector(&self) -> WsConnector {
        WsConnector::new(format!("ws://{}/some/where?x=1", self.address)).unwrap()
    }

    pub(crate) async fn client(&self) -> Client {
        connect(self.connector(), builder()).await
    }

    /// Waits until so many calls of `slow` run.
    pub(crate) async fn runs(&self, count: usize) {
        let mut running = self.running.subscribe();
        within("calls begin or end", running.wait_for(|running| *running == count)).await.unwrap();
    }
}

/// A client whose person is called Ann.
pub(crate) fn builder() -> ClientBuilder {
    Client::builder("test", "1.0.0")
        .version_memory(VersionMemory::new())
        .probe_timeout(TIMEOUT)
        .on_elicitation(|_| async { ElicitResult::accept(Object::encode(&json!({ "name": "Ann" })).unwrap()) })
}

pub(crate) async fn connect(connector: WsConnector, builder: ClientBuilder) -> Client {
    within("a connection", builder.connect_to(connector)).await.unwrap()
}
