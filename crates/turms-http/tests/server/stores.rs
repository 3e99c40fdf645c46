//! Where sessions and events are kept: somewhere else, somewhere small, somewhere that fails.

use std::sync::Arc;
use std::time::Duration;

use http_body::Body as _;
use serde_json::json;
use tracing_subscriber::layer::SubscriberExt as _;
use turms_core::BoxFuture;
use turms_core::store::{
    EventStore, MemoryEventStore, MemorySessionStore, SessionRecord, SessionStore, StoreError, StoredEvent, contract,
};
use turms_http::{HttpService, ServeHttp as _, SessionOptions};
use turms_server::{ForwardTracing, Tool};
use turms_testkit::{TIMEOUT, within};

use crate::dialog::{NEWEST_OLDER, Session, call, initialize, progress, request, with_progress};
use crate::fixture::{Fixture, Traces, server};
use crate::in_process::{ask, open};
use crate::sessions::{MINUTE, begin, pass, ping, service};
use crate::wire::{Request, Response};

fn memory() -> (Arc<MemorySessionStore>, Arc<MemoryEventStore>) {
    (Arc::new(MemorySessionStore::new(10)), Arc::new(MemoryEventStore::new(1 << 20, 1 << 24)))
}

fn keeping(sessions: &Arc<MemorySessionStore>, events: &Arc<MemoryEventStore>) -> HttpService {
    service(SessionOptions::new().session_store(sessions.clone()).event_store(events.clone()))
}

async fn count(service: &HttpService, session: &Session, n: u64) -> Response {
    ask(service, &session.post(with_progress(call(7, "count", json!({ "n": n })), 7))).await
}

fn is_empty(events: &MemoryEventStore) -> bool {
    format!("{events:?}").contains("bytes: 0")
}

#[tokio::test]
async fn stores_can_be_given() {
    let (sessions, events) = memory();
    contract::check_sessions(&*sessions).await;
    contract::check_events(&*events).await;
    let service = keeping(&sessions, &events);
    let session = begin(&service, None).await;
    let record = sessions.load(&session.id).await.unwrap().expect("the session is in the store");
    assert_eq!(record.version.as_str(), NEWEST_OLDER);
    assert_eq!(count(&service, &session, 3).await.text(), "counted to 3");
    assert!(!is_empty(&events), "the events are in the store: {events:?}");
    ask(&service, &session.delete()).await;
    assert_eq!(sessions.load(&session.id).await, Ok(None));
    assert!(is_empty(&events), "nothing is left: {events:?}");
}

#[tokio::test]
async fn a_session_is_taken_up_where_it_was_not_begun() {
    let (sessions, events) = memory();
    let (one, two) = (keeping(&sessions, &events), keeping(&sessions, &events));
    let session = begin(&one, None).await;
    assert_eq!(ping(&two, &session).await, 200);
    let added = ask(&two, &session.post(call(2, "add", json!({ "a": 1, "b": 2 })))).await;
    assert_eq!(added.text(), "3");
    // A stream as well.
    let counted = count(&one, &session, 5).await;
    let first = counted.events()[0].id.clone().unwrap();
    let again = ask(&two, &session.resume(&first)).await;
    assert_eq!(again.messages(), counted.messages());
    // And it ends wherever that is said.
    assert_eq!(ask(&two, &session.delete()).await.status() / 100, 2);
    assert_eq!(ping(&two, &session).await, 404);
    assert_eq!(ping(&one, &session).await, 404);
}

