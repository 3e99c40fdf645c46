//! Subscriptions to changes: by sessions, in revisions with a handshake, and by `subscriptions/listen` in 2026-07-28.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;
use turms_core::SessionHandle;
use turms_proto::Notification;
use turms_proto::types::{
    PromptListChangedNotification, ResourceListChangedNotification, ResourceParams, ResourceUpdatedNotification,
    SubscriptionFilter, ToolListChangedNotification,
};

use crate::session::{SessionCore, Subscriber};

/// A list of a server that clients are notified of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ListKind {
    /// The tools.
    Tools,
    /// The prompts.
    Prompts,
    /// The resources and resource templates.
    Resources,
}

impl From<ListKind> for Change {
    fn from(list: ListKind) -> Self {
        match list {
            ListKind::Tools => Self::Tools,
            ListKind::Prompts => Self::Prompts,
            ListKind::Resources => Self::Resources,
        }
    }
}

/// A change that clients are notified of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    /// The list of tools changed.
    Tools,
    /// The list of prompts changed.
    Prompts,
    /// The list of resources or resource templates changed.
    Resources,
    /// The resource with this URI was updated.
    Resource(String),
}

impl Change {
    pub(crate) fn notification(&self) -> Option<Notification> {
        use turms_proto::types::EmptyParams;
        let empty = EmptyParams::new();
        let made = match self {
            Self::Tools => Notification::new::<ToolListChangedNotification>(&empty),
            Self::Prompts => Notification::new::<PromptListChangedNotification>(&empty),
            Self::Resources => Notification::new::<ResourceListChangedNotification>(&empty),
            Self::Resource(uri) => Notification::new::<ResourceUpdatedNotification>(&ResourceParams::new(uri.as_str())),
        };
        made.ok()
    }

    fn concerns(&self, filter: &SubscriptionFilter) -> bool {
        match self {
            Self::Tools => filter.tools_list_changed == Some(true),
            Self::Prompts => filter.prompts_list_changed == Some(true),
            Self::Resources => filter.resources_list_changed == Some(true),
            Self::Resource(uri) => filter.resource_subscriptions.as_ref().is_some_and(|uris| uris.contains(uri)),
        }
    }
}

/// The sessions and listen requests of a server, with their resource subscriptions.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    members: Mutex<SubscriptionState>,
}

#[derive(Debug, Default)]
struct SubscriptionState {
    sessions: HashMap<u64, Weak<SessionHandle>>,
    listeners: HashMap<u64, ListenerEntry>,
    last_listener: u64,
    /// Subscribers by resource URI, so that an update does not search all sessions.
    by_uri: HashMap<String, Subscribers>,
}

/// The subscribers of one resource: serials of sessions and keys of listen requests.
#[derive(Debug, Default)]
struct Subscribers {
    sessions: HashSet<u64>,
    listeners: HashSet<u64>,
}

impl SubscriptionState {
    fn unsubscribe(&mut self, uri: &str, remove: impl FnOnce(&mut Subscribers) -> bool) {
        if let Some(subscribers) = self.by_uri.get_mut(uri) {
            remove(subscribers);
            if subscribers.sessions.is_empty() && subscribers.listeners.is_empty() {
                self.by_uri.remove(uri);
            }
        }
    }
}

#[derive(Debug)]
struct ListenerEntry {
    filter: SubscriptionFilter,
    pending: Arc<PendingChanges>,
}

/// Changes that a listen request has yet to send. Repeated changes are stored once, so the filter bounds the size.
#[derive(Debug, Default)]
pub(crate) struct PendingChanges {
    changes: Mutex<BTreeSet<Change>>,
    more: Notify,
}

impl PendingChanges {
    fn add(&self, change: Change) {
        self.changes.lock().insert(change);
        self.more.notify_one();
    }

    fn take(&self) -> Option<Change> {
        self.changes.lock().pop_first()
    }
}

/// A listen request that is being served. Dropping it unsubscribes.
#[derive(Debug)]
pub(crate) struct Listening {
    key: u64,
    subscriptions: Arc<Subscriptions>,
    pending: Arc<PendingChanges>,
}

impl Listening {
    /// Waits for the next change.
    pub(crate) async fn next_change(&self) -> Change {
        loop {
            let more = self.pending.more.notified();
            if let Some(change) = self.pending.take() {
                return change;
            }
            more.await;
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut members = self.subscriptions.members.lock();
        let Some(listener) = members.listeners.remove(&self.key) else { return };
        for uri in listener.filter.resource_subscriptions.iter().flatten() {
            members.unsubscribe(uri, |subscribers| subscribers.listeners.remove(&self.key));
        }
    }
}

impl Subscriptions {
    pub(crate) fn join(&self, session: &Arc<SessionHandle>) {
        self.members.lock().sessions.insert(session.serial(), Arc::downgrade(session));
    }

