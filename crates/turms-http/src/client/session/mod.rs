//! The channel with a session, for the revisions with a handshake. Messages are posted; responses and messages on all streams go
//! through one state machine.

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
    BoxFuture, Channel, ChannelControl, CloseInfo, InboundStream, OutgoingRequest, Payload, PeerError, Service,
    TransportInfo,
};
use turms_proto::session::{ConnectionStats, Dialect, Session};
use turms_proto::{Ability, Notification, header};

pub(super) use self::shared::{ResponseWaiter, now};
use self::shared::{SessionShared, SessionTask};
use super::endpoint::HttpEndpoint;

/// A channel to a server after `initialize`. Dropping it deletes the session.
pub(super) struct SessionChannel(Arc<SessionShared>);

impl SessionChannel {
    /// Creates a channel for a new session.
    pub(super) fn new(
        endpoint: Arc<HttpEndpoint>,
        service: Arc<dyn Service>,
        session: Session<ResponseWaiter>,
        dialect: Dialect,
        id: Option<HeaderValue>,
    ) -> Self {
        let shared = Arc::new_cyclic(|me| SessionShared {
            me: me.clone(),
            posts: Arc::new(Semaphore::new(endpoint.max_concurrent_responses)),
            endpoint,
            service,
            dialect,
            headers: session_headers(dialect, id),
            session: Mutex::new(session),
            tasks: Mutex::default(),
            ended: watch::Sender::new(None),
            inbound: watch::Sender::new(InboundStream::Open),
            responded: Notify::new(),
        });
        Self(shared)
    }

    /// Opens the stream for messages that belong to no request, if the server has one. Waits for the head of the response so
    /// that no message is missed, but not long: some servers send it only with the first event.
    pub(super) async fn listen(&self) {
        const OPEN_TIMEOUT: Duration = Duration::from_millis(500);
        let (opened, is_open) = oneshot::channel();
        let task = tokio::spawn(stream::listen(self.0.clone(), opened));
        self.0.tasks.lock().insert(SessionTask::Stream, task.abort_handle());
        let _ = tokio::time::timeout(OPEN_TIMEOUT, is_open).await;
    }
}

/// Returns the headers of all requests in a session.
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
        Box::pin(async move { self.0.request(request).await.map(Payload::json) })
    }

    fn call_batch(&self, requests: Vec<OutgoingRequest>) -> BoxFuture<'_, Vec<Result<Payload, PeerError>>> {
        Box::pin(async move {
            let responses = if self.0.dialect.version().has(Ability::Batching) && requests.len() > 1 {
                self.0.request_batch(requests).await
            } else {
                join_all(requests.into_iter().map(|request| self.0.request(request))).await
            };
            responses.into_iter().map(|response| response.map(Payload::json)).collect()
        })
    }

    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        Box::pin(self.0.send_notification(notification))
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
            if self.0.close(CloseInfo::new()) {
                self.0.fail_pending();
                self.0.delete_session().await;
            }
        })
    }

    fn closed(&self) -> BoxFuture<'_, CloseInfo> {
        let mut ended = self.0.ended.subscribe();
        Box::pin(async move {
            let ended = ended.wait_for(Option::is_some).await;
            ended.ok().and_then(|ended| ended.clone()).unwrap_or_default()
        })
    }
}

impl Drop for SessionChannel {
    fn drop(&mut self) {
        if self.0.close(CloseInfo::new())
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let shared = self.0.clone();
            runtime.spawn(async move { shared.delete_session().await });
        }
    }
}
