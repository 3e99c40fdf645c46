//! Who belongs to a fleet.

use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::IndexMap;
use tokio::sync::mpsc;
use turms_proto::types::LoggingLevel;

use super::collision::{Collision, CollisionKind};
use super::event::{FleetEvents, News};
use super::known::{Kind, Known};
use super::member::{Member, MemberError, Origin};
use super::naming::Naming;
use crate::call::error::{CallError, CallErrorKind, ClosedCause, NoServerCause};
use crate::client::Client;
use crate::event::{ConnectionEvent, Event};
use crate::state::Status;

/// The servers of a fleet in their order, and what concerns them all. Guarded by one lock that is never held for long.
#[derive(Default)]
pub(super) struct Roster {
    slots: IndexMap<Arc<str>, Slot>,
    closed: bool,
    last_id: u64,
    /// What servers that come later are told, too.
    pub(super) log_level: Option<LoggingLevel>,
    /// Which resources are watched, and at which servers.
    pub(super) watched: BTreeMap<String, Vec<Arc<str>>>,
    watchers: Vec<Watcher>,
}

pub(super) struct Slot {
    /// Tells it from another that had the same name before.
    id: u64,
    /// Tells its client from another that it had before.
    placed: u64,
    name: Arc<str>,
    /// What its tools and prompts begin with; empty if names have no prefixes.
    prefix: Arc<str>,
    origin: Origin,
    client: Option<Client>,
    failure: Option<MemberError>,
    known: Arc<Known>,
}

/// A server that can be asked.
#[derive(Clone)]
pub(super) struct Seat {
    pub(super) placed: u64,
    pub(super) name: Arc<str>,
    pub(super) prefix: Arc<str>,
    pub(super) client: Client,
    pub(super) known: Arc<Known>,
    /// Whether it is connected now, and not only about to be again.
    pub(super) is_up: bool,
}

/// Who may have something.
#[derive(Default)]
pub(super) struct Askable {
    pub(super) seats: Vec<Seat>,
    /// Who cannot be asked, and why.
    pub(super) absent: Vec<(String, CallErrorKind)>,
    /// How many have no such thing.
    pub(super) idle: usize,
}

impl Askable {
    /// Who can be asked now. Those whose connection is being made anew are waited for only if there is nobody else, and
    /// count as absent otherwise.
    pub(super) fn now(mut self) -> Self {
        if self.idle == 0 && !self.seats.iter().any(|seat| seat.is_up) {
            return self;
        }
        let (up, away): (Vec<_>, Vec<_>) = self.seats.into_iter().partition(|seat| seat.is_up);
        let away = away
            .into_iter()
            .map(|seat| (seat.name.to_string(), CallErrorKind::Closed(ClosedCause::NotConnected(None))));
        self.absent.extend(away);
        Self { seats: up, ..self }
    }

    /// Nobody could be asked about `subject`.
    pub(super) fn error(self, subject: &str) -> CallError {
        if self.absent.is_empty() {
            return CallError::not_sent(subject, CallErrorKind::NoServer(NoServerCause::NotFound));
        }
        let absent = self.absent.into_iter().map(|(name, why)| (name, CallError::not_sent(subject, why)));
        CallError::of_servers(subject, absent.collect())
    }
}

/// Whose a name is.
pub(super) enum Owner {
    /// This server's, which calls it so.
    Found(Found, String),
    /// One of several; these may be asked.
    Unsure(Vec<Seat>),
    Nobody,
}

/// A server that was found, or why it cannot be used.
pub(super) type Found = Result<Seat, Box<(Arc<str>, CallErrorKind)>>;

/// Somebody who wants to hear who comes and goes.
struct Watcher {
    sender: mpsc::UnboundedSender<News>,
    /// And what happens there.
    hears: bool,
}

impl Roster {
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Takes in a server, in the place of another of the same name if there is one.
    pub(super) fn enter(&mut self, name: &str, naming: &Naming, origin: Origin, client: Option<Client>) {
        let name: Arc<str> = name.into();
        let (id, placed) = (self.new_id(), self.new_id());
        let prefix = naming.prefix_of(&name).into();
        let known = Arc::default();
        let slot = Slot { id, placed, name: name.clone(), prefix, origin, client, failure: None, known };
        self.slots.insert(name, slot);
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.slots.contains_key(name)
    }

    pub(super) fn get(&self, name: &str) -> Option<&Slot> {
        self.slots.get(name)
    }

    /// Which of the name it is, and how it is reached.
    pub(super) fn origin_of(&self, name: &str) -> Result<(u64, Origin), MemberError> {
        if self.closed {
            return Err(MemberError::FleetClosed);
        }
        self.get(name).map(|slot| (slot.id, slot.origin.clone())).ok_or(MemberError::Unknown)
    }

    pub(super) fn slots(&self) -> impl ExactSizeIterator<Item = &Slot> {
        self.slots.values()
    }

