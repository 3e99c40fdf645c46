use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::StoreError;
use crate::peer::BoxFuture;

/// An event that was sent on an SSE stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredEvent {
    /// The number of the event within the stream, starting at 1.
    pub number: u64,
    /// The message.
    pub data: Bytes,
    /// `true` if this is the last event of the stream.
    pub is_last: bool,
}

impl StoredEvent {
    /// Creates an event.
    #[must_use]
    pub fn new(number: u64, data: impl Into<Bytes>) -> Self {
        Self { number, data: data.into(), is_last: false }
    }

    /// Marks the event as the last of the stream.
    #[must_use]
    pub fn last(mut self) -> Self {
        self.is_last = true;
        self
    }
}

/// A store for the events that were sent on the streams of sessions, so that a client can resume a broken stream.
///
/// Events of a stream are appended in the order of their numbers. A store may drop old events to make room for new
/// ones, but must return [`StoreError::NotFound`] when they are requested.
pub trait EventStore: Send + Sync + 'static {
    /// Stores an event.
    fn append<'a>(&'a self, session: &'a str, stream: u64, event: StoredEvent)
    -> BoxFuture<'a, Result<(), StoreError>>;

    /// Loads the events after `number`, in order: as many as fit into `max_bytes`, but at least one. Empty if there are
    /// no more.
    ///
    /// Returns [`StoreError::NotFound`] if the event after `number` was dropped.
    fn after<'a>(
        &'a self,
        session: &'a str,
        stream: u64,
        number: u64,
        max_bytes: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>>;

    /// Removes the events of a stream.
    fn remove_stream<'a>(&'a self, session: &'a str, stream: u64) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Removes the events of all streams of a session.
    fn remove_session<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;
}

/// Forwards to the inner store.
impl<S: EventStore + ?Sized> EventStore for Arc<S> {
    fn append<'a>(
        &'a self,
        session: &'a str,
        stream: u64,
        event: StoredEvent,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        (**self).append(session, stream, event)
    }

    fn after<'a>(
        &'a self,
        session: &'a str,
        stream: u64,
        number: u64,
        max_bytes: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        (**self).after(session, stream, number, max_bytes)
    }

    fn remove_stream<'a>(&'a self, session: &'a str, stream: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        (**self).remove_stream(session, stream)
    }

    fn remove_session<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        (**self).remove_session(session)
    }
}

/// An in-memory event store with a maximum number of bytes per session and in total. The oldest events are dropped
/// first.
#[doc(alias = "resumability")]
#[doc(alias = "last_event_id")]
pub struct MemoryEventStore {
    max_session_bytes: usize,
    max_total_bytes: usize,
    state: Mutex<EventStoreState>,
}

#[derive(Default)]
struct EventStoreState {
    sessions: HashMap<Box<str>, SessionEvents>,
    bytes: usize,
}

/// The events of all streams of a session, oldest first.
#[derive(Default)]
struct SessionEvents {
    events: VecDeque<(u64, StoredEvent)>,
    /// The number of the last dropped event of each stream.
    dropped: HashMap<u64, u64>,
    bytes: usize,
}

/// Number of bytes that an event takes in addition to its data.
const EVENT_OVERHEAD: usize = 96;

impl SessionEvents {
    /// Drops the oldest event and returns its size in bytes.
    fn drop_oldest(&mut self) -> usize {
        let Some((stream, event)) = self.events.pop_front() else { return 0 };
        self.dropped.insert(stream, event.number);
        let size = event.data.len() + EVENT_OVERHEAD;
        self.bytes -= size;
        size
    }
}

impl MemoryEventStore {
    /// Creates a store with a maximum number of bytes per session and in total.
    #[must_use]
    pub fn new(max_session_bytes: usize, max_total_bytes: usize) -> Self {
        Self { max_session_bytes, max_total_bytes, state: Mutex::default() }
    }

