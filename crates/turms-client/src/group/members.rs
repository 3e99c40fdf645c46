//! The servers of a group.

use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::IndexMap;
use tokio::sync::mpsc;
use turms_proto::types::LoggingLevel;

use super::collisions::{Collision, CollisionKind};
use super::events::{GroupEvents, MembershipChange};
use super::list_cache::{ListCache, ListKind};
use super::member::{GroupError, GroupMember, Origin};
use super::naming::Naming;
use crate::call::error::{CallError, CallErrorKind, ClosedCause, NoServerCause};
use crate::client::Client;
use crate::event::{ConnectionEvent, Event};
use turms_proto::session::ConnectionStatus;

/// The servers of a group in their order, and what concerns them all. Behind one lock that is never held for long.
#[derive(Default)]
pub(super) struct GroupMembers {
    entries: IndexMap<Arc<str>, MemberEntry>,
    closed: bool,
    last_id: u64,
    /// Also for servers that come later.
    pub(super) log_level: Option<LoggingLevel>,
    /// The watched resources, and at which servers.
    pub(super) watched: BTreeMap<String, Vec<Arc<str>>>,
    watchers: Vec<MembershipWatcher>,
}

pub(super) struct MemberEntry {
    /// Tells it from another that had the same name before.
    id: u64,
    /// Tells its client from another that it had before.
    placed: u64,
    name: Arc<str>,
    /// The prefix of its tools and prompts; empty if names have no prefixes.
    prefix: Arc<str>,
    origin: Origin,
    client: Option<Client>,
    failure: Option<GroupError>,
    lists: Arc<ListCache>,
}

/// A server that calls can be sent to.
#[derive(Clone)]
pub(super) struct MemberRef {
    pub(super) placed: u64,
    pub(super) name: Arc<str>,
    pub(super) prefix: Arc<str>,
    pub(super) client: Client,
    pub(super) lists: Arc<ListCache>,
    /// It is connected now, and not only about to be again.
    pub(super) is_up: bool,
}

/// The servers that may have something.
#[derive(Default)]
pub(super) struct Reachable {
    pub(super) members: Vec<MemberRef>,
    /// Those that cannot be reached, and why.
    pub(super) absent: Vec<(String, CallErrorKind)>,
    /// The number of those that have no such list.
    pub(super) idle: usize,
}

impl Reachable {
    /// Those that can be reached now. One that reconnects is waited for only if there is no other, and is absent otherwise.
    pub(super) fn now(mut self) -> Self {
        if self.idle == 0 && !self.members.iter().any(|member| member.is_up) {
            return self;
        }
        let (up, away): (Vec<_>, Vec<_>) = self.members.into_iter().partition(|member| member.is_up);
        let away = away
            .into_iter()
            .map(|member| (member.name.to_string(), CallErrorKind::Closed(ClosedCause::NotConnected(None))));
        self.absent.extend(away);
        Self { members: up, ..self }
    }

    /// The error of a call that no server can take.
    pub(super) fn error(self, target: &str) -> CallError {
        if self.absent.is_empty() {
            return CallError::not_sent(target, CallErrorKind::NoServer(NoServerCause::NotFound));
        }
        let absent = self.absent.into_iter().map(|(name, kind)| (name, CallError::not_sent(target, kind)));
        CallError::of_servers(target, absent.collect())
    }
}

/// The server of a name.
pub(super) enum Owner {
    /// This server, and the name that it has there.
    Found(Found, String),
    /// One of several, whose lists have to be read.
    Unsure(Vec<MemberRef>),
    None,
}

/// A server that was found, or why it cannot be used.
pub(super) type Found = Result<MemberRef, Box<(Arc<str>, CallErrorKind)>>;

/// A receiver of membership changes.
struct MembershipWatcher {
    sender: mpsc::UnboundedSender<MembershipChange>,
    with_events: bool,
}

