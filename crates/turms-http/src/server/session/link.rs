//! The client of a session, as handlers see it.

use std::future::poll_fn;
use std::sync::{Arc, OnceLock, Weak};
use std::task::Poll;
use std::time::Duration;

use bytestring::ByteString;
use tokio::sync::oneshot;
use turms_core::{BoxFuture, Link, PeerError};
use turms_proto::session::{RequestError, RequestOptions};
use turms_proto::{Message, Notification, RawJson, RequestId};

use super::{HttpSession, settle};

/// Where a message to the client goes.
#[derive(Debug, Clone)]
pub(super) enum Route {
    /// To a stream that belongs to no call.
    Standalone,
    /// To the stream of a call, which is opened when it is needed.
    Call(Arc<OnceLock<u64>>),
}

impl Route {
    pub(super) fn call() -> Self {
        Self::Call(Arc::default())
    }

    /// The stream, if it was opened.
    pub(super) fn stream(&self) -> Option<u64> {
        match self {
            Self::Standalone => None,
            Self::Call(stream) => stream.get().copied(),
        }
    }
}

/// A way to the client. It does not keep the session alive: whoever holds it may be held by the session.
pub(super) struct SessionLink {
    session: Weak<HttpSession>,
    route: Route,
}

impl SessionLink {
    pub(super) fn new(session: Weak<HttpSession>, route: Route) -> Self {
        Self { session, route }
    }

    fn session(&self) -> Result<Arc<HttpSession>, PeerError> {
        self.session.upgrade().ok_or(PeerError::Closed)
    }

    /// How long a client that reads too slowly is waited for before it counts as gone.
    const PATIENCE: Duration = Duration::from_secs(60);

    async fn tell(&self, notification: Notification) -> Result<(), PeerError> {
        let session = self.session()?;
        let message = Message::Notification(notification);
        let said = poll_fn(|task| session.say(&self.route, &message, Some(task)));
        let said = match tokio::time::timeout(Self::PATIENCE, said).await {
            Ok(said) => said,
            Err(_) => {
                session.send_reader_away(&self.route);
                matches!(session.say(&self.route, &message, None), Poll::Ready(true))
            }
        };
        said.then_some(()).ok_or(PeerError::Closed)
    }

    async fn ask(
        &self,
        method: ByteString,
        params: Option<RawJson>,
        options: RequestOptions,
    ) -> Result<RawJson, PeerError> {
        let session = self.session()?;
        let (reply, answer) = oneshot::channel();
        let id = session.ask(&self.route, method, params, options, reply)?;
        let mut forget = Forget { session: &session, route: &self.route, id: Some(id) };
        let answer = async { answer.await.unwrap_or(Err(RequestError::Closed)) };
        let outcome = match options.timeout {
            Some(limit) => match tokio::time::timeout(limit, answer).await {
                Ok(outcome) => outcome,
                Err(_) => return Err(RequestError::TimedOut(limit).into()),
            },
            None => answer.await,
        };
        forget.id = None;
        Ok(outcome?)
    }
}

impl Link for SessionLink {
    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        Box::pin(self.tell(notification))
    }

    fn try_notify(&self, notification: Notification) -> bool {
        self.session().is_ok_and(|session| matches!(session.notify(&self.route, notification), Poll::Ready(true)))
    }

    fn request(
        &self,
        method: ByteString,
        params: Option<RawJson>,
        options: RequestOptions,
    ) -> BoxFuture<'_, Result<RawJson, PeerError>> {
        Box::pin(self.ask(method, params, options))
    }
}

impl HttpSession {
    fn ask(
        &self,
        route: &Route,
        method: ByteString,
        params: Option<RawJson>,
        options: RequestOptions,
        reply: super::Waiter,
    ) -> Result<RequestId, PeerError> {
        let mut state = self.state();
        let now = tokio::time::Instant::now().into_std();
        let request = state.protocol.request(method, params, options, reply, now)?;
        let id = request.id.clone();
        let stream = self.stream_of(&mut state, route);
        let mut data = Vec::new();
        state.protocol.encode(&Message::Request(request), &mut data);
        self.push(&mut state, stream, data, false);
        Ok(id)
    }

    /// Nobody waits for the answer to a question any more: the client is told so.
    fn forget(&self, route: &Route, id: &RequestId) {
        let mut told = Vec::new();
        let events: Vec<_> = {
            let mut state = self.state();
            state.protocol.cancel(id, None);
            std::iter::from_fn(|| state.protocol.next_event()).collect()
        };
        for event in events {
            match event {
                turms_proto::session::Event::Send(message) => told.push(message),
                event => settle(event),
            }
        }
        for message in told {
            // If the client reads nothing, it will find out when it answers.
            let _ = self.say(route, &message, None);
        }
    }

    /// A reader that takes nothing is treated as one that has gone.
    fn send_reader_away(&self, route: &Route) {
        let mut state = self.state();
        let stream = self.stream_of(&mut state, route);
        if let Some(stream) = state.streams.get_mut(&stream)
            && stream.drop_reader()
        {
            state.readers = state.readers.saturating_sub(1);
        }
    }
}

/// Tells the session when whoever waits for an answer stops waiting.
struct Forget<'a> {
    session: &'a HttpSession,
    route: &'a Route,
    id: Option<RequestId>,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.session.forget(self.route, &id);
        }
    }
}

/// The event stream that carries what a call says, for handlers that want to let go of its connection. An extension of calls
/// of clients that have a session.
#[derive(Debug, Clone)]
pub struct EventStream {
    session: Weak<HttpSession>,
    route: Route,
}

impl EventStream {
    pub(super) fn new(session: &Arc<HttpSession>, route: Route) -> Self {
        Self { session: Arc::downgrade(session), route }
    }

    /// Ends the connection after what was said so far, and asks the client to come back for the rest after a while. The call
    /// goes on. False if the client's revision has no such thing.
    #[must_use]
    pub fn hang_up(&self, retry: Duration) -> bool {
        let Some(session) = self.session.upgrade().filter(|session| session.can_poll()) else { return false };
        let mut state = session.state();
        let stream = session.stream_of(&mut state, &self.route);
        match state.streams.get_mut(&stream) {
            Some(stream) => {
                stream.hang_up(retry);
                true
            }
            None => false,
        }
    }
}

impl std::fmt::Debug for HttpSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The id is as good as a password.
        f.debug_struct("HttpSession").finish_non_exhaustive()
    }
}
