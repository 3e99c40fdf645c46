//! Sessions of clients of 2025-03-26 to 2025-11-25.
//!
//! A session is a small record: no task and no channel exist for it until something needs one. A call that is not answered at
//! once outlives its connection, so it runs as a task, and what it says goes to the event store, from which any later
//! connection takes it up.

mod alone;
mod call;
mod link;
mod serve;
mod sessions;
mod stream;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use turms_core::store::{SessionRecord, StoredEvent};
use turms_core::{Peer, Service};
use turms_proto::session::{Event, RequestError, Session, Status, Ticket};
use turms_proto::{Ability, Message, Notification, ProtocolVersion, RawJson};

pub use self::link::EventStream;
use self::link::{Route, SessionLink};
pub(super) use self::serve::new_id;
pub(super) use self::sessions::Sessions;
use self::stream::{Stream, StreamKind};
use super::options::SessionOptions;

/// Who waits for the answer to a question of ours.
type Waiter = oneshot::Sender<Result<RawJson, RequestError>>;

/// The session of one client.
pub(super) struct HttpSession {
    id: Arc<str>,
    me: Weak<Self>,
    record: OnceLock<Arc<SessionRecord>>,
    service: Arc<dyn Service>,
    options: Arc<SessionOptions>,
    state: Mutex<State>,
    /// When it was last used, and when the store was last told so, by the clock of the options.
    used: AtomicU64,
    touched: AtomicU64,
}

struct State {
    protocol: Session<Waiter>,
    streams: BTreeMap<u64, Stream>,
    last_stream: u64,
    /// The streams that have ended, oldest first.
    ended: VecDeque<u64>,
    tasks: HashMap<Ticket, Running>,
    last_reader: u64,
    readers: usize,
    is_open: bool,
}

/// A call that runs as a task.
struct Running {
    task: AbortHandle,
    stream: u64,
    is_batch: bool,
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
            let peer = Peer::new(SessionLink::new(session.clone(), Route::Standalone));
            let service = service.for_connection(&peer).unwrap_or_else(|| service.clone());
            let state = State {
                protocol,
                streams: BTreeMap::new(),
                last_stream: first_stream(),
                ended: VecDeque::new(),
                tasks: HashMap::new(),
                last_reader: 0,
                readers: 0,
                is_open: true,
            };
            let now = options.clock();
            Self {
                id,
                me: session.clone(),
                record: OnceLock::new(),
                service,
                options,
                state: Mutex::new(state),
                used: AtomicU64::new(now),
                touched: AtomicU64::new(now),
            }
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn principal(&self) -> Option<&str> {
        self.record.get()?.principal.as_deref()
    }

    /// Whether streams begin with an event that says where they do, and the server may hang up and be called again.
    fn can_poll(&self) -> bool {
        self.record.get().is_some_and(|record| record.version.has(Ability::SsePolling))
    }

