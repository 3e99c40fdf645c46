//! Pools: several connections, used as one client.

mod attempts;
mod backend;
mod builder;
mod maintenance;
mod member;
mod shared;
mod strategy;
mod subscriptions;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::DropGuard;
use turms_core::__internal::debug_error;
use turms_core::{CallContext, ConnectError, NotifyFuture, Request, ResponseFuture, Service};
use turms_proto::{Notification, format_duration};

use self::backend::PoolBackend;
pub use self::builder::PoolBuilder;
use self::member::MemberGuard;
pub use self::member::{MemberId, MemberStats};
use self::shared::PoolShared;
pub use self::strategy::PoolStrategy;
use crate::client::Client;

/// A pool of connections to one or more servers, used as one client. Clones share the same pool. Its connections close
/// when all clones and all [clients](Pool::as_client) of the pool are dropped.
///
/// The members must be interchangeable: each call goes to one of them, chosen by the pool's [`PoolStrategy`]. A member
/// that is disconnected, or fails its health checks, is chosen only if there is no better one. A call that fails is
/// retried with another member if it was certainly not sent, or if it is idempotent and the connection was lost. No
/// member gets the same call twice.
///
/// ```
/// # mod turms { pub use turms_client as client; pub use turms_client::{Client, Pool}; }
/// use turms::client::PoolStrategy;
/// use turms::{Client, Pool};
/// # use turms_server::{Server, Tool};
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = |name: &'static str| {
/// #     Server::new(name, "1").tool(Tool::builder("whoami").handler_sync(move || name)).build()
/// # };
/// let app = Client::builder("my-app", "1.0.0");
/// let one = app.clone().connect_service(server("one")?).await?;
/// let two = app.clone().connect_service(server("two")?).await?;
/// let pool = Pool::builder().strategy(PoolStrategy::RoundRobin).clients([one, two]).build().await?;
///
/// // The pool as one client:
/// let client = pool.as_client();
/// assert_eq!(client.call_tool("whoami", ()).await?.text(), "one");
/// assert_eq!(client.call_tool("whoami", ()).await?.text(), "two");
///
/// // Several calls to the same server:
/// let member = pool.acquire().await?;
/// assert_eq!(member.call_tool("whoami", ()).await?.text(), member.call_tool("whoami", ()).await?.text());
///
/// // Members come and go:
/// let three = pool.add(app.connect_service(server("three")?).await?);
/// assert_eq!(pool.len(), 3);
/// pool.remove(three);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Pool {
    shared: Arc<PoolShared>,
    /// Ends the tasks of the pool when the last clone is dropped.
    shutdown: Arc<DropGuard>,
}

impl Pool {
    /// Returns a builder of a pool.
    pub fn builder() -> PoolBuilder {
        PoolBuilder::new()
    }

    fn new(shared: Arc<PoolShared>) -> Self {
        let shutdown = shared.lifetime.guard();
        Self { shared, shutdown }
    }

    /// Returns a client that sends its calls to the members of the pool.
    ///
    /// - [Events](Client::events) come from all members, including members that are added later. If several members are
    ///   connected to the same server, each of them reports the same event.
    /// - A [log level](Client::set_log_level) is set on all members, including members that are added later. A
    ///   [notification](Client::notify) is sent to all members.
    /// - A [subscription](Client::subscribe) is held by one member, and moves to another when that member is lost.
    ///   Changes in between are missed.
    /// - All pages of a list come from one member. If you pass cursors yourself, [acquire](Pool::acquire) a member: the
    ///   pool may send the cursor to a member that does not know it.
    /// - Results are not cached, because the members may be connected to different servers.
    /// - If there is no member, and the pool is connecting one itself, calls wait for it.
    #[must_use]
    pub fn as_client(&self) -> Client {
        // Members with the same configuration share their roots, so those of any member will do.
        let roots = self.shared.members().iter().find_map(|member| member.client.roots());
        Client::new(PoolBackend(self.shared.clone()), roots, self.shutdown.clone())
    }

    /// Adds a member. If the pool is closed, the client is closed instead.
    #[expect(clippy::must_use_candidate, reason = "the id is needed only to remove the member")]
    pub fn add(&self, client: Client) -> MemberId {
        self.shared.add(client, false)
    }