/// The call goes on where it was begun; what it says is heard wherever the client has gone.
#[tokio::test]
async fn a_call_that_still_runs_is_followed_from_another_place() {
    let (sessions, events) = memory();
    let traces = Arc::<Traces>::default();
    let place = || {
        let options = SessionOptions::new().session_store(sessions.clone()).event_store(events.clone());
        server(&traces).into_http_service().unwrap().sessions(options)
    };
    let (one, two) = (place(), place());
    let session = begin(&one, None).await;
    traces.steps.add_permits(1);
    let steps = session.post(with_progress(call(7, "steps", json!({ "n": 4 })), 7));
    let (head, body) = open(&one, &steps, None).await;
    assert_eq!(head.status, 200);
    let mut body = Box::pin(body);
    let frame = std::future::poll_fn(|task| body.as_mut().poll_frame(task)).await.unwrap().unwrap();
    let first = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
    // The event before any message carries an id and nothing else.
    let mut last = first.lines().find_map(|line| line.strip_prefix("id:")).unwrap().trim().to_owned();
    drop(body);
    let following = async {
        let mut messages = Vec::new();
        // A stream may end before the answer comes; then it is taken up again.
        while messages.last().is_none_or(|message: &serde_json::Value| message.get("id").is_none()) {
            let more = ask(&two, &session.resume(&last)).await;
            for event in more.events() {
                messages.extend(event.message());
                last = event.id.unwrap_or(last);
            }
            tokio::task::yield_now().await;
        }
        messages
    };
    let going_on = async {
        for _ in 0..3 {
            tokio::task::yield_now().await;
            traces.steps.add_permits(1);
        }
    };
    let (messages, ()) = within("the answer", async { tokio::join!(following, going_on) }).await;
    assert_eq!(progress(&messages), [1, 2, 3, 4]);
    assert_eq!(messages[4]["id"], 7);
}

/// The ids of both would be the same if each counted its streams by itself.
#[tokio::test]
async fn streams_of_one_session_in_two_places_do_not_mix() {
    let (sessions, events) = memory();
    let (one, two) = (keeping(&sessions, &events), keeping(&sessions, &events));
    let session = begin(&one, None).await;
    let first = count(&one, &session, 3).await;
    let second = count(&two, &session, 4).await;
    for (response, n) in [(&first, 3), (&second, 4)] {
        let id = response.events()[0].id.clone().unwrap();
        for service in [&one, &two] {
            let again = ask(service, &session.resume(&id)).await;
            assert_eq!(progress(&again.messages()), (1..=n).collect::<Vec<_>>(), "{again}");
        }
    }
}

/// Whoever is told of what comes later must have heard what came before.
#[tokio::test]
async fn what_was_forgotten_is_not_passed_over() {
    let options = SessionOptions::new().event_store(MemoryEventStore::new(2_000, 1 << 20));
    let fixture = Fixture::with(|service| service.sessions(options)).await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    fixture.traces.steps.add_permits(1);
    let mut stream = session.stream(&fixture, 7, "steps", json!({ "n": 100 })).await;
    let mut ids = Vec::new();
    // One at a time, as each is heard.
    while let Some(event) = stream.next().await {
        if event.message().is_some() {
            fixture.traces.steps.add_permits(1);
        }
        ids.extend(event.id);
    }
    assert_eq!(ids.len(), 102, "who was there has heard it all");
    let refused = fixture.send(session.resume(&ids[0])).await;
    assert!((400..500).contains(&refused.status()) && refused.status() != 404, "{refused}");
    let late = fixture.send(session.resume(&ids[ids.len() - 3])).await;
    assert_eq!(progress(&late.messages()), [100]);
    assert_eq!(late.text(), "counted to 100");
}

#[tokio::test(start_paused = true)]
async fn what_has_ended_is_forgotten_after_a_while() {
    let events = Arc::new(MemoryEventStore::new(1 << 20, 1 << 24));
    let options = SessionOptions::new().idle_timeout(60 * MINUTE).event_retention(MINUTE).event_store(events.clone());
    let service = service(options);
    let session = begin(&service, None).await;
    let counted = count(&service, &session, 5).await;
    let first = counted.events()[0].id.clone().unwrap();
    pass(MINUTE / 2).await;
    assert_eq!(ask(&service, &session.resume(&first)).await.text(), "counted to 5");
    pass(5 * MINUTE).await;
    assert_eq!(ping(&service, &session).await, 200);
    assert!(is_empty(&events), "{events:?}");
    let refused = ask(&service, &session.resume(&first)).await;
    assert!((400..500).contains(&refused.status()) && refused.status() != 404, "{refused}");
}