    /// Every client there is.
    pub(super) fn clients(&self) -> Vec<(Arc<str>, Client)> {
        self.slots().filter_map(|slot| Some((slot.name.clone(), slot.client.clone()?))).collect()
    }

    /// Who has no client, and why.
    pub(super) fn absent(&self) -> Vec<(String, CallErrorKind)> {
        let absent = self.slots().filter_map(|slot| slot.seat().err());
        absent.map(|missing| (missing.0.to_string(), missing.1)).collect()
    }

    pub(super) fn client_placed(&self, placed: u64) -> Option<Client> {
        self.slots().find(|slot| slot.placed == placed)?.client.clone()
    }

    /// Gives a server its client, unless it is gone or has one that works. What is not used any more comes back.
    pub(super) fn place(
        &mut self,
        id: u64,
        name: &str,
        client: Client,
    ) -> Result<Option<Client>, (Client, MemberError)> {
        if self.closed {
            return Err((client, MemberError::FleetClosed));
        }
        let placed = self.new_id();
        let Some(slot) = self.slots.get_mut(name).filter(|slot| slot.id == id) else {
            return Err((client, MemberError::Unknown));
        };
        if slot.status() == Status::Connected {
            return Ok(Some(client));
        }
        let (left, old) = (std::mem::replace(&mut slot.placed, placed), slot.client.replace(client.clone()));
        slot.known = Arc::default();
        slot.failure = None;
        let name = slot.name.clone();
        if old.is_some() {
            self.announce(|_| News::Left { placed: left, name: name.clone(), told: Vec::new() });
        }
        let connected = client
            .protocol_version()
            .map(|version| Event::Connection(ConnectionEvent::Connected { version, generation: 1 }));
        let told: Vec<_> = connected.into_iter().chain(changes(&client)).collect();
        self.announce(|hears| News::Joined {
            placed,
            name: name.clone(),
            events: hears.then(|| client.events()),
            told: told.clone(),
        });
        Ok(old)
    }

    /// A server could not be reached.
    pub(super) fn fail(&mut self, id: u64, name: &str, error: MemberError) {
        let slot = self.slots.get_mut(name).filter(|slot| slot.id == id && slot.status() != Status::Connected);
        if let Some(slot) = slot {
            slot.failure = Some(error);
        }
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Client> {
        let slot = self.slots.shift_remove(name)?;
        self.watched.retain(|_, servers| {
            servers.retain(|server| **server != *name);
            !servers.is_empty()
        });
        let client = slot.client?;
        let told = changes(&client);
        self.announce(|_| News::Left { placed: slot.placed, name: slot.name.clone(), told: told.clone() });
        Some(client)
    }

    /// No more comes in. Those who watch are let go once all is closed.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn let_watchers_go(&mut self) {
        self.watchers.clear();
    }

    pub(super) fn learn(&mut self, placed: u64, learn: impl FnOnce(&mut Known)) {
        if let Some(slot) = self.slots.values_mut().find(|slot| slot.placed == placed) {
            learn(Arc::make_mut(&mut slot.known));
        }
    }

    /// Whose a tool or a prompt is, or who has to be asked to know.
    pub(super) fn owner(&self, kind: Kind, name: &str) -> Owner {
        let candidates = self.candidates(name);
        if let [only] = candidates.as_slice() {
            return only.found();
        }
        let hit = candidates.iter().position(|candidate| candidate.lists(kind));
        let before = hit.unwrap_or(candidates.len());
        // The first that has a name has it, so those before must have been looked at; a miss is looked at anew.
        let ask = candidates[..before].iter().map(|candidate| candidate.slot).filter(|slot| {
            slot.status() == Status::Connected && slot.offers(kind) && (hit.is_none() || !slot.known.is_listed(kind))
        });
        let ask: Vec<Seat> = ask.filter_map(|slot| slot.seat().ok()).collect();
        match hit {
            Some(at) if ask.is_empty() => candidates[at].found(),
            _ => Owner::Unsure(ask),
        }
    }

    /// Whose a tool or a prompt is by all that can be known. What nobody lists may still be there, and the longest prefix
    /// says most; of equals the first counts.
    pub(super) fn likely_owner(&self, naming: &Naming, kind: Kind, name: &str) -> Owner {
        let candidates = self.candidates(name);
        let hit = candidates.iter().find(|candidate| candidate.lists(kind));
        let longest = || candidates.iter().rev().max_by_key(|candidate| candidate.slot.prefix.len());
        let likely = hit.or_else(|| longest().filter(|_| naming.is_prefixed()));
        likely.map_or(Owner::Nobody, Candidate::found)
    }

    /// Whose a name could be.
    fn candidates<'a>(&'a self, name: &'a str) -> Vec<Candidate<'a>> {
        let own = |slot: &'a Slot| Some(Candidate { slot, own: name.strip_prefix(&*slot.prefix)? });
        self.slots().filter_map(own).collect()
    }

    /// Who is connected, or about to be again.
    pub(super) fn present(&self) -> Vec<Seat> {
        self.slots().filter(|slot| slot.status() != Status::Closed).filter_map(|slot| slot.seat().ok()).collect()
    }

