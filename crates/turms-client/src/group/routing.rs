//! Routing: tools and prompts by name, resources by URI.

use turms_proto::ErrorCode;
use turms_proto::session::ConnectionStatus;

use super::backend::GroupShared;
use super::list_cache::{ListCache, ListKind};
use super::member::{MemberEntry, MemberRef, MemberResult};
use super::members::GroupMembers;
use super::naming::Naming;
use crate::call::error::{CallError, CallErrorKind, ClosedCause, NoServerCause};
use crate::call::options::Timeout;
use crate::client::Client;

/// The server of a resource or a template.
pub(super) enum Location {
    /// On this server.
    At(Box<MemberRef>),
    /// Not in any list: it may be on one of these servers.
    AnyOf(Vec<MemberRef>),
}

/// The servers of a group, by their support for one kind of list.
#[derive(Default)]
pub(super) struct ListTargets {
    /// The servers that may have such a list.
    pub(super) members: Vec<MemberRef>,
    /// The servers without a connection, with the error of a call to them.
    pub(super) absent: Vec<(String, CallErrorKind)>,
    /// Number of servers that have no such list.
    pub(super) without_list: usize,
}

impl ListTargets {
    /// Moves servers that are reconnecting to `absent`, so that the call does not wait for them. If no server could
    /// handle the call then, returns the targets unchanged, so that the call waits for a connection.
    pub(super) fn connected_or_all(mut self) -> Self {
        if self.without_list == 0 && !self.members.iter().any(|member| member.is_up) {
            return self;
        }
        let (connected, away): (Vec<_>, Vec<_>) = self.members.into_iter().partition(|member| member.is_up);
        let away = away
            .into_iter()
            .map(|member| (member.name.to_string(), CallErrorKind::Closed(ClosedCause::NotConnected(None))));
        self.absent.extend(away);
        Self { members: connected, ..self }
    }

    /// Returns the error of a call that no server can handle.
    pub(super) fn error(self, target: &str) -> CallError {
        if self.absent.is_empty() {
            return CallError::not_sent(target, CallErrorKind::NoServer(NoServerCause::NotFound));
        }
        let absent = self.absent.into_iter().map(|(name, kind)| (name, CallError::not_sent(target, kind)));
        CallError::of_servers(target, absent.collect())
    }
}

/// The server that has a tool or a prompt.
pub(super) enum Owner {
    /// The server, and the name without the prefix.
    Found(MemberResult, String),
    /// One of several servers. Their lists must be read to decide.
    Ambiguous(Vec<MemberRef>),
    None,
}

/// A server that a name may belong to, because the name begins with its prefix. `own` is the rest of the name.
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

/// A check of the cached lists: `true` if the server has the resource or template.
type ListPredicate<'a> = &'a (dyn Fn(&ListCache) -> bool + Sync);

impl GroupMembers {
    /// Returns the server of a tool or a prompt, or the servers whose lists must be read to decide. If several servers
    /// have the name, it belongs to the first of them.
    pub(super) fn owner(&self, kind: ListKind, name: &str) -> Owner {
        let candidates = self.candidates(name);
        if let [only] = candidates.as_slice() {
            return only.found();
        }
        let hit = candidates.iter().position(|candidate| candidate.lists(kind));
        let before = hit.unwrap_or(candidates.len());
        // The lists of all servers before it must be known. If no cached list has the name, all are read again.
        let unknown = candidates[..before].iter().map(|candidate| candidate.entry).filter(|entry| {
            entry.status() == ConnectionStatus::Ready
                && entry.offers(kind)
                && (hit.is_none() || !entry.lists.is_listed(kind))
        });
        let unknown: Vec<MemberRef> = unknown.filter_map(|entry| entry.reference().ok()).collect();
        match hit {
            Some(at) if unknown.is_empty() => candidates[at].found(),
            _ => Owner::Ambiguous(unknown),
        }
    }

    /// Returns the server of a tool or a prompt, from the cached lists alone. If no list has the name, returns the
    /// server with the longest matching prefix: a server may have tools that it does not list.
    pub(super) fn likely_owner(&self, naming: &Naming, kind: ListKind, name: &str) -> Owner {
        let candidates = self.candidates(name);
        let hit = candidates.iter().find(|candidate| candidate.lists(kind));
        let longest = || candidates.iter().rev().max_by_key(|candidate| candidate.entry.prefix.len());
        let likely = hit.or_else(|| longest().filter(|_| naming.is_prefixed()));
        likely.map_or(Owner::None, Candidate::found)
    }

    /// Returns the servers that a name may belong to.
    fn candidates<'a>(&'a self, name: &'a str) -> Vec<Candidate<'a>> {
        let own = |entry: &'a MemberEntry| Some(Candidate { entry, own: name.strip_prefix(&*entry.prefix)? });
        self.entries().filter_map(own).collect()
    }

    /// Returns the servers that may have a kind of list, and those that have no connection.
    pub(super) fn list_targets(&self, kind: ListKind) -> ListTargets {
        let mut targets = ListTargets::default();
        for entry in self.entries() {
            match entry.reference() {
                Err(missing) => targets.absent.push((missing.0.to_string(), missing.1)),
                Ok(_) if !entry.offers(kind) => targets.without_list += 1,
                Ok(member) => targets.members.push(member),
            }
        }
        targets
    }
}

