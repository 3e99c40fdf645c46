//! A server while it runs.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde::Serialize;
use turms_core::{CallContext, ClientRecord, SessionHandle, Shutdown};
use turms_proto::types::{Log, LogMessage, LoggingLevel};
use turms_proto::{Notification, RawJson};
use turms_schema::DEFAULT_MAX_VALIDATION_STEPS;

use crate::catalog::Catalog;
use crate::context::Context;
use crate::prompt::{IntoPrompt, Prompt};
use crate::resource::{IntoResource, Resource};
use crate::router;
use crate::server::Settings;
use crate::session::Session;
use crate::subscriptions::{Change, Subscriptions, tell, tell_change};
use crate::tool::{IntoTool, Tool};

/// A server while it runs: register, announce, look and end from any task. Clones are the same server.
#[derive(Clone)]
pub struct ServerHandle(Arc<Core>);

struct Core {
    catalog: ArcSwap<Catalog>,
    subscriptions: Arc<Subscriptions>,
    shutdown: Shutdown,
    /// Set if there has ever been a tool that runs as a task. Tasks outlast the tools that made them.
    has_tasks: AtomicBool,
    /// The records of the last few different clients. Most sessions are of the same few programs, and the record is the larger
    /// part of an idle session.
    clients: Mutex<Vec<Weak<ClientRecord>>>,
    states: ArcSwap<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    /// Set when the server is built. The router owns the settings, which may hold this handle.
    settings: OnceLock<Weak<Settings>>,
    max_validation_steps: AtomicU64,
}

impl ServerHandle {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Core {
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

    /// See [`Server::max_validation_steps`](crate::Server::max_validation_steps).
    pub(crate) fn max_validation_steps(&self) -> u64 {
        self.0.max_validation_steps.load(Ordering::Relaxed)
    }

    pub(crate) fn set_max_validation_steps(&self, steps: u64) {
        self.0.max_validation_steps.store(steps, Ordering::Relaxed);
    }

    /// Adds a tool, and tells whoever listens.
    ///
    /// # Errors
    /// If there is a tool of the same name, or the tool cannot be used, such as one with an invalid schema.
    pub fn add_tool<M>(&self, tool: impl IntoTool<M>) -> Result<(), RegistrationError> {
        let tool = self.usable_tool(tool)?;
        let is_new = self.change_if(&Change::Tools, |catalog| catalog.tools.add(tool.name(), &tool));
        new_or(is_new, "tool", tool.name())
    }

    /// Adds a tool, in the place of the one of the same name if there is one, and tells whoever listens.
    ///
    /// # Errors
    /// If the tool cannot be used, such as one with an invalid schema.
    pub fn replace_tool<M>(&self, tool: impl IntoTool<M>) -> Result<(), RegistrationError> {
        let tool = self.usable_tool(tool)?;
        self.change(&Change::Tools, |catalog| catalog.tools.insert(tool.name().to_owned(), tool.clone()));
        Ok(())
    }

    /// Takes a tool away; false if there is none of that name.
    #[expect(clippy::must_use_candidate, reason = "most callers only want it gone")]
    pub fn remove_tool(&self, name: &str) -> bool {
        self.change_if(&Change::Tools, |catalog| catalog.tools.remove(name))
    }

    /// Adds a prompt, and tells whoever listens.
    ///
    /// # Errors
    /// If there is a prompt of the same name, or the prompt cannot be used, such as one with an invalid schema.
    pub fn add_prompt<M>(&self, prompt: impl IntoPrompt<M>) -> Result<(), RegistrationError> {
        let prompt = usable_prompt(prompt)?;
        let is_new = self.change_if(&Change::Prompts, |catalog| catalog.add_prompt(&prompt));
        new_or(is_new, "prompt", prompt.name())
    }

    /// Adds a prompt, in the place of the one of the same name if there is one, and tells whoever listens.
    ///
    /// # Errors
    /// If the prompt cannot be used, such as one with an invalid schema.
    pub fn replace_prompt<M>(&self, prompt: impl IntoPrompt<M>) -> Result<(), RegistrationError> {
        let prompt = usable_prompt(prompt)?;
        self.change(&Change::Prompts, |catalog| catalog.insert_prompt(prompt.clone()));
        Ok(())
    }

    /// Takes a prompt away; false if there is none of that name.
    #[expect(clippy::must_use_candidate, reason = "most callers only want it gone")]
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.change_if(&Change::Prompts, |catalog| catalog.prompts.remove(name))
    }

    /// Adds a resource or a family, and tells whoever listens.
    ///
    /// # Errors
    /// If there is one of the same URI, or it cannot be used, such as one with an invalid URI template.
    pub fn add_resource<M>(&self, resource: impl IntoResource<M>) -> Result<(), RegistrationError> {
        let resource = usable_resource(resource)?;
        let is_new = self.change_if(&Change::Resources, |catalog| catalog.add_resource(&resource));
        new_or(is_new, "resource", resource.uri())
    }

