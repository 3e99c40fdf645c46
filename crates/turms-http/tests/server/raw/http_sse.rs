//! HTTP+SSE of 2024-11-05 (basic/transports, "HTTP with SSE").

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use turms_core::Limits;
use turms_testkit::eventually;

use crate::dialog::{call, cancelled, initialize, notification, progress, request, with_progress};
use crate::fixture::{Fixture, count_roots_responses};
use crate::wire::{Request, Stream};

/// A client with an open stream that has received the endpoint for its messages.
struct Old {
    stream: Stream,
    endpoint: String,
}

impl Old {
    async fn connect(fixture: &Fixture) -> Self {
        Self::connect_below(fixture, "").await
    }

    /// Connects to the transport under this path.
    async fn connect_below(fixture: &Fixture, parent: &str) -> Self {
        let mut stream = fixture.stream(Request::get().path(format!("{parent}/sse"))).await;
        let first = stream.event().await;
        assert_eq!(first.kind.as_deref(), Some("endpoint"), "{first:?}");
        let endpoint = first.data.unwrap();
        // The endpoint is relative to the URL of the stream, or has the same origin.
        let own = format!("http://{}", fixture.address);
        let endpoint = endpoint.strip_prefix(&own).unwrap_or(&endpoint);
        assert!(!endpoint.contains("://"), "{endpoint}");
        let endpoint = if endpoint.starts_with('/') { endpoint.to_owned() } else { format!("{parent}/{endpoint}") };
        Self { stream, endpoint }
    }

    /// Connects and performs the handshake.
    async fn begin(fixture: &Fixture) -> Self {
        let mut old = Self::connect(fixture).await;
        old.say(fixture, initialize("2024-11-05")).await;
        let answer = old.stream.message().await;
        assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(1), &json!("2024-11-05")));
        old.say(fixture, notification("notifications/initialized")).await;
        old
    }

    fn post(&self, body: impl ToString) -> Request {
        Request::post(body).path(&self.endpoint).without("Accept")
    }

    async fn say(&self, fixture: &Fixture, body: Value) {
        let response = fixture.send(self.post(body)).await;
        assert!((200..300).contains(&response.status()), "{response}");
    }
}

#[tokio::test]
async fn everything_that_is_answered_comes_on_the_one_stream() {
    let fixture = Fixture::start().await;
    let mut old = Old::begin(&fixture).await;
    old.say(&fixture, request("two", "ping", None)).await;
    assert_eq!(old.stream.message().await, json!({ "jsonrpc": "2.0", "id": "two", "result": {} }));
    old.say(&fixture, with_progress(call(3, "count", json!({ "n": 3 })), 3)).await;
    let messages = [
        old.stream.message().await,
        old.stream.message().await,
        old.stream.message().await,
        old.stream.message().await,
    ];
    assert_eq!(progress(&messages), [1, 2, 3]);
    assert_eq!(messages[3]["result"]["content"][0]["text"], "counted to 3");
    old.say(&fixture, request(4, "no/such/method", None)).await;
    assert_eq!(old.stream.message().await["error"]["code"], -32601);
    old.say(&fixture, call(5, "grow", json!({}))).await;
    let both = [old.stream.message().await, old.stream.message().await];
    assert!(both.iter().any(|message| message["method"] == "notifications/tools/list_changed"), "{both:?}");
    assert!(both.iter().any(|message| message["id"] == 5), "{both:?}");
}

#[tokio::test]
async fn the_transport_may_be_anywhere() {
    let fixture = Fixture::start().await;
    let mut old = Old::connect_below(&fixture, "/some/where").await;
    old.say(&fixture, initialize("2024-11-05")).await;
    assert_eq!(old.stream.message().await["result"]["protocolVersion"], "2024-11-05");
}

#[tokio::test]
async fn events_have_the_type_message() {
    let fixture = Fixture::start().await;
    let mut old = Old::begin(&fixture).await;
    old.say(&fixture, request(2, "ping", None)).await;
    let event = old.stream.event().await;
    assert!(matches!(event.kind.as_deref(), None | Some("message")), "{event:?}");
}

