//! Event streams that outlive the connections that carry them.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, Interval, Sleep};
use turms_core::BoxFuture;
use turms_core::store::{StoreError, StoredEvent};

use super::HttpSession;
use crate::server::body::EventSource;
use crate::server::gauge::Permit;
use crate::sse;

/// What a stream carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamKind {
    /// What belongs to a call, its answer last.
    Call,
    /// What belongs to no call.
    Standalone,
}

/// A stream of events. The events themselves are in the store.
#[derive(Debug)]
pub(super) struct Stream {
    kind: StreamKind,
    /// The number of the last event, and of the last that the store has.
    last: u64,
    stored: u64,
    /// The last event that a reader has taken, and how many bytes have come since.
    taken: u64,
    behind: usize,
    reader: Option<Reader>,
    speakers: Vec<Waker>,
    hang_up: Option<Duration>,
    ended: Option<Instant>,
    /// Events that the store would not keep, for whoever reads now.
    unkept: BTreeMap<u64, StoredEvent>,
    /// Whether somebody is about to read it who does not yet.
    is_awaited: bool,
    /// Whether it is another process that speaks on it.
    is_remote: bool,
}

#[derive(Debug)]
struct Reader {
    serial: u64,
    waker: Option<Waker>,
}

impl Stream {
    /// How many bytes a reader may be behind before whoever speaks has to wait for it.
    const LIMIT: usize = 256 * 1024;

    pub(super) fn new(kind: StreamKind) -> Self {
        Self {
            kind,
            last: 0,
            stored: 0,
            taken: 0,
            behind: 0,
            reader: None,
            speakers: Vec::new(),
            hang_up: None,
            ended: None,
            unkept: BTreeMap::new(),
            is_awaited: kind == StreamKind::Call,
            is_remote: false,
        }
    }

    /// A stream on which another process speaks, or has spoken.
    pub(super) fn remote() -> Self {
        Self { is_awaited: false, is_remote: true, ..Self::new(StreamKind::Call) }
    }

    pub(super) fn kind(&self) -> StreamKind {
        self.kind
    }

