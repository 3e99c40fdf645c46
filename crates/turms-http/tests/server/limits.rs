//! Bounds that can be set: what is too much is refused, and there is room again when something ends.

use std::time::Duration;

use serde_json::json;
use turms_http::SessionOptions;

use crate::dialog::{NEWEST_OLDER, Session, call, modern, modern_call, modern_stream, request};
use crate::fixture::Fixture;
use crate::wire::Request;
use crate::{eventually, soon};

#[tokio::test]
async fn a_session_has_only_so_many_streams() {
    let options = SessionOptions::new().max_streams(4);
    let fixture = Fixture::with(|service| service.sessions(options)).await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut streams = Vec::new();
    for _ in 0..4 {
        streams.push(fixture.stream(session.get()).await);
    }
    let response = fixture.send(session.get()).await;
    assert!(matches!(response.status(), 409 | 429 | 503), "{response}");
    // Another session has room, and so has this one when a stream is gone.
    let other = Session::begin(&fixture, NEWEST_OLDER).await;
    fixture.stream(other.get()).await;
    streams.pop();
    eventually("room for another", async || is_open(&fixture, session.get()).await).await;
}

/// Whether a request gets a stream, which is broken at once.
async fn is_open(fixture: &Fixture, request: Request) -> bool {
    let mut connection = fixture.connect().await;
    connection.send(&request).await;
    soon("an answer", connection.head()).await.status == 200
}

#[tokio::test]
async fn a_server_has_only_so_many_streams() {
    let fixture = Fixture::with(|service| service.max_streams(3)).await;
    let listen = || modern(1, "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut streams = vec![fixture.stream(listen()).await, fixture.stream(modern_stream(1, "wait", json!({}))).await];
    streams.push(fixture.stream(session.get()).await);
    for more in [listen(), session.get()] {
        let response = fixture.send(more).await;
        assert!(matches!(response.status(), 429 | 503), "{response}");
        assert!(response.json()["error"]["code"].is_i64(), "{response}");
    }
    // What needs no stream is served.
    assert_eq!(fixture.send(modern_call(1, "add", json!({ "a": 1, "b": 2 }))).await.text(), "3");
    streams.pop();
    eventually("room for another", async || is_open(&fixture, listen()).await).await;
}

#[tokio::test]
async fn a_session_runs_only_so_many_requests_at_once() {
    let options = SessionOptions::new().max_in_flight(2);
    let fixture = Fixture::with(|service| service.sessions(options)).await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut running = Vec::new();
    for id in [1, 2] {
        let mut stream = session.stream(&fixture, id, "wait", json!({})).await;
        stream.message().await;
        running.push(stream);
    }
    let refused = fixture.send(session.post(call(3, "add", json!({ "a": 1, "b": 2 })))).await;
    assert_eq!(refused.json()["id"], 3, "{refused}");
    assert!(refused.json()["error"]["code"].is_i64(), "{refused}");
    assert!(matches!(refused.status(), 200 | 429 | 503), "{refused}");
    let other = Session::begin(&fixture, NEWEST_OLDER).await;
    assert_eq!(other.call(&fixture, "add", json!({ "a": 1, "b": 2 })).await.text(), "3");
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    fixture.send(session.post(&cancelled)).await.assert_accepted();
    eventually("room for another", async || {
        let response = session.call(&fixture, "add", json!({ "a": 1, "b": 2 })).await;
        response.messages()[0].get("result").is_some()
    })
    .await;
}

#[tokio::test]
async fn a_body_must_come_in_time() {
    let fixture = Fixture::with(|service| service.body_timeout(Duration::from_millis(50))).await;
    let whole = modern_call(1, "add", json!({ "a": 1, "b": 2 })).bytes();
    let mut connection = fixture.connect().await;
    connection.write(&whole[..whole.len() - 10]).await;
    if let Some(response) = soon("an answer, or the end", connection.try_response()).await {
        assert_eq!(response.status(), 408, "{response}");
    }
    assert_eq!(fixture.send(modern_call(1, "add", json!({ "a": 1, "b": 2 }))).await.text(), "3");
}

#[tokio::test]
async fn a_batch_has_only_so_many_messages() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, "2025-03-26").await;
    let batch: Vec<_> = (0..50_000).map(|id| request(id, "ping", None)).collect();
    let response = fixture.send(session.post(json!(batch))).await;
    assert!(matches!(response.status(), 400 | 413), "{}", response.status());
    assert_eq!(fixture.send(session.post(request(2, "ping", None))).await.result(), json!({}));
}

#[tokio::test]
async fn what_is_long_but_within_the_limits_goes_both_ways() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let long = "ä".repeat(1_500_000);
    assert_eq!(fixture.send(modern_call(1, "echo", json!({ "text": long }))).await.text(), long);
    assert_eq!(session.call(&fixture, "echo", json!({ "text": long })).await.text(), long);
}
