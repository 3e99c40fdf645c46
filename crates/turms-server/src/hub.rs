//! Who hears of changes: sessions of the older dialect, and listen requests of the newer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::{mpsc, watch};
use turms_proto::Notification;
use turms_proto::types::{
    PromptListChanged, ResourceListChanged, ResourceParams, ResourceUpdated, SubscriptionFilter, ToolListChanged,
};

use crate::session::{Session, lock};

/// Something that has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources or of templates.
    Resources,
    /// A resource.
    Resource(String),
}

impl Change {
    pub(crate) fn notification(&self) -> Option<Notification> {
        use turms_proto::types::EmptyParams;
        let empty = EmptyParams::new();
        let made = match self {
            Self::Tools => Notification::new::<ToolListChanged>(&empty),
            Self::Prompts => Notification::new::<PromptListChanged>(&empty),
            Self::Resources => Notification::new::<ResourceListChanged>(&empty),
            Self::Resource(uri) => Notification::new::<ResourceUpdated>(&ResourceParams::new(uri.as_str())),
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

    fn concerns_session(&self, session: &Session) -> bool {
        match self {
            Self::Resource(uri) => session.is_subscribed(uri),
            _ => session.is_open(),
        }
    }
}

/// Everybody who hears of changes, and whether the server is about to end.
#[derive(Debug)]
pub(crate) struct Hub {
    members: Mutex<Members>,
    ending: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Members {
    sessions: HashMap<u64, Weak<Session>>,
    listeners: HashMap<u64, Listener>,
    last: u64,
}

#[derive(Debug)]
struct Listener {
    filter: SubscriptionFilter,
    changes: mpsc::Sender<Change>,
}

/// A listen request that is being served; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Listening {
    key: u64,
    hub: Arc<Hub>,
    pub(crate) changes: mpsc::Receiver<Change>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        lock(&self.hub.members).listeners.remove(&self.key);
    }
}

impl Hub {
    /// How many changes may wait for a listener that does not read. What is beyond is dropped: the listener will see the
    /// newest state when it asks again for what it was told of.
    const BACKLOG: usize = 64;

    pub(crate) fn new() -> Self {
        Self { members: Mutex::default(), ending: watch::Sender::new(false) }
    }

    pub(crate) fn join(&self, session: &Arc<Session>) {
        lock(&self.members).sessions.insert(session.serial(), Arc::downgrade(session));
    }

    pub(crate) fn leave(&self, session: &Session) {
        lock(&self.members).sessions.remove(&session.serial());
    }

    pub(crate) fn sessions(&self) -> Vec<Arc<Session>> {
        lock(&self.members).sessions.values().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn listen(self: &Arc<Self>, filter: SubscriptionFilter) -> Listening {
        let (sender, changes) = mpsc::channel(Self::BACKLOG);
        let mut members = lock(&self.members);
        members.last += 1;
        let key = members.last;
        members.listeners.insert(key, Listener { filter, changes: sender });
        Listening { key, hub: self.clone(), changes }
    }

    /// Tells everybody whom it concerns, without waiting for any of them.
    pub(crate) fn announce(&self, change: &Change) {
        for listener in lock(&self.members).listeners.values() {
            if change.concerns(&listener.filter) {
                // A listener with a full backlog already knows that it has to look again.
                let _ = listener.changes.try_send(change.clone());
            }
        }
        for session in self.sessions() {
            if change.concerns_session(&session)
                && let Some(notification) = change.notification()
            {
                tell(&session, notification);
            }
        }
    }

    pub(crate) fn end(&self) {
        self.ending.send_replace(true);
    }

    pub(crate) fn ending(&self) -> watch::Receiver<bool> {
        self.ending.subscribe()
    }
}

/// Sends without waiting: one client that does not read must not keep the news from the others, nor fill our memory. A client
/// with a full queue has news enough to read, and sees the newest state when it asks again.
pub(crate) fn tell(session: &Session, notification: Notification) {
    let method = notification.method.clone();
    if !session.peer().try_notify_raw(notification) {
        tracing::debug!(session = session.serial(), %method, "a client that does not read misses a notification");
    }
}
