//! Many servers behind one face.

mod attach;
mod builder;
mod collision;
mod connector;
mod event;
mod face;
mod known;
mod list;
mod listen;
mod many;
mod member;
mod naming;
mod roster;
mod route;

use std::fmt;
use std::sync::Arc;

use turms_core::Connector;

pub use self::builder::FleetBuilder;
pub use self::collision::{Collision, CollisionKind};
pub use self::event::FleetEvents;
use self::many::Many;
use self::member::Origin;
pub use self::member::{Member, MemberError};
use crate::builder::ClientBuilder;
use crate::client::Client;
use crate::job::Engine as _;
use crate::state::Status;

/// Many servers: each on its own, and all of them behind one [`Client`].
///
/// A server that cannot be reached, or dies, does not stop the others. Clones are the same fleet; it ends when the last of
/// them and of the clients of the whole is dropped.
///
/// ```
/// use turms_client::{Client, Fleet};
/// use turms_core::transport::LocalConnector;
/// # use turms_server::{Server, Tool};
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # let tool = |name: &str, says: &'static str| Tool::builder(name).handler_sync(move || says);
/// # let home = Server::new("home", "1").tool(tool("read", "milk, eggs")).build()?;
/// # let work = Server::new("work", "1").tool(tool("read", "call Ann")).build()?;
///
/// let fleet = Fleet::builder(Client::builder("my-app", "1.0.0"))
///     .server("home", LocalConnector::new(home))
///     .server("work", LocalConnector::new(work))
///     .connect()
///     .await;
/// assert!(fleet.failures().is_empty());
///
/// let client = fleet.client();
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
/// [`FleetBuilder::config`] takes the servers of a file such as `mcp.json`. Programs are started; for the servers that have a
/// `url`, the fleet is given what speaks to them: `HttpTransport` of `turms-http` (`turms::http`, feature `http`), `WsTransport` of
/// `turms-ws` (`turms::ws`, feature `ws`).
///
/// ```no_run
/// use turms_client::{Client, Config, Fleet};
/// use turms_http::HttpTransport;
/// use turms_ws::WsTransport;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let fleet = Fleet::builder(Client::builder("my-app", "1.0.0"))
///     .config(&Config::read("mcp.json")?)
///     .transport(HttpTransport::new())
///     .transport(WsTransport::new())
///     .connect()
///     .await;
/// # Ok(())
/// # }
/// ```
///
/// # The client of the whole
///
/// [`Fleet::client`] is a client as any other. What it does:
///
/// - **Lists** are those of all servers one after the other. A server that fails to list is left out; it is an error only if
///   all fail. A server that is being reconnected is not waited for.
/// - **Tools and prompts** are called by the name of their server, a separator, and their own name: `math_add`. Resources keep
///   their URIs. A call goes to the server whose name it begins with; if that could be several, their lists decide.
/// - **Resources** are read where they are listed, or described by a template. If that is nowhere, the servers that have
///   resources are asked one by one. Watching them works alike.
/// - **A ping** goes to all servers, and so do the log level (to those that log) and notifications. The error says who failed.
/// - **Events** are those of all servers; [`Fleet::events`] says whose they are.
/// - It speaks the newest revision whatever its servers speak, can do what any of them can, and has the instructions of all.
/// - What the protocol does not define has to be asked of one server: [`Fleet::get`].
///
/// Of a name that several servers claim, the first server has it; [`Fleet::collisions`] says which those are.
#[derive(Clone)]
pub struct Fleet {
    many: Arc<Many>,
}

impl Fleet {
    /// Begins with what the client of each server is: who it says it is, what it answers, how it is supervised.
    pub fn builder(client: ClientBuilder) -> FleetBuilder {
        FleetBuilder::new(client)
    }

    fn new(many: Arc<Many>) -> Self {
        Self { many }
    }

    /// The client of the whole.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(self.many.clone())
    }

    /// The client of one server, if there is one of this name and it has been reached.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Client> {
        self.many.roster.lock().get(name)?.client().cloned()
    }

    /// All servers in their order, and how they stand.
    #[must_use]
    pub fn servers(&self) -> Vec<Member> {
        self.many.roster.lock().members(&self.many.naming)
    }

    /// The servers that are of no use now, or not of all that they could be, and why.
    #[must_use]
    pub fn failures(&self) -> Vec<(String, MemberError)> {
        let roster = self.many.roster.lock();
        roster.slots().filter_map(|slot| Some((slot.name().to_owned(), slot.failure()?))).collect()
    }

    /// The names that several servers claim, by what their lists had when they were last read. Reading the lists of
    /// [the whole](Fleet::client) brings this up to date.
    #[must_use]
    pub fn collisions(&self) -> Vec<Collision> {
        self.many.roster.lock().collisions(&self.many.naming)
    }

    /// What happens, and at which server. Any number of tasks may take a stream of their own.
    #[must_use]
    pub fn events(&self) -> FleetEvents {
        self.many.roster.lock().events()
    }

    /// Takes in one more server and connects to it. If that fails it still belongs to the fleet, and may be
    /// [reconnected](Fleet::reconnect) or [removed](Fleet::remove).
    ///
    /// # Errors
    /// When there is one of this name already, the server cannot be reached, or the fleet is closed.
    pub async fn add(&self, name: impl Into<String>, connector: impl Connector) -> Result<(), MemberError> {
        let name = name.into();
        self.enter(&name, Origin::Connector(Arc::new(connector)))?;
        self.many.attach(&name).await
    }

    /// Connects to a server that could not be reached, or whose connection has ended. One that is connected, or that its
    /// supervision is about to reach again, is left as it is.
    ///
    /// The log level and the watched resources of the [whole](Fleet::client) are made anew; a client that
    /// [`Fleet::get`] gave before stays closed.
    ///
    /// # Errors
    /// When there is none of this name, it cannot be reached, or the fleet is closed.
    pub async fn reconnect(&self, name: &str) -> Result<(), MemberError> {
        if self.get(name).is_some_and(|client| client.status() != Status::Closed) {
            return Ok(());
        }
        self.many.attach(name).await
    }

    /// Takes a server out of the fleet; its client, which stays connected, if it had one.
    #[expect(clippy::must_use_candidate, reason = "it is called for what it does")]
    pub fn remove(&self, name: &str) -> Option<Client> {
        self.many.roster.lock().remove(name)
    }

    /// Ends the connections to all servers and waits until nothing of them is left.
    pub async fn close(&self) {
        self.many.close().await;
    }

    fn enter(&self, name: &str, origin: Origin) -> Result<(), MemberError> {
        let mut roster = self.many.roster.lock();
        if roster.is_closed() {
            return Err(MemberError::FleetClosed);
        }
        if roster.contains(name) {
            return Err(MemberError::NameTaken);
        }
        roster.enter(name, &self.many.naming, origin, None);
        Ok(())
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("servers", &self.servers()).finish_non_exhaustive()
    }
}
