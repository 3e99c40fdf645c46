use std::collections::HashMap;
use std::sync::{Arc, Weak};

use http::HeaderMap;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, oneshot, watch};
use tokio::task::AbortHandle;
use turms_core::{CloseInfo, InboundStream, ObservedCall, PeerError, Service};
use turms_proto::session::{Dialect, Event, Session, Ticket};
use turms_proto::{RawJson, RequestId};

use super::super::endpoint::HttpEndpoint;

/// State that the channel, its streams and the requests of the server share.
pub(super) struct SessionShared {
    pub(super) me: Weak<Self>,
    pub(super) endpoint: Arc<HttpEndpoint>,
    pub(super) service: Arc<dyn Service>,
    pub(super) dialect: Dialect,
    /// Headers of all requests: the session id, and the protocol version in revisions that have the header.
    pub(super) headers: HeaderMap,
    /// Locked for the time of one message: requests are sent by many tasks and responses arrive on many streams, without a
    /// single driver.
    pub(super) session: Mutex<Session<ResponseWaiter>>,
    /// Tasks of the server's requests and of the standalone stream.
    pub(super) tasks: Mutex<HashMap<SessionTask, AbortHandle>>,
    /// Permits for messages that are posted in the background, such as responses to requests of the server.
    pub(super) posts: Arc<Semaphore>,
    pub(super) ended: watch::Sender<Option<CloseInfo>>,
    /// The stream for messages that belong to no request.
    pub(super) inbound: watch::Sender<InboundStream>,
    /// Notified when the server has responded: a stream that waits to be reopened is reopened now.
    pub(super) responded: Notify,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum SessionTask {
    Stream,
    Call(Ticket),
}

/// The caller of a request.
pub(in crate::client) struct ResponseWaiter {
    pub(super) reply: oneshot::Sender<Result<RawJson, PeerError>>,
    pub(super) observer: Option<ObservedCall>,
}

pub(super) type ResponseReceiver = oneshot::Receiver<Result<RawJson, PeerError>>;

impl SessionShared {
    pub(super) fn upgrade(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }

    /// Returns `true` if all of these requests have their responses.
    pub(super) fn are_answered(&self, ids: &[RequestId]) -> bool {
        let session = self.session.lock();
        ids.iter().all(|id| session.owner(id).is_none())
    }

    /// Waits for a permit to post in the background. Permits are fair, so messages that wait already go first.
    pub(super) async fn wait_for_permit(&self) {
        drop(self.posts.acquire().await);
    }

    pub(super) fn count_received(&self, bytes: usize) {
        self.session.lock().count_received(bytes);
    }

    /// Runs a function with the session, and returns the events.
    pub(super) fn with_session(&self, work: impl FnOnce(&mut Session<ResponseWaiter>)) -> Vec<Event<ResponseWaiter>> {
        let mut session = self.session.lock();
        work(&mut session);
        std::iter::from_fn(|| session.next_event()).collect()
    }

    /// Closes the channel if the error says that the session has expired. A new session can replace it.
    pub(super) fn close_if_expired(&self, error: &PeerError) {
        if matches!(error, PeerError::Closed) {
            self.close(CloseInfo::new().how("ended the session").renewable());
        }
    }

    /// Publishes the state of the inbound stream if it changed.
    pub(super) fn set_inbound(&self, state: InboundStream) {
        self.inbound.send_if_modified(|known| {
            let is_changed = matches!(known, InboundStream::Open) != matches!(state, InboundStream::Open);
            *known = state;
            is_changed
        });
    }

    /// Closes the channel and aborts its tasks. Returns `false` if it was closed before.
    pub(super) fn close(&self, ended: CloseInfo) -> bool {
        let first = self.ended.send_if_modified(|known| {
            let first = known.is_none();
            if first {
                *known = Some(ended);
            }
            first
        });
        if first {
            let tasks = std::mem::take(&mut *self.tasks.lock());
            tasks.into_values().for_each(|task| task.abort());
        }
        first
    }

    /// Fails all pending requests.
    pub(super) fn fail_pending(&self) {
        for event in self.with_session(Session::close) {
            if matches!(event, Event::Answered { .. }) {
                self.handle_event(event);
            }
        }
    }
}

pub(in crate::client) fn now() -> std::time::Instant {
    tokio::time::Instant::now().into_std()
}
