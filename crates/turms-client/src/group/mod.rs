//! Groups: several servers, used as one client.

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

/// A group of servers. Each has its own client, and [`as_client`](Self::as_client) combines them into one [`Client`].
///
/// A server that cannot be reached, or exits, does not affect the others. Clones share the same group. The group closes
/// when all clones and all clients returned by [`as_client`](Self::as_client) are dropped.
///
/// ```
/// # mod turms { pub use turms_client::{Client, ClientGroup}; pub use turms_core::transport; }
/// use turms::transport::LocalConnector;
/// use turms::{Client, ClientGroup};
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
/// # Servers from a configuration file
///
/// [`ClientGroupBuilder::config`] adds the servers of a file such as `mcp.json`. A server with a `command` is started
/// as a child process. A server with a `url` needs a transport: `HttpTransport` of `turms-http` (`turms::http`, feature
/// `http`), or `WsTransport` of `turms-ws` (`turms::ws`, feature `ws`).
///
/// ```no_run
/// # mod turms {
/// #     pub use turms_client::{self as client, Client, ClientGroup};
/// #     pub use turms_http as http;
/// #     pub use turms_ws as ws;
/// # }
/// use turms::client::McpConfig;
/// use turms::http::HttpTransport;
/// use turms::ws::WsTransport;
/// use turms::{Client, ClientGroup};
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
/// [`ClientGroup::as_client`] returns a normal client:
///
/// - **Lists** are the concatenated lists of all servers. A server that fails to list is left out; the call fails only
///   if all servers fail. The call does not wait for a server that is reconnecting.
/// - **Tools and prompts** have the name of their server and a separator as a prefix: `math_add`. Resources keep their
///   URIs. A call goes to the server with the matching prefix; if several match, their lists decide.
/// - **Resources** are read from the server that lists them or has a matching template. If there is none, the servers
///   with resources are tried one after the other. Subscribing to a resource works the same.
/// - **Pings** and notifications go to all servers; the log level goes to all servers that declare logging. The error
///   names the servers that failed.
/// - **Events** come from all servers. [`ClientGroup::events`] also gives the names of the servers.
/// - **Protocol version and capabilities**: the client reports the newest revision, regardless of the revisions of its
///   servers, the combined capabilities, and the concatenated instructions.
/// - **Methods outside the protocol** are not routed. Send them with the client of one server: [`ClientGroup::client`].
///
/// If several servers use the same name, the first server has it. [`ClientGroup::collisions`] lists these names.
#[doc(alias = "multi")]
#[doc(alias = "fleet")]
#[doc(alias = "gateway")]
#[derive(Clone)]
pub struct ClientGroup {
    shared: Arc<GroupShared>,
    /// Ends the tasks of the group when the last clone is dropped.
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

    /// Returns one client for all servers of the group. See [The client of the group](Self#the-client-of-the-group).
    #[must_use]
    pub fn as_client(&self) -> Client {
        let roots = self.shared.builder.shared_roots().cloned();
        Client::new(GroupBackend(self.shared.clone()), roots, self.shutdown.clone())
    }

    /// Returns the client of one server; `None` if the group has no server of this name, or it was never connected.
    #[must_use]
    pub fn client(&self, name: &str) -> Option<Client> {
        self.shared.members.lock().get(name)?.client().cloned()
    }

    /// Returns all servers, in the order in which they were added, with their state.
    #[must_use]
    pub fn servers(&self) -> Vec<GroupMember> {
        self.shared.members.lock().members(&self.shared.naming)
    }

    /// Returns the servers that are disconnected or could not be listed, with their errors.
    #[must_use]
    pub fn failures(&self) -> Vec<(String, GroupError)> {
        let members = self.shared.members.lock();
        members.entries().filter_map(|entry| Some((entry.name().to_owned(), entry.failure()?))).collect()
    }

    /// Returns the names that several servers use, according to the last lists that were read. Listing with the
    /// [client of the group](ClientGroup::as_client) updates them.
    #[must_use]
    pub fn collisions(&self) -> Vec<Collision> {
        self.shared.members.lock().collisions(&self.shared.naming)
    }

    /// Returns a stream of the events of all servers, with the name of the server. Each stream gets all events.
    #[must_use]
    pub fn events(&self) -> GroupEvents {
        self.shared.members.lock().events()
    }

    /// Adds a server and connects to it. If connecting fails, the server stays in the group:
    /// [reconnect](ClientGroup::reconnect) or [remove](ClientGroup::remove) it.
    ///
    /// # Errors
    /// Returns an error if the group has a server of this name already, the server cannot be reached, or the group is
    /// closed.
    pub async fn add(&self, name: impl Into<String>, connector: impl Connector) -> Result<(), GroupError> {
        let name = name.into();
        self.insert(&name, Origin::Connector(Arc::new(connector)))?;
        self.shared.connect(&name).await
    }

    /// Connects to a server that could not be reached, or has disconnected. Does nothing if the server is
    /// connected or its client is already reconnecting.
    ///
    /// The log level and the resource subscriptions of the [client of the group](ClientGroup::as_client) are restored.
    /// A client that [`ClientGroup::client`] returned earlier stays closed.
    ///
    /// # Errors
    /// Returns an error if the group has no server of this name, the server cannot be reached, or the group is closed.
    pub async fn reconnect(&self, name: &str) -> Result<(), GroupError> {
        if self.client(name).is_some_and(|client| client.status() != ConnectionStatus::Closed) {
            return Ok(());
        }
        self.shared.connect(name).await
    }

    /// Removes a server. Returns its client, which stays connected; `None` if the server was never connected.
    #[expect(clippy::must_use_candidate, reason = "most callers do not need the client")]
    pub fn remove(&self, name: &str) -> Option<Client> {
        self.shared.members.lock().remove(name)
    }

    /// Closes the connections to all servers and waits until their resources, such as child processes, are released.
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
