//! What waits on a connection is bounded, and what is bounded does not stop the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines, ReadHalf, WriteHalf};
use turms_core::transport::memory;
use turms_core::{CallContext, Connection, Limits, NotifyFuture, Request, ResponseFuture, Service};
use turms_proto::session::RequestOptions;
use turms_proto::{Notification, ProtocolVersion};
use turms_testkit::{eventually, within};

use super::Fixture;

/// A client by hand, after the handshake.
struct Wire {
    reader: Lines<BufReader<ReadHalf<tokio::io::DuplexStream>>>,
    writer: WriteHalf<tokio::io::DuplexStream>,
}

impl Wire {
    async fn connect(service: impl Service, options: Limits) -> Self {
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
    let mut options = Limits::default();
    (options.max_in_flight, options.max_queued_bytes) = (1, 4 * 1024);
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

/// Asks the client something at every notification but `notifications/initialized`, and counts the answers.
#[derive(Clone, Default)]
struct Asking {
    calls: Fixture,
    answered: Arc<AtomicUsize>,
}

impl Service for Asking {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        self.calls.call(request, cx)
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        if &*notification.method == "notifications/initialized" {
            return Box::pin(async {});
        }
        let answered = self.answered.clone();
        Box::pin(async move {
            cx.peer().request_raw("roots/list", None, RequestOptions::default().for_ever()).await.unwrap();
            answered.fetch_add(1, Ordering::SeqCst);
        })
    }
}

impl Wire {
    async fn tell(&mut self, count: usize) {
        for _ in 0..count {
            self.say(json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" })).await;
        }
    }

    /// The ids of the next questions of the server.
    async fn questions(&mut self, count: usize) -> Vec<Value> {
        let mut ids = Vec::new();
        for _ in 0..count {
            let question = self.hear().await;
            assert_eq!(question["method"], "roots/list");
            ids.push(question["id"].clone());
        }
        ids
    }

    async fn answer(&mut self, ids: Vec<Value>) {
        for id in ids {
            self.say(json!({ "jsonrpc": "2.0", "id": id, "result": { "roots": [] } })).await;
        }
    }

    async fn ping(&mut self) {
        self.say(json!({ "jsonrpc": "2.0", "id": "ping", "method": "test/echo" })).await;
        assert_eq!(self.hear().await["id"], "ping");
    }
}

#[tokio::test]
async fn responses_are_read_however_many_notifications_wait_for_them() {
    let service = Asking::default();
    let options = Limits::default();
    let at_once = options.max_notifications;
    let mut wire = Wire::connect(service.clone(), options).await;
    wire.tell(at_once + 50).await;
    let asked = wire.questions(at_once).await;
    wire.ping().await;
    wire.answer(asked).await;
    let asked = wire.questions(50).await;
    wire.answer(asked).await;
    eventually("all answers", async || service.answered.load(Ordering::SeqCst) == at_once + 50).await;
}

#[tokio::test]
async fn notifications_beyond_the_limits_are_dropped_and_cancellations_are_not() {
    for (max_queued, max_queued_bytes) in [(2, usize::MAX), (usize::MAX, 2 * "notifications/roots/list_changed".len())]
    {
        let service = Asking::default();
        let mut options = Limits::default();
        options.max_notifications = 1;
        (options.max_queued, options.max_queued_bytes) = (max_queued, max_queued_bytes);
        let mut wire = Wire::connect(service.clone(), options).await;
        wire.say(json!({ "jsonrpc": "2.0", "id": "slow", "method": "test/wait" })).await;
        wire.tell(5).await;
        let params = json!({ "requestId": "slow" });
        wire.say(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })).await;
        let asked = wire.questions(1).await;
        within("the cancellation", service.calls.dropped.notified()).await;
        wire.answer(asked).await;
        for _ in 0..2 {
            let asked = wire.questions(1).await;
            wire.answer(asked).await;
        }
        wire.ping().await;
        eventually("three answers", async || service.answered.load(Ordering::SeqCst) == 3).await;
        // There is room again.
        wire.tell(1).await;
        assert_eq!(wire.questions(1).await.len(), 1);
    }
}