#[tokio::test]
async fn a_long_message_comes_whole() {
    let fixture = Fixture::start().await;
    let mut old = Old::begin(&fixture).await;
    let long = "ä".repeat(1024 * 1024);
    old.say(&fixture, call(2, "echo", json!({ "text": long }))).await;
    let answer = old.stream.message().await;
    assert!(answer["result"]["content"][0]["text"] == long, "the text differs");
    old.say(&fixture, request(3, "ping", None)).await;
    assert_eq!(old.stream.message().await["id"], 3);
}

#[tokio::test]
async fn a_tool_asks_and_is_answered() {
    let fixture = Fixture::start().await;
    let mut old = Old::begin(&fixture).await;
    old.say(&fixture, call(2, "think", json!({ "question": "The capital?" }))).await;
    let question = old.stream.message().await;
    assert_eq!(question["method"], "sampling/createMessage");
    let content = json!({ "type": "text", "text": "Paris" });
    let result = json!({ "role": "assistant", "model": "parrot", "content": content });
    old.say(&fixture, json!({ "jsonrpc": "2.0", "id": question["id"], "result": result })).await;
    assert_eq!(old.stream.message().await["result"]["content"][0]["text"], "parrot: Paris");
}

#[tokio::test]
async fn newer_revisions_shake_hands_here_too() {
    let fixture = Fixture::start().await;
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut old = Old::connect(&fixture).await;
        old.say(&fixture, initialize(version)).await;
        assert_eq!(old.stream.message().await["result"]["protocolVersion"], version);
    }
}

#[tokio::test]
async fn the_end_of_the_stream_is_the_end_of_the_session() {
    let fixture = Fixture::start().await;
    let mut old = Old::begin(&fixture).await;
    old.say(&fixture, with_progress(call(2, "wait", json!({})), 2)).await;
    old.stream.message().await;
    let post = old.post(request(3, "ping", None));
    drop(old);
    eventually("the end of the call", async || fixture.traces.ended.load(Ordering::SeqCst) == 1).await;
    eventually("the end of the session", async || fixture.send(post.clone()).await.status() == 404).await;
}

#[tokio::test]
async fn messages_without_a_valid_session_are_refused() {
    let fixture = Fixture::start().await;
    let old = Old::begin(&fixture).await;
    let ping = request(2, "ping", None);
    let (path, query) = old.endpoint.split_once('?').expect("the endpoint names the session in its query");
    assert_eq!(path, "/messages");
    for wrong in
        [path.to_owned(), format!("{path}?"), format!("{path}?{}", query.replace(|c: char| c.is_ascii_digit(), "x"))]
    {
        if wrong == old.endpoint {
            continue;
        }
        let response = fixture.send(Request::post(&ping).path(&wrong)).await;
        assert!(matches!(response.status(), 400 | 404), "{wrong}: {response}");
    }
    for bad in [old.post("{"), old.post("1")] {
        assert_eq!(fixture.send(bad).await.status(), 400);
    }
    let text = old.post(&ping).header("Content-Type", "text/plain");
    assert_eq!(fixture.send(text).await.status(), 415);
}

#[tokio::test]
async fn each_session_gets_its_own_responses_only() {
    let fixture = Fixture::start().await;
    let mut one = Old::begin(&fixture).await;
    let mut two = Old::begin(&fixture).await;
    assert_ne!(one.endpoint, two.endpoint);
    for n in 0..10 {
        one.say(&fixture, request(format!("one-{n}"), "ping", None)).await;
        two.say(&fixture, request(format!("two-{n}"), "ping", None)).await;
    }
    for n in 0..10 {
        assert_eq!(one.stream.message().await["id"], format!("one-{n}"));
        assert_eq!(two.stream.message().await["id"], format!("two-{n}"));
    }
}

