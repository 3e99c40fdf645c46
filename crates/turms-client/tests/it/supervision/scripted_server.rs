//! A scripted server, and the helpers of its tests.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;
use turms_client::{Backoff, CallError, Client, ClientBuilder, ConnectionEvent, Event, Events, VersionCache};
use turms_core::transport::{MemoryEnd, StreamConnector, memory};
use turms_proto::ProtocolVersion;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const OLD: ProtocolVersion = ProtocolVersion::LATEST_WITH_HANDSHAKE;
pub(crate) const NEW: ProtocolVersion = ProtocolVersion::LATEST;

/// A scripted server that serves every connection.
#[derive(Clone)]
pub(crate) struct ScriptedServer(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    version: ProtocolVersion,
    script: Script,
    connections: Mutex<Vec<Far>>,
    /// Number of further attempts to connect that are refused.
    pub(crate) refusals: AtomicUsize,
    heard: Mutex<Vec<Heard>>,
}

pub(crate) type Script = Box<dyn Fn(usize, &str) -> Reply + Send + Sync>;

/// One connection, on the side of the server.
pub(crate) struct Far {
    task: AbortHandle,
    lines: mpsc::UnboundedSender<String>,
}

/// A request and the number of its connection, starting at 1.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub(crate) connection: usize,
    pub(crate) id: Value,
    pub(crate) method: String,
    pub(crate) params: Value,
}

/// The reaction of the server to a request.
#[derive(Clone)]
pub(crate) enum Reply {
    Well,
    WellAfter(Duration),
    Error,
    Never,
    Die,
}

use Reply::*;

impl ScriptedServer {
    /// Creates a server. The script returns the reaction to a method on a connection, starting at 1; the method `open`
    /// precedes all others.
    pub(crate) fn new(version: ProtocolVersion, script: impl Fn(usize, &str) -> Reply + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            version,
            script: Box::new(script),
            connections: Mutex::default(),
            refusals: AtomicUsize::new(0),
            heard: Mutex::default(),
        }))
    }

    pub(crate) fn well(version: ProtocolVersion) -> Self {
        Self::new(version, |_, _| Well)
    }

    pub(crate) fn connector(&self) -> StreamConnector {
        let scripted = self.clone();
        StreamConnector::from_fn("the scripted", move || std::future::ready(scripted.open()))
    }

    pub(crate) async fn connect_with(&self, builder: ClientBuilder) -> Client {
        builder.connect(self.connector()).await.unwrap()
    }

    pub(crate) fn open(&self) -> io::Result<MemoryEnd> {
        let refused = self.0.refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if refused.is_ok() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = memory();
        let (lines, told) = mpsc::unbounded_channel();
        let mut connections = self.0.connections.lock().unwrap();
        let serving = tokio::spawn(self.clone().serve(connections.len() + 1, far, told));
        connections.push(Far { task: serving.abort_handle(), lines });
        Ok(near)
    }

    pub(crate) async fn serve(self, connection: usize, far: MemoryEnd, mut told: mpsc::UnboundedReceiver<String>) {
        let (reader, mut writer) = far;
        let mut lines = BufReader::new(reader).lines();
        if matches!((self.0.script)(connection, "open"), Die) {
            return;
        }
        loop {
            let answer = tokio::select! {
                line = lines.next_line() => match line {
                    Ok(Some(line)) => match self.hear(connection, &serde_json::from_str(&line).unwrap()).await {
                        Ok(answer) => answer,
                        Err(Died) => return,
                    },
                    _ => return,
                },
                Some(line) = told.recv() => Some(line),
            };
            if let Some(answer) = answer
                && writer.write_all(format!("{answer}\n").as_bytes()).await.is_err()
            {
                return;
            }
        }
    }

    pub(crate) async fn hear(&self, connection: usize, message: &Value) -> Result<Option<String>, Died> {
        let (id, params) = (&message["id"], &message["params"]);
        let Some(method) = message["method"].as_str() else { return Ok(None) };
        if id.is_null() {
            return if matches!((self.0.script)(connection, method), Die) { Err(Died) } else { Ok(None) };
        }
        let heard = Heard { connection, id: id.clone(), method: method.to_owned(), params: params.clone() };
        self.0.heard.lock().unwrap().push(heard);
        match (self.0.script)(connection, method) {
            Well => {}
            WellAfter(pause) => tokio::time::sleep(pause).await,
            Error => {
                let error = json!({ "code": -32000, "message": "no" });
                return Ok(Some(json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string()));
            }
            Never => return Ok(None),
            Die => return Err(Died),
        }
        Ok(Some(self.answer(connection, id, method, params).to_string()))
    }

    pub(crate) fn answer(&self, connection: usize, id: &Value, method: &str, params: &Value) -> Value {
        let old = self.0.version != NEW;
        let lists = json!({ "listChanged": true });
        let capabilities = json!({
            "tools": lists, "prompts": lists, "resources": { "listChanged": true, "subscribe": true },
            "logging": {}, "completions": {},
        });
        let tool = |name: &str, annotations: Value| json!({ "name": name, "inputSchema": { "type": "object" }, "annotations": annotations });
        let mut result = match method {
            "server/discover" if !old => json!({ "supportedVersions": [NEW.as_str()], "capabilities": capabilities }),
            "initialize" if old => json!({
                "protocolVersion": self.0.version.as_str(), "capabilities": capabilities,
                "serverInfo": { "name": "scripted", "version": "1" },
            }),
            "tools/list" => json!({ "tools": [
                tool("look", json!({ "readOnlyHint": true })),
                tool("put", json!({ "idempotentHint": true })),
                tool("pay", json!({})),
            ] }),
            "tools/call" => json!({ "content": [{ "type": "text", "text": format!("from {connection}") }] }),
            "resources/read" => json!({ "contents": [{ "uri": params["uri"], "text": format!("from {connection}") }] }),
            "resources/list" => json!({ "resources": [] }),
            "resources/templates/list" => json!({ "resourceTemplates": [] }),
            "prompts/list" => json!({ "prompts": [] }),
            "prompts/get" => json!({ "messages": [] }),
            "completion/complete" => json!({ "completion": { "values": [] } }),
            "subscriptions/listen" => {
                let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
                let params = json!({ "notifications": params["notifications"], "_meta": meta });
                let method = "notifications/subscriptions/acknowledged";
                return json!({ "jsonrpc": "2.0", "method": method, "params": params });
            }
            "server/discover" | "initialize" => {
                let error = json!({ "code": -32601, "message": format!("method not found: {method}") });
                return json!({ "jsonrpc": "2.0", "id": id, "error": error });
            }
            _ => json!({}),
        };
        if !old {
            result["resultType"] = json!("complete");
            result["ttlMs"] = json!(3_600_000);
            result["cacheScope"] = json!("private");
        }
        json!({ "jsonrpc": "2.0", "id": id, "result": result })
    }

    /// Closes the newest connection.
    pub(crate) fn kill(&self) {
        self.0.connections.lock().unwrap().last().unwrap().task.abort();
    }

    /// Refuses the next attempts to connect.
    pub(crate) fn refuse(&self, attempts: usize) {
        self.0.refusals.store(attempts, Ordering::Relaxed);
    }

    /// Sends a notification over the newest connection.
    pub(crate) fn tell(&self, method: &str, params: &Value) {
        let line = json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string();
        self.0.connections.lock().unwrap().last().unwrap().lines.send(line).unwrap();
    }

    /// Sends a notification to all listen requests of the newest connection.
    pub(crate) fn tell_listeners(&self, method: &str, mut params: Value) {
        for listen in self.heard("subscriptions/listen") {
            if listen.connection == self.opened() {
                params["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": listen.id });
                self.tell(method, &params);
            }
        }
    }

    pub(crate) fn opened(&self) -> usize {
        self.0.connections.lock().unwrap().len()
    }

    pub(crate) fn heard(&self, method: &str) -> Vec<Heard> {
        self.0.heard.lock().unwrap().iter().filter(|heard| heard.method == method).cloned().collect()
    }

    /// Returns the connections on which a method was requested.
    pub(crate) fn connections_of(&self, method: &str) -> Vec<usize> {
        self.heard(method).iter().map(|heard| heard.connection).collect()
    }
}

