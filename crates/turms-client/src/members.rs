//! Functions and types shared by pools and groups.

use std::sync::Arc;

use crate::state::ClientStats;
use tokio::runtime::Handle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;
use turms_proto::session::ConnectionStatus;
use turms_proto::types::SubscriptionFilter;

use crate::call::{CallError, CallOptions, SessionCall};
use crate::client::Client;
use crate::layer::track::PendingCalls;
use crate::subscription::Subscription;

/// The tasks and the pending calls of a pool or a group. The tasks keep the shared state alive; they end when the last
/// [guard](Self::guard) is dropped, which only the handles hold.
#[derive(Debug)]
pub(crate) struct Lifetime {
    /// Stored because members can be added from outside a runtime.
    pub(crate) runtime: Handle,
    pub(crate) pending: PendingCalls,
    shutdown: CancellationToken,
}

impl Lifetime {
    /// # Panics
    /// Panics outside of a tokio runtime.
    pub(crate) fn new() -> Self {
        Self { runtime: Handle::current(), pending: PendingCalls::default(), shutdown: CancellationToken::new() }
    }

    /// Returns a guard that ends all tasks when it is dropped.
    pub(crate) fn guard(&self) -> Arc<DropGuard> {
        Arc::new(self.shutdown.clone().drop_guard())
    }

    /// Spawns a task that ends on shutdown or when its handle is dropped.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
        let shutdown = self.shutdown.clone();
        let task = async move { _ = shutdown.run_until_cancelled_owned(task).await };
        AbortOnDropHandle::new(self.runtime.spawn(task))
    }
}

/// Returns the sum of the counters of several clients.
pub(crate) fn total_stats<'a>(clients: impl IntoIterator<Item = &'a Client>) -> ClientStats {
    clients.into_iter().fold(ClientStats::default(), |mut sum, client| {
        let stats = client.stats();
        sum.connection += stats.connection;
        sum.lifetime += stats.lifetime;
        sum
    })
}

/// Returns the best of several statuses; `Closed` if there is none.
pub(crate) fn best_status(statuses: impl IntoIterator<Item = ConnectionStatus>) -> ConnectionStatus {
    let rank = |status: &ConnectionStatus| match status {
        ConnectionStatus::Ready => 2,
        ConnectionStatus::Closed => 0,
        _ => 1,
    };
    statuses.into_iter().max_by_key(rank).unwrap_or(ConnectionStatus::Closed)
}

/// Sends a call to a member and discards the result.
pub(crate) async fn send(client: &Client, call: SessionCall, options: &CallOptions) -> Result<(), CallError> {
    client.backend().call(&call.request().with_options(options.clone())).await.map(drop)
}

/// Opens a subscription with a member.
pub(crate) async fn listen(
    client: &Client,
    filter: SubscriptionFilter,
    options: &CallOptions,
) -> Result<Subscription, CallError> {
    let call = SessionCall::Listen(filter).request().with_options(options.clone());
    client.backend().call(&call).await?.into_subscription()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_status_is_that_of_the_most_available_member() {
        use ConnectionStatus::{Closed, Connecting, Disconnected, Ready};
        assert_eq!(best_status([Closed, Ready, Disconnected]), Ready);
        assert_eq!(best_status([Connecting, Closed]), Connecting);
        assert_eq!(best_status([Closed, Closed]), Closed);
        assert_eq!(best_status([]), Closed);
    }

    #[tokio::test]
    async fn tasks_end_when_the_guard_or_their_handle_is_dropped() {
        let lifetime = Lifetime::new();
        let guard = lifetime.guard();
        let (first, second) = (Arc::new(()), Arc::new(()));
        let hold = |held: &Arc<()>| {
            let held = held.clone();
            async move {
                let _held = held;
                std::future::pending().await
            }
        };
        let (aborted, kept) = (lifetime.spawn(hold(&first)), lifetime.spawn(hold(&second)));
        drop(aborted);
        while Arc::strong_count(&first) > 1 {
            tokio::task::yield_now().await;
        }
        assert_eq!(Arc::strong_count(&second), 2);
        drop(guard);
        kept.await.unwrap();
        assert_eq!(Arc::strong_count(&second), 1);
    }
}
