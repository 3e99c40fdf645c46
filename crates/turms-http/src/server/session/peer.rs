//! The client of a session, as a peer for handlers.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, OnceLock, Weak};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;
use turms_core::{BoxFuture, PeerError, PeerTransport};
use turms_proto::session::{Event, RequestError, RequestOptions};
use turms_proto::{Message, MethodName, Notification, RawJson, RequestId};

use super::event_stream::StreamKind;
use super::{HttpSession, HttpSessionState, deliver};

/// The stream that a message to the client is sent on.
#[derive(Debug)]
pub(super) enum MessageRoute {
    /// A standalone stream, which does not belong to a call.
    Standalone,
    /// The stream of a POST, which is opened on demand. `None` if the POST was answered without a stream: later
    /// messages go to a standalone stream.
    Post(OnceLock<Option<u64>>),
}

impl MessageRoute {
    pub(super) fn post() -> Self {
        Self::Post(OnceLock::new())
    }

    /// Returns the stream of the POST, which is opened on first use.
    pub(super) fn open_stream(&self, state: &mut HttpSessionState) -> Option<u64> {
        match self {
            Self::Standalone => None,
            Self::Post(stream) => *stream.get_or_init(|| Some(state.open_stream(StreamKind::Call))),
        }
    }

    /// Returns the stream of the POST. If none was opened until now, none will be.
    pub(super) fn close(&self) -> Option<u64> {
        match self {
            Self::Standalone => None,
            Self::Post(stream) => *stream.get_or_init(|| None),
        }
    }
}

/// The peer of a session. Holds a weak reference, because the session may own values that own the peer.
#[derive(Debug)]
pub(super) struct SessionPeer {
    session: Weak<HttpSession>,
    route: MessageRoute,
}

impl SessionPeer {
    pub(super) fn new(session: Weak<HttpSession>, route: MessageRoute) -> Self {
        Self { session, route }
    }

    pub(super) fn route(&self) -> &MessageRoute {
        &self.route
    }

    fn session(&self) -> Result<Arc<HttpSession>, PeerError> {
        self.session.upgrade().ok_or(PeerError::Closed)
    }

    /// Timeout for a client that reads too slowly. Its reader is then disconnected.
    const SLOW_READER_TIMEOUT: Duration = Duration::from_secs(60);

    async fn send_notification(&self, notification: Notification) -> Result<(), PeerError> {
        let session = self.session()?;
        let message = Message::Notification(notification);
        let mut sending = pin!(poll_fn(|task| session.send(&self.route, &message, Some(task))));
        // Most messages are sent at once and need no timer.
        let first = poll_fn(|task| Poll::Ready(sending.as_mut().poll(task))).await;
        let is_sent = match first {
            Poll::Ready(is_sent) => is_sent,
            Poll::Pending => match tokio::time::timeout(Self::SLOW_READER_TIMEOUT, sending).await {
                Ok(is_sent) => is_sent,
                Err(_) => {
                    session.disconnect_reader(&self.route);
                    matches!(session.send(&self.route, &message, None), Poll::Ready(true))
                }
            },
        };
        is_sent.then_some(()).ok_or(PeerError::Closed)
    }

    async fn send_request(
        &self,
        method: MethodName,
        params: Option<RawJson>,
        options: RequestOptions,
    ) -> Result<RawJson, PeerError> {
        let session = self.session()?;
        let (reply, answer) = oneshot::channel();
        let id = session.send_request(&self.route, method, params, options, reply)?;
        let mut cancel = CancelOnDrop { session: &session, route: &self.route, id: Some(id) };
        let mut answer = pin!(answer);
        let outcome = loop {
            let deadline = session.state.lock().protocol.next_deadline();
            let deadline = deadline.map_or_else(far_future, tokio::time::Instant::from_std);
            tokio::select! {
                answer = &mut answer => break answer.unwrap_or(Err(RequestError::Closed)),
                // The session knows which request has expired: a progress notification may have extended the deadline.
                () = tokio::time::sleep_until(deadline) => session.expire(&self.route),
            }
        };
        cancel.id = None;
        Ok(outcome?)
    }
}

