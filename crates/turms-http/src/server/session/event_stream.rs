//! Event streams, which outlive the connections that carry them.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use turms_core::store::StoredEvent;

use super::lock::WakeList;

/// The kind of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamKind {
    /// The messages of the calls of one POST, ending with their responses.
    Call,
    /// Messages that do not belong to a call.
    Standalone,
    /// A stream of another process. Its events are only in the store.
    Remote,
}

/// An event stream. An event stays in memory until it is stored and the reader has taken it.
#[derive(Debug)]
pub(super) struct SessionStream {
    pub(super) kind: StreamKind,
    /// Number of calls without a response.
    pub(super) calls: usize,
    /// The number of the last event.
    last: u64,
    /// The number of the last event that a reader has taken.
    taken: u64,
    unread: EventQueue,
    unstored: EventQueue,
    is_storing: bool,
    reader: Option<AttachedReader>,
    /// `true` while a reader is expected but not attached.
    expects_reader: bool,
    blocked_senders: Vec<Waker>,
    disconnect: Option<Duration>,
    ended: Option<Instant>,
}

#[derive(Debug)]
struct AttachedReader {
    serial: u32,
    waker: Option<Waker>,
}

/// Events in the order of their numbers, for the reader or the store.
#[derive(Debug, Default)]
struct EventQueue {
    events: VecDeque<StoredEvent>,
    bytes: usize,
}

impl EventQueue {
    fn push(&mut self, event: StoredEvent) {
        self.bytes += event.data.len();
        self.events.push_back(event);
    }

    fn pop(&mut self) -> Option<StoredEvent> {
        let event = self.events.pop_front()?;
        self.bytes -= event.data.len();
        Some(event)
    }
}

/// The result of a lookup by a reader.
pub(super) enum StreamLookup {
    /// The next events.
    Events(Vec<StoredEvent>),
    /// The next events must be read from the store.
    InStore,
    /// No events yet.
    Nothing,
    /// The end of the stream, or of its connection. The duration is the delay before the client reconnects, if the
    /// stream continues.
    End(Option<Duration>),
}

impl SessionStream {
    /// Maximum number of bytes that wait for the reader or the store before senders have to wait. Small in unit tests,
    /// which fill streams thousands of times.
    pub(super) const LIMIT: usize = if cfg!(test) { 64 } else { 256 * 1024 };