    pub(super) fn has_no_reader(&self) -> bool {
        self.reader.is_none()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    pub(super) fn ended_before(&self, age: Duration) -> bool {
        self.ended.is_some_and(|ended| ended.elapsed() >= age)
    }

    /// Whether somebody reads, but not fast enough. Nobody waits for a reader that is not there, unless it is about to come.
    pub(super) fn is_behind(&self) -> bool {
        (self.reader.is_some() || self.is_awaited) && self.behind >= Self::LIMIT
    }

    pub(super) fn is_remote(&self) -> bool {
        self.is_remote
    }

    pub(super) fn wait(&mut self, speaker: &Waker) {
        if !self.speakers.iter().any(|waiting| waiting.will_wake(speaker)) {
            self.speakers.push(speaker.clone());
        }
    }

    /// The number of the next event.
    pub(super) fn number(&mut self, bytes: usize, is_last: bool) -> u64 {
        self.last += 1;
        self.behind += bytes;
        if is_last {
            self.ended = Some(Instant::now());
        }
        self.last
    }

    /// An event is in the store.
    pub(super) fn kept(&mut self, number: u64) {
        self.stored = self.stored.max(number);
        self.wake_reader();
    }

    /// An event will never be in the store: it is for whoever reads now, and lost if nobody does.
    pub(super) fn not_kept(&mut self, event: StoredEvent) {
        if self.reader.is_some() || self.is_awaited {
            self.unkept.insert(event.number, event);
            self.wake_reader();
        }
    }

    /// Ends without an answer; false if it has ended already.
    pub(super) fn end(&mut self) -> bool {
        let is_open = self.ended.is_none();
        self.ended.get_or_insert_with(Instant::now);
        self.wake_reader();
        is_open
    }

    /// Ends the connection that carries it, not the stream.
    pub(super) fn hang_up(&mut self, retry: Duration) {
        self.hang_up = Some(retry);
        self.wake_reader();
    }

    /// The events up to this one need not be sent.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Treats the reader as gone; false if there is none.
    pub(super) fn drop_reader(&mut self) -> bool {
        self.is_awaited = false;
        self.wake_all();
        self.reader.take().is_some()
    }

    fn wake_reader(&mut self) {
        if let Some(waker) = self.reader.as_mut().and_then(|reader| reader.waker.take()) {
            waker.wake();
        }
    }

    fn wake_speakers(&mut self) {
        self.speakers.drain(..).for_each(Waker::wake);
    }

    pub(super) fn wake_all(&mut self) {
        self.wake_reader();
        self.wake_speakers();
    }
}

/// One connection's reading of a stream.
pub(super) struct EventReader {
    session: Arc<HttpSession>,
    stream: u64,
    serial: u64,
    /// The last event that was written.
    cursor: u64,
    begin: Option<Bytes>,
    fetching: Option<BoxFuture<'static, Result<Vec<StoredEvent>, StoreError>>>,
    is_over: bool,
    keep_alive: Pin<Box<Sleep>>,
    period: Duration,
    ending: Option<BoxFuture<'static, ()>>,
    /// When to look for what another process has said.
    look: Option<Interval>,
    is_due: bool,
    _permit: Permit,
}

/// How often the store is asked for what another process has said.
const LOOK: Duration = Duration::from_millis(250);

/// How many bytes of events are taken out of the store at a time.
const PIECE: usize = 64 * 1024;

impl EventReader {
    /// Reads a stream after an event. Whoever reads it already is sent away.
    pub(super) fn new(
        session: &Arc<HttpSession>,
        stream: u64,
        cursor: u64,
        period: Duration,
        is_new: bool,
        ending: BoxFuture<'static, ()>,
        permit: Permit,
    ) -> Option<Self> {
        let mut state = session.state();
        state.last_reader += 1;
        let serial = state.last_reader;
        let open = state.streams.get_mut(&stream)?;
        open.wake_all();
        open.is_awaited = false;
        let is_remote = open.is_remote;
        let is_standing = open.kind == StreamKind::Standalone;
        let replaced = open.reader.replace(Reader { serial, waker: None }).is_some();
        if !replaced {
            state.readers += 1;
        }
        let begin = (is_new && session.can_poll()).then(|| priming(stream, cursor));
        // A call may finish even when the server ends.
        let ending = Some(ending).filter(|_| is_standing);
        let keep_alive = Box::pin(tokio::time::sleep(period));
        Some(Self {
            session: session.clone(),
            stream,
            serial,
            cursor,
            begin,
            fetching: None,
            is_over: false,
            keep_alive,
            period,
            ending,
            look: is_remote.then(|| tokio::time::interval(LOOK)),
            is_due: is_remote,
            _permit: permit,
        })
    }

    /// What there is to do: fetch, end, or wait.
    fn next(&mut self, task: &TaskContext<'_>) -> Next {
        let mut state = self.session.state();
        let Some(stream) = state.streams.get_mut(&self.stream) else { return Next::End(None) };
        let Some(reader) = stream.reader.as_mut().filter(|reader| reader.serial == self.serial) else {
            return Next::End(None);
        };
        if let Some(event) = stream.unkept.remove(&(self.cursor + 1)) {
            return Next::Write(event);
        }
        if stream.stored > self.cursor || (stream.is_remote && self.is_due) {
            return Next::Fetch;
        }
        if stream.ended.is_some() && stream.last == self.cursor {
            return Next::End(None);
        }
        reader.waker = Some(task.waker().clone());
        match stream.hang_up.take() {
            Some(retry) => Next::End(Some(retry)),
            None => Next::Wait,
        }
    }

    fn fetch(&self) -> BoxFuture<'static, Result<Vec<StoredEvent>, StoreError>> {
        let (events, id) = (self.session.options.events.clone(), self.session.id.clone());
        let (stream, cursor) = (self.stream, self.cursor);
        Box::pin(async move { events.after(&id, stream, cursor, PIECE).await })
    }

