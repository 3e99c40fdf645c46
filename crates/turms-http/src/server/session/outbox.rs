//! Outgoing messages of a session, and the event streams that carry them: one for each POST, and standalone ones, which
//! clients open with GET.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context as TaskContext, Poll};

use turms_proto::Message;

use super::event_stream::{SessionStream, StreamKind};
use super::lock::{LockedSession, WakeList};
use super::peer::MessageRoute;
use super::{HttpSession, HttpSessionState, poll_or_spawn};

/// Maximum number of ended streams that are kept for clients that resume them.
const MAX_ENDED_STREAMS: usize = 64;

impl HttpSession {
    /// Sends a message on the stream of its call, or on a standalone stream. If the stream is full, wakes `task` when there is
    /// space. Returns `false` if the message was dropped: the session is closed, or the stream is full and `task` is `None`.
    pub(super) fn send(&self, route: &MessageRoute, message: &Message, task: Option<&TaskContext<'_>>) -> Poll<bool> {
        // Log messages of a store while it stores an event are not sent. They would be stored as well, without end.
        if StoreCallGuard::is_active() {
            return Poll::Ready(false);
        }
        let mut data = Vec::new();
        message.encode(&mut data);
        let stream = {
            let mut state = self.state.lock();
            if !state.is_open {
                return Poll::Ready(false);
            }
            let (id, stream, woken) = state.stream_of(route);
            if stream.is_full() {
                let Some(task) = task else { return Poll::Ready(false) };
                stream.wait(task.waker());
                return Poll::Pending;
            }
            stream.push(data, false, woken);
            id
        };
        self.persist(stream);
        Poll::Ready(true)
    }

    /// Stores the events of a stream, one after the other. Does nothing if this is already going on: it then stores the new
    /// events as well.
    pub(super) fn persist(&self, stream: u64) {
        let begins = self.state.lock().streams.get_mut(&stream).is_some_and(|stream| stream.begin_storing());
        if !begins {
            return;
        }
        let (session, options, id) = (self.weak_self.clone(), self.options.clone(), self.id.clone());
        let storing_all = async move {
            loop {
                let next = session.upgrade().and_then(|session| {
                    session.state.lock().streams.get_mut(&stream).and_then(|stream| stream.next_unstored())
                });
                let Some(event) = next else { return };
                let storing = async {
                    if let Err(error) = options.event_store.append(&id, stream, event).await {
                        tracing::warn!(%error, "an event cannot be stored; a client that loses its connection will miss it");
                    }
                };
                without_logs(storing).await;
                let is_open = session.upgrade().is_some_and(|session| {
                    let mut state = session.state.lock();
                    if let Some((stream, woken)) = state.stream(stream) {
                        stream.stored(woken);
                    }
                    state.is_open
                });
                if !is_open {
                    return options.remove_events_of_ended(&id).await;
                }
            }
        };
        poll_or_spawn(storing_all);
    }

    /// Removes streams that ended long ago, and the oldest ones if there are too many.
    pub(super) fn remove_old_streams(&self) {
        let removed: Vec<u64> = {
            let mut state = self.state.lock();
            let HttpSessionState { streams, ended, .. } = &mut *state;
            let mut excess = ended.len().saturating_sub(MAX_ENDED_STREAMS);
            let mut removed = Vec::new();
            ended.retain(|id| {
                let Some(stream) = streams.get(id) else { return false };
                let is_removed =
                    stream.has_no_reader() && (excess > 0 || stream.ended_before(self.options.event_retention));
                if is_removed {
                    excess = excess.saturating_sub(1);
                    streams.remove(id);
                    removed.push(*id);
                }
                !is_removed
            });
            removed
        };
        for stream in removed {
            let (events, id) = (self.options.event_store.clone(), self.id.clone());
            poll_or_spawn(async move {
                // Events that cannot be removed now are removed with the session.
                let _ = events.remove_stream(&id, stream).await;
            });
        }
    }

