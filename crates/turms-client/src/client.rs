use std::fmt;
use std::sync::Arc;

use tokio_util::sync::DropGuard;
use turms_proto::ProtocolVersion;
use turms_proto::session::Negotiated;
use turms_proto::types::{Implementation, ServerCapabilities};

use crate::backend::Backend;
use crate::batch::Batch;
use crate::builder::ClientBuilder;
use crate::call::{CallError, CallOutput, CallRequest};
use crate::control::{ClientControl, EventInterest};
use crate::event::Events;
use crate::layer::CallService;
use crate::roots::Roots;
use crate::state::{ClientStats, PendingCall};
use turms_proto::session::ConnectionStatus;

/// A client of one server, of a pool of connections, or of a group of servers. Clones share the same connection, which
/// closes when the last clone is dropped.
///
/// ```
/// # use turms_client as turms;
/// use turms::Client;
/// # use turms_server::{Server, Tool};
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = Server::new("greeter", "1").tool(Tool::builder("hello").handler_sync(|| "Hello!")).build()?;
/// let client = Client::builder("my-app", "1.0.0").connect_service(server).await?;
/// for tool in client.list_tools().await? {
///     println!("{}", tool.display_name());
/// }
/// let greeting = client.call_tool("hello", ()).await?;
/// assert_eq!(greeting.text(), "Hello!");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Client {
    inner: Arc<ClientInner>,
}

struct ClientInner {
    backend: Arc<dyn Backend>,
    roots: Option<Roots>,
    /// Closes the backend when the last client is dropped. The tasks of the backend do not hold it.
    _shutdown: Arc<DropGuard>,
}

impl Client {
    /// Returns a builder of a client with this name and version.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(name, version)
    }

    pub(crate) fn new(backend: impl Backend, roots: Option<Roots>, shutdown: Arc<DropGuard>) -> Self {
        Self { inner: Arc::new(ClientInner { backend: Arc::new(backend), roots, _shutdown: shutdown }) }
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.inner.backend
    }

    pub(crate) fn control(&self) -> &dyn ClientControl {
        self.backend().control()
    }

    /// Returns a batch: several calls that are sent together.
    pub fn batch(&self) -> Batch {
        Batch::new(self.clone())
    }

    /// Returns a stream of events. Each stream gets all events.
    ///
    /// A server of 2026-07-28 sends changes of its lists only on request; the first call of this method requests them.
    #[must_use]
    pub fn events(&self) -> Events {
        self.control().events(EventInterest::AskServer)
    }

    /// Returns the state of the connection.
    #[must_use]
    pub fn status(&self) -> ConnectionStatus {
        self.control().status()
    }

    /// Returns the negotiated protocol revision.
    #[must_use]
    pub fn protocol_version(&self) -> Option<ProtocolVersion> {
        self.opened().map(|opened| opened.dialect.version())
    }

    /// Returns the name and version that the server reports. For display and logs.
    #[must_use]
    pub fn server_info(&self) -> Option<Implementation> {
        self.opened()?.server.as_ref()?.server_info()
    }

    /// Returns the capabilities of the server.
    #[must_use]
    pub fn server_capabilities(&self) -> Option<ServerCapabilities> {
        self.opened()?.server.as_ref().map(|server| server.capabilities.clone())
    }

    /// Returns the server's instructions for the model.
    #[must_use]
    pub fn instructions(&self) -> Option<String> {
        self.opened()?.server.as_ref()?.instructions.clone()
    }

    /// Returns the server description and the revision, as negotiated.
    #[doc(hidden)]
    #[must_use]
    pub fn opened(&self) -> Option<Arc<Negotiated>> {
        self.control().server()
    }

    /// Returns the counters of requests, notifications and bytes.
    #[must_use]
    pub fn stats(&self) -> ClientStats {
        self.control().stats()
    }

    /// Returns the pending calls, oldest first.
    #[must_use]
    pub fn pending_calls(&self) -> Vec<PendingCall> {
        self.control().pending().list()
    }

    /// Cancels a call by its [id](PendingCall::id). Returns `false` if it has ended.
    #[expect(clippy::must_use_candidate, reason = "few callers care whether it came too late")]
    pub fn cancel(&self, id: u64) -> bool {
        self.control().pending().cancel(id, None)
    }

    /// Cancels a call by its [id](PendingCall::id) and gives the server a reason. Returns `false` if the call has
    /// ended.
    #[expect(clippy::must_use_candidate, reason = "few callers care whether it came too late")]
    pub fn cancel_with_reason(&self, id: u64, reason: &str) -> bool {
        self.control().pending().cancel(id, Some(reason))
    }

    /// Cancels all pending calls. Returns their number.
    #[expect(clippy::must_use_candidate, reason = "few callers care how many there were")]
    pub fn cancel_all(&self) -> usize {
        self.pending_calls().into_iter().filter(|call| self.cancel(call.id)).count()
    }

    /// Returns the roots that the server may list, if this client has any.
    #[must_use]
    pub fn roots(&self) -> Option<Roots> {
        self.inner.roots.clone()
    }

    /// Closes the connection and waits until its resources, such as a child process, are released.
    pub async fn close(&self) {
        self.control().close().await;
    }
}

impl CallService for Client {
    async fn call(&self, call: &CallRequest) -> Result<CallOutput, CallError> {
        self.backend().call(call).await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("status", &self.status()).finish_non_exhaustive()
    }
}
