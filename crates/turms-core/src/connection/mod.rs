//! The driver of a connection: one loop for both sides that connects a byte stream, a session and a service.
//!
//! `mod.rs` has the loop and its stages, `calls.rs` the handling of messages and results, `in_flight.rs` running and waiting calls,
//! `write_buffer.rs` the write buffer, `handle.rs` the commands of handles.

mod calls;
mod handle;
mod in_flight;
mod timer;
mod write_buffer;

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context as TaskContext, Poll};
use std::time::Instant;

use http::Extensions;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::sync::{mpsc, watch};
use turms_proto::session::{ClientOptions, Session};
use turms_proto::{ErrorObject, Lines, ProtocolVersion, RequestId};

use self::calls::FinishedCall;
pub use self::handle::{ConnectionHandle, HandshakeError};
use self::handle::{ConnectionSignal, ConnectionState, SessionCommand, WaitingCaller};
use self::in_flight::InFlight;
use self::timer::DeadlineTimer;
use self::write_buffer::WriteBuffer;
use crate::endpoint::Endpoint;
use crate::limits::Limits;
use crate::peer::Peer;
use crate::service::Service;
use crate::session::{CloseReason, SessionHandle};

/// Error of a connection that did not close cleanly.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// Reading failed.
    #[error("cannot read from the peer")]
    Read(#[source] io::Error),
    /// Writing failed.
    #[error("cannot write to the peer")]
    Write(#[source] io::Error),
}

crate::__internal::debug_error! { ConnectionError { Read(source), Write(source) } }

/// One side of a connection over a byte stream, one message per line. [`Connection::run`] drives it.
#[derive(Debug)]
pub struct Connection<R, W> {
    reader: R,
    lines: Lines,
    output: WriteBuffer<W>,
    protocol: Session<WaitingCaller>,
    limits: Limits,
    /// The peer, for requests that belong to no session.
    peer: Peer,
    /// The current session.
    session: Arc<SessionHandle>,
    /// The number of the current session on this connection.
    session_number: u64,
    /// Values that the calls of the current line see.
    extensions: Option<Arc<Extensions>>,
    /// The values of later lines, if they differ.
    line_extensions: Option<LineExtensions>,
    /// A handle of the connection, to create the peers of later sessions.
    handle: ConnectionHandle,
    commands: mpsc::Receiver<SessionCommand>,
    signals: mpsc::UnboundedReceiver<ConnectionSignal>,
    finished_calls: mpsc::UnboundedReceiver<FinishedCall>,
    finished_calls_sender: mpsc::UnboundedSender<FinishedCall>,
    in_flight: InFlight,
    /// The ids of our requests, by the key of their caller.
    pending: HashMap<u64, RequestId>,
    state: watch::Sender<ConnectionState>,
    stage: ConnectionStage,
    /// Set if the buffer may have complete lines that were not handled yet.
    has_unhandled_lines: bool,
    /// Number of reads in a row.
    reads: usize,
    /// Number of bytes to make room for before reading.
    read_size: usize,
}

/// The values that the calls of each line see, in the order of the lines. The reader adds one before it returns the last byte of a
/// line.
#[derive(Debug, Clone, Default)]
pub struct LineExtensions(Arc<Mutex<VecDeque<Arc<Extensions>>>>);

impl LineExtensions {
    /// Adds the values of the next line.
    pub fn push(&self, extensions: Arc<Extensions>) {
        self.0.lock().push_back(extensions);
    }

    fn pop(&self) -> Option<Arc<Extensions>> {
        self.0.lock().pop_front()
    }
}

/// The stage of closing a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionStage {
    Open,
    /// This side closes it: no new calls are started, but running ones may exchange messages with the peer and finish until the deadline.
    Closing(Instant),
    /// The peer has stopped reading, but what it has written is read until the deadline.
    WriteClosed(Instant),
    /// The peer has closed its output. Running calls may finish until the deadline.
    ReadClosed(Instant),
}

/// An event of the loop.
enum LoopEvent {
    Read(io::Result<usize>),
    Written(io::Result<()>),
    Command(SessionCommand),
    Signal(ConnectionSignal),
    CallFinished(FinishedCall),
    NotificationHandled,
    /// Lines that were left in the buffer may be handled now.
    Lines,
    Deadline,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// Creates the server side of a connection, in one of `versions`.
    pub fn server(reader: R, writer: W, versions: &[ProtocolVersion], limits: Limits) -> (Self, ConnectionHandle) {
        Self::new(reader, writer, Session::server(versions), limits)
    }

