//! Sessions: expiry, deletion, limits, and the principal that owns them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use turms_core::Principal;
use turms_core::store::{MemorySessionStore, SessionStore as _};
use turms_http::{HttpService, ServeHttp as _, SessionOptions};
use turms_proto::ErrorObject;
use turms_server::{Server, Tool};
use turms_testkit::{eventually, within};

use crate::dialog::{
    NEWEST_OLDER, Session, call, cancelled, initialize, modern, modern_call, notification, request, with_progress,
};
use crate::fixture::{Fixture, server};
use crate::in_process::{Events, ask, ask_as, ask_by, open, open_by};
use crate::wire::Request;

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

pub(crate) fn service(sessions: SessionOptions) -> HttpService {
    server(&Arc::default()).into_http_service().unwrap().sessions(sessions)
}

/// Performs the handshake without a socket.
pub(crate) async fn begin(service: &HttpService, who: Option<&str>) -> Session {
    let response = ask_as(service, &Request::post(initialize(NEWEST_OLDER)), who).await;
    assert_eq!(response.status(), 200, "{response}");
    let id = response.header("mcp-session-id").unwrap().to_owned();
    let session = Session { id, version: NEWEST_OLDER };
    let initialized = session.post(notification("notifications/initialized"));
    ask_as(service, &initialized, who).await.assert_accepted();
    session
}

/// Advances the paused clock and runs the tasks whose timers expire.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

pub(crate) async fn ping(service: &HttpService, session: &Session) -> u16 {
    ask(service, &session.post(request(2, "ping", None))).await.status()
}

#[tokio::test(start_paused = true)]
async fn an_unused_session_expires() {
    let service = service(SessionOptions::new().idle_timeout(10 * MINUTE));
    let session = begin(&service, None).await;
    for _ in 0..5 {
        pass(9 * MINUTE).await;
        assert_eq!(ping(&service, &session).await, 200, "each request restarts the idle timeout");
    }
    pass(11 * MINUTE).await;
    assert_eq!(ping(&service, &session).await, 404);
    for request in [session.get(), session.delete(), session.post(notification("notifications/x"))] {
        assert_eq!(ask(&service, &request).await.status(), 404);
    }
}

/// Not every request touches the session in the store, but the idle timeout counts from the last request.
#[tokio::test(start_paused = true)]
async fn the_idle_timeout_counts_from_the_last_request() {
    let service = service(SessionOptions::new().idle_timeout(80 * MINUTE));
    let session = begin(&service, None).await;
    for _ in 0..3 {
        pass(9 * MINUTE).await;
        assert_eq!(ping(&service, &session).await, 200);
        pass(79 * MINUTE).await;
        assert_eq!(ping(&service, &session).await, 200);
    }
    pass(81 * MINUTE).await;
    assert_eq!(ping(&service, &session).await, 404);
}

