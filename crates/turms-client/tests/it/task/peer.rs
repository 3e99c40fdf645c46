//! A scripted server that tests control line by line.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use serde_json::{Value, json};
use turms_client::{Client, ClientBuilder, VersionCache};
use turms_core::transport::{MemoryEnd, memory};
use turms_proto::types::ElicitResult;
use turms_proto::{Ability, ProtocolVersion};
use turms_testkit::fake_server::FakeServer;

pub(crate) const NEW: ProtocolVersion = ProtocolVersion::LATEST;
pub(crate) const CORE: ProtocolVersion = ProtocolVersion::V2025_11_25;
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Timeout for a message of the client. Long, because the paused clock advances while all tasks wait.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(300);

/// The server end of a connection.
pub(crate) struct Peer(FakeServer);

impl Deref for Peer {
    type Target = FakeServer;

    fn deref(&self) -> &FakeServer {
        &self.0
    }
}

impl DerefMut for Peer {
    fn deref_mut(&mut self) -> &mut FakeServer {
        &mut self.0
    }
}

impl Peer {
    pub(crate) fn new(end: MemoryEnd) -> Self {
        Self(FakeServer::new(end).timeout(MESSAGE_TIMEOUT))
    }

    /// Connects a client to a server with these capabilities.
    pub(crate) async fn with(version: ProtocolVersion, capabilities: Value, builder: ClientBuilder) -> (Client, Self) {
        let (near, far) = memory();
        let mut peer = Self::new(far);
        let connecting = builder.protocol_version(version).connect_stream(near.0, near.1);
        let (client, _) = tokio::join!(connecting, peer.open(version, capabilities));
        (client.unwrap(), peer)
    }

    /// Connects a client with tasks to a server with tasks.
    pub(crate) async fn extended(builder: ClientBuilder) -> (Client, Self) {
        Self::with(NEW, extended(), builder.enable_tasks()).await
    }

    /// Responds to `initialize` or `server/discover`, and returns that request.
    pub(crate) async fn open(&mut self, version: ProtocolVersion, capabilities: Value) -> Value {
        if version.has(Ability::Handshake) {
            let hello = self.expect("initialize").await;
            let server = json!({ "name": "by-hand", "version": "1" });
            let opened = json!({ "protocolVersion": version, "capabilities": capabilities, "serverInfo": server });
            self.answer(&hello, opened).await;
            self.expect("notifications/initialized").await;
            hello
        } else {
            let probe = self.expect("server/discover").await;
            self.answer(&probe, discovered(&capabilities)).await;
            probe
        }
    }

    /// Waits for a request of this method, and responds to `server/discover` requests before it.
    pub(crate) async fn opened_and_asked(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().await.expect("the connection is open");
            if message["method"] != "server/discover" {
                assert_eq!(message["method"], method, "{message}");
                return message;
            }
            self.answer(&message, discovered(&extended())).await;
        }
    }

    /// Returns the next message; `None` when the connection is closed.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        self.try_next().await
    }

    /// Checks that the client sends no further message, and closes it.
    pub(crate) async fn expect_nothing(&mut self, client: Client) {
        tokio::time::sleep(MESSAGE_TIMEOUT / 2).await;
        client.close().await;
        assert_eq!(self.next().await, None);
    }

    pub(crate) async fn refuse(&mut self, request: &Value, code: i64, message: &str) {
        self.0.refuse(request, json!({ "code": code, "message": message })).await;
    }

    /// Waits for `tasks/get`, and responds with `task`.
    pub(crate) async fn told(&mut self, task: Value) -> Value {
        let request = self.expect("tasks/get").await;
        assert_eq!(request["params"]["taskId"], "t");
        self.answer(&request, task).await;
        request
    }

    /// Waits for a call, and responds with a task whose poll interval is one second.
    pub(crate) async fn make_task(&mut self) -> Value {
        let call = self.expect("tools/call").await;
        let mut created = task("working");
        created["resultType"] = "task".into();
        self.answer(&call, created).await;
        call
    }

    /// Waits for `tasks/update`, acknowledges it, and returns the input responses.
    pub(crate) async fn updated(&mut self) -> Value {
        let update = self.expect("tasks/update").await;
        assert_eq!(update["params"]["taskId"], "t");
        self.answer(&update, json!({ "resultType": "complete" })).await;
        update["params"]["inputResponses"].clone()
    }

    /// Waits for `tools/list`, and responds with these tools.
    pub(crate) async fn list(&mut self, tools: Value) {
        let list = self.expect("tools/list").await;
        let page = json!({ "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private" });
        self.answer(&list, page).await;
    }
}

pub(crate) fn extended() -> Value {
    json!({ "tools": {}, "extensions": { EXTENSION: {} } })
}

/// Returns a `server/discover` result.
pub(crate) fn discovered(capabilities: &Value) -> Value {
    json!({
        "resultType": "complete", "supportedVersions": [NEW], "capabilities": capabilities, "ttlMs": 0,
        "cacheScope": "private"
    })
}

/// Returns a task as in `tasks/get` of the extension.
pub(crate) fn task(status: &str) -> Value {
    json!({
        "resultType": "complete", "taskId": "t", "status": status, "createdAt": "2026-07-28T00:00:00Z",
        "lastUpdatedAt": "2026-07-28T00:00:00Z", "ttlMs": null, "pollIntervalMs": 1000
    })
}

pub(crate) fn completed(result: Value) -> Value {
    let mut task = task("completed");
    task["result"] = result;
    task
}

pub(crate) fn asking(questions: &[&str]) -> Value {
    let mut task = task("input_required");
    task["inputRequests"] = questions.iter().map(|key| ((*key).to_owned(), question(key))).collect();
    task
}

pub(crate) fn question(message: &str) -> Value {
    json!({ "method": "elicitation/create", "params": form(message) })
}

pub(crate) fn form(message: &str) -> Value {
    json!({ "mode": "form", "message": message, "requestedSchema": { "type": "object", "properties": {} } })
}

/// Returns a tool result with one text block.
pub(crate) fn said(text: &str) -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
}

/// Returns `true` if a request declares the extension.
pub(crate) fn declares(request: &Value) -> bool {
    let capabilities = &request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    capabilities["extensions"].get(EXTENSION).is_some()
}

/// A client without handlers for requests of servers.
pub(crate) fn nobody() -> ClientBuilder {
    Client::builder("app", "1").version_cache(VersionCache::new())
}

/// A client that accepts every elicitation with its message as the content.
pub(crate) fn person() -> ClientBuilder {
    nobody().on_form(|form, _| async move { Ok(ElicitResult::accept(json!({ "said": form.message }))?) })
}

pub(crate) fn accepted(message: &str) -> Value {
    json!({ "action": "accept", "content": { "said": message } })
}
