//! A fake server over a byte stream in memory: the test reads and writes every line.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use turms_core::transport::MemoryEnd;

use crate::TIMEOUT;

/// The server's end of a connection.
#[derive(Debug)]
pub struct FakeServer {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    timeout: Duration,
}

impl FakeServer {
    /// Creates a server at one end of an in-memory connection.
    pub fn new(end: MemoryEnd) -> Self {
        Self { lines: BufReader::new(end.0).lines(), writer: end.1, timeout: TIMEOUT }
    }

    /// Sets the timeout for a line of the client, [`TIMEOUT`] by default. Tests with a paused clock may need a longer one.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Reads the next line; `None` when the client has closed the connection.
    ///
    /// # Panics
    /// If there is none within the timeout.
    pub async fn line(&mut self) -> Option<String> {
        let line = tokio::time::timeout(self.timeout, self.lines.next_line()).await;
        line.expect("timed out waiting for a line of the client").unwrap()
    }

    /// Reads the next message; `None` when the client has closed the connection.
    pub async fn try_next(&mut self) -> Option<Value> {
        let line = self.line().await?;
        Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")))
    }

    /// Reads the next message.
    pub async fn next(&mut self) -> Value {
        self.try_next().await.expect("the client is still connected")
    }

    /// Reads the next message, which must have this method.
    pub async fn expect(&mut self, method: &str) -> Value {
        let message = self.next().await;
        assert_eq!(message["method"], method, "{message}");
        message
    }

    /// Reads the next message, which must be the response to the request with this id.
    pub async fn expect_answer(&mut self, id: impl Into<Value>) -> Value {
        let message = self.next().await;
        assert_eq!(message["id"], id.into(), "{message}");
        assert!(message.get("method").is_none(), "{message}");
        message
    }

    /// Responds to a request with a result.
    pub async fn answer(&mut self, request: &Value, result: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await;
    }

    /// Responds to a request with an error.
    pub async fn refuse(&mut self, request: &Value, error: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })).await;
    }

    /// Sends a notification.
    pub async fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// Sends a request.
    pub async fn request(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })).await;
    }

    /// Sends a message.
    pub async fn send(&mut self, message: &Value) {
        self.write(&message.to_string()).await;
    }

    /// Sends a line.
    pub async fn write(&mut self, line: &str) {
        self.writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }
}