    fn insert(&self, session: &str, stream: u64, event: StoredEvent) -> Result<(), StoreError> {
        let size = event.data.len() + EVENT_OVERHEAD;
        let mut state = self.state.lock();
        if state.bytes + size > self.max_total_bytes {
            // Shrink the largest session, so that one session cannot evict the events of the others.
            let own = state.sessions.get(session).map_or(0, |events| events.bytes) + size;
            let largest = state.sessions.iter().max_by_key(|(_, events)| events.bytes);
            match largest.map(|(id, events)| (id.clone(), events.bytes)) {
                // Shrink it by more than is needed now, so that the search for the largest session is rare.
                Some((id, bytes)) if bytes >= own => Self::shrink(&mut state, &id, size.max(bytes / 8)),
                _ => Self::shrink(&mut state, session, size),
            }
            if state.bytes + size > self.max_total_bytes {
                return Err(StoreError::CapacityExceeded { what: "bytes", limit: self.max_total_bytes });
            }
        }
        let EventStoreState { sessions, bytes } = &mut *state;
        if !sessions.contains_key(session) {
            sessions.insert(session.into(), SessionEvents::default());
        }
        let Some(stored) = sessions.get_mut(session) else { return Ok(()) };
        stored.events.push_back((stream, event));
        stored.bytes += size;
        *bytes += size;
        while stored.bytes > self.max_session_bytes && stored.events.len() > 1 {
            *bytes -= stored.drop_oldest();
        }
        Ok(())
    }

    fn shrink(state: &mut EventStoreState, session: &str, by: usize) {
        let Some(stored) = state.sessions.get_mut(session) else { return };
        let mut freed = 0;
        while freed < by && !stored.events.is_empty() {
            freed += stored.drop_oldest();
        }
        state.bytes -= freed;
    }

    fn find(&self, session: &str, stream: u64, number: u64, max_bytes: usize) -> Result<Vec<StoredEvent>, StoreError> {
        let state = self.state.lock();
        let Some(stored) = state.sessions.get(session) else { return Ok(Vec::new()) };
        if stored.dropped.get(&stream).is_some_and(|dropped| *dropped > number) {
            return Err(StoreError::NotFound);
        }
        // Clients mostly request the newest events, so search from the end.
        let seen = stored.events.iter().rposition(|(of, event)| *of == stream && event.number <= number);
        let mut size = 0;
        let later = stored.events.range(seen.map_or(0, |seen| seen + 1)..).filter(|(of, _)| *of == stream);
        let found = later.map(|(_, event)| event.clone()).take_while(|event| {
            let fits = size == 0 || size + event.data.len() <= max_bytes;
            size += event.data.len().max(1);
            fits
        });
        Ok(found.collect())
    }
}

impl EventStore for MemoryEventStore {
    fn append<'a>(
        &'a self,
        session: &'a str,
        stream: u64,
        event: StoredEvent,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(std::future::ready(self.insert(session, stream, event)))
    }

    fn after<'a>(
        &'a self,
        session: &'a str,
        stream: u64,
        number: u64,
        max_bytes: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        Box::pin(std::future::ready(self.find(session, stream, number, max_bytes)))
    }

    fn remove_stream<'a>(&'a self, session: &'a str, stream: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut state = self.state.lock();
        let EventStoreState { sessions, bytes } = &mut *state;
        if let Some(stored) = sessions.get_mut(session) {
            stored.dropped.remove(&stream);
            let mut freed = 0;
            stored.events.retain(|(of, event)| {
                let stays = *of != stream;
                freed += if stays { 0 } else { event.data.len() + EVENT_OVERHEAD };
                stays
            });
            stored.bytes -= freed;
            *bytes -= freed;
            if stored.events.is_empty() && stored.dropped.is_empty() {
                sessions.remove(session);
            }
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn remove_session<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut state = self.state.lock();
        if let Some(stored) = state.sessions.remove(session) {
            state.bytes -= stored.bytes;
        }
        if state.sessions.is_empty() {
            state.sessions.shrink_to_fit();
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

impl fmt::Debug for MemoryEventStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("MemoryEventStore")
            .field("sessions", &state.sessions.len())
            .field("bytes", &state.bytes)
            .finish()
    }
}
