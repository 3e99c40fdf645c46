//! The servers of a group.

use std::sync::Arc;

use indexmap::IndexMap;
use tokio::sync::mpsc;
use turms_proto::types::LoggingLevel;

use super::events::{GroupEvents, MembershipChange};
use super::list_cache::ListCache;
use super::member::{GroupError, GroupMember, MemberEntry, MemberRef, Origin};
use super::naming::Naming;
use crate::call::error::CallErrorKind;
use crate::client::Client;
use crate::event::{ConnectionEvent, Event};
use turms_proto::session::ConnectionStatus;

/// The servers of a group in their order, and the state that they share. The lock around it is never held across an
/// `await`.
#[derive(Default)]
pub(super) struct GroupMembers {
    entries: IndexMap<Arc<str>, MemberEntry>,
    closed: bool,
    last_id: u64,
    /// The log level of all servers, including servers that are added later.
    pub(super) log_level: Option<LoggingLevel>,
    /// One for each subscribe call, because each client counts its subscriptions.
    pub(super) watches: Vec<GroupWatch>,
    watchers: Vec<MembershipWatcher>,
}

/// A resource, and the servers where the group is subscribed to it.
pub(super) struct GroupWatch {
    pub(super) uri: String,
    pub(super) servers: Vec<Arc<str>>,
}

/// A receiver of membership changes.
struct MembershipWatcher {
    sender: mpsc::UnboundedSender<MembershipChange>,
    /// `true` if the receiver also wants the event streams of new servers.
    with_events: bool,
}

