//! Event streams: headers, first and last events, keep-alive comments, and calls whose stream breaks.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use turms_testkit::eventually;

use crate::dialog::{NEWEST_OLDER, SESSIONS, Session, cancelled, modern, modern_call, modern_stream, progress};
use crate::fixture::Fixture;
use crate::wire::{Head, Request, Stream};

#[track_caller]
fn assert_uncached(head: &Head) {
    assert_eq!(head.media_type(), Some("text/event-stream"));
    let cache = head.header("cache-control").expect("a cache-control header");
    assert!(cache.contains("no-cache") || cache.contains("no-store"), "{head:?}");
}

#[tokio::test]
async fn streams_are_neither_cached_nor_held_back() {
    let fixture = Fixture::start().await;
    let stream = fixture.stream(modern_stream(1, "wait", json!({}))).await;
    assert_uncached(&stream.head);
    assert_eq!(stream.head.header("x-accel-buffering"), Some("no"));
    let listen = modern(1, "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
    let stream = fixture.stream(listen).await;
    assert_uncached(&stream.head);
    assert_eq!(stream.head.header("x-accel-buffering"), Some("no"));
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    assert_uncached(&fixture.stream(session.get()).await.head);
    assert_uncached(&session.stream(&fixture, 1, "wait", json!({})).await.head);
    let old = fixture.stream(Request::get().path("/sse")).await;
    assert_uncached(&old.head);
}

/// Before 2025-11-25, events always had a message, and older clients would try to parse the empty data.
#[tokio::test]
async fn only_2025_11_25_begins_with_an_empty_event() {
    let fixture = Fixture::start().await;
    for version in SESSIONS {
        let session = Session::begin(&fixture, version).await;
        let mut stream = session.stream(&fixture, 1, "count", json!({ "n": 1 })).await;
        let first = stream.event().await;
        if version == NEWEST_OLDER {
            assert!(first.id.is_some(), "{first:?}");
            assert!(first.message().is_none(), "{first:?}");
        } else {
            assert_eq!(first.message().unwrap()["method"], "notifications/progress", "{version}");
        }
        while let Some(event) = stream.next().await {
            assert!(version == NEWEST_OLDER || event.comment || event.message().is_some(), "{version}: {event:?}");
        }
    }
    let response = fixture.send(modern_stream(1, "count", json!({ "n": 1 }))).await;
    assert!(response.events()[0].message().is_some(), "{response}");
}

#[tokio::test]
async fn the_standalone_stream_begins_as_the_others_do() {
    let fixture = Fixture::start().await;
    for version in SESSIONS {
        let session = Session::begin(&fixture, version).await;
        let mut stream = fixture.stream(session.get()).await;
        session.call(&fixture, "grow", json!({})).await;
        let first = stream.event().await;
        assert_eq!(first.message().is_none(), version == NEWEST_OLDER, "{version}: {first:?}");
        let last = first.id.unwrap();
        drop(stream);
        // Before 2025-11-25, a resumed stream has no empty event either.
        let mut stream = fixture.stream(session.resume(&last)).await;
        session.call(&fixture, "grow", json!({})).await;
        let next = stream.event().await;
        assert!(next.message().is_some() || version == NEWEST_OLDER, "{version}: {next:?}");
        fixture.send(session.delete()).await;
    }
}

#[tokio::test]
async fn every_event_of_a_session_has_an_id_of_its_own() {
    let fixture = Fixture::start().await;
    for version in SESSIONS {
        let session = Session::begin(&fixture, version).await;
        let mut ids = Vec::new();
        for n in 0..3 {
            let mut stream = session.stream(&fixture, n, "count", json!({ "n": 5 })).await;
            while let Some(event) = stream.next().await {
                if event.message().is_some() {
                    ids.push(event.id.unwrap());
                }
            }
        }
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!((count, ids.len()), (18, 18), "{version}");
    }
}

#[tokio::test]
async fn a_stream_ends_with_its_answer() {
    let fixture = Fixture::start().await;
    let stream = fixture.stream(modern_stream(1, "count", json!({ "n": 3 }))).await;
    let messages = stream.rest().await;
    assert_eq!(progress(&messages), [1, 2, 3]);
    assert_eq!(messages[3]["id"], 1);
    assert_eq!(messages.len(), 4);
}

/// Messages are sent at once, not when the call ends.
#[tokio::test]
async fn a_stream_is_not_held_back() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let older = fixture
        .stream(session.post(crate::dialog::with_progress(crate::dialog::call(1, "steps", json!({ "n": 5 })), 1)));
    // The server may send the head of the response with the first message, so the first step must not wait for it.
    fixture.traces.steps.add_permits(1);
    let mut stream = older.await;
    assert_eq!(progress(&[stream.message().await]), [1]);
    for step in 2..=5 {
        fixture.traces.steps.add_permits(1);
        assert_eq!(progress(&[stream.message().await]), [step]);
    }
    assert_eq!(stream.message().await["id"], 1);

    fixture.traces.steps.add_permits(1);
    let mut stream = fixture.stream(modern_stream(2, "steps", json!({ "n": 2 }))).await;
    assert_eq!(progress(&[stream.message().await]), [1]);
    fixture.traces.steps.add_permits(1);
    assert_eq!(progress(&[stream.message().await]), [2]);
    assert_eq!(stream.message().await["id"], 2);
}

