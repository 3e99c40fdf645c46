//! The body of a response that carries an event stream of a session.
//!
//! A stream outlives its responses: a client that lost one continues the stream in another, from the last event that it
//! received.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, Interval};
use turms_core::BoxFuture;
use turms_core::store::{StoreError, StoredEvent};

use super::HttpSession;
use super::event_stream::{SessionStream, StreamKind, StreamLookup};
use crate::server::keep_alive::KeepAlive;
use crate::server::response::EventSource;
use crate::server::stream_limit::StreamPermit;
use crate::sse;

/// The position at which a reader starts.
#[derive(Debug, Clone, Copy)]
pub(super) enum StreamStart {
    /// The first reader, after this event.
    Fresh(u64),
    /// A resumed stream, after the last event that the client received.
    After(u64),
    /// Same as [`StreamStart::After`], for a stream that another process writes. Its events are only in the store.
    Remote(u64),
}

impl StreamStart {
    fn cursor(self) -> u64 {
        match self {
            Self::Fresh(cursor) | Self::After(cursor) | Self::Remote(cursor) => cursor,
        }
    }
}

/// Reads a stream and writes its events to a response.
pub(super) struct StreamReader {
    session: Arc<HttpSession>,
    /// The number of the stream.
    stream: u64,
    /// The number of this reader. A later reader of the same stream replaces it.
    serial: u32,
    /// The last event that was written.
    cursor: u64,
    /// The first event, which has an id and no data, until it is written.
    priming: Option<Bytes>,
    /// A read of events that are no longer in memory.
    fetching: Option<Fetching>,
    is_over: bool,
    keep_alive: KeepAlive,
    /// Resolves when the response must end although the stream has not, such as on shutdown.
    ending: Option<BoxFuture<'static, ()>>,
    remote: Option<RemotePolling>,
    _permit: StreamPermit,
}

type Fetching = BoxFuture<'static, Result<Vec<StoredEvent>, StoreError>>;

/// The state of polling the store for events of another process.
struct RemotePolling {
    interval: Interval,
    is_due: bool,
    last_event: Instant,
}

/// Interval of polling the store for events of another process.
const REMOTE_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Timeout of polling without new events: the other process may have died.
const REMOTE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Approximate number of bytes that are written at a time.
const MAX_WRITE: usize = 64 * 1024;

impl StreamReader {
    /// Creates a reader for a stream, replacing the current one. `None` if the session is closed, or has no such stream.
    pub(super) fn new(
        session: &Arc<HttpSession>,
        stream: u64,
        start: StreamStart,
        keep_alive: Duration,
        ending: impl FnOnce(StreamKind) -> Option<BoxFuture<'static, ()>>,
        permit: StreamPermit,
    ) -> Option<Self> {
        let mut state = session.state.lock();
        if !state.is_open {
            return None;
        }
        if matches!(start, StreamStart::Remote(_)) {
            state.streams.entry(stream).or_insert_with(|| Box::new(SessionStream::new(StreamKind::Remote)));
        }
        state.last_reader = state.last_reader.wrapping_add(1);
        let serial = state.last_reader;
        let (open, woken) = state.stream(stream)?;
        open.attach(serial, woken);
        let kind = open.kind;
        state.readers += 1;
        let cursor = start.cursor();
        let is_fresh = matches!(start, StreamStart::Fresh(_));
        let remote = || RemotePolling {
            interval: tokio::time::interval(REMOTE_POLL_INTERVAL),
            is_due: true,
            last_event: Instant::now(),
        };
        Some(Self {
            session: session.clone(),
            stream,
            serial,
            cursor,
            priming: (is_fresh && session.can_poll()).then(|| priming(stream, cursor)),
            fetching: None,
            is_over: false,
            keep_alive: KeepAlive::new(keep_alive),
            ending: ending(kind),
            remote: (kind == StreamKind::Remote).then(remote),
            _permit: permit,
        })
    }

    /// Returns the next events of the stream, or where they are.
    fn find(&self, task: &TaskContext<'_>) -> StreamLookup {
        let mut state = self.session.state.lock();
        match state.stream(self.stream) {
            Some((stream, woken)) => stream.find(self.serial, self.cursor, MAX_WRITE, task.waker(), woken),
            None => StreamLookup::End(None),
        }
    }

    /// Reads the next events from the store.
    fn fetch(&self) -> Fetching {
        let (events, id) = (self.session.options.event_store.clone(), self.session.id.clone());
        let (stream, cursor) = (self.stream, self.cursor);
        Box::pin(async move { events.after(&id, stream, cursor, MAX_WRITE).await })
    }