    /// Creates the client side of a connection.
    pub fn client(reader: R, writer: W, client: ClientOptions, limits: Limits) -> (Self, ConnectionHandle) {
        Self::new(reader, writer, Session::client(client), limits)
    }

    fn new(reader: R, writer: W, protocol: Session<WaitingCaller>, limits: Limits) -> (Self, ConnectionHandle) {
        let (command_sender, commands) = mpsc::channel(256);
        let (signal_sender, signals) = mpsc::unbounded_channel();
        let (finished_calls_sender, finished_calls) = mpsc::unbounded_channel();
        let (status, stats) = (protocol.status(), *protocol.stats());
        let (state, state_receiver) =
            watch::channel(ConnectionState { status, opened: None, stats, pending: 0, session: 0 });
        let handle = ConnectionHandle {
            commands: command_sender,
            signals: signal_sender,
            state: state_receiver,
            keys: Arc::new(AtomicU64::new(0)),
            session: None,
        };
        let connection = Self {
            reader,
            lines: Lines::new(limits.max_message_bytes),
            output: WriteBuffer::new(writer),
            protocol,
            peer: handle.peer_in(None),
            session: SessionHandle::new(handle.peer_in(Some(0))),
            session_number: 0,
            extensions: None,
            line_extensions: None,
            handle: handle.clone(),
            limits,
            commands,
            signals,
            finished_calls,
            finished_calls_sender,
            in_flight: InFlight::default(),
            pending: HashMap::new(),
            state,
            stage: ConnectionStage::Open,
            has_unhandled_lines: false,
            reads: 0,
            read_size: Self::MIN_READ_SIZE,
        };
        (connection, handle)
    }

    /// Attaches values that all calls of the connection see, such as those of the HTTP request that opened it.
    #[must_use]
    pub fn with_extensions(mut self, extensions: Extensions) -> Self {
        self.extensions = Some(Arc::new(extensions));
        self
    }

    /// Attaches values that the calls of one line see, one for each line, for readers with lines of different senders.
    #[doc(hidden)]
    #[must_use]
    pub fn with_line_extensions(mut self, extensions: LineExtensions) -> Self {
        self.line_extensions = Some(extensions);
        self
    }

    /// Drives the connection until either side closes it. Requests and notifications of the peer go to `service`.
    ///
    /// # Errors
    /// If reading or writing fails other than by the peer closing the stream.
    pub async fn run(mut self, service: impl Service) -> Result<(), ConnectionError> {
        self.protocol.open(now());
        let ended = self.drive(&service).await;
        self.protocol.close();
        self.in_task(|this, task| this.handle_events(&service, task)).await;
        self.update_state();
        let reason = match (self.stage, &ended) {
            (ConnectionStage::Closing(_), Ok(())) => CloseReason::Shutdown,
            (_, Ok(())) => CloseReason::Client,
            (_, Err(_)) => CloseReason::Lost,
        };
        let Self { mut commands, reader, output, session, in_flight, .. } = self;
        // Handlers are aborted before their session is closed; one that is being polled may still finish that poll.
        drop((reader, output, in_flight));
        session.close(reason);
        // Otherwise the senders of the last commands would wait as long as there is a handle.
        commands.close();
        while commands.recv().await.is_some() {}
        ended
    }

    /// As [`Connection::run`], for a server: closes at its shutdown, after running calls have finished or the drain timeout.
    ///
    /// # Errors
    /// If reading or writing fails other than by the peer closing the stream.
    pub async fn serve(self, endpoint: &Endpoint) -> Result<(), ConnectionError> {
        let handle = self.handle.clone();
        let mut running = pin!(self.run(endpoint.service().clone()));
        tokio::select! {
            // The shutdown first, so that no request is accepted after it.
            biased;
            () = endpoint.shutdown().begun() => handle.shutdown(),
            ended = &mut running => return ended,
        }
        running.await
    }

