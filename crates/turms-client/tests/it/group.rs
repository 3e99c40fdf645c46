//! Groups of servers: servers in process and over pipes, servers with invalid responses, and unreachable servers.

mod contents;
mod members;
mod names;
mod reach;

use std::collections::HashMap;
use std::error::Error as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::task::AbortHandle;
use turms_client::{
    Backoff, CallErrorKind, CancellationToken, Change, Client, ClientBuilder, ClientGroup, Collision, CollisionKind,
    ConnectionEvent, ConnectionStatus, DecodeCause, Event, GroupError, McpConfig, NoServerCause, ServerTarget,
    VersionCache,
};
use turms_core::transport::{LocalConnector, MemoryEnd, StreamConnector, memory};
use turms_core::{CallContext, ConnectError, Connector, NotifyFuture, Payload, Request, ResponseFuture, Service};
use turms_proto::types::*;
use turms_proto::{ErrorObject, Notification, ProtocolVersion, RawJson};
use turms_server::{
    Args, CompletionRequest, Context, Elicited, InputError, Json, Prompt as ServerPrompt, Resource as ServerResource,
    Router, Server, Tool as ServerTool,
};
use turms_testkit::behaviour_server::Sum;
use turms_testkit::tools::{Add, Name};
use turms_testkit::{eventually, within};

const OLDEST: ProtocolVersion = ProtocolVersion::V2024_11_05;
const NEWEST: ProtocolVersion = ProtocolVersion::LATEST;

#[derive(Deserialize, JsonSchema)]
struct Id {
    id: String,
}

fn math() -> Server {
    Server::new("math", "1")
        .instructions("Add with add.\n")
        .tool(ServerTool::builder("add").handler_sync(|Args(add): Args<Add>| Json(Sum { sum: add.a + add.b })))
        .tool(ServerTool::builder("wait").handler(|| async {
            std::future::pending::<()>().await;
            "never"
        }))
}

fn notes(of: &'static str) -> Server {
    Server::new("notes", "1")
        .instructions(format!("The notes of {of}."))
        .tool(ServerTool::builder("read").handler_sync(move || format!("notes of {of}")))
        .tool(ServerTool::builder("greet").handler(|context: Context| async move {
            match context.elicit::<Name>("Who are you?").await? {
                Elicited::Accepted(name) => Ok::<_, InputError>(format!("Hello, {}!", name.name)),
                _ => Ok("Hello, stranger!".to_owned()),
            }
        }))
        .resource(ServerResource::builder(format!("{of}://index")).handler_sync(move || format!("index of {of}")))
        .resource(
            ServerResource::builder(format!("{of}://note/{{id}}"))
                .completion("id", move |completing: CompletionRequest| async move {
                    vec![format!("{}-{of}", completing.value)]
                })
                .handler_sync(move |Args(note): Args<Id>| format!("note {} of {of}", note.id)),
        )
        .prompt(
            ServerPrompt::builder("summary")
                .completion("name", move |completing: CompletionRequest| async move {
                    vec![format!("{}-for-{of}", completing.value)]
                })
                .handler_sync(move |Args(who): Args<Name>| format!("Summarise the notes of {of} for {}.", who.name)),
        )
}

fn local(server: Server) -> LocalConnector {
    LocalConnector::new(server.build().unwrap())
}

/// A client with its own version cache, so that tests are independent.
fn app() -> ClientBuilder {
    Client::builder("app", "1").version_cache(VersionCache::new())
}

/// A server over pipes that a test can disconnect and reconnect.
#[derive(Clone, Default)]
struct Plug {
    pulled: Arc<AtomicBool>,
    serving: Arc<Mutex<Vec<AbortHandle>>>,
}

impl Plug {
    fn connector(&self, name: &str, router: Router) -> StreamConnector {
        let plug = self.clone();
        StreamConnector::from_fn(name, move || {
            let (near, far): (MemoryEnd, MemoryEnd) = memory();
            let pulled = plug.pulled.load(Ordering::SeqCst);
            if !pulled {
                let router = router.clone();
                let serving = tokio::spawn(async move { drop(router.serve(far.0, far.1).await) });
                plug.serving.lock().unwrap().push(serving.abort_handle());
            }
            async move { if pulled { Err(std::io::ErrorKind::ConnectionRefused.into()) } else { Ok(near) } }
        })
    }

    fn pull(&self) {
        self.pulled.store(true, Ordering::SeqCst);
        self.serving.lock().unwrap().drain(..).for_each(|serving| serving.abort());
    }

    fn put_back(&self) {
        self.pulled.store(false, Ordering::SeqCst);
    }

    fn is_in_use(&self) -> bool {
        self.serving.lock().unwrap().iter().any(|serving| !serving.is_finished())
    }
}

fn over_pipes(name: &str, server: Server) -> StreamConnector {
    Plug::default().connector(name, server.build().unwrap())
}

fn dead(name: &str) -> StreamConnector {
    let plug = Plug::default();
    plug.pull();
    plug.connector(name, math().build().unwrap())
}

/// A service that responds from a table; a method that is not in it is unknown.
struct Table(HashMap<&'static str, serde_json::Value>);

impl Service for Table {
    fn call(&self, request: Request, _: CallContext) -> ResponseFuture {
        let uri = request.params.into_raw().ok().and_then(|params| params.member("uri"));
        let key = match uri {
            Some(uri) => format!("{} {}", request.method, uri.as_str().trim_matches('"')),
            None => request.method.to_string(),
        };
        Box::pin(std::future::ready(match self.0.get(key.as_str()) {
            Some(answer) => Ok(Payload::json(RawJson::encode(answer).unwrap())),
            None if key.contains(' ') => Err(ErrorObject::resource_not_found(key.split_once(' ').unwrap().1).into()),
            None => Err(ErrorObject::method_not_found(&key).into()),
        }))
    }

    fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
        Box::pin(async {})
    }
}

fn table(capabilities: &serde_json::Value, answers: &[(&'static str, serde_json::Value)]) -> LocalConnector {
    let discovered = json!({ "supportedVersions": [NEWEST.as_str()], "capabilities": capabilities });
    let answers = answers.iter().cloned().chain([("server/discover", discovered)]);
    LocalConnector::new(Table(answers.collect()))
}

async fn tools_of(client: &Client) -> Vec<String> {
    client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect()
}

fn failure_names(group: &ClientGroup) -> Vec<String> {
    group.failures().into_iter().map(|(name, _)| name).collect()
}

fn collision(kind: CollisionKind, name: &str, servers: [&str; 2]) -> (CollisionKind, String, Vec<String>) {
    (kind, name.to_owned(), servers.map(str::to_owned).to_vec())
}

fn told(collisions: Vec<Collision>) -> Vec<(CollisionKind, String, Vec<String>)> {
    collisions.into_iter().map(|it| (it.kind, it.name, it.servers)).collect()
}

fn text(result: &ReadResourceResult) -> &str {
    result.contents[0].text.as_deref().unwrap()
}
