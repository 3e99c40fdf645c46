//! Sessions of clients of 2025-03-26 to 2025-11-25.
//!
//! A session is a small record: no task and no channel exist for it until something needs one. A call that is not answered at
//! once outlives its connection, so it runs as a task, and what it says goes to the event store, from which a later connection
//! takes it up.
//!
//! The lock of a session is held for one message and never while a handler, a store or a log is called: each of them may lead
//! back to the session.

mod endpoint;
mod event_stream;
mod lock;
mod manager;
mod notification_handlers;
mod outbox;
mod peer;
mod post;
mod stream_reader;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use turms_core::store::SessionRecord;
use turms_core::{Cancelled, CloseReason, Peer, Service, SessionHandle, random_bytes};
use turms_proto::session::{Event, RequestError, Session, Status, Ticket};
use turms_proto::{Ability, ProtocolVersion, RawJson, RequestId};

use self::event_stream::Stream;
use self::lock::{SessionLock, WakeList};
pub(super) use self::manager::SessionManager;
use self::notification_handlers::NotificationHandlers;
pub use self::peer::EventStream;
use self::peer::{Route, SessionPeer};
use super::options::SessionOptions;

/// Who waits for the answer to a question of ours.
type Waiter = oneshot::Sender<Result<RawJson, RequestError>>;

/// The session of one client.
pub(super) struct HttpSession {
    id: Arc<str>,
    me: Weak<Self>,
    record: OnceLock<Arc<SessionRecord>>,
    /// The session as the service sees it.
    handle: Arc<SessionHandle>,
    service: Arc<dyn Service>,
    options: Arc<SessionOptions>,
    state: SessionLock,
    /// When it was last used, and when the store was last told so, by the clock of the options.
    used: AtomicU64,
    touched: AtomicU64,
}

/// There are thousands of them, and most rest. The lock of unit tests is larger.
#[cfg(not(test))]
const _: () = assert!(size_of::<HttpSession>() <= 520);

struct State {
    protocol: Session<Waiter>,
    /// Boxed, because a map has room for several where there is mostly one.
    streams: BTreeMap<u64, Box<Stream>>,
    last_stream: u64,
    /// The streams that have ended, oldest first.
    ended: VecDeque<u64>,
    tasks: BTreeMap<Ticket, Running>,
    /// The cancelled calls whose futures are not dropped yet.
    cancelled: Vec<(RequestId, Cancelled)>,
    /// Boxed, because hardly any session has any.
    notifications: Option<Box<NotificationHandlers>>,
    last_reader: u32,
    /// How many connections read streams of it.
    readers: u32,
    is_open: bool,
}

/// A call that runs as a task.
struct Running {
    task: AbortHandle,
    stream: u64,
}

impl HttpSession {
    /// A session that is about to shake hands.
    fn new(
        id: Arc<str>,
        service: &Arc<dyn Service>,
        options: Arc<SessionOptions>,
        versions: &[ProtocolVersion],
    ) -> Arc<Self> {
        let versions: Vec<_> = versions.iter().copied().filter(|version| version.has(Ability::Handshake)).collect();
        Self::with(id, service, options, Session::server(&versions))
    }

    /// A session that has shaken hands elsewhere.
    fn resumed(
        id: Arc<str>,
        service: &Arc<dyn Service>,
        options: Arc<SessionOptions>,
        record: Arc<SessionRecord>,
    ) -> Arc<Self> {
        let session = Self::with(id, service, options, Session::resumed(record.version));
        let _ = session.record.set(record);
        session
    }