    /// Checks events from the store. Returns `None` if the next event is missing.
    fn take(&mut self, fetched: Result<Vec<StoredEvent>, StoreError>) -> Option<Vec<StoredEvent>> {
        match fetched {
            Ok(events) if events.first().is_some_and(|event| event.number == self.cursor + 1) => {
                if let Some(remote) = &mut self.remote {
                    remote.last_event = Instant::now();
                }
                Some(events)
            }
            // No new events from the other process.
            Ok(events) if events.is_empty() && self.remote.is_some() => Some(events),
            Ok(_) => {
                tracing::warn!("a stream ends: its next event is not in the store");
                None
            }
            Err(error) => {
                tracing::warn!(%error, "a stream ends: its events cannot be read");
                None
            }
        }
    }

    /// Encodes events for the response, and moves the cursor.
    fn write(&mut self, events: Vec<StoredEvent>) -> Bytes {
        let mut piece = Vec::with_capacity(events.iter().map(|event| event.data.len() + 48).sum());
        for event in events {
            // There may be gaps if an event could not be stored.
            if event.number != self.cursor + 1 {
                break;
            }
            self.cursor = event.number;
            sse::write_event(&mut piece, None, Some(&event_id(self.stream, event.number)), &event.data);
            self.is_over |= event.is_last;
        }
        self.keep_alive.reset();
        piece.into()
    }

    /// Returns `true` if events must be fetched: always for a stream of this process, and at intervals for one of
    /// another process.
    fn is_fetch_due(&mut self) -> bool {
        self.remote.as_mut().is_none_or(|remote| std::mem::take(&mut remote.is_due))
    }

    /// Resolves when the store must be polled for events of another process, or when the polling has timed out.
    fn poll_remote(&mut self, task: &mut TaskContext<'_>) -> Poll<()> {
        let Some(remote) = &mut self.remote else { return Poll::Pending };
        if remote.last_event.elapsed() >= REMOTE_TIMEOUT {
            self.is_over = true;
            return Poll::Ready(());
        }
        remote.interval.poll_tick(task).map(|_| remote.is_due = true)
    }
}

impl EventSource for StreamReader {
    fn poll_piece(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        if let Some(priming) = this.priming.take() {
            return Poll::Ready(Some(priming));
        }
        loop {
            if this.is_over {
                return Poll::Ready(None);
            }
            if let Some(fetching) = &mut this.fetching {
                let Poll::Ready(fetched) = fetching.as_mut().poll(task) else { break };
                this.fetching = None;
                match this.take(fetched) {
                    None => return Poll::Ready(None),
                    Some(events) if events.is_empty() => {}
                    Some(events) => return Poll::Ready(Some(this.write(events))),
                }
            }
            match this.find(task) {
                StreamLookup::Events(events) => return Poll::Ready(Some(this.write(events))),
                StreamLookup::InStore if this.is_fetch_due() => this.fetching = Some(this.fetch()),
                StreamLookup::InStore => {
                    if this.poll_remote(task).is_pending() {
                        break;
                    }
                }
                StreamLookup::Nothing => break,
                StreamLookup::End(None) => return Poll::Ready(None),
                StreamLookup::End(Some(retry)) => {
                    this.is_over = true;
                    let mut piece = Vec::new();
                    sse::write_retry(&mut piece, retry.as_millis() as u64);
                    return Poll::Ready(Some(piece.into()));
                }
            }
        }
        if let Some(ending) = &mut this.ending
            && ending.as_mut().poll(task).is_ready()
        {
            return Poll::Ready(None);
        }
        this.keep_alive.poll(task).map(|comment| Some(Bytes::from_static(comment)))
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        let mut state = self.session.state.lock();
        state.readers = state.readers.saturating_sub(1);
        if let Some((stream, woken)) = state.stream(self.stream)
            && stream.detach(Some(self.serial), woken)
            && stream.kind == StreamKind::Remote
        {
            // It can be loaded from the store again.
            state.streams.remove(&self.stream);
        }
        drop(state);
        self.session.note_use();
    }
}

/// Returns an event without data. Its id marks the start of the stream, so that the client can resume it.
fn priming(stream: u64, cursor: u64) -> Bytes {
    format!("id: {}\ndata:\n\n", event_id(stream, cursor)).into()
}

/// Returns the id of an event, which contains the number of its stream.
fn event_id(stream: u64, number: u64) -> String {
    format!("{stream:x}-{number}")
}

/// Parses an event id into the numbers of the stream and the event.
pub(super) fn parse_event_id(id: &str) -> Option<(u64, u64)> {
    let (stream, number) = id.split_once('-')?;
    Some((u64::from_str_radix(stream, 16).ok()?, number.parse().ok()?))
}