#[tokio::test(start_paused = true)]
async fn an_open_stream_keeps_a_session() {
    let service = service(SessionOptions::new().idle_timeout(10 * MINUTE));
    let session = begin(&service, None).await;
    let (head, body) = open(&service, &session.get(), None).await;
    assert_eq!(head.status, 200);
    let reading = tokio::spawn(async move {
        let mut body = std::pin::pin!(body);
        while std::future::poll_fn(|task| http_body::Body::poll_frame(body.as_mut(), task)).await.is_some() {}
    });
    pass(60 * MINUTE).await;
    assert!(!reading.is_finished(), "the stream has ended");
    assert_eq!(ping(&service, &session).await, 200);
    reading.abort();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_runs_keeps_a_session() {
    let traces = Arc::default();
    let service =
        server(&traces).into_http_service().unwrap().sessions(SessionOptions::new().idle_timeout(10 * MINUTE));
    let session = begin(&service, None).await;
    let post = session.post(with_progress(call(7, "steps", json!({ "n": 1 })), 7));
    let running = {
        let service = service.clone();
        tokio::spawn(async move { ask(&service, &post).await })
    };
    pass(60 * MINUTE).await;
    traces.steps.add_permits(1);
    assert_eq!(running.await.unwrap().text(), "counted to 1");
    assert_eq!(ping(&service, &session).await, 200);
}

#[tokio::test(start_paused = true)]
async fn there_are_only_so_many_sessions() {
    let service = service(SessionOptions::new().idle_timeout(10 * MINUTE).max_sessions(3));
    let kept = begin(&service, None).await;
    let gone = begin(&service, None).await;
    let idle = begin(&service, None).await;
    let full = Request::post(initialize(NEWEST_OLDER));
    let refused = ask(&service, &full).await;
    assert!(matches!(refused.status(), 429 | 503), "{refused}");
    assert!(refused.header("mcp-session-id").is_none(), "{refused}");
    assert!(refused.json()["error"]["code"].is_i64(), "{refused}");
    for session in [&kept, &gone, &idle] {
        assert_eq!(ping(&service, session).await, 200, "existing sessions are not evicted");
    }
    // A deleted session and an expired one free their slots.
    ask(&service, &gone.delete()).await;
    let next = begin(&service, None).await;
    assert!(matches!(ask(&service, &full).await.status(), 429 | 503));
    pass(9 * MINUTE).await;
    assert_eq!((ping(&service, &kept).await, ping(&service, &next).await), (200, 200));
    pass(2 * MINUTE).await;
    begin(&service, None).await;
    assert_eq!(ping(&service, &idle).await, 404);
    assert_eq!(ping(&service, &kept).await, 200);
}

#[tokio::test]
async fn a_session_belongs_to_the_principal_that_began_it() {
    let service = service(SessionOptions::new());
    let session = begin(&service, Some("ann")).await;
    let who = session.post(call(2, "who", json!({})));
    assert_eq!(ask_as(&service, &who, Some("ann")).await.text(), "ann");
    for stranger in [Some("bob"), Some(""), None] {
        for request in [
            who.clone(),
            session.post(request(2, "ping", None)),
            session.post(notification("notifications/cancelled")),
            session.post(json!({ "jsonrpc": "2.0", "id": 1, "result": {} })),
            session.get(),
            session.resume("1-1"),
            session.delete(),
        ] {
            let response = ask_as(&service, &request, stranger).await;
            // The response does not reveal that the session exists.
            assert_eq!(response.status(), 404, "{stranger:?}: {request:?}: {response}");
        }
    }
    assert_eq!(ask_as(&service, &who, Some("ann")).await.text(), "ann", "the refused requests had no effect");
}

#[tokio::test]
async fn a_session_without_a_principal_refuses_requests_with_one() {
    let service = service(SessionOptions::new());
    let session = begin(&service, None).await;
    let who = session.post(call(2, "who", json!({})));
    assert_eq!(ask(&service, &who).await.text(), "nobody");
    assert_eq!(ask_as(&service, &who, Some("ann")).await.status(), 404);
}

/// Another process loads a session from the store, but only for its owner.
#[tokio::test]
async fn another_process_serves_a_session_to_its_owner_only() {
    let sessions = Arc::new(MemorySessionStore::new(10));
    let options = || SessionOptions::new().session_store(sessions.clone());
    let session = begin(&service(options()), Some("ann")).await;
    let opened = Arc::<AtomicUsize>::default();
    let counted = opened.clone();
    let server = server(&Arc::default()).on_session_start(move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok(()) }
    });
    let elsewhere = server.into_http_service().unwrap().sessions(options());
    for stranger in [Some("bob"), Some(""), None] {
        for request in [session.post(request(2, "ping", None)), session.get(), session.delete()] {
            assert_eq!(ask_as(&elsewhere, &request, stranger).await.status(), 404, "{stranger:?}");
        }
    }
    assert_eq!((opened.load(Ordering::SeqCst), elsewhere.session_count()), (0, 0));
    let who = ask_as(&elsewhere, &session.post(call(2, "who", json!({}))), Some("ann")).await;
    assert_eq!(who.text(), "ann");
    assert_eq!((opened.load(Ordering::SeqCst), elsewhere.session_count()), (1, 1));
}

