//! Loom tests of a session: every order in which its readers and senders can take the lock.

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::task::{Poll, Wake};

use bytes::Bytes;
use turms_core::store::{EventStore, MemoryEventStore, StoreError, StoredEvent};
use turms_core::{BoxFuture, CallContext, NotifyFuture, Request, ResponseFuture};
use turms_loom::{JoinHandle, block_on, model, spawn};
use turms_proto::{Message, Notification};

use super::event_stream::StreamKind;
use super::stream_reader::{StreamReader, StreamStart};
use super::*;
use crate::server::response::EventSource as _;
use crate::server::stream_limit::StreamLimit;

/// A service that never responds.
struct NeverResponds;

impl Service for NeverResponds {
    fn call(&self, _: Request, _: CallContext) -> ResponseFuture {
        Box::pin(pending())
    }

    fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
        Box::pin(pending())
    }
}

fn session_with(events: impl EventStore) -> Arc<HttpSession> {
    let service: Arc<dyn Service> = Arc::new(NeverResponds);
    let options = Arc::new(SessionOptions::new().event_store(events));
    HttpSession::new("s".into(), &service, options, &[ProtocolVersion::V2025_11_25])
}

/// Creates a session with one standalone stream.
fn session() -> (Arc<HttpSession>, u64) {
    let session = session_with(MemoryEventStore::new(1024 * 1024, 1024 * 1024));
    let stream = session.state.lock().open_stream(StreamKind::Standalone);
    (session, stream)
}

fn message(params: &str) -> Message {
    Message::Notification(Notification::raw("notifications/x", Some(RawJson::string(params))))
}

async fn send(session: &HttpSession, message: &Message) -> bool {
    poll_fn(|task| session.send(&MessageRoute::Standalone, message, Some(task))).await
}

fn try_send(session: &HttpSession, params: &str) -> bool {
    session.send(&MessageRoute::Standalone, &message(params), None) == Poll::Ready(true)
}

/// Fills the buffer of the standalone stream, so that the next send must wait.
fn fill(session: &HttpSession) {
    assert!(try_send(session, &"x".repeat(SessionStream::LIMIT)));
    assert!(!try_send(session, "too many"));
}

fn spawn_sender(session: &Arc<HttpSession>) -> JoinHandle<bool> {
    let session = session.clone();
    spawn(move || block_on(send(&session, &message("sent"))))
}

fn reader(session: &Arc<HttpSession>, stream: u64) -> StreamReader {
    let permit = StreamLimit::default().take(1).expect("a new limit has room");
    let reader = StreamReader::new(
        session,
        stream,
        StreamStart::Fresh(0),
        Duration::from_secs(3600),
        |_| Some(Box::pin(pending())),
        permit,
    );
    reader.expect("the session is open")
}

async fn piece(reader: &mut StreamReader) -> Option<Bytes> {
    poll_fn(|task| Pin::new(&mut *reader).poll_piece(task)).await
}

/// Reads this number of events.
async fn read(reader: &mut StreamReader, count: usize) {
    let mut events = 0;
    while events < count {
        let piece = piece(reader).await.expect("the stream is open");
        events += piece.windows(2).filter(|end| end == b"\n\n").count();
    }
    assert_eq!(events, count);
}

/// Runs a loom model inside a tokio runtime, which the timers of readers need.
fn model_with_timers(test: impl Fn() + Clone + Send + Sync + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _entered = runtime.enter();
    model(test);
}

#[test]
fn a_reader_is_woken_in_the_task_that_polled_last() {
    model_with_timers(|| {
        let (session, stream) = session();
        let mut reader = reader(&session, stream);
        let _ = Pin::new(&mut reader).poll_piece(&mut TaskContext::from_waker(Waker::noop()));
        let sender = spawn_sender(&session);
        block_on(read(&mut reader, 1));
        assert!(sender.join());
    });
}

#[test]
fn all_senders_are_woken_when_a_full_stream_is_read() {
    model_with_timers(|| {
        let (session, stream) = session();
        let mut reader = reader(&session, stream);
        fill(&session);
        let senders = [spawn_sender(&session), spawn_sender(&session)];
        block_on(read(&mut reader, 3));
        senders.into_iter().for_each(|sender| assert!(sender.join()));
    });
}

#[test]
fn a_sender_is_woken_when_the_reader_of_a_full_stream_is_dropped() {
    model_with_timers(|| {
        let (session, stream) = session();
        let reader = reader(&session, stream);
        fill(&session);
        let sender = spawn_sender(&session);
        drop(reader);
        assert!(sender.join());
    });
}

