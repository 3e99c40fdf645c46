//! Whose something is: a tool or a prompt by its name, a resource by its URI.

use turms_proto::ErrorCode;

use super::known::{Kind, Known};
use super::many::Many;
use super::roster::{Owner, Seat};
use crate::call::error::{CallError, CallErrorKind, NoServerCause};
use crate::client::Client;
use crate::options::Timeout;

/// Where something is that has a URI.
pub(super) enum Home {
    /// At this server.
    At(Seat),
    /// At one of these, if anywhere.
    Ask(Vec<Seat>),
}

/// What tells that a server has something, the surest first.
type Sign<'a> = &'a (dyn Fn(&Known) -> bool + Sync);

impl Many {
    /// Whose a tool or a prompt is, and what it is called there.
    pub(super) async fn owner(&self, kind: Kind, name: &str, timeout: Timeout) -> Result<(Client, String), CallError> {
        let first = self.roster.lock().owner(kind, name);
        let mut failures = Vec::new();
        let owner = match first {
            Owner::Unsure(seats) => {
                failures = self.refresh(kind, seats, timeout).await;
                self.roster.lock().likely_owner(&self.naming, kind, name)
            }
            found => found,
        };
        match owner {
            Owner::Found(Ok(seat), own) => Ok((seat.client, own)),
            Owner::Found(Err(missing), _) => Err(CallError::not_sent(name, missing.1)),
            // Without prefixes, one that cannot be asked may well have it.
            Owner::Unsure(_) | Owner::Nobody if !self.naming.is_prefixed() => {
                let mut unasked = self.roster.lock().askable(kind).now();
                unasked.absent.extend(failures.into_iter().map(|(name, error)| (name, error.kind().clone())));
                Err(unasked.error(name))
            }
            Owner::Unsure(_) | Owner::Nobody => {
                Err(CallError::not_sent(name, CallErrorKind::NoServer(NoServerCause::NotFound)))
            }
        }
    }

    /// Makes a call where a resource is. If nobody is known to have it, those who have resources are asked one by one until
    /// one has.
    pub(super) async fn at_resource<T, F>(
        &self,
        uri: &str,
        timeout: Timeout,
        call: impl Fn(Seat) -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let home = self.home_of_resource(uri, timeout).await?;
        ask(uri, home, call).await
    }

    /// Makes a call where the template or the resource is that a reference names.
    pub(super) async fn at_reference<T, F>(
        &self,
        uri: &str,
        timeout: Timeout,
        call: impl Fn(Seat) -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let template = |known: &Known| known.has(Kind::Templates, uri);
        let resource = |known: &Known| known.has(Kind::Resources, uri);
        let home = self.home(uri, timeout, [&template, &resource]).await?;
        ask(uri, home, call).await
    }

    pub(super) async fn home_of_resource(&self, uri: &str, timeout: Timeout) -> Result<Home, CallError> {
        let resource = |known: &Known| known.has(Kind::Resources, uri);
        let template = |known: &Known| known.describes(uri);
        self.home(uri, timeout, [&resource, &template]).await
    }

    async fn home(&self, uri: &str, timeout: Timeout, signs: [Sign<'_>; 2]) -> Result<Home, CallError> {
        let mut askable = self.roster.lock().askable(Kind::Resources);
        if let [only] = askable.seats.as_slice() {
            return Ok(Home::At(only.clone()));
        }
        let unlisted = |kind| {
            let seats = askable.seats.iter().filter(move |seat| seat.is_up && !seat.known.is_listed(kind));
            seats.cloned().collect::<Vec<_>>()
        };
        let (resources, templates) = (unlisted(Kind::Resources), unlisted(Kind::Templates));
        if !resources.is_empty() || !templates.is_empty() {
            let resources = self.refresh(Kind::Resources, resources, timeout);
            let templates = self.refresh(Kind::Templates, templates, timeout);
            tokio::join!(resources, templates);
            askable = self.roster.lock().askable(Kind::Resources);
        }
        let found = signs.into_iter().find_map(|sign| askable.seats.iter().find(|seat| sign(&seat.known)));
        if let Some(seat) = found {
            return Ok(Home::At(seat.clone()));
        }
        let askable = askable.now();
        if askable.seats.is_empty() { Err(askable.error(uri)) } else { Ok(Home::Ask(askable.seats)) }
    }
}

async fn ask<T, F>(subject: &str, home: Home, call: impl Fn(Seat) -> F) -> Result<T, CallError>
where
    F: Future<Output = Result<T, CallError>>,
{
    let seats = match home {
        Home::At(seat) => return call(seat).await,
        Home::Ask(seats) => seats,
    };
    let mut kept: Option<CallError> = None;
    for seat in seats {
        match call(seat).await {
            // Servers say in many ways that they do not have something, so an error is no reason not to ask the next.
            Err(error) => kept = Some(telling(kept, error)),
            found => return found,
        }
    }
    Err(kept.unwrap_or_else(|| CallError::not_sent(subject, CallErrorKind::NoServer(NoServerCause::NotFound))))
}

/// Which of two errors tells more: the first that says anything but that there is no such resource.
pub(super) fn telling(kept: Option<CallError>, error: CallError) -> CallError {
    match kept {
        Some(kept) if !is_absence(&kept) || is_absence(&error) => kept,
        _ => error,
    }
}

/// Whether a server says that it has no such resource.
fn is_absence(error: &CallError) -> bool {
    let absent = |code| code == ErrorCode::METHOD_NOT_FOUND || code == ErrorCode::INVALID_PARAMS;
    error.error_response().is_some_and(|error| error.is_resource_not_found() || absent(error.code))
}
