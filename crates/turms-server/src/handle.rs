//! The handle to a running server.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde::Serialize;
use turms_core::{CallContext, ClientRecord, Principal, SessionHandle, Shutdown};
use turms_proto::types::{LogMessage, LoggingLevel, LoggingMessageNotification};
use turms_proto::{Notification, RawJson};
use turms_schema::DEFAULT_MAX_VALIDATION_STEPS;

use crate::catalog::Catalog;
use crate::context::Context;
use crate::prompt::{IntoPrompt, Prompt};
use crate::resource::{IntoResource, Resource};
use crate::router;
use crate::server::Settings;
use crate::session::{Session, SessionCore, Subscriber};
use crate::subscriptions::{Change, ListKind, Subscriptions, try_notify};
use crate::tool::{IntoTool, Tool};

/// A handle to a running server, for adding and removing items, notifications and shutdown from any task. Clones share
/// the same server.
#[derive(Clone)]
pub struct ServerHandle(Arc<ServerCore>);

struct ServerCore {
    catalog: ArcSwap<Catalog>,
    subscriptions: Arc<Subscriptions>,
    shutdown: Shutdown,
    /// Set once a tool that runs as a task has been registered. Never reset, because tasks outlast their tools.
    has_tasks: AtomicBool,
    /// The records of the most recent distinct clients. Sessions share them, because most clients are the same few
    /// programs and the record is the largest part of an idle session.
    clients: Mutex<Vec<Weak<ClientRecord>>>,
    states: ArcSwap<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    /// Set when the server is built. Weak, because the settings may own this handle.
    settings: OnceLock<Weak<Settings>>,
    max_validation_steps: AtomicU64,
}

impl ServerHandle {
    pub(crate) fn new() -> Self {
        Self(Arc::new(ServerCore {
            catalog: ArcSwap::default(),
            subscriptions: Arc::default(),
            shutdown: Shutdown::new(),
            has_tasks: AtomicBool::new(false),
            clients: Mutex::default(),
            states: ArcSwap::default(),
            settings: OnceLock::new(),
            max_validation_steps: AtomicU64::new(DEFAULT_MAX_VALIDATION_STEPS),
        }))
    }

    /// Returns the limit of [`Server::max_validation_steps`](crate::Server::max_validation_steps).
    pub(crate) fn max_validation_steps(&self) -> u64 {
        self.0.max_validation_steps.load(Ordering::Relaxed)
    }

    pub(crate) fn set_max_validation_steps(&self, steps: u64) {
        self.0.max_validation_steps.store(steps, Ordering::Relaxed);
    }

    /// Adds a tool and notifies clients.
    ///
    /// # Errors
    /// If there is a tool with the same name, or the tool is invalid, such as one with an invalid schema.
    pub fn add_tool<M>(&self, tool: impl IntoTool<M>) -> Result<(), RegistrationError> {
        let tool = self.usable_tool(tool)?;
        let is_new = self.change_if(&Change::Tools, |catalog| catalog.tools.add(tool.name(), &tool));
        require_new(is_new, "tool", tool.name())
    }

    /// Adds or replaces a tool and notifies clients.
    ///
    /// # Errors
    /// If the tool is invalid, such as one with an invalid schema.
    pub fn replace_tool<M>(&self, tool: impl IntoTool<M>) -> Result<(), RegistrationError> {
        let tool = self.usable_tool(tool)?;
        self.change(&Change::Tools, |catalog| catalog.tools.insert(tool.name().to_owned(), tool.clone()));
        Ok(())
    }

    /// Removes a tool. Returns `false` if there is none with the name.
    #[expect(clippy::must_use_candidate, reason = "most callers ignore the result")]
    pub fn remove_tool(&self, name: &str) -> bool {
        self.change_if(&Change::Tools, |catalog| catalog.tools.remove(name))
    }