#[tokio::test]
async fn a_store_that_fails_is_the_fault_of_the_server() {
    let service = service(SessionOptions::new().session_store(Broken));
    let refused = ask(&service, &Request::post(initialize(NEWEST_OLDER))).await;
    assert_eq!(refused.status() / 100, 5, "{refused}");
    assert!(refused.header("mcp-session-id").is_none(), "{refused}");
    let unknown = Session { id: "0123456789abcdef0123456789abcdef".to_owned(), version: NEWEST_OLDER };
    let refused = ask(&service, &unknown.post(request(2, "ping", None))).await;
    // It may well be there.
    assert_eq!(refused.status() / 100, 5, "{refused}");
}

#[tokio::test]
async fn what_cannot_be_kept_is_still_said() {
    let service = service(SessionOptions::new().event_store(Broken));
    let session = begin(&service, None).await;
    let counted = count(&service, &session, 5).await;
    assert_eq!(progress(&counted.messages()), [1, 2, 3, 4, 5], "{counted}");
    assert_eq!(counted.text(), "counted to 5");
}

/// What was never heard is lost, but not what comes later.
#[tokio::test]
async fn whoever_comes_too_late_for_what_was_forgotten_hears_what_follows() {
    let options = SessionOptions::new().event_store(MemoryEventStore::new(2_000, 1 << 20));
    let fixture = Fixture::with(|service| service.sessions(options)).await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    for n in 0..100 {
        fixture.handle.add_tool(Tool::builder(format!("early-{n}")).handler_sync(|| "early")).unwrap();
    }
    for n in 0..3 {
        let mut stream = fixture.stream(session.get()).await;
        fixture.handle.add_tool(Tool::builder(format!("late-{n}")).handler_sync(|| "late")).unwrap();
        assert_eq!(stream.message().await["method"], "notifications/tools/list_changed");
    }
}

/// What a store logs may be told to the very client whose events it cannot keep.
#[test]
fn a_store_that_logs_does_not_stop_the_session_it_logs_about() {
    let (done, is_done) = std::sync::mpsc::channel();
    // A thread that is stuck cannot be waited for by what runs on it.
    std::thread::spawn(move || {
        let subscriber = tracing_subscriber::registry().with(ForwardTracing::new());
        let _guard = tracing::subscriber::set_default(subscriber);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let counted = runtime.block_on(async {
            let options = SessionOptions::new().event_store(Broken);
            let service = server(&Arc::default()).forward_tracing().into_http_service().unwrap().sessions(options);
            let session = begin(&service, None).await;
            count(&service, &session, 3).await
        });
        done.send(counted).unwrap();
    });
    let counted = is_done.recv_timeout(TIMEOUT).expect("an answer");
    assert_eq!(progress(&counted.messages()), [1, 2, 3]);
    assert_eq!(counted.text(), "counted to 3");
}

/// A store that cannot be reached.
struct Broken;

fn broken<T>() -> BoxFuture<'static, Result<T, StoreError>>
where
    T: Send + 'static,
{
    Box::pin(std::future::ready(Err(StoreError::Failed("the cable is cut".to_owned()))))
}

impl SessionStore for Broken {
    fn insert<'a>(&'a self, _: &'a str, _: Arc<SessionRecord>, _: Duration) -> BoxFuture<'a, Result<(), StoreError>> {
        broken()
    }

    fn load<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<Arc<SessionRecord>>, StoreError>> {
        broken()
    }

    fn touch<'a>(&'a self, _: &'a str, _: Duration) -> BoxFuture<'a, Result<bool, StoreError>> {
        broken()
    }

    fn remove<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        broken()
    }
}

impl EventStore for Broken {
    fn append<'a>(&'a self, _: &'a str, _: u64, _: StoredEvent) -> BoxFuture<'a, Result<(), StoreError>> {
        broken()
    }

    fn after<'a>(
        &'a self,
        _: &'a str,
        _: u64,
        _: u64,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        broken()
    }

    fn remove_stream<'a>(&'a self, _: &'a str, _: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        broken()
    }

    fn remove_session<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        broken()
    }
}