#[tokio::test]
async fn a_session_that_the_server_refuses_is_removed_at_once() {
    for is_late in [false, true] {
        let sessions = Arc::new(MemorySessionStore::new(1));
        let (decide, decided) = tokio::sync::watch::channel(!is_late);
        let server = server(&Arc::default()).on_session_start(move |_, _| {
            let mut decided = decided.clone();
            async move {
                let _ = decided.wait_for(|decided| *decided).await;
                Err(ErrorObject::invalid_request("not today"))
            }
        });
        let service =
            server.into_http_service().unwrap().sessions(SessionOptions::new().session_store(sessions.clone()));
        let request = Request::post(initialize(NEWEST_OLDER));
        let refusal = ask(&service, &request);
        let decision = async {
            if is_late {
                eventually("a session that is stored", async || service.session_count() == 1).await;
                decide.send_replace(true);
            }
        };
        let (refused, ()) = tokio::join!(refusal, decision);
        assert_eq!(refused.messages()[0]["error"]["message"], "not today", "{refused}");
        eventually("no session", async || service.session_count() == 0).await;
        if let Some(id) = refused.header("mcp-session-id") {
            let session = Session { id: id.to_owned(), version: NEWEST_OLDER };
            assert!(sessions.load(id).await.unwrap().is_none(), "the record of the session is removed");
            assert_eq!(ping(&service, &session).await, 404);
        }
        assert_eq!(refused.header("mcp-session-id").is_some(), is_late, "{refused}");
    }
}

#[tokio::test]
async fn streams_of_other_principals_cannot_be_resumed() {
    let service = service(SessionOptions::new());
    let session = begin(&service, Some("ann")).await;
    let count = session.post(with_progress(call(7, "count", json!({ "n": 3 })), "secret"));
    let counted = ask_as(&service, &count, Some("ann")).await;
    let first = counted.events()[0].id.clone().unwrap();
    let again = ask_as(&service, &session.resume(&first), Some("ann")).await;
    assert!(String::from_utf8_lossy(&again.body).contains("secret"), "{again}");
    let stolen = ask_as(&service, &session.resume(&first), Some("bob")).await;
    assert_eq!(stolen.status(), 404, "{stolen}");
    // The event id is invalid in another session, too.
    let own = begin(&service, Some("bob")).await;
    let stolen = ask_as(&service, &own.resume(&first), Some("bob")).await;
    assert!(!String::from_utf8_lossy(&stolen.body).contains("secret"), "{stolen}");
}

/// The endpoint is secret, but a message also needs the principal that opened the stream.
#[tokio::test]
async fn http_sse_refuses_messages_of_other_principals() {
    let service = service(SessionOptions::new());
    let ann = Principal::new("ann").with_issuer("https://a").with_scopes(["read"]);
    let (head, body) = open_by(&service, &Request::get().path("/sse"), Some(ann.clone())).await;
    assert_eq!(head.status, 200);
    let mut body = std::pin::pin!(body);
    let frame = std::future::poll_fn(|task| http_body::Body::poll_frame(body.as_mut(), task)).await.unwrap().unwrap();
    let first = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
    let endpoint = first.lines().find_map(|line| line.strip_prefix("data:")).unwrap().trim();
    let post = Request::post(initialize("2024-11-05")).path(format!("/{}", endpoint.trim_start_matches('/')));
    let elsewhere = |issuer: &str| ann.clone().with_issuer(issuer);
    let bob = Principal::new("bob").with_issuer("https://a").with_scopes(["read"]);
    for stranger in [Some(bob), None, Some(elsewhere("https://b")), Some(Principal::new("ann"))] {
        let refused = ask_by(&service, &post, stranger).await;
        assert_eq!(refused.status(), 404, "{refused}");
    }
    assert_eq!(ask_by(&service, &post, Some(ann)).await.status(), 202);
}