#[test]
fn a_reader_is_woken_when_another_replaces_it() {
    model_with_timers(|| {
        let (session, stream) = session();
        let mut first = reader(&session, stream);
        let first = spawn(move || block_on(piece(&mut first)));
        let mut second = reader(&session, stream);
        assert_eq!(first.join(), None);
        assert!(try_send(&session, "for the second"));
        block_on(read(&mut second, 1));
    });
}

#[test]
fn a_reader_is_woken_when_the_session_closes() {
    model_with_timers(|| {
        let (session, stream) = session();
        let mut reader = reader(&session, stream);
        let reader = spawn(move || block_on(piece(&mut reader)));
        session.close(CloseReason::Client);
        assert_eq!(reader.join(), None);
    });
}

#[test]
fn a_waiting_sender_is_woken_when_the_session_closes() {
    model_with_timers(|| {
        let (session, stream) = session();
        let _reader = reader(&session, stream);
        fill(&session);
        let sender = spawn_sender(&session);
        session.close(CloseReason::Client);
        assert!(!sender.join());
    });
}

#[test]
fn the_events_of_concurrent_senders_are_stored_once_and_in_order() {
    model(|| {
        let (session, stream) = session();
        let other = spawn_sender(&session);
        assert!(try_send(&session, "sent"));
        assert!(other.join());
        let stored = block_on(session.options.event_store.after(&session.id, stream, 0, 1024)).unwrap();
        assert_eq!(stored.iter().map(|event| event.number).collect::<Vec<_>>(), [1, 2]);
    });
}

/// A waker that locks the session. It deadlocks if it is woken under the lock.
struct LockingWaker(Arc<HttpSession>);

impl Wake for LockingWaker {
    fn wake(self: Arc<Self>) {
        self.0.shrink_memory();
    }
}

#[test]
fn readers_are_woken_without_the_lock() {
    let changes: [fn(&Arc<HttpSession>, u64); 5] = [
        |session, _| assert!(try_send(session, "sent")),
        |session, stream| session.state.lock().end_if_done(stream),
        |session, stream| {
            session.state.lock().stream(stream).into_iter().for_each(|(it, woken)| it.disconnect(Duration::ZERO, woken))
        },
        |session, stream| drop(reader(session, stream)),
        |session, _| session.close(CloseReason::Client),
    ];
    for change in changes {
        model_with_timers(move || {
            let (session, stream) = session();
            let mut reader = reader(&session, stream);
            let waker = Waker::from(Arc::new(LockingWaker(session.clone())));
            assert!(Pin::new(&mut reader).poll_piece(&mut TaskContext::from_waker(&waker)).is_pending());
            change(&session, stream);
        });
    }
}

#[test]
fn senders_are_woken_without_the_lock() {
    let changes: [fn(&Arc<HttpSession>, StreamReader); 3] = [
        |_, mut reader| block_on(read(&mut reader, 1)),
        |_, reader| drop(reader),
        |session, _| session.close(CloseReason::Client),
    ];
    for change in changes {
        model_with_timers(move || {
            let (session, stream) = session();
            let reader = reader(&session, stream);
            fill(&session);
            let waker = Waker::from(Arc::new(LockingWaker(session.clone())));
            let task = TaskContext::from_waker(&waker);
            assert!(session.send(&MessageRoute::Standalone, &message("sent"), Some(&task)).is_pending());
            change(&session, reader);
        });
    }
}

/// A store that sends a log message to the client of its session while it stores an event. Each operation is pending at
/// the first poll.
#[derive(Default)]
struct LoggingStore {
    session: Arc<OnceLock<Weak<HttpSession>>>,
    appended: Arc<AtomicU64>,
}

impl EventStore for LoggingStore {
    fn append<'a>(&'a self, _: &'a str, _: u64, _: StoredEvent) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.appended.fetch_add(1, Ordering::Relaxed);
            let session = self.session.get().and_then(Weak::upgrade).expect("the session is open");
            try_send(&session, "logged");
            Ok(())
        })
    }

    fn after<'a>(
        &'a self,
        _: &'a str,
        _: u64,
        _: u64,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn remove_stream<'a>(&'a self, _: &'a str, _: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn remove_session<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test]
async fn log_messages_of_the_event_store_are_not_stored() {
    let store = LoggingStore::default();
    let (cell, appended) = (store.session.clone(), store.appended.clone());
    let session = session_with(store);
    let _ = cell.set(Arc::downgrade(&session));
    assert!(try_send(&session, "sent"));
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(appended.load(Ordering::Relaxed), 1);
}
