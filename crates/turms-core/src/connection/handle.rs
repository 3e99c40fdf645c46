//! The handle of a running connection, and the commands and signals that it sends to the task of the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;
use tokio::sync::{mpsc, oneshot, watch};
use turms_proto::session::{
    ConnectionStats, ConnectionStatus, Negotiated, OpenError, RequestError, RequestOptions, SessionError,
};
use turms_proto::{MethodName, Notification, RawJson};

use crate::channel::{DropCause, ObservedCall, OutgoingRequest};
use crate::payload::Payload;
use crate::peer::{BoxFuture, Peer, PeerError, PeerTransport};

/// A command of a handle, for one session or for the connection.
#[derive(Debug)]
pub(super) struct SessionCommand {
    /// The number of the session that must be the current one, or the command is dropped; `None` for any session.
    pub(super) session: Option<u64>,
    pub(super) command: ConnectionCommand,
}

/// The kinds of commands. They wait in a bounded queue.
#[derive(Debug)]
pub(super) enum ConnectionCommand {
    Notify(Notification),
    Request(PendingRequest),
    Batch(Vec<PendingRequest>),
}

/// A request to the peer, with its waiting caller.
#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) method: MethodName,
    pub(super) params: Option<RawJson>,
    pub(super) options: RequestOptions,
    pub(super) caller: WaitingCaller,
}

/// A signal to a connection, delivered even when the command queue is full.
#[derive(Debug)]
pub(super) enum ConnectionSignal {
    /// The caller of this request has stopped waiting: cancel it.
    Forget { key: u64, cause: DropCause },
    /// Accept no more requests, finish running calls, then close.
    Shutdown,
}

/// The caller that waits for the response to a request.
pub(super) struct WaitingCaller {
    pub(super) key: u64,
    response: oneshot::Sender<Result<RawJson, PeerError>>,
    observer: Option<ObservedCall>,
}

impl std::fmt::Debug for WaitingCaller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitingCaller").field("key", &self.key).finish_non_exhaustive()
    }
}

/// The state of a connection, as its handles see it.
#[derive(Debug, Clone)]
pub(super) struct ConnectionState {
    pub(super) status: ConnectionStatus,
    pub(super) opened: Option<Result<Arc<Negotiated>, OpenError>>,
    pub(super) stats: ConnectionStats,
    pub(super) pending: usize,
    /// The number of the current session, starting at 0. A second `initialize` begins the next one.
    pub(super) session: u64,
}

/// A handle to a running connection: sends requests and notifications, reads its state, and closes it. Clones are cheap.
#[derive(Debug, Clone)]
pub struct ConnectionHandle {
    pub(super) commands: mpsc::Sender<SessionCommand>,
    pub(super) signals: mpsc::UnboundedSender<ConnectionSignal>,
    pub(super) state: watch::Receiver<ConnectionState>,
    /// The key of the next request. It identifies the request in signals.
    pub(super) keys: Arc<AtomicU64>,
    /// The session that it belongs to; `None` for the connection as a whole.
    pub(super) session: Option<u64>,
}

impl ConnectionHandle {
    /// The peer. It belongs to the current session: after a second `initialize`, its notifications are dropped and its requests fail.
    #[must_use]
    pub fn peer(&self) -> Peer {
        let session = self.state.borrow().session;
        self.peer_in(Some(session))
    }

    /// The peer in this session; in every session if it is `None`.
    pub(super) fn peer_in(&self, session: Option<u64>) -> Peer {
        Peer::new(Self { session, ..self.clone() })
    }

    async fn send(&self, command: ConnectionCommand) -> Result<(), PeerError> {
        let command = SessionCommand { session: self.session, command };
        self.commands.send(command).await.map_err(|_| PeerError::Closed)
    }

    /// The status of the connection.
    #[must_use]
    pub fn status(&self) -> ConnectionStatus {
        if self.commands.is_closed() { ConnectionStatus::Closed } else { self.state.borrow().status }
    }

    /// The counters of the connection.
    #[must_use]
    pub fn stats(&self) -> ConnectionStats {
        self.state.borrow().stats
    }

