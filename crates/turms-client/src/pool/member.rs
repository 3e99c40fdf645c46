use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use turms_proto::types::LoggingLevel;

use crate::call::error::{CallError, Delivery};
use crate::client::Client;
use crate::options::CallOptions;
use crate::state::Status;

/// Tells one member of a pool from all others, also from those of other pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(u64);

impl MemberId {
    fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How one member of a pool stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberStats {
    /// Which.
    pub id: MemberId,
    /// How its connection stands.
    pub status: Status,
    /// Whether it passes its health checks.
    pub healthy: bool,
    /// How many calls of the pool it has in flight, and how often it is checked out.
    pub busy: usize,
    /// How many calls the pool has made with it. What is done with a lease is not counted.
    pub calls: u64,
    /// How many of them failed for want of a connection or of an answer. An error that a server answers with is an answer.
    pub failures: u64,
}

/// A client, as its pool sees it.
pub(super) struct Member {
    pub(super) id: MemberId,
    pub(super) client: Client,
    /// Whether the pool made it, and may make another in its place.
    pub(super) made: bool,
    busy: AtomicUsize,
    calls: AtomicU64,
    failures: AtomicU64,
    healthy: AtomicBool,
    /// The log level that it was last told by the pool.
    level: Mutex<Option<LoggingLevel>>,
}

/// How good a member is for a call, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grade {
    Ready,
    /// Calls wait until it is back.
    Reconnecting,
    /// It is connected, but does not answer its health checks.
    Unhealthy,
}

impl Member {
    pub(super) fn new(client: Client, made: bool) -> Self {
        Self {
            id: MemberId::next(),
            client,
            made,
            busy: AtomicUsize::new(0),
            calls: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            healthy: AtomicBool::new(true),
            level: Mutex::new(None),
        }
    }

    /// `None` if it cannot take calls any more.
    pub(super) fn grade(&self) -> Option<Grade> {
        match self.client.status() {
            Status::Closed => None,
            _ if !self.is_healthy() => Some(Grade::Unhealthy),
            Status::Reconnecting => Some(Grade::Reconnecting),
            Status::Connected => Some(Grade::Ready),
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.client.status() == Status::Connected
    }

    pub(super) fn is_healthy(&self) -> bool {
        self.healthy.load(Ordering::Relaxed)
    }

    /// Takes note of its health; whether that is news.
    pub(super) fn set_healthy(&self, healthy: bool) -> bool {
        self.healthy.swap(healthy, Ordering::Relaxed) != healthy
    }

    pub(super) fn busy(&self) -> usize {
        self.busy.load(Ordering::Relaxed)
    }

    /// Whether it answers. An error is an answer, too.
    pub(super) async fn answers(&self, within: Duration) -> bool {
        match self.client.ping().timeout(within).await {
            Ok(()) => true,
            Err(error) => error.delivery() == Delivery::Answered,
        }
    }

    pub(super) fn has_level(&self, level: LoggingLevel) -> bool {
        *self.level.lock() == Some(level)
    }

    pub(super) async fn set_level(&self, level: LoggingLevel, options: CallOptions) -> Result<(), CallError> {
        let set = self.client.engine().set_log_level(level, options).await;
        // A server that has answered will not answer otherwise the next time.
        if set.as_ref().err().is_none_or(|error| error.delivery() == Delivery::Answered) {
            *self.level.lock() = Some(level);
        }
        set
    }

    pub(super) fn stats(&self) -> MemberStats {
        MemberStats {
            id: self.id,
            status: self.client.status(),
            healthy: self.is_healthy(),
            busy: self.busy(),
            calls: self.calls.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }
}

/// A member at work, until this is dropped.
pub(super) struct Turn(Arc<Member>);

impl Turn {
    pub(super) fn begin(member: &Arc<Member>) -> Self {
        member.busy.fetch_add(1, Ordering::Relaxed);
        Self(member.clone())
    }

    pub(super) fn member(&self) -> &Arc<Member> {
        &self.0
    }

    /// Takes note of calls that are about to be made.
    pub(super) fn count(&self, calls: usize) {
        self.0.calls.fetch_add(calls as u64, Ordering::Relaxed);
    }

    /// Takes note of how one of them went.
    pub(super) fn note<T>(&self, outcome: &Result<T, CallError>) {
        if outcome.as_ref().is_err_and(|error| error.is_disconnected() || error.is_timeout()) {
            self.0.failures.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}
