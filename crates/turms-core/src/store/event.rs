use std::collections::{HashMap, VecDeque};
use std::fmt;

use bytes::Bytes;
use parking_lot::Mutex;

use super::StoreError;
use crate::peer::BoxFuture;

/// Something that was sent on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredEvent {
    /// Its number within the stream, counted from one.
    pub number: u64,
    /// The message.
    pub data: Bytes,
    /// Whether it is the last of its stream.
    pub is_last: bool,
}

impl StoredEvent {
    /// An event of a stream.
    #[must_use]
    pub fn new(number: u64, data: impl Into<Bytes>) -> Self {
        Self { number, data: data.into(), is_last: false }
    }

    /// As the last of its stream.
    #[must_use]
    pub fn last(mut self) -> Self {
        self.is_last = true;
        self
    }
}

/// What was sent on the streams of sessions, so that a stream that broke can be taken up again.
///
/// Events of a stream are appended in the order of their numbers. A store may forget old events to make room for new ones,
/// but must say so when they are asked for.
pub trait EventStore: Send + Sync + 'static {
    /// Keeps an event.
    fn append<'a>(&'a self, session: &'a str, stream: u64, event: StoredEvent)
    -> BoxFuture<'a, Result<(), StoreError>>;

    /// The events after the one of this number, in order, at most so many bytes of them but at least one; none if there are
    /// no more. [`StoreError::Gone`] if the next one was forgotten.
    fn after<'a>(
        &'a self,
        session: &'a str,
        stream: u64,
        number: u64,
        bytes: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>>;

    /// Forgets a stream.
    fn remove_stream<'a>(&'a self, session: &'a str, stream: u64) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Forgets all streams of a session.
    fn remove_session<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;
}

/// Events in the memory of this process, up to a number of bytes for each session and for all of them together. The oldest
/// are forgotten first.
pub struct MemoryEvents {
    per_session: usize,
    in_all: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sessions: HashMap<Box<str>, Log>,
    bytes: usize,
}

/// The events of a session, oldest first, whatever their stream.
#[derive(Default)]
struct Log {
    events: VecDeque<(u64, StoredEvent)>,
    /// The last event of each stream that was forgotten.
    forgotten: HashMap<u64, u64>,
    bytes: usize,
}

/// What an event costs beside its data.
const OVERHEAD: usize = 96;

impl Log {
    fn forget_oldest(&mut self) -> usize {
        let Some((stream, event)) = self.events.pop_front() else { return 0 };
        self.forgotten.insert(stream, event.number);
        let cost = event.data.len() + OVERHEAD;
        self.bytes -= cost;
        cost
    }
}

impl MemoryEvents {
    /// At most so many bytes for each session, and for all sessions together.
    #[must_use]
    pub fn new(per_session: usize, in_all: usize) -> Self {
        Self { per_session, in_all, state: Mutex::default() }
    }

    fn keep(&self, session: &str, stream: u64, event: StoredEvent) -> Result<(), StoreError> {
        let cost = event.data.len() + OVERHEAD;
        let mut state = self.state.lock();
        if state.bytes + cost > self.in_all {
            // Whoever has most gives way; a session cannot push out the few events of others.
            let own = state.sessions.get(session).map_or(0, |log| log.bytes) + cost;
            let largest = state.sessions.iter().max_by_key(|(_, log)| log.bytes);
            match largest.map(|(id, log)| (id.clone(), log.bytes)) {
                // More than is needed now, so that the largest is not looked for each time.
                Some((id, bytes)) if bytes >= own => Self::shrink(&mut state, &id, cost.max(bytes / 8)),
                _ => Self::shrink(&mut state, session, cost),
            }
            if state.bytes + cost > self.in_all {
                return Err(StoreError::Full(self.in_all));
            }
        }
        let State { sessions, bytes } = &mut *state;
        if !sessions.contains_key(session) {
            sessions.insert(session.into(), Log::default());
        }
        let Some(log) = sessions.get_mut(session) else { return Ok(()) };
        log.events.push_back((stream, event));
        log.bytes += cost;
        *bytes += cost;
        while log.bytes > self.per_session && log.events.len() > 1 {
            *bytes -= log.forget_oldest();
        }
        Ok(())
    }

    fn shrink(state: &mut State, session: &str, by: usize) {
        let Some(log) = state.sessions.get_mut(session) else { return };
        let mut freed = 0;
        while freed < by && !log.events.is_empty() {
            freed += log.forget_oldest();
        }
        state.bytes -= freed;
    }

    fn find(&self, session: &str, stream: u64, number: u64, bytes: usize) -> Result<Vec<StoredEvent>, StoreError> {
        let state = self.state.lock();
        let Some(log) = state.sessions.get(session) else { return Ok(Vec::new()) };
        if log.forgotten.get(&stream).is_some_and(|forgotten| *forgotten > number) {
            return Err(StoreError::Gone);
        }
        // What is asked for is most often the newest, so the search begins there.
        let seen = log.events.iter().rposition(|(of, event)| *of == stream && event.number <= number);
        let mut size = 0;
        let later = log.events.range(seen.map_or(0, |seen| seen + 1)..).filter(|(of, _)| *of == stream);
        let found = later.map(|(_, event)| event.clone()).take_while(|event| {
            let fits = size == 0 || size + event.data.len() <= bytes;
            size += event.data.len().max(1);
            fits
        });
        Ok(found.collect())
    }
}

impl EventStore for MemoryEvents {
    fn append<'a>(
        &'a self,
        session: &'a str,
        stream: u64,
        event: StoredEvent,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(std::future::ready(self.keep(session, stream, event)))
    }

    fn after<'a>(
        &'a self,
        session: &'a str,
        stream: u64,
        number: u64,
        bytes: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        Box::pin(std::future::ready(self.find(session, stream, number, bytes)))
    }

    fn remove_stream<'a>(&'a self, session: &'a str, stream: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut state = self.state.lock();
        let State { sessions, bytes } = &mut *state;
        if let Some(log) = sessions.get_mut(session) {
            log.forgotten.remove(&stream);
            let mut freed = 0;
            log.events.retain(|(of, event)| {
                let stays = *of != stream;
                freed += if stays { 0 } else { event.data.len() + OVERHEAD };
                stays
            });
            log.bytes -= freed;
            *bytes -= freed;
            if log.events.is_empty() && log.forgotten.is_empty() {
                sessions.remove(session);
            }
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn remove_session<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut state = self.state.lock();
        if let Some(log) = state.sessions.remove(session) {
            state.bytes -= log.bytes;
        }
        if state.sessions.is_empty() {
            state.sessions.shrink_to_fit();
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

impl fmt::Debug for MemoryEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("MemoryEvents").field("sessions", &state.sessions.len()).field("bytes", &state.bytes).finish()
    }
}