async fn comments(stream: &mut Stream) {
    let mut heard = 0;
    while heard < 3 {
        let event = stream.next().await.expect("a stream that goes on");
        heard += usize::from(event.comment);
    }
}

#[tokio::test]
async fn a_quiet_stream_is_kept_alive_by_comments() {
    let fixture = Fixture::with(|service| service.keep_alive_interval(Duration::from_millis(20))).await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let listen = modern(1, "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
    comments(&mut fixture.stream(listen).await).await;
    comments(&mut fixture.stream(modern_stream(1, "wait", json!({}))).await).await;
    comments(&mut fixture.stream(session.get()).await).await;
    comments(&mut session.stream(&fixture, 1, "wait", json!({})).await).await;
    comments(&mut fixture.stream(Request::get().path("/sse")).await).await;
}

fn ended(fixture: &Fixture) -> usize {
    fixture.traces.ended.load(Ordering::SeqCst)
}

#[tokio::test]
async fn breaking_a_stream_cancels_its_call_in_the_newest_revision() {
    let fixture = Fixture::start().await;
    let mut stream = fixture.stream(modern_stream(1, "wait", json!({}))).await;
    stream.message().await;
    drop(stream);
    eventually("the end of the call", async || ended(&fixture) == 1).await;
}

/// Before its first message, a call has a connection, but no stream.
#[tokio::test]
async fn breaking_a_connection_cancels_its_call_in_the_newest_revision() {
    let fixture = Fixture::start().await;
    let mut connection = fixture.connect().await;
    connection.send(&modern_call(1, "wait", json!({}))).await;
    eventually("a call", async || fixture.traces.begun.load(Ordering::SeqCst) == 1).await;
    drop(connection);
    eventually("the end of the call", async || ended(&fixture) == 1).await;
}

/// Without a session, a request id does not identify the request of a client.
#[tokio::test]
async fn a_notification_cancels_no_request_in_the_newest_revision() {
    let fixture = Fixture::start().await;
    fixture.traces.steps.add_permits(1);
    let mut stream = fixture.stream(modern_stream("mine", "steps", json!({ "n": 2 }))).await;
    stream.message().await;
    let mut body = cancelled("mine");
    fixture.send(Request::post(&body).version("2026-07-28")).await.assert_accepted();
    body["params"]["_meta"] = crate::dialog::meta();
    fixture.send(Request::post(&body).version("2026-07-28")).await.assert_accepted();
    fixture.traces.steps.add_permits(1);
    assert_eq!(progress(&[stream.message().await]), [2]);
    assert_eq!(stream.message().await["id"], "mine");
}

/// Clients choose their ids independently of each other.
#[tokio::test]
async fn requests_of_the_same_id_do_not_disturb_each_other_in_the_newest_revision() {
    let fixture = Fixture::start().await;
    let mut connections = Vec::new();
    for _ in 0..5 {
        let mut connection = fixture.connect().await;
        connection.send(&modern_stream(1, "steps", json!({ "n": 2 }))).await;
        connections.push(connection);
    }
    eventually("all calls", async || fixture.traces.stepping.load(Ordering::SeqCst) == 5).await;
    fixture.traces.steps.add_permits(10);
    for mut connection in connections {
        let messages = connection.response().await.messages();
        assert_eq!(progress(&messages), [1, 2]);
        assert_eq!(messages[2]["id"], 1);
    }
}

#[tokio::test]
async fn breaking_a_stream_does_not_cancel_its_call_in_older_revisions() {
    let fixture = Fixture::start().await;
    for (n, version) in SESSIONS.into_iter().enumerate() {
        let session = Session::begin(&fixture, version).await;
        fixture.traces.steps.add_permits(1);
        let mut stream = session.stream(&fixture, 7, "steps", json!({ "n": 3 })).await;
        stream.message().await;
        drop(stream);
        // Other calls are served, and the first one continues.
        session.call(&fixture, "add", json!({ "a": 1, "b": 2 })).await;
        fixture.traces.steps.add_permits(2);
        eventually("the end of the call", async || fixture.traces.returned.load(Ordering::SeqCst) == n + 1).await;
    }
}

#[tokio::test]
async fn a_call_that_is_cancelled_in_older_revisions_ends_without_an_answer() {
    let fixture = Fixture::start().await;
    for (n, version) in SESSIONS.into_iter().enumerate() {
        let session = Session::begin(&fixture, version).await;
        let other = Session::begin(&fixture, version).await;
        let mut stream = session.stream(&fixture, "seven", "wait", json!({})).await;
        stream.message().await;
        // Neither an unknown id nor the same id in another session cancels anything.
        fixture.send(session.post(cancelled("eight"))).await.assert_accepted();
        fixture.send(other.post(cancelled("seven"))).await.assert_accepted();
        assert_eq!(ended(&fixture), n);
        fixture.send(session.post(cancelled("seven"))).await.assert_accepted();
        eventually("the end of the call", async || ended(&fixture) == n + 1).await;
        assert!(stream.rest().await.is_empty(), "{version}");
    }
}