#[tokio::test]
async fn requests_from_another_origin_or_host_are_refused() {
    let fixture = Fixture::start().await;
    let old = Old::begin(&fixture).await;
    for request in [Request::get().path("/sse"), old.post(request(2, "ping", None))] {
        let response = fixture.send(request.clone().header("Origin", "http://evil.example")).await;
        assert_eq!(response.status(), 403, "{request:?}: {response}");
        let response = fixture.send(request.header("Host", "evil.example")).await;
        assert!((400..500).contains(&response.status()), "{response}");
    }
}

#[tokio::test]
async fn a_second_initialize_begins_another_session() {
    let fixture = Fixture::start().await;
    let mut old = Old::begin(&fixture).await;
    old.say(&fixture, call(1, "wait", json!({}))).await;
    old.say(&fixture, call("left", "wait", json!({}))).await;
    eventually("two calls", async || fixture.traces.begun.load(Ordering::SeqCst) == 2).await;
    old.say(&fixture, initialize("2024-11-05")).await;
    let ended = old.stream.message().await;
    assert_eq!((&ended["id"], &ended["error"]["code"]), (&json!("left"), &json!(-32603)));
    let answer = old.stream.message().await;
    assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(1), &json!("2024-11-05")));
    eventually("their end", async || fixture.traces.ended.load(Ordering::SeqCst) == 2).await;
    old.say(&fixture, notification("notifications/initialized")).await;
    old.say(&fixture, call(2, "add", json!({ "a": 1, "b": 1 }))).await;
    assert_eq!(old.stream.message().await["result"]["content"][0]["text"], "2");
}

/// Limits of one concurrent call and 4 KiB of queued calls.
fn narrow() -> Limits {
    let mut options = Limits::default();
    (options.max_in_flight, options.max_queued_bytes) = (1, 4 * 1024);
    options
}

#[tokio::test]
async fn queued_calls_are_counted_by_the_bytes_they_keep() {
    let fixture = Fixture::of(|server| server.limits(narrow()), |service| service).await;
    let mut old = Old::begin(&fixture).await;
    old.say(&fixture, call("first", "wait", json!({}))).await;
    for id in 0..8 {
        let mut with_junk = call(id, "add", json!({ "a": id, "b": 0 }));
        with_junk["junk"] = "x".repeat(64 * 1024).into();
        old.say(&fixture, with_junk).await;
    }
    let long_id = "x".repeat(4 * 1024);
    old.say(&fixture, call(long_id.as_str(), "add", json!({ "a": 0, "b": 0 }))).await;
    let refused = old.stream.message().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(long_id), &json!(-32051)));
    old.say(&fixture, cancelled("first")).await;
    for id in 0..8 {
        let answer = old.stream.message().await;
        assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(id), &json!(id.to_string())));
    }
}

#[tokio::test]
async fn responses_are_read_however_many_notifications_wait_for_them() {
    let mut options = Limits::default();
    options.max_notifications = 4;
    let answered = Arc::<AtomicUsize>::default();
    let fixture =
        Fixture::of(|server| count_roots_responses(server, &answered).limits(options), |service| service).await;
    let mut old = Old::begin(&fixture).await;
    for _ in 0..8 {
        old.say(&fixture, notification("notifications/roots/list_changed")).await;
    }
    old.say(&fixture, request("ping", "ping", None)).await;
    let mut asked = Vec::new();
    let mut pongs = 0;
    while asked.len() < 4 || pongs == 0 {
        let message = old.stream.message().await;
        if message["method"] == "roots/list" {
            asked.push(message["id"].clone());
        } else {
            assert_eq!(message["id"], "ping");
            pongs += 1;
        }
    }
    while let Some(id) = asked.pop() {
        old.say(&fixture, json!({ "jsonrpc": "2.0", "id": id, "result": { "roots": [] } })).await;
    }
    for _ in 0..4 {
        assert_eq!(old.stream.message().await["method"], "roots/list");
    }
    assert_eq!(answered.load(Ordering::SeqCst), 4);
}
