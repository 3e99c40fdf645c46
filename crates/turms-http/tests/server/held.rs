//! Slow stores: `touch` and `append` wait until the test releases them. The stores also record their operations.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::sync::Semaphore;
use turms_core::BoxFuture;
use turms_core::store::{
    EventStore, MemoryEventStore, MemorySessionStore, SessionRecord, SessionStore, StoreError, StoredEvent,
};
use turms_http::__internal::HttpHandler as _;
use turms_http::SessionOptions;
use turms_testkit::{eventually, within};

use crate::dialog::{NEWEST_OLDER, Session, call, progress, request, with_progress};
use crate::in_process::ask;
use crate::sessions::{begin, ping, service};

#[derive(Clone)]
struct Sessions(Arc<HeldSessions>);

struct HeldSessions {
    kept: MemorySessionStore,
    /// Number of operations.
    asked: AtomicUsize,
    /// `true` if the next `touch` waits for a permit.
    holds: AtomicBool,
    gate: Semaphore,
}

impl Sessions {
    fn new() -> Self {
        let kept = MemorySessionStore::new(10);
        Self(Arc::new(HeldSessions {
            kept,
            asked: AtomicUsize::new(0),
            holds: AtomicBool::new(false),
            gate: Semaphore::new(0),
        }))
    }

    fn asked(&self) -> &MemorySessionStore {
        self.0.asked.fetch_add(1, Ordering::SeqCst);
        &self.0.kept
    }

    fn times_asked(&self) -> usize {
        self.0.asked.load(Ordering::SeqCst)
    }

    fn hold_next(&self) {
        self.0.holds.store(true, Ordering::SeqCst);
    }

    /// Waits until a `touch` waits for its permit.
    async fn holds(&self) {
        eventually("a `touch` that waits", async || !self.0.holds.load(Ordering::SeqCst)).await;
    }

    fn let_go(&self) {
        self.0.gate.add_permits(1);
    }
}

impl SessionStore for Sessions {
    fn insert<'a>(
        &'a self,
        id: &'a str,
        record: Arc<SessionRecord>,
        idle: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.asked().insert(id, record, idle)
    }

    fn load<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Arc<SessionRecord>>, StoreError>> {
        self.asked().load(id)
    }

    fn touch<'a>(&'a self, id: &'a str, idle: Duration) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            let touched = self.asked().touch(id, idle).await;
            if self.0.holds.swap(false, Ordering::SeqCst) {
                self.0.gate.acquire().await.unwrap().forget();
            }
            touched
        })
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        self.asked().remove(id)
    }
}

/// The store finds the session, and the session ends before the request gets that result.
#[tokio::test]
async fn a_request_whose_session_ends_while_it_is_looked_up_is_refused() {
    for is_deleted in [true, false] {
        let sessions = Sessions::new();
        let service = service(SessionOptions::new().session_store(sessions.clone()));
        let session = begin(&service, None).await;
        sessions.hold_next();
        let asking = {
            let (service, post) = (service.clone(), session.post(call(2, "add", json!({ "a": 1, "b": 2 }))));
            tokio::spawn(async move { ask(&service, &post).await })
        };
        sessions.holds().await;
        if is_deleted {
            assert_eq!(ask(&service, &session.delete()).await.status(), 204);
        } else {
            assert!(service.close_session(&session.id).await);
        }
        sessions.let_go();
        let answer = within("a response", asking).await.unwrap();
        answer.assert_refused(404, -32600, &json!(2));
    }
}

#[tokio::test]
async fn the_store_is_not_asked_for_what_cannot_be_the_id_of_a_session() {
    let sessions = Sessions::new();
    let service = service(SessionOptions::new().session_store(sessions.clone()));
    let known = begin(&service, None).await;
    let before = sessions.times_asked();
    let longer = format!("{}x", known.id);
    let odd = format!("{}.", &known.id[..known.id.len() - 1]);
    let endless = "x".repeat(4_000);
    for id in ["x", "../../etc/passwd", "*", "session:*", &known.id[1..], &longer, &odd, &endless] {
        let stranger = Session { id: id.to_owned(), version: NEWEST_OLDER };
        for request in [stranger.post(request(2, "ping", None)), stranger.get(), stranger.delete()] {
            assert_eq!(ask(&service, &request).await.status(), 404, "{id}");
        }
    }
    assert_eq!(sessions.times_asked(), before);
    // An id of the right form is looked up.
    let other = Session { id: "0123456789abcdef0123456789abcdef".to_owned(), version: NEWEST_OLDER };
    assert_eq!(ping(&service, &other).await, 404);
    assert!(sessions.times_asked() > before);
}

