//! Hostile and broken clients: other clients are still served.

use std::sync::atomic::Ordering;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use turms_testkit::{eventually, within};

use crate::dialog::{NEWEST_OLDER, Session, modern_body, modern_call, modern_stream};
use crate::fixture::Fixture;
use crate::wire::{Request, Stream};

const MEGABYTE: usize = 1024 * 1024;

/// Checks that the server still responds to other clients.
async fn assert_serves(fixture: &Fixture) {
    let response = fixture.send(modern_call(1, "add", json!({ "a": 1, "b": 2 }))).await;
    assert_eq!(response.text(), "3");
}

/// In a session, a disconnected client neither blocks the call nor cancels it.
#[tokio::test]
async fn a_call_that_waits_for_a_reader_goes_on_when_the_reader_goes() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let flood = crate::dialog::call(1, "flood", json!({ "n": 2_000, "bytes": 16 * 1024 }));
    let mut connection = fixture.connect().await;
    connection.send(&session.post(crate::dialog::with_progress(flood, 1))).await;
    eventually("a flood", async || fixture.traces.said.load(Ordering::SeqCst) > 100).await;
    drop(connection);
    eventually("the end of the call", async || fixture.traces.ended.load(Ordering::SeqCst) == 1).await;
    assert_eq!(fixture.traces.said.load(Ordering::SeqCst), 2_000, "it was not cancelled");
}

#[tokio::test]
async fn a_call_that_waits_for_a_reader_can_be_cancelled() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    for (n, end) in ["cancelled", "deleted"].into_iter().enumerate() {
        let flood = crate::dialog::call(1, "flood", json!({ "n": 1_000_000, "bytes": 16 * 1024 }));
        let mut connection = fixture.connect().await;
        connection.send(&session.post(crate::dialog::with_progress(flood, 1))).await;
        eventually("a flood", async || fixture.traces.begun.load(Ordering::SeqCst) == n + 1).await;
        if end == "cancelled" {
            let params = json!({ "requestId": 1 });
            let body = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
            fixture.send(session.post(&body)).await.assert_accepted();
        } else {
            fixture.send(session.delete()).await;
        }
        eventually("the end of the call", async || fixture.traces.ended.load(Ordering::SeqCst) == n + 1).await;
    }
}

/// Events that exceed the queue of an unread stream are lost; the session continues.
#[tokio::test]
async fn a_standalone_stream_can_be_reopened_after_events_were_lost() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let unread = fixture.stream(session.get()).await;
    let much = turms_proto::RawJson::encode(&json!({ "much": "x".repeat(16 * 1024) })).unwrap();
    let notification = turms_proto::Notification::raw("notifications/test", Some(much));
    for _ in 0..2_000 {
        fixture.handle.broadcast(&notification);
    }
    drop(unread);
    let mut stream = fixture.stream(session.get()).await;
    session.call(&fixture, "grow", json!({})).await;
    let mut heard = stream.message().await;
    while heard["method"] == "notifications/test" {
        heard = stream.message().await;
    }
    assert_eq!(heard["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_slow_reader_gets_everything_in_the_end() {
    let fixture = Fixture::start().await;
    hear_slowly(&fixture, fixture.stream(modern_stream(1, "flood", json!({ "n": 1_000, "bytes": 16_000 }))).await)
        .await;
}

/// The messages exceed the event store, which only matters to clients that resume.
#[tokio::test]
async fn a_slow_reader_of_a_session_gets_everything_in_the_end() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    hear_slowly(&fixture, session.stream(&fixture, 1, "flood", json!({ "n": 1_000, "bytes": 16_000 })).await).await;
}

async fn hear_slowly(fixture: &Fixture, mut stream: Stream) {
    for step in 1..=1_000_u64 {
        if step % 100 == 0 {
            assert_serves(fixture).await;
        }
        let message = stream.try_message().await.unwrap_or_else(|| panic!("the stream ends before message {step}"));
        assert_eq!(crate::dialog::progress(&[message]), [step]);
    }
    assert_eq!(stream.message().await["id"], 1);
}