pub(crate) struct Died;

pub(crate) fn builder() -> ClientBuilder {
    Client::builder("test", "1").version_cache(VersionCache::new()).timeout(30 * SECOND)
}

pub(crate) fn backoff() -> Backoff {
    Backoff::new().initial_delay(SECOND).max_delay(20 * SECOND)
}

pub(crate) fn reconnecting() -> ClientBuilder {
    builder().reconnect(backoff())
}

/// Returns a short text for an event.
pub(crate) fn word(event: &Event) -> String {
    match event {
        Event::Connection(ConnectionEvent::Connected { generation, .. }) => format!("connected {generation}"),
        Event::Connection(ConnectionEvent::Lost(_)) => "lost".to_owned(),
        Event::Connection(ConnectionEvent::Reconnecting { attempt, .. }) => format!("reconnecting {attempt}"),
        Event::Connection(ConnectionEvent::ConnectFailed(_)) => "failed".to_owned(),
        Event::Connection(ConnectionEvent::ReconnectFailed) => "gave up".to_owned(),
        Event::Connection(ConnectionEvent::Closed) => "closed".to_owned(),
        Event::Retrying { target, attempt } => format!("retrying {target} {attempt}"),
        Event::CircuitBreaker(state) => format!("{state:?}"),
        Event::Unhealthy { failures } => format!("unhealthy {failures}"),
        Event::Healthy => "healthy".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Returns the texts of the events so far.
pub(crate) async fn so_far(events: &mut Events) -> Vec<String> {
    let mut words = Vec::new();
    while let Ok(Some(event)) = timeout(Duration::ZERO, events.next()).await {
        words.push(word(&event));
    }
    words
}

/// Waits for an event, for an hour of paused time at most.
pub(crate) async fn until(events: &mut Events, wanted: &str) -> Event {
    let found = events.find(|event| (word(&event) == wanted).then_some(event));
    timeout(3600 * SECOND, found).await.expect(wanted).expect(wanted)
}

/// Lets all tasks progress without advancing the clock.
pub(crate) async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

pub(crate) fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Checks that no task is left, without advancing the clock.
pub(crate) async fn assert_no_tasks() {
    settle().await;
    assert_eq!(tasks(), 0);
}

pub(crate) fn spawn_call(client: &Client, tool: &str) -> JoinHandle<Result<String, CallError>> {
    let call = client.call_tool(tool, ());
    tokio::spawn(async move { call.await.map(|result| result.text()) })
}

/// A scripted server that loses tool calls on its first connections.
pub(crate) fn loses_calls(connections: usize) -> ScriptedServer {
    ScriptedServer::new(OLD, move |connection, method| match method {
        "tools/call" if connection <= connections => Die,
        _ => Well,
    })
}