/// After a step-up authorization, a client sends another token and keeps its stream.
#[tokio::test]
async fn a_call_over_http_sse_has_the_principal_of_its_own_post() {
    let tool = Tool::builder("scopes").handler_sync(|who: Principal| who.scopes().join(" "));
    let service = Server::new("s", "1").tool(tool).into_http_service().unwrap();
    let ann = |scopes: &[&str]| Some(Principal::new("ann").with_scopes(scopes.iter().copied()));
    let (_, body) = open_by(&service, &Request::get().path("/sse"), ann(&["read"])).await;
    let mut events = Events::new(body);
    let endpoint = events.next().await.unwrap();
    let post = |body: Value| Request::post(body).path(format!("/{endpoint}"));
    ask_by(&service, &post(initialize("2024-11-05")), ann(&["read"])).await.assert_accepted();
    events.next().await;
    for scopes in [&["read", "write"][..], &["read"], &[], &["read", "write"]] {
        ask_by(&service, &post(call(2, "scopes", json!({}))), ann(scopes)).await.assert_accepted();
        let answer: Value = serde_json::from_str(&events.next().await.unwrap()).unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], scopes.join(" "), "{answer}");
    }
}

/// A session id of one transport is unknown to the other one.
#[tokio::test]
async fn sessions_of_both_transports_are_not_mixed_up() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut old = fixture.stream(Request::get().path("/sse")).await;
    let endpoint = old.event().await.data.unwrap();
    let (path, query) = endpoint.split_once('?').unwrap();
    let (name, id) = query.split_once('=').unwrap();
    let as_new = Session { id: id.to_owned(), version: NEWEST_OLDER };
    assert_eq!(fixture.send(as_new.post(request(2, "ping", None))).await.status(), 404);
    assert_eq!(fixture.send(as_new.delete()).await.status(), 404);
    let as_old = format!("/{}?{name}={}", path.trim_start_matches('/'), session.id);
    let refused = fixture.send(Request::post(request(2, "ping", None)).path(as_old)).await;
    assert!(matches!(refused.status(), 400 | 404), "{refused}");
}

/// In 2026-07-28, `requestState` is bound to the principal and the tool of the request.
#[tokio::test]
async fn the_request_state_is_bound_to_its_principal_and_tool() {
    let service = service(SessionOptions::new());
    let asked = ask_as(&service, &modern_call(1, "greet", json!({})), Some("ann")).await.result();
    let (key, _) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    let params = |tool: &str| {
        let answers = json!({ key: { "action": "accept", "content": { "name": "Ann" } } });
        json!({ "name": tool, "arguments": {}, "inputResponses": answers, "requestState": asked["requestState"] })
    };
    let retry = modern(2, "tools/call", params("greet"));
    for stranger in [Some("bob"), None] {
        let refused = ask_as(&service, &retry, stranger).await;
        assert_eq!(refused.json()["error"]["code"], -32602, "{refused}");
    }
    let other = ask_as(&service, &modern(3, "tools/call", params("who")), Some("ann")).await;
    assert_eq!(other.json()["error"]["code"], -32602, "the state of another tool: {other}");
    assert_eq!(ask_as(&service, &retry, Some("ann")).await.text(), "Hello, Ann!");
}

#[tokio::test]
async fn an_id_that_is_in_use_is_not_used_again() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    fixture.traces.steps.add_permits(1);
    let mut first = session.stream(&fixture, 7, "steps", json!({ "n": 3 })).await;
    first.message().await;
    let second = fixture.send(session.post(call(7, "add", json!({ "a": 1, "b": 2 })))).await;
    assert!(matches!(second.status(), 200 | 400), "{second}");
    // Whatever the second response is, the first call continues.
    fixture.traces.steps.add_permits(2);
    let rest = first.rest().await;
    assert_eq!(rest.last().unwrap()["result"]["content"][0]["text"], "counted to 3", "{rest:?}");
}

#[tokio::test]
async fn a_response_from_another_session_is_ignored() {
    let fixture = Fixture::start().await;
    let asked = Session::begin(&fixture, NEWEST_OLDER).await;
    let other = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut stream = fixture.stream(asked.post(call(7, "greet", json!({})))).await;
    let question = stream.message().await;
    let answer = |name: &str| {
        let result = json!({ "action": "accept", "content": { "name": name } });
        json!({ "jsonrpc": "2.0", "id": question["id"], "result": result })
    };
    fixture.send(other.post(answer("Mallory"))).await.assert_accepted();
    fixture.send(asked.post(answer("Ann"))).await.assert_accepted();
    assert_eq!(stream.message().await["result"]["content"][0]["text"], "Hello, Ann!");
}

