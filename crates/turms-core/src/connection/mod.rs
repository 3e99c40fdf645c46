//! The driver: one loop for both sides that joins a byte stream, a session and a service.

mod crowd;
mod handle;
mod output;

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use bytestring::ByteString;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio::time::Sleep;
use turms_proto::session::{Call, ClientOptions, Dialect, Event, Reply, Session, Ticket};
use turms_proto::types::Meta;
use turms_proto::{
    DEFAULT_BATCH_LIMIT, ErrorObject, Incoming, LineTooLong, Lines, Message, Notification, ProtocolVersion, RawJson,
    RequestId, Response,
};

use self::crowd::{Crowd, Turn};
use self::handle::{Command, Question, SessionCommand, Signal, View, Waiter};
pub use self::handle::{ConnectionHandle, OpenFailure};
use self::output::Output;
use crate::channel::Update;
use crate::context::CallContext;
use crate::outcome::{Outcome, lower_outcome, unwritable};
use crate::payload::Payload;
use crate::peer::Peer;
use crate::service::{Guarded, GuardedNotify, Request, Service};

/// The bounds of a connection. Each has a default that suits most.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum length of a message in bytes (16 MiB). A longer one is not read: the request that it answers fails with
    /// [`RequestError::TooLong`](turms_proto::session::RequestError::TooLong), the request that it is is refused.
    pub max_message_bytes: usize,
    /// How many messages a batch may hold.
    pub max_batch: usize,
    /// How many requests of the peer's may run at once; more have to wait.
    pub max_in_flight: usize,
    /// Maximum number of notifications whose handlers run at once (256); more have to wait.
    pub max_notifications: usize,
    /// Maximum number of requests and notifications that wait; more requests are refused, more notifications dropped.
    pub max_queued: usize,
    /// Maximum number of bytes that waiting requests and notifications keep in memory (ids, methods, parameters; 64 MiB); more
    /// requests are refused, more notifications dropped.
    pub max_queued_bytes: usize,
    /// How many subscriptions may be open at once; more are refused.
    pub max_subscriptions: usize,
    /// How much may wait to be written before no more is taken on, and how many answers before no more is read.
    pub max_write_buffer_bytes: usize,
    /// How long a peer may leave what was written to it unread.
    pub write_timeout: Duration,
    /// How long what runs may go on when the peer has gone or a shutdown was asked for.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_message_bytes: Lines::DEFAULT_LIMIT,
            max_batch: DEFAULT_BATCH_LIMIT,
            max_in_flight: 1024,
            max_notifications: 256,
            max_queued: 16 * 1024,
            max_queued_bytes: 64 * 1024 * 1024,
            max_subscriptions: 256,
            max_write_buffer_bytes: 1024 * 1024,
            write_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(2),
        }
    }
}

/// Why a connection ended other than well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// Reading failed.
    #[error("cannot read from the peer")]
    Read(#[source] io::Error),
    /// Writing failed.
    #[error("cannot write to the peer")]
    Write(#[source] io::Error),
}

/// One side of a connection over a byte stream, one message per line. [`Connection::run`] drives it.
#[derive(Debug)]
pub struct Connection<R, W> {
    reader: R,
    lines: Lines,
    output: Output<W>,
    session: Session<Waiter>,
    options: Limits,
    /// The other side, for requests that belong to no session.
    peer: Peer,
    /// The other side in the current session.
    session_peer: Peer,
    /// The number of the current session.
    session_number: u64,
    /// What the peers of further sessions are made of.
    handle: ConnectionHandle,
    commands: mpsc::Receiver<SessionCommand>,
    signals: mpsc::UnboundedReceiver<Signal>,
    answers: mpsc::UnboundedReceiver<Answer>,
    answering: mpsc::UnboundedSender<Answer>,
    crowd: Crowd,
    /// Requests of ours by the key that their waiter knows.
    asked: HashMap<u64, RequestId>,
    view: watch::Sender<View>,
    stage: Stage,
    /// Whether there may be lines that nobody has seen to yet.
    unseen: bool,
    /// How often in a row something was read.
    reads: usize,
    /// How much is read at once.
    piece: usize,
}

/// How far a connection is on its way to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    /// We end it: nothing new is begun, but what runs may hear from the peer and finish until then.
    Closing(Instant),
    /// The peer does not read any more, but what it has written may still be read until then.
    Unheard(Instant),
    /// The peer has gone: there is nothing to read, but what runs may finish until then.
    Leaving(Instant),
}

