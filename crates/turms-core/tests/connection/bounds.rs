//! What waits on a connection is bounded, and what is bounded does not stop the rest.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines, ReadHalf, WriteHalf};
use turms_core::transport::memory;
use turms_core::{Connection, ConnectionOptions, Service};
use turms_proto::ProtocolVersion;
use turms_testkit::within;

use super::Fixture;

/// A client by hand, after the handshake.
struct Wire {
    reader: Lines<BufReader<ReadHalf<tokio::io::DuplexStream>>>,
    writer: WriteHalf<tokio::io::DuplexStream>,
}

impl Wire {
    async fn connect(service: impl Service, options: ConnectionOptions) -> Self {
        let (near, far) = memory();
        let (connection, _) = Connection::server(far.0, far.1, &ProtocolVersion::ALL, options);
        tokio::spawn(connection.run(service));
        let mut wire = Self { reader: BufReader::new(near.0).lines(), writer: near.1 };
        let client = json!({ "name": "raw", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        wire.say(json!({ "jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params })).await;
        assert_eq!(wire.hear().await["id"], "init");
        wire.say(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        wire
    }

    async fn say(&mut self, message: Value) {
        let line = format!("{message}\n");
        within("room to write", self.writer.write_all(line.as_bytes())).await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        let line = within("a message", self.reader.next_line()).await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

#[tokio::test]
async fn calls_that_wait_are_counted_by_what_they_keep() {
    let mut options = ConnectionOptions::default();
    (options.max_in_flight, options.max_waiting_bytes) = (1, 4 * 1024);
    let mut wire = Wire::connect(Fixture::default(), options).await;
    wire.say(json!({ "jsonrpc": "2.0", "id": "first", "method": "test/wait" })).await;
    let junk = "x".repeat(64 * 1024);
    for id in 0..8 {
        wire.say(json!({ "jsonrpc": "2.0", "id": id, "method": "test/echo", "params": { "id": id }, "junk": junk }))
            .await;
    }
    let long = "x".repeat(4 * 1024);
    for message in [
        json!({ "jsonrpc": "2.0", "id": long, "method": "test/echo" }),
        json!({ "jsonrpc": "2.0", "id": "method", "method": long }),
        json!({ "jsonrpc": "2.0", "id": "params", "method": "test/echo", "params": { "text": long } }),
    ] {
        let id = message["id"].clone();
        wire.say(message).await;
        let refused = wire.hear().await;
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&id, &json!(-32603)));
    }
    let params = json!({ "requestId": "first" });
    wire.say(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })).await;
    for id in 0..8 {
        assert_eq!(wire.hear().await, json!({ "jsonrpc": "2.0", "id": id, "result": { "id": id } }));
    }
}