    fn with(
        id: Arc<str>,
        service: &Arc<dyn Service>,
        options: Arc<SessionOptions>,
        protocol: Session<Waiter>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|session: &Weak<Self>| {
            let handle = SessionHandle::new(Peer::new(SessionPeer::new(session.clone(), Route::Standalone)));
            let state = State {
                protocol,
                streams: BTreeMap::new(),
                last_stream: first_stream(),
                ended: VecDeque::new(),
                tasks: BTreeMap::new(),
                cancelled: Vec::new(),
                notifications: None,
                last_reader: 0,
                readers: 0,
                is_open: true,
            };
            let now = options.clock();
            Self {
                id,
                me: session.clone(),
                record: OnceLock::new(),
                handle,
                service: service.clone(),
                options,
                state: SessionLock::new(state),
                used: AtomicU64::new(now),
                touched: AtomicU64::new(now),
            }
        })
    }

    fn principal(&self) -> Option<&str> {
        self.record.get()?.principal.as_deref()
    }

    /// Whether streams begin with an event that says where they do, and the server may hang up and be called again.
    fn can_poll(&self) -> bool {
        self.record.get().is_some_and(|record| record.version.has(Ability::SsePolling))
    }

    fn note_use(&self) {
        self.used.store(self.options.clock(), Ordering::Relaxed);
    }

    /// Whether the store should hear that the session is used. A few times in the life of a session is enough.
    fn is_touch_due(&self) -> bool {
        let (now, touched) = (self.options.clock(), self.touched.load(Ordering::Relaxed));
        now.saturating_sub(touched) >= self.options.touch_period().as_millis() as u64
    }

    /// As [`HttpSession::is_touch_due`], true for one of those who ask.
    fn claim_touch(&self) -> bool {
        let (now, touched) = (self.options.clock(), self.touched.load(Ordering::Relaxed));
        self.is_touch_due() && self.touched.compare_exchange(touched, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Whether a stream of it is read or a call of it runs.
    fn is_busy(&self) -> bool {
        let state = self.state.lock();
        !state.tasks.is_empty() || state.streams.values().any(|stream| stream.is_read())
    }

    /// Gives back what it does not need while nothing is asked. In use, it would only be taken again.
    fn rest(&self) {
        let mut state = self.state.lock();
        state.protocol.rest();
        if state.tasks.is_empty() {
            state.tasks = BTreeMap::new();
        }
        state.notifications.take_if(|handlers| handlers.is_idle());
    }

    fn unused_for(&self) -> Duration {
        Duration::from_millis(self.options.clock().saturating_sub(self.used.load(Ordering::Relaxed)))
    }

    /// Whether nobody has used it for too long. Whoever has begun to shake hands and never finished has less time.
    fn is_expired(&self) -> bool {
        const UNFINISHED: Duration = Duration::from_secs(60);
        if self.is_busy() {
            self.note_use();
            return false;
        }
        let has_finished = self.state.lock().protocol.status() == Status::Ready;
        let idle = if has_finished { self.options.idle } else { self.options.idle.min(UNFINISHED) };
        self.unused_for() >= idle
    }

    /// Closes it: calls and notification handlers are aborted, streams end, and requests to the client fail.
    fn close(&self, reason: CloseReason) {
        // Dropped without the lock: what belongs to a request may do anything when it goes.
        let notifications;
        let (events, streams): (Vec<_>, _) = {
            let mut state = self.state.lock();
            state.is_open = false;
            notifications = state.notifications.take();
            state.protocol.close();
            for running in std::mem::take(&mut state.tasks).into_values() {
                running.task.abort();
            }
            state.ended.clear();
            let streams = std::mem::take(&mut state.streams);
            (std::iter::from_fn(|| state.protocol.next_event()).collect(), streams)
        };
        let mut woken = WakeList::default();
        streams.into_values().for_each(|mut stream| stream.wake_all(&mut woken));
        drop(woken);
        events.into_iter().for_each(settle);
        drop(notifications);
        self.handle.close(reason);
    }
}

impl std::fmt::Debug for HttpSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The id is as good as a password.
        f.debug_struct("HttpSession").finish_non_exhaustive()
    }
}

/// Tells whoever waits for an answer; other events have nobody to tell.
fn settle(event: Event<Waiter>) {
    if let Event::Answered { owner, outcome, .. } = event {
        // Whoever asked may have stopped waiting.
        let _ = owner.send(outcome);
    }
}

/// Where this process begins to count streams: elsewhere than others that have the same session.
fn first_stream() -> u64 {
    u64::from(u32::from_be_bytes(random_bytes())) << 24
}

/// Does at once what can be done at once, and the rest in a task. Callers need not be async, so that the first poll has no task to
/// wake; work that is not ready is polled again in its own task, with the waker of that.
fn now_or_later(work: impl Future<Output = ()> + Send + 'static) {
    let mut work = Box::pin(work);
    if work.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending() {
        tokio::spawn(work);
    }
}

#[cfg(test)]
mod tests;
