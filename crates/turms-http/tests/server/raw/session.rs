//! Session ids, GET and DELETE (basic/transports, "Session Management" and "Listening for Messages from the Server").

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use turms_core::Limits;

use serde_json::{Value, json};
use turms_testkit::{eventually, within};

use crate::dialog::{NEWEST_OLDER, SESSIONS, Session, call, initialize, notification, request, with_progress};
use crate::fixture::{Fixture, count_roots_responses};
use crate::wire::Request;

#[tokio::test]
async fn a_session_id_is_visible_ascii_and_only_the_handshake_names_it() {
    let fixture = Fixture::start().await;
    for version in SESSIONS {
        let response = fixture.send(Request::post(initialize(version))).await;
        let id = response.header("mcp-session-id").unwrap();
        assert!(id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{id:?}");
    }
}

#[tokio::test]
async fn a_request_needs_the_id_of_its_session() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    for known in [
        session.post(request(2, "ping", None)),
        session.post(notification("notifications/initialized")),
        session.post(json!({ "jsonrpc": "2.0", "id": 1, "result": {} })),
        session.get(),
        session.delete(),
    ] {
        let missing = fixture.send(known.clone().without("Mcp-Session-Id")).await;
        assert_eq!(missing.status(), 400, "{known:?}: {missing}");
        for unknown in ["unknown", "\"", &"x".repeat(4000)] {
            let response = fixture.send(known.clone().session(unknown)).await;
            assert_eq!(response.status(), 404, "{known:?}: {response}");
        }
        let id = session.id.replace(|_: char| true, "x");
        assert_eq!(fixture.send(known.clone().session(&id)).await.status(), 404);
        assert_eq!(fixture.send(known.clone().session(&session.id[..session.id.len() - 1])).await.status(), 404);
    }
    assert_eq!(fixture.send(session.post(request(2, "ping", None))).await.result(), json!({}));
}

#[tokio::test]
async fn a_request_without_a_session_gets_a_json_rpc_error() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let ping = session.post(request("q", "ping", None));
    for response in
        [fixture.send(ping.clone().without("Mcp-Session-Id")).await, fixture.send(ping.session("unknown")).await]
    {
        let error = response.json();
        assert!(error["error"]["code"].is_i64(), "{response}");
        assert!(error.get("id").is_none_or(|id| id == "q" || id.is_null()), "{response}");
    }
}

#[tokio::test]
async fn two_session_ids_are_refused() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let other = Session::begin(&fixture, NEWEST_OLDER).await;
    let response = fixture.send(session.post(request(2, "ping", None)).also("Mcp-Session-Id", &other.id)).await;
    assert_eq!(response.status(), 400, "{response}");
}

#[tokio::test]
async fn a_deleted_session_is_unknown() {
    let fixture = Fixture::start().await;
    for version in SESSIONS {
        let session = Session::begin(&fixture, version).await;
        let other = Session::begin(&fixture, version).await;
        let standalone = fixture.stream(session.get()).await;
        let deleted = fixture.send(session.delete()).await;
        assert!((200..300).contains(&deleted.status()), "{deleted}");
        assert!(standalone.rest().await.is_empty(), "its streams end");
        for request in [
            session.post(request(2, "ping", None)),
            session.post(notification("notifications/initialized")),
            session.get(),
            session.delete(),
        ] {
            let response = fixture.send(request.clone()).await;
            assert_eq!(response.status(), 404, "{request:?}: {response}");
        }
        assert_eq!(fixture.send(other.post(request(2, "ping", None))).await.result(), json!({}));
    }
}

#[tokio::test]
async fn deleting_a_session_cancels_its_calls() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut stream = session.stream(&fixture, 7, "wait", json!({})).await;
    assert_eq!(stream.message().await["method"], "notifications/progress");
    fixture.send(session.delete()).await;
    eventually("the end of the call", async || fixture.traces.ended.load(Ordering::SeqCst) == 1).await;
    stream.rest().await;
}

#[tokio::test]
async fn the_standalone_stream_has_notifications_that_belong_to_no_request() {
    let fixture = Fixture::start().await;
    for version in SESSIONS {
        let session = Session::begin(&fixture, version).await;
        let mut standalone = fixture.stream(session.get()).await;
        let response = fixture.send(session.post(with_progress(call(7, "grow", json!({})), 7))).await;
        let own: Vec<_> = response.messages();
        assert!(own.iter().all(|message| message["method"] != "notifications/tools/list_changed"), "{response}");
        let heard = standalone.message().await;
        assert_eq!(heard["method"], "notifications/tools/list_changed");
        assert!(heard.get("id").is_none());
    }
}