    /// Returns `true` if an event can still be read.
    pub(super) async fn has_event(&self, stream: u64, number: u64) -> bool {
        let is_in_memory = self.state.lock().streams.get(&stream).is_some_and(|stream| stream.has_in_memory(number));
        if is_in_memory {
            return true;
        }
        let found = self.options.event_store.after(&self.id, stream, number - 1, 1).await;
        found.is_ok_and(|events| events.first().is_some_and(|event| event.number == number))
    }

    /// Returns `true` if more streams have ended than are kept.
    pub(super) fn has_many_ended(&self) -> bool {
        self.state.lock().ended.len() > MAX_ENDED_STREAMS
    }
}

/// Runs a call of a store without sending its logs to the client.
async fn without_logs(call: impl Future<Output = ()>) {
    let mut call = pin!(call);
    poll_fn(|task| {
        // Set for each poll: between two polls, the thread may serve other sessions, and the call may move to another
        // thread.
        let _guard = StoreCallGuard::begin();
        call.as_mut().poll(task)
    })
    .await;
}

/// Marks the current thread as inside a call of a store, until it is dropped.
struct StoreCallGuard;

thread_local! {
    static IN_STORE_CALL: Cell<bool> = const { Cell::new(false) };
}

impl StoreCallGuard {
    fn begin() -> Self {
        IN_STORE_CALL.set(true);
        Self
    }

    fn is_active() -> bool {
        IN_STORE_CALL.get()
    }
}

impl Drop for StoreCallGuard {
    fn drop(&mut self) {
        IN_STORE_CALL.set(false);
    }
}

impl HttpSessionState {
    /// Adds a stream and returns its number.
    pub(super) fn open_stream(&mut self, kind: StreamKind) -> u64 {
        self.last_stream += 1;
        self.streams.insert(self.last_stream, Box::new(SessionStream::new(kind)));
        self.last_stream
    }

    /// Returns the number of the stream for a message: the stream of its call while it is open, or a standalone stream.
    fn number_of(&mut self, route: &MessageRoute) -> u64 {
        let own = route.open_stream(self);
        match own.filter(|id| self.streams.get(id).is_some_and(|stream| !stream.has_ended())) {
            Some(own) => own,
            None => self.standalone(),
        }
    }

    /// Returns the standalone stream: one with a reader, or the oldest without, where messages wait.
    fn standalone(&mut self) -> u64 {
        let mut standalone = self.streams.iter().filter(|(_, stream)| stream.kind == StreamKind::Standalone);
        let with_reader = standalone.clone().find(|(_, stream)| stream.is_read());
        match with_reader.or_else(|| standalone.next()) {
            Some((id, _)) => *id,
            None => self.open_stream(StreamKind::Standalone),
        }
    }
}

impl LockedSession<'_> {
    /// Returns the stream for a message with its number, and the wakers that run when the state is unlocked.
    pub(super) fn stream_of(&mut self, route: &MessageRoute) -> (u64, &mut SessionStream, &mut WakeList) {
        let (state, woken) = self.split();
        let id = state.number_of(route);
        let stream = state.streams.entry(id).or_insert_with(|| Box::new(SessionStream::new(StreamKind::Standalone)));
        (id, stream, woken)
    }

    /// Adds a response to a stream. Ends the stream if no other responses follow. `left` is the number of responses of the same
    /// batch that are added next.
    pub(super) fn respond_on_stream(&mut self, id: u64, data: Vec<u8>, left: usize) {
        let Some((stream, woken)) = self.stream(id) else { return };
        let is_last = left == 0 && stream.calls == 0;
        stream.push(data, is_last, woken);
        if is_last {
            self.ended.push_back(id);
        }
    }

    /// Ends a stream without a response if no call is running on it.
    pub(super) fn end_if_done(&mut self, id: u64) {
        if let Some((stream, woken)) = self.stream(id)
            && stream.calls == 0
            && stream.end(woken)
        {
            self.ended.push_back(id);
        }
    }
}
