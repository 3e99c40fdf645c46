//! Sessions of clients of 2025-03-26 to 2025-11-25.
//!
//! A session is a small record. Tasks and channels are created on demand. A call that does not finish at once runs as a
//! task and outlives its connection. Its messages are stored in the event store, from which a later connection resumes.
//!
//! The lock of a session is held for one message. It is never held during a call of a handler, a store or a `tracing`
//! subscriber, because each of them may access the session.

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
use turms_core::__internal::random_bytes;
use turms_core::store::SessionRecord;
use turms_core::{CancellationToken, CloseReason, Peer, Service, SessionHandle};
use turms_proto::session::{ConnectionStatus, Event, RequestError, Session, Ticket};
use turms_proto::{Ability, ProtocolVersion, RawJson};

use self::event_stream::SessionStream;
use self::lock::{SessionLock, WakeList};
pub(super) use self::manager::SessionManager;
use self::notification_handlers::NotificationHandlers;
pub use self::peer::StreamControl;
use self::peer::{MessageRoute, SessionPeer};
use super::options::SessionOptions;

/// The sender for the response to a request from server to client.
type Waiter = oneshot::Sender<Result<RawJson, RequestError>>;

/// The session of one client.
pub(super) struct HttpSession {
    id: Arc<str>,
    weak_self: Weak<Self>,
    /// The session as it is stored. Set after the handshake.
    record: OnceLock<Arc<SessionRecord>>,
    /// The session as the service sees it.
    handle: Arc<SessionHandle>,
    service: Arc<dyn Service>,
    options: Arc<SessionOptions>,
    state: SessionLock,
    /// The time of the last use, by the clock of the options.
    used: AtomicU64,
    /// The time of the last update in the store.
    touched: AtomicU64,
}

/// Limits the memory of a session: there are thousands, most of them idle. Not checked in unit tests, whose lock is larger.
#[cfg(not(test))]
const _: () = assert!(size_of::<HttpSession>() <= 520);

struct HttpSessionState {
    protocol: Session<Waiter>,
    /// Boxed, because a map node has space for several entries, and most sessions have one.
    streams: BTreeMap<u64, Box<SessionStream>>,
    /// Number of the newest stream.
    last_stream: u64,
    /// The streams that have ended, oldest first.
    ended: VecDeque<u64>,
    tasks: BTreeMap<Ticket, RunningCall>,
    /// Boxed, because few sessions have any.
    notifications: Option<Box<NotificationHandlers>>,
    /// Serial number of the newest reader. A stream has one reader; a new one replaces it.
    last_reader: u32,
    /// Number of connections that read streams of this session.
    readers: u32,
    is_open: bool,
}

/// A call that runs as a task.
struct RunningCall {
    task: AbortHandle,
    stream: u64,
    cancellation: CancellationToken,
}

impl HttpSession {
    /// Creates a session before its handshake.
    fn new(
        id: Arc<str>,
        service: &Arc<dyn Service>,
        options: Arc<SessionOptions>,
        versions: &[ProtocolVersion],
    ) -> Arc<Self> {
        let versions: Vec<_> = versions.iter().copied().filter(|version| version.has(Ability::Handshake)).collect();
        Self::with(id, service, options, Session::server(&versions))
    }

    /// Creates a session after a handshake in another process.
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
            let handle = SessionHandle::new(Peer::new(SessionPeer::new(session.clone(), MessageRoute::Standalone)));
            let state = HttpSessionState {
                protocol,
                streams: BTreeMap::new(),
                last_stream: first_stream(),
                ended: VecDeque::new(),
                tasks: BTreeMap::new(),
                notifications: None,
                last_reader: 0,
                readers: 0,
                is_open: true,
            };
            let now = options.clock();
            Self {
                id,
                weak_self: session.clone(),
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

    /// Returns `true` if the revision has SSE polling: streams begin with an event that has an id, and the server may
    /// close a connection for the client to reconnect.
    fn can_poll(&self) -> bool {
        self.record.get().is_some_and(|record| record.version.has(Ability::SsePolling))
    }

    fn note_use(&self) {
        self.used.store(self.options.clock(), Ordering::Relaxed);
    }

    /// Returns `true` if the lifetime of the session in the store must be extended: once per touch period, not for each
    /// use.
    fn is_touch_due(&self) -> bool {
        let (now, touched) = (self.options.clock(), self.touched.load(Ordering::Relaxed));
        now.saturating_sub(touched) >= self.options.touch_period().as_millis() as u64
    }

    /// Same as [`HttpSession::is_touch_due`], but `true` for only one of several concurrent callers.
    fn claim_touch(&self) -> bool {
        let (now, touched) = (self.options.clock(), self.touched.load(Ordering::Relaxed));
        self.is_touch_due() && self.touched.compare_exchange(touched, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Returns `true` if a stream is being read or a call is running.
    fn is_busy(&self) -> bool {
        let state = self.state.lock();
        !state.tasks.is_empty() || state.streams.values().any(|stream| stream.is_read())
    }

    /// Releases memory that an idle session does not need.
    fn shrink_memory(&self) {
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

    /// Returns `true` if the session has been idle for too long. A session with an unfinished handshake has a
    /// shorter timeout.
    fn is_expired(&self) -> bool {
        const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);
        if self.is_busy() {
            self.note_use();
            return false;
        }
        let is_ready = self.state.lock().protocol.status() == ConnectionStatus::Ready;
        let idle = if is_ready { self.options.idle_timeout } else { self.options.idle_timeout.min(HANDSHAKE_TIMEOUT) };
        self.unused_for() >= idle
    }

    /// Closes the session: calls and notification handlers are aborted, streams end, and requests to the client fail.
    fn close(&self, reason: CloseReason) {
        // Dropped without the lock, because dropping a request may run any code.
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
        events.into_iter().for_each(deliver);
        drop(notifications);
        self.handle.close(reason);
    }
}

impl std::fmt::Debug for HttpSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The id is a secret, like a password.
        f.debug_struct("HttpSession").finish_non_exhaustive()
    }
}

/// Delivers a response to its waiter. Ignores other events.
fn deliver(event: Event<Waiter>) {
    if let Event::Answered { owner, outcome, .. } = event {
        // The waiter may have been dropped.
        let _ = owner.send(outcome);
    }
}

/// Returns a random first stream number, because processes that share a session must not use the same numbers.
fn first_stream() -> u64 {
    u64::from(u32::from_be_bytes(random_bytes())) << 24
}

/// Polls a future once, and spawns it if it is pending. Callers need not be async: the first poll uses a no-op waker,
/// and the spawned task polls it again with its own.
fn poll_or_spawn(work: impl Future<Output = ()> + Send + 'static) {
    let mut work = Box::pin(work);
    if work.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending() {
        tokio::spawn(work);
    }
}

#[cfg(test)]
mod tests;