    pub(super) fn new(kind: StreamKind) -> Self {
        Self {
            kind,
            calls: 0,
            last: 0,
            taken: 0,
            unread: EventQueue::default(),
            unstored: EventQueue::default(),
            is_storing: false,
            reader: None,
            expects_reader: kind == StreamKind::Call,
            blocked_senders: Vec::new(),
            disconnect: None,
            ended: None,
        }
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    pub(super) fn is_read(&self) -> bool {
        self.reader.is_some()
    }

    /// Returns `true` if there is no reader and none is expected.
    pub(super) fn has_no_reader(&self) -> bool {
        self.reader.is_none() && !self.expects_reader
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    pub(super) fn ended_before(&self, age: Duration) -> bool {
        self.ended.is_some_and(|ended| ended.elapsed() >= age)
    }

    /// Returns `true` if the reader or the store is too slow.
    pub(super) fn is_full(&self) -> bool {
        self.unread.bytes >= Self::LIMIT || self.unstored.bytes >= Self::LIMIT
    }

    /// Registers a sender that is woken when the reader and the store have caught up.
    pub(super) fn wait(&mut self, sender: &Waker) {
        if !self.blocked_senders.iter().any(|waiting| waiting.will_wake(sender)) {
            self.blocked_senders.push(sender.clone());
        }
    }

    /// Adds an event.
    pub(super) fn push(&mut self, data: Vec<u8>, is_last: bool, woken: &mut WakeList) {
        self.last += 1;
        let mut event = StoredEvent::new(self.last, Bytes::from(data));
        event.is_last = is_last;
        if !self.has_no_reader() {
            self.unread.push(event.clone());
        }
        self.unstored.push(event);
        if is_last {
            self.ended = Some(Instant::now());
        }
        self.wake_reader(woken);
    }

    /// Ends the stream without a response. Returns `false` if it has already ended.
    pub(super) fn end(&mut self, woken: &mut WakeList) -> bool {
        let was_open = self.ended.is_none();
        self.ended.get_or_insert_with(Instant::now);
        self.wake_reader(woken);
        was_open
    }

    /// Ends the connection that carries the stream, not the stream.
    pub(super) fn disconnect(&mut self, retry: Duration, woken: &mut WakeList) {
        self.disconnect = Some(retry);
        self.wake_reader(woken);
    }

    /// Returns `true` if the caller must start storing events. It stores events until there are no more.
    pub(super) fn begin_storing(&mut self) -> bool {
        !self.unstored.events.is_empty() && !std::mem::replace(&mut self.is_storing, true)
    }

    /// Returns the next event to store. After `None`, storing stops and must be started again.
    pub(super) fn next_unstored(&mut self) -> Option<StoredEvent> {
        let event = self.unstored.events.front().cloned();
        self.is_storing = event.is_some();
        event
    }

    /// Removes the next event after it was stored, or after storing failed.
    pub(super) fn stored(&mut self, woken: &mut WakeList) {
        self.unstored.pop();
        self.wake_senders(woken);
    }

    pub(super) fn has_in_memory(&self, number: u64) -> bool {
        let has = |queue: &EventQueue| queue.events.iter().any(|event| event.number == number);
        has(&self.unread) || has(&self.unstored)
    }

    /// Attaches a reader, replacing the current one.
    pub(super) fn attach(&mut self, serial: u32, woken: &mut WakeList) {
        self.wake_all(woken);
        self.expects_reader = false;
        self.disconnect = self.disconnect.filter(|_| self.reader.is_none() && self.taken == 0);
        self.reader = Some(AttachedReader { serial, waker: None });
    }

    /// Detaches a reader. Returns `false` if there is none, or if another one is attached.
    pub(super) fn detach(&mut self, serial: Option<u32>, woken: &mut WakeList) -> bool {
        let is_gone = self.reader.take_if(|reader| serial.is_none_or(|serial| reader.serial == serial)).is_some();
        if is_gone || serial.is_none() {
            self.expects_reader = false;
            self.unread = EventQueue::default();
            self.wake_all(woken);
        }
        is_gone
    }

    /// Returns the events after a number. Registers the waker of the reader.
    pub(super) fn find(
        &mut self,
        serial: u32,
        after: u64,
        bytes: usize,
        waker: &Waker,
        woken: &mut WakeList,
    ) -> StreamLookup {
        let Some(reader) = self.reader.as_mut().filter(|reader| reader.serial == serial) else {
            return StreamLookup::End(None);
        };
        if !reader.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            reader.waker = Some(waker.clone());
        }
        self.taken = self.taken.max(after);
        while self.unread.events.front().is_some_and(|event| event.number <= after) {
            self.unread.pop();
        }
        let found = if self.unread.events.front().is_some_and(|event| event.number == after + 1) {
            self.take_unread(bytes)
        } else {
            self.look_at_unstored(after, bytes)
        };
        if !found.is_empty() {
            self.wake_senders(woken);
            return StreamLookup::Events(found);
        }
        if self.last > after || self.kind == StreamKind::Remote {
            return StreamLookup::InStore;
        }
        match (self.ended, self.disconnect.take()) {
            (Some(_), _) => StreamLookup::End(None),
            (None, Some(retry)) => StreamLookup::End(Some(retry)),
            (None, None) => StreamLookup::Nothing,
        }
    }

    fn take_unread(&mut self, bytes: usize) -> Vec<StoredEvent> {
        let mut size = 0;
        let mut found = Vec::new();
        while size < bytes
            && let Some(event) = self.unread.pop()
        {
            size += event.data.len();
            found.push(event);
        }
        found
    }

    /// Returns events that are not stored yet, and that had no reader when they were sent.
    fn look_at_unstored(&self, after: u64, bytes: usize) -> Vec<StoredEvent> {
        let mut size = 0;
        let next = self.unstored.events.iter().skip_while(|event| event.number <= after);
        let found = next.take_while(|event| {
            let fits = size < bytes;
            size += event.data.len();
            fits
        });
        let found: Vec<_> = found.cloned().collect();
        if found.first().is_some_and(|event| event.number == after + 1) { found } else { Vec::new() }
    }

    fn wake_reader(&mut self, woken: &mut WakeList) {
        woken.extend(self.reader.as_mut().and_then(|reader| reader.waker.take()));
    }

    fn wake_senders(&mut self, woken: &mut WakeList) {
        woken.extend(self.blocked_senders.drain(..));
    }

    pub(super) fn wake_all(&mut self, woken: &mut WakeList) {
        self.wake_reader(woken);
        self.wake_senders(woken);
    }
}
