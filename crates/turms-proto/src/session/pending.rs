use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::RequestError;
use super::running::RequestKind;
use crate::RequestId;

/// Own requests without a response, with their deadlines.
#[derive(Debug)]
pub(super) struct PendingRequests<T> {
    last_id: i64,
    /// Allocated with the first request: most servers never send requests, and there are many sessions.
    table: Option<Box<PendingTable<T>>>,
}

#[derive(Debug)]
struct PendingTable<T> {
    entries: HashMap<i64, PendingRequest<T>>,
    deadlines: BTreeSet<(Instant, i64)>,
    /// Number of subscriptions.
    subscriptions: usize,
}

impl<T> Default for PendingTable<T> {
    fn default() -> Self {
        Self { entries: HashMap::new(), deadlines: BTreeSet::new(), subscriptions: 0 }
    }
}

/// A request without a response.
#[derive(Debug)]
pub(super) struct PendingRequest<T> {
    pub(super) owner: T,
    /// `true` if the specification allows cancellation of this request.
    pub(super) cancellable: bool,
    /// `true` for `subscriptions/listen`, which ends only with the subscription.
    pub(super) is_subscription: bool,
    pub(super) wants_progress: bool,
    deadline: Option<RequestDeadline>,
}

/// Deadline of a request.
#[derive(Debug, Clone, Copy)]
struct RequestDeadline {
    current: Instant,
    /// `true` if the current deadline is the maximum, which progress does not extend.
    is_max: bool,
    /// Timeout that progress renews; `None` if there is only a maximum.
    timeout: Option<Duration>,
    /// Maximum deadline, which progress does not extend.
    max: Option<Instant>,
}

impl RequestDeadline {
    /// Returns `None` for a request without a timeout. A deadline that `Instant` cannot represent counts as none.
    fn new(options: RequestOptions, now: Instant) -> Option<Self> {
        let until = |time: Option<Duration>| time.and_then(|time| now.checked_add(time));
        let (first, max) = (until(options.timeout), until(options.max_timeout));
        let (current, is_max) = earlier(first, max)?;
        Some(Self { current, is_max, timeout: options.timeout, max })
    }

    /// Restarts the timeout, up to the maximum.
    fn renew(&mut self, now: Instant) {
        let renewed = self.timeout.and_then(|timeout| now.checked_add(timeout));
        (self.current, self.is_max) = earlier(renewed, self.max).unwrap_or((self.current, self.is_max));
    }
}

/// Returns the earlier deadline, and `true` if it is the maximum.
fn earlier(renewable: Option<Instant>, max: Option<Instant>) -> Option<(Instant, bool)> {
    match (renewable, max) {
        (Some(renewable), Some(max)) => Some((renewable.min(max), max < renewable)),
        (renewable, max) => Some((renewable.or(max)?, renewable.is_none())),
    }
}

impl<T> PendingRequest<T> {
    /// Returns the error of an expired request, after this time.
    pub(super) fn timed_out(&self, after: Duration) -> RequestError {
        match self.deadline {
            Some(RequestDeadline { is_max: true, .. }) => RequestError::MaxDuration(after),
            _ => RequestError::TimedOut(after),
        }
    }
}

/// Options of a request.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RequestOptions {
    /// Timeout for the response, restarted by each progress notification. `None` for no timeout. Default: 30 s.
    pub timeout: Option<Duration>,
    /// Timeout for the response that progress does not restart. `None` for no limit. Default: 1 h.
    pub max_timeout: Option<Duration>,
    /// `true` to request progress notifications. Default: `false`.
    pub progress: bool,
}

impl RequestOptions {
    /// The timeout, unless it is set.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

    /// The maximum timeout, unless it is set.
    pub const DEFAULT_MAX_TIMEOUT: Duration = Duration::from_secs(60 * 60);

    /// Sets the timeout.
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Sets the maximum timeout.
    #[must_use]
    pub fn max_timeout(mut self, max_timeout: impl Into<Option<Duration>>) -> Self {
        self.max_timeout = max_timeout.into();
        self
    }

    /// Removes both timeouts.
    #[must_use]
    pub fn without_timeout(self) -> Self {
        self.timeout(None).max_timeout(None)
    }

    /// Requests progress notifications.
    #[must_use]
    pub fn with_progress(mut self) -> Self {
        self.progress = true;
        self
    }
}

impl Default for RequestOptions {
    fn default() -> Self {
        Self { timeout: Some(Self::DEFAULT_TIMEOUT), max_timeout: Some(Self::DEFAULT_MAX_TIMEOUT), progress: false }
    }
}

impl<T> PendingRequests<T> {
    pub(super) fn new() -> Self {
        Self { last_id: 0, table: None }
    }

