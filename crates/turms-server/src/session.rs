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
/// A handler that takes `Arc<Session>` fails for requests of 2026-07-28; take `Option<Arc<Session>>` to support all
/// clients. Store values that must outlast a request in [`State`](crate::State), keyed by
/// [`Principal`](crate::Principal) if they differ between callers: this works in every revision.
///
/// On a connection (stdio, a byte stream, WebSocket, HTTP+SSE), a second `initialize` ends the session and starts
/// another one. Running calls are cancelled with an error, subscriptions, log level and assigned values are removed,
/// and the peer of the earlier session is disconnected.
pub struct Session {
    serial: u64,
    peer: Peer,
    server: ServerHandle,
    client: OnceLock<Arc<ClientRecord>>,
    pub(crate) own: ArcSwapOption<Catalog>,
    /// One of `NEW`, `OPEN` and `CLOSED`: records whether `on_open` and `on_close` have been called.
    stage: AtomicU8,
    /// State that most sessions do not need. Boxed to keep idle sessions small.
    extras: Mutex<Option<Box<SessionExtras>>>,
}

/// Before `notifications/initialized`.
const NEW: u8 = 0;
/// `on_open` has been called, and `on_close` will be.
const OPEN: u8 = 1;
/// Neither callback will be called again.
const CLOSED: u8 = 2;

/// The state of a session that idle ones do not have.
#[derive(Default)]
struct SessionExtras {
    /// Subscribed resources, each with the context of the subscribing call if visibility depends on the caller.
    subscriptions: BTreeMap<String, Option<Arc<turms_core::CallContext>>>,
    /// Assigned values by type. Searched linearly, because there are few.
    assigns: Vec<(TypeId, Arc<dyn Any + Send + Sync>)>,
    /// The backlog: changes that did not fit into the client's queue.
    backlog: BTreeSet<Change>,
    is_sending_backlog: bool,
}

/// Maximum number of resource subscriptions of one client.
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
            extras: Mutex::default(),
        }
    }

    /// Reads the extras.
    fn read_extras<T: Default>(&self, look: impl FnOnce(&SessionExtras) -> T) -> T {
        self.extras.lock().as_deref().map(look).unwrap_or_default()
    }

    /// Modifies the extras.
    fn edit_extras<T>(&self, change: impl FnOnce(&mut SessionExtras) -> T) -> T {
        change(self.extras.lock().get_or_insert_default())
    }

    /// Returns the serial number of the session, unique in this process.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Returns the client's name and version, after `initialize`. Not verified: use it only for display and logs.
    #[must_use]
    pub fn client_info(&self) -> Option<&Implementation> {
        self.client.get().map(|client| &client.info)
    }

    /// Returns the client's capabilities, after `initialize`.
    #[must_use]
    pub fn client_capabilities(&self) -> Option<&ClientCapabilities> {
        self.client.get().map(|client| &client.capabilities)
    }

    /// Returns the client as a peer, to send requests and notifications.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Stores a value for the rest of the session, replacing one of the same type.
    pub fn assign<T: Send + Sync + 'static>(&self, value: T) {
        let value = Arc::new(value);
        // The replaced value is dropped after the lock is released, because its `drop` may run any code.
        let _before = self.edit_extras(|extras| {
            let before = extras.assigns.iter().position(|(kind, _)| *kind == TypeId::of::<T>());
            let before = before.map(|place| extras.assigns.swap_remove(place));
            extras.assigns.push((TypeId::of::<T>(), value));
            before
        });
    }

    /// Returns the stored value of a type.
    #[must_use]
    pub fn assigned<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let find = |extras: &SessionExtras| extras.assigns.iter().find(|(kind, _)| *kind == TypeId::of::<T>()).cloned();
        let (_, value) = self.read_extras(find)?;
        value.downcast().ok()
    }

    /// Stores the client info and capabilities from `initialize`.
    pub(crate) fn set_client(&self, client: Arc<ClientRecord>) {
        let _ = self.client.set(client);
    }

    /// Returns `true` if the client has sent `initialize`.
    pub(crate) fn is_initialized(&self) -> bool {
        self.client.get().is_some()
    }

    /// Calls `on_open` once, after `notifications/initialized`, unless the session is closed.
    pub(crate) fn open(self: &Arc<Self>, settings: &Settings) {
        if self.is_initialized()
            && self.stage.compare_exchange(NEW, OPEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            && let Some(hook) = &settings.on_open
        {
            hook(self);
        }
    }

    pub(crate) fn has_backlog(&self) -> bool {
        self.read_extras(|extras| extras.is_sending_backlog || !extras.backlog.is_empty())
    }

    /// Adds a change to the backlog. Returns `true` if the caller must start sending the backlog. `can_send` is `true`
    /// if it can.
    pub(crate) fn add_to_backlog(&self, change: Change, can_send: bool) -> bool {
        self.edit_extras(|extras| {
            extras.backlog.insert(change);
            can_send && !std::mem::replace(&mut extras.is_sending_backlog, true)
        })
    }

    /// Returns a change to the backlog after a failure, and stops sending.
    pub(crate) fn return_to_backlog(&self, change: Change) {
        self.edit_extras(|extras| {
            extras.backlog.insert(change);
            extras.is_sending_backlog = false;
        });
    }

    /// Takes the next change from the backlog. After `None`, sending stops and must be started again.
    pub(crate) fn next_in_backlog(&self) -> Option<Change> {
        self.edit_extras(|extras| {
            let change = extras.backlog.pop_first();
            extras.is_sending_backlog = change.is_some();
            change
        })
    }

    /// Adds a subscription. Returns `false` if there are too many.
    pub(crate) fn subscribe(&self, uri: String, subscriber: Option<Arc<turms_core::CallContext>>) -> bool {
        self.edit_extras(|SessionExtras { subscriptions, .. }| {
            let fits = subscriptions.len() < MAX_SUBSCRIPTIONS || subscriptions.contains_key(&uri);
            if fits {
                subscriptions.insert(uri, subscriber);
            }
            fits
        })
    }

    /// Returns the context of the call that subscribed to a resource, if visibility depends on the caller.
    pub(crate) fn subscriber(&self, uri: &str) -> Option<Arc<turms_core::CallContext>> {
        self.read_extras(|extras| extras.subscriptions.get(uri).cloned().flatten())
    }

    pub(crate) fn unsubscribe(&self, uri: &str) {
        self.edit_extras(|extras| extras.subscriptions.remove(uri));
    }

    /// Returns the URIs that the client is subscribed to.
    pub(crate) fn subscribed_uris(&self) -> Vec<String> {
        self.read_extras(|extras| extras.subscriptions.keys().cloned().collect())
    }
}

impl SessionState for Session {
    /// Calls `on_close` if `on_open` was called. A handler that is being polled meanwhile may finish that poll.
    fn on_close(self: Arc<Self>, _: CloseReason) {
        self.server.subscriptions().leave(&self);
        if self.stage.swap(CLOSED, Ordering::AcqRel) == OPEN
            && let Some(settings) = self.server.settings()
            && let Some(hook) = &settings.on_close
        {
            // A panic in the callback must not prevent the connection from closing.
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

    /// Layers may delay the notification, and over HTTP its handler does not end with the session.
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
