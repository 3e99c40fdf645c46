//! What is remembered of a client between its requests, in the older dialect where connections are conversations.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use turms_core::Peer;
use turms_proto::types::{ClientCapabilities, Implementation, InitializeParams, LoggingLevel};

use crate::catalog::Catalog;
use crate::hub::Change;

/// A client session after `initialize`. There is none in 2026-07-28.
///
/// A handler that takes `Arc<Session>` fails for requests of 2026-07-28; take `Option<Arc<Session>>` to serve all clients. Values that
/// have to last between requests of every revision belong into [`State`](crate::State), by [`Principal`](crate::Principal) if they
/// differ by caller.
///
/// On a connection (stdio, a byte stream, WebSocket, HTTP+SSE), a second `initialize` ends the session and begins another
/// one: running calls are cancelled and answered with an error, subscriptions, log level and assigned values are gone, and the
/// peer of the earlier session reaches nothing any more.
pub struct Session {
    serial: u64,
    peer: Peer,
    client: OnceLock<Arc<Client>>,
    log_level: AtomicU8,
    pub(crate) own: ArcSwapOption<Catalog>,
    /// Whether `initialize` has come.
    begun: AtomicBool,
    announced: AtomicBool,
    /// What few sessions have and idle ones need no room for.
    kept: Mutex<Option<Box<Kept>>>,
}

/// What a client has said of itself.
#[derive(Debug, PartialEq)]
struct Client {
    info: Implementation,
    capabilities: ClientCapabilities,
}

impl Client {
    /// The same as another session has, if one of the last few different clients has said the same. Most sessions are of
    /// the same few programs, and what they say is the larger part of an idle session.
    fn shared(self) -> Arc<Self> {
        const FEW: usize = 16;
        static RECENT: Mutex<Vec<Weak<Client>>> = Mutex::new(Vec::new());
        let mut recent = RECENT.lock();
        if let Some(same) = recent.iter().filter_map(Weak::upgrade).find(|other| **other == self) {
            return same;
        }
        let client = Arc::new(self);
        recent.retain(|other| other.strong_count() > 0);
        if recent.len() == FEW {
            recent.remove(0);
        }
        recent.push(Arc::downgrade(&client));
        client
    }
}

/// What is kept for a session.
#[derive(Default)]
struct Kept {
    /// The resources subscribed to, each with the call that did, if visibility depends on the caller.
    subscriptions: BTreeMap<String, Option<Arc<turms_core::CallContext>>>,
    /// Few enough to be looked through.
    assigns: Vec<(TypeId, Arc<dyn Any + Send + Sync>)>,
    /// Changes that the client had no room for when they happened, and whether somebody tells them.
    changes: BTreeSet<Change>,
    are_changes_told: bool,
}

/// How many resources one client may watch at once.
pub(crate) const MAX_SUBSCRIPTIONS: usize = 1024;

impl Session {
    pub(crate) fn new(peer: Peer) -> Self {
        static SERIALS: AtomicU64 = AtomicU64::new(1);
        Self {
            serial: SERIALS.fetch_add(1, Ordering::Relaxed),
            peer,
            client: OnceLock::new(),
            log_level: AtomicU8::new(rank(LoggingLevel::Info)),
            own: ArcSwapOption::empty(),
            begun: AtomicBool::new(false),
            announced: AtomicBool::new(false),
            kept: Mutex::default(),
        }
    }

    /// Looks at what is kept.
    fn look<T: Default>(&self, look: impl FnOnce(&Kept) -> T) -> T {
        self.kept.lock().as_deref().map(look).unwrap_or_default()
    }

    /// Changes what is kept.
    fn keep<T>(&self, change: impl FnOnce(&mut Kept) -> T) -> T {
        change(self.kept.lock().get_or_insert_default())
    }

    /// A number that no other session of this process has.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Who the client says it is, once it has shaken hands.
    #[must_use]
    pub fn client_info(&self) -> Option<&Implementation> {
        self.client.get().map(|client| &client.info)
    }