    pub(crate) fn leave(&self, session: &SessionCore) {
        let mut members = self.members.lock();
        members.sessions.remove(&session.number());
        // Releases memory after many sessions have ended.
        if members.sessions.capacity() > 256 && members.sessions.len() * 4 < members.sessions.capacity() {
            members.sessions.shrink_to_fit();
        }
        for uri in session.subscribed_uris() {
            members.unsubscribe(&uri, |subscribers| subscribers.sessions.remove(&session.number()));
        }
    }

    /// Subscribes a session to a resource. Returns `false` if the session has too many subscriptions.
    pub(crate) fn subscribe(&self, session: &SessionCore, uri: String, subscriber: Subscriber) -> bool {
        let mut members = self.members.lock();
        // A call may run for a moment after its session has ended. Its subscription would never be removed.
        if !members.sessions.contains_key(&session.number()) {
            return true;
        }
        let fits = session.subscribe(uri.clone(), subscriber);
        if fits {
            members.by_uri.entry(uri).or_default().sessions.insert(session.number());
        }
        fits
    }

    pub(crate) fn unsubscribe(&self, session: &SessionCore, uri: &str) {
        let mut members = self.members.lock();
        session.unsubscribe(uri);
        members.unsubscribe(uri, |subscribers| subscribers.sessions.remove(&session.number()));
    }

    /// Returns the sessions that have sent `initialize`.
    pub(crate) fn sessions(&self) -> Vec<Arc<SessionHandle>> {
        let sessions: Vec<_> = self.members.lock().sessions.values().filter_map(Weak::upgrade).collect();
        sessions.into_iter().filter(|session| session.client().is_some()).collect()
    }

    pub(crate) fn listen(self: &Arc<Self>, filter: SubscriptionFilter) -> Listening {
        let pending = Arc::new(PendingChanges::default());
        let mut members = self.members.lock();
        members.last_listener += 1;
        let key = members.last_listener;
        for uri in filter.resource_subscriptions.iter().flatten() {
            members.by_uri.entry(uri.clone()).or_default().listeners.insert(key);
        }
        members.listeners.insert(key, ListenerEntry { filter, pending: pending.clone() });
        Listening { key, subscriptions: self.clone(), pending }
    }

    /// Sends a change to its subscribers without waiting for them. Returns the number of deliveries. An update of a
    /// resource is sent only to sessions for which `may_notify` returns `true`.
    pub(crate) fn announce(
        &self,
        change: &Change,
        may_notify: impl Fn(&Arc<SessionHandle>, &Arc<SessionCore>, &str) -> bool,
    ) -> usize {
        let (listeners, sessions) = self.subscribers(change);
        let mut deliveries = listeners.len();
        for listener in listeners {
            listener.add(change.clone());
        }
        for handle in sessions {
            let Some(session) = handle.existing_state::<SessionCore>().filter(|session| session.is_initialized())
            else {
                continue;
            };
            if !matches!(change, Change::Resource(uri) if !may_notify(&handle, &session, uri)) {
                deliveries += 1;
                notify_change(&session, change);
            }
        }
        deliveries
    }

