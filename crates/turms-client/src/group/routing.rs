//! Routing: a tool or a prompt by its name, a resource by its URI.

use turms_proto::ErrorCode;

use super::backend::GroupShared;
use super::list_cache::{ListCache, ListKind};
use super::members::{MemberRef, Owner};
use crate::call::error::{CallError, CallErrorKind, NoServerCause};
use crate::call::options::Timeout;
use crate::client::Client;

/// The server of a resource or a template.
pub(super) enum Location {
    At(Box<MemberRef>),
    /// One of these, if any.
    AnyOf(Vec<MemberRef>),
}

/// A sign that a server has something, the surest first.
type Sign<'a> = &'a (dyn Fn(&ListCache) -> bool + Sync);

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
