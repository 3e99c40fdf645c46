//! The state of a client session, in revisions with a handshake.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use turms_core::{ClientRecord, CloseReason, Peer, Principal, SessionState};
use turms_proto::ErrorObject;
use turms_proto::types::{ClientCapabilities, Implementation};

use crate::catalog::Catalog;
use crate::context::Context;
use crate::handle::{RegistrationError, ServerHandle, require_new, usable_prompt, usable_resource};
use crate::prompt::IntoPrompt;
use crate::resource::IntoResource;
use crate::router;
use crate::server::Settings;
use crate::subscriptions::{Change, ListKind, notify_change};
use crate::tool::IntoTool;

/// A client session after `initialize`. There is none in 2026-07-28.
///
/// Cheap to clone. A handler that takes `Session` fails for requests of 2026-07-28; take `Option<Session>` to support
/// all clients. Store values that must outlast a request in [`State`](crate::State), keyed by
/// [`Principal`](crate::Principal) if they differ between callers: this works in every revision.
///
/// On a connection (stdio, a byte stream, WebSocket, HTTP+SSE), a second `initialize` ends the session and starts
/// another one. Running calls are cancelled with an error, subscriptions, log level and stored values are removed,
/// and the peer of the earlier session is disconnected.
#[derive(Clone)]
pub struct Session(Arc<SessionCore>);

/// The state of a session, which the transport's session handle owns.
pub(crate) struct SessionCore {
    number: u64,
    peer: Peer,
    server: ServerHandle,
    client: OnceLock<Arc<ClientRecord>>,
    /// The session's own tools, prompts and resources, which take precedence over those of the server.
    pub(crate) own: ArcSwapOption<Catalog>,
    /// One of `NEW`, `REFUSED`, `STARTED` and `CLOSED`.
    stage: AtomicU8,
    /// State that most sessions do not need. Boxed to keep idle sessions small.
    extras: Mutex<Option<Box<SessionExtras>>>,
}

/// Before `initialize`.
const NEW: u8 = 0;
/// All `on_session_start` callbacks have accepted the session, and the `on_session_end` callbacks will be called.
const STARTED: u8 = 1;
/// No callback will be called again.
const CLOSED: u8 = 2;
/// An `on_session_start` callback has refused the session or panicked, or is still running: requests are rejected
/// until all have accepted the session.
const REFUSED: u8 = 3;

/// The state of a session that idle ones do not have.
#[derive(Default)]
struct SessionExtras {
    /// Subscribed resources, each with the context of the subscribing call if visibility depends on the caller.
    subscriptions: BTreeMap<String, Option<Arc<turms_core::CallContext>>>,
    /// The principal of the latest request or stream, if there are subscriptions: tokens of one session may have different scopes.
    caller: Option<Principal>,
    /// Stored values by type. Searched linearly, because there are few.
    values: Vec<(TypeId, Arc<dyn Any + Send + Sync>)>,
    /// The backlog: changes that did not fit into the client's queue.
    backlog: BTreeSet<Change>,
    is_sending_backlog: bool,
}

/// The caller that receives notifications of a subscription.
#[derive(Default)]
pub(crate) struct Subscriber {
    /// The context of the subscribing call, if visibility depends on the caller.
    pub(crate) context: Option<Arc<turms_core::CallContext>>,
    /// The principal, if there is one.
    pub(crate) principal: Option<Principal>,
}

/// Maximum number of resource subscriptions of one client.
pub(crate) const MAX_SUBSCRIPTIONS: usize = 1024;

impl Session {
    pub(crate) fn new(core: Arc<SessionCore>) -> Self {
        Self(core)
    }

    pub(crate) fn core(&self) -> &Arc<SessionCore> {
        &self.0
    }

    /// Returns the number of the session, unique in this process. Use it for logs.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// Returns the client's name and version, after `initialize`. Not verified: use it only for display and logs.
    #[must_use]
    pub fn client_info(&self) -> Option<&Implementation> {
        self.0.client_info()
    }

    /// Returns the client's capabilities, after `initialize`.
    #[must_use]
    pub fn client_capabilities(&self) -> Option<&ClientCapabilities> {
        self.0.client.get().map(|client| &client.capabilities)
    }

