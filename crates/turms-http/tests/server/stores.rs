//! Custom stores for sessions and events: shared, small, and failing ones.

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
async fn another_process_can_serve_a_session() {
    let (sessions, events) = memory();
    let (one, two) = (keeping(&sessions, &events), keeping(&sessions, &events));
    let session = begin(&one, None).await;
    assert_eq!(ping(&two, &session).await, 200);
    let added = ask(&two, &session.post(call(2, "add", json!({ "a": 1, "b": 2 })))).await;
    assert_eq!(added.text(), "3");
    // The other process can resume its streams as well.
    let counted = count(&one, &session, 5).await;
    let first = counted.events()[0].id.clone().unwrap();
    let again = ask(&two, &session.resume(&first)).await;
    assert_eq!(again.messages(), counted.messages());
    // Either process can delete it.
    assert_eq!(ask(&two, &session.delete()).await.status() / 100, 2);
    assert_eq!(ping(&two, &session).await, 404);
    assert_eq!(ping(&one, &session).await, 404);
}

/// The call continues in its process. The client gets its messages from the other one.
#[tokio::test]
async fn a_running_call_can_be_followed_from_another_process() {
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
    // The first event of the stream only has an id.
    let mut last = first.lines().find_map(|line| line.strip_prefix("id:")).unwrap().trim().to_owned();
    drop(body);
    let following = async {
        let mut messages = Vec::new();
        // A stream may end before the response arrives; the client resumes it then.
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
    let (messages, ()) = within("the response", async { tokio::join!(following, going_on) }).await;
    assert_eq!(progress(&messages), [1, 2, 3, 4]);
    assert_eq!(messages[4]["id"], 7);
}

/// If each process numbered its streams from 1, the event ids would collide.
#[tokio::test]
async fn streams_of_one_session_in_two_processes_do_not_mix() {
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

/// A resumed stream must have no gaps, so a resumption before an evicted event is refused.
#[tokio::test]
async fn a_resumption_before_evicted_events_is_refused() {
    let options = SessionOptions::new().event_store(MemoryEventStore::new(2_000, 1 << 20));
    let fixture = Fixture::with(|service| service.sessions(options)).await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    fixture.traces.steps.add_permits(1);
    let mut stream = session.stream(&fixture, 7, "steps", json!({ "n": 100 })).await;
    let mut ids = Vec::new();
    // Each step waits until the client has received the message before it.
    while let Some(event) = stream.next().await {
        if event.message().is_some() {
            fixture.traces.steps.add_permits(1);
        }
        ids.extend(event.id);
    }
    assert_eq!(ids.len(), 102, "a connected client gets all events");
    let refused = fixture.send(session.resume(&ids[0])).await;
    assert!((400..500).contains(&refused.status()) && refused.status() != 404, "{refused}");
    let late = fixture.send(session.resume(&ids[ids.len() - 3])).await;
    assert_eq!(progress(&late.messages()), [100]);
    assert_eq!(late.text(), "counted to 100");
}

#[tokio::test(start_paused = true)]
async fn the_events_of_an_ended_stream_expire() {
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
async fn a_failing_session_store_is_a_server_error() {
    let service = service(SessionOptions::new().session_store(Broken));
    let refused = ask(&service, &Request::post(initialize(NEWEST_OLDER))).await;
    assert_eq!(refused.status() / 100, 5, "{refused}");
    assert!(refused.header("mcp-session-id").is_none(), "{refused}");
    let unknown = Session { id: "0123456789abcdef0123456789abcdef".to_owned(), version: NEWEST_OLDER };
    let refused = ask(&service, &unknown.post(request(2, "ping", None))).await;
    // The session may exist, so this is not a 404.
    assert_eq!(refused.status() / 100, 5, "{refused}");
}

#[tokio::test]
async fn events_that_cannot_be_stored_are_still_sent() {
    let service = service(SessionOptions::new().event_store(Broken));
    let session = begin(&service, None).await;
    let counted = count(&service, &session, 5).await;
    assert_eq!(progress(&counted.messages()), [1, 2, 3, 4, 5], "{counted}");
    assert_eq!(counted.text(), "counted to 5");
}

/// Notifications that were evicted before the stream opened are lost, but later ones arrive.
#[tokio::test]
async fn a_standalone_stream_opened_after_evicted_events_gets_later_ones() {
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

/// `ForwardTracing` sends log events of the store to the client whose events it fails to store.
#[test]
fn a_store_that_logs_does_not_stop_the_session_it_logs_about() {
    let (done, is_done) = std::sync::mpsc::channel();
    // On its own thread, so that a deadlock fails the test instead of blocking it.
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
    let counted = is_done.recv_timeout(TIMEOUT).expect("a response");
    assert_eq!(progress(&counted.messages()), [1, 2, 3]);
    assert_eq!(counted.text(), "counted to 3");
}

/// A store whose operations all fail.
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