impl GroupMembers {
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Adds a server, in place of another of the same name.
    pub(super) fn insert(&mut self, name: &str, naming: &Naming, origin: Origin, client: Option<Client>) {
        let name: Arc<str> = name.into();
        let (id, placed) = (self.new_id(), self.new_id());
        let prefix = naming.prefix_of(&name).into();
        let lists = Arc::default();
        let entry = MemberEntry { id, placed, name: name.clone(), prefix, origin, client, failure: None, lists };
        self.entries.insert(name, entry);
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    pub(super) fn get(&self, name: &str) -> Option<&MemberEntry> {
        self.entries.get(name)
    }

    /// The id and the origin of a server.
    pub(super) fn origin_of(&self, name: &str) -> Result<(u64, Origin), GroupError> {
        if self.closed {
            return Err(GroupError::Closed);
        }
        self.get(name).map(|entry| (entry.id, entry.origin.clone())).ok_or(GroupError::Unknown)
    }

    pub(super) fn entries(&self) -> impl ExactSizeIterator<Item = &MemberEntry> {
        self.entries.values()
    }

    /// The clients of all servers that have one.
    pub(super) fn clients(&self) -> Vec<(Arc<str>, Client)> {
        self.entries().filter_map(|entry| Some((entry.name.clone(), entry.client.clone()?))).collect()
    }

    /// The servers without a client, and why.
    pub(super) fn absent(&self) -> Vec<(String, CallErrorKind)> {
        let absent = self.entries().filter_map(|entry| entry.reference().err());
        absent.map(|missing| (missing.0.to_string(), missing.1)).collect()
    }

    pub(super) fn client_placed(&self, placed: u64) -> Option<Client> {
        self.entries().find(|entry| entry.placed == placed)?.client.clone()
    }

    /// Sets the client of a server, unless it was removed or has one that works. Returns the client that is not used any more.
    pub(super) fn place(
        &mut self,
        id: u64,
        name: &str,
        client: Client,
    ) -> Result<Option<Client>, (Client, GroupError)> {
        if self.closed {
            return Err((client, GroupError::Closed));
        }
        let placed = self.new_id();
        let Some(entry) = self.entries.get_mut(name).filter(|entry| entry.id == id) else {
            return Err((client, GroupError::Unknown));
        };
        if entry.status() == ConnectionStatus::Ready {
            return Ok(Some(client));
        }
        let (left, old) = (std::mem::replace(&mut entry.placed, placed), entry.client.replace(client.clone()));
        entry.lists = Arc::default();
        entry.failure = None;
        let name = entry.name.clone();
        if old.is_some() {
            self.notify(|_| MembershipChange::Left { placed: left, name: name.clone(), announce: Vec::new() });
        }
        let connected = client
            .protocol_version()
            .map(|version| Event::Connection(ConnectionEvent::Connected { version, generation: 1 }));
        let announce: Vec<_> = connected.into_iter().chain(changes(&client)).collect();
        self.notify(|with_events| MembershipChange::Joined {
            placed,
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
        self.watched.retain(|_, servers| {
            servers.retain(|server| **server != *name);
            !servers.is_empty()
        });
        let client = entry.client?;
        let announce = changes(&client);
        self.notify(|_| MembershipChange::Left {
            placed: entry.placed,
            name: entry.name.clone(),
            announce: announce.clone(),
        });
        Some(client)
    }

    /// Refuses further servers. The watchers are dropped when all are closed.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn drop_watchers(&mut self) {
        self.watchers.clear();
    }

    pub(super) fn learn(&mut self, placed: u64, learn: impl FnOnce(&mut ListCache)) {
        if let Some(entry) = self.entries.values_mut().find(|entry| entry.placed == placed) {
            learn(Arc::make_mut(&mut entry.lists));
        }
    }

    /// The server of a tool or a prompt, or those whose lists have to be read to know.
    pub(super) fn owner(&self, kind: ListKind, name: &str) -> Owner {
        let candidates = self.candidates(name);
        if let [only] = candidates.as_slice() {
            return only.found();
        }
        let hit = candidates.iter().position(|candidate| candidate.lists(kind));
        let before = hit.unwrap_or(candidates.len());
        // The first that has a name owns it, so the lists before it must have been read; after a miss they are read anew.
        let ask = candidates[..before].iter().map(|candidate| candidate.entry).filter(|entry| {
            entry.status() == ConnectionStatus::Ready
                && entry.offers(kind)
                && (hit.is_none() || !entry.lists.is_listed(kind))
        });
        let ask: Vec<MemberRef> = ask.filter_map(|entry| entry.reference().ok()).collect();
        match hit {
            Some(at) if ask.is_empty() => candidates[at].found(),
            _ => Owner::Unsure(ask),
        }
    }

    /// The server of a tool or a prompt by all that is known. What no server lists may still be there: the longest prefix wins, of
    /// equals the first.
    pub(super) fn likely_owner(&self, naming: &Naming, kind: ListKind, name: &str) -> Owner {
        let candidates = self.candidates(name);
        let hit = candidates.iter().find(|candidate| candidate.lists(kind));
        let longest = || candidates.iter().rev().max_by_key(|candidate| candidate.entry.prefix.len());
        let likely = hit.or_else(|| longest().filter(|_| naming.is_prefixed()));
        likely.map_or(Owner::None, Candidate::found)
    }

    /// The servers that a name may belong to.
    fn candidates<'a>(&'a self, name: &'a str) -> Vec<Candidate<'a>> {
        let own = |entry: &'a MemberEntry| Some(Candidate { entry, own: name.strip_prefix(&*entry.prefix)? });
        self.entries().filter_map(own).collect()
    }

    /// The servers that are connected, or about to be again.
    pub(super) fn present(&self) -> Vec<MemberRef> {
        self.entries()
            .filter(|entry| entry.status() != ConnectionStatus::Closed)
            .filter_map(|entry| entry.reference().ok())
            .collect()
    }

    /// The servers that may have something of a kind.
    pub(super) fn reachable(&self, kind: ListKind) -> Reachable {
        let mut reachable = Reachable::default();
        for entry in self.entries() {
            match entry.reference() {
                Err(missing) => reachable.absent.push((missing.0.to_string(), missing.1)),
                Ok(_) if !entry.offers(kind) => reachable.idle += 1,
                Ok(member) => reachable.members.push(member),
            }
        }
        reachable
    }

    pub(super) fn members(&self, naming: &Naming) -> Vec<GroupMember> {
        self.entries().map(|entry| entry.member(naming)).collect()
    }

    pub(super) fn collisions(&self, naming: &Naming) -> Vec<Collision> {
        let mut claims: IndexMap<(Option<ListKind>, String), Vec<String>> = IndexMap::new();
        for entry in self.entries() {
            let mut claim = |kind, name: String| claims.entry((kind, name)).or_default().push(entry.name.to_string());
            if naming.is_prefixed() {
                claim(None, entry.prefix.to_string());
            }
            for kind in ListKind::ALL {
                let prefix = if kind.is_prefixed() { &*entry.prefix } else { "" };
                entry.lists.names(kind).for_each(|name| claim(Some(kind), format!("{prefix}{name}")));
            }
        }
        claims.sort_by(|(one, _), _, (other, _), _| one.cmp(other));
        let several = claims.into_iter().filter(|(_, servers)| servers.len() > 1);
        several
            .map(|((kind, name), servers)| {
                let kind = kind.map_or(CollisionKind::Prefix, CollisionKind::from);
                Collision { kind, name, servers }
            })
            .collect()
    }

    /// Subscribes to membership changes.
    pub(super) fn watch(&mut self) -> mpsc::UnboundedReceiver<MembershipChange> {
        self.subscribe(false)
    }

    pub(super) fn events(&mut self) -> GroupEvents {
        let changes = self.subscribe(true);
        let present = self.entries().filter(|_| !self.closed).filter_map(|entry| {
            let client = entry.client.as_ref()?;
            Some((entry.placed, entry.name.clone(), client.events()))
        });
        GroupEvents::new(changes, present)
    }

    fn subscribe(&mut self, with_events: bool) -> mpsc::UnboundedReceiver<MembershipChange> {
        let (sender, changes) = mpsc::unbounded_channel();
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

/// A server that a name may belong to, and the name that it would have there.
struct Candidate<'a> {
    entry: &'a MemberEntry,
    own: &'a str,
}

impl Candidate<'_> {
    fn lists(&self, kind: ListKind) -> bool {
        self.entry.lists.has(kind, self.own)
    }

    fn found(&self) -> Owner {
        Owner::Found(self.entry.reference(), self.own.to_owned())
    }
}

impl MemberEntry {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn client(&self) -> Option<&Client> {
        self.client.as_ref()
    }

    pub(super) fn status(&self) -> ConnectionStatus {
        self.client.as_ref().map_or(ConnectionStatus::Closed, Client::status)
    }

    pub(super) fn failure(&self) -> Option<GroupError> {
        if let Some(failure) = &self.failure {
            return Some(failure.clone());
        }
        match self.status() {
            ConnectionStatus::Ready => self.lists.failure().cloned().map(GroupError::List),
            ConnectionStatus::Closed => Some(GroupError::Disconnected),
            _ => Some(GroupError::Reconnecting),
        }
    }

    fn reference(&self) -> Found {
        let Some(client) = self.client.clone() else {
            let why = self.failure.as_ref().map(|failure| failure.call_error(&self.name));
            return Err(Box::new((
                self.name.clone(),
                why.unwrap_or(CallErrorKind::Closed(ClosedCause::NotConnected(None))),
            )));
        };
        let (name, prefix, lists) = (self.name.clone(), self.prefix.clone(), self.lists.clone());
        let is_up = client.status() == ConnectionStatus::Ready;
        Ok(MemberRef { placed: self.placed, name, prefix, client, lists, is_up })
    }

    /// Returns `true` if the server may have such a list. One that does not declare anything may have all.
    fn offers(&self, kind: ListKind) -> bool {
        let capabilities = self.client.as_ref().and_then(Client::server_capabilities);
        capabilities.is_none_or(|capabilities| kind.is_offered(&capabilities))
    }

    fn member(&self, naming: &Naming) -> GroupMember {
        GroupMember {
            name: self.name.to_string(),
            prefix: naming.is_prefixed().then(|| self.prefix.to_string()),
            status: self.status(),
            version: self.client.as_ref().and_then(Client::protocol_version),
            info: self.client.as_ref().and_then(Client::server_info),
            failure: self.failure(),
        }
    }
}

/// The changes of the group when this server joins or leaves.
fn changes(client: &Client) -> Vec<Event> {
    let capabilities = client.server_capabilities().unwrap_or_default();
    let changes = [
        (capabilities.tools.is_some(), Event::ToolsChanged),
        (capabilities.prompts.is_some(), Event::PromptsChanged),
        (capabilities.resources.is_some(), Event::ResourcesChanged),
    ];
    changes.into_iter().filter_map(|(has, change)| has.then_some(change)).collect()
}
