use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytestring::ByteString;
use tokio::sync::{mpsc, oneshot, watch};
use turms_proto::session::{OpenError, Opened, RequestError, RequestOptions, SessionError, Stats, Status};
use turms_proto::{Notification, RawJson};

use crate::peer::{BoxFuture, Link, Peer, PeerError};

/// Something that a handle wants a connection to do.
#[derive(Debug)]
pub(super) enum Command {
    Notify(Notification),
    Request { method: ByteString, params: Option<RawJson>, options: RequestOptions, waiter: Waiter },
}

/// Something that must reach a connection even when its queue is full.
#[derive(Debug, Clone, Copy)]
pub(super) enum Signal {
    /// Nobody waits for the answer to this request any more.
    Forget(u64),
    /// Take no more requests, finish what runs, then end.
    Shutdown,
}

/// Who waits for the answer to a request.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) key: u64,
    pub(super) reply: oneshot::Sender<Result<RawJson, PeerError>>,
}

/// How a connection stands, as its handles see it.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) status: Status,
    pub(super) opened: Option<Result<Arc<Opened>, OpenError>>,
    pub(super) stats: Stats,
    pub(super) pending: usize,
}

/// A connection, for everybody but its driver: ask, tell, look, end it.
#[derive(Debug, Clone)]
pub struct ConnectionHandle {
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) signals: mpsc::UnboundedSender<Signal>,
    pub(super) view: watch::Receiver<View>,
    pub(super) keys: Arc<AtomicU64>,
}

impl ConnectionHandle {
    /// The other side, as a service sees it.
    #[must_use]
    pub fn peer(&self) -> Peer {
        Peer::new(self.clone())
    }

    /// How the connection stands.
    #[must_use]
    pub fn status(&self) -> Status {
        if self.commands.is_closed() { Status::Closed } else { self.view.borrow().status }
    }

    /// What has happened so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
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

impl Link for ConnectionHandle {
    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        Box::pin(async move { self.commands.send(Command::Notify(notification)).await.map_err(|_| PeerError::Closed) })
    }

    fn try_notify(&self, notification: Notification) -> bool {
        self.commands.try_send(Command::Notify(notification)).is_ok()
    }

    fn request(
        &self,
        method: ByteString,
        params: Option<RawJson>,
        options: RequestOptions,
    ) -> BoxFuture<'_, Result<RawJson, PeerError>> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let key = self.keys.fetch_add(1, Ordering::Relaxed);
            let command = Command::Request { method, params, options, waiter: Waiter { key, reply } };
            self.commands.send(command).await.map_err(|_| PeerError::Closed)?;
            let mut forget = Forget { signals: &self.signals, key: Some(key) };
            let answer = answer.await;
            forget.key = None;
            answer.unwrap_or(Err(PeerError::Closed))
        })
    }
}

/// Tells the connection when whoever waits for an answer stops waiting.
struct Forget<'a> {
    signals: &'a mpsc::UnboundedSender<Signal>,
    key: Option<u64>,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let _ = self.signals.send(Signal::Forget(key));
        }
    }
}

impl Waiter {
    pub(super) fn settle(self, outcome: Result<RawJson, RequestError>) {
        // Whoever asked may have stopped waiting.
        let _ = self.reply.send(outcome.map_err(PeerError::from));
    }

    pub(super) fn refuse(self, error: SessionError) {
        let _ = self.reply.send(Err(error.into()));
    }
}
