//! Routing: a tool or a prompt by its name, a resource by its URI.

use turms_proto::ErrorCode;
use turms_proto::session::ConnectionStatus;

use super::backend::GroupShared;
use super::list_cache::{ListCache, ListKind};
use super::member::{Found, MemberEntry, MemberRef};
use super::members::GroupMembers;
use super::naming::Naming;
use crate::call::error::{CallError, CallErrorKind, ClosedCause, NoServerCause};
use crate::call::options::Timeout;
use crate::client::Client;

/// The server of a resource or a template.
pub(super) enum Location {
    At(Box<MemberRef>),
    /// One of these, if any.
    AnyOf(Vec<MemberRef>),
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

/// A sign that a server has something, the surest first.
type Sign<'a> = &'a (dyn Fn(&ListCache) -> bool + Sync);

impl GroupMembers {
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
}

impl GroupShared {
    /// The server of a tool or a prompt, and its name there.
    pub(super) async fn owner(
        &self,
        kind: ListKind,
        name: &str,
        timeout: Timeout,
    ) -> Result<(Client, String), CallError> {
        let first = self.members.lock().owner(kind, name);
        let mut failures = Vec::new();
        let owner = match first {
            Owner::Unsure(members) => {
                failures = self.refresh(kind, members, timeout).await;
                self.members.lock().likely_owner(&self.naming, kind, name)
            }
            found => found,
        };
        match owner {
            Owner::Found(Ok(member), own) => Ok((member.client, own)),
            Owner::Found(Err(missing), _) => Err(CallError::not_sent(name, missing.1)),
            // Without prefixes, a server that cannot be asked may have it.
            Owner::Unsure(_) | Owner::None if !self.naming.is_prefixed() => {
                let mut reachable = self.members.lock().reachable(kind).now();
                reachable.absent.extend(failures.into_iter().map(|(name, error)| (name, error.kind().clone())));
                Err(reachable.error(name))
            }
            Owner::Unsure(_) | Owner::None => {
                Err(CallError::not_sent(name, CallErrorKind::NoServer(NoServerCause::NotFound)))
            }
        }
    }

    /// The server that lists a resource, or has a template of its URI.
    pub(super) async fn locate_resource(&self, uri: &str, timeout: Timeout) -> Result<Location, CallError> {
        let resource = |lists: &ListCache| lists.has(ListKind::Resources, uri);
        let template = |lists: &ListCache| lists.describes(uri);
        self.locate(uri, timeout, [&resource, &template]).await
    }

    /// The server that lists a template, or a resource of its form.
    pub(super) async fn locate_template(&self, uri: &str, timeout: Timeout) -> Result<Location, CallError> {
        let template = |lists: &ListCache| lists.has(ListKind::Templates, uri);
        let resource = |lists: &ListCache| lists.has(ListKind::Resources, uri);
        self.locate(uri, timeout, [&template, &resource]).await
    }

    async fn locate(&self, uri: &str, timeout: Timeout, signs: [Sign<'_>; 2]) -> Result<Location, CallError> {
        let mut reachable = self.members.lock().reachable(ListKind::Resources);
        if let [only] = reachable.members.as_slice() {
            return Ok(Location::At(Box::new(only.clone())));
        }
        let unlisted = |kind| {
            let members = reachable.members.iter().filter(move |member| member.is_up && !member.lists.is_listed(kind));
            members.cloned().collect::<Vec<_>>()
        };
        let (resources, templates) = (unlisted(ListKind::Resources), unlisted(ListKind::Templates));
        if !resources.is_empty() || !templates.is_empty() {
            let resources = self.refresh(ListKind::Resources, resources, timeout);
            let templates = self.refresh(ListKind::Templates, templates, timeout);
            tokio::join!(resources, templates);
            reachable = self.members.lock().reachable(ListKind::Resources);
        }
        let found = signs.into_iter().find_map(|sign| reachable.members.iter().find(|member| sign(&member.lists)));
        if let Some(member) = found {
            return Ok(Location::At(Box::new(member.clone())));
        }
        let reachable = reachable.now();
        match reachable.members.is_empty() {
            true => Err(reachable.error(uri)),
            false => Ok(Location::AnyOf(reachable.members)),
        }
    }
}

/// Calls the server of a resource. If none is known to have it, those with resources are tried one by one.
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
            // Servers say in many ways that they do not have something, so after any error the next is tried.
            Err(error) => failed = Some(more_telling(failed, error)),
            found => return found,
        }
    }
    Err(failed.unwrap_or_else(|| CallError::not_sent(uri, CallErrorKind::NoServer(NoServerCause::NotFound))))
}

/// The more telling of two errors: the first that is not about an unknown resource.
pub(super) fn more_telling(first: Option<CallError>, second: CallError) -> CallError {
    match first {
        Some(first) if !is_absence(&first) || is_absence(&second) => first,
        _ => second,
    }
}

/// Returns `true` if a server says that it has no such resource.
fn is_absence(error: &CallError) -> bool {
    let absent = |code| code == ErrorCode::METHOD_NOT_FOUND || code == ErrorCode::INVALID_PARAMS;
    error.error_response().is_some_and(|error| error.is_resource_not_found() || absent(error.code))
}
