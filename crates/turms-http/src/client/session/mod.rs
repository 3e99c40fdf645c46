//! A channel with a session, for the revisions that begin with a handshake: messages are posted, and whatever comes back on
//! any stream goes through the one state machine.

mod incoming;
mod outgoing;
mod shared;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, oneshot, watch};
use turms_core::{
    BoxFuture, Channel, ChannelControl, Ended, InboundStream, OutgoingRequest, Payload, PeerError, Service,
    TransportInfo,
};
use turms_proto::session::{ConnectionStats, Dialect, Session};
use turms_proto::{Ability, Notification, header};

use self::shared::{Shared, Task};
pub(super) use self::shared::{Waiter, now};
use super::endpoint::Endpoint;

/// A channel to a server that has shaken hands. Dropping it ends the session.
pub(super) struct SessionChannel(Arc<Shared>);

impl SessionChannel {
    /// A channel in a session that has just been opened.
    pub(super) fn new(
        endpoint: Arc<Endpoint>,
        service: Arc<dyn Service>,
        session: Session<Waiter>,
        dialect: Dialect,
        id: Option<HeaderValue>,
    ) -> Self {
        let shared = Arc::new_cyclic(|me| Shared {
            me: me.clone(),
            posts: Arc::new(Semaphore::new(endpoint.max_answers)),
            endpoint,
            service,
            dialect,
            headers: session_headers(dialect, id),
            session: Mutex::new(session),
            tasks: Mutex::default(),
            ended: watch::Sender::new(None),
            inbound: watch::Sender::new(InboundStream::Open),
            answered: Notify::new(),
        });
        Self(shared)
    }

    /// Opens the stream on which the server speaks unasked, if it has one. Waits for that, so that nothing is missed, but not
    /// for servers that say nothing before they have something to tell.
    pub(super) async fn listen(&self) {
        const HEAD: Duration = Duration::from_millis(500);
        let (opened, settled) = oneshot::channel();
        let task = tokio::spawn(stream::listen(self.0.clone(), opened));
        self.0.tasks.lock().insert(Task::Stream, task.abort_handle());
        let _ = tokio::time::timeout(HEAD, settled).await;
    }
}

/// What every request in a session says.
pub(super) fn session_headers(dialect: Dialect, id: Option<HeaderValue>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(id) = id {
        headers.insert(header::SESSION_ID, id);
    }
    if dialect.version().has(Ability::VersionHeader) {
        headers.insert(header::PROTOCOL_VERSION, HeaderValue::from_static(dialect.version().as_str()));
    }
    headers
}

impl Channel for SessionChannel {
    fn call(&self, request: OutgoingRequest) -> BoxFuture<'_, Result<Payload, PeerError>> {
        Box::pin(async move { self.0.ask(request).await.map(Payload::json) })
    }

    fn call_batch(&self, requests: Vec<OutgoingRequest>) -> BoxFuture<'_, Vec<Result<Payload, PeerError>>> {
        Box::pin(async move {
            let answers = if self.0.dialect.version().has(Ability::Batching) && requests.len() > 1 {
                self.0.ask_all(requests).await
            } else {
                join_all(requests.into_iter().map(|request| self.0.ask(request))).await
            };
            answers.into_iter().map(|answer| answer.map(Payload::json)).collect()
        })
    }

    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        Box::pin(self.0.tell(notification))
    }
}

impl ChannelControl for SessionChannel {
    fn info(&self) -> TransportInfo {
        TransportInfo::unordered()
    }

    fn inbound(&self) -> watch::Receiver<InboundStream> {
        self.0.inbound.subscribe()
    }

    fn stats(&self) -> ConnectionStats {
        *self.0.session.lock().stats()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.0.end(Ended::new()) {
                self.0.give_up();
                self.0.say_goodbye().await;
            }
        })
    }

    fn closed(&self) -> BoxFuture<'_, Ended> {
        let mut ended = self.0.ended.subscribe();
        Box::pin(async move {
            let ended = ended.wait_for(Option::is_some).await;
            ended.ok().and_then(|ended| ended.clone()).unwrap_or_default()
        })
    }
}

impl Drop for SessionChannel {
    fn drop(&mut self) {
        if self.0.end(Ended::new())
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let shared = self.0.clone();
            runtime.spawn(async move { shared.say_goodbye().await });
        }
    }
}
