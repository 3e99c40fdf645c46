use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use turms_proto::Ability;
use turms_proto::types::LoggingLevel;

use crate::call::error::{CallError, Delivery};
use crate::call::options::CallOptions;
use crate::call::{CallOutput, CallRequest, SessionCall};
use crate::client::Client;
use crate::members::send;
use turms_proto::session::ConnectionStatus;

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

/// The state of one member of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberStats {
    /// The id of the member.
    pub id: MemberId,
    /// The state of its connection.
    pub status: ConnectionStatus,
    /// It passes its health checks.
    pub healthy: bool,
    /// Calls of the pool in flight, and leases.
    pub busy: usize,
    /// Calls that the pool has sent to it, without those of leases.
    pub calls: u64,
    /// Those that failed without a connection or a response. An error response is a response.
    pub failures: u64,
}

/// A member of a pool.
pub(super) struct PoolMember {
    pub(super) id: MemberId,
    pub(super) client: Client,
    /// The pool made it, and may replace it.
    pub(super) made: bool,
    busy: AtomicUsize,
    calls: AtomicU64,
    failures: AtomicU64,
    healthy: AtomicBool,
    /// The log level that the pool set last.
    level: Mutex<Option<LoggingLevel>>,
}

/// The suitability of a member for a call, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grade {
    Ready,
    /// Calls wait until it is connected.
    Reconnecting,
    /// It is connected, but fails its health checks.
    Unhealthy,
}

impl PoolMember {
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
            ConnectionStatus::Closed => None,
            _ if !self.is_healthy() => Some(Grade::Unhealthy),
            ConnectionStatus::Ready => Some(Grade::Ready),
            _ => Some(Grade::Reconnecting),
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.client.status() == ConnectionStatus::Ready
    }

    /// Returns `true` if its revision has batches.
    pub(super) fn has_batches(&self) -> bool {
        self.client.protocol_version().is_some_and(|version| version.has(Ability::Batching))
    }

    pub(super) fn is_healthy(&self) -> bool {
        self.healthy.load(Ordering::Relaxed)
    }

    /// Sets the health. Returns `true` if it changed.
    pub(super) fn set_healthy(&self, healthy: bool) -> bool {
        self.healthy.swap(healthy, Ordering::Relaxed) != healthy
    }

    pub(super) fn busy(&self) -> usize {
        self.busy.load(Ordering::Relaxed)
    }

    /// Pings the server. Returns `true` if it responds, be it with an error.
    pub(super) async fn answers(&self, within: Duration) -> bool {
        match self.client.ping().timeout(within).await {
            Ok(()) => true,
            Err(error) => error.delivery() == Delivery::Answered,
        }
    }

    pub(super) fn has_level(&self, level: LoggingLevel) -> bool {
        *self.level.lock() == Some(level)
    }

    pub(super) async fn set_level(&self, level: LoggingLevel, options: &CallOptions) -> Result<(), CallError> {
        let set = send(&self.client, SessionCall::SetLogLevel(level), options).await;
        // A server that has responded will not respond otherwise the next time.
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

/// A member that is counted as busy until this is dropped.
pub(super) struct MemberGuard(Arc<PoolMember>);

impl MemberGuard {
    pub(super) fn new(member: &Arc<PoolMember>) -> Self {
        member.busy.fetch_add(1, Ordering::Relaxed);
        Self(member.clone())
    }

    pub(super) fn member(&self) -> &Arc<PoolMember> {
        &self.0
    }

    /// Makes a call and counts it, and its failure.
    pub(super) async fn call(&self, call: &CallRequest) -> Result<CallOutput, CallError> {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        let outcome = self.0.client.backend().call(call).await;
        if outcome.as_ref().is_err_and(|error| error.is_disconnected() || error.is_timeout()) {
            self.0.failures.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }
}

impl Drop for MemberGuard {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}
