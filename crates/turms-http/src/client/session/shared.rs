use std::collections::HashMap;
use std::sync::{Arc, Weak};

use http::HeaderMap;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, oneshot, watch};
use tokio::task::AbortHandle;
use turms_core::{Ended, InboundStream, ObservedCall, PeerError, Service};
use turms_proto::session::{Dialect, Event, Session, Ticket};
use turms_proto::{RawJson, RequestId};

use super::super::endpoint::Endpoint;

/// What the channel, its streams and the calls of the server share.
pub(super) struct Shared {
    pub(super) me: Weak<Self>,
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) service: Arc<dyn Service>,
    pub(super) dialect: Dialect,
    /// What every request says: the session, and the revision where that is said.
    pub(super) headers: HeaderMap,
    /// Requests come from many tasks and answers on many streams, and none of them is the driver; so it is guarded by a lock,
    /// held for the time of one message.
    pub(super) session: Mutex<Session<Waiter>>,
    /// What the server asked and has no answer yet, and the stream that is always open.
    pub(super) tasks: Mutex<HashMap<Task, AbortHandle>>,
    /// Permits to post what no caller waits for, such as answers to requests of the server.
    pub(super) posts: Arc<Semaphore>,
    pub(super) ended: watch::Sender<Option<Ended>>,
    /// The stream for messages that belong to no request.
    pub(super) inbound: watch::Sender<InboundStream>,
    /// Told when the server has answered something: whoever waits for it to come back need not wait any longer.
    pub(super) answered: Notify,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Task {
    Stream,
    Call(Ticket),
}

/// Who waits for an answer.
pub(in crate::client) struct Waiter {
    pub(super) reply: oneshot::Sender<Result<RawJson, PeerError>>,
    pub(super) observer: Option<ObservedCall>,
}

pub(super) type Answer = oneshot::Receiver<Result<RawJson, PeerError>>;

impl Shared {
    pub(super) fn myself(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }

    /// Whether none of these waits for an answer any more.
    pub(super) fn are_settled(&self, ids: &[RequestId]) -> bool {
        let session = self.session.lock();
        ids.iter().all(|id| session.owner(id).is_none())
    }

    /// Waits until an answer could be posted at once. The permits are handed out in order, so those that wait to be posted go
    /// first.
    pub(super) async fn wait_for_room(&self) {
        drop(self.posts.acquire().await);
    }

    pub(super) fn count_received(&self, bytes: usize) {
        self.session.lock().count_received(bytes);
    }

    /// Does something with the session; what came of it.
    pub(super) fn with(&self, work: impl FnOnce(&mut Session<Waiter>)) -> Vec<Event<Waiter>> {
        let mut session = self.session.lock();
        work(&mut session);
        std::iter::from_fn(|| session.next_event()).collect()
    }

    /// The server does not know the session any more, which wants another.
    pub(super) fn end_if_over(&self, error: &PeerError) {
        if matches!(error, PeerError::Closed) {
            self.end(Ended::new().how("ended the session").renewable());
        }
    }

    /// Publishes the state of the inbound stream, if it is another one.
    pub(super) fn set_inbound(&self, state: InboundStream) {
        self.inbound.send_if_modified(|known| {
            let is_other = matches!(known, InboundStream::Open) != matches!(state, InboundStream::Open);
            *known = state;
            is_other
        });
    }

    /// Ends everything; false if it had ended before.
    pub(super) fn end(&self, ended: Ended) -> bool {
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

    /// Nobody gets an answer any more.
    pub(super) fn give_up(&self) {
        for event in self.with(Session::close) {
            if matches!(event, Event::Answered { .. }) {
                self.settle(event);
            }
        }
    }
}

pub(in crate::client) fn now() -> std::time::Instant {
    tokio::time::Instant::now().into_std()
}
