//! Who hears of changes: sessions of the older dialect, and listen requests of the newer.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use turms_proto::Notification;
use turms_proto::types::{
    PromptListChanged, ResourceListChanged, ResourceParams, ResourceUpdated, SubscriptionFilter, ToolListChanged,
};

use crate::session::Session;

/// Something that has changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
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
    news: Arc<News>,
}

/// Changes that somebody has still to hear of, each once however often it happened: never more than the filter names.
#[derive(Debug, Default)]
pub(crate) struct News {
    changes: Mutex<BTreeSet<Change>>,
    more: Notify,
}

impl News {
    fn add(&self, change: Change) {
        self.changes.lock().insert(change);
        self.more.notify_one();
    }

    fn take(&self) -> Option<Change> {
        self.changes.lock().pop_first()
    }
}

/// A listen request that is being served; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Listening {
    key: u64,
    hub: Arc<Hub>,
    news: Arc<News>,
}

impl Listening {
    /// The next change to tell.
    pub(crate) async fn next_change(&self) -> Change {
        loop {
            let more = self.news.more.notified();
            if let Some(change) = self.news.take() {
                return change;
            }
            more.await;
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.hub.members.lock().listeners.remove(&self.key);
    }
}

impl Hub {
    pub(crate) fn new() -> Self {
        Self { members: Mutex::default(), ending: watch::Sender::new(false) }
    }

    pub(crate) fn join(&self, session: &Arc<Session>) {
        self.members.lock().sessions.insert(session.serial(), Arc::downgrade(session));
    }

    pub(crate) fn leave(&self, session: &Session) {
        let sessions = &mut self.members.lock().sessions;
        sessions.remove(&session.serial());
        // Thousands may come and go.
        if sessions.capacity() > 256 && sessions.len() * 4 < sessions.capacity() {
            sessions.shrink_to_fit();
        }
    }

    pub(crate) fn sessions(&self) -> Vec<Arc<Session>> {
        let sessions: Vec<_> = self.members.lock().sessions.values().filter_map(Weak::upgrade).collect();
        sessions.into_iter().filter(|session| session.is_open()).collect()
    }

    pub(crate) fn listen(self: &Arc<Self>, filter: SubscriptionFilter) -> Listening {
        let news = Arc::new(News::default());
        let mut members = self.members.lock();
        members.last += 1;
        let key = members.last;
        members.listeners.insert(key, Listener { filter, news: news.clone() });
        Listening { key, hub: self.clone(), news }
    }

    /// Tells everybody whom it concerns, without waiting for any of them. Of a resource, only sessions that `may_tell` allows.
    pub(crate) fn announce(&self, change: &Change, may_tell: impl Fn(&Arc<Session>, &str) -> bool) {
        for listener in self.members.lock().listeners.values() {
            if change.concerns(&listener.filter) {
                listener.news.add(change.clone());
            }
        }
        for session in self.sessions() {
            let may_tell = || !matches!(change, Change::Resource(uri) if !may_tell(&session, uri));
            if change.concerns_session(&session) && may_tell() {
                tell_change(&session, change);
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

/// Tells a session of a change without waiting. If it has no room, the change waits for it: each once, however often it
/// happened, so that a client that does not read cannot fill our memory. If it cannot be told even so, or there is no runtime to
/// wait in, it is told with the next change.
pub(crate) fn tell_change(session: &Arc<Session>, change: &Change) {
    let told = |notification| session.peer().try_notify_raw(notification);
    if !session.has_backlog() && change.notification().is_some_and(told) {
        return;
    }
    let can_wait = tokio::runtime::Handle::try_current().is_ok();
    if session.keep_for_later(change.clone(), can_wait) {
        let session = Arc::downgrade(session);
        tokio::spawn(tell_backlog(session));
    }
}

async fn tell_backlog(session: Weak<Session>) {
    while let Some(session) = session.upgrade() {
        let Some(change) = session.take_kept() else { return };
        let Some(notification) = change.notification() else { continue };
        if session.peer().notify_raw(notification).await.is_err() {
            session.put_back(change);
            return;
        }
    }
}

/// Tells a session something without waiting; what a client that does not read has no room for is lost.
pub(crate) fn tell(session: &Session, notification: Notification) {
    let method = notification.method.clone();
    if !session.peer().try_notify_raw(notification) {
        tracing::debug!(session = session.serial(), %method, "a client that does not read misses a notification");
    }
}