    pub(super) fn shrink(&mut self) {
        self.table.take_if(|table| table.entries.is_empty());
    }

    /// Registers a request with an id that is unique on this connection.
    pub(super) fn insert(&mut self, owner: T, kind: RequestKind, options: RequestOptions, now: Instant) -> i64 {
        self.last_id += 1;
        self.table.get_or_insert_default().insert(self.last_id, owner, kind, options, now);
        self.last_id
    }

    /// Registers a timed-out request again, under the same id, to extend its timeout.
    pub(super) fn insert_again(
        &mut self,
        id: &RequestId,
        owner: T,
        kind: RequestKind,
        options: RequestOptions,
        now: Instant,
    ) {
        if let Some(id) = own_id(id) {
            self.table.get_or_insert_default().insert(id, owner, kind, options, now);
        }
    }

    /// Removes the requests of matching owners, and returns their number.
    pub(super) fn remove_all(&mut self, of: impl Fn(&T) -> bool) -> u64 {
        let Some(table) = &mut self.table else { return 0 };
        let ids: Vec<_> = table.entries.iter().filter(|(_, entry)| of(&entry.owner)).map(|(id, _)| *id).collect();
        for id in &ids {
            table.remove(*id);
        }
        ids.len() as u64
    }

    pub(super) fn get(&self, id: &RequestId) -> Option<&PendingRequest<T>> {
        self.table.as_ref()?.entries.get(&own_id(id)?)
    }

    pub(super) fn remove(&mut self, id: &RequestId) -> Option<PendingRequest<T>> {
        self.table.as_mut()?.remove(own_id(id)?)
    }

    /// Restarts the timeout of a request after progress.
    pub(super) fn touch(&mut self, id: &RequestId, now: Instant) {
        if let (Some(table), Some(id)) = (&mut self.table, own_id(id)) {
            table.touch(id, now);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.table.as_ref()?.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Removes and returns one expired request.
    pub(super) fn expired(&mut self, now: Instant) -> Option<(RequestId, PendingRequest<T>)> {
        let table = self.table.as_mut()?;
        let (_, id) = *table.deadlines.first().filter(|(deadline, _)| *deadline <= now)?;
        table.remove(id).map(|entry| (RequestId::Number(id), entry))
    }

    pub(super) fn has_subscriptions(&self) -> bool {
        self.table.as_ref().is_some_and(|table| table.subscriptions > 0)
    }

    pub(super) fn len(&self) -> usize {
        self.table.as_ref().map_or(0, |table| table.entries.len())
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = RequestId> {
        self.table.iter().flat_map(|table| table.entries.keys()).copied().map(RequestId::Number)
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = (RequestId, PendingRequest<T>)> + use<T> {
        let all = self.table.take().into_iter().flat_map(|table| table.entries);
        all.map(|(id, entry)| (RequestId::Number(id), entry))
    }
}

impl<T> PendingTable<T> {
    fn insert(&mut self, id: i64, owner: T, kind: RequestKind, options: RequestOptions, now: Instant) {
        let deadline = RequestDeadline::new(options, now);
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline.current, id));
        }
        let (cancellable, is_subscription) = (kind != RequestKind::Handshake, kind == RequestKind::Listen);
        let entry = PendingRequest { owner, cancellable, is_subscription, wants_progress: options.progress, deadline };
        self.entries.insert(id, entry);
        self.subscriptions += usize::from(is_subscription);
    }

    fn remove(&mut self, id: i64) -> Option<PendingRequest<T>> {
        let entry = self.entries.remove(&id)?;
        self.subscriptions -= usize::from(entry.is_subscription);
        if let Some(deadline) = entry.deadline {
            self.deadlines.remove(&(deadline.current, id));
        }
        Some(entry)
    }

    fn touch(&mut self, id: i64, now: Instant) {
        let Some(deadline) = self.entries.get_mut(&id).and_then(|entry| entry.deadline.as_mut()) else { return };
        self.deadlines.remove(&(deadline.current, id));
        deadline.renew(now);
        self.deadlines.insert((deadline.current, id));
    }
}

/// Own ids are always numbers.
fn own_id(id: &RequestId) -> Option<i64> {
    match id {
        RequestId::Number(number) => Some(*number),
        RequestId::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, time, when};

        let it = RequestOptions::default();
        let code = [
            ("RequestOptions::timeout", time(it.timeout.unwrap())),
            ("RequestOptions::max_timeout", time(it.max_timeout.unwrap())),
            ("RequestOptions::progress", when(!it.progress, "`false`")),
        ];
        assert_documented(include_str!("pending.rs"), &code);
    }
}
