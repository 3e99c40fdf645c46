//! A server that is played by hand, line by line.

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

/// Timeout for a message of the client. Long: the clock is paused and moves on while everything waits.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(300);

/// The server's end of a connection.
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

    /// A client that is connected to a server with these capabilities.
    pub(crate) async fn with(version: ProtocolVersion, capabilities: Value, builder: ClientBuilder) -> (Client, Self) {
        let (near, far) = memory();
        let mut peer = Self::new(far);
        let connecting = builder.protocol_version(version).connect_stream(near.0, near.1);
        let (client, _) = tokio::join!(connecting, peer.open(version, capabilities));
        (client.unwrap(), peer)
    }

    /// A client that takes tasks, connected to a server that makes them.
    pub(crate) async fn extended(builder: ClientBuilder) -> (Client, Self) {
        Self::with(NEW, extended(), builder.enable_tasks()).await
    }

    /// Tells of itself as the revision has it; what the client said.
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

    /// The next message of this method. Whoever knows the server already need not ask it about itself first.
    pub(crate) async fn opened_and_asked(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().await.expect("the client is still there");
            if message["method"] != "server/discover" {
                assert_eq!(message["method"], method, "{message}");
                return message;
            }
            self.answer(&message, discovered(&extended())).await;
        }
    }

    /// The next message; `None` when the client has gone.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        self.try_next().await
    }

    /// Nothing comes any more but what the end of the connection brings.
    pub(crate) async fn expect_nothing(&mut self, client: Client) {
        tokio::time::sleep(MESSAGE_TIMEOUT / 2).await;
        client.close().await;
        assert_eq!(self.next().await, None);
    }

    pub(crate) async fn refuse(&mut self, request: &Value, code: i64, message: &str) {
        self.0.refuse(request, json!({ "code": code, "message": message })).await;
    }

    /// Waits to be asked how the task stands, and tells.
    pub(crate) async fn told(&mut self, task: Value) -> Value {
        let request = self.expect("tasks/get").await;
        assert_eq!(request["params"]["taskId"], "t");
        self.answer(&request, task).await;
        request
    }

    /// Waits for a call and makes a task of it that is asked about every second.
    pub(crate) async fn make_task(&mut self) -> Value {
        let call = self.expect("tools/call").await;
        let mut created = task("working");
        created["resultType"] = "task".into();
        self.answer(&call, created).await;
        call
    }

    /// Waits for the answers to what a task asks; acknowledges them.
    pub(crate) async fn updated(&mut self) -> Value {
        let update = self.expect("tasks/update").await;
        assert_eq!(update["params"]["taskId"], "t");
        self.answer(&update, json!({ "resultType": "complete" })).await;
        update["params"]["inputResponses"].clone()
    }

    /// Waits for the end of a list that tells of these tools.
    pub(crate) async fn list(&mut self, tools: Value) {
        let list = self.expect("tools/list").await;
        let page = json!({ "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private" });
        self.answer(&list, page).await;
    }
}

pub(crate) fn extended() -> Value {
    json!({ "tools": {}, "extensions": { EXTENSION: {} } })
}

/// What a server tells of itself.
pub(crate) fn discovered(capabilities: &Value) -> Value {
    json!({
        "resultType": "complete", "supportedVersions": [NEW], "capabilities": capabilities, "ttlMs": 0,
        "cacheScope": "private"
    })
}

/// A task as `tasks/get` of the extension tells of it.
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

/// The result of a tool that says this.
pub(crate) fn said(text: &str) -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
}

/// Whether a request declares the extension.
pub(crate) fn declares(request: &Value) -> bool {
    let capabilities = &request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    capabilities["extensions"].get(EXTENSION).is_some()
}

/// A client that cannot be asked anything.
pub(crate) fn nobody() -> ClientBuilder {
    Client::builder("app", "1").version_cache(VersionCache::new())
}

/// A client whose person answers every question with the question.
pub(crate) fn person() -> ClientBuilder {
    nobody().on_form(|form, _| async move { Ok(ElicitResult::accept(json!({ "said": form.message }))?) })
}

pub(crate) fn accepted(message: &str) -> Value {
    json!({ "action": "accept", "content": { "said": message } })
}