impl GroupMembers {
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Adds a server. Replaces a server of the same name.
    pub(super) fn insert(&mut self, name: &str, naming: &Naming, origin: Origin, client: Option<Client>) {
        let name: Arc<str> = name.into();
        let (id, client_id) = (self.new_id(), self.new_id());
        let prefix = naming.prefix_of(&name).into();
        let lists = Arc::default();
        let entry = MemberEntry { id, client_id, name: name.clone(), prefix, origin, client, failure: None, lists };
        self.entries.insert(name, entry);
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    pub(super) fn get(&self, name: &str) -> Option<&MemberEntry> {
        self.entries.get(name)
    }

    /// Returns the id and the origin of a server.
    pub(super) fn origin_of(&self, name: &str) -> Result<(u64, Origin), GroupError> {
        if self.closed {
            return Err(GroupError::Closed);
        }
        self.get(name).map(|entry| (entry.id, entry.origin.clone())).ok_or(GroupError::Unknown)
    }

    pub(super) fn entries(&self) -> impl ExactSizeIterator<Item = &MemberEntry> {
        self.entries.values()
    }

    /// Returns the clients of all servers that have one.
    pub(super) fn clients(&self) -> Vec<(Arc<str>, Client)> {
        self.entries().filter_map(|entry| Some((entry.name.clone(), entry.client.clone()?))).collect()
    }

    /// Returns the servers without a client, with the error of a call to them.
    pub(super) fn absent(&self) -> Vec<(String, CallErrorKind)> {
        let absent = self.entries().filter_map(|entry| entry.reference().err());
        absent.map(|missing| (missing.0.to_string(), missing.1)).collect()
    }

    pub(super) fn client_by_id(&self, client_id: u64) -> Option<Client> {
        self.entries().find(|entry| entry.client_id == client_id)?.client.clone()
    }

    /// Sets the client of a server, unless the server was removed or is connected. Returns the client to close: the old
    /// one, or the new one if it is not needed.
    pub(super) fn set_client(
        &mut self,
        id: u64,
        name: &str,
        client: Client,
    ) -> Result<Option<Client>, (Client, GroupError)> {
        if self.closed {
            return Err((client, GroupError::Closed));
        }
        let client_id = self.new_id();
        let Some(entry) = self.entries.get_mut(name).filter(|entry| entry.id == id) else {
            return Err((client, GroupError::Unknown));
        };
        if entry.status() == ConnectionStatus::Ready {
            return Ok(Some(client));
        }
        let (old_id, old) = (std::mem::replace(&mut entry.client_id, client_id), entry.client.replace(client.clone()));
        entry.lists = Arc::default();
        entry.failure = None;
        let name = entry.name.clone();
        if old.is_some() {
            self.notify(|_| MembershipChange::Left { client_id: old_id, name: name.clone(), announce: Vec::new() });
        }
        let connected = client
            .protocol_version()
            .map(|version| Event::Connection(ConnectionEvent::Connected { version, generation: 1 }));
        let announce: Vec<_> = connected.into_iter().chain(changes(&client)).collect();
        self.notify(|with_events| MembershipChange::Joined {
            client_id,
            name: name.clone(),
            events: with_events.then(|| client.events()),
            announce: announce.clone(),
        });
        Ok(old)
    }

    /// Records that a server could not be reached.
    pub(super) fn fail(&mut self, id: u64, name: &str, error: GroupError) {
        let entry =
            self.entries.get_mut(name).filter(|entry| entry.id == id && entry.status() != ConnectionStatus::Ready);
        if let Some(entry) = entry {
            entry.failure = Some(error);
        }
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Client> {
        let entry = self.entries.shift_remove(name)?;
        self.watches.retain_mut(|watch| {
            watch.servers.retain(|server| **server != *name);
            !watch.servers.is_empty()
        });
        let client = entry.client?;
        let announce = changes(&client);
        self.notify(|_| MembershipChange::Left {
            client_id: entry.client_id,
            name: entry.name.clone(),
            announce: announce.clone(),
        });
        Some(client)
    }

    /// Rejects further servers. Call [`drop_watchers`](Self::drop_watchers) after all clients are closed.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn drop_watchers(&mut self) {
        self.watchers.clear();
    }

    /// Updates the cached lists of a server, if it still has this client.
    pub(super) fn update_lists(&mut self, client_id: u64, update: impl FnOnce(&mut ListCache)) {
        if let Some(entry) = self.entries.values_mut().find(|entry| entry.client_id == client_id) {
            update(Arc::make_mut(&mut entry.lists));
        }
    }

    /// Returns the servers that are connected or reconnecting.
    pub(super) fn present(&self) -> Vec<MemberRef> {
        self.entries()
            .filter(|entry| entry.status() != ConnectionStatus::Closed)
            .filter_map(|entry| entry.reference().ok())
            .collect()
    }

    pub(super) fn members(&self, naming: &Naming) -> Vec<GroupMember> {
        self.entries().map(|entry| entry.member(naming)).collect()
    }

    /// Subscribes to membership changes.
    pub(super) fn watch(&mut self) -> mpsc::UnboundedReceiver<MembershipChange> {
        self.subscribe(false)
    }

    pub(super) fn events(&mut self) -> GroupEvents {
        let changes = self.subscribe(true);
        let present = self.entries().filter(|_| !self.closed).filter_map(|entry| {
            let client = entry.client.as_ref()?;
            Some((entry.client_id, entry.name.clone(), client.events()))
        });
        GroupEvents::new(changes, present)
    }

    fn subscribe(&mut self, with_events: bool) -> mpsc::UnboundedReceiver<MembershipChange> {
        let (sender, changes) = mpsc::unbounded_channel();
        // `notify` removes dropped watchers too, but only when there is a change.
        self.watchers.retain(|watcher| !watcher.sender.is_closed());
        if !self.closed {
            self.watchers.push(MembershipWatcher { sender, with_events });
        }
        changes
    }

    fn notify(&mut self, change: impl Fn(bool) -> MembershipChange) {
        self.watchers.retain(|watcher| watcher.sender.send(change(watcher.with_events)).is_ok());
    }

    fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }
}

/// Returns the changed lists of the group when this server joins or leaves.
fn changes(client: &Client) -> Vec<Event> {
    let capabilities = client.server_capabilities().unwrap_or_default();
    let changes = [
        (capabilities.tools.is_some(), Event::ToolsChanged),
        (capabilities.prompts.is_some(), Event::PromptsChanged),
        (capabilities.resources.is_some(), Event::ResourcesChanged),
    ];
    changes.into_iter().filter_map(|(has, change)| has.then_some(change)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_watchers_are_removed() {
        let mut members = GroupMembers::default();
        for _ in 0..10 {
            drop((members.watch(), members.events()));
        }
        assert!(members.watchers.len() <= 2);
    }
}