#[tokio::test]
async fn the_same_ids_in_two_sessions_are_two_requests() {
    let fixture = Fixture::start().await;
    let one = Session::begin(&fixture, NEWEST_OLDER).await;
    let two = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut first = one.stream(&fixture, 7, "wait", json!({})).await;
    let mut second = two.stream(&fixture, 7, "wait", json!({})).await;
    first.message().await;
    second.message().await;
    let body = cancelled(7);
    fixture.send(one.post(&body)).await.assert_accepted();
    assert!(first.rest().await.is_empty());
    assert_eq!(fixture.traces.ended.load(Ordering::SeqCst), 1);
    fixture.send(two.post(&body)).await.assert_accepted();
    assert!(second.rest().await.is_empty());
}

#[tokio::test]
async fn each_session_has_its_own_log_level() {
    let fixture = Fixture::start().await;
    let one = Session::begin(&fixture, NEWEST_OLDER).await;
    let two = Session::begin(&fixture, NEWEST_OLDER).await;
    for (session, level) in [(&one, "error"), (&two, "debug")] {
        let set = request(2, "logging/setLevel", json!({ "level": level }));
        assert_eq!(fixture.send(session.post(&set)).await.result(), json!({}));
    }
    let log = json!({ "text": "hear", "level": "info" });
    let heard = |messages: Vec<Value>| messages.iter().filter(|one| one["method"] == "notifications/message").count();
    assert_eq!(heard(one.call(&fixture, "log", log.clone()).await.messages()), 0);
    assert_eq!(heard(two.call(&fixture, "log", log).await.messages()), 1);
}

#[tokio::test]
async fn ids_cannot_be_guessed() {
    let service = service(SessionOptions::new());
    let mut ids = HashSet::new();
    for _ in 0..300 {
        ids.insert(begin(&service, None).await.id);
    }
    assert_eq!(ids.len(), 300);
    let length = ids.iter().map(String::len).min().unwrap();
    let letters: Vec<HashSet<u8>> = (0..length).map(|at| ids.iter().map(|id| id.as_bytes()[at]).collect()).collect();
    // Estimated entropy in bits, from the number of distinct characters at each position. 32 random hexadecimal digits have 128 bits.
    let bits: f64 = letters.iter().map(|seen| (seen.len() as f64).log2()).sum();
    assert!(bits >= 110.0, "{bits} bits in {:?}", ids.iter().next());
}

#[tokio::test]
async fn a_server_that_ends_ends_its_sessions_and_streams() {
    let fixture = Fixture::at(|listener| listener.drain_timeout(Duration::from_millis(200))).await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let standalone = fixture.stream(session.get()).await;
    let mut waiting = session.stream(&fixture, 7, "wait", json!({})).await;
    waiting.message().await;
    fixture.handle.shutdown();
    within("the end of a stream", standalone.rest()).await;
    within("the end of a call", waiting.rest()).await;
    fixture.shut_down().await;
}

#[tokio::test]
async fn a_call_that_is_nearly_done_is_answered_before_the_server_ends() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    fixture.traces.steps.add_permits(1);
    let mut stream = session.stream(&fixture, 7, "steps", json!({ "n": 2 })).await;
    stream.message().await;
    fixture.handle.shutdown();
    fixture.traces.steps.add_permits(1);
    let rest = stream.rest().await;
    assert_eq!(rest.last().expect("a response")["id"], 7, "{rest:?}");
    fixture.shut_down().await;
}

#[tokio::test]
async fn the_handle_lists_the_open_sessions() {
    let fixture = Fixture::start().await;
    assert!(fixture.handle.sessions().is_empty());
    let one = Session::begin(&fixture, NEWEST_OLDER).await;
    let _two = Session::begin(&fixture, NEWEST_OLDER).await;
    assert_eq!(fixture.handle.sessions().len(), 2);
    fixture.send(one.delete()).await;
    eventually("one session less", async || fixture.handle.sessions().len() == 1).await;
}
