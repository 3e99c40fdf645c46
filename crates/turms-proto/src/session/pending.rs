use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::RequestError;
use super::running::Kind;
use crate::RequestId;

/// Own requests without a response, with their deadlines.
#[derive(Debug)]
pub(super) struct Pending<T> {
    last_id: i64,
    /// Allocated with the first request: most servers never send requests, and there are many sessions.
    asked: Option<Box<Asked<T>>>,
}

#[derive(Debug)]
struct Asked<T> {
    entries: HashMap<i64, Entry<T>>,
    deadlines: BTreeSet<(Instant, i64)>,
    /// Number of subscriptions.
    lasting: usize,
}

impl<T> Default for Asked<T> {
    fn default() -> Self {
        Self { entries: HashMap::new(), deadlines: BTreeSet::new(), lasting: 0 }
    }
}

/// A request without a response.
#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) owner: T,
    /// `true` if the specification allows cancellation of this request.
    pub(super) cancellable: bool,
    /// `true` for `subscriptions/listen`, which ends only with the subscription.
    pub(super) lasting: bool,
    pub(super) wants_progress: bool,
    patience: Option<Patience>,
}

/// Deadline of a request.
#[derive(Debug, Clone, Copy)]
struct Patience {
    deadline: Instant,
    /// Whether the deadline is the one that no progress can move.
    is_last: bool,
    /// What every report of progress grants anew; nothing if only all waiting is limited.
    timeout: Option<Duration>,
    /// Maximum deadline, which progress does not extend.
    last: Option<Instant>,
}

impl Patience {
    /// `None` for whoever waits for ever. A deadline beyond all time is none.
    fn new(options: RequestOptions, now: Instant) -> Option<Self> {
        let until = |time: Option<Duration>| time.and_then(|time| now.checked_add(time));
        let (first, last) = (until(options.timeout), until(options.max_timeout));
        let (deadline, is_last) = earlier(first, last)?;
        Some(Self { deadline, is_last, timeout: options.timeout, last })
    }

    /// Restarts the timeout, up to the maximum.
    fn renew(&mut self, now: Instant) {
        let granted = self.timeout.and_then(|timeout| now.checked_add(timeout));
        (self.deadline, self.is_last) = earlier(granted, self.last).unwrap_or((self.deadline, self.is_last));
    }
}

/// Returns the earlier deadline, and `true` if it is the maximum.
fn earlier(first: Option<Instant>, last: Option<Instant>) -> Option<(Instant, bool)> {
    match (first, last) {
        (Some(first), Some(last)) => Some((first.min(last), last < first)),
        (first, last) => Some((first.or(last)?, first.is_none())),
    }
}

impl<T> Entry<T> {
    /// The error of a request whose deadline has passed after this time.
    pub(super) fn timed_out(&self, after: Duration) -> RequestError {
        match self.patience {
            Some(Patience { is_last: true, .. }) => RequestError::MaxDuration(after),
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
    /// Timeout for the response that progress does not restart. `None` for no limit. Default: 1 hour.
    pub max_timeout: Option<Duration>,
    /// `true` to request progress notifications. Default: `false`.
    pub progress: bool,
}

impl RequestOptions {
    /// Default timeout: 30 s.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

    /// Default maximum timeout: 1 hour.
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
    pub fn for_ever(self) -> Self {
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

impl<T> Pending<T> {
    pub(super) fn new() -> Self {
        Self { last_id: 0, asked: None }
    }

    pub(super) fn rest(&mut self) {
        self.asked.take_if(|asked| asked.entries.is_empty());
    }

    /// Registers a request with an id that is unique on this connection.
    pub(super) fn insert(&mut self, owner: T, kind: Kind, options: RequestOptions, now: Instant) -> i64 {
        self.last_id += 1;
        self.asked.get_or_insert_default().insert(self.last_id, owner, kind, options, now);
        self.last_id
    }

    /// Registers a timed-out request again, under the same id, to extend its timeout.
    pub(super) fn insert_again(&mut self, id: &RequestId, owner: T, kind: Kind, options: RequestOptions, now: Instant) {
        if let Some(id) = own_id(id) {
            self.asked.get_or_insert_default().insert(id, owner, kind, options, now);
        }
    }

    /// Removes the requests of matching owners, and returns their number.
    pub(super) fn remove_all(&mut self, of: impl Fn(&T) -> bool) -> u64 {
        let Some(asked) = &mut self.asked else { return 0 };
        let ids: Vec<_> = asked.entries.iter().filter(|(_, entry)| of(&entry.owner)).map(|(id, _)| *id).collect();
        for id in &ids {
            asked.remove(*id);
        }
        ids.len() as u64
    }

    pub(super) fn get(&self, id: &RequestId) -> Option<&Entry<T>> {
        self.asked.as_ref()?.entries.get(&own_id(id)?)
    }

    pub(super) fn remove(&mut self, id: &RequestId) -> Option<Entry<T>> {
        self.asked.as_mut()?.remove(own_id(id)?)
    }

    /// Restarts the timeout of a request after progress.
    pub(super) fn touch(&mut self, id: &RequestId, now: Instant) {
        if let (Some(asked), Some(id)) = (&mut self.asked, own_id(id)) {
            asked.touch(id, now);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.asked.as_ref()?.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Removes and returns one request whose deadline has passed.
    pub(super) fn expired(&mut self, now: Instant) -> Option<(RequestId, Entry<T>)> {
        let asked = self.asked.as_mut()?;
        let (_, id) = *asked.deadlines.first().filter(|(deadline, _)| *deadline <= now)?;
        asked.remove(id).map(|entry| (RequestId::Number(id), entry))
    }

    pub(super) fn has_lasting(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| asked.lasting > 0)
    }

    pub(super) fn len(&self) -> usize {
        self.asked.as_ref().map_or(0, |asked| asked.entries.len())
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = RequestId> {
        self.asked.iter().flat_map(|asked| asked.entries.keys()).copied().map(RequestId::Number)
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = (RequestId, Entry<T>)> + use<T> {
        let all = self.asked.take().into_iter().flat_map(|asked| asked.entries);
        all.map(|(id, entry)| (RequestId::Number(id), entry))
    }
}

impl<T> Asked<T> {
    fn insert(&mut self, id: i64, owner: T, kind: Kind, options: RequestOptions, now: Instant) {
        let patience = Patience::new(options, now);
        if let Some(patience) = patience {
            self.deadlines.insert((patience.deadline, id));
        }
        let (cancellable, lasting) = (kind != Kind::Handshake, kind == Kind::Listen);
        let entry = Entry { owner, cancellable, lasting, wants_progress: options.progress, patience };
        self.entries.insert(id, entry);
        self.lasting += usize::from(lasting);
    }

    fn remove(&mut self, id: i64) -> Option<Entry<T>> {
        let entry = self.entries.remove(&id)?;
        self.lasting -= usize::from(entry.lasting);
        if let Some(patience) = entry.patience {
            self.deadlines.remove(&(patience.deadline, id));
        }
        Some(entry)
    }

    fn touch(&mut self, id: i64, now: Instant) {
        let Some(patience) = self.entries.get_mut(&id).and_then(|entry| entry.patience.as_mut()) else { return };
        self.deadlines.remove(&(patience.deadline, id));
        patience.renew(now);
        self.deadlines.insert((patience.deadline, id));
    }
}

/// Own ids are always numbers.
fn own_id(id: &RequestId) -> Option<i64> {
    match id {
        RequestId::Number(number) => Some(*number),
        RequestId::String(_) => None,
    }
}