    /// The number of requests to the peer that wait for their response.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.state.borrow().pending
    }

    /// Waits for the result of a client's handshake.
    ///
    /// # Errors
    /// If the handshake failed or the connection closed.
    pub async fn opened(&self) -> Result<Arc<Negotiated>, HandshakeError> {
        let mut state = self.state.clone();
        let opened = state.wait_for(|state| state.opened.is_some()).await;
        match opened.ok().and_then(|state| state.opened.clone()) {
            Some(Ok(opened)) => Ok(opened),
            Some(Err(error)) => Err(HandshakeError::Refused(error)),
            None => Err(HandshakeError::Closed),
        }
    }

    /// Sends a request and waits for its response. Progress and other messages of the call go to the observer of the request.
    ///
    /// The timeout of the request is not applied here: the caller runs this future with the clock of the request.
    ///
    /// # Errors
    /// [`PeerError::Closed`] if the request was not sent; others if it may have been sent.
    pub async fn call(&self, request: OutgoingRequest) -> Result<RawJson, PeerError> {
        let options = request.untimed_options();
        self.send_request(request, options).await
    }

    async fn send_request(&self, request: OutgoingRequest, options: RequestOptions) -> Result<RawJson, PeerError> {
        let cause = request.drop_cause();
        let (request, response) = self.prepare(request, options)?;
        let key = request.caller.key;
        self.send(ConnectionCommand::Request(request)).await?;
        let mut forget = ForgetRequest { signals: &self.signals, key: Some(key), cause };
        let response = response.await.unwrap_or(Err(PeerError::Closed));
        forget.key = None;
        response
    }

    /// Sends several requests and waits for their responses, in a batch if the revision has batches.
    pub async fn call_batch(&self, requests: Vec<OutgoingRequest>) -> Vec<Result<RawJson, PeerError>> {
        let mut batch = Vec::with_capacity(requests.len());
        let responses: Vec<Result<_, PeerError>> = requests
            .into_iter()
            .map(|request| {
                let (clock, cause, options) = (request.clock.clone(), request.drop_cause(), request.untimed_options());
                let (request, response) = self.prepare(request, options)?;
                let key = request.caller.key;
                batch.push(request);
                Ok((key, response, clock, cause))
            })
            .collect();
        // If the connection is closed, the batch is dropped and every response is an error.
        let _ = self.send(ConnectionCommand::Batch(batch)).await;
        join_all(responses.into_iter().map(|response| async move {
            let (key, response, clock, cause) = response?;
            let mut forget = ForgetRequest { signals: &self.signals, key: Some(key), cause };
            let response = clock.run(response).await?;
            forget.key = None;
            response.unwrap_or(Err(PeerError::Closed))
        }))
        .await
    }

    /// Splits a request into the command for the connection and the receiver of its response.
    fn prepare(
        &self,
        mut request: OutgoingRequest,
        options: RequestOptions,
    ) -> Result<(PendingRequest, ResponseReceiver), PeerError> {
        let params = request.take_params()?;
        let (response, receiver) = oneshot::channel();
        let key = self.keys.fetch_add(1, Ordering::Relaxed);
        let caller = WaitingCaller { key, response, observer: request.take_observer() };
        Ok((PendingRequest { method: request.method, params, options, caller }, receiver))
    }

    /// Closes the connection: no more requests are accepted, and running calls have the drain timeout to finish.
    pub fn shutdown(&self) {
        // The connection may be closed already.
        let _ = self.signals.send(ConnectionSignal::Shutdown);
    }

    /// Waits until the connection has closed.
    pub async fn closed(&self) {
        self.commands.closed().await;
    }
}

/// Error of a handshake.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The client and the server could not agree.
    #[error(transparent)]
    Refused(OpenError),
    /// The connection closed during the handshake.
    #[error("connection closed during the handshake")]
    Closed,
}

impl PeerTransport for ConnectionHandle {
    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        Box::pin(self.send(ConnectionCommand::Notify(notification)))
    }

    fn try_notify(&self, notification: Notification) -> bool {
        let command = SessionCommand { session: self.session, command: ConnectionCommand::Notify(notification) };
        self.commands.try_send(command).is_ok()
    }

    fn request(
        &self,
        method: MethodName,
        params: Option<RawJson>,
        options: RequestOptions,
    ) -> BoxFuture<'_, Result<RawJson, PeerError>> {
        let params = params.map_or_else(Payload::default, Payload::json);
        Box::pin(self.send_request(OutgoingRequest::new(method, params), options))
    }
}

/// Cancels a request when its caller stops waiting.
struct ForgetRequest<'a> {
    signals: &'a mpsc::UnboundedSender<ConnectionSignal>,
    key: Option<u64>,
    cause: DropCause,
}

impl Drop for ForgetRequest<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let _ = self.signals.send(ConnectionSignal::Forget { key, cause: self.cause.clone() });
        }
    }
}

type ResponseReceiver = oneshot::Receiver<Result<RawJson, PeerError>>;

impl WaitingCaller {
    /// Returns `true` if the caller has stopped waiting.
    pub(super) fn is_gone(&self) -> bool {
        self.response.is_closed()
    }

    pub(super) fn observer(&self) -> Option<&ObservedCall> {
        self.observer.as_ref()
    }

    pub(super) fn settle(self, outcome: Result<RawJson, RequestError>) {
        // The caller may have stopped waiting.
        let _ = self.response.send(outcome.map_err(PeerError::from));
    }

    pub(super) fn refuse(self, error: SessionError) {
        let _ = self.response.send(Err(error.into()));
    }
}