    /// Adds a prompt and notifies clients.
    ///
    /// # Errors
    /// If there is a prompt with the same name, or the prompt is invalid, such as one with an invalid schema.
    pub fn add_prompt<M>(&self, prompt: impl IntoPrompt<M>) -> Result<(), RegistrationError> {
        let prompt = usable_prompt(prompt)?;
        let is_new = self.change_if(&Change::Prompts, |catalog| catalog.add_prompt(&prompt));
        require_new(is_new, "prompt", prompt.name())
    }

    /// Adds or replaces a prompt and notifies clients.
    ///
    /// # Errors
    /// If the prompt is invalid, such as one with an invalid schema.
    pub fn replace_prompt<M>(&self, prompt: impl IntoPrompt<M>) -> Result<(), RegistrationError> {
        let prompt = usable_prompt(prompt)?;
        self.change(&Change::Prompts, |catalog| catalog.insert_prompt(prompt.clone()));
        Ok(())
    }

    /// Removes a prompt. Returns `false` if there is none with the name.
    #[expect(clippy::must_use_candidate, reason = "most callers ignore the result")]
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.change_if(&Change::Prompts, |catalog| catalog.prompts.remove(name))
    }

    /// Adds a resource or a resource template and notifies clients.
    ///
    /// # Errors
    /// If there is one with the same URI, or it is invalid, such as one with an invalid URI template.
    pub fn add_resource<M>(&self, resource: impl IntoResource<M>) -> Result<(), RegistrationError> {
        let resource = usable_resource(resource)?;
        let is_new = self.change_if(&Change::Resources, |catalog| catalog.add_resource(&resource));
        require_new(is_new, "resource", resource.uri())
    }

    /// Adds or replaces a resource or a resource template and notifies clients.
    ///
    /// # Errors
    /// If it is invalid, such as one with an invalid URI template.
    pub fn replace_resource<M>(&self, resource: impl IntoResource<M>) -> Result<(), RegistrationError> {
        let resource = usable_resource(resource)?;
        self.change(&Change::Resources, |catalog| catalog.insert_resource(resource.clone()));
        Ok(())
    }

    /// Removes a resource or a resource template. Returns `false` if there is none with the URI.
    #[expect(clippy::must_use_candidate, reason = "most callers ignore the result")]
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.change_if(&Change::Resources, |catalog| catalog.remove_resource(uri))
    }

    /// Notifies clients that a list has changed. The methods that add, replace and remove items do this, too.
    pub fn notify_list_changed(&self, list: ListKind) {
        self.announce(&list.into());
    }

    fn announce(&self, change: &Change) {
        self.0.subscriptions.announce(change, |handle, session, uri| self.may_notify(handle, session, uri));
    }

    /// Notifies the subscribers of a resource that it has changed. Clients may subscribe to any resource that they may
    /// read, also to one of a resource template, and the server declares the capability by itself.
    ///
    /// The URI must be that of the subscription, character by character. In the URI of a template, values are
    /// percent-encoded: for `note://{name}`, the note `my list` is `note://my%20list`. `format!` does not encode: if names
    /// may contain other characters than letters, digits, `-`, `.`, `_` and `~`, expand the template with
    /// [`UriTemplate`](turms_proto::uri_template::UriTemplate) of the crate `turms-proto`.
    ///
    /// ```
    /// use turms_proto::uri_template::UriTemplate;
    ///
    /// let template = UriTemplate::parse("note://{name}")?;
    /// assert_eq!(template.expand([("name", "my list")]), "note://my%20list");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn notify_resource_updated(&self, uri: impl Into<String>) {
        self.announce(&Change::Resource(uri.into()));
    }

    /// Sends a custom notification to every session.
    pub fn broadcast(&self, notification: &Notification) {
        for session in self.sessions() {
            try_notify(session.core(), notification.clone());
        }
    }

    /// Sends a log message to every session that requested messages of this level. Clients of 2026-07-28 receive only
    /// the log messages of their requests: see [`Context::log`](crate::Context::log).
    pub fn log(&self, level: LoggingLevel, data: impl Serialize) {
        let Ok(data) = RawJson::encode(&data) else { return };
        let Ok(notification) = Notification::new::<LoggingMessageNotification>(&LogMessage::new(level, data)) else {
            return;
        };
        for handle in self.0.subscriptions.sessions() {
            if handle.log_enabled(level)
                && let Some(session) = handle.existing_state()
            {
                try_notify(&session, notification.clone());
            }
        }
    }

    /// Returns the connected sessions that have sent `initialize`.
    #[must_use]
    pub fn sessions(&self) -> Vec<Session> {
        self.0.subscriptions.sessions().iter().filter_map(|handle| handle.existing_state().map(Session::new)).collect()
    }

    /// Shuts the server down. New requests are rejected. Running calls may finish within the time limit of
    /// [`Server::limits`](crate::Server::limits) and fail after it. Then every connection is
    /// closed. Over HTTP, the listener has its own time limit.
    pub fn shutdown(&self) {
        self.0.shutdown.begin();
    }

    /// Resolves when the shutdown of the server begins.
    pub async fn wait_for_shutdown(&self) {
        self.0.shutdown.begun().await;
    }

    pub(crate) fn shutdown_token(&self) -> &Shutdown {
        &self.0.shutdown
    }

    /// Returns `true` if a tool that runs as a task is or was registered.
    pub(crate) fn has_tasks(&self) -> bool {
        self.0.has_tasks.load(Ordering::Relaxed)
    }

    /// Returns the record of another session if one of the most recent distinct clients has sent the same.
    pub(crate) fn share_client(&self, client: ClientRecord) -> Arc<ClientRecord> {
        const MAX_CLIENTS: usize = 16;
        let mut clients = self.0.clients.lock();
        if let Some(same) = clients.iter().filter_map(Weak::upgrade).find(|other| **other == client) {
            return same;
        }
        let client = Arc::new(client);
        clients.retain(|other| other.strong_count() > 0);
        if clients.len() == MAX_CLIENTS {
            clients.remove(0);
        }
        clients.push(Arc::downgrade(&client));
        client
    }

    pub(crate) fn usable_tool<M>(&self, tool: impl IntoTool<M>) -> Result<Tool, RegistrationError> {
        let tool = tool.into_tool();
        if let Some(fault) = tool.fault() {
            let (name, reason) = (tool.name().to_owned(), fault.to_owned());
            return Err(RegistrationError::Invalid { kind: "tool", name, reason });
        }
        if tool.task_mode().is_some() {
            self.0.has_tasks.store(true, Ordering::Relaxed);
        }
        Ok(tool)
    }

    /// Declares tools, prompts and resources to clients that connect from now on.
    pub(crate) fn offer_all(&self) {
        if !self.catalog().offers_all() {
            self.0.catalog.rcu(|catalog| {
                let mut next = catalog.changed();
                next.offer_all();
                next
            });
        }
    }

    pub(crate) fn attach(&self, settings: &Arc<Settings>) {
        let _ = self.0.settings.set(Arc::downgrade(settings));
    }

    /// Returns the settings while the built server exists.
    pub(crate) fn settings(&self) -> Option<Arc<Settings>> {
        self.0.settings.get()?.upgrade()
    }

    /// Returns `true` if the subscriber of a resource in a session may still see it. The scopes are those of the latest request or
    /// stream: a client may go on with a token that has fewer.
    fn may_notify(&self, handle: &Arc<SessionHandle>, session: &Arc<SessionCore>, uri: &str) -> bool {
        let (context, principal) = match session.subscriber(uri) {
            Subscriber { context: Some(context), principal } => (context, principal),
            Subscriber { context: None, principal: Some(principal) } => {
                return self.has_scopes(session, &principal, uri);
            }
            Subscriber { context: None, principal: None } => return true,
        };
        let Some(settings) = self.settings() else { return false };
        let mut call = CallContext::clone(&context).with_session(handle.clone());
        if let Some(principal) = principal {
            call.insert_extension(principal);
        }
        let context = Context::new(call, self.clone(), Some(Session::new(session.clone())));
        !router::is_hidden(&settings, self, &context, uri)
    }

    /// Returns `true` if a principal has the scopes of the resource at a URI, or there is none.
    fn has_scopes(&self, session: &SessionCore, principal: &Principal, uri: &str) -> bool {
        let check = |catalog: &Catalog| {
            let (resource, _) = catalog.resource_at(uri)?;
            Some(principal.require(resource.scopes()).is_ok())
        };
        let own = session.own.load_full();
        own.as_deref().and_then(check).or_else(|| check(&self.catalog())).unwrap_or(true)
    }

    pub(crate) fn subscriptions(&self) -> &Arc<Subscriptions> {
        &self.0.subscriptions
    }

    pub(crate) fn catalog(&self) -> arc_swap::Guard<Arc<Catalog>> {
        self.0.catalog.load()
    }

    pub(crate) fn state<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0.states.load().get(&TypeId::of::<T>())?.clone().downcast().ok()
    }

    pub(crate) fn put_state<T: Send + Sync + 'static>(&self, state: &Arc<T>) {
        self.0.states.rcu(|states| {
            let mut states = HashMap::clone(states);
            states.insert(TypeId::of::<T>(), state.clone());
            states
        });
    }

    /// Replaces the catalog. Running calls keep the one they started with.
    pub(crate) fn change(&self, change: &Change, edit: impl Fn(&mut Catalog)) {
        self.change_if(change, |catalog| {
            edit(catalog);
            true
        });
    }

    fn change_if(&self, change: &Change, edit: impl Fn(&mut Catalog) -> bool) -> bool {
        let mut changed = false;
        self.0.catalog.rcu(|catalog| {
            let mut next = catalog.changed();
            changed = edit(&mut next);
            next
        });
        if changed {
            self.announce(change);
        }
        changed
    }
}

