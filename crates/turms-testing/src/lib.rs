//! A client for unit tests of servers.
//!
//! ```
//! use serde_json::json;
//! use turms_proto::ProtocolVersion;
//! use turms_server::{Args, Server, Tool};
//! use turms_testing::TestClient;
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Numbers {
//!     a: i64,
//!     b: i64,
//! }
//!
//! fn server() -> Server {
//!     let add = Tool::builder("add").handler_sync(|Args(Numbers { a, b })| (a + b).to_string());
//!     Server::new("calculator", "1.0.0").tool(add)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! for version in ProtocolVersion::ALL {
//!     let client = TestClient::builder(server()).protocol_version(version).connect().await?;
//!     assert_eq!(client.call_tool("add", json!({ "a": 1, "b": 2 })).await?.text(), "3");
//! }
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use http::Extensions;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use turms_client::{Client, ClientBuilder, Event, Events, VersionCache, VersionChoice};
use turms_core::transport::memory;
use turms_core::{Connection, Error, IntoEndpoint, Principal};
use turms_proto::ProtocolVersion;

/// Timeout of [`TestClient::expect_event`].
const EVENT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client that is connected to a server in the same process. It dereferences to [`Client`].
///
/// Messages are encoded and sent over an in-memory byte stream, as with a real transport. The connection closes when
/// the client is dropped.
pub struct TestClient {
    client: Client,
    events: Mutex<Events>,
    server: AbortHandle,
}

impl TestClient {
    /// Creates a builder for a client of this server.
    pub fn builder(server: impl IntoEndpoint) -> TestClientBuilder {
        let client = Client::builder("test", "1.0.0").version_cache(VersionCache::new());
        TestClientBuilder { endpoint: server.into_endpoint(), client, extensions: Extensions::new() }
    }

    /// Connects to this server with the newest revision and default client options.
    ///
    /// # Errors
    /// Returns an error if the server cannot be built or rejects the client.
    pub async fn connect(server: impl IntoEndpoint) -> Result<Self, Error> {
        Self::builder(server).connect().await
    }

    /// Waits for an event for which `find` returns `Some`, such as a log message or a changed list, and returns its
    /// value. All events since the client connected are passed to `find`, in order. Each event is passed once: the next
    /// call continues after the event that was found.
    ///
    /// # Panics
    /// Panics if there is no such event within 10 s, or if the connection closes before it.
    pub async fn expect_event<T>(&self, mut find: impl FnMut(Event) -> Option<T>) -> T {
        let found = async {
            let mut events = self.events.lock().await;
            loop {
                let event = events.next().await.expect("the connection closed before the event");
                if let Some(found) = find(event) {
                    return found;
                }
            }
        };
        tokio::time::timeout(EVENT_TIMEOUT, found).await.expect("no such event within 10 s")
    }
}

impl Deref for TestClient {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for TestClient {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl fmt::Debug for TestClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestClient").field("client", &self.client).finish_non_exhaustive()
    }
}

/// A builder of a [`TestClient`].
#[must_use]
pub struct TestClientBuilder {
    endpoint: Result<turms_core::Endpoint, Error>,
    client: ClientBuilder,
    extensions: Extensions,
}

impl TestClientBuilder {
    /// Sets the protocol revision. Default: the newest.
    pub fn protocol_version(mut self, version: ProtocolVersion) -> Self {
        self.client = self.client.protocol_versions(VersionChoice::Only(version));
        self
    }

    /// Sets the authenticated caller, with its scopes and claims, as a guard would. Default: none.
    ///
    /// Without a principal, scopes are not checked, as over stdio. To simulate a caller over a network without a token,
    /// attach [`Remote`](turms_core::Remote) with [`extension`](Self::extension).
    ///
    /// ```
    /// # mod turms { pub use turms_server::*; pub use turms_testing as testing; }
    /// use turms::testing::TestClient;
    /// use turms::{Principal, Server, Tool};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let erase = Tool::builder("erase").scopes(["notes:write"]).handler_sync(|| "erased");
    /// let server = Server::new("notes", "1.0.0").tool(erase);
    /// let reader = Principal::new("ann").with_scopes(["notes:read"]);
    /// let client = TestClient::builder(server).principal(reader).connect().await?;
    /// let error = client.call_tool("erase", ()).await.unwrap_err();
    /// assert!(error.to_string().contains("insufficient scope: this operation needs notes:write"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn principal(self, principal: impl Into<Principal>) -> Self {
        self.extension(principal.into())
    }

    /// Attaches a value to every request, as middleware of an HTTP server would. Handlers extract it with
    /// `Extension<T>`.
    pub fn extension<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.extensions.insert(value);
        self
    }

    /// Changes the options of the client: its handlers for elicitation and sampling, roots, timeouts.
    ///
    /// ```
    /// # use turms_testing::TestClient;
    /// # fn example(server: turms_server::Server) {
    /// # use turms_proto as turms;
    /// use turms::types::ElicitResult;
    ///
    /// let builder = TestClient::builder(server)
    ///     .client(|client| client.on_form(|_, _| async { Ok(ElicitResult::accept(serde_json::json!({ "sure": true }))?) }));
    /// # let _ = builder;
    /// # }
    /// ```
    pub fn client(mut self, configure: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Self {
        self.client = configure(self.client);
        self
    }

    /// Connects to the server.
    ///
    /// # Errors
    /// Returns an error if the server cannot be built or rejects the client.
    pub async fn connect(self) -> Result<TestClient, Error> {
        let endpoint = self.endpoint?;
        let (client_end, server_end) = memory();
        let (versions, limits) = (endpoint.info().versions.clone(), endpoint.info().limits.clone());
        let (connection, _) = Connection::server(server_end.0, server_end.1, &versions, limits);
        let connection = connection.with_extensions(self.extensions);
        let server = tokio::spawn(async move { connection.serve(&endpoint).await }).abort_handle();
        let client = self.client.connect_stream(client_end.0, client_end.1).await?;
        let events = Mutex::new(client.events());
        Ok(TestClient { client, events, server })
    }
}

impl fmt::Debug for TestClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestClientBuilder").field("client", &self.client).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, when};

        let server = turms_server::Server::new("server", "1");
        let builder = TestClient::builder(server);
        let has_principal = builder.extensions.get::<Principal>().is_some();
        let client = builder.connect().await.unwrap();
        let version = client.protocol_version().unwrap();
        let code = [
            ("TestClientBuilder::protocol_version", when(ProtocolVersion::ALL.last() == Some(&version), "the newest")),
            ("TestClientBuilder::principal", when(!has_principal, "none")),
        ];
        assert_documented(include_str!("lib.rs"), &code);
    }
}
