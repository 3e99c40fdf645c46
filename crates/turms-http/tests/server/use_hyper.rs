//! A listener with hyper: its responses equal those of the built-in HTTP/1.1 implementation, apart from documented differences.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use turms_http::Listener;
use turms_testkit::{eventually, within};

use crate::dialog::{NEWEST_OLDER, Session, modern, modern_call, modern_stream};
use crate::fixture::Fixture;
use crate::wire::{Request, Response};

fn add(a: i64) -> Request {
    modern_call(a, "add", json!({ "a": a, "b": 1 }))
}

async fn with_hyper() -> Fixture {
    Fixture::at(Listener::use_hyper).await
}

/// Returns the parts of a response that an MCP client uses.
fn seen(response: &Response) -> (u16, Option<String>, Option<String>, Value) {
    let header = |name: &str| response.header(name).map(ToOwned::to_owned);
    (response.status(), header("content-type"), header("allow"), response.json())
}

#[tokio::test]
async fn requests_get_the_same_responses() {
    let (ours, hypers) = (Fixture::start().await, with_hyper().await);
    let requests = [
        add(1),
        modern_call(1, "no such tool", json!({})),
        modern_call(1, "add", json!({ "a": "text", "b": 1 })),
        modern(1, "tools/list", json!({})),
        modern(1, "no/such/method", json!({})),
        modern(1, "tools/list", json!({})).without("Mcp-Method"),
        add(1).header("Mcp-Name", "other"),
        add(1).header("MCP-Protocol-Version", "1999-01-01"),
        add(1).also("MCP-Protocol-Version", "2026-07-28"),
        add(1).without("Accept"),
        add(1).header("Accept", "application/json"),
        add(1).header("Accept", "text/event-stream").also("Accept", "application/json"),
        add(1).header("Content-Type", "text/plain"),
        add(1).header("Content-Encoding", "gzip"),
        add(1).header("Host", "evil.example"),
        add(1).header("Origin", "http://evil.example"),
        add(1).header("Origin", "http://localhost:3000"),
        add(1).path("http://localhost/mcp"),
        add(1).path("http://evil.example/mcp"),
        add(1).path("/{b}|c"),
        add(1).body("{"),
        add(1).body("[]"),
        Request::new("PUT"),
        Request::new("DELETE"),
        Request::new("GET"),
        Request::new("OPTIONS"),
    ];
    for request in requests {
        let (ours, hypers) = (ours.send(request.clone()).await, hypers.send(request.clone()).await);
        assert_eq!(seen(&ours), seen(&hypers), "{request:?}");
    }
}

#[tokio::test]
async fn sessions_and_streams_work() {
    let fixture = with_hyper().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let response = session.call(&fixture, "add", json!({ "a": 2, "b": 3 })).await;
    assert_eq!(response.text(), "5");
    let counted = fixture.send(modern_stream(1, "count", json!({ "n": 3 }))).await;
    assert!(counted.messages().len() > 1, "{counted}");
    assert_eq!(counted.header("content-type"), Some("text/event-stream"));
}

#[tokio::test]
async fn a_connection_serves_many_requests_in_order() {
    let fixture = with_hyper().await;
    let mut connection = fixture.connect().await;
    let all: Vec<u8> = (1..=20).flat_map(|n| add(n).bytes()).collect();
    connection.write(&all).await;
    for n in 1..=20 {
        assert_eq!(within("a response", connection.response()).await.text(), (n + 1).to_string());
    }
}

#[tokio::test]
async fn a_client_that_waits_for_100_continue_gets_it() {
    let fixture = with_hyper().await;
    let request = add(1).header("Expect", "100-continue");
    let bytes = request.bytes();
    let body = request.body.as_ref().unwrap().len();
    let mut connection = fixture.connect().await;
    connection.write(&bytes[..bytes.len() - body]).await;
    assert_eq!(within("a 100 response", connection.head()).await.status, 100);
    connection.write(&bytes[bytes.len() - body..]).await;
    assert_eq!(within("a response", connection.response()).await.text(), "2");
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let configure = |service: turms_http::HttpService| service.max_body_bytes(1_000);
    let fixture = Fixture::listening(|server| server, configure, Listener::use_hyper).await;
    assert_eq!(fixture.send(add(1).body("x".repeat(2_000))).await.status(), 413);
}

#[tokio::test]
async fn a_call_of_a_client_that_disconnects_is_cancelled() {
    let fixture = with_hyper().await;
    let mut connection = fixture.connect().await;
    connection.send(&modern_call(1, "wait", json!({}))).await;
    eventually("a call", async || fixture.traces.begun.load(Ordering::SeqCst) == 1).await;
    drop(connection);
    eventually("its end", async || fixture.traces.ended.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn a_call_in_flight_may_finish_at_shutdown() {
    let fixture = with_hyper().await;
    let mut connection = fixture.connect().await;
    connection.send(&modern_stream(1, "steps", json!({ "n": 1 }))).await;
    eventually("a call", async || fixture.traces.stepping.load(Ordering::SeqCst) == 1).await;
    let traces = fixture.traces.clone();
    fixture.handle.shutdown();
    traces.steps.add_permits(1);
    let response = within("a response", connection.response()).await;
    assert_eq!(response.messages().last().unwrap()["id"], 1, "{response}");
    assert!(within("the end", connection.try_head()).await.is_none());
    fixture.gone().await;
}

/// The status of the response to these bytes; `None` if the connection ends without one.
async fn status(fixture: &Fixture, bytes: &[u8]) -> Option<u16> {
    let mut connection = fixture.connect().await;
    connection.write(bytes).await;
    within("a response", connection.try_head()).await.map(|head| head.status)
}

/// The differences that `Listener::use_hyper` documents.
#[tokio::test]
async fn invalid_requests_differ() {
    let (ours, hypers) = (Fixture::start().await, with_hyper().await);
    let body = String::from_utf8(add(1).body.unwrap()).unwrap();
    let framed = |headers: &str| {
        let mut request = add(1);
        request.body = None;
        let mut bytes = request.bytes();
        bytes.truncate(bytes.len() - 2);
        bytes.extend_from_slice(format!("{headers}\r\n").as_bytes());
        bytes
    };
    let length = body.len();
    let chunked = format!("{length:x}\r\n{body}\r\n0\r\n\r\n");
    let cases: Vec<(Vec<u8>, u16, Option<u16>)> = vec![
        // The same status.
        (b"nonsense\r\n\r\n".to_vec(), 400, Some(400)),
        (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: +1\r\n\r\n".to_vec(), 400, Some(400)),
        (b"POST /mcp HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(), 400, Some(400)),
        ([framed(&format!("X-Long: {}\r\n", "x".repeat(70_000)))].concat(), 431, Some(431)),
        // Different statuses.
        (b"PUT /mcp HTTP/1.1\nHost: localhost\n\n".to_vec(), 400, Some(405)),
        (b"GET /mcp HTTP/1.1\r\nHost: a, b\r\n\r\n".to_vec(), 400, Some(403)),
        (b"PUT /mcp HTTP/1.1\r\n\r\n".to_vec(), 400, Some(405)),
        ([framed("Transfer-Encoding: gzip\r\n"), chunked.clone().into_bytes()].concat(), 501, Some(400)),
        (
            [framed(&format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n")), chunked.into_bytes()]
                .concat(),
            400,
            Some(200),
        ),
    ];
    for (bytes, by_ours, by_hyper) in cases {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(120)]).into_owned();
        assert_eq!(status(&ours, &bytes).await, Some(by_ours), "{shown}");
        assert_eq!(status(&hypers, &bytes).await, by_hyper, "{shown}");
    }
}
