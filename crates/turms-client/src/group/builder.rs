use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use parking_lot::Mutex;
use turms_core::{ConnectError, Connector, UrlTransport};
use turms_proto::types::Implementation;

use super::ClientGroup;
use super::backend::GroupShared;
use super::connectors::{self, Connectors};
use super::member::Origin;
use super::members::GroupMembers;
use super::naming::Naming;
use crate::builder::ClientBuilder;
use crate::client::Client;
use crate::config::{McpConfig, ServerEntry};
use crate::members::Lifetime;

/// A builder of a [`ClientGroup`].
///
/// If two servers have the same name, the last one replaces the first, so that one configuration can override another.
#[must_use]
pub struct ClientGroupBuilder {
    client: ClientBuilder,
    info: Option<Implementation>,
    naming: Naming,
    connectors: Option<Connectors>,
    transports: Vec<Arc<dyn UrlTransport>>,
    max_concurrent_connects: usize,
    connect_timeout: Duration,
    servers: IndexMap<String, (Origin, Option<Client>)>,
}

impl ClientGroupBuilder {
    pub(super) fn new(client: ClientBuilder) -> Self {
        Self {
            client,
            info: None,
            naming: Naming::default(),
            connectors: None,
            transports: Vec::new(),
            max_concurrent_connects: 16,
            connect_timeout: Duration::from_secs(60),
            servers: IndexMap::new(),
        }
    }

    /// Adds a server.
    pub fn server(self, name: impl Into<String>, connector: impl Connector) -> Self {
        self.with(name, Origin::Connector(Arc::new(connector)), None)
    }

    /// Adds a server that is already connected. Its client keeps its own handlers and reconnect policy. The group
    /// cannot [reconnect](ClientGroup::reconnect) it.
    pub fn client(self, name: impl Into<String>, client: Client) -> Self {
        self.with(name, Origin::Client, Some(client))
    }

    /// Adds all servers of a configuration that are not disabled. An invalid entry becomes a server that is not
    /// connected: see [`ClientGroup::failures`].
    ///
    /// Reads the files named by `envFile`.
    pub fn config(self, config: &McpConfig) -> Self {
        config.servers().fold(self, |group, (name, entry)| match entry {
            Ok(entry) if !entry.enabled => group,
            Ok(entry) => group.with(name, Origin::Entry(Arc::new(entry)), None),
            Err(error) if error.is_disabled() => group,
            Err(error) => group.with(name, Origin::InvalidEntry(Arc::new(error)), None),
        })
    }

    /// Adds a transport for the configured servers that have a `url`. The first transport that supports the URL is
    /// used.
    pub fn transport(mut self, transport: impl UrlTransport) -> Self {
        self.transports.push(Arc::new(transport));
        self
    }

