//! A server while it runs.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use serde::Serialize;
use turms_proto::types::{Log, LogMessage, LoggingLevel};
use turms_proto::{Notification, RawJson};

use crate::catalog::Catalog;
use crate::context::Context;
use crate::hub::{Change, Hub, tell, tell_change};
use crate::prompt::IntoPrompt;
use crate::resource::{IntoResource, Resource};
use crate::router;
use crate::server::Settings;
use crate::session::Session;
use crate::task::TaskWays;
use crate::tool::{IntoTool, Tool};

/// A server while it runs: register, announce, look and end from any task. Clones are the same server.
#[derive(Clone)]
pub struct ServerHandle(Arc<Core>);

struct Core {
    catalog: ArcSwap<Catalog>,
    hub: Arc<Hub>,
    /// What is done with tasks, if there has ever been a tool that runs as one.
    task_ways: OnceLock<&'static TaskWays>,
    states: ArcSwap<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    /// Set when the server is built. The router owns the settings, which may hold this handle.
    settings: OnceLock<Weak<Settings>>,
}

impl ServerHandle {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Core {
            catalog: ArcSwap::default(),
            hub: Arc::new(Hub::new()),
            task_ways: OnceLock::new(),
            states: ArcSwap::default(),
            settings: OnceLock::new(),
        }))
    }

    /// Adds a tool, in the place of one of the same name, and tells whoever listens.
    pub fn add_tool(&self, tool: impl IntoTool) {
        let Some(tool) = usable_tool(tool) else { return };
        self.look_for_tasks(&tool);
        self.change(&Change::Tools, |catalog| catalog.tools.insert(tool.name().to_owned(), tool.clone()));
    }

    /// Takes a tool away; false if there is none of that name.
    #[expect(clippy::must_use_candidate, reason = "most callers only want it gone")]
    pub fn remove_tool(&self, name: &str) -> bool {
        self.change_if(&Change::Tools, |catalog| catalog.tools.remove(name))
    }

    /// Adds a prompt, in the place of one of the same name, and tells whoever listens.
    pub fn add_prompt(&self, prompt: impl IntoPrompt) {
        let prompt = prompt.into_prompt();
        self.change(&Change::Prompts, |catalog| catalog.insert_prompt(prompt.clone()));
    }

    /// Takes a prompt away; false if there is none of that name.
    #[expect(clippy::must_use_candidate, reason = "most callers only want it gone")]
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.change_if(&Change::Prompts, |catalog| catalog.prompts.remove(name))
    }

    /// Adds a resource or a family, in the place of one of the same URI, and tells whoever listens.
    pub fn add_resource(&self, resource: impl IntoResource) {
        let Some(resource) = usable_resource(resource) else { return };
        self.change(&Change::Resources, |catalog| catalog.insert_resource(resource.clone()));
    }

    /// Takes a resource or a family away; false if there is none of that URI.
    #[expect(clippy::must_use_candidate, reason = "most callers only want it gone")]
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.change_if(&Change::Resources, |catalog| catalog.remove_resource(uri))
    }

    /// Adds a tool for one session alone.
    pub fn add_session_tool(&self, session: &Arc<Session>, tool: impl IntoTool) {
        if let Some(tool) = usable_tool(tool) {
            self.look_for_tasks(&tool);
            self.change_session(session, &Change::Tools, |own| {
                own.tools.insert(tool.name().to_owned(), tool.clone());
                true
            });
        }
    }

    /// Takes away a tool that one session has to itself; false if it has none of that name.
    pub fn remove_session_tool(&self, session: &Arc<Session>, name: &str) -> bool {
        self.change_session(session, &Change::Tools, |own| own.tools.remove(name))
    }

    /// Adds a prompt for one session alone.
    pub fn add_session_prompt(&self, session: &Arc<Session>, prompt: impl IntoPrompt) {
        let prompt = prompt.into_prompt();
        self.change_session(session, &Change::Prompts, |own| {
            own.insert_prompt(prompt.clone());
            true
        });
    }

    /// Takes away a prompt that one session has to itself; false if it has none of that name.
    pub fn remove_session_prompt(&self, session: &Arc<Session>, name: &str) -> bool {
        self.change_session(session, &Change::Prompts, |own| own.prompts.remove(name))
    }

    /// Adds a resource or a family for one session alone.
    pub fn add_session_resource(&self, session: &Arc<Session>, resource: impl IntoResource) {
        if let Some(resource) = usable_resource(resource) {
            self.change_session(session, &Change::Resources, |own| {
                own.insert_resource(resource.clone());
                true
            });
        }
    }

    /// Takes away a resource or a family that one session has to itself; false if it has none of that URI.
    pub fn remove_session_resource(&self, session: &Arc<Session>, uri: &str) -> bool {
        self.change_session(session, &Change::Resources, |own| own.remove_resource(uri))
    }

    /// Tells whoever listens that something has changed that the server cannot see, such as what stands in a resource.
    pub fn announce(&self, change: &Change) {
        self.0.hub.announce(change, |session, uri| self.may_tell(session, uri));
    }

    /// Tells whoever watches this resource that it has changed.
    pub fn resource_updated(&self, uri: impl Into<String>) {
        self.announce(&Change::Resource(uri.into()));
    }

    /// Tells every client that has shaken hands something of your own.
    pub fn notify(&self, notification: &Notification) {
        for session in self.sessions() {
            if session.is_open() {
                tell(&session, notification.clone());
            }
        }
    }

    /// Sends a log message to every session that wants any of this level. Clients of 2026-07-28 hear only of their own
    /// requests: see [`Context::log`](crate::Context::log).
    pub fn log(&self, level: LoggingLevel, data: impl Serialize) {
        let Ok(data) = RawJson::encode(&data) else { return };
        let Ok(notification) = Notification::new::<Log>(&LogMessage::new(level, data)) else {
            return;
        };
        for session in self.sessions() {
            if session.is_open() && session.wants_log(level) {
                tell(&session, notification.clone());
            }
        }
    }

    /// The clients that have shaken hands and are still there.
    #[must_use]
    pub fn sessions(&self) -> Vec<Arc<Session>> {
        self.0.hub.sessions()
    }

    /// Ends the server: no more is taken in, what runs may finish within the time that [`Server::limits`](crate::Server::limits)
    /// grants (two seconds unless told otherwise) and is refused after, then every connection is closed. Over HTTP the listener
    /// says how long what runs may take.
    pub fn shutdown(&self) {
        self.0.hub.end();
    }

    /// Waits until somebody ends the server.
    pub async fn ending(&self) {
        let mut ending = self.0.hub.ending();
        // The sender lives as long as this handle.
        let _ = ending.wait_for(|ending| *ending).await;
    }

    /// Whether some tool runs as a task, or did. Tasks outlast the tools that made them.
    pub(crate) fn has_tasks(&self) -> bool {
        self.task_ways().is_some()
    }

    /// What is done with tasks, where there are any.
    pub(crate) fn task_ways(&self) -> Option<&'static TaskWays> {
        self.0.task_ways.get().copied()
    }

    fn look_for_tasks(&self, tool: &Tool) {
        if let Some(ways) = tool.task_ways() {
            self.0.task_ways.get_or_init(|| ways);
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
    fn may_tell(&self, session: &Arc<Session>, uri: &str) -> bool {
        let Some(subscriber) = session.subscriber(uri) else { return true };
        let Some(settings) = self.settings() else { return false };
        let call = turms_core::Context::clone(&subscriber).with_session(session.clone());
        let context = Context::new(call, self.clone(), Some(session.clone()));
        !router::hides(&settings, self, &context, uri)
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.0.hub
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

/// The tool, unless it cannot be used, which whoever runs the server should know.
fn usable_tool(tool: impl IntoTool) -> Option<Tool> {
    let tool = tool.into_tool();
    match tool.fault() {
        None => Some(tool),
        Some(fault) => {
            tracing::error!(tool = tool.name(), fault, "a tool that cannot be used is not added");
            None
        }
    }
}

fn usable_resource(resource: impl IntoResource) -> Option<Resource> {
    let resource = resource.into_resource();
    match resource.fault() {
        None => Some(resource),
        Some(fault) => {
            tracing::error!(uri = resource.uri(), fault, "a resource that cannot be used is not added");
            None
        }
    }
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerHandle").field("sessions", &self.sessions().len()).finish_non_exhaustive()
    }
}