#[tokio::test]
async fn unfinished_headers_do_not_delay_other_clients() {
    let fixture = Fixture::start().await;
    let mut slow = Vec::new();
    for _ in 0..300 {
        let mut connection = fixture.connect().await;
        connection.write(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n").await;
        slow.push(connection);
    }
    for round in 0..5 {
        for connection in &mut slow {
            let line = format!("X-Slow-{round}: x\r\n");
            within("room to write", connection.socket.write_all(line.as_bytes())).await.unwrap();
        }
        assert_serves(&fixture).await;
    }
}

#[tokio::test]
async fn unfinished_bodies_do_not_delay_other_clients() {
    let fixture = Fixture::start().await;
    let mut slow = Vec::new();
    for _ in 0..300 {
        let mut connection = fixture.connect().await;
        let whole = modern_call(1, "add", json!({ "a": 1, "b": 2 })).bytes();
        connection.write(&whole[..whole.len() - 10]).await;
        slow.push(connection);
    }
    assert_serves(&fixture).await;
    // A slow body that is completed still gets its response.
    let whole = modern_call(1, "add", json!({ "a": 1, "b": 2 })).bytes();
    for connection in &mut slow {
        connection.write(&whole[whole.len() - 10..]).await;
        assert_eq!(within("a response", connection.response()).await.text(), "3");
    }
}

const LIMIT: usize = 64 * 1024;

/// A call whose body has this number of bytes.
fn call_of(bytes: usize) -> Request {
    let body = |text: &str| modern_body("q", "tools/call", json!({ "name": "echo", "arguments": { "text": text } }));
    let text = "x".repeat(bytes - body("").to_string().len());
    crate::dialog::mirrored(&body(&text))
}

#[tokio::test]
async fn a_body_may_be_as_long_as_the_limit_and_no_longer() {
    let fixture = Fixture::with(|service| service.max_body_bytes(LIMIT)).await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    assert_eq!(fixture.send(call_of(LIMIT)).await.status(), 200);
    for request in [call_of(LIMIT + 1), call_of(10 * LIMIT), session.post("x".repeat(LIMIT + 1))] {
        let response = fixture.send(request).await;
        assert_eq!(response.status(), 413, "{response}");
        assert!(response.json()["error"]["code"].is_i64(), "{response}");
    }
    assert_serves(&fixture).await;
}

fn head_of(request: &Request, framing: &str) -> Vec<u8> {
    let head = String::from_utf8(request.bytes()).unwrap();
    let (head, _) = head.split_once("\r\n\r\n").unwrap();
    let lines = head.split("\r\n").filter(|line| !line.starts_with("Content-Length"));
    let lines: Vec<_> = lines.collect();
    format!("{}\r\n{framing}\r\n\r\n", lines.join("\r\n")).into_bytes()
}

#[tokio::test]
async fn a_content_length_beyond_the_limit_is_refused_at_once() {
    let fixture = Fixture::with(|service| service.max_body_bytes(LIMIT)).await;
    let mut connection = fixture.connect().await;
    connection.write(&head_of(&call_of(1_000), "Content-Length: 1099511627776")).await;
    assert_eq!(within("a response", connection.response()).await.status(), 413);
    assert_serves(&fixture).await;
}

#[tokio::test]
async fn headers_that_are_too_many_or_too_long_are_refused() {
    let fixture = Fixture::start().await;
    let long = modern_call(1, "add", json!({ "a": 1, "b": 2 })).header("X-Long", "x".repeat(2 * MEGABYTE));
    let many = (0..20_000)
        .fold(modern_call(1, "add", json!({ "a": 1, "b": 2 })), |request, n| request.also(&format!("X-{n}"), "x"));
    for request in [long, many] {
        let mut connection = fixture.connect().await;
        let bytes = request.bytes();
        // The server may close the connection before it has read everything.
        let _ = within("the end of writing", connection.socket.write_all(&bytes)).await;
        if let Some(response) = within("a response or the end of the connection", connection.try_response()).await {
            assert!((400..500).contains(&response.status()), "{response}");
        }
        assert_serves(&fixture).await;
    }
}

#[tokio::test]
async fn json_that_is_nested_too_deep_is_refused() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
    let arrays = deep("[", "]");
    let objects = deep("{\"a\":", "}");
    for nested in [&arrays, &objects] {
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":{nested}}}}}}}"#
        );
        for body in [nested.clone(), call] {
            let response = fixture.send(session.post(&body)).await;
            assert!(matches!(response.status(), 200 | 400), "{}", response.status());
            let error = response.json();
            assert!(error.get("error").is_some() || error["result"]["isError"] == true, "{error}");
        }
    }
    assert_serves(&fixture).await;
}

#[tokio::test]
async fn random_bytes_do_not_affect_other_clients() {
    let fixture = Fixture::start().await;
    let mut random = fastrand::Rng::with_seed(7);
    let good = modern_call(1, "add", json!({ "a": 1, "b": 2 })).bytes();
    for n in 0..300 {
        let mut connection = fixture.connect().await;
        let mut bytes = good.clone();
        if n % 3 == 0 {
            bytes.resize(random.usize(1..2_000), 0);
            random.fill(&mut bytes);
        } else {
            for _ in 0..random.usize(1..6) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
        }
        let _ = within("the end of writing", connection.socket.write_all(&bytes)).await;
        let _ = connection.socket.shutdown().await;
        if let Some(response) = within("a response or the end of the connection", connection.try_response()).await {
            assert!(response.status() < 500, "{response}");
        }
    }
    assert_serves(&fixture).await;
}

#[tokio::test]
async fn two_lengths_of_one_body_are_refused() {
    let fixture = Fixture::start().await;
    for framing in ["Content-Length: 5\r\nContent-Length: 6", "Content-Length: x", "Content-Length: -1"] {
        let mut connection = fixture.connect().await;
        connection.write(&head_of(&call_of(1_000), framing)).await;
        if let Some(response) = within("a response or the end of the connection", connection.try_response()).await {
            assert_eq!(response.status(), 400, "{response}");
        }
    }
    assert_serves(&fixture).await;
}