    /// Removes a member and returns its client; `None` if there is no such member. Calls in flight and
    /// [acquired](Self::acquire) clients continue. The connection closes when they have finished and the returned
    /// client is dropped. If the pool had connected the member itself, the pool does not replace it.
    #[expect(clippy::must_use_candidate, reason = "most callers do not need the client")]
    pub fn remove(&self, member: MemberId) -> Option<Client> {
        self.shared.remove(member)
    }

    /// Returns the number of members, available or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.members().len()
    }

    /// Returns `true` if there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.members().is_empty()
    }

    /// Acquires a member for several calls, chosen by the pool's [`PoolStrategy`]. If no member is available, waits up
    /// to [`PoolBuilder::acquire_timeout`]. Acquiring is not exclusive: the member counts as busy until the returned
    /// client is dropped, but the pool may still send it other calls.
    ///
    /// # Errors
    /// Returns an error if no member becomes available in time, or the pool is closed.
    #[doc(alias = "checkout")]
    pub async fn acquire(&self) -> Result<PooledClient, PoolError> {
        let mut changes = self.shared.changes.subscribe();
        let available = async {
            loop {
                match self.shared.pick(&[], None) {
                    Some(guard) => return Ok(PooledClient { guard }),
                    None if self.shared.is_closed() => return Err(PoolError::Closed),
                    None => changes.changed().await.map_err(|_| PoolError::Closed)?,
                }
            }
        };
        let timeout = self.shared.acquire_timeout;
        tokio::time::timeout(timeout, available).await.unwrap_or(Err(PoolError::Timeout(timeout)))
    }

    /// Acquires a member and runs `work` with it. The member counts as busy until `work` finishes.
    ///
    /// ```
    /// # use turms_client::{Client, Pool};
    /// # async fn example(pool: Pool) -> Result<(), Box<dyn std::error::Error>> {
    /// let tools = pool.with(|client| async move { client.list_tools().await }).await??;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`acquire`](Self::acquire).
    pub async fn with<F, W, T>(&self, work: F) -> Result<T, PoolError>
    where
        F: FnOnce(Client) -> W,
        W: Future<Output = T>,
    {
        let member = self.acquire().await?;
        Ok(work(Client::clone(&member)).await)
    }

    /// Returns the state of the pool and its members.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.shared.pool_stats()
    }

    /// Closes all connections and waits until their resources, such as child processes, are released.
    pub async fn close(&self) {
        self.shared.close().await;
    }
}

/// A pool is a service: every call goes to one of its members.
impl Service for Pool {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        self.as_client().call(request, cx)
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        Service::notify(&self.as_client(), notification, cx)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("members", &self.stats().members).finish_non_exhaustive()
    }
}

/// A client that was [acquired](Pool::acquire) from a pool, for several calls that belong together. The member counts
/// as busy until this is dropped.
///
/// It dereferences to the [`Client`] of that member: a call that fails is not retried with another member.
pub struct PooledClient {
    guard: MemberGuard,
}

impl PooledClient {
    /// Returns the id of the member.
    #[must_use]
    pub fn member(&self) -> MemberId {
        self.guard.member().id
    }
}

impl Deref for PooledClient {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.guard.member().client
    }
}

impl fmt::Debug for PooledClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledClient").field("member", &self.member()).finish_non_exhaustive()
    }
}

/// The state of a pool.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PoolStats {
    /// The members, in the order in which they were added.
    pub members: Vec<MemberStats>,
    /// Number of connections that are missing from [`PoolBuilder::size`].
    pub unconnected: usize,
    /// Error of the last attempt to connect a missing member, if it failed.
    pub last_failure: Option<ConnectError>,
    /// Number of calls that were retried with another member.
    pub failovers: u64,
}

/// Error of building or using a [`Pool`].
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// All connection attempts of [`PoolBuilder::build`] failed.
    #[error("none of {tried} connections could be made")]
    Unreachable {
        /// Number of connection attempts.
        tried: usize,
        /// The error of the last attempt.
        #[source]
        last: ConnectError,
    },
    /// No member became available in time.
    #[error("no connection of the pool became available within {}", format_duration(*.0))]
    Timeout(Duration),
    /// The pool was closed.
    #[error("pool closed")]
    Closed,
}

debug_error! { PoolError { Unreachable { tried, last }, Timeout(limit), Closed } }

impl PoolError {
    /// Returns `true` if no connection could be made.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    /// Returns `true` if no member became available in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout(_))
    }

    /// Returns `true` if the pool was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }
}
