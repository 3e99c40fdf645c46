use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use turms_core::{BoxFuture, ConnectError};
use turms_schema::DEFAULT_MAX_VALIDATION_STEPS;

use super::shared::PoolShared;
use super::{Pool, PoolError, PoolStrategy};
use crate::client::Client;
use crate::reconnect::HealthCheck;

/// Connects a new client.
pub(super) type Connect = Arc<dyn Fn() -> BoxFuture<'static, Result<Client, ConnectError>> + Send + Sync>;

/// A builder of a [`Pool`].
#[must_use]
pub struct PoolBuilder {
    strategy: PoolStrategy,
    clients: Vec<Client>,
    size: usize,
    connect: Option<Connect>,
    check: Option<HealthCheck>,
    max_validation_steps: u64,
    acquire_timeout: Duration,
}

impl PoolBuilder {
    pub(super) fn new() -> Self {
        let check = Some(HealthCheck::every(Duration::from_secs(30)));
        Self {
            strategy: PoolStrategy::default(),
            clients: Vec::new(),
            size: 0,
            connect: None,
            check,
            max_validation_steps: DEFAULT_MAX_VALIDATION_STEPS,
            acquire_timeout: Duration::from_secs(30),
        }
    }

    /// Sets the strategy that chooses the member of a call. Default: [`PoolStrategy::RoundRobin`].
    pub fn strategy(mut self, strategy: PoolStrategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Adds a member.
    pub fn client(mut self, client: Client) -> Self {
        self.clients.push(client);
        self
    }

    /// Adds several members.
    pub fn clients(mut self, clients: impl IntoIterator<Item = Client>) -> Self {
        self.clients.extend(clients);
        self
    }

    /// Sets the number of members that the pool connects itself, in addition to those added with
    /// [`client`](Self::client) and [`clients`](Self::clients). A member that is closed, or fails its health checks, is
    /// replaced as soon as a new connection is established.
    ///
    /// ```
    /// # use turms_client as turms;
    /// use turms::{Client, Pool};
    /// # use turms_server::{Server, Tool};
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = Server::new("greeter", "1").tool(Tool::builder("hello").handler_sync(|| "Hello!")).build()?;
    /// let app = Client::builder("my-app", "1.0.0");
    /// let pool = Pool::builder().size(4, move || app.clone().connect_service(server.clone())).build().await?;
    /// assert_eq!(pool.len(), 4);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn size<F, C>(mut self, size: usize, connect: F) -> Self
    where
        F: Fn() -> C + Send + Sync + 'static,
        C: Future<Output = Result<Client, ConnectError>> + Send + 'static,
    {
        self.size = size;
        self.connect = Some(Arc::new(move || Box::pin(connect())));
        self
    }

    /// Sets the health checks of the members. Default: every 30 s. While a member fails its checks, it gets calls only
    /// if there is no better member.
    pub fn health_check(mut self, check: HealthCheck) -> Self {
        self.check = Some(check);
        self
    }

    /// Disables health checks and the replacement of members.
    pub fn without_health_check(mut self) -> Self {
        self.check = None;
        self
    }

    /// Sets the maximum time that [`Pool::acquire`] waits for an available member. Zero: do not wait. Default: 30 s.
    pub fn acquire_timeout(mut self, timeout: Duration) -> Self {
        self.acquire_timeout = timeout;
        self
    }

    /// Sets the maximum number of steps for validating the structured content of one result. Default: 25 million.
    /// See [`ClientBuilder::max_validation_steps`](crate::ClientBuilder::max_validation_steps).
    pub fn max_validation_steps(mut self, steps: u64) -> Self {
        self.max_validation_steps = steps;
        self
    }

    /// Builds the pool and connects its [`size`](Self::size) members concurrently. Failed connections are counted in
    /// [`PoolStats::unconnected`](super::PoolStats::unconnected) and retried, unless health checks are disabled.
    ///
    /// A pool without clients and without a size is empty; members can be [added](Pool::add) later.
    ///
    /// # Errors
    /// Returns an error if all connections failed and no client was added.
    pub async fn build(self) -> Result<Pool, PoolError> {
        let results = match &self.connect {
            Some(connect) => join_all((0..self.size).map(|_| connect())).await,
            None => Vec::new(),
        };
        let tried = results.len();
        let shared =
            PoolShared::new(self.strategy, self.check, self.size, self.max_validation_steps, self.acquire_timeout);
        let pool = Pool::new(shared.clone());
        for client in self.clients {
            let managed = false;
            shared.add(client, managed);
        }
        shared.add_connected(results);
        match shared.pool_stats().last_failure {
            Some(last) if shared.members().is_empty() => return Err(PoolError::Unreachable { tried, last }),
            _ => {}
        }
        if let Some(connect) = self.connect {
            shared.start_replacing(connect);
        }
        Ok(pool)
    }
}

impl fmt::Debug for PoolBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolBuilder")
            .field("strategy", &self.strategy)
            .field("clients", &self.clients.len())
            .field("size", &self.size)
            .field("health_check", &self.check)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, count, time, when};

        let it = PoolBuilder::new();
        let check = it.check.unwrap();
        let code = [
            ("PoolBuilder::strategy", when(it.strategy == PoolStrategy::RoundRobin, "[`PoolStrategy::RoundRobin`]")),
            ("PoolBuilder::health_check", format!("every {}", time(check.interval))),
            ("PoolBuilder::acquire_timeout", time(it.acquire_timeout)),
            ("PoolBuilder::max_validation_steps", count(it.max_validation_steps)),
        ];
        assert_documented(include_str!("builder.rs"), &code);
    }
}