    async fn drive(&mut self, service: &impl Service) -> Result<(), ConnectionError> {
        let mut timer = DeadlineTimer::default();
        loop {
            self.in_task(|this, task| {
                this.handle_lines(service, task);
                this.handle_events(service, task);
                this.start_waiting(service, task);
            })
            .await;
            if self.is_done() {
                return self.finish(service).await;
            }
            self.update_state();
            timer.set(self.next_deadline());
            match poll_fn(|task| self.poll_event(&mut timer, task)).await {
                LoopEvent::Read(Ok(0)) => self.in_task(|this, task| this.handle_end_of_input(service, task)).await,
                LoopEvent::Read(Ok(count)) => self.protocol.count_received(count),
                LoopEvent::Read(Err(error)) => return Err(ConnectionError::Read(error)),
                LoopEvent::Written(Ok(())) => {}
                LoopEvent::Written(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => self.stop_writing(),
                LoopEvent::Written(Err(error)) => return Err(ConnectionError::Write(error)),
                LoopEvent::Command(command) => self.handle_command(command),
                LoopEvent::Signal(signal) => self.handle_signal(signal),
                LoopEvent::CallFinished(call) => self.finish_call(call),
                LoopEvent::NotificationHandled | LoopEvent::Lines => {}
                LoopEvent::Deadline if self.output.is_stalled(self.limits.write_timeout) => {
                    return Err(ConnectionError::Write(io::ErrorKind::TimedOut.into()));
                }
                LoopEvent::Deadline => self.protocol.expire(now()),
            }
        }
    }

    /// Runs a function that polls futures of handlers, with the waker of this task.
    async fn in_task(&mut self, mut work: impl FnMut(&mut Self, &mut TaskContext<'_>)) {
        poll_fn(|task| {
            work(self, task);
            Poll::Ready(())
        })
        .await;
    }

    /// Maximum number of reads in a row before output and timers are polled.
    const MAX_READS: usize = 32;

    /// Bounds of the number of bytes to read at once: small for a peer that sends little, no more than a pipe holds.
    const MIN_READ_SIZE: usize = 4 * 1024;
    const MAX_READ_SIZE: usize = 64 * 1024;

    /// Reads before it writes, so that the responses to all requests that have arrived are written together, up to a size. The number of
    /// reads in a row is limited, so that a peer that never stops sending does not block output and timeouts.
    fn poll_event(&mut self, timer: &mut DeadlineTimer, task: &mut TaskContext<'_>) -> Poll<LoopEvent> {
        if let Poll::Ready(Some(call)) = self.finished_calls.poll_recv(task) {
            return Poll::Ready(LoopEvent::CallFinished(call));
        }
        if self.in_flight.poll(task).is_ready() {
            return Poll::Ready(LoopEvent::NotificationHandled);
        }
        if let Poll::Ready(Some(signal)) = self.signals.poll_recv(task) {
            return Poll::Ready(LoopEvent::Signal(signal));
        }
        // Backpressure: handlers wait if the peer does not read.
        if self.output.len() < self.limits.max_write_buffer_bytes
            && let Poll::Ready(Some(command)) = self.commands.poll_recv(task)
        {
            return Poll::Ready(LoopEvent::Command(command));
        }
        if self.reads >= Self::MAX_READS || self.output.is_full() {
            self.reads = 0;
            if let Poll::Ready(event) = self.poll_output(timer, task) {
                return Poll::Ready(event);
            }
        }
        // Lines that have arrived are handled before more is read: the next read may be the end of input.
        if self.has_unhandled_lines && self.may_read() {
            return Poll::Ready(LoopEvent::Lines);
        }
        if self.may_read()
            && let Poll::Ready(read) = self.poll_read(task)
        {
            self.reads += 1;
            return Poll::Ready(LoopEvent::Read(read));
        }
        self.reads = 0;
        self.poll_output(timer, task)
    }

    /// Reads as much as fits into the buffer, which grows when a read fills it.
    fn poll_read(&mut self, task: &mut TaskContext<'_>) -> Poll<io::Result<usize>> {
        self.lines.make_room(self.read_size);
        let buffer = self.lines.buffer();
        let room = buffer.capacity() - buffer.len();
        let read = pin!(self.reader.read_buf(buffer)).poll(task);
        if matches!(read, Poll::Ready(Ok(count)) if count == room) {
            self.read_size = (self.read_size * 2).min(Self::MAX_READ_SIZE);
        }
        read
    }

    fn poll_output(&mut self, timer: &mut DeadlineTimer, task: &mut TaskContext<'_>) -> Poll<LoopEvent> {
        if let Poll::Ready(written) = self.output.poll_write(task) {
            return Poll::Ready(LoopEvent::Written(written));
        }
        timer.poll(task).map(|()| LoopEvent::Deadline)
    }

    /// Returns `false` if the peer does not read its responses: then no more of its messages are read. Too many requests in flight do not
    /// stop reading, because running calls may wait for the peer's cancellations and responses. Neither do unread requests and
    /// notifications, because the peer may wait until its responses are read.
    fn may_read(&self) -> bool {
        let is_at_end = matches!(self.stage, ConnectionStage::ReadClosed(_));
        !is_at_end && self.output.responses() < self.limits.max_write_buffer_bytes
    }

    fn handle_signal(&mut self, signal: ConnectionSignal) {
        match signal {
            ConnectionSignal::Forget { key, cause } => {
                if let Some(id) = self.pending.remove(&key) {
                    if cause.is_timeout() {
                        self.protocol.time_out(&id)
                    } else {
                        self.protocol.cancel(&id, cause.reason())
                    };
                }
            }
            ConnectionSignal::Shutdown if self.stage == ConnectionStage::Open => {
                self.stage = ConnectionStage::Closing(self.drain_deadline())
            }
            ConnectionSignal::Shutdown => {}
        }
    }

    /// Stops writing because the peer has closed its input. It may have sent responses before, so reading continues.
    fn stop_writing(&mut self) {
        self.output.discard_all();
        if !matches!(self.stage, ConnectionStage::ReadClosed(_)) {
            self.stage = ConnectionStage::WriteClosed(self.drain_deadline());
        }
    }

    /// Handles the end of input. The peer may still read responses.
    fn handle_end_of_input(&mut self, service: &impl Service, task: &mut TaskContext<'_>) {
        if let Some(line) = self.lines.finish() {
            if let Some(call) = self.decode_line(line) {
                self.admit_call(call, service, task);
            }
            self.handle_events(service, task);
        }
        self.protocol.peer_has_gone();
        self.handle_events(service, task);
        if !matches!(self.stage, ConnectionStage::ReadClosed(_)) {
            self.stage = ConnectionStage::ReadClosed(self.drain_deadline());
        }
    }

    fn drain_deadline(&self) -> Instant {
        now() + self.limits.drain_timeout
    }

    fn is_done(&self) -> bool {
        match self.stage {
            ConnectionStage::Open => self.protocol.status() == turms_proto::session::ConnectionStatus::Closed,
            ConnectionStage::Closing(deadline) | ConnectionStage::ReadClosed(deadline) => {
                self.protocol.running() == 0 || deadline <= now()
            }
            ConnectionStage::WriteClosed(deadline) => deadline <= now(),
        }
    }

    /// Refuses calls that did not finish in time, and writes the rest of the output.
    async fn finish(&mut self, service: &impl Service) -> Result<(), ConnectionError> {
        for ticket in self.in_flight.stop() {
            self.refuse(&ticket, ErrorObject::internal("the connection is closing"));
        }
        self.in_task(|this, task| this.handle_events(service, task)).await;
        match tokio::time::timeout(self.limits.drain_timeout, self.output.drain()).await {
            Ok(drained) => drained.map_err(ConnectionError::Write),
            Err(_) => Ok(()),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let drain = match self.stage {
            ConnectionStage::Open => None,
            ConnectionStage::Closing(deadline)
            | ConnectionStage::WriteClosed(deadline)
            | ConnectionStage::ReadClosed(deadline) => Some(deadline),
        };
        let stalled = self.output.stalled_at(self.limits.write_timeout);
        [self.protocol.next_deadline(), drain, stalled].into_iter().flatten().min()
    }

    /// Updates the state that handles see.
    fn update_state(&self) {
        let (status, stats, pending) = (self.protocol.status(), *self.protocol.stats(), self.protocol.pending());
        self.state.send_if_modified(|state| {
            let has_changed = state.status != status;
            (state.status, state.stats, state.pending) = (status, stats, pending);
            has_changed
        });
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
