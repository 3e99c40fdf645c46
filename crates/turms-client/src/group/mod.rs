//! Several servers as one.

mod backend;
mod builder;
mod capabilities;
mod collisions;
mod connect;
mod connectors;
mod events;
mod list_cache;
mod member;
mod members;
mod merge;
mod naming;
mod routing;
mod subscriptions;

use std::fmt;
use std::sync::Arc;

use tokio_util::sync::DropGuard;
use turms_core::Connector;

use self::backend::{GroupBackend, GroupShared};
pub use self::builder::ClientGroupBuilder;
pub use self::collisions::{Collision, CollisionKind};
pub use self::events::GroupEvents;
use self::member::Origin;
pub use self::member::{GroupError, GroupMember};
use crate::builder::ClientBuilder;
use crate::client::Client;
use turms_proto::session::ConnectionStatus;

/// Several servers: each with its own client, and all of them as one [`Client`].
///
/// A server that cannot be reached, or exits, does not stop the others. Clones are the same group; it closes when the last of
/// them and of its clients is dropped.
///
/// ```
/// use turms_client::{Client, ClientGroup};
/// use turms_core::transport::LocalConnector;
/// # use turms_server::{Server, Tool};
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # let tool = |name: &str, says: &'static str| Tool::builder(name).handler_sync(move || says);
/// # let home = Server::new("home", "1").tool(tool("read", "milk, eggs")).build()?;
/// # let work = Server::new("work", "1").tool(tool("read", "call Ann")).build()?;
///
/// let group = ClientGroup::builder(Client::builder("my-app", "1.0.0"))
///     .server("home", LocalConnector::new(home))
///     .server("work", LocalConnector::new(work))
///     .connect()
///     .await;
/// assert!(group.failures().is_empty());
///
/// let client = group.as_client();
/// let names: Vec<_> = client.list_tools().await?.into_iter().map(|tool| tool.name).collect();
/// assert_eq!(names, ["home_read", "work_read"]);
/// assert_eq!(client.call_tool("work_read", ()).await?.text(), "call Ann");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
///
/// # Servers of a configuration file
///
/// [`ClientGroupBuilder::config`] takes the servers of a file such as `mcp.json`. Programs are started; for the servers that have a
/// `url`, the group needs a transport: `HttpTransport` of `turms-http` (`turms::http`, feature `http`), `WsTransport` of
/// `turms-ws` (`turms::ws`, feature `ws`).
///
/// ```no_run
/// use turms_client::{Client, ClientGroup, McpConfig};
/// use turms_http::HttpTransport;
/// use turms_ws::WsTransport;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let group = ClientGroup::builder(Client::builder("my-app", "1.0.0"))
///     .config(&McpConfig::read("mcp.json")?)
///     .transport(HttpTransport::new())
///     .transport(WsTransport::new())
///     .connect()
///     .await;
/// # Ok(())
/// # }
/// ```
///
/// # The client of the group
///
/// [`ClientGroup::as_client`] is a client as any other:
///
/// - **Lists** are those of all servers one after the other. A server that fails to list is left out; it is an error only if
///   all fail. A server that is being reconnected is not waited for.
/// - **Tools and prompts** are called by the name of their server, a separator, and their own name: `math_add`. Resources keep
///   their URIs. A call goes to the server whose name it begins with; if that could be several, their lists decide.
/// - **Resources** are read where they are listed, or described by a template. If that is nowhere, the servers that have
///   resources are asked one by one. Watching them works alike.
/// - **A ping** goes to all servers, and so do the log level (to those that log) and notifications. The error names those that failed.
/// - **Events** are those of all servers; [`ClientGroup::events`] has the names of the servers.
/// - It speaks the newest revision whatever its servers speak, can do what any of them can, and has the instructions of all.
/// - What the protocol does not define has to be sent to one server: [`ClientGroup::client`].
///
/// A name that several servers have belongs to the first; [`ClientGroup::collisions`] lists them.
#[doc(alias = "multi")]
#[doc(alias = "fleet")]
#[doc(alias = "gateway")]
#[derive(Clone)]
pub struct ClientGroup {
    shared: Arc<GroupShared>,
    /// Ends the tasks of the group on drop.
    shutdown: Arc<DropGuard>,
}

