use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytestring::ByteString;
use futures_util::future::join_all;
use tokio::sync::{mpsc, oneshot, watch};
use turms_proto::session::{
    ConnectionStats, ConnectionStatus, OpenError, Opened, RequestError, RequestOptions, SessionError,
};
use turms_proto::{Notification, RawJson};

use crate::channel::{DropCause, ObservedCall, OutgoingRequest};
use crate::payload::Payload;
use crate::peer::{BoxFuture, Peer, PeerError, PeerTransport};

/// A command with the session that it belongs to.
#[derive(Debug)]
pub(super) struct SessionCommand {
    /// The number of the session whose peer sent it; `None` if it does not depend on one.
    pub(super) session: Option<u64>,
    pub(super) command: Command,
}

/// Something that a handle wants a connection to do.
#[derive(Debug)]
pub(super) enum Command {
    Notify(Notification),
    Request(Question),
    Batch(Vec<Question>),
}

/// A request that somebody waits for.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) method: ByteString,
    pub(super) params: Option<RawJson>,
    pub(super) options: RequestOptions,
    pub(super) waiter: Waiter,
}

/// Something that must reach a connection even when its queue is full.
#[derive(Debug)]
pub(super) enum Signal {
    /// The caller of this request does not wait any more.
    Forget { key: u64, cause: DropCause },
    /// Take no more requests, finish what runs, then end.
    Shutdown,
}

/// Who waits for the answer to a request.
pub(super) struct Waiter {
    pub(super) key: u64,
    reply: oneshot::Sender<Result<RawJson, PeerError>>,
    observer: Option<ObservedCall>,
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiter").field("key", &self.key).finish_non_exhaustive()
    }
}

/// How a connection stands, as its handles see it.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) status: ConnectionStatus,
    pub(super) opened: Option<Result<Arc<Opened>, OpenError>>,
    pub(super) stats: ConnectionStats,
    pub(super) pending: usize,
    /// The number of the current session, starting at 0. A second `initialize` begins the next one.
    pub(super) session: u64,
}

/// A connection, for everybody but its driver: ask, tell, look, end it.
#[derive(Debug, Clone)]
pub struct ConnectionHandle {
    pub(super) commands: mpsc::Sender<SessionCommand>,
    pub(super) signals: mpsc::UnboundedSender<Signal>,
    pub(super) view: watch::Receiver<View>,
    pub(super) keys: Arc<AtomicU64>,
    /// The session that it belongs to; `None` for the connection as a whole.
    pub(super) session: Option<u64>,
}

impl ConnectionHandle {
    /// The other side, as a service sees it. It belongs to the current session: when a second `initialize` has ended that, what
    /// is told through it is lost, and what is asked fails.
    #[must_use]
    pub fn peer(&self) -> Peer {
        let session = self.view.borrow().session;
        self.peer_in(Some(session))
    }

    /// The other side in this session, or in all if it is `None`.
    pub(super) fn peer_in(&self, session: Option<u64>) -> Peer {
        Peer::new(Self { session, ..self.clone() })
    }

    async fn send(&self, command: Command) -> Result<(), PeerError> {
        let command = SessionCommand { session: self.session, command };
        self.commands.send(command).await.map_err(|_| PeerError::Closed)
    }

    /// How the connection stands.
    #[must_use]
    pub fn status(&self) -> ConnectionStatus {
        if self.commands.is_closed() { ConnectionStatus::Closed } else { self.view.borrow().status }
    }

    /// What has happened so far.
    #[must_use]
    pub fn stats(&self) -> ConnectionStats {
        self.view.borrow().stats
    }