    /// Writes the events that follow each other.
    fn write(&mut self, events: Vec<StoredEvent>) -> Vec<u8> {
        let mut piece = Vec::new();
        let mut bytes = 0;
        for event in events {
            if event.number != self.cursor + 1 {
                break;
            }
            self.cursor = event.number;
            bytes += event.data.len();
            let id = event_id(self.stream, event.number);
            sse::write_event(&mut piece, None, Some(&id), &event.data);
            self.is_over |= event.is_last;
        }
        if let Some(stream) = self.session.state().streams.get_mut(&self.stream) {
            stream.taken = stream.taken.max(self.cursor);
            stream.behind = if stream.last == self.cursor { 0 } else { stream.behind.saturating_sub(bytes) };
            stream.wake_speakers();
        }
        piece
    }
}

enum Next {
    Fetch,
    Write(StoredEvent),
    Wait,
    End(Option<Duration>),
}

/// An event that says nothing but where the stream is, so that it can be taken up from its beginning.
fn priming(stream: u64, cursor: u64) -> Bytes {
    format!("id: {}\ndata:\n\n", event_id(stream, cursor)).into()
}

/// The id of an event, which says of which stream it is.
fn event_id(stream: u64, number: u64) -> String {
    format!("{stream:x}-{number}")
}

/// The stream and the number in an event's id.
pub(super) fn parse_event_id(id: &str) -> Option<(u64, u64)> {
    let (stream, number) = id.split_once('-')?;
    Some((u64::from_str_radix(stream, 16).ok()?, number.parse().ok()?))
}

impl EventSource for EventReader {
    fn poll_piece(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        if let Some(begin) = this.begin.take() {
            return Poll::Ready(Some(begin));
        }
        loop {
            if this.is_over {
                return Poll::Ready(None);
            }
            if let Some(fetching) = &mut this.fetching {
                let Poll::Ready(fetched) = fetching.as_mut().poll(task) else { break };
                this.fetching = None;
                let Ok(events) = fetched else { return Poll::Ready(None) };
                let piece = this.write(events);
                if piece.is_empty() {
                    // The store has promised more than it has; whoever keeps the rest will say so. Another process will not.
                    this.is_due = false;
                    break;
                }
                this.keep_alive.as_mut().reset(Instant::now() + this.period);
                return Poll::Ready(Some(piece.into()));
            }
            match this.next(task) {
                Next::Fetch => this.fetching = Some(this.fetch()),
                Next::Write(event) => return Poll::Ready(Some(this.write(vec![event]).into())),
                Next::Wait => break,
                Next::End(None) => return Poll::Ready(None),
                Next::End(Some(retry)) => {
                    this.is_over = true;
                    let mut piece = Vec::new();
                    sse::write_retry(&mut piece, retry.as_millis() as u64);
                    return Poll::Ready(Some(piece.into()));
                }
            }
        }
        if let Some(look) = &mut this.look
            && look.poll_tick(task).is_ready()
        {
            this.is_due = true;
            task.waker().wake_by_ref();
        }
        if let Some(ending) = &mut this.ending
            && ending.as_mut().poll(task).is_ready()
        {
            return Poll::Ready(None);
        }
        if this.keep_alive.as_mut().poll(task).is_ready() {
            this.keep_alive.as_mut().reset(Instant::now() + this.period);
            return Poll::Ready(Some(Bytes::from_static(sse::KEEP_ALIVE)));
        }
        Poll::Pending
    }
}

impl Drop for EventReader {
    fn drop(&mut self) {
        let mut state = self.session.state();
        let own = |reader: &mut Reader| reader.serial == self.serial;
        let mut left = !state.is_open;
        if let Some(stream) = state.streams.get_mut(&self.stream)
            && stream.reader.take_if(own).is_some()
        {
            left = true;
            stream.wake_speakers();
            // It can be found in the store again.
            if stream.is_remote {
                state.streams.remove(&self.stream);
            }
        }
        if left {
            state.readers = state.readers.saturating_sub(1);
        }
        drop(state);
        self.session.touch();
    }
}