impl ClientGroup {
    /// Returns a builder. `client` is the configuration of the client of each server.
    pub fn builder(client: ClientBuilder) -> ClientGroupBuilder {
        ClientGroupBuilder::new(client)
    }

    fn new(shared: Arc<GroupShared>) -> Self {
        let shutdown = shared.lifetime.guard();
        Self { shared, shutdown }
    }

    /// The group as one client.
    #[must_use]
    pub fn as_client(&self) -> Client {
        let roots = self.shared.builder.shared_roots().cloned();
        Client::new(GroupBackend(self.shared.clone()), roots, self.shutdown.clone())
    }

    /// The client of one server; `None` if there is none of this name, or it was not reached.
    #[must_use]
    pub fn client(&self, name: &str) -> Option<Client> {
        self.shared.members.lock().get(name)?.client().cloned()
    }

    /// All servers in their order, with their state.
    #[must_use]
    pub fn servers(&self) -> Vec<GroupMember> {
        self.shared.members.lock().members(&self.shared.naming)
    }

    /// The servers that are not usable, or not completely, and why.
    #[must_use]
    pub fn failures(&self) -> Vec<(String, GroupError)> {
        let members = self.shared.members.lock();
        members.entries().filter_map(|entry| Some((entry.name().to_owned(), entry.failure()?))).collect()
    }

    /// The names that several servers have, as their lists were last read. Reading the lists of
    /// [the whole](ClientGroup::as_client) brings this up to date.
    #[must_use]
    pub fn collisions(&self) -> Vec<Collision> {
        self.shared.members.lock().collisions(&self.shared.naming)
    }

    /// A stream of events with the name of the server. Any number of tasks may take one.
    #[must_use]
    pub fn events(&self) -> GroupEvents {
        self.shared.members.lock().events()
    }

    /// Adds a server and connects to it. If that fails it still belongs to the group, and may be
    /// [reconnected](ClientGroup::reconnect) or [removed](ClientGroup::remove).
    ///
    /// # Errors
    /// When there is one of this name already, the server cannot be reached, or the group is closed.
    pub async fn add(&self, name: impl Into<String>, connector: impl Connector) -> Result<(), GroupError> {
        let name = name.into();
        self.insert(&name, Origin::Connector(Arc::new(connector)))?;
        self.shared.connect(&name).await
    }

    /// Connects to a server that could not be reached, or whose connection has ended. One that is connected, or that its
    /// supervision is about to reach again, is left as it is.
    ///
    /// The log level and the watched resources of the [whole](ClientGroup::as_client) are made anew; a client that
    /// [`ClientGroup::client`] gave before stays closed.
    ///
    /// # Errors
    /// When there is none of this name, it cannot be reached, or the group is closed.
    pub async fn reconnect(&self, name: &str) -> Result<(), GroupError> {
        if self.client(name).is_some_and(|client| client.status() != ConnectionStatus::Closed) {
            return Ok(());
        }
        self.shared.connect(name).await
    }

    /// Removes a server. Returns its client, which stays connected, if it had one.
    #[expect(clippy::must_use_candidate, reason = "it is called for what it does")]
    pub fn remove(&self, name: &str) -> Option<Client> {
        self.shared.members.lock().remove(name)
    }

    /// Closes the connections to all servers and waits until nothing of them is left.
    pub async fn close(&self) {
        self.shared.close().await;
    }

    fn insert(&self, name: &str, origin: Origin) -> Result<(), GroupError> {
        let mut members = self.shared.members.lock();
        if members.is_closed() {
            return Err(GroupError::Closed);
        }
        if members.contains(name) {
            return Err(GroupError::NameTaken);
        }
        members.insert(name, &self.shared.naming, origin, None);
        Ok(())
    }
}

impl fmt::Debug for ClientGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientGroup").field("servers", &self.servers()).finish_non_exhaustive()
    }
}