impl GroupShared {
    /// Returns the client of the server that has a tool or a prompt, and the name without the prefix.
    pub(super) async fn owner(
        &self,
        kind: ListKind,
        name: &str,
        timeout: Timeout,
    ) -> Result<(Client, String), CallError> {
        let first = self.members.lock().owner(kind, name);
        let mut failures = Vec::new();
        let owner = match first {
            Owner::Ambiguous(members) => {
                failures = self.refresh(kind, members, timeout).await;
                self.members.lock().likely_owner(&self.naming, kind, name)
            }
            found => found,
        };
        match owner {
            Owner::Found(Ok(member), own) => Ok((member.client, own)),
            Owner::Found(Err(missing), _) => Err(CallError::not_sent(name, missing.1)),
            // Without prefixes, a server that is not connected may have the name.
            Owner::Ambiguous(_) | Owner::None if !self.naming.is_prefixed() => {
                let mut targets = self.members.lock().list_targets(kind).connected_or_all();
                targets.absent.extend(failures.into_iter().map(|(name, error)| (name, error.kind().clone())));
                Err(targets.error(name))
            }
            Owner::Ambiguous(_) | Owner::None => {
                Err(CallError::not_sent(name, CallErrorKind::NoServer(NoServerCause::NotFound)))
            }
        }
    }

    /// Returns the server that lists a resource, or has a matching template.
    pub(super) async fn locate_resource(&self, uri: &str, timeout: Timeout) -> Result<Location, CallError> {
        let resource = |lists: &ListCache| lists.has(ListKind::Resources, uri);
        let template = |lists: &ListCache| lists.matches_template(uri);
        self.locate(uri, timeout, [&resource, &template]).await
    }

    /// Returns the server that lists a template, or a resource with the same string as its URI.
    pub(super) async fn locate_template(&self, uri: &str, timeout: Timeout) -> Result<Location, CallError> {
        let template = |lists: &ListCache| lists.has(ListKind::Templates, uri);
        let resource = |lists: &ListCache| lists.has(ListKind::Resources, uri);
        self.locate(uri, timeout, [&template, &resource]).await
    }

    /// Returns the first server that passes the first check, or else the first that passes the second. Reads the lists
    /// that are not cached.
    async fn locate(&self, uri: &str, timeout: Timeout, checks: [ListPredicate<'_>; 2]) -> Result<Location, CallError> {
        let mut targets = self.members.lock().list_targets(ListKind::Resources);
        if let [only] = targets.members.as_slice() {
            return Ok(Location::At(Box::new(only.clone())));
        }
        let unlisted = |kind| {
            let members = targets.members.iter().filter(move |member| member.is_up && !member.lists.is_listed(kind));
            members.cloned().collect::<Vec<_>>()
        };
        let (resources, templates) = (unlisted(ListKind::Resources), unlisted(ListKind::Templates));
        if !resources.is_empty() || !templates.is_empty() {
            let resources = self.refresh(ListKind::Resources, resources, timeout);
            let templates = self.refresh(ListKind::Templates, templates, timeout);
            tokio::join!(resources, templates);
            targets = self.members.lock().list_targets(ListKind::Resources);
        }
        let found = checks.into_iter().find_map(|has| targets.members.iter().find(|member| has(&member.lists)));
        if let Some(member) = found {
            return Ok(Location::At(Box::new(member.clone())));
        }
        let targets = targets.connected_or_all();
        match targets.members.is_empty() {
            true => Err(targets.error(uri)),
            false => Ok(Location::AnyOf(targets.members)),
        }
    }
}

/// Calls the server of a resource. If the server is not known, tries one after the other.
pub(super) async fn try_each<T, F: Future<Output = Result<T, CallError>>>(
    uri: &str,
    location: Location,
    call: impl Fn(Client) -> F,
) -> Result<T, CallError> {
    let members = match location {
        Location::At(member) => return call(member.client).await,
        Location::AnyOf(members) => members,
    };
    let mut failed: Option<CallError> = None;
    for member in members {
        match call(member.client).await {
            // Servers use different errors for an unknown resource, so the next server is tried after any error.
            Err(error) => failed = Some(more_specific(failed, error)),
            found => return found,
        }
    }
    Err(failed.unwrap_or_else(|| CallError::not_sent(uri, CallErrorKind::NoServer(NoServerCause::NotFound))))
}

/// Returns the more specific of two errors: the first that is not about an unknown resource.
pub(super) fn more_specific(first: Option<CallError>, second: CallError) -> CallError {
    match first {
        Some(first) if !is_not_found(&first) || is_not_found(&second) => first,
        _ => second,
    }
}

/// Returns `true` if the server responded that it has no such resource.
fn is_not_found(error: &CallError) -> bool {
    let absent = |code| code == ErrorCode::METHOD_NOT_FOUND || code == ErrorCode::INVALID_PARAMS;
    error.error_response().is_some_and(|error| error.is_resource_not_found() || absent(error.code))
}