    fn subscribers(&self, change: &Change) -> (Vec<Arc<PendingChanges>>, Vec<Arc<SessionHandle>>) {
        let members = self.members.lock();
        let Change::Resource(uri) = change else {
            let listeners = members.listeners.values().filter(|listener| change.concerns(&listener.filter));
            let listeners = listeners.map(|listener| listener.pending.clone()).collect();
            return (listeners, members.sessions.values().filter_map(Weak::upgrade).collect());
        };
        let Some(subscribers) = members.by_uri.get(uri) else { return Default::default() };
        let listeners = subscribers.listeners.iter().filter_map(|key| members.listeners.get(key));
        let sessions = subscribers.sessions.iter().filter_map(|serial| members.sessions.get(serial)?.upgrade());
        (listeners.map(|listener| listener.pending.clone()).collect(), sessions.collect())
    }
}

/// Notifies a session of a change without waiting. If its queue is full, the change is added to the session's backlog,
/// which stores each change once: a client that does not read cannot exhaust memory. Without a runtime, the backlog is
/// sent with the next change.
pub(crate) fn notify_change(session: &Arc<SessionCore>, change: &Change) {
    let is_sent = |notification| session.peer().try_notify_raw(notification);
    if !session.has_backlog() && change.notification().is_some_and(is_sent) {
        return;
    }
    let can_wait = tokio::runtime::Handle::try_current().is_ok();
    if session.add_to_backlog(change.clone(), can_wait) {
        let session = Arc::downgrade(session);
        tokio::spawn(send_backlog(session));
    }
}

async fn send_backlog(session: Weak<SessionCore>) {
    while let Some(session) = session.upgrade() {
        let Some(change) = session.next_in_backlog() else { return };
        let Some(notification) = change.notification() else { continue };
        if session.peer().notify_raw(notification).await.is_err() {
            session.return_to_backlog(change);
            return;
        }
    }
}

/// Sends a notification to a session without waiting. It is dropped if the queue is full.
pub(crate) fn try_notify(session: &SessionCore, notification: Notification) {
    let method = notification.method.clone();
    if !session.peer().try_notify_raw(notification) {
        tracing::debug!(session = session.number(), %method, "the queue of the session is full: the notification is dropped");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use turms_core::{BoxFuture, ClientRecord, Peer, PeerError, PeerTransport};
    use turms_proto::session::RequestOptions;
    use turms_proto::types::{ClientCapabilities, Implementation};
    use turms_proto::{MethodName, RawJson};

    use super::*;
    use crate::server::Server;

    /// A client that counts the notifications it receives.
    #[derive(Clone, Default)]
    struct CountingClient(Arc<AtomicUsize>);

    impl PeerTransport for CountingClient {
        fn notify(&self, _: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(std::future::ready(Ok(())))
        }

        fn try_notify(&self, _: Notification) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed);
            true
        }

        fn request(
            &self,
            _: MethodName,
            _: Option<RawJson>,
            _: RequestOptions,
        ) -> BoxFuture<'_, Result<RawJson, PeerError>> {
            Box::pin(std::future::ready(Err(PeerError::Closed)))
        }
    }

    #[test]
    fn an_update_of_a_resource_costs_one_delivery_for_each_subscriber() {
        const SESSIONS: usize = 10_000;
        let server = Server::new("s", "1").handle();
        let subscriptions = server.subscriptions();
        let client = Arc::new(ClientRecord::new(Implementation::new("c", "1"), ClientCapabilities::default()));
        let received = CountingClient::default();
        let open = |_| {
            let handle = SessionHandle::new(Peer::new(received.clone()));
            let session = Arc::new(SessionCore::new(handle.peer().clone(), handle.serial(), server.clone()));
            session.set_client(client.clone());
            handle.state(|| session).unwrap();
            subscriptions.join(&handle);
            handle
        };
        let handles: Vec<_> = (0..SESSIONS).map(open).collect();
        let session = |index: usize| handles[index].existing_state::<SessionCore>().unwrap();
        let checked = AtomicUsize::new(0);
        // Returns the number of sessions looked at, of deliveries, and of notifications that clients have received.
        let announce = |change: Change| {
            checked.store(0, Ordering::Relaxed);
            received.0.store(0, Ordering::Relaxed);
            let deliveries = subscriptions.announce(&change, |_, _, _| {
                checked.fetch_add(1, Ordering::Relaxed);
                true
            });
            (checked.load(Ordering::Relaxed), deliveries, received.0.load(Ordering::Relaxed))
        };
        let updated = || Change::Resource("memo://one".to_owned());
        assert_eq!(announce(updated()), (0, 0, 0));
        assert!(subscriptions.subscribe(&session(7), "memo://one".to_owned(), Subscriber::default()));
        assert!(subscriptions.subscribe(&session(8), "memo://other".to_owned(), Subscriber::default()));
        assert_eq!(announce(updated()), (1, 1, 1));
        assert_eq!(subscriptions.subscribers(&updated()).1.len(), 1, "only the subscriber is looked at");
        let listening =
            subscriptions.listen(SubscriptionFilter::new().resource_subscriptions(vec!["memo://one".into()]));
        assert_eq!(announce(updated()), (1, 2, 1));
        drop(listening);
        assert_eq!(announce(Change::Tools), (0, SESSIONS, SESSIONS));
        subscriptions.unsubscribe(&session(7), "memo://one");
        assert_eq!(announce(updated()), (0, 0, 0));
        drop(handles);
        assert_eq!(announce(Change::Resource("memo://other".to_owned())), (0, 0, 0));
        let members = subscriptions.members.lock();
        assert!(members.by_uri.is_empty() && members.sessions.is_empty(), "{members:?}");
    }

    #[test]
    fn a_session_that_has_ended_subscribes_to_nothing() {
        let server = Server::new("s", "1").handle();
        let handle = SessionHandle::new(Peer::disconnected());
        let session = Arc::new(SessionCore::new(handle.peer().clone(), handle.serial(), server.clone()));
        handle.state(|| session.clone()).unwrap();
        server.subscriptions().join(&handle);
        handle.close(turms_core::CloseReason::Deleted);
        // A call of the session may still be polled on another thread.
        assert!(server.subscriptions().subscribe(&session, "memo://one".to_owned(), Subscriber::default()));
        drop((handle, session));
        assert!(server.subscriptions().members.lock().by_uri.is_empty());
    }
}
