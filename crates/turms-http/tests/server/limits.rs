//! Configurable limits: what exceeds a limit is refused, and ended streams, calls and sessions free their slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use turms_server::Server;

use serde_json::json;
use tokio::sync::Semaphore;
use turms_core::{Limits, NotifyFuture};
use turms_http::SessionOptions;
use turms_proto::RawJson;
use turms_testkit::{eventually, within};

use crate::dialog::{
    NEWEST_OLDER, Session, call, cancelled, initialize, modern, modern_call, modern_stream, notification, progress,
    request, with_progress,
};
use crate::fixture::Fixture;
use crate::in_process::ask;
use crate::sessions::{MINUTE, begin, pass, ping, service};
use crate::wire::Request;

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
    // Another session has its own limit, and a closed stream frees a slot of this one.
    let other = Session::begin(&fixture, NEWEST_OLDER).await;
    fixture.stream(other.get()).await;
    streams.pop();
    eventually("room for another", async || is_open(&fixture, session.get()).await).await;
}

#[tokio::test]
async fn a_call_beyond_the_stream_limit_is_not_run() {
    let options = SessionOptions::new().max_streams(1);
    let fixture = Fixture::with(|service| service.sessions(options)).await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let listening = fixture.stream(session.get()).await;
    let wait = session.post(with_progress(call(7, "wait", json!({})), 7));
    for _ in 0..2 {
        let refused = fixture.send(wait.clone()).await;
        refused.assert_refused(429, -32050, &json!(7));
        assert!(refused.header("retry-after").is_some(), "{refused}");
    }
    // Notifications need no stream.
    fixture.send(session.post(cancelled(7))).await.assert_accepted();
    drop(listening);
    eventually("room for a call", async || is_open(&fixture, wait.clone()).await).await;
    assert_eq!(fixture.traces.begun.load(Ordering::SeqCst), 1, "refused calls are not run");
}

#[tokio::test]
async fn streams_that_have_ended_take_no_room() {
    const MAX: usize = 50;
    let options = SessionOptions::new().max_streams(MAX);
    let fixture = Fixture::with(|service| service.sessions(options)).await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut calls = Vec::new();
    for id in 0..MAX {
        calls.push(fixture.stream(session.post(call(id, "steps", json!({ "n": 1 })))).await);
    }
    fixture.traces.steps.add_permits(MAX);
    for stream in calls {
        stream.rest().await;
    }
    let mut open = Vec::new();
    eventually("room for as many as before", async || {
        let mut connection = fixture.connect().await;
        connection.send(&session.get()).await;
        if within("a response", connection.head()).await.status == 200 {
            open.push(connection);
        }
        open.len() == MAX
    })
    .await;
    assert_eq!(fixture.send(session.get()).await.status(), 429);
}

/// Returns `true` if a request gets a stream. Closes the stream at once.
async fn is_open(fixture: &Fixture, request: Request) -> bool {
    let mut connection = fixture.connect().await;
    connection.send(&request).await;
    within("a response", connection.head()).await.status == 200
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
        let code = response.json()["error"]["code"].as_i64();
        assert!(matches!((response.status(), code), (429, Some(-32050)) | (503, Some(-32051))), "{response}");
        assert!(response.header("retry-after").is_some(), "{response}");
    }
    // Calls that need no stream are served.
    assert_eq!(fixture.send(modern_call(1, "add", json!({ "a": 1, "b": 2 }))).await.text(), "3");
    streams.pop();
    eventually("room for another", async || is_open(&fixture, listen()).await).await;
}

