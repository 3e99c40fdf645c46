//! A server that is played by hand, line by line.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use turms_client::{Client, ClientBuilder};
use turms_core::transport::{MemoryEnd, memory};
use turms_proto::{Ability, ProtocolVersion};
use turms_testkit::within;

/// The server's end of a connection.
pub(crate) struct Peer {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Peer {
    pub(crate) fn new(end: MemoryEnd) -> Self {
        Self { lines: BufReader::new(end.0).lines(), writer: end.1 }
    }

    /// A client of a revision that is connected to a server which is played by hand and says that it has everything.
    pub(crate) async fn connected(version: ProtocolVersion, builder: ClientBuilder) -> (Client, Self) {
        let (near, far) = memory();
        let mut peer = Self::new(far);
        let connecting = builder.only_version(version).connect_stream(near.0, near.1);
        let (client, ()) = tokio::join!(connecting, peer.open(version));
        (client.unwrap(), peer)
    }

    /// Tells of itself as the revision has it.
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

    /// The next line, whatever it is; `None` when the client has gone.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let line = within("a line of the client", self.lines.next_line()).await;
        line.unwrap()
    }

    /// The next message.
    pub(crate) async fn next(&mut self) -> Value {
        let line = self.line().await.expect("the client is still there");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// The next message, which is of this method.
    pub(crate) async fn expect(&mut self, method: &str) -> Value {
        let message = self.next().await;
        assert_eq!(message["method"], method, "{message}");
        message
    }

    /// The next message, which answers the request of this id.
    pub(crate) async fn expect_answer(&mut self, id: impl Into<Value>) -> Value {
        let message = self.next().await;
        assert_eq!(message["id"], id.into(), "{message}");
        assert!(message.get("method").is_none(), "{message}");
        message
    }

    pub(crate) async fn answer(&mut self, request: &Value, result: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await;
    }

    pub(crate) async fn refuse(&mut self, request: &Value, error: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })).await;
    }

    pub(crate) async fn tell(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    pub(crate) async fn ask(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })).await;
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.write(&message.to_string()).await;
    }

    pub(crate) async fn write(&mut self, line: &str) {
        self.writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }
}

/// What a server of these revisions that has everything tells of itself.
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

/// The result of a tool that says this.
pub(crate) fn said(text: &str) -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
}

/// A list of these tools.
pub(crate) fn tools(tools: &Value) -> Value {
    json!({ "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private" })
}
