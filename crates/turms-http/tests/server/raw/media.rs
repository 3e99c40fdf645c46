//! `Accept` and `Content-Type` (basic/transports, "Sending Messages to the Server"). The specification names no status for wrong
//! values; the server responds with 406 and 415, as HTTP defines them.

use serde_json::Value;

use crate::dialog::{NEWEST_OLDER, Session, initialize, modern, request};
use crate::fixture::Fixture;
use crate::wire::Request;

const GOOD_ACCEPTS: [&str; 7] = [
    "application/json, text/event-stream",
    "text/event-stream,application/json",
    "application/json;q=0.9, text/event-stream;q=0.1",
    "Application/JSON, Text/Event-Stream",
    "*/*",
    "application/*, text/*",
    "text/html, application/json, text/event-stream, */*;q=0.1",
];

const BAD_ACCEPTS: [&str; 4] = ["application/json", "text/event-stream", "text/html", "image/*"];

#[tokio::test]
async fn a_post_must_take_json_and_streams_in_every_revision() {
    let fixture = Fixture::start().await;
    for good in GOOD_ACCEPTS {
        let first = fixture.send(Request::post(initialize(NEWEST_OLDER)).header("Accept", good)).await;
        assert_eq!(first.status(), 200, "{good}: {first}");
        let newest =
            fixture.send(modern(1, "tools/list", Value::Object(Default::default())).header("Accept", good)).await;
        assert_eq!(newest.status(), 200, "{good}: {newest}");
    }
    for bad in BAD_ACCEPTS {
        let first = fixture.send(Request::post(initialize(NEWEST_OLDER)).header("Accept", bad)).await;
        assert_eq!(first.status(), 406, "{bad}: {first}");
        assert!(first.json()["error"]["code"].is_i64(), "{first}");
        let newest =
            fixture.send(modern(1, "tools/list", Value::Object(Default::default())).header("Accept", bad)).await;
        assert_eq!(newest.status(), 406, "{bad}: {newest}");
    }
}

#[tokio::test]
async fn several_accept_headers_count_as_one() {
    let fixture = Fixture::start().await;
    let split = Request::post(initialize(NEWEST_OLDER)).header("Accept", "application/json");
    let response = fixture.send(split.also("Accept", "text/event-stream")).await;
    assert_eq!(response.status(), 200, "{response}");
}

#[tokio::test]
async fn a_get_must_take_streams() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    for open in [session.get(), Request::get().path("/sse")] {
        for bad in ["application/json", "text/html", "", "text/event-stream;q=0", "*/*, text/event-stream;q=0"] {
            let response = fixture.send(open.clone().header("Accept", bad)).await;
            assert_eq!(response.status(), 406, "{bad}: {response}");
        }
        let response = fixture.send(open.clone().without("Accept")).await;
        assert_eq!(response.status(), 406, "{response}");
        let message = response.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("Accept: text/event-stream"), "{message}");
        for good in ["text/event-stream", "text/*", "*/*", "Text/Event-Stream;q=0.5", "*/*;q=0, text/*"] {
            let stream = fixture.stream(open.clone().header("Accept", good)).await;
            assert_eq!(stream.head.status, 200, "{good}");
        }
    }
}

#[tokio::test]
async fn a_post_must_be_json() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let ping = session.post(request(2, "ping", None));
    for good in
        ["application/json", "application/json; charset=utf-8", "Application/JSON", "application/json;charset=UTF-8"]
    {
        let response = fixture.send(ping.clone().header("Content-Type", good)).await;
        assert_eq!(response.status(), 200, "{good}: {response}");
    }
    for bad in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json", ""] {
        let response = fixture.send(ping.clone().header("Content-Type", bad)).await;
        assert_eq!(response.status(), 415, "{bad}: {response}");
        assert!(response.json()["error"]["code"].is_i64(), "{response}");
    }
    let response = fixture.send(ping.without("Content-Type")).await;
    assert_eq!(response.status(), 415, "{response}");
}

/// The specification requires `Accept` on a POST, but clients that omit it are served as well.
#[tokio::test]
async fn a_post_without_accept_is_answered() {
    let fixture = Fixture::start().await;
    for request in [Request::post(initialize(NEWEST_OLDER)), modern(1, "tools/list", Value::Object(Default::default()))]
    {
        let response = fixture.send(request.without("Accept")).await;
        assert_eq!(response.status(), 200, "{response}");
        response.json();
    }
}