/// Error for a tool, a prompt or a resource that cannot be added to a server.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistrationError {
    /// There is an item with the same name or URI.
    #[error("{kind} {name:?} exists already; use a replace method to replace it")]
    #[non_exhaustive]
    Duplicate {
        /// `tool`, `prompt` or `resource`.
        kind: &'static str,
        /// The name, or the URI of a resource.
        name: String,
    },
    /// The item is invalid.
    #[error("{kind} {name:?}: {reason}")]
    #[non_exhaustive]
    Invalid {
        /// `tool`, `prompt` or `resource`.
        kind: &'static str,
        /// The name, or the URI of a resource.
        name: String,
        /// The reason, such as an invalid schema.
        reason: String,
    },
}

turms_core::__internal::debug_error! { RegistrationError { Duplicate { kind, name }, Invalid { kind, name, reason } } }

pub(crate) fn require_new(is_new: bool, kind: &'static str, name: &str) -> Result<(), RegistrationError> {
    if is_new { Ok(()) } else { Err(RegistrationError::Duplicate { kind, name: name.to_owned() }) }
}

pub(crate) fn usable_prompt<M>(prompt: impl IntoPrompt<M>) -> Result<Prompt, RegistrationError> {
    let prompt = prompt.into_prompt();
    match prompt.fault() {
        None => Ok(prompt),
        Some(fault) => {
            let (name, reason) = (prompt.name().to_owned(), fault.to_owned());
            Err(RegistrationError::Invalid { kind: "prompt", name, reason })
        }
    }
}

pub(crate) fn usable_resource<M>(resource: impl IntoResource<M>) -> Result<Resource, RegistrationError> {
    let resource = resource.into_resource();
    match resource.fault() {
        None => Ok(resource),
        Some(fault) => {
            let (name, reason) = (resource.uri().to_owned(), fault.to_owned());
            Err(RegistrationError::Invalid { kind: "resource", name, reason })
        }
    }
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerHandle").field("sessions", &self.sessions().len()).finish_non_exhaustive()
    }
}