fn far_future() -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_secs(24 * 60 * 60)
}

impl PeerTransport for SessionPeer {
    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        Box::pin(self.send_notification(notification))
    }

    fn try_notify(&self, notification: Notification) -> bool {
        let message = Message::Notification(notification);
        self.session().is_ok_and(|session| matches!(session.send(&self.route, &message, None), Poll::Ready(true)))
    }

    fn request(
        &self,
        method: MethodName,
        params: Option<RawJson>,
        options: RequestOptions,
    ) -> BoxFuture<'_, Result<RawJson, PeerError>> {
        Box::pin(self.send_request(method, params, options))
    }
}

impl HttpSession {
    /// Sends a request to the client, even if the stream is full: the client may be waiting for it.
    fn send_request(
        &self,
        route: &MessageRoute,
        method: MethodName,
        params: Option<RawJson>,
        options: RequestOptions,
        reply: super::Waiter,
    ) -> Result<RequestId, PeerError> {
        let now = tokio::time::Instant::now().into_std();
        let (id, stream) = {
            let mut state = self.state.lock();
            let request = state.protocol.request(method, params, options, reply, now)?;
            let mut data = Vec::new();
            request.encode(&mut data);
            let (stream, open, woken) = state.stream_of(route);
            open.push(data, false, woken);
            (request.id, stream)
        };
        self.persist(stream);
        Ok(id)
    }

    /// Cancels a request when its response is no longer awaited, and notifies the client.
    fn cancel_request(&self, route: &MessageRoute, id: &RequestId) {
        self.change(route, |protocol| drop(protocol.cancel(id, None)));
    }

    /// Fails the requests that have timed out.
    fn expire(&self, route: &MessageRoute) {
        let now = tokio::time::Instant::now().into_std();
        self.change(route, |protocol| protocol.expire(now));
    }

    /// Applies a change to the protocol session, and handles the resulting events.
    fn change(&self, route: &MessageRoute, change: impl FnOnce(&mut turms_proto::session::Session<super::Waiter>)) {
        let events: Vec<_> = {
            let mut state = self.state.lock();
            change(&mut state.protocol);
            std::iter::from_fn(|| state.protocol.next_event()).collect()
        };
        for event in events {
            match event {
                // If the stream is full, the message is dropped. The client learns of the cancellation when it
                // responds.
                Event::Send(message) => drop(self.send(route, &message, None)),
                event => deliver(event),
            }
        }
    }

    /// Disconnects a reader that does not read.
    fn disconnect_reader(&self, route: &MessageRoute) {
        tracing::debug!("a client does not read its stream: its reader is disconnected");
        let mut state = self.state.lock();
        let (_, stream, woken) = state.stream_of(route);
        stream.detach(None, woken);
    }
}

/// Cancels a request when the future that awaits the response is dropped.
struct CancelOnDrop<'a> {
    session: &'a HttpSession,
    route: &'a MessageRoute,
    id: Option<RequestId>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.session.cancel_request(self.route, &id);
        }
    }
}

/// Control of the event stream of a call, for handlers that close its connection early. An extension of calls in a
/// session.
#[derive(Debug, Clone)]
pub struct StreamControl(Arc<SessionPeer>);

impl StreamControl {
    pub(super) fn new(link: Arc<SessionPeer>) -> Self {
        Self(link)
    }

    /// Closes the connection after the messages sent so far. The client reconnects after `retry_after` and
    /// resumes the stream; the call continues. Returns `false` if the client's revision does not support this.
    #[must_use]
    pub fn close(&self, retry_after: Duration) -> bool {
        let Some(session) = self.0.session.upgrade().filter(|session| session.can_poll()) else { return false };
        let mut state = session.state.lock();
        // After its response, a call has no stream.
        let stream = self.0.route.open_stream(&mut state);
        match stream.and_then(|stream| state.stream(stream)).filter(|(stream, _)| !stream.has_ended()) {
            Some((stream, woken)) => {
                stream.disconnect(retry_after, woken);
                true
            }
            None => false,
        }
    }
}
