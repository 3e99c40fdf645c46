//! A client that keeps going: what it does about connections that end, servers that hang and calls that are lost, and what it
//! tells of it. Over pairs in memory, with a clock that stands still unless everybody waits.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::VecDeque;
use std::error::Error as _;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, timeout};
use turms_client::{
    Backoff, Breaker, CallError, CallErrorKind, Change, Client, ClientBuilder, ConnectionEvent, Delivery, Event,
    Events, HealthCheck, Retry, Status, Supervision, VersionMemory,
};
use turms_core::transport::{MemoryEnd, StreamConnector, memory};
use turms_proto::ProtocolVersion;
use turms_proto::types::{LoggingLevel, Reference, SubscriptionFilter};

const SECOND: Duration = Duration::from_secs(1);
const OLD: ProtocolVersion = ProtocolVersion::LATEST_WITH_HANDSHAKE;
const NEW: ProtocolVersion = ProtocolVersion::LATEST;

/// A server that does as it is told, at the other end of every connection.
#[derive(Clone)]
struct World(Arc<Inner>);

struct Inner {
    version: ProtocolVersion,
    script: Script,
    connections: Mutex<Vec<Far>>,
    /// How many more attempts to connect are refused.
    refusals: AtomicUsize,
    heard: Mutex<Vec<Heard>>,
}

type Script = Box<dyn Fn(usize, &str) -> Reply + Send + Sync>;

/// One connection, as the server has it.
struct Far {
    task: AbortHandle,
    lines: mpsc::UnboundedSender<String>,
}

/// A request, and on which connection it came, counted from 1.
#[derive(Debug, Clone)]
struct Heard {
    connection: usize,
    id: Value,
    method: String,
    params: Value,
}

/// What the server does about a request.
#[derive(Clone)]
enum Reply {
    Well,
    WellAfter(Duration),
    Error,
    Never,
    Die,
}

use Reply::*;