    /// Returns the client as a peer, to send requests and notifications.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.0.peer
    }

    /// Stores a value for the rest of the session. Returns the replaced value of the same type, if there was one.
    #[doc(alias = "assign")]
    #[doc(alias = "state")]
    pub fn insert<T: Send + Sync + 'static>(&self, value: T) -> Option<Arc<T>> {
        let value = Arc::new(value);
        // The replaced value is returned after the lock is released, because its `drop` may run any code.
        let before = self.0.edit_extras(|extras| {
            let before = extras.take::<T>();
            extras.values.push((TypeId::of::<T>(), value));
            before
        });
        before?.downcast().ok()
    }

    /// Returns the stored value of a type.
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0.read_extras(SessionExtras::find::<T>)?.downcast().ok()
    }

    /// Returns the stored value of a type. Stores the value of `init` first if there is none. If several calls do this at
    /// once, all of them receive the value that was stored first.
    pub fn get_or_insert_with<T: Send + Sync + 'static>(&self, init: impl FnOnce() -> T) -> Arc<T> {
        if let Some(value) = self.get() {
            return value;
        }
        // Created without the lock, because `init` may run any code.
        let value = Arc::new(init());
        let stored = self.0.edit_extras(|extras| {
            let stored = extras.find::<T>();
            if stored.is_none() {
                extras.values.push((TypeId::of::<T>(), value.clone()));
            }
            stored
        });
        stored.and_then(|stored| stored.downcast().ok()).unwrap_or(value)
    }

    /// Removes and returns the stored value of a type.
    pub fn remove<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0.edit_extras(SessionExtras::take::<T>)?.downcast().ok()
    }

    /// Adds a tool for this session only and notifies the client. It takes precedence over the server's tool with the
    /// same name.
    ///
    /// # Errors
    /// If the session has its own tool with the same name, or the tool is invalid.
    pub fn add_tool<M>(&self, tool: impl IntoTool<M>) -> Result<(), RegistrationError> {
        let tool = self.0.server.usable_tool(tool)?;
        let is_new = self.change(ListKind::Tools, |own| own.tools.add(tool.name(), &tool));
        require_new(is_new, "tool", tool.name())
    }

    /// Adds a tool for this session only, or replaces the session's own tool with the same name.
    ///
    /// # Errors
    /// If the tool is invalid.
    pub fn replace_tool<M>(&self, tool: impl IntoTool<M>) -> Result<(), RegistrationError> {
        let tool = self.0.server.usable_tool(tool)?;
        self.change(ListKind::Tools, |own| {
            own.tools.insert(tool.name().to_owned(), tool.clone());
            true
        });
        Ok(())
    }

    /// Removes the session's own tool. Returns `false` if it has none with the name.
    #[expect(clippy::must_use_candidate, reason = "most callers ignore the result")]
    pub fn remove_tool(&self, name: &str) -> bool {
        self.change(ListKind::Tools, |own| own.tools.remove(name))
    }

    /// Adds a prompt for this session only and notifies the client. It takes precedence over the server's prompt with
    /// the same name.
    ///
    /// # Errors
    /// If the session has its own prompt with the same name, or the prompt is invalid.
    pub fn add_prompt<M>(&self, prompt: impl IntoPrompt<M>) -> Result<(), RegistrationError> {
        let prompt = usable_prompt(prompt)?;
        let is_new = self.change(ListKind::Prompts, |own| own.add_prompt(&prompt));
        require_new(is_new, "prompt", prompt.name())
    }

    /// Adds a prompt for this session only, or replaces the session's own prompt with the same name.
    ///
    /// # Errors
    /// If the prompt is invalid.
    pub fn replace_prompt<M>(&self, prompt: impl IntoPrompt<M>) -> Result<(), RegistrationError> {
        let prompt = usable_prompt(prompt)?;
        self.change(ListKind::Prompts, |own| {
            own.insert_prompt(prompt.clone());
            true
        });
        Ok(())
    }

    /// Removes the session's own prompt. Returns `false` if it has none with the name.
    #[expect(clippy::must_use_candidate, reason = "most callers ignore the result")]
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.change(ListKind::Prompts, |own| own.prompts.remove(name))
    }

    /// Adds a resource or a resource template for this session only and notifies the client. It takes precedence over
    /// the server's with the same URI.
    ///
    /// # Errors
    /// If the session has its own one with the same URI, or it is invalid.
    pub fn add_resource<M>(&self, resource: impl IntoResource<M>) -> Result<(), RegistrationError> {
        let resource = usable_resource(resource)?;
        let is_new = self.change(ListKind::Resources, |own| own.add_resource(&resource));
        require_new(is_new, "resource", resource.uri())
    }

    /// Adds a resource or a resource template for this session only, or replaces the session's own one with the same
    /// URI.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn replace_resource<M>(&self, resource: impl IntoResource<M>) -> Result<(), RegistrationError> {
        let resource = usable_resource(resource)?;
        self.change(ListKind::Resources, |own| {
            own.insert_resource(resource.clone());
            true
        });
        Ok(())
    }

    /// Removes the session's own resource or resource template. Returns `false` if it has none with the URI.
    #[expect(clippy::must_use_candidate, reason = "most callers ignore the result")]
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.change(ListKind::Resources, |own| own.remove_resource(uri))
    }

    /// Replaces the session's own catalog, and notifies the client if `edit` returns `true`.
    fn change(&self, list: ListKind, edit: impl Fn(&mut Catalog) -> bool) -> bool {
        let mut changed = false;
        self.0.own.rcu(|own| {
            let mut next = own.as_ref().map(|own| own.changed()).unwrap_or_default();
            changed = edit(&mut next);
            Some(Arc::new(next))
        });
        if changed {
            notify_change(&self.0, &list.into());
        }
        changed
    }
}