#[derive(Clone)]
struct Events(Arc<HeldEvents>);

struct HeldEvents {
    kept: MemoryEventStore,
    /// The numbers of the events that are stored or being stored.
    begun: Mutex<Vec<u64>>,
    /// Permits for `append`: each event takes one.
    gate: Semaphore,
    /// The number of events that are stored.
    stored: AtomicUsize,
}

impl Events {
    fn new() -> Self {
        let kept = MemoryEventStore::new(1 << 20, 1 << 24);
        Self(Arc::new(HeldEvents {
            kept,
            begun: Mutex::default(),
            gate: Semaphore::new(0),
            stored: AtomicUsize::new(0),
        }))
    }

    fn begun(&self) -> Vec<u64> {
        self.0.begun.lock().unwrap().clone()
    }
}

impl EventStore for Events {
    fn append<'a>(
        &'a self,
        session: &'a str,
        stream: u64,
        event: StoredEvent,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.0.begun.lock().unwrap().push(event.number);
            self.0.gate.acquire().await.unwrap().forget();
            let kept = self.0.kept.append(session, stream, event).await;
            self.0.stored.fetch_add(1, Ordering::SeqCst);
            kept
        })
    }

    fn after<'a>(
        &'a self,
        session: &'a str,
        stream: u64,
        number: u64,
        bytes: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        self.0.kept.after(session, stream, number, bytes)
    }

    fn remove_stream<'a>(&'a self, session: &'a str, stream: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.kept.remove_stream(session, stream)
    }

    fn remove_session<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.kept.remove_session(session)
    }
}

#[tokio::test]
async fn a_store_that_is_slow_keeps_no_client_waiting_and_gets_events_in_order() {
    let events = Events::new();
    let service = service(SessionOptions::new().event_store(events.clone()));
    let session = begin(&service, None).await;
    let post = session.post(with_progress(call(7, "count", json!({ "n": 3 })), 7));
    let counted = within("a response", ask(&service, &post)).await;
    assert_eq!(progress(&counted.messages()), [1, 2, 3]);
    assert_eq!(counted.text(), "counted to 3");
    // A resumed stream does not wait for the store either.
    let first = counted.events()[0].id.clone().unwrap();
    let again = within("a response", ask(&service, &session.resume(&first))).await;
    assert_eq!(again.messages(), counted.messages());
    let all = counted.messages().len();
    for stored in 1..=all {
        // One at a time, so that they cannot overtake each other.
        eventually("an event for the store", async || events.begun().len() >= stored).await;
        assert_eq!(events.begun().len(), stored);
        events.0.gate.add_permits(1);
    }
    assert!(events.begun().is_sorted(), "{:?}", events.begun());
    let again = ask(&service, &session.resume(&first)).await;
    assert_eq!(again.messages(), counted.messages());
}

/// The session no longer exists, so nothing else would ever remove its events.
#[tokio::test]
async fn an_event_that_is_stored_after_its_session_has_ended_does_not_stay() {
    for is_deleted in [true, false] {
        let events = Events::new();
        let service = service(SessionOptions::new().event_store(events.clone()));
        let session = begin(&service, None).await;
        let post = session.post(with_progress(call(7, "count", json!({ "n": 3 })), 7));
        within("a response", ask(&service, &post)).await;
        eventually("an event for the store", async || events.begun() == [1]).await;
        if is_deleted {
            assert_eq!(ask(&service, &session.delete()).await.status(), 204);
        } else {
            assert!(service.close_session(&session.id).await);
        }
        events.0.gate.add_permits(1);
        eventually("the event to be stored", async || events.0.stored.load(Ordering::SeqCst) == 1).await;
        eventually("the event to be removed", async || format!("{:?}", events.0.kept).contains("sessions: 0")).await;
        assert_eq!(events.begun(), [1], "the other events are not stored");
    }
}

/// Another process may still load the session.
#[tokio::test]
async fn an_event_that_is_stored_after_its_process_has_ended_stays() {
    let (events, sessions) = (Events::new(), Sessions::new());
    let service = service(SessionOptions::new().event_store(events.clone()).session_store(sessions.clone()));
    let session = begin(&service, None).await;
    let post = session.post(with_progress(call(7, "count", json!({ "n": 3 })), 7));
    within("a response", ask(&service, &post)).await;
    eventually("an event for the store", async || events.begun() == [1]).await;
    service.close().await;
    events.0.gate.add_permits(1);
    eventually("the event to be stored", async || events.0.stored.load(Ordering::SeqCst) == 1).await;
    tokio::task::yield_now().await;
    assert!(format!("{:?}", events.0.kept).contains("sessions: 1"), "{:?}", events.0.kept);
}
