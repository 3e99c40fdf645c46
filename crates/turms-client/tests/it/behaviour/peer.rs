//! A scripted server that tests control line by line.

use std::ops::{Deref, DerefMut};

use serde_json::{Value, json};
use turms_client::{Client, ClientBuilder};
use turms_core::transport::{MemoryEnd, memory};
use turms_proto::{Ability, ProtocolVersion};
use turms_testkit::fake_server::FakeServer;

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
        Self(FakeServer::new(end))
    }

    /// Connects a client of a revision to a scripted server that declares all capabilities.
    pub(crate) async fn connected(version: ProtocolVersion, builder: ClientBuilder) -> (Client, Self) {
        let (near, far) = memory();
        let mut peer = Self::new(far);
        let connecting = builder.protocol_version(version).connect_stream(near.0, near.1);
        let (client, ()) = tokio::join!(connecting, peer.open(version));
        (client.unwrap(), peer)
    }

    /// Responds to `initialize` or `server/discover`, depending on the revision.
    pub(crate) async fn open(&mut self, version: ProtocolVersion) {
        if version.has(Ability::Handshake) {
            self.shake_hands(version).await;
        } else {
            let probe = self.expect("server/discover").await;
            self.answer(&probe, discovered(&[version])).await;
        }
    }

    pub(crate) async fn shake_hands(&mut self, version: ProtocolVersion) -> Value {
        let hello = self.expect("initialize").await;
        self.answer(&hello, initialized(version)).await;
        self.expect("notifications/initialized").await;
        hello
    }
}

/// Returns a `server/discover` result with all capabilities for these revisions.
pub(crate) fn discovered(versions: &[ProtocolVersion]) -> Value {
    json!({
        "resultType": "complete", "supportedVersions": versions, "capabilities": capabilities(), "ttlMs": 0,
        "cacheScope": "private", "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "by-hand", "version": "1" } }
    })
}

pub(crate) fn initialized(version: ProtocolVersion) -> Value {
    json!({
        "protocolVersion": version, "capabilities": capabilities(),
        "serverInfo": { "name": "by-hand", "version": "1" }
    })
}

fn capabilities() -> Value {
    json!({
        "tools": { "listChanged": true }, "prompts": { "listChanged": true },
        "resources": { "listChanged": true, "subscribe": true }, "logging": {}, "completions": {}
    })
}

/// Returns a tool result with one text block.
pub(crate) fn said(text: &str) -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
}

/// Returns a `tools/list` result.
pub(crate) fn tools(tools: &Value) -> Value {
    json!({ "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private" })
}
