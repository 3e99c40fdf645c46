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

/// The id of a pool member, unique in this process, across all pools.
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
    /// `true` if the member passes its health checks.
    pub healthy: bool,
    /// Number of calls in flight plus [acquired](super::Pool::acquire) clients.
    pub busy: usize,
    /// Number of calls that the pool has sent to the member. Calls of acquired clients do not count.
    pub calls: u64,
    /// Number of these calls that timed out or lost the connection. Error responses do not count.
    pub failures: u64,
}

/// A member of a pool.
pub(super) struct PoolMember {
    pub(super) id: MemberId,
    pub(super) client: Client,
    /// `true` if the pool connected this member itself and may replace it.
    pub(super) managed: bool,
    busy: AtomicUsize,
    calls: AtomicU64,
    failures: AtomicU64,
    healthy: AtomicBool,
    /// The log level that the pool set last.
    level: Mutex<Option<LoggingLevel>>,
}

/// The suitability of a member for a call. The best variant comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grade {
    Ready,
    /// The member is reconnecting: calls wait until it is connected.
    Reconnecting,
    /// The member fails its health checks.
    Unhealthy,
}

impl PoolMember {
    pub(super) fn new(client: Client, managed: bool) -> Self {
        Self {
            id: MemberId::next(),
            client,
            managed,
            busy: AtomicUsize::new(0),
            calls: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            healthy: AtomicBool::new(true),
            level: Mutex::new(None),
        }
    }

    /// Returns the suitability of the member; `None` if it is closed.
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

    /// Returns `true` if the negotiated revision has JSON-RPC batches.
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

    /// Pings the server. Returns `true` if it responds, even with an error.
    pub(super) async fn responds_to_ping(&self, timeout: Duration) -> bool {
        match self.client.ping().timeout(timeout).await {
            Ok(()) => true,
            Err(error) => error.delivery() == Delivery::Answered,
        }
    }

    pub(super) fn has_level(&self, level: LoggingLevel) -> bool {
        *self.level.lock() == Some(level)
    }

    pub(super) async fn set_level(&self, level: LoggingLevel, options: &CallOptions) -> Result<(), CallError> {
        let set = send(&self.client, SessionCall::SetLogLevel(level), options).await;
        // An error response counts too: the server would respond with the same error again.
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

/// Counts a member as busy until dropped.
pub(super) struct MemberGuard(Arc<PoolMember>);

impl MemberGuard {
    pub(super) fn new(member: &Arc<PoolMember>) -> Self {
        member.busy.fetch_add(1, Ordering::Relaxed);
        Self(member.clone())
    }

    pub(super) fn member(&self) -> &Arc<PoolMember> {
        &self.0
    }

    /// Sends a call to the member and updates its counters.
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
