//! The state of a client session, in revisions with a handshake.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use turms_core::{ClientRecord, CloseReason, Peer, SessionState};
use turms_proto::types::{ClientCapabilities, Implementation};

use crate::catalog::Catalog;
use crate::handle::ServerHandle;
use crate::server::Settings;
use crate::subscriptions::Change;

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
    server: ServerHandle,
    client: OnceLock<Arc<ClientRecord>>,
    pub(crate) own: ArcSwapOption<Catalog>,
    /// Whether `on_open` and `on_close` have been called: one of the stages below.
    stage: AtomicU8,
    /// What few sessions have and idle ones need no room for.
    rest: Mutex<Option<Box<SessionRest>>>,
}

/// Before `notifications/initialized`.
const NEW: u8 = 0;
/// `on_open` has been called, and `on_close` will be.
const OPEN: u8 = 1;
/// Neither will be called any more.
const CLOSED: u8 = 2;

/// The part of a session that idle ones do not have.
#[derive(Default)]
struct SessionRest {
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
    pub(crate) fn new(peer: Peer, serial: u64, server: ServerHandle) -> Self {
        Self {
            serial,
            peer,
            server,
            client: OnceLock::new(),
            own: ArcSwapOption::empty(),
            stage: AtomicU8::new(NEW),
            rest: Mutex::default(),
        }
    }

    /// Looks at what is kept.
    fn look<T: Default>(&self, look: impl FnOnce(&SessionRest) -> T) -> T {
        self.rest.lock().as_deref().map(look).unwrap_or_default()
    }

    /// Changes what is kept.
    fn keep<T>(&self, change: impl FnOnce(&mut SessionRest) -> T) -> T {
        change(self.rest.lock().get_or_insert_default())
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
        let find = |kept: &SessionRest| kept.assigns.iter().find(|(kind, _)| *kind == TypeId::of::<T>()).cloned();
        let (_, value) = self.look(find)?;
        value.downcast().ok()
    }

    /// Stores what the client has sent in `initialize`.
    pub(crate) fn set_client(&self, client: Arc<ClientRecord>) {
        let _ = self.client.set(client);
    }

    /// Returns `true` if the client has sent `initialize`.
    pub(crate) fn is_initialized(&self) -> bool {
        self.client.get().is_some()
    }

    /// Calls `on_open` when the client has sent `notifications/initialized`, once, unless the session is closed already.
    pub(crate) fn open(self: &Arc<Self>, settings: &Settings) {
        if self.is_initialized()
            && self.stage.compare_exchange(NEW, OPEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            && let Some(hook) = &settings.on_open
        {
            hook(self);
        }
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

    /// Adds a subscription; returns `false` if there are too many.
    pub(crate) fn subscribe(&self, uri: String, subscriber: Option<Arc<turms_core::CallContext>>) -> bool {
        self.keep(|SessionRest { subscriptions, .. }| {
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

    /// The URIs that the client is subscribed to.
    pub(crate) fn subscribed_uris(&self) -> Vec<String> {
        self.look(|kept| kept.subscriptions.keys().cloned().collect())
    }
}

impl SessionState for Session {
    /// `on_close` follows each `on_open`. A handler that is being polled while its session is closed may still finish that poll.
    fn on_close(self: Arc<Self>, _: CloseReason) {
        self.server.subscriptions().leave(&self);
        if self.stage.swap(CLOSED, Ordering::AcqRel) == OPEN
            && let Some(settings) = self.server.settings()
            && let Some(hook) = &settings.on_close
        {
            // A hook that panics must not keep the connection from ending.
            let _ = catch_unwind(AssertUnwindSafe(|| hook(&self)));
        }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use turms_core::{CallContext, Service as _, SessionHandle};
    use turms_proto::session::Dialect;
    use turms_proto::types::{Initialize, InitializeParams};
    use turms_proto::{Notification, ProtocolVersion};

    use super::*;
    use crate::server::Server;

    /// Layers may keep the notification for a while, and HTTP does not end its handler with the session.
    #[tokio::test]
    async fn a_session_that_is_closed_is_not_opened() {
        let (opened, closed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let count = |counter: &Arc<AtomicUsize>| {
            let counter = counter.clone();
            move |_: &Arc<Session>| {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        };
        let router = Server::new("s", "1").on_open(count(&opened)).on_close(count(&closed)).build().unwrap();
        let handle = SessionHandle::new(Peer::nobody());
        let version = ProtocolVersion::V2025_11_25;
        let cx = |handle: &Arc<SessionHandle>| {
            CallContext::new(Dialect::Handshake(version), Peer::nobody()).with_session(handle.clone())
        };
        let client =
            InitializeParams::new(version.as_str(), ClientCapabilities::default(), Implementation::new("c", "1"));
        router.call(turms_core::Request::new::<Initialize>(client), cx(&handle)).await.unwrap();
        let initialized = router.notify(Notification::raw("notifications/initialized", None), cx(&handle));
        handle.close(CloseReason::Deleted);
        initialized.await;
        drop(handle);
        assert_eq!(opened.load(Ordering::Relaxed), closed.load(Ordering::Relaxed));
    }
}