/// What came of a call that did not answer at once.
#[derive(Debug)]
struct Answer {
    ticket: Ticket,
    method: ByteString,
    dialect: Dialect,
    outcome: Outcome,
}

/// What a connection has to see to.
enum Wake {
    Read(io::Result<usize>),
    Written(io::Result<()>),
    Command(SessionCommand),
    Signal(Signal),
    Answer(Answer),
    Heard,
    /// Lines that were left may be seen to now.
    Lines,
    Time,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// The side that is asked, in one of `versions`.
    pub fn server(reader: R, writer: W, versions: &[ProtocolVersion], options: Limits) -> (Self, ConnectionHandle) {
        Self::new(reader, writer, Session::server(versions), options)
    }

    /// The side that asks first.
    pub fn client(reader: R, writer: W, client: ClientOptions, options: Limits) -> (Self, ConnectionHandle) {
        Self::new(reader, writer, Session::client(client), options)
    }

    fn new(reader: R, writer: W, session: Session<Waiter>, options: Limits) -> (Self, ConnectionHandle) {
        let (command_sender, commands) = mpsc::channel(256);
        let (signal_sender, signals) = mpsc::unbounded_channel();
        let (answering, answers) = mpsc::unbounded_channel();
        let view = View { status: session.status(), opened: None, stats: *session.stats(), pending: 0, session: 0 };
        let (view, viewer) = watch::channel(view);
        let keys = Arc::new(AtomicU64::new(0));
        let handle =
            ConnectionHandle { commands: command_sender, signals: signal_sender, view: viewer, keys, session: None };
        let connection = Self {
            reader,
            lines: Lines::new(options.max_message_bytes),
            output: Output::new(writer),
            session,
            peer: handle.peer_in(None),
            session_peer: handle.peer_in(Some(0)),
            session_number: 0,
            handle: handle.clone(),
            options,
            commands,
            signals,
            answers,
            answering,
            crowd: Crowd::default(),
            asked: HashMap::new(),
            view,
            stage: Stage::Open,
            unseen: false,
            reads: 0,
            piece: Self::LEAST_PIECE,
        };
        (connection, handle)
    }

    /// Drives the connection until either side ends it. What the peer asks goes to `service`.
    ///
    /// # Errors
    /// When reading or writing fails other than by the peer's going away.
    pub async fn run(mut self, service: impl Service) -> Result<(), ConnectionError> {
        self.session.open(now());
        let ended = self.drive(&service).await;
        self.session.close();
        self.dispatch(&service);
        self.show();
        let Self { mut commands, reader, output, .. } = self;
        drop((reader, output));
        // What came in the last moment would lie there for as long as anybody has a handle, and whoever sent it would wait.
        commands.close();
        while commands.recv().await.is_some() {}
        ended
    }