    /// Takes note that it is used; true if the store should hear of it.
    fn touch(&self) -> bool {
        let now = self.options.clock();
        self.used.store(now, Ordering::Relaxed);
        // Telling the store a few times in a life is enough.
        let due = self.options.idle.as_millis() as u64 / 8;
        let touched = self.touched.load(Ordering::Relaxed);
        now.saturating_sub(touched) >= due
            && self.touched.compare_exchange(touched, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Whether a stream of it is read or a call of it runs.
    fn is_busy(&self) -> bool {
        let state = self.state();
        state.readers > 0 || !state.tasks.is_empty()
    }

    /// Gives back what it does not need if it was not used for a while. In use, it would only be taken again.
    fn rest(&self, unused: Duration) {
        if self.options.clock().saturating_sub(self.used.load(Ordering::Relaxed)) >= unused.as_millis() as u64 {
            let mut state = self.state();
            state.protocol.rest();
            state.tasks.shrink_to_fit();
        }
    }

    /// Whether nobody has used it for too long. Whoever has begun to shake hands and never finished has less time.
    fn is_expired(&self) -> bool {
        const UNFINISHED: Duration = Duration::from_secs(60);
        if self.is_busy() {
            self.used.store(self.options.clock(), Ordering::Relaxed);
            return false;
        }
        let finished = self.state().protocol.status() == Status::Ready;
        let idle = if finished { self.options.idle } else { self.options.idle.min(UNFINISHED) };
        self.options.clock().saturating_sub(self.used.load(Ordering::Relaxed)) >= idle.as_millis() as u64
    }

    /// Forgets streams that ended long ago.
    fn forget_streams(&self) -> Vec<u64> {
        let mut state = self.state();
        let retention = self.options.retention;
        let is_old = |stream: &Stream| stream.has_no_reader() && stream.ended_before(retention);
        let old = state.ended.iter().take_while(|id| state.streams.get(id).is_none_or(is_old)).count();
        let old: Vec<u64> = state.ended.drain(..old).collect();
        state.ended.shrink_to_fit();
        for id in &old {
            state.streams.remove(id);
        }
        old
    }

    /// A stream has ended. So many that ended before it are kept for clients that missed something, but not all.
    fn note_ended(&self, state: &mut State, stream: u64) {
        const KEPT: usize = 64;
        state.ended.push_back(stream);
        while state.ended.len() > KEPT {
            let Some(oldest) = state.ended.pop_front() else { return };
            state.streams.remove(&oldest);
            let (events, id) = (self.options.events.clone(), self.id.clone());
            now_or_later(async move {
                // What the store cannot forget now goes with the session.
                let _ = events.remove_stream(&id, oldest).await;
            });
        }
    }

    /// Ends it: calls are given up, streams end, whoever waits for an answer hears that there will be none.
    fn close(&self) {
        let events: Vec<_> = {
            let mut state = self.state();
            state.is_open = false;
            state.protocol.close();
            for (_, running) in state.tasks.drain() {
                running.task.abort();
            }
            for (_, mut stream) in std::mem::take(&mut state.streams) {
                stream.wake_all();
            }
            std::iter::from_fn(|| state.protocol.next_event()).collect()
        };
        events.into_iter().for_each(settle);
    }

    /// Says something on a stream of its own choice; what it is told while the client does not listen is kept for it.
    fn say(&self, route: &Route, message: &Message, waits: Option<&mut TaskContext<'_>>) -> Poll<bool> {
        let mut state = self.state();
        if !state.is_open {
            return Poll::Ready(false);
        }
        let stream = self.stream_of(&mut state, route);
        if let Some(open) = state.streams.get_mut(&stream)
            && open.is_behind()
        {
            return match waits {
                Some(task) => {
                    open.wait(task.waker());
                    Poll::Pending
                }
                None => Poll::Ready(false),
            };
        }
        let mut data = Vec::new();
        state.protocol.encode(message, &mut data);
        self.push(&mut state, stream, data, false);
        Poll::Ready(true)
    }

    fn notify(&self, route: &Route, notification: Notification) -> Poll<bool> {
        self.say(route, &Message::Notification(notification), None)
    }

    /// The stream that something belongs on: that of its call while that is open, or one that belongs to none.
    fn stream_of(&self, state: &mut State, route: &Route) -> u64 {
        match route {
            Route::Call(call) => {
                let stream = *call.get_or_init(|| state.open_stream(StreamKind::Call));
                match state.streams.get(&stream) {
                    Some(open) if !open.has_ended() => stream,
                    _ => state.standalone(),
                }
            }
            Route::Standalone => state.standalone(),
        }
    }

    /// Adds an event to a stream, and wakes its reader once it is kept.
    fn push(&self, state: &mut State, stream: u64, data: Vec<u8>, is_last: bool) {
        let Some(open) = state.streams.get_mut(&stream) else { return };
        let number = open.number(data.len(), is_last);
        let mut event = StoredEvent::new(number, Bytes::from(data));
        event.is_last = is_last;
        let same = event.clone();
        let (events, id) = (self.options.events.clone(), self.id.clone());
        let mut keeping = Box::pin(async move { events.append(&id, stream, event).await });
        match keeping.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => open.kept(number),
            Poll::Ready(Err(error)) => {
                tracing::warn!(%error, "an event cannot be kept");
                open.not_kept(same);
            }
            // A store that is far away takes its time; nobody waits for it here.
            Poll::Pending => {
                let session = self.me.clone();
                tokio::spawn(async move {
                    let kept = keeping.await;
                    if let Some(session) = session.upgrade()
                        && let Some(open) = session.state().streams.get_mut(&stream)
                    {
                        match kept {
                            Ok(()) => open.kept(number),
                            Err(error) => {
                                tracing::warn!(%error, "an event cannot be kept");
                                open.not_kept(same);
                            }
                        }
                    }
                });
            }
        }
        if is_last {
            self.note_ended(state, stream);
        }
    }

    /// Ends a stream without an answer.
    fn end_stream(&self, state: &mut State, stream: u64) {
        if let Some(open) = state.streams.get_mut(&stream)
            && open.end()
        {
            self.note_ended(state, stream);
        }
    }
}

impl State {
    fn open_stream(&mut self, kind: StreamKind) -> u64 {
        self.last_stream += 1;
        self.streams.insert(self.last_stream, Stream::new(kind));
        self.last_stream
    }

    /// The stream for what belongs to no call: one that is read, or the oldest of those that are not, where it waits.
    fn standalone(&mut self) -> u64 {
        let mut standing = self.streams.iter().filter(|(_, stream)| stream.kind() == StreamKind::Standalone);
        let read = standing.clone().find(|(_, stream)| !stream.has_no_reader());
        match read.or_else(|| standing.next()) {
            Some((id, _)) => *id,
            None => self.open_stream(StreamKind::Standalone),
        }
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
    let mut bytes = [0_u8; 4];
    // Streams that are counted alike only matter where several processes share their stores.
    let _ = getrandom::fill(&mut bytes);
    u64::from(u32::from_be_bytes(bytes)) << 24
}

/// Does at once what can be done at once, and the rest when it can be.
fn now_or_later(work: impl Future<Output = ()> + Send + 'static) {
    let mut work = Box::pin(work);
    if work.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending() {
        tokio::spawn(work);
    }
}