impl World {
    /// The script says what to do about a method on a connection, counted from 1; `open` is what comes before all methods.
    fn new(version: ProtocolVersion, script: impl Fn(usize, &str) -> Reply + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            version,
            script: Box::new(script),
            connections: Mutex::default(),
            refusals: AtomicUsize::new(0),
            heard: Mutex::default(),
        }))
    }

    fn well(version: ProtocolVersion) -> Self {
        Self::new(version, |_, _| Well)
    }

    fn connector(&self) -> StreamConnector {
        let world = self.clone();
        StreamConnector::each("the world", move || std::future::ready(world.open()))
    }

    async fn connect(&self, supervision: Supervision) -> Client {
        self.connect_with(builder().supervise(supervision)).await
    }

    async fn connect_with(&self, builder: ClientBuilder) -> Client {
        builder.connect_to(self.connector()).await.unwrap()
    }

    fn open(&self) -> io::Result<MemoryEnd> {
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

    async fn serve(self, connection: usize, far: MemoryEnd, mut told: mpsc::UnboundedReceiver<String>) {
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

    async fn hear(&self, connection: usize, message: &Value) -> Result<Option<String>, Died> {
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

    fn answer(&self, connection: usize, id: &Value, method: &str, params: &Value) -> Value {
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
                "serverInfo": { "name": "world", "version": "1" },
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

    /// Ends the newest connection.
    fn kill(&self) {
        self.0.connections.lock().unwrap().last().unwrap().task.abort();
    }

    /// Refuses the next attempts to connect.
    fn refuse(&self, attempts: usize) {
        self.0.refusals.store(attempts, Ordering::Relaxed);
    }

    /// Tells something over the newest connection.
    fn tell(&self, method: &str, params: &Value) {
        let line = json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string();
        self.0.connections.lock().unwrap().last().unwrap().lines.send(line).unwrap();
    }

    /// Tells something to everybody who listens over the newest connection.
    fn tell_listeners(&self, method: &str, mut params: Value) {
        for listen in self.heard("subscriptions/listen") {
            if listen.connection == self.opened() {
                params["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": listen.id });
                self.tell(method, &params);
            }
        }
    }

    fn opened(&self) -> usize {
        self.0.connections.lock().unwrap().len()
    }

    fn heard(&self, method: &str) -> Vec<Heard> {
        self.0.heard.lock().unwrap().iter().filter(|heard| heard.method == method).cloned().collect()
    }

    /// On which connections a method was asked for.
    fn connections_of(&self, method: &str) -> Vec<usize> {
        self.heard(method).iter().map(|heard| heard.connection).collect()
    }
}

struct Died;

fn builder() -> ClientBuilder {
    Client::builder("test", "1").version_memory(VersionMemory::new()).timeout(30 * SECOND)
}

fn supervision() -> Supervision {
    Supervision::new().backoff(Backoff::new().first(SECOND).longest(20 * SECOND))
}

/// An event in a word or two.
fn word(event: &Event) -> String {
    match event {
        Event::Connection(ConnectionEvent::Connected { generation, .. }) => format!("connected {generation}"),
        Event::Connection(ConnectionEvent::Lost(_)) => "lost".to_owned(),
        Event::Connection(ConnectionEvent::Reconnecting { attempt, .. }) => format!("reconnecting {attempt}"),
        Event::Connection(ConnectionEvent::ConnectFailed(_)) => "failed".to_owned(),
        Event::Connection(ConnectionEvent::GaveUp) => "gave up".to_owned(),
        Event::Connection(ConnectionEvent::Closed) => "closed".to_owned(),
        Event::Retrying { subject, attempt } => format!("retrying {subject} {attempt}"),
        Event::Breaker(state) => format!("{state:?}"),
        Event::Unhealthy { failures } => format!("unhealthy {failures}"),
        Event::Healthy => "healthy".to_owned(),
        other => format!("{other:?}"),
    }
}

/// What has happened up to now.
async fn so_far(events: &mut Events) -> Vec<String> {
    let mut words = Vec::new();
    while let Ok(Some(event)) = timeout(Duration::ZERO, events.next()).await {
        words.push(word(&event));
    }
    words
}

/// Waits for an event, an hour at most.
async fn until(events: &mut Events, wanted: &str) -> Event {
    let found = events.find(|event| (word(&event) == wanted).then_some(event));
    timeout(3600 * SECOND, found).await.expect(wanted).expect(wanted)
}

/// Lets everybody do what can be done without waiting.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Nothing is left running, and no time has to pass for that.
async fn assert_no_tasks() {
    settle().await;
    assert_eq!(tasks(), 0);
}

fn spawn_call(client: &Client, tool: &str) -> JoinHandle<Result<String, CallError>> {
    let call = client.call_tool(tool, ());
    tokio::spawn(async move { call.await.map(|result| result.text()) })
}

#[tokio::test(start_paused = true)]
async fn attempts_to_reconnect_come_after_longer_and_longer_delays_that_are_never_quite_the_same() {
    let mut all = Vec::new();
    for _ in 0..2 {
        let world = World::well(OLD);
        let client = world.connect(supervision()).await;
        let mut events = client.events();
        world.refuse(7);
        world.kill();

        let mut delays = VecDeque::new();
        let before = Instant::now();
        for number in 1..=8 {
            let Event::Connection(ConnectionEvent::Reconnecting { delay, .. }) =
                until(&mut events, &format!("reconnecting {number}")).await
            else {
                panic!("{number}")
            };
            delays.push_back(delay);
        }
        until(&mut events, "connected 2").await;
        let waited = before.elapsed();
        let announced: Duration = delays.iter().sum();
        // The clock of the tests goes in milliseconds.
        assert!(waited >= announced && waited < announced + 8 * Duration::from_millis(2), "{waited:?} {announced:?}");
        assert_eq!(delays.pop_front(), Some(Duration::ZERO));
        for (delay, seconds) in delays.iter().zip([1, 2, 4, 8, 16, 20, 20]) {
            assert!(*delay >= seconds * SECOND / 2 && *delay <= seconds * SECOND, "{delays:?}");
        }
        all.push(delays);
        client.close().await;
    }
    assert_ne!(all[0], all[1]);
}

#[tokio::test(start_paused = true)]
async fn a_client_gives_up_after_as_many_attempts_as_it_was_told() {
    let world = World::well(OLD);
    let backoff = Backoff::new().first(SECOND).attempts(3);
    let client = world.connect(Supervision::new().backoff(backoff)).await;
    let mut events = client.events();
    world.refuse(usize::MAX);
    world.kill();

    until(&mut events, "lost").await;
    assert_eq!(client.status(), Status::Reconnecting);
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| last != "gave up") {
        seen.push(word(&events.next().await.unwrap()));
    }
    let attempts = ["reconnecting 1", "failed", "reconnecting 2", "failed", "reconnecting 3", "failed", "gave up"];
    assert_eq!(seen, attempts);
    assert_eq!(client.status(), Status::Closed);

    let error = client.ping().await.unwrap_err();
    assert_eq!(error.to_string(), "ping: there is no connection to the server");
    assert_eq!(error.source().unwrap().to_string(), "cannot reach the world");
    assert_eq!(error.delivery(), Delivery::NotSent);
    drop(client);
    assert_no_tasks().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_at_once_again_and_again_is_not_hammered() {
    for version in [OLD, NEW] {
        // It gets as far as being connected, and no further.
        let world = World::new(version, move |connection, method| match method {
            "open" if connection > 1 && version == NEW => Die,
            "notifications/initialized" => Die,
            _ => Well,
        });
        let client = world.connect(supervision()).await;
        let mut events = client.events();
        if version == NEW {
            settle().await;
            world.kill();
        }

        let mut attempts = Vec::new();
        let before = Instant::now();
        while before.elapsed() < 300 * SECOND {
            let event = timeout(60 * SECOND, events.next()).await.unwrap().unwrap();
            if let Event::Connection(ConnectionEvent::Reconnecting { attempt, delay }) = event {
                attempts.push((attempt, delay));
            }
        }
        // 1 + 2 + 4 + 8 + 16 seconds at most, and half of that at least; from then on one in 10 to 20 seconds.
        assert!(attempts.len() >= 15 && attempts.len() <= 5 + 300 / 10 + 2, "{}", attempts.len());
        // One that ends when it is probed is started once more and not probed.
        assert!(world.opened() <= 2 * attempts.len() + 1, "{}", world.opened());
        assert!(attempts.iter().map(|(attempt, _)| *attempt).eq(1..=attempts.len() as u32), "{attempts:?}");
        assert!(attempts[6..].iter().all(|(_, delay)| *delay >= 10 * SECOND), "{attempts:?}");
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_has_lasted_begins_the_count_anew() {
    let world = World::well(OLD);
    let client = world.connect(supervision()).await;
    let mut events = client.events();
    for generation in 2..6 {
        tokio::time::advance(11 * SECOND).await;
        world.kill();
        until(&mut events, "reconnecting 1").await;
        until(&mut events, &format!("connected {generation}")).await;
    }
    world.kill();
    until(&mut events, "reconnecting 2").await;
}

#[tokio::test(start_paused = true)]
async fn resources_are_watched_again_by_requests_in_the_older_revisions() {
    let world = World::well(OLD);
    let client = world.connect(supervision()).await;
    let mut events = client.events();
    client.subscribe("a://one").await.unwrap();
    client.subscribe("a://two").await.unwrap();
    client.subscribe("a://gone").await.unwrap();
    client.unsubscribe("a://gone").await.unwrap();
    world.kill();
    until(&mut events, "connected 2").await;

    let again: Vec<_> = world.heard("resources/subscribe").into_iter().filter(|heard| heard.connection == 2).collect();
    let uris: Vec<_> = again.iter().map(|heard| heard.params["uri"].as_str().unwrap()).collect();
    assert_eq!(uris, ["a://one", "a://two"]);
    world.tell("notifications/resources/updated", &json!({ "uri": "a://one" }));
    let updated = events.find(|event| match event {
        Event::ResourceUpdated { uri } => Some(uri),
        _ => None,
    });
    assert_eq!(timeout(SECOND, updated).await.unwrap().unwrap(), "a://one");
}

#[tokio::test(start_paused = true)]
async fn resources_are_watched_again_by_listening_in_the_newer_revision() {
    let world = World::well(NEW);
    let client = world.connect(supervision()).await;
    let mut events = client.events();
    client.subscribe("a://one").await.unwrap();
    let before = world.heard("subscriptions/listen").last().unwrap().clone();
    world.kill();
    until(&mut events, "connected 2").await;
    tokio::time::sleep(SECOND).await;

    let again = world.heard("subscriptions/listen").last().unwrap().clone();
    assert_eq!((before.connection, again.connection), (1, 2));
    assert_eq!(again.params["notifications"], before.params["notifications"]);
    assert_eq!(again.params["notifications"]["resourceSubscriptions"], json!(["a://one"]));
    world.tell_listeners("notifications/resources/updated", json!({ "uri": "a://one" }));
    let updated = events.find(|event| match event {
        Event::ResourceUpdated { uri } => Some(uri),
        _ => None,
    });
    assert_eq!(timeout(SECOND, updated).await.unwrap().unwrap(), "a://one");
}

#[tokio::test(start_paused = true)]
async fn whoever_listens_on_its_own_account_goes_on_hearing() {
    for version in [OLD, NEW] {
        let world = World::well(version);
        let client = world.connect(supervision()).await;
        let mut events = client.events();
        settle().await;
        let filter =
            SubscriptionFilter::new().tools_list_changed(true).resource_subscriptions(vec!["a://one".to_owned()]);
        let mut changes = client.listen(filter).await.unwrap();
        for generation in 2..5 {
            world.kill();
            until(&mut events, &format!("connected {generation}")).await;
            tokio::time::sleep(30 * SECOND).await;
            assert!(changes.is_open());
            match version.has(turms_proto::Ability::ListenStreams) {
                true => world.tell_listeners("notifications/resources/updated", json!({ "uri": "a://one" })),
                false => world.tell("notifications/resources/updated", &json!({ "uri": "a://one" })),
            }
            let change = timeout(SECOND, changes.next()).await.unwrap();
            assert_eq!(change, Some(Change::Resource { uri: "a://one".to_owned() }));
        }
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn listening_outlasts_more_losses_than_there_are_attempts() {
    let world = World::well(NEW);
    let client = world.connect(Supervision::new().backoff(Backoff::new().first(SECOND).attempts(2))).await;
    let mut events = client.events();
    let mut changes = client.listen(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
    for generation in 2..8 {
        tokio::time::sleep(60 * SECOND).await;
        world.kill();
        until(&mut events, &format!("connected {generation}")).await;
    }
    tokio::time::sleep(60 * SECOND).await;
    world.tell_listeners("notifications/tools/list_changed", json!({}));
    assert_eq!(timeout(SECOND, changes.next()).await.unwrap(), Some(Change::Tools));
}

#[tokio::test(start_paused = true)]
async fn events_that_are_taken_while_there_is_no_connection_tell_of_changes_later() {
    let world = World::well(NEW);
    let client = world.connect(supervision()).await;
    world.refuse(3);
    world.kill();
    settle().await;
    assert_eq!(client.status(), Status::Reconnecting);

    let mut events = client.events();
    until(&mut events, "connected 2").await;
    settle().await;
    world.tell_listeners("notifications/tools/list_changed", json!({}));
    until(&mut events, "ToolsChanged").await;
}

#[tokio::test(start_paused = true)]
async fn events_tell_of_changes_even_if_the_first_request_for_them_was_lost() {
    let world = World::new(NEW, |connection, method| match (connection, method) {
        (1, "subscriptions/listen") => Die,
        _ => Well,
    });
    let client = world.connect(supervision()).await;
    let mut events = client.events();
    until(&mut events, "connected 2").await;
    settle().await;
    assert_eq!(world.connections_of("subscriptions/listen"), [1, 2]);
    world.tell_listeners("notifications/tools/list_changed", json!({}));
    until(&mut events, "ToolsChanged").await;
}

#[tokio::test(start_paused = true)]
async fn the_log_level_is_set_again() {
    let world = World::well(OLD);
    let client = world.connect(supervision()).await;
    let mut events = client.events();
    client.set_log_level(LoggingLevel::Warning).await.unwrap();
    world.kill();
    until(&mut events, "connected 2").await;

    let levels: Vec<_> = world.heard("logging/setLevel").iter().map(|it| it.params["level"].clone()).collect();
    assert_eq!(levels, ["warning", "warning"]);
    assert_eq!(world.connections_of("logging/setLevel"), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn the_log_level_is_said_with_every_request_of_the_newer_revision_on_every_connection() {
    let world = World::well(NEW);
    let client = world.connect(supervision()).await;
    let mut events = client.events();
    client.set_log_level(LoggingLevel::Warning).await.unwrap();
    world.kill();
    until(&mut events, "connected 2").await;

    client.call_tool("look", ()).await.unwrap();
    let call = world.heard("tools/call").pop().unwrap();
    assert_eq!(call.connection, 2);
    assert_eq!(call.params["_meta"]["io.modelcontextprotocol/logLevel"], "warning");
    assert!(world.heard("logging/setLevel").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_what_is_restored_is_used_all_the_same() {
    let world = World::new(OLD, |connection, method| match (connection, method) {
        (2, "logging/setLevel" | "resources/subscribe") => Error,
        _ => Well,
    });
    let client = world.connect(supervision()).await;
    let mut events = client.events();
    client.set_log_level(LoggingLevel::Warning).await.unwrap();
    client.subscribe("a://one").await.unwrap();
    world.kill();
    until(&mut events, "connected 2").await;
    assert_eq!(client.call_tool("pay", ()).await.unwrap().text(), "from 2");
}

#[tokio::test(start_paused = true)]
async fn what_was_read_before_is_read_anew() {
    let world = World::well(NEW);
    let client = world.connect(supervision()).await;
    let mut events = client.events();
    for _ in 0..3 {
        client.list_tools().await.unwrap();
        client.read_resource("a://one").await.unwrap();
    }
    assert_eq!(world.connections_of("tools/list"), [1]);
    assert_eq!(world.connections_of("resources/read"), [1]);
    world.kill();
    until(&mut events, "lost").await;

    client.list_tools().await.unwrap();
    let read = client.read_resource("a://one").await.unwrap();
    assert_eq!(read.contents[0].text.as_deref(), Some("from 2"));
    assert_eq!(world.connections_of("tools/list"), [1, 2]);
    assert_eq!(world.connections_of("resources/read"), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_made_without_a_connection_waits_for_one() {
    let world = World::well(OLD);
    let client = world.connect(supervision()).await;
    world.refuse(4);
    world.kill();
    settle().await;
    assert_eq!(client.status(), Status::Reconnecting);

    let before = Instant::now();
    let calls: Vec<_> = (0..5).map(|_| spawn_call(&client, "pay")).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), "from 2");
    }
    assert!(before.elapsed() > 3 * SECOND);
    assert_eq!(world.connections_of("tools/call"), [2; 5]);
    assert_eq!(client.status(), Status::Connected);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_connection_waits_no_longer_than_it_wants_to() {
    let world = World::well(OLD);
    let client = world.connect(supervision()).await;
    let mut events = client.events();
    world.refuse(usize::MAX);
    world.kill();
    until(&mut events, "lost").await;

    let before = Instant::now();
    let error = client.call_tool("pay", ()).timeout(5 * SECOND).await.unwrap_err();
    assert_eq!(before.elapsed().as_secs(), 5);
    assert_eq!(error.to_string(), "tools/call \"pay\": there is no connection to the server");
    assert_eq!(error.delivery(), Delivery::NotSent);
    assert!(error.is_disconnected() && !error.may_have_run());
    assert!(!so_far(&mut events).await.iter().any(|word| word.starts_with("retrying")));
    assert!(world.heard("tools/call").is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_only_reads_is_repeated_when_it_is_lost() {
    for version in [OLD, NEW] {
        // Every method is lost once.
        let lost = Mutex::new(Vec::new());
        let world = World::new(version, move |_, method| {
            let mut lost = lost.lock().unwrap();
            let opening = matches!(method, "open" | "initialize" | "notifications/initialized" | "server/discover");
            if opening || lost.iter().any(|known| known == method) {
                return Well;
            }
            lost.push(method.to_owned());
            Die
        });
        let client = world.connect(supervision()).await;
        client.list_tools().await.unwrap();
        client.list_resources().await.unwrap();
        client.list_resource_templates().await.unwrap();
        client.list_prompts().await.unwrap();
        client.read_resource("a://one").await.unwrap();
        client.get_prompt("p", ()).await.unwrap();
        client.complete(Reference::prompt("p"), "a", "b").await.unwrap();
        if version == OLD {
            client.ping().await.unwrap();
        }
        let repeated = [
            "tools/list",
            "resources/list",
            "resources/templates/list",
            "prompts/list",
            "resources/read",
            "prompts/get",
            "completion/complete",
        ];
        for method in repeated {
            assert_eq!(world.heard(method).len(), 2, "{method}");
        }
        client.close().await;
    }
}

/// A world where calls of tools are lost on the first connections.
fn loses_calls(connections: usize) -> World {
    World::new(OLD, move |connection, method| match method {
        "tools/call" if connection <= connections => Die,
        _ => Well,
    })
}

#[tokio::test(start_paused = true)]
async fn tools_that_say_they_may_be_repeated_are_repeated_when_lost() {
    for tool in ["look", "put"] {
        let world = loses_calls(1);
        let client = world.connect(supervision()).await;
        let mut events = client.events();
        client.list_tools().await.unwrap();

        assert_eq!(client.call_tool(tool, ()).await.unwrap().text(), "from 2");
        assert_eq!(world.connections_of("tools/call"), [1, 2]);
        let mut seen = so_far(&mut events).await;
        seen.sort_unstable();
        let retrying = format!("retrying tools/call {tool:?} 1");
        assert_eq!(seen, ["connected 2", "lost", "reconnecting 1", &retrying]);
    }
}

#[tokio::test(start_paused = true)]
async fn tools_that_say_nothing_are_not_repeated_since_they_may_have_run() {
    let world = loses_calls(1);
    let client = world.connect(supervision()).await;
    let mut events = client.events();
    client.list_tools().await.unwrap();

    let error = client.call_tool("pay", ()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "tools/call \"pay\": the server closed the connection before it answered; it may have run"
    );
    assert!(error.may_have_run() && error.is_disconnected());
    until(&mut events, "connected 2").await;
    assert_eq!(world.connections_of("tools/call"), [1]);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_known_is_not_repeated() {
    // Listed it was not, and raw requests may do anything.
    for raw in [false, true] {
        let world = World::new(OLD, |connection, method| match method {
            "tools/call" | "do/something" if connection == 1 => Die,
            _ => Well,
        });
        let client = world.connect(supervision()).await;
        let error = match raw {
            true => client.request_raw("do/something", ()).await.map(drop).unwrap_err(),
            false => client.call_tool("look", ()).await.map(drop).unwrap_err(),
        };
        assert!(error.may_have_run(), "{error}");
        settle().await;
        assert_eq!(world.heard("tools/call").len() + world.heard("do/something").len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_knows_better_says_what_may_be_repeated() {
    let world = loses_calls(1);
    let client = world.connect(supervision()).await;
    client.list_tools().await.unwrap();
    assert_eq!(client.call_tool("pay", ()).safe_to_repeat(true).await.unwrap().text(), "from 2");

    let world = loses_calls(1);
    let client = world.connect(supervision()).await;
    client.list_tools().await.unwrap();
    assert!(client.call_tool("look", ()).safe_to_repeat(false).await.unwrap_err().may_have_run());

    let world =
        World::new(OLD, |connection, method| if connection == 1 && method == "tools/list" { Die } else { Well });
    let client = world.connect(supervision()).await;
    assert!(client.list_tools().safe_to_repeat(false).await.unwrap_err().may_have_run());
}

#[tokio::test(start_paused = true)]
async fn a_call_is_repeated_no_more_often_than_allowed() {
    let world = loses_calls(usize::MAX);
    let client = world.connect(supervision().retry(Retry::new().attempts(3))).await;
    let mut events = client.events();
    client.list_tools().await.unwrap();

    let error = client.call_tool("look", ()).await.unwrap_err();
    assert!(error.may_have_run(), "{error}");
    assert_eq!(world.connections_of("tools/call"), [1, 2, 3, 4]);
    let retries: Vec<_> = so_far(&mut events).await.into_iter().filter(|word| word.starts_with("retrying")).collect();
    assert_eq!(retries, [1, 2, 3].map(|number| format!("retrying tools/call \"look\" {number}")));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_have_run_says_so_even_if_it_could_not_be_sent_again() {
    let world = loses_calls(1);
    let client = world.connect(supervision()).await;
    world.refuse(usize::MAX);
    let error = client.call_tool("pay", ()).safe_to_repeat(true).timeout(5 * SECOND).await.unwrap_err();
    assert!(error.may_have_run() && error.is_disconnected(), "{error}");
    assert_eq!(world.connections_of("tools/call"), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_retry_is_not_wasted_on_a_connection_that_is_known_to_be_dead() {
    let world = loses_calls(1);
    let client = world.connect(supervision().retry(Retry::new().attempts(1))).await;
    let calls: Vec<_> = (0..3)
        .map(|_| client.call_tool("pay", ()).safe_to_repeat(true))
        .map(|call| tokio::spawn(call.into_future()))
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().text(), "from 2");
    }
}

#[tokio::test(start_paused = true)]
async fn repetitions_run_out_and_are_earned_again_by_calls() {
    // On every connection the first read is lost.
    let seen = Mutex::new(Vec::new());
    let world = World::new(OLD, move |connection, method| {
        let mut seen = seen.lock().unwrap();
        if method != "resources/read" || seen.contains(&connection) {
            return Well;
        }
        seen.push(connection);
        Die
    });
    let client = world.connect(supervision().retry(Retry::new().attempts(5).budget(0.5, 2))).await;
    let mut events = client.events();
    let read = || client.read_resource("a://one").bypass_cache();

    // Two are saved up.
    let error = read().await.unwrap_err();
    assert!(error.may_have_run(), "{error}");
    assert_eq!(world.heard("resources/read").len(), 3);
    until(&mut events, "connected 4").await;
    // Half of one is not one.
    assert!(read().await.is_err());
    until(&mut events, "connected 5").await;
    assert_eq!(world.heard("resources/read").len(), 4);
    for _ in 0..2 {
        client.ping().await.unwrap();
    }
    // Four halves are two.
    assert!(read().await.is_err());
    assert_eq!(world.heard("resources/read").len(), 7);
}

#[tokio::test(start_paused = true)]
async fn without_retries_nothing_is_repeated_but_the_client_comes_back() {
    let world =
        World::new(OLD, |connection, method| if connection == 1 && method == "tools/list" { Die } else { Well });
    let client = world.connect(supervision().without_retry()).await;
    assert!(client.list_tools().await.unwrap_err().may_have_run());
    assert_eq!(client.list_tools().await.unwrap().len(), 3);
    assert_eq!(world.connections_of("tools/list"), [1, 2]);
}

/// Calls of tools are not answered while the connection is the first one and `healed` is not set.
fn mute_tools(healed: &Arc<AtomicUsize>) -> World {
    let healed = Arc::clone(healed);
    World::new(OLD, move |_, method| match method {
        "tools/call" if healed.load(Ordering::Relaxed) == 0 => Never,
        _ => Well,
    })
}

fn breaker() -> Supervision {
    supervision().breaker(Breaker::new().failures(3).rest(10 * SECOND))
}

#[tokio::test(start_paused = true)]
async fn the_breaker_opens_after_failures_in_a_row_tries_and_closes_again() {
    let healed = Arc::default();
    let world = mute_tools(&healed);
    let client = world.connect_with(builder().timeout(SECOND).supervise(breaker())).await;
    let mut events = client.events();

    for _ in 0..3 {
        assert!(client.call_tool("look", ()).await.unwrap_err().is_timeout());
    }
    assert_eq!(so_far(&mut events).await, ["Open"]);
    // Nothing reaches the server, and nobody waits.
    let before = Instant::now();
    let error = client.list_tools().await.unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::BreakerOpen(rest) if *rest == 10 * SECOND), "{error:?}");
    assert_eq!(error.to_string(), "tools/list: not tried: the server has failed too often, and is left alone for 10s");
    assert_eq!((error.delivery(), before.elapsed()), (Delivery::NotSent, Duration::ZERO));
    assert!(world.heard("tools/list").is_empty());

    // One may try, and it fails.
    tokio::time::advance(10 * SECOND).await;
    let trial = spawn_call(&client, "look");
    settle().await;
    assert_eq!(so_far(&mut events).await, ["HalfOpen"]);
    assert!(matches!(client.ping().await.unwrap_err().kind(), CallErrorKind::BreakerOpen(_)));
    assert!(trial.await.unwrap().unwrap_err().is_timeout());
    assert_eq!(so_far(&mut events).await, ["Open"]);
    assert!(matches!(client.ping().await.unwrap_err().kind(), CallErrorKind::BreakerOpen(_)));

    // Another may try, and it works.
    tokio::time::advance(10 * SECOND).await;
    healed.store(1, Ordering::Relaxed);
    client.call_tool("look", ()).await.unwrap();
    assert_eq!(so_far(&mut events).await, ["HalfOpen", "Closed"]);
    client.ping().await.unwrap();
    assert_eq!(client.status(), Status::Connected);
    assert_eq!(world.opened(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_with_errors_does_not_open_the_breaker() {
    let world = World::new(OLD, |_, method| if method == "tools/call" { Error } else { Well });
    let client = world.connect(breaker()).await;
    for _ in 0..10 {
        let error = client.call_tool("look", ()).await.unwrap_err();
        assert_eq!(error.delivery(), Delivery::Answered);
    }
    client.ping().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_success_between_failures_keeps_the_breaker_closed() {
    let world = mute_tools(&Arc::default());
    let client = world.connect_with(builder().timeout(SECOND).supervise(breaker())).await;
    let mut events = client.events();
    for _ in 0..5 {
        for _ in 0..2 {
            client.call_tool("look", ()).await.unwrap_err();
        }
        client.ping().await.unwrap();
    }
    assert_eq!(so_far(&mut events).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_is_given_up_leaves_the_try_to_another() {
    let world = mute_tools(&Arc::default());
    let client = world.connect_with(builder().timeout(SECOND).supervise(breaker())).await;
    for _ in 0..3 {
        client.call_tool("look", ()).await.unwrap_err();
    }
    tokio::time::advance(10 * SECOND).await;
    let trial = spawn_call(&client, "look");
    settle().await;
    assert!(matches!(client.ping().await.unwrap_err().kind(), CallErrorKind::BreakerOpen(_)));
    trial.abort();
    settle().await;
    client.ping().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_breaker_opens_for_a_server_that_cannot_be_reached() {
    let world = World::well(OLD);
    let client = world.connect_with(builder().timeout(SECOND).supervise(breaker())).await;
    let mut events = client.events();
    world.refuse(usize::MAX);
    world.kill();
    until(&mut events, "lost").await;
    for _ in 0..3 {
        assert_eq!(client.ping().await.unwrap_err().delivery(), Delivery::NotSent);
    }
    until(&mut events, "Open").await;
    let before = Instant::now();
    assert!(matches!(client.ping().await.unwrap_err().kind(), CallErrorKind::BreakerOpen(_)));
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_opens_between_repetitions_does_not_hide_that_a_call_may_have_run() {
    let world = loses_calls(usize::MAX);
    let supervision = supervision().breaker(Breaker::new().failures(1)).retry(Retry::new().attempts(3));
    let client = world.connect(supervision).await;
    let error = client.call_tool("pay", ()).safe_to_repeat(true).await.unwrap_err();
    assert!(error.may_have_run(), "{error}");
    assert_eq!(world.heard("tools/call").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_its_health_checks_is_left_for_another() {
    for (version, method) in [(OLD, "ping"), (NEW, "server/discover")] {
        let first = AtomicUsize::new(0);
        let world = World::new(version, move |connection, asked| match asked {
            // The first is how a client of the newer revision finds out.
            "server/discover" if version == OLD || first.fetch_add(1, Ordering::Relaxed) == 0 => Well,
            "ping" | "server/discover" | "tools/call" if connection == 1 => Never,
            _ => Well,
        });
        let check = HealthCheck::every(30 * SECOND).timeout(2 * SECOND).failures(3);
        let client = world.connect(supervision().health_check(check)).await;
        let mut events = client.events();
        let before = Instant::now();
        let call = client.call_tool("pay", ()).without_timeout();
        let call = tokio::spawn(call.into_future());

        until(&mut events, "unhealthy 1").await;
        until(&mut events, "unhealthy 2").await;
        until(&mut events, "unhealthy 3").await;
        assert_eq!(before.elapsed().as_secs(), 3 * 32);
        let Event::Connection(ConnectionEvent::Lost(ended)) = until(&mut events, "lost").await else { panic!() };
        assert_eq!(ended.to_string(), "the server did not answer its health checks");
        until(&mut events, "connected 2").await;
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(
            error.to_string(),
            "tools/call \"pay\": the server did not answer its health checks before it answered; it may have run"
        );
        assert_eq!(
            world.heard(method).iter().filter(|heard| heard.connection == 1).count() % 3,
            usize::from(version == NEW)
        );
        assert_eq!(client.call_tool("pay", ()).await.unwrap().text(), "from 2");
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_calls_of_a_batch_that_was_not_sent_are_made_on_the_next_connection() {
    let world = World::new(ProtocolVersion::V2025_03_26, |_, method| if method == "ping" { Never } else { Well });
    let builder = builder().only_version(ProtocolVersion::V2025_03_26);
    let check = HealthCheck::every(SECOND).failures(1);
    let client = world.connect_with(builder.supervise(supervision().health_check(check))).await;
    let mut batch = client.batch();
    let (one, two) = (batch.call_tool("pay", ()), batch.call_tool("look", ()));

    // The server of these tests does not know what to make of an array, and never says so.
    let mut outcomes = batch.send().await;
    assert_eq!(outcomes.take(one).unwrap().text(), "from 2");
    assert_eq!(outcomes.take(two).unwrap().text(), "from 2");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_slow_to_answer_its_health_checks_is_left_alone() {
    for version in [OLD, NEW] {
        let world = World::new(version, |_, method| match method {
            "ping" => WellAfter(4 * SECOND),
            "server/discover" => WellAfter(2 * SECOND),
            _ => Well,
        });
        let client = world.connect(supervision().health_check(HealthCheck::every(SECOND))).await;
        let mut events = client.events();
        tokio::time::sleep(600 * SECOND).await;
        assert_eq!(so_far(&mut events).await, [""; 0]);
        assert_eq!(world.opened(), 1);
        let checks = world.heard("ping").len() + world.heard("server/discover").len();
        assert!(checks >= 100, "{checks}");
        assert_eq!(client.call_tool("pay", ()).await.unwrap().text(), "from 1");
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn health_checks_that_are_missed_now_and_then_do_no_harm() {
    let asked = AtomicUsize::new(0);
    let world = World::new(OLD, move |_, method| match method {
        // Errors are answers.
        "ping" => [Never, Well, Never, Error][asked.fetch_add(1, Ordering::Relaxed) % 4].clone(),
        _ => Well,
    });
    let client = world.connect(supervision().health_check(HealthCheck::every(SECOND).failures(2))).await;
    let mut events = client.events();
    tokio::time::sleep(600 * SECOND).await;
    let seen = so_far(&mut events).await;
    assert!(
        seen.len() > 50 && seen.chunks(2).all(|pair| pair == ["unhealthy 1", "healthy"] || pair == ["unhealthy 1"]),
        "{seen:?}"
    );
    assert_eq!(world.opened(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_loss_during_a_health_check_is_a_loss() {
    let world = World::new(OLD, |connection, method| if connection == 1 && method == "ping" { Die } else { Well });
    let client = world.connect(supervision().health_check(HealthCheck::every(SECOND).failures(1))).await;
    let mut events = client.events();
    let Some(Event::Connection(ConnectionEvent::Lost(ended))) = events.next().await else { panic!() };
    assert_eq!(ended.to_string(), "the server closed the connection");
    until(&mut events, "connected 2").await;
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(so_far(&mut events).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn closing_between_attempts_ends_them() {
    let world = World::well(OLD);
    let client = world.connect(supervision()).await;
    let mut events = client.events();
    world.refuse(4);
    world.kill();
    until(&mut events, "reconnecting 4").await;

    let before = Instant::now();
    client.close().await;
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(so_far(&mut events).await, ["closed"]);
    assert!(events.next().await.is_none());
    assert_eq!(client.status(), Status::Closed);
    assert_no_tasks().await;
    tokio::time::advance(3600 * SECOND).await;
    settle().await;
    assert_eq!(world.opened(), 1);
}

/// A world whose second connection never gets through what `stuck` names.
fn stuck_at(stuck: &'static str) -> World {
    World::new(OLD, move |connection, method| if connection == 2 && method == stuck { Never } else { Well })
}

/// A client that is just being reconnected and does not come further.
async fn stuck(world: &World) -> Client {
    let client = world.connect(supervision()).await;
    client.set_log_level(LoggingLevel::Warning).await.unwrap();
    world.kill();
    while world.opened() < 2 {
        settle().await;
    }
    settle().await;
    assert_eq!(client.status(), Status::Reconnecting);
    client
}

#[tokio::test(start_paused = true)]
async fn closing_during_an_attempt_ends_it() {
    for method in ["initialize", "logging/setLevel"] {
        let world = stuck_at(method);
        let client = stuck(&world).await;
        let waiting = spawn_call(&client, "pay");
        settle().await;

        let before = Instant::now();
        client.close().await;
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!(error.delivery(), Delivery::NotSent);
        assert_no_tasks().await;
        assert_eq!(before.elapsed(), Duration::ZERO);
        assert_eq!(world.opened(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_a_client_during_an_attempt_leaves_no_task() {
    for method in ["initialize", "logging/setLevel"] {
        let world = stuck_at(method);
        let client = stuck(&world).await;

        drop(client);
        assert_no_tasks().await;
        assert_eq!(world.opened(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_a_client_between_attempts_leaves_no_task() {
    let world = World::well(NEW);
    let client = world.connect(supervision().health_check(HealthCheck::every(SECOND))).await;
    let mut events = client.events();
    world.refuse(4);
    world.kill();
    until(&mut events, "reconnecting 4").await;

    drop(client);
    assert!(events.next().await.is_none());
    assert_no_tasks().await;
    assert_eq!(world.opened(), 1);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_client_leaves_no_task_however_much_it_has_going_on() {
    for version in [OLD, NEW] {
        let world = World::well(version);
        let supervision = supervision().health_check(HealthCheck::every(SECOND)).breaker(Breaker::new());
        let client = world.connect_with(builder().supervise(supervision).roots([])).await;
        let _events = client.events();
        client.subscribe("a://one").await.unwrap();
        let _changes = client.listen(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
        assert!(tasks() > 2);

        drop(client);
        assert_no_tasks().await;
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_a_client_leaves_no_task_even_if_the_server_never_says_what_it_will_tell() {
    let world = World::new(NEW, |_, method| if method == "subscriptions/listen" { Never } else { Well });
    let client = world.connect(supervision()).await;
    let _events = client.events();
    settle().await;
    assert_eq!(world.heard("subscriptions/listen").len(), 1);

    drop(client);
    assert_no_tasks().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_wants_to_listen_does_not_wait_for_ever() {
    let world = World::new(NEW, |_, method| if method == "subscriptions/listen" { Never } else { Well });
    let client = world.connect(supervision()).await;

    let before = Instant::now();
    let error = client.subscribe("a://one").timeout(5 * SECOND).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert_eq!(before.elapsed().as_secs(), 5);
    let error = client.listen(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap_err();
    assert_eq!(error.to_string(), "subscriptions/listen: no answer within 30s; it may have run");
}

#[tokio::test(start_paused = true)]
async fn without_supervision_a_loss_is_the_end() {
    for version in [OLD, NEW] {
        let world = World::new(version, |_, method| if method == "tools/list" { Die } else { Well });
        let client = world.connect_with(builder()).await;
        let mut events = client.events();
        settle().await;

        let error = client.list_tools().await.unwrap_err();
        assert!(error.may_have_run() && error.is_disconnected(), "{error}");
        settle().await;
        assert_eq!(so_far(&mut events).await, ["lost", "closed"]);
        assert_eq!(client.status(), Status::Closed);
        let before = Instant::now();
        let error = client.ping().await.unwrap_err();
        assert_eq!((error.delivery(), before.elapsed()), (Delivery::NotSent, Duration::ZERO));
        assert_eq!(error.source().unwrap().to_string(), "the connection was lost: the server closed the connection");
        assert_eq!((world.opened(), world.heard("tools/list").len()), (1, 1));
        drop(client);
        assert_no_tasks().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_byte_stream_cannot_be_opened_again_even_under_supervision() {
    let world = World::well(OLD);
    let (reader, writer) = world.open().unwrap();
    let client = builder().supervise(supervision()).connect_stream(reader, writer).await.unwrap();
    let mut events = client.events();
    world.kill();

    until(&mut events, "lost").await;
    until(&mut events, "closed").await;
    assert_eq!(client.status(), Status::Closed);
    assert_eq!(client.ping().await.unwrap_err().delivery(), Delivery::NotSent);
}

#[tokio::test(start_paused = true)]
async fn what_is_told_comes_in_the_order_in_which_it_happens() {
    let world = loses_calls(1);
    let client = world.connect(supervision().breaker(Breaker::new().failures(2).rest(SECOND))).await;
    let mut events = client.events();
    world.refuse(1);
    let call = client.call_tool("pay", ()).safe_to_repeat(true).await.unwrap();
    assert_eq!(call.text(), "from 2");
    client.close().await;

    let mut seen = so_far(&mut events).await;
    let place = seen.iter().position(|word| word.starts_with("retrying")).unwrap();
    assert_eq!(seen.remove(place), "retrying tools/call \"pay\" 1");
    assert_eq!(seen, ["lost", "reconnecting 1", "failed", "reconnecting 2", "connected 2", "closed"]);
}