    /// How many requests of ours have no answer yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.view.borrow().pending
    }

    /// Waits until a client knows whom it talks to.
    ///
    /// # Errors
    /// When the connection could not be opened, or ended first.
    pub async fn opened(&self) -> Result<Arc<Opened>, OpenFailure> {
        let mut view = self.view.clone();
        let settled = view.wait_for(|view| view.opened.is_some()).await;
        match settled.ok().and_then(|view| view.opened.clone()) {
            Some(Ok(opened)) => Ok(opened),
            Some(Err(error)) => Err(OpenFailure::Refused(error)),
            None => Err(OpenFailure::Closed),
        }
    }

    /// Asks the other side something, hearing what it tells about it. The caller runs the clock of the request.
    ///
    /// # Errors
    /// [`PeerError::Closed`] when the request has certainly not been sent; others when it may have been.
    pub async fn ask(&self, request: OutgoingRequest) -> Result<RawJson, PeerError> {
        let options = request.untimed_options();
        self.ask_with(request, options).await
    }

    async fn ask_with(&self, request: OutgoingRequest, options: RequestOptions) -> Result<RawJson, PeerError> {
        let cause = request.drop_cause();
        let (question, answer) = self.question(request, options)?;
        let key = question.waiter.key;
        self.send(Command::Request(question)).await?;
        let mut forget = Forget { signals: &self.signals, key: Some(key), cause };
        let answer = answer.await.unwrap_or(Err(PeerError::Closed));
        forget.key = None;
        answer
    }

    /// Asks the other side several things at once, together where its revision has batches.
    pub async fn ask_all(&self, requests: Vec<OutgoingRequest>) -> Vec<Result<RawJson, PeerError>> {
        let mut questions = Vec::with_capacity(requests.len());
        let asked: Vec<Result<_, PeerError>> = requests
            .into_iter()
            .map(|request| {
                let (clock, cause, options) = (request.clock.clone(), request.drop_cause(), request.untimed_options());
                let (question, answer) = self.question(request, options)?;
                let key = question.waiter.key;
                questions.push(question);
                Ok((key, answer, clock, cause))
            })
            .collect();
        // If the connection is gone, the questions are dropped and every answer says so.
        let _ = self.send(Command::Batch(questions)).await;
        join_all(asked.into_iter().map(|question| async move {
            let (key, answer, clock, cause) = question?;
            let mut forget = Forget { signals: &self.signals, key: Some(key), cause };
            let answer = clock.run(answer).await?;
            forget.key = None;
            answer.unwrap_or(Err(PeerError::Closed))
        }))
        .await
    }

    fn question(&self, mut request: OutgoingRequest, options: RequestOptions) -> Result<(Question, Answer), PeerError> {
        let params = request.take_params()?;
        let (reply, answer) = oneshot::channel();
        let key = self.keys.fetch_add(1, Ordering::Relaxed);
        let waiter = Waiter { key, reply, observer: request.take_observer() };
        Ok((Question { method: request.method, params, options, waiter }, answer))
    }

    /// Takes no more requests, finishes what runs, then ends the connection.
    pub fn shutdown(&self) {
        // A connection that is gone has ended already.
        let _ = self.signals.send(Signal::Shutdown);
    }

    /// Waits until the connection has ended.
    pub async fn closed(&self) {
        self.commands.closed().await;
    }
}

/// Why a connection did not open.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OpenFailure {
    /// The two sides could not agree.
    #[error(transparent)]
    Refused(OpenError),
    /// The other side went away.
    #[error("the connection ended before it was open")]
    Closed,
}

impl PeerTransport for ConnectionHandle {
    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        Box::pin(self.send(Command::Notify(notification)))
    }

    fn try_notify(&self, notification: Notification) -> bool {
        let command = SessionCommand { session: self.session, command: Command::Notify(notification) };
        self.commands.try_send(command).is_ok()
    }

    fn request(
        &self,
        method: ByteString,
        params: Option<RawJson>,
        options: RequestOptions,
    ) -> BoxFuture<'_, Result<RawJson, PeerError>> {
        let params = params.map_or_else(Payload::default, Payload::json);
        Box::pin(self.ask_with(OutgoingRequest::new(method, params), options))
    }
}

/// Tells the connection when whoever waits for an answer stops waiting.
struct Forget<'a> {
    signals: &'a mpsc::UnboundedSender<Signal>,
    key: Option<u64>,
    cause: DropCause,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let _ = self.signals.send(Signal::Forget { key, cause: self.cause.clone() });
        }
    }
}

type Answer = oneshot::Receiver<Result<RawJson, PeerError>>;

impl Waiter {
    /// Whether nobody waits any more.
    pub(super) fn is_gone(&self) -> bool {
        self.reply.is_closed()
    }

    pub(super) fn observer(&self) -> Option<&ObservedCall> {
        self.observer.as_ref()
    }

    pub(super) fn settle(self, outcome: Result<RawJson, RequestError>) {
        // Whoever asked may have stopped waiting.
        let _ = self.reply.send(outcome.map_err(PeerError::from));
    }

    pub(super) fn refuse(self, error: SessionError) {
        let _ = self.reply.send(Err(error.into()));
    }
}