    /// Sets a function that makes the connectors of configured servers. It replaces the default, which starts a
    /// `command` and uses the [transports](Self::transport) for a `url`. It gets the name and the entry of a server,
    /// and is called again for each [reconnect](ClientGroup::reconnect).
    ///
    /// ```
    /// use std::sync::Arc;
    /// # mod turms {
    /// #     pub use turms_client::{self as client, Client, ClientGroup};
    /// #     pub mod transport { pub use turms_core::{ConnectError, Connector}; pub use turms_core::transport::*; }
    /// # }
    ///
    /// use turms::client::{McpConfig, ServerTarget};
    /// use turms::transport::{ConnectError, Connector, LocalConnector};
    /// use turms::{Client, ClientGroup};
    /// # use turms_server::{Server, Tool};
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # let greeter = Server::new("greeter", "1").tool(Tool::builder("hello").handler_sync(|| "Hello!")).build()?;
    ///
    /// let config = McpConfig::parse(
    ///     r#"{ "mcpServers": {
    ///         "greeter": { "command": "greeter" },
    ///         "search": { "url": "https://example.com/mcp" }
    ///     } }"#,
    /// )?;
    /// let group = ClientGroup::builder(Client::builder("my-app", "1.0.0"))
    ///     .config(&config)
    ///     .connectors(move |name, entry| match &entry.target {
    ///         ServerTarget::Command { program, .. } if program == "greeter" => {
    ///             Ok(Arc::new(LocalConnector::new(greeter.clone())) as Arc<dyn Connector>)
    ///         }
    ///         _ => Err(ConnectError::unreachable(name, "only the greeter is known here")),
    ///     })
    ///     .connect()
    ///     .await;
    /// assert_eq!(group.as_client().call_tool("greeter_hello", ()).await?.text(), "Hello!");
    /// for (server, error) in group.failures() {
    ///     println!("{server} is not connected: {error}");
    /// }
    /// # assert_eq!(group.failures().len(), 1);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn connectors(
        mut self,
        connectors: impl Fn(&str, &ServerEntry) -> Result<Arc<dyn Connector>, ConnectError> + Send + Sync + 'static,
    ) -> Self {
        self.connectors = Some(Arc::new(connectors));
        self
    }

    /// Sets the separator between the name of a server and the name of its tool or prompt. Default: `_`. Characters
    /// that tool names cannot contain are replaced by `-`.
    pub fn separator(mut self, separator: impl AsRef<str>) -> Self {
        self.naming = Naming::separated_by(separator.as_ref());
        self
    }

    /// Uses names without prefixes. If several servers have a tool of the same name, the first server has it.
    pub fn without_prefixes(mut self) -> Self {
        self.naming = Naming::Bare;
        self
    }

    /// Sets the name and version that the group reports as a server. Default: those of the client.
    pub fn info(mut self, info: Implementation) -> Self {
        self.info = Some(info);
        self
    }

    /// Sets the maximum number of concurrent connection attempts. Default: 16.
    pub fn max_concurrent_connects(mut self, servers: usize) -> Self {
        self.max_concurrent_connects = servers.max(1);
        self
    }

    /// Sets the timeout for connecting to a server. Default: 1 min.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Connects to all servers. A server that cannot be reached does not affect the others: see
    /// [`ClientGroup::failures`].
    pub async fn connect(self) -> ClientGroup {
        let mut members = GroupMembers::default();
        let mut to_connect = Vec::new();
        for (name, (origin, client)) in self.servers {
            if client.is_none() {
                to_connect.push(name.clone());
            }
            members.insert(&name, &self.naming, origin, client);
        }
        let shared = Arc::new(GroupShared {
            members: Mutex::new(members),
            info: self.info.unwrap_or_else(|| self.client.identity().clone()),
            builder: self.client,
            naming: self.naming,
            connectors: self.connectors.unwrap_or_else(|| connectors::from_entries(self.transports)),
            connect_timeout: self.connect_timeout,
            lifetime: Lifetime::new(),
        });
        let group = ClientGroup::new(shared.clone());
        shared.connect_all(&to_connect, self.max_concurrent_connects).await;
        group
    }

    fn with(mut self, name: impl Into<String>, origin: Origin, client: Option<Client>) -> Self {
        self.servers.insert(name.into(), (origin, client));
        self
    }
}

impl fmt::Debug for ClientGroupBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientGroupBuilder")
            .field("client", &self.client)
            .field("servers", &self.servers.keys())
            .field("naming", &self.naming)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, count, time, when};

        let it = ClientGroupBuilder::new(Client::builder("app", "1"));
        let code = [
            (
                "ClientGroupBuilder::separator",
                when(matches!(&it.naming, Naming::Prefixed { separator } if separator == "_"), "`_`"),
            ),
            ("ClientGroupBuilder::info", when(it.info.is_none(), "those of the client")),
            ("ClientGroupBuilder::max_concurrent_connects", count(it.max_concurrent_connects)),
            ("ClientGroupBuilder::connect_timeout", time(it.connect_timeout)),
        ];
        assert_documented(include_str!("builder.rs"), &code);
    }
}