impl SessionExtras {
    fn find<T: 'static>(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        let stored = self.values.iter().find(|(kind, _)| *kind == TypeId::of::<T>());
        stored.map(|(_, value)| value.clone())
    }

    fn take<T: 'static>(&mut self) -> Option<Arc<dyn Any + Send + Sync>> {
        let place = self.values.iter().position(|(kind, _)| *kind == TypeId::of::<T>())?;
        Some(self.values.swap_remove(place).1)
    }
}

impl SessionCore {
    pub(crate) fn new(peer: Peer, number: u64, server: ServerHandle) -> Self {
        Self {
            number,
            peer,
            server,
            client: OnceLock::new(),
            own: ArcSwapOption::empty(),
            stage: AtomicU8::new(NEW),
            extras: Mutex::default(),
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    fn client_info(&self) -> Option<&Implementation> {
        self.client.get().map(|client| &client.info)
    }

    /// Reads the extras.
    fn read_extras<T: Default>(&self, look: impl FnOnce(&SessionExtras) -> T) -> T {
        self.extras.lock().as_deref().map(look).unwrap_or_default()
    }

    /// Modifies the extras.
    fn edit_extras<T>(&self, change: impl FnOnce(&mut SessionExtras) -> T) -> T {
        change(self.extras.lock().get_or_insert_default())
    }

    /// Stores the client info and capabilities from `initialize`.
    pub(crate) fn set_client(&self, client: Arc<ClientRecord>) {
        let _ = self.client.set(client);
    }

    /// Returns `true` if the client has sent `initialize`.
    pub(crate) fn is_initialized(&self) -> bool {
        self.client.get().is_some()
    }

    /// Calls the `on_session_start` callbacks, once. Returns the error of the one that refuses the session.
    pub(crate) async fn start(self: &Arc<Self>, settings: &Settings, context: &Context) -> Result<(), ErrorObject> {
        // Refused unless all callbacks accept it, so that one that panics refuses it, too.
        match self.stage.compare_exchange(NEW, REFUSED, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => {}
            // The client has tried again. The record of a session's client is never replaced, so the first one counts.
            Err(REFUSED) => return Err(router::refused_session()),
            Err(_) => return Ok(()),
        }
        for hook in &settings.on_session_start {
            if let Err(error) = hook(Session(self.clone()), context.clone()).await {
                self.server.subscriptions().leave(self);
                return Err(error);
            }
        }
        // Closed while the callbacks ran.
        if self.stage.compare_exchange(REFUSED, STARTED, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            let reason = context.call().session().and_then(|session| session.closed());
            self.call_end_hooks(settings, reason.unwrap_or(CloseReason::Lost));
        }
        Ok(())
    }

    /// Returns `true` if a callback has refused the session, or has not accepted it yet.
    pub(crate) fn is_refused(&self) -> bool {
        self.stage.load(Ordering::Acquire) == REFUSED
    }

    fn call_end_hooks(self: &Arc<Self>, settings: &Settings, reason: CloseReason) {
        for hook in &settings.on_session_end {
            // A panic in a callback must prevent neither the others nor the end of the connection.
            let _ = catch_unwind(AssertUnwindSafe(|| hook(Session(self.clone()), reason)));
        }
    }

    pub(crate) fn has_backlog(&self) -> bool {
        self.read_extras(|extras| extras.is_sending_backlog || !extras.backlog.is_empty())
    }

    /// Adds a change to the backlog. Returns `true` if the caller must start sending the backlog, which happens only if
    /// `can_send` is `true` and the backlog is not being sent already.
    pub(crate) fn add_to_backlog(&self, change: Change, can_send: bool) -> bool {
        self.edit_extras(|extras| {
            extras.backlog.insert(change);
            can_send && !std::mem::replace(&mut extras.is_sending_backlog, true)
        })
    }

    /// Puts a change back into the backlog that could not be sent, and stops sending.
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
    pub(crate) fn subscribe(&self, uri: String, subscriber: Subscriber) -> bool {
        self.edit_extras(|SessionExtras { subscriptions, caller, .. }| {
            let fits = subscriptions.len() < MAX_SUBSCRIPTIONS || subscriptions.contains_key(&uri);
            if fits {
                subscriptions.insert(uri, subscriber.context);
                *caller = subscriber.principal.or_else(|| caller.take());
            }
            fits
        })
    }

    /// Returns the subscriber of a resource, with the principal of the latest request or stream.
    pub(crate) fn subscriber(&self, uri: &str) -> Subscriber {
        self.read_extras(|extras| Subscriber {
            context: extras.subscriptions.get(uri).cloned().flatten(),
            principal: extras.caller.clone(),
        })
    }

    pub(crate) fn unsubscribe(&self, uri: &str) {
        self.edit_extras(|extras| {
            extras.subscriptions.remove(uri);
            extras.caller.take_if(|_| extras.subscriptions.is_empty());
        });
    }

    /// Returns the URIs that the client is subscribed to.
    pub(crate) fn subscribed_uris(&self) -> Vec<String> {
        self.read_extras(|extras| extras.subscriptions.keys().cloned().collect())
    }
}

impl SessionState for SessionCore {
    fn on_principal(&self, principal: &Principal) {
        // Kept only if a later notification depends on it, because most sessions have no subscriptions.
        if let Some(extras) = self.extras.lock().as_deref_mut().filter(|extras| !extras.subscriptions.is_empty()) {
            extras.caller = Some(principal.clone());
        }
    }

    /// Calls the `on_session_end` callbacks if the session was started. A handler that is being polled meanwhile may
    /// finish that poll.
    fn on_close(self: Arc<Self>, reason: CloseReason) {
        self.server.subscriptions().leave(&self);
        if self.stage.swap(CLOSED, Ordering::AcqRel) == STARTED
            && let Some(settings) = self.server.settings()
        {
            self.call_end_hooks(&settings, reason);
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("number", &self.0.number)
            .field("client", &self.client_info())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use turms_core::{CallContext, Service as _, SessionHandle};
    use turms_proto::ProtocolVersion;
    use turms_proto::session::Dialect;
    use turms_proto::types::{Initialize, InitializeParams};

    use super::*;
    use crate::server::Server;

    /// Over HTTP, a handler does not end with the session.
    #[tokio::test]
    async fn a_session_that_is_closed_while_it_starts_has_an_end() {
        let (ended, gate) = (Arc::new(Mutex::new(Vec::new())), Arc::new(tokio::sync::Semaphore::new(0)));
        let (reasons, waiting) = (ended.clone(), gate.clone());
        let router = Server::new("s", "1")
            .on_session_start(move |_, _| {
                let waiting = waiting.clone();
                async move {
                    waiting.acquire().await.unwrap().forget();
                    Ok(())
                }
            })
            .on_session_end(move |_, reason| reasons.lock().push(reason))
            .build()
            .unwrap();
        let handle = SessionHandle::new(Peer::disconnected());
        let version = ProtocolVersion::V2025_11_25;
        let cx = CallContext::new(Dialect::Handshake(version), Peer::disconnected()).with_session(handle.clone());
        let client =
            InitializeParams::new(version.as_str(), ClientCapabilities::default(), Implementation::new("c", "1"));
        let starting = tokio::spawn(router.call(turms_core::Request::new::<Initialize>(client), cx));
        tokio::task::yield_now().await;
        handle.close(CloseReason::Deleted);
        assert_eq!(*ended.lock(), []);
        gate.add_permits(1);
        starting.await.unwrap().unwrap();
        assert_eq!(*ended.lock(), [CloseReason::Deleted]);
    }
}