    async fn drive(&mut self, service: &impl Service) -> Result<(), ConnectionError> {
        let mut timer = Timer::default();
        loop {
            self.read_lines(service);
            self.dispatch(service);
            self.begin_waiting(service);
            if self.is_done() {
                return self.finish(service).await;
            }
            self.show();
            timer.set(self.next_deadline());
            match poll_fn(|task| self.poll(&mut timer, task)).await {
                Wake::Read(Ok(0)) => self.peer_has_gone(service),
                Wake::Read(Ok(count)) => self.session.count_received(count),
                Wake::Read(Err(error)) => return Err(ConnectionError::Read(error)),
                Wake::Written(Ok(())) => {}
                Wake::Written(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => self.write_no_more(),
                Wake::Written(Err(error)) => return Err(ConnectionError::Write(error)),
                Wake::Command(command) => self.obey(command),
                Wake::Signal(signal) => self.heed(signal),
                Wake::Answer(answer) => self.take_answer(answer),
                Wake::Heard | Wake::Lines => {}
                Wake::Time if self.output.is_stalled(self.options.write_timeout) => {
                    return Err(ConnectionError::Write(io::ErrorKind::TimedOut.into()));
                }
                Wake::Time => self.session.expire(now()),
            }
        }
    }

    /// How often in a row something is read before it is the turn of writing and of time.
    const MOST_READS: usize = 32;

    /// How much is read at once from a peer that says little, and from one that says much: no more than a pipe holds.
    const LEAST_PIECE: usize = 4 * 1024;
    const MOST_PIECE: usize = 64 * 1024;

    /// Reading comes before writing, so that the answers to all that is there already leave in one piece, unless that gets large.
    /// But a peer that never stops talking must not keep us from writing, nor from giving up what has waited too long.
    fn poll(&mut self, timer: &mut Timer, task: &mut TaskContext<'_>) -> Poll<Wake> {
        if let Poll::Ready(Some(answer)) = self.answers.poll_recv(task) {
            return Poll::Ready(Wake::Answer(answer));
        }
        if self.crowd.poll(task).is_ready() {
            return Poll::Ready(Wake::Heard);
        }
        if let Poll::Ready(Some(signal)) = self.signals.poll_recv(task) {
            return Poll::Ready(Wake::Signal(signal));
        }
        // A peer that does not read keeps whoever wants to tell it something waiting, rather than filling our memory.
        if self.output.len() < self.options.max_write_buffer_bytes
            && let Poll::Ready(Some(command)) = self.commands.poll_recv(task)
        {
            return Poll::Ready(Wake::Command(command));
        }
        if self.reads >= Self::MOST_READS || self.output.is_full() {
            self.reads = 0;
            if let Poll::Ready(wake) = self.poll_output(timer, task) {
                return Poll::Ready(wake);
            }
        }
        // What has come is seen to before more is read: the next thing that comes may be the end.
        if self.unseen && self.may_read() {
            return Poll::Ready(Wake::Lines);
        }
        if self.may_read()
            && let Poll::Ready(read) = self.poll_read(task)
        {
            self.reads += 1;
            return Poll::Ready(Wake::Read(read));
        }
        self.reads = 0;
        self.poll_output(timer, task)
    }

    /// Reads into room for a whole piece: what fills it may have more behind it, which costs one more attempt.
    fn poll_read(&mut self, task: &mut TaskContext<'_>) -> Poll<io::Result<usize>> {
        self.lines.make_room(self.piece);
        let buffer = self.lines.buffer();
        let room = buffer.capacity() - buffer.len();
        let read = pin!(self.reader.read_buf(buffer)).poll(task);
        if matches!(read, Poll::Ready(Ok(count)) if count == room) {
            self.piece = (self.piece * 2).min(Self::MOST_PIECE);
        }
        read
    }

    fn poll_output(&mut self, timer: &mut Timer, task: &mut TaskContext<'_>) -> Poll<Wake> {
        if let Poll::Ready(written) = self.output.poll_write(task) {
            return Poll::Ready(Wake::Written(written));
        }
        timer.poll(task).map(|()| Wake::Time)
    }

    /// A peer that does not read its answers has to wait. One that asks and tells more than is answered and heard is still read, or
    /// its cancellations and answers would never arrive: what runs may wait for those. So is one that does not read what we ask
    /// and tell: it may be waiting for us to read its answers first.
    fn may_read(&self) -> bool {
        let over = matches!(self.stage, Stage::Leaving(_));
        !over && self.output.answers() < self.options.max_write_buffer_bytes
    }

    fn read_lines(&mut self, service: &impl Service) {
        loop {
            self.unseen = !self.may_read() || self.output.is_full();
            if self.unseen {
                return;
            }
            let Some(line) = self.lines.next_line() else { return };
            if let Some(call) = self.read_line(line) {
                self.admit(call, service);
            }
            self.dispatch(service);
        }
    }

    fn read_line(&mut self, line: Result<Bytes, LineTooLong>) -> Option<Call> {
        let incoming = match line {
            Ok(line) => Incoming::decode(line, self.options.max_batch),
            Err(too_long) => {
                tracing::warn!(limit = too_long.limit, "a message is longer than max_message_bytes and is not read");
                self.session.receive_too_long(too_long, now());
                return None;
            }
        };
        self.session.receive_call(incoming, now())
    }

    /// Sees to everything that has come of the last message.
    fn dispatch(&mut self, service: &impl Service) {
        while let Some(event) = self.session.next_event() {
            match event {
                Event::Send(message) => {
                    if let Message::Response(Response { id, outcome: Err(error), .. }) = &message {
                        let id = id.as_ref().map(tracing::field::display);
                        tracing::debug!(id, code = error.code.0, "a request is refused");
                    }
                    self.output.message(&mut self.session, &message);
                }
                Event::SendBatch(responses) => self.output.batch(&mut self.session, &responses),
                Event::Request(call) => self.admit(*call, service),
                Event::Notification(notification) => self.hear(notification, service),
                Event::Answered { owner, outcome, .. } => {
                    self.asked.remove(&owner.key);
                    owner.settle(outcome);
                }
                Event::Cancelled { ticket, .. } => self.crowd.cancel(&ticket),
                Event::Progress { id, params } => self.report(&id, &params, service),
                Event::Told { id, notification } => self.tell(&id, notification, service),
                Event::Opened(opened) => {
                    let opened = Some(Ok(Arc::from(opened)));
                    self.view.send_modify(|view| view.opened = opened);
                }
                Event::SessionEnded => self.begin_session(),
                Event::OpenFailed(error) => {
                    self.view.send_modify(|view| view.opened = Some(Err(error)));
                }
                _ => {}
            }
        }
    }

    /// The client has sent `initialize` again. What the handlers of the earlier session still want to tell and ask does not
    /// reach the client of the new one.
    fn begin_session(&mut self) {
        self.crowd.stop_hearing();
        self.session_number += 1;
        let number = self.session_number;
        self.session_peer = self.handle.peer_in(Some(number));
        self.view.send_modify(|view| view.session = number);
    }

    fn peer(&self, dialect: Dialect) -> Peer {
        match dialect {
            Dialect::Handshake(_) => self.session_peer.clone(),
            _ => self.peer.clone(),
        }
    }

    fn admit(&mut self, call: Call, service: &impl Service) {
        if self.stage != Stage::Open {
            return self.refuse(&call.ticket, "no more requests are taken: the connection is closing");
        }
        match self.crowd.turn(&call, &self.options) {
            Turn::Now => self.call(call, service),
            Turn::Later => self.crowd.wait(call),
            Turn::Never => {
                self.refuse(&call.ticket, "too many requests in flight: wait for answers before asking more")
            }
        }
    }

    fn refuse(&mut self, ticket: &Ticket, reason: &str) {
        self.session.answer(ticket, Err(ErrorObject::internal(reason)));
    }

    fn begin_waiting(&mut self, service: &impl Service) {
        while let Some(call) = self.crowd.next(&self.options) {
            self.call(call, service);
            self.dispatch(service);
        }
        while let Some(notification) = self.crowd.next_notification(&self.options) {
            self.begin_hearing(notification, service);
        }
    }

    /// Most calls answer at once and need no task of their own.
    fn call(&mut self, call: Call, service: &impl Service) {
        let Call { request, dialect, ticket, meta, .. } = call;
        let (method, params) = (request.method, request.params);
        let cx = CallContext::new(dialect, self.peer(dialect)).with_id(ticket.id().clone()).with_meta(meta);
        let params = params.map_or_else(Payload::default, Payload::json);
        let future = Guarded::call(|| service.call(Request::raw(method.clone(), params), cx));
        let begun = future.try_now().or_else(|mut future| match begin(&mut future) {
            Poll::Ready(outcome) => Ok(outcome),
            Poll::Pending => Err(future),
        });
        match begun {
            Ok(outcome) => self.take_answer(Answer { ticket, method, dialect, outcome }),
            Err(future) => {
                let answering = self.answering.clone();
                let (key, name) = (ticket.clone(), method.clone());
                self.crowd.start(key, &name, async move {
                    let outcome = future.await;
                    // The connection may have ended meanwhile.
                    let _ = answering.send(Answer { ticket, method, dialect, outcome });
                });
            }
        }
    }

    fn hear(&mut self, notification: Notification, service: &impl Service) {
        if self.crowd.can_hear(&self.options) {
            self.begin_hearing(notification, service);
        } else {
            self.crowd.wait_to_hear(notification, &self.options);
        }
    }

    fn begin_hearing(&mut self, notification: Notification, service: &impl Service) {
        let dialect = self.session.dialect().unwrap_or(Dialect::Handshake(ProtocolVersion::LATEST_WITH_HANDSHAKE));
        let cx = self.context(dialect, notification.params.as_ref());
        let mut heard = GuardedNotify::new(|| service.notify(notification.method, notification.params, cx));
        if begin(&mut heard).is_pending() {
            self.crowd.hear(heard);
        }
    }

    /// How far a request of ours has come is for whoever made it; if they do not care, the service may.
    fn report(&mut self, id: &RequestId, params: &turms_proto::types::ProgressParams, service: &impl Service) {
        let heard = self.session.owner(id).is_some_and(|waiter| waiter.update(Update::Progress(params.clone())));
        if !heard && let Ok(report) = Notification::new::<turms_proto::types::Progress>(params) {
            self.hear(report, service);
        }
    }

    fn tell(&mut self, id: &RequestId, notification: Notification, service: &impl Service) {
        let heard = self.session.owner(id).is_some_and(|waiter| waiter.update(Update::Told(notification.clone())));
        if !heard {
            self.hear(notification, service);
        }
    }

    fn context(&self, dialect: Dialect, params: Option<&RawJson>) -> CallContext {
        CallContext::new(dialect, self.peer(dialect)).with_meta(Meta::of_params(params))
    }

    /// What a handler has told or asked before it answered leaves before its answer.
    fn take_answer(&mut self, answer: Answer) {
        while let Ok(command) = self.commands.try_recv() {
            self.obey(command);
        }
        self.crowd.finished(&answer.ticket);
        let outcome = lower_outcome(answer.outcome, &answer.method, answer.dialect.version());
        let to = self.session.reply(&answer.ticket, outcome.is_ok());
        match to.reply() {
            Reply::Send => self.output.answer(&mut self.session, answer.ticket.id(), outcome),
            Reply::Collect => {
                let outcome = outcome.and_then(|payload| payload.into_raw().map_err(|error| unwritable(&error)));
                self.session.collect(to, Response::new(answer.ticket.id().clone(), outcome.map_err(Into::into)));
            }
            _ => {}
        }
    }

    fn obey(&mut self, command: SessionCommand) {
        if command.session.is_some_and(|session| session != self.session_number) {
            return;
        }
        match command.command {
            Command::Notify(notification) => {
                let Notification { method, params, .. } = notification;
                if let Ok(notification) = self.session.notify(method, params) {
                    self.output.message(&mut self.session, &Message::Notification(notification));
                }
            }
            Command::Request(question) => {
                if let Some(request) = self.register(question) {
                    self.output.message(&mut self.session, &Message::Request(request));
                }
            }
            Command::Batch(questions) => {
                let requests: Vec<_> = questions.into_iter().filter_map(|question| self.register(question)).collect();
                self.output.requests(&mut self.session, requests);
            }
        }
    }

    /// A question becomes a request, unless nobody waits for it any more or nothing can be asked now.
    fn register(&mut self, question: Question) -> Option<turms_proto::Request> {
        let Question { method, params, options, waiter } = question;
        if waiter.is_gone() {
            return None;
        }
        if let Err(error) = self.session.may_request(&method) {
            waiter.refuse(error);
            return None;
        }
        let key = waiter.key;
        let request = self.session.request(method, params, options, waiter, now()).ok()?;
        self.asked.insert(key, request.id.clone());
        Some(request)
    }

    fn heed(&mut self, signal: Signal) {
        match signal {
            Signal::Forget(key) => {
                if let Some(id) = self.asked.remove(&key) {
                    self.session.cancel(&id, None);
                }
            }
            Signal::Shutdown if self.stage == Stage::Open => self.stage = Stage::Closing(self.drained_by()),
            Signal::Shutdown => {}
        }
    }

    /// The peer has closed its ear. It may have answered before it did, so it is heard out.
    fn write_no_more(&mut self) {
        self.output.give_up();
        if !matches!(self.stage, Stage::Leaving(_)) {
            self.stage = Stage::Unheard(self.drained_by());
        }
    }

    /// The peer reads no questions and gives no answers any more, but may still want to see what it asked for.
    fn peer_has_gone(&mut self, service: &impl Service) {
        if let Some(line) = self.lines.finish() {
            if let Some(call) = self.read_line(line) {
                self.admit(call, service);
            }
            self.dispatch(service);
        }
        self.session.peer_has_gone();
        self.dispatch(service);
        if !matches!(self.stage, Stage::Leaving(_)) {
            self.stage = Stage::Leaving(self.drained_by());
        }
    }

    fn drained_by(&self) -> Instant {
        now() + self.options.drain_timeout
    }

    fn is_done(&self) -> bool {
        match self.stage {
            Stage::Open => self.session.status() == turms_proto::session::Status::Closed,
            Stage::Closing(until) | Stage::Leaving(until) => self.session.running() == 0 || until <= now(),
            Stage::Unheard(until) => until <= now(),
        }
    }

    /// Answers what could not finish, and writes what is left, but not for a peer that does not read.
    async fn finish(&mut self, service: &impl Service) -> Result<(), ConnectionError> {
        for ticket in self.crowd.stop() {
            self.refuse(&ticket, "the connection is closing");
        }
        self.dispatch(service);
        match tokio::time::timeout(self.options.drain_timeout, self.output.drain()).await {
            Ok(drained) => drained.map_err(ConnectionError::Write),
            Err(_) => Ok(()),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let draining = match self.stage {
            Stage::Open => None,
            Stage::Closing(until) | Stage::Unheard(until) | Stage::Leaving(until) => Some(until),
        };
        let stalled = self.output.stalled_at(self.options.write_timeout);
        [self.session.next_deadline(), draining, stalled].into_iter().flatten().min()
    }

    /// Lets the handles see how things stand, if anything has changed that they show.
    fn show(&self) {
        let (status, stats, pending) = (self.session.status(), *self.session.stats(), self.session.pending());
        self.view.send_if_modified(|view| {
            let news = view.status != status;
            (view.status, view.stats, view.pending) = (status, stats, pending);
            news
        });
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The first step of something. Nobody has to be woken yet: what is not over then becomes a task, which begins by asking again.
fn begin<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut TaskContext::from_waker(Waker::noop()))
}

/// A deadline that moves.
#[derive(Debug, Default)]
struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    armed: Option<Instant>,
}

impl Timer {
    fn set(&mut self, deadline: Option<Instant>) {
        if self.armed == deadline {
            return;
        }
        self.armed = deadline;
        if let Some(deadline) = deadline {
            let deadline = tokio::time::Instant::from_std(deadline);
            match &mut self.sleep {
                Some(sleep) => sleep.as_mut().reset(deadline),
                None => self.sleep = Some(Box::pin(tokio::time::sleep_until(deadline))),
            }
        }
    }

    fn poll(&mut self, task: &mut TaskContext<'_>) -> Poll<()> {
        match (&mut self.sleep, self.armed) {
            (Some(sleep), Some(_)) => {
                let poll = sleep.as_mut().poll(task);
                if poll.is_ready() {
                    self.armed = None;
                }
                poll
            }
            _ => Poll::Pending,
        }
    }
}