/// Messages of a request are never sent on the standalone stream.
#[tokio::test]
async fn the_standalone_stream_carries_no_answers() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut standalone = fixture.stream(session.get()).await;
    let counted = fixture.send(session.post(with_progress(call(7, "count", json!({ "n": 5 })), 7))).await;
    assert_eq!(counted.messages().len(), 6, "{counted}");
    fixture.send(session.post(request(8, "ping", None))).await;
    session.call(&fixture, "grow", json!({})).await;
    assert_eq!(standalone.message().await["method"], "notifications/tools/list_changed", "its first message");
}

#[tokio::test]
async fn a_notification_is_sent_on_one_of_several_standalone_streams() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut streams = [fixture.stream(session.get()).await, fixture.stream(session.get()).await];
    for _ in 0..5 {
        session.call(&fixture, "grow", json!({})).await;
    }
    // Deletes the session so that its streams end.
    fixture.send(session.delete()).await;
    let mut heard = 0;
    for stream in &mut streams {
        while let Some(message) = stream.try_message().await {
            assert_eq!(message["method"], "notifications/tools/list_changed");
            heard += 1;
        }
    }
    // Changes in quick succession may share a notification, but none is sent twice.
    assert!((1..=5).contains(&heard), "{heard} messages for five changes");
}

#[tokio::test]
async fn without_sessions_older_clients_are_served_one_request_at_a_time() {
    let fixture = Fixture::with(turms_http::HttpService::without_sessions).await;
    for version in SESSIONS {
        let response = fixture.send(Request::post(initialize(version))).await;
        assert_eq!(response.result()["protocolVersion"], version);
        assert!(response.header("mcp-session-id").is_none(), "{response}");
        let later = |body: Value| {
            let post = Request::post(body);
            if version == "2025-03-26" { post } else { post.version(version) }
        };
        fixture.send(later(notification("notifications/initialized"))).await.assert_accepted();
        let response = fixture.send(later(call(2, "add", json!({ "a": 1, "b": 2 })))).await;
        assert_eq!(response.text(), "3");
        let response = fixture.send(later(with_progress(call(3, "count", json!({ "n": 3 })), 3))).await;
        assert_eq!(response.messages().len(), 4, "{response}");
        assert_eq!(fixture.send(later(request(4, "ping", None))).await.result(), json!({}));
        // Without a session, the server could not receive the response to its own request.
        for tool in ["greet", "think"] {
            let refused = fixture.send(later(call(5, tool, json!({ "question": "?" })))).await.answer();
            assert!(refused.get("error").is_some() || refused["result"]["isError"] == true, "{tool}: {refused}");
        }
        for request in [Request::get(), Request::delete()] {
            assert_eq!(fixture.send(request.version(version)).await.status(), 405);
        }
    }
}

#[tokio::test]
async fn responses_are_read_however_many_notifications_wait_for_them() {
    let answered = Arc::<AtomicUsize>::default();
    let fixture = Fixture::of(
        |server| count_roots_responses(server, &answered).limits(Limits::new().max_notifications(4)),
        |service| service,
    )
    .await;
    let session = Session::begin(&fixture, "2025-11-25").await;
    let mut stream = fixture.stream(session.get()).await;
    for _ in 0..8 {
        fixture.send(session.post(notification("notifications/roots/list_changed"))).await.assert_accepted();
    }
    let mut asked = Vec::new();
    for _ in 0..4 {
        asked.push(stream.message().await["id"].clone());
    }
    assert_eq!(fixture.send(session.post(request(1, "ping", None))).await.result(), json!({}));
    // The other four notifications wait until these requests have a response.
    for _ in 0..8 {
        let id = match asked.pop() {
            Some(id) => id,
            None => within("another request", stream.message()).await["id"].clone(),
        };
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": { "roots": [] } });
        fixture.send(session.post(answer)).await.assert_accepted();
    }
    eventually("all responses", async || answered.load(Ordering::SeqCst) == 8).await;
}

#[tokio::test]
async fn notifications_wait_up_to_the_limit() {
    let limits = Limits::new().max_notifications(2).max_queued(2);
    let answered = Arc::<AtomicUsize>::default();
    let fixture =
        Fixture::of(|server| count_roots_responses(server, &answered).limits(limits), |service| service).await;
    let session = Session::begin(&fixture, "2025-11-25").await;
    let mut stream = fixture.stream(session.get()).await;
    for _ in 0..8 {
        fixture.send(session.post(notification("notifications/roots/list_changed"))).await.assert_accepted();
    }
    for count in 1..=4 {
        let id = within("a request of the server", stream.message()).await["id"].clone();
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": { "roots": [] } });
        fixture.send(session.post(answer)).await.assert_accepted();
        eventually("the response", async || answered.load(Ordering::SeqCst) == count).await;
    }
    // The rest was dropped, and the next one is handled at once.
    fixture.send(session.post(notification("notifications/roots/list_changed"))).await.assert_accepted();
    within("a request of the server", stream.message()).await;
}