#[tokio::test]
async fn a_session_runs_only_so_many_requests_at_once() {
    let narrow = |server: Server| server.limits(Limits::new().max_in_flight(2));
    let fixture = Fixture::of(narrow, |service| service).await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut running = Vec::new();
    for id in [1, 2] {
        let mut stream = session.stream(&fixture, id, "wait", json!({})).await;
        stream.message().await;
        running.push(stream);
    }
    let refused = fixture.send(session.post(call(3, "add", json!({ "a": 1, "b": 2 })))).await;
    assert_eq!(refused.json()["id"], 3, "{refused}");
    assert_eq!((refused.status(), refused.json()["error"]["code"].as_i64()), (200, Some(-32051)), "{refused}");
    assert_eq!(refused.json()["error"]["data"]["retryAfterMs"], 1000, "{refused}");
    let other = Session::begin(&fixture, NEWEST_OLDER).await;
    assert_eq!(other.call(&fixture, "add", json!({ "a": 1, "b": 2 })).await.text(), "3");
    fixture.send(session.post(cancelled(1))).await.assert_accepted();
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
    if let Some(response) = within("a response or the end of the connection", connection.try_response()).await {
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
async fn long_messages_within_the_limits_work_in_both_directions() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let long = "ä".repeat(1_500_000);
    assert_eq!(fixture.send(modern_call(1, "echo", json!({ "text": long }))).await.text(), long);
    assert_eq!(session.call(&fixture, "echo", json!({ "text": long })).await.text(), long);
}

/// The session keeps the params of `initialize` as long as it exists.
#[tokio::test]
async fn the_params_of_initialize_have_a_size_limit() {
    const MAX: usize = 64 * 1024;
    let fixture = Fixture::start().await;
    let mut hello = initialize(NEWEST_OLDER);
    hello["params"]["more"] = "".into();
    let rest = MAX - hello["params"].to_string().len();
    hello["params"]["more"] = "x".repeat(rest).into();
    let taken = fixture.send(Request::post(&hello)).await;
    assert!(taken.header("mcp-session-id").is_some(), "{taken}");
    hello["params"]["more"] = "x".repeat(rest + 1).into();
    let refused = fixture.send(Request::post(&hello)).await;
    refused.assert_refused(400, -32602, &json!(1));
    assert!(refused.header("mcp-session-id").is_none(), "{refused}");
    assert_eq!(fixture.handle.sessions().len(), 1, "only the accepted session is open");
}

#[tokio::test]
async fn the_number_of_concurrent_notification_handlers_is_limited() {
    let (heard, gate) = (Arc::<AtomicUsize>::default(), Arc::new(Semaphore::new(0)));
    let (counted, held) = (heard.clone(), gate.clone());
    let hear_slowly = move |method: String, _: RawJson, _| -> NotifyFuture {
        if method != "notifications/slow" {
            return Box::pin(async {});
        }
        counted.fetch_add(1, Ordering::SeqCst);
        let held = held.clone();
        Box::pin(async move { held.acquire().await.unwrap().forget() })
    };
    let narrow = |server: Server| {
        server.notification_fallback(hear_slowly).limits(Limits::new().max_notifications(4).max_queued(4))
    };
    let fixture = Fixture::of(narrow, |service| service).await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let slow = session.post(notification("notifications/slow"));
    for _ in 0..50 {
        fixture.send(slow.clone()).await.assert_accepted();
    }
    assert_eq!(heard.load(Ordering::SeqCst), 4);
    // Calls and other sessions have limits of their own.
    assert_eq!(session.call(&fixture, "add", json!({ "a": 1, "b": 2 })).await.text(), "3");
    let other = Session::begin(&fixture, NEWEST_OLDER).await;
    fixture.send(other.post(notification("notifications/slow"))).await.assert_accepted();
    assert_eq!(heard.load(Ordering::SeqCst), 5);
    // The four queued notifications run now. The others were dropped.
    gate.add_permits(5);
    eventually("the queued notifications", async || heard.load(Ordering::SeqCst) == 9).await;
    gate.add_permits(4);
    eventually("room for another", async || {
        fixture.send(slow.clone()).await.assert_accepted();
        heard.load(Ordering::SeqCst) > 9
    })
    .await;
}

#[tokio::test]
async fn handlers_of_notifications_end_with_their_session() {
    let (started, running) = (Arc::<AtomicUsize>::default(), Arc::new(()));
    let (counted, held) = (started.clone(), running.clone());
    let wait = move |method: String, _: RawJson, _| -> NotifyFuture {
        if method != "notifications/slow" {
            return Box::pin(async {});
        }
        counted.fetch_add(1, Ordering::SeqCst);
        let held = held.clone();
        Box::pin(async move {
            std::future::pending::<()>().await;
            drop(held);
        })
    };
    let limited = |server: Server| server.notification_fallback(wait).limits(Limits::new().max_notifications(2));
    let fixture = Fixture::of(limited, |service| service).await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let without = Arc::strong_count(&running);
    for _ in 0..3 {
        fixture.send(session.post(notification("notifications/slow"))).await.assert_accepted();
    }
    assert_eq!((started.load(Ordering::SeqCst), Arc::strong_count(&running)), (2, without + 2));
    fixture.send(session.delete()).await;
    eventually("the end of the handlers", async || Arc::strong_count(&running) == without).await;
    assert_eq!(started.load(Ordering::SeqCst), 2, "a notification of a session that is closed is not handled");
}

#[tokio::test(start_paused = true)]
async fn sessions_may_be_kept_for_ever() {
    let options = SessionOptions::new()
        .idle_timeout(Duration::MAX)
        .event_retention(Duration::MAX)
        .max_sessions(usize::MAX)
        .max_streams(usize::MAX);
    let service = service(options)
        .keep_alive_interval(Duration::MAX)
        .body_timeout(Duration::MAX)
        .max_body_bytes(usize::MAX)
        .max_streams(usize::MAX);
    let session = begin(&service, None).await;
    let counted = ask(&service, &session.post(with_progress(call(7, "count", json!({ "n": 3 })), 7))).await;
    assert_eq!(progress(&counted.messages()), [1, 2, 3]);
    pass(24 * 60 * MINUTE).await;
    assert_eq!(ping(&service, &session).await, 200);
    let first = counted.events()[0].id.clone().unwrap();
    assert_eq!(ask(&service, &session.resume(&first)).await.messages(), counted.messages());
}

#[tokio::test]
async fn a_listener_may_wait_for_ever() {
    let fixture = Fixture::listening(
        |server| server,
        |service| service.keep_alive_interval(Duration::MAX).body_timeout(Duration::MAX),
        |listener| {
            let listener = listener.header_timeout(Duration::MAX).write_timeout(Duration::MAX);
            listener.drain_timeout(Duration::MAX).max_connections(usize::MAX)
        },
    )
    .await;
    assert_eq!(fixture.send(modern_call(1, "add", json!({ "a": 1, "b": 2 }))).await.text(), "3");
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut standalone = fixture.stream(session.get()).await;
    session.call(&fixture, "grow", json!({})).await;
    assert_eq!(standalone.message().await["method"], "notifications/tools/list_changed");
    let mut old = fixture.stream(Request::get().path("/sse")).await;
    assert_eq!(old.event().await.kind.as_deref(), Some("endpoint"));
    // HTTP/2 has timers of its own.
    let mut second = fixture.connect().await;
    second.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    within("a response", second.socket.readable()).await.unwrap();
    assert!(second.socket.try_read(&mut [0; 9]).is_ok_and(|read| read > 0));
    drop((standalone, old, second));
    fixture.shut_down().await;
}