    /// Who may have something of a kind.
    pub(super) fn askable(&self, kind: Kind) -> Askable {
        let mut askable = Askable::default();
        for slot in self.slots() {
            match slot.seat() {
                Err(missing) => askable.absent.push((missing.0.to_string(), missing.1)),
                Ok(_) if !slot.offers(kind) => askable.idle += 1,
                Ok(seat) => askable.seats.push(seat),
            }
        }
        askable
    }

    pub(super) fn members(&self, naming: &Naming) -> Vec<Member> {
        self.slots().map(|slot| slot.member(naming)).collect()
    }

    pub(super) fn collisions(&self, naming: &Naming) -> Vec<Collision> {
        let mut claims: IndexMap<(Option<Kind>, String), Vec<String>> = IndexMap::new();
        for slot in self.slots() {
            let mut claim = |kind, name: String| claims.entry((kind, name)).or_default().push(slot.name.to_string());
            if naming.is_prefixed() {
                claim(None, slot.prefix.to_string());
            }
            for kind in Kind::ALL {
                let prefix = if kind.is_prefixed() { &*slot.prefix } else { "" };
                slot.known.names(kind).for_each(|name| claim(Some(kind), format!("{prefix}{name}")));
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

    /// Tells from now on who comes and goes.
    pub(super) fn watch(&mut self) -> mpsc::UnboundedReceiver<News> {
        self.subscribe(false)
    }

    pub(super) fn events(&mut self) -> FleetEvents {
        let news = self.subscribe(true);
        let present = self.slots().filter(|_| !self.closed).filter_map(|slot| {
            let client = slot.client.as_ref()?;
            Some((slot.placed, slot.name.clone(), client.events()))
        });
        FleetEvents::new(news, present)
    }

    fn subscribe(&mut self, hears: bool) -> mpsc::UnboundedReceiver<News> {
        let (sender, news) = mpsc::unbounded_channel();
        if !self.closed {
            self.watchers.push(Watcher { sender, hears });
        }
        news
    }

    fn announce(&mut self, news: impl Fn(bool) -> News) {
        self.watchers.retain(|watcher| watcher.sender.send(news(watcher.hears)).is_ok());
    }

    fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }
}

/// A server that a name may belong to, and what it would be called there.
struct Candidate<'a> {
    slot: &'a Slot,
    own: &'a str,
}

impl Candidate<'_> {
    fn lists(&self, kind: Kind) -> bool {
        self.slot.known.has(kind, self.own)
    }

    fn found(&self) -> Owner {
        Owner::Found(self.slot.seat(), self.own.to_owned())
    }
}

impl Slot {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn client(&self) -> Option<&Client> {
        self.client.as_ref()
    }

    pub(super) fn status(&self) -> Status {
        self.client.as_ref().map_or(Status::Closed, Client::status)
    }

    pub(super) fn failure(&self) -> Option<MemberError> {
        if let Some(failure) = &self.failure {
            return Some(failure.clone());
        }
        match self.status() {
            Status::Connected => self.known.failure().cloned().map(MemberError::List),
            Status::Reconnecting => Some(MemberError::Lost),
            Status::Closed => Some(MemberError::Ended),
        }
    }

    fn seat(&self) -> Found {
        let Some(client) = self.client.clone() else {
            let why = self.failure.as_ref().map(|failure| failure.call_error(&self.name));
            return Err(Box::new((
                self.name.clone(),
                why.unwrap_or(CallErrorKind::Closed(ClosedCause::NotConnected(None))),
            )));
        };
        let (name, prefix, known) = (self.name.clone(), self.prefix.clone(), self.known.clone());
        let is_up = client.status() == Status::Connected;
        Ok(Seat { placed: self.placed, name, prefix, client, known, is_up })
    }

    /// Whether it may have such a list. Who does not say what it has may have anything.
    fn offers(&self, kind: Kind) -> bool {
        let capabilities = self.client.as_ref().and_then(Client::server_capabilities);
        capabilities.is_none_or(|capabilities| kind.is_offered(&capabilities))
    }

    fn member(&self, naming: &Naming) -> Member {
        Member {
            name: self.name.to_string(),
            prefix: naming.is_prefixed().then(|| self.prefix.to_string()),
            status: self.status(),
            version: self.client.as_ref().and_then(Client::protocol_version),
            info: self.client.as_ref().and_then(Client::server_info),
            failure: self.failure(),
        }
    }
}

/// What changes for those who see the fleet as one server when this one comes or goes.
fn changes(client: &Client) -> Vec<Event> {
    let capabilities = client.server_capabilities().unwrap_or_default();
    let changes = [
        (capabilities.tools.is_some(), Event::ToolsChanged),
        (capabilities.prompts.is_some(), Event::PromptsChanged),
        (capabilities.resources.is_some(), Event::ResourcesChanged),
    ];
    changes.into_iter().filter_map(|(has, change)| has.then_some(change)).collect()
}