    /// Adds a resource or a family, in the place of the one of the same URI if there is one, and tells whoever listens.
    ///
    /// # Errors
    /// If it cannot be used, such as one with an invalid URI template.
    pub fn replace_resource<M>(&self, resource: impl IntoResource<M>) -> Result<(), RegistrationError> {
        let resource = usable_resource(resource)?;
        self.change(&Change::Resources, |catalog| catalog.insert_resource(resource.clone()));
        Ok(())
    }

    /// Takes a resource or a family away; false if there is none of that URI.
    #[expect(clippy::must_use_candidate, reason = "most callers only want it gone")]
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.change_if(&Change::Resources, |catalog| catalog.remove_resource(uri))
    }

    /// Adds a tool for one session alone, which sees it instead of the server's tool of the same name.
    ///
    /// # Errors
    /// If the session has a tool of the same name to itself, or the tool cannot be used.
    pub fn add_session_tool<M>(&self, session: &Arc<Session>, tool: impl IntoTool<M>) -> Result<(), RegistrationError> {
        let tool = self.usable_tool(tool)?;
        let is_new = self.change_session(session, &Change::Tools, |own| own.tools.add(tool.name(), &tool));
        new_or(is_new, "tool", tool.name())
    }

    /// As [`ServerHandle::add_session_tool`], in the place of the one of the same name if the session has one to itself.
    ///
    /// # Errors
    /// If the tool cannot be used.
    pub fn replace_session_tool<M>(
        &self,
        session: &Arc<Session>,
        tool: impl IntoTool<M>,
    ) -> Result<(), RegistrationError> {
        let tool = self.usable_tool(tool)?;
        self.change_session(session, &Change::Tools, |own| {
            own.tools.insert(tool.name().to_owned(), tool.clone());
            true
        });
        Ok(())
    }

    /// Takes away a tool that one session has to itself; false if it has none of that name.
    pub fn remove_session_tool(&self, session: &Arc<Session>, name: &str) -> bool {
        self.change_session(session, &Change::Tools, |own| own.tools.remove(name))
    }

    /// Adds a prompt for one session alone, which sees it instead of the server's prompt of the same name.
    ///
    /// # Errors
    /// If the session has a prompt of the same name to itself, or the prompt cannot be used.
    pub fn add_session_prompt<M>(
        &self,
        session: &Arc<Session>,
        prompt: impl IntoPrompt<M>,
    ) -> Result<(), RegistrationError> {
        let prompt = usable_prompt(prompt)?;
        let is_new = self.change_session(session, &Change::Prompts, |own| own.add_prompt(&prompt));
        new_or(is_new, "prompt", prompt.name())
    }

    /// As [`ServerHandle::add_session_prompt`], in the place of the one of the same name if the session has one to itself.
    ///
    /// # Errors
    /// If the prompt cannot be used, such as one with an invalid schema.
    pub fn replace_session_prompt<M>(
        &self,
        session: &Arc<Session>,
        prompt: impl IntoPrompt<M>,
    ) -> Result<(), RegistrationError> {
        let prompt = usable_prompt(prompt)?;
        self.change_session(session, &Change::Prompts, |own| {
            own.insert_prompt(prompt.clone());
            true
        });
        Ok(())
    }

    /// Takes away a prompt that one session has to itself; false if it has none of that name.
    pub fn remove_session_prompt(&self, session: &Arc<Session>, name: &str) -> bool {
        self.change_session(session, &Change::Prompts, |own| own.prompts.remove(name))
    }

    /// Adds a resource or a family for one session alone, which sees it instead of the server's of the same URI.
    ///
    /// # Errors
    /// If the session has one of the same URI to itself, or it cannot be used.
    pub fn add_session_resource<M>(
        &self,
        session: &Arc<Session>,
        resource: impl IntoResource<M>,
    ) -> Result<(), RegistrationError> {
        let resource = usable_resource(resource)?;
        let is_new = self.change_session(session, &Change::Resources, |own| own.add_resource(&resource));
        new_or(is_new, "resource", resource.uri())
    }

    /// As [`ServerHandle::add_session_resource`], in the place of the one of the same URI if the session has one to itself.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn replace_session_resource<M>(
        &self,
        session: &Arc<Session>,
        resource: impl IntoResource<M>,
    ) -> Result<(), RegistrationError> {
        let resource = usable_resource(resource)?;
        self.change_session(session, &Change::Resources, |own| {
            own.insert_resource(resource.clone());
            true
        });
        Ok(())
    }

    /// Takes away a resource or a family that one session has to itself; false if it has none of that URI.
    pub fn remove_session_resource(&self, session: &Arc<Session>, uri: &str) -> bool {
        self.change_session(session, &Change::Resources, |own| own.remove_resource(uri))
    }

    /// Tells whoever listens that something has changed that the server cannot see, such as what stands in a resource.
    pub fn announce(&self, change: &Change) {
        self.0.subscriptions.announce(change, |handle, session, uri| self.may_tell(handle, session, uri));
    }

    /// Tells whoever watches this resource that it has changed.
    pub fn resource_updated(&self, uri: impl Into<String>) {
        self.announce(&Change::Resource(uri.into()));
    }

    /// Tells every client that has shaken hands something of your own.
    pub fn notify(&self, notification: &Notification) {
        for session in self.sessions() {
            tell(&session, notification.clone());
        }
    }

    /// Sends a log message to every session that wants any of this level. Clients of 2026-07-28 hear only of their own
    /// requests: see [`Context::log`](crate::Context::log).
    pub fn log(&self, level: LoggingLevel, data: impl Serialize) {
        let Ok(data) = RawJson::encode(&data) else { return };
        let Ok(notification) = Notification::new::<Log>(&LogMessage::new(level, data)) else {
            return;
        };
        for handle in self.0.subscriptions.sessions() {
            if handle.wants_log(level)
                && let Some(session) = handle.existing_state()
            {
                tell(&session, notification.clone());
            }
        }
    }

    /// The clients that have shaken hands and are still there.
    #[must_use]
    pub fn sessions(&self) -> Vec<Arc<Session>> {
        self.0.subscriptions.sessions().iter().filter_map(|handle| handle.existing_state()).collect()
    }

    /// Ends the server: no more is taken in, what runs may finish within the time that [`Server::limits`](crate::Server::limits)
    /// grants (two seconds unless told otherwise) and is refused after, then every connection is closed. Over HTTP the listener
    /// says how long what runs may take.
    pub fn shutdown(&self) {
        self.0.shutdown.begin();
    }

    /// Resolves when the shutdown of the server begins.
    pub async fn ending(&self) {
        self.0.shutdown.begun().await;
    }

    pub(crate) fn shutdown_token(&self) -> &Shutdown {
        &self.0.shutdown
    }

    /// Returns `true` if some tool runs as a task, or did.
    pub(crate) fn has_tasks(&self) -> bool {
        self.0.has_tasks.load(Ordering::Relaxed)
    }

    /// The same record as another session has, if one of the last few different clients has sent the same.
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

    fn usable_tool<M>(&self, tool: impl IntoTool<M>) -> Result<Tool, RegistrationError> {
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

    /// The settings, while the server that was built exists.
    pub(crate) fn settings(&self) -> Option<Arc<Settings>> {
        self.0.settings.get()?.upgrade()
    }

    /// Returns `true` if the one who subscribed to a resource in a session may still see it.
    fn may_tell(&self, handle: &Arc<SessionHandle>, session: &Arc<Session>, uri: &str) -> bool {
        let Some(subscriber) = session.subscriber(uri) else { return true };
        let Some(settings) = self.settings() else { return false };
        let call = CallContext::clone(&subscriber).with_session(handle.clone());
        let context = Context::new(call, self.clone(), Some(session.clone()));
        !router::hides(&settings, self, &context, uri)
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

    /// Puts a changed catalog in the place of the old one. Calls that run keep the one they began with.
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

    fn change_session(&self, session: &Arc<Session>, change: &Change, edit: impl Fn(&mut Catalog) -> bool) -> bool {
        let mut changed = false;
        session.own.rcu(|own| {
            let mut next = own.as_ref().map(|own| own.changed()).unwrap_or_default();
            changed = edit(&mut next);
            Some(Arc::new(next))
        });
        if changed {
            tell_change(session, change);
        }
        changed
    }
}

/// Error for a tool, a prompt or a resource that cannot be added to a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistrationError {
    /// There is one of the same name or URI.
    #[error("{kind} {name:?} exists already; use a replace method to replace it")]
    #[non_exhaustive]
    Duplicate {
        /// `tool`, `prompt` or `resource`.
        kind: &'static str,
        /// The name, or the URI of a resource.
        name: String,
    },
    /// It cannot be used.
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

fn new_or(is_new: bool, kind: &'static str, name: &str) -> Result<(), RegistrationError> {
    if is_new { Ok(()) } else { Err(RegistrationError::Duplicate { kind, name: name.to_owned() }) }
}

fn usable_prompt<M>(prompt: impl IntoPrompt<M>) -> Result<Prompt, RegistrationError> {
    let prompt = prompt.into_prompt();
    match prompt.fault() {
        None => Ok(prompt),
        Some(fault) => {
            let (name, reason) = (prompt.name().to_owned(), fault.to_owned());
            Err(RegistrationError::Invalid { kind: "prompt", name, reason })
        }
    }
}

fn usable_resource<M>(resource: impl IntoResource<M>) -> Result<Resource, RegistrationError> {
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
