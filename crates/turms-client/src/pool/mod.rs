//! Several connections, used as one client.

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

/// Several connections to one or more servers, used as one client. Clones are the same pool; its connections end when the
/// last of its clones and [clients](Pool::as_client) is dropped.
///
/// The members are taken to be interchangeable: every call goes to one of them, by the pool's [`PoolStrategy`]. One that is not
/// connected, or does not pass its health checks, is passed over as long as there is a better one. A call that a member
/// certainly did not send, or that is safe to repeat and was lost with the member's connection, goes to another, but to none
/// twice.
///
/// ```
/// use turms_client::{Client, Pool, PoolStrategy};
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
    /// Ends the tasks of the pool on drop.
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

    /// The pool as one client.
    ///
    /// - [Events](Client::events) are those of all members, also of those that come later. Members that lead to the same
    ///   server send the same events several times.
    /// - A [log level](Client::set_log_level) is set for all, also for those that come later. What is
    ///   [notified](Client::notify) goes to all.
    /// - A [subscription](Client::subscribe) is with one member, and moves to another when that one is lost. Changes in between are
    ///   missed.
    /// - All pages of a list come from one member. A cursor that you keep yourself may come to another: take a
    ///   [member](Pool::acquire) to turn pages by hand.
    /// - Answers are not kept for reuse, because it is not known whether the members lead to the same server.
    /// - While there is no member, and the pool makes one itself, calls wait for it.
    #[must_use]
    pub fn as_client(&self) -> Client {
        // Members that are set up alike share their roots.
        let roots = self.shared.members().iter().find_map(|member| member.client.roots());
        Client::new(PoolBackend(self.shared.clone()), roots, self.shutdown.clone())
    }

    /// Adds a member. A pool that is closed closes the client.
    #[expect(clippy::must_use_candidate, reason = "most callers only want it there")]
    pub fn add(&self, client: Client) -> MemberId {
        self.shared.add(client, false)
    }

    /// Removes a member; `None` if there is no such member. Calls in flight and leases go on with it; its connection ends when they
    /// have ended and what is returned here is dropped. One that the pool has made is not made anew.
    #[expect(clippy::must_use_candidate, reason = "most callers only want it gone")]
    pub fn remove(&self, member: MemberId) -> Option<Client> {
        self.shared.remove(member)
    }

    /// The number of members, available or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.members().len()
    }

    /// Returns `true` if there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.members().is_empty()
    }

    /// Takes a member for several calls, chosen as for one call. If none is available, this waits for one, at most for
    /// [`PoolBuilder::acquire_timeout`]. The member counts as busy until the returned client is dropped, but may still get other
    /// calls.
    ///
    /// # Errors
    /// When no member becomes available in time, or the pool is closed.
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

    /// Does some work with one member, which counts as busy until it is done.
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
    /// When no member becomes available in time, as for [`acquire`](Self::acquire).
    pub async fn with<F, W, T>(&self, work: F) -> Result<T, PoolError>
    where
        F: FnOnce(Client) -> W,
        W: Future<Output = T>,
    {
        let member = self.acquire().await?;
        Ok(work(Client::clone(&member)).await)
    }

    /// The state of the pool and its members.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.shared.pool_stats()
    }

    /// Closes all connections and waits until nothing of them is left, such as processes.
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

/// A member that was checked out of a pool, for several calls that belong together. Until it is dropped, the member counts
/// as busy.
///
/// It is a [`Client`] of that member alone: calls do not go elsewhere when it fails.
pub struct PooledClient {
    guard: MemberGuard,
}

impl PooledClient {
    /// The id of the member.
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
    /// Its members, in the order in which they came.
    pub members: Vec<MemberStats>,
    /// Number of connections that the pool makes itself and has not made yet.
    pub unconnected: usize,
    /// The error of the last attempt to make one, if it failed.
    pub last_failure: Option<ConnectError>,
    /// Number of calls that were repeated with another member.
    pub failovers: u64,
}

/// The error of a pool.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The pool was to make connections, and could make none.
    #[error("none of {tried} connections could be made")]
    Unreachable {
        /// The number of attempts.
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