    /// What the client can do, once it has shaken hands.
    #[must_use]
    pub fn client_capabilities(&self) -> Option<&ClientCapabilities> {
        self.client.get().map(|client| &client.capabilities)
    }

    /// The client.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Keeps a value for the rest of the session, in place of one of the same type.
    pub fn assign<T: Send + Sync + 'static>(&self, value: T) {
        let value = Arc::new(value);
        // What was there before may do anything when it goes, so it goes when nobody waits for the others.
        let _before = self.keep(|kept| {
            let before = kept.assigns.iter().position(|(kind, _)| *kind == TypeId::of::<T>());
            let before = before.map(|place| kept.assigns.swap_remove(place));
            kept.assigns.push((TypeId::of::<T>(), value));
            before
        });
    }

    /// A value that was kept.
    #[must_use]
    pub fn assigned<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let find = |kept: &Kept| kept.assigns.iter().find(|(kind, _)| *kind == TypeId::of::<T>()).cloned();
        let (_, value) = self.look(find)?;
        value.downcast().ok()
    }

    /// Returns `true` for the first `initialize`. A further one begins another session.
    pub(crate) fn begin(&self) -> bool {
        !self.begun.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn shake_hands(&self, client: InitializeParams) {
        // There is one handshake in a session.
        let _ = self.client.set(Client { info: client.client_info, capabilities: client.capabilities }.shared());
    }

    pub(crate) fn is_open(&self) -> bool {
        self.client.get().is_some()
    }

    pub(crate) fn wants_log(&self, level: LoggingLevel) -> bool {
        rank(level) >= self.log_level.load(Ordering::Relaxed)
    }

    pub(crate) fn set_log_level(&self, level: LoggingLevel) {
        self.log_level.store(rank(level), Ordering::Relaxed);
    }

    /// Whether the handshake is done and nobody has been told yet; true once.
    pub(crate) fn is_announced_now(&self) -> bool {
        self.is_open() && !self.announced.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn has_backlog(&self) -> bool {
        self.look(|kept| kept.are_changes_told || !kept.changes.is_empty())
    }

    /// Keeps a change; true if the caller has to begin telling, which it can if `can_tell`.
    pub(crate) fn keep_for_later(&self, change: Change, can_tell: bool) -> bool {
        self.keep(|kept| {
            kept.changes.insert(change);
            can_tell && !std::mem::replace(&mut kept.are_changes_told, true)
        })
    }

    /// Keeps a change that could not be told, and ends telling.
    pub(crate) fn put_back(&self, change: Change) {
        self.keep(|kept| {
            kept.changes.insert(change);
            kept.are_changes_told = false;
        });
    }

    /// The next change that was kept; after `None` somebody has to begin anew.
    pub(crate) fn take_kept(&self) -> Option<Change> {
        self.keep(|kept| {
            let change = kept.changes.pop_first();
            kept.are_changes_told = change.is_some();
            change
        })
    }

    /// False if there are too many.
    pub(crate) fn subscribe(&self, uri: String, subscriber: Option<Arc<turms_core::CallContext>>) -> bool {
        self.keep(|Kept { subscriptions, .. }| {
            let fits = subscriptions.len() < MAX_SUBSCRIPTIONS || subscriptions.contains_key(&uri);
            if fits {
                subscriptions.insert(uri, subscriber);
            }
            fits
        })
    }

    /// The call that subscribed to a resource, if visibility depends on the caller.
    pub(crate) fn subscriber(&self, uri: &str) -> Option<Arc<turms_core::CallContext>> {
        self.look(|kept| kept.subscriptions.get(uri).cloned().flatten())
    }

    pub(crate) fn unsubscribe(&self, uri: &str) {
        self.keep(|kept| kept.subscriptions.remove(uri));
    }

    pub(crate) fn is_subscribed(&self, uri: &str) -> bool {
        self.look(|kept| kept.subscriptions.contains_key(uri))
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("serial", &self.serial)
            .field("client", &self.client_info())
            .finish_non_exhaustive()
    }
}

fn rank(level: LoggingLevel) -> u8 {
    level as u8
}
