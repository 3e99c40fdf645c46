//! The responses of a server to valid and invalid raw lines.

mod call_log;
mod options;
mod second_initialize;

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, ReadHalf, WriteHalf};
use turms_core::transport::memory;
use turms_server::Server;
use turms_testkit::behaviour_server::server_with;

struct Wire {
    reader: tokio::io::Lines<BufReader<ReadHalf<tokio::io::DuplexStream>>>,
    writer: WriteHalf<tokio::io::DuplexStream>,
}

impl Wire {
    fn new() -> Self {
        Self::of(server_with(&Arc::default()))
    }

    fn of(server: Server) -> Self {
        let (near, far) = memory();
        tokio::spawn(server.serve(far.0, far.1));
        Self { reader: BufReader::new(near.0).lines(), writer: near.1 }
    }

    async fn initialized(version: &str) -> Self {
        let mut wire = Self::new();
        let answer = wire.ask(json!({
            "jsonrpc": "2.0", "id": "init", "method": "initialize",
            "params": { "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "raw", "version": "1" } }
        }));
        assert_eq!(answer.await["result"]["protocolVersion"], version);
        wire.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        wire
    }

    async fn say(&mut self, line: &str) {
        self.writer.write_all(line.as_bytes()).await.unwrap();
        self.writer.write_all(b"\n").await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        serde_json::from_str(&self.reader.next_line().await.unwrap().unwrap()).unwrap()
    }

    async fn ask(&mut self, message: Value) -> Value {
        self.say(&message.to_string()).await;
        self.hear().await
    }

    /// Checks that the next call is served, and that no other message precedes its response.
    async fn still_serves(&mut self) {
        let answer = self.ask(json!({ "jsonrpc": "2.0", "id": "still", "method": "ping" })).await;
        assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": "still", "result": {} }));
    }
}

const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

#[tokio::test]
async fn an_invalid_line_is_refused_and_the_next_is_served() {
    for version in LEGACY {
        let mut wire = Wire::initialized(version).await;
        for (line, code) in [
            ("nonsense", -32700),
            ("{\"jsonrpc\":\"2.0\",", -32700),
            ("\"text\"", -32600),
            ("{\"id\":1,\"method\":\"ping\"}", -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}", -32602),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{}}", -32602),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":7}}", -32602),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no/such\"}", -32601),
        ] {
            wire.say(line).await;
            assert_eq!(wire.hear().await["error"]["code"], code, "{version}: {line}");
        }
        for ignored in [
            "",
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/nobody/knows\"}",
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":99}}",
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":5,\"progress\":1}}",
            "{\"jsonrpc\":\"2.0\",\"method\":7}",
            "{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}",
            "{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{},\"error\":{}}",
        ] {
            wire.say(ignored).await;
            wire.still_serves().await;
        }
    }
}

#[tokio::test]
async fn a_missing_member_is_named() {
    let mut wire = Wire::initialized("2025-11-25").await;
    let answer = wire.ask(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {} })).await;
    assert_eq!(answer["error"]["message"], "params: missing field \"name\"");
    let answer = wire.ask(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": 7 } })).await;
    assert_eq!(answer["error"]["message"], "params.name: invalid type: integer \"7\", expected a string");
}

#[tokio::test]
async fn the_handshake_comes_first() {
    let mut wire = Wire::new();
    let early = wire.ask(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" })).await;
    assert_eq!(early["error"]["code"], -32600);
    let pinged = wire.ask(json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" })).await;
    assert_eq!(pinged["result"], json!({}));
}

#[tokio::test]
async fn an_unknown_version_is_answered_with_the_newest_that_has_a_handshake() {
    for asked in ["2026-07-28", "2099-01-01", ""] {
        let mut wire = Wire::new();
        let answer = wire.ask(json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": { "protocolVersion": asked, "capabilities": {}, "clientInfo": { "name": "", "version": "" } }
        }));
        assert_eq!(answer.await["result"]["protocolVersion"], "2025-11-25", "{asked}");
    }
}

#[tokio::test]
async fn both_dialects_are_supported_on_one_connection() {
    let mut wire = Wire::initialized("2025-06-18").await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}
    });
    let call = |id: u32, meta: Option<&Value>| {
        let mut params = json!({ "name": "list" });
        if let Some(meta) = meta {
            params["_meta"] = meta.clone();
        }
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    let newer = wire.ask(call(1, Some(&meta))).await;
    assert_eq!(newer["result"]["resultType"], "complete");
    assert_eq!(newer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "fixture");
    let older = wire.ask(call(2, None)).await;
    assert_eq!(older["result"], json!({ "content": [{ "type": "text", "text": "[1,2,3]" }] }));
    let discovered =
        wire.ask(json!({ "jsonrpc": "2.0", "id": 3, "method": "server/discover", "params": { "_meta": meta } })).await;
    assert_eq!(discovered["result"]["supportedVersions"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn an_id_in_flight_is_refused_and_a_cancelled_one_may_be_used_again() {
    let mut wire = Wire::initialized("2025-06-18").await;
    let slow = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": "slow" } });
    wire.say(&slow.to_string()).await;
    let twice = wire.ask(json!({ "jsonrpc": "2.0", "id": 7, "method": "ping" })).await;
    assert_eq!(twice["error"]["code"], -32600);
    wire.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#).await;
    let free = wire.ask(json!({ "jsonrpc": "2.0", "id": 7, "method": "ping" })).await;
    assert_eq!(free["result"], json!({}));
}

#[tokio::test]
async fn a_client_that_does_not_read_does_not_fill_the_servers_memory() {
    let (near, far) = memory();
    let router = Server::new("s", "1").build().unwrap();
    let serving = router.clone();
    tokio::spawn(async move { serving.serve(far.0, far.1).await });
    let (mut reader, mut writer) = (BufReader::new(near.0).lines(), near.1);
    let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"","version":""}}}"#;
    let hello = format!("{initialize}\n{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}}\n");
    writer.write_all(hello.as_bytes()).await.unwrap();
    reader.next_line().await.unwrap().unwrap();
    // Far more than its queue and its buffers can hold.
    for round in 0..100_000 {
        router.handle().log(turms_proto::types::LoggingLevel::Error, "x".repeat(100));
        if round % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    writer.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").await.unwrap();
    let mut heard = 0;
    while !reader.next_line().await.unwrap().unwrap().contains(r#""id":1"#) {
        heard += 1;
    }
    assert!((100..20_000).contains(&heard), "{heard} of 100000 were kept");
}
