//! The limits of waiting calls and notifications of a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines, ReadHalf, WriteHalf};
use turms_core::transport::memory;
use turms_core::{CallContext, Connection, Limits, NotifyFuture, Request, ResponseFuture, Service};
use turms_proto::session::RequestOptions;
use turms_proto::{Notification, ProtocolVersion};
use turms_testkit::{eventually, within};

use super::TestService;

/// A raw client after the handshake.
struct RawClient {
    reader: Lines<BufReader<ReadHalf<tokio::io::DuplexStream>>>,
    writer: WriteHalf<tokio::io::DuplexStream>,
}

impl RawClient {
    async fn connect(service: impl Service, options: Limits) -> Self {
        let (near, far) = memory();
        let (connection, _) = Connection::server(far.0, far.1, &ProtocolVersion::ALL, options);
        tokio::spawn(connection.run(service));
        let mut raw = Self { reader: BufReader::new(near.0).lines(), writer: near.1 };
        let client = json!({ "name": "raw", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        raw.send(json!({ "jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params })).await;
        assert_eq!(raw.receive().await["id"], "init");
        raw.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        raw
    }

    async fn send(&mut self, message: Value) {
        let line = format!("{message}\n");
        within("room to write", self.writer.write_all(line.as_bytes())).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let line = within("a message", self.reader.next_line()).await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

#[tokio::test]
async fn waiting_calls_count_by_the_bytes_that_they_keep() {
    let mut options = Limits::default();
    (options.max_in_flight, options.max_queued_bytes) = (1, 4 * 1024);
    let mut raw = RawClient::connect(TestService::default(), options).await;
    raw.send(json!({ "jsonrpc": "2.0", "id": "first", "method": "test/wait" })).await;
    let junk = "x".repeat(64 * 1024);
    for id in 0..8 {
        raw.send(json!({ "jsonrpc": "2.0", "id": id, "method": "test/echo", "params": { "id": id }, "junk": junk }))
            .await;
    }
    let long = "x".repeat(4 * 1024);
    for message in [
        json!({ "jsonrpc": "2.0", "id": long, "method": "test/echo" }),
        json!({ "jsonrpc": "2.0", "id": "method", "method": long }),
        json!({ "jsonrpc": "2.0", "id": "params", "method": "test/echo", "params": { "text": long } }),
    ] {
        let id = message["id"].clone();
        raw.send(message).await;
        let refused = raw.receive().await;
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&id, &json!(-32051)));
    }
    let params = json!({ "requestId": "first" });
    raw.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })).await;
    for id in 0..8 {
        assert_eq!(raw.receive().await, json!({ "jsonrpc": "2.0", "id": id, "result": { "id": id } }));
    }
}

/// Sends a request to the client for every notification but `notifications/initialized`, and counts the responses.
#[derive(Clone, Default)]
struct RequestPerNotification {
    calls: TestService,
    responses: Arc<AtomicUsize>,
}

impl Service for RequestPerNotification {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        self.calls.call(request, cx)
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        if &*notification.method == "notifications/initialized" {
            return Box::pin(async {});
        }
        let responses = self.responses.clone();
        Box::pin(async move {
            cx.peer().request_raw("roots/list", None, RequestOptions::default().without_timeout()).await.unwrap();
            responses.fetch_add(1, Ordering::SeqCst);
        })
    }
}

impl RawClient {
    async fn notify(&mut self, count: usize) {
        for _ in 0..count {
            self.send(json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" })).await;
        }
    }

    /// Receives requests of the server and returns their ids.
    async fn receive_requests(&mut self, count: usize) -> Vec<Value> {
        let mut ids = Vec::new();
        for _ in 0..count {
            let request = self.receive().await;
            assert_eq!(request["method"], "roots/list");
            ids.push(request["id"].clone());
        }
        ids
    }

    async fn respond(&mut self, ids: Vec<Value>) {
        for id in ids {
            self.send(json!({ "jsonrpc": "2.0", "id": id, "result": { "roots": [] } })).await;
        }
    }

    async fn ping(&mut self) {
        self.send(json!({ "jsonrpc": "2.0", "id": "ping", "method": "test/echo" })).await;
        assert_eq!(self.receive().await["id"], "ping");
    }
}

#[tokio::test]
async fn responses_are_read_even_if_many_notification_handlers_wait_for_them() {
    let service = RequestPerNotification::default();
    let options = Limits::default();
    let at_once = options.max_notifications;
    let mut raw = RawClient::connect(service.clone(), options).await;
    raw.notify(at_once + 50).await;
    let ids = raw.receive_requests(at_once).await;
    raw.ping().await;
    raw.respond(ids).await;
    let ids = raw.receive_requests(50).await;
    raw.respond(ids).await;
    eventually("all responses", async || service.responses.load(Ordering::SeqCst) == at_once + 50).await;
}

#[tokio::test]
async fn notifications_beyond_the_limits_are_dropped_and_cancellations_are_not() {
    for (max_queued, max_queued_bytes) in [(2, usize::MAX), (usize::MAX, 2 * "notifications/roots/list_changed".len())]
    {
        let service = RequestPerNotification::default();
        let mut options = Limits::default();
        options.max_notifications = 1;
        (options.max_queued, options.max_queued_bytes) = (max_queued, max_queued_bytes);
        let mut raw = RawClient::connect(service.clone(), options).await;
        raw.send(json!({ "jsonrpc": "2.0", "id": "slow", "method": "test/wait" })).await;
        raw.notify(5).await;
        let params = json!({ "requestId": "slow" });
        raw.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })).await;
        let ids = raw.receive_requests(1).await;
        within("the cancellation", service.calls.dropped.notified()).await;
        raw.respond(ids).await;
        for _ in 0..2 {
            let ids = raw.receive_requests(1).await;
            raw.respond(ids).await;
        }
        raw.ping().await;
        eventually("three responses", async || service.responses.load(Ordering::SeqCst) == 3).await;
        // The queue has capacity again.
        raw.notify(1).await;
        assert_eq!(raw.receive_requests(1).await.len(), 1);
    }
}
