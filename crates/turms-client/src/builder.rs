use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::time::Instant;
use turms_core::transport::{ChildCommand, LocalConnector, StreamConnector};
use turms_core::{ConnectError, Connector, Service};
use turms_proto::session::{RequestOptions, VersionChoice};
use turms_proto::types::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, Implementation,
    LogMessage, LoggingLevel, ProgressParams, TASKS_EXTENSION,
};
use turms_proto::{Object, ProtocolVersion};
use turms_schema::DEFAULT_MAX_VALIDATION_STEPS;

use crate::backend::ServerBackend;
use crate::call::options::CallTimeouts;
use crate::client::Client;
use crate::connection::{ServerShared, Settings, Supervisor};
use crate::extension::{self, ClientExtension};
use crate::handlers::{Answers, HandlerError};
use crate::incoming::{Callback, IncomingHandler};
use crate::reconnect::{Backoff, CircuitBreaker, HealthCheck, RetryPolicy};
use crate::roots::Roots;
use crate::tool_index::ToolIndex;
use crate::version_cache::VersionCache;

/// A builder of a [`Client`].
#[derive(Clone)]
#[must_use]
pub struct ClientBuilder {
    settings: Settings,
    answers: Answers,
    extra: ClientCapabilities,
    on_log: Option<Callback<LogMessage>>,
    on_progress: Option<Callback<ProgressParams>>,
    trace_logs: bool,
    extensions: Vec<Arc<dyn ClientExtension>>,
    connect_timeout: Duration,
}

impl ClientBuilder {
    pub(crate) fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        let settings = Settings {
            info: Implementation::new(name, version),
            capabilities: ClientCapabilities::new(),
            choice: VersionChoice::Auto,
            probe_timeout: Duration::from_secs(3),
            handshake_timeout: Duration::from_secs(30),
            timeouts: CallTimeouts { timeout: RequestOptions::DEFAULT_TIMEOUT, max_duration: None },
            max_input_rounds: 10,
            max_validation_steps: DEFAULT_MAX_VALIDATION_STEPS,
            caching: true,
            log_level: None,
            reconnect: None,
            retry: Some(RetryPolicy::new()),
            health_check: None,
            circuit_breaker: None,
            version_cache: VersionCache::shared(),
        };
        let extra = ClientCapabilities::new();
        Self {
            settings,
            answers: Answers::new(),
            extra,
            on_log: None,
            on_progress: None,
            trace_logs: true,
            extensions: Vec::new(),
            connect_timeout: Duration::from_secs(30),
        }
    }

    /// Sets the name and version of the client with its other properties.
    pub fn info(mut self, info: Implementation) -> Self {
        self.settings.info = info;
        self
    }

    /// Which revisions to speak; whatever the server speaks unless said otherwise.
    pub fn protocol_versions(mut self, choice: VersionChoice) -> Self {
        self.settings.choice = choice;
        self
    }

    /// Speaks this revision and no other.
    pub fn protocol_version(self, version: ProtocolVersion) -> Self {
        self.protocol_versions(VersionChoice::Only(version))
    }

    /// Remembers there which revision each server speaks, rather than for the whole process.
    pub fn version_cache(mut self, memory: VersionCache) -> Self {
        self.settings.version_cache = memory;
        self
    }

    /// Timeout for the answer to `server/discover` before `initialize` is sent too, over byte streams and WebSocket (default
    /// 3 s). Silence decides nothing: the server may still be starting, and has [`handshake_timeout`](Self::handshake_timeout)
    /// from then on.
    pub fn probe_timeout(mut self, timeout: Duration) -> Self {
        self.settings.probe_timeout = timeout;
        self
    }

    /// Timeout for the first answer of a server, after [`probe_timeout`](Self::probe_timeout) where it has been probed (default
    /// 30 s).
    pub fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.settings.handshake_timeout = timeout;
        self
    }

    /// Maximum time that connecting waits for a server that does not respond, if the client [reconnects](Self::reconnect). Zero for
    /// one attempt. Default: 30 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Timeout for the answer to a call, renewed by each report of progress (default 30 s).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeouts.timeout = timeout;
        self
    }

    /// Timeout for the answer to a call that progress does not renew (default 60 minutes, or the timeout of the call if that is
    /// longer). It does not apply to subscriptions, nor to how long a task takes.
    pub fn max_duration(mut self, duration: Duration) -> Self {
        self.settings.timeouts.max_duration = Some(duration);
        self
    }

    /// Maximum number of input rounds of a call or a task. Default: 10.
    pub fn max_input_rounds(mut self, rounds: usize) -> Self {
        self.settings.max_input_rounds = rounds;
        self
    }

    /// Maximum number of steps of one validation of structured content against the output schema of its tool, 25 million by
    /// default, which are at most about a tenth of a second. A result that takes more fails the call as too expensive to
    /// validate.
    pub fn max_validation_steps(mut self, steps: u64) -> Self {
        self.settings.max_validation_steps = steps;
        self
    }

    /// Disables the response cache.
    pub fn without_cache(mut self) -> Self {
        self.settings.caching = false;
        self
    }

    /// Reconnects with this backoff when the connection is lost. Calls wait for the new connection, and calls that are safe to repeat
    /// are [retried](Self::retry). Off by default.
    pub fn reconnect(mut self, backoff: Backoff) -> Self {
        self.settings.reconnect = Some(backoff);
        self
    }

    /// Sets the retries of calls that were lost with their connection. On by default if the client [reconnects](Self::reconnect), and
    /// has no effect otherwise.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.settings.retry = Some(policy);
        self
    }

    /// Disables retries.
    pub fn without_retry(mut self) -> Self {
        self.settings.retry = None;
        self
    }

    /// Sends pings, and closes the connection when too many in a row fail. Off by default.
    pub fn health_check(mut self, check: HealthCheck) -> Self {
        self.settings.health_check = Some(check);
        self
    }

    /// Refuses calls for a while after several in a row have failed. Off by default.
    pub fn circuit_breaker(mut self, breaker: CircuitBreaker) -> Self {
        self.settings.circuit_breaker = Some(breaker);
        self
    }

    /// Sets the handlers for requests of the server.
    pub fn answers(mut self, answers: Answers) -> Self {
        self.answers = answers;
        self
    }

    /// The model: see [`Answers::sampling`].
    pub fn on_sampling<F, A>(mut self, model: F) -> Self
    where
        F: Fn(CreateMessageParams) -> A + Send + Sync + 'static,
        A: Future<Output = Result<CreateMessageResult, HandlerError>> + Send + 'static,
    {
        self.answers = self.answers.sampling(model);
        self
    }

    /// The person: see [`Answers::elicitation`].
    pub fn on_elicitation<F, A>(mut self, person: F) -> Self
    where
        F: Fn(ElicitParams) -> A + Send + Sync + 'static,
        A: Future<Output = ElicitResult> + Send + 'static,
    {
        self.answers = self.answers.elicitation(person);
        self
    }

    /// The directories and files that the server may know of: see [`Answers::roots`].
    pub fn roots(mut self, roots: impl Into<Roots>) -> Self {
        self.answers = self.answers.roots(roots);
        self
    }

    /// Declares an extension. One with an id that is none keeps the client from connecting.
    pub fn declare_extension(mut self, id: &str, settings: impl Into<Object>) -> Self {
        self.extra = self.extra.with_extension(id, settings);
        self
    }

    /// Declares an extension that hears and answers for itself. One with an id that is none, or that is there already, keeps
    /// the client from connecting.
    pub fn extension(mut self, extension: impl ClientExtension) -> Self {
        self.extensions.push(Arc::new(extension));
        self
    }

    /// Takes tasks: a server may go on with a call of a tool after it has answered, and the client asks from time to time what
    /// has come of it. That is the tasks extension of 2026-07-28. [`Client::call_tool`] waits for the result as ever, and so it
    /// does for tools of 2025-11-25 that only run as tasks and were listed before.
    pub fn enable_tasks(self) -> Self {
        self.declare_extension(TASKS_EXTENSION, Object::new())
    }

    /// Sets a callback for log messages of the server.
    pub fn on_log(mut self, callback: impl Fn(&LogMessage) + Send + Sync + 'static) -> Self {
        self.on_log = Some(Arc::new(callback));
        self
    }

    /// Sets a callback for the progress of every tool call.
    pub fn on_progress(mut self, callback: impl Fn(&ProgressParams) + Send + Sync + 'static) -> Self {
        self.on_progress = Some(Arc::new(callback));
        self
    }

    /// Sets the minimum level of log messages.
    pub fn log_level(mut self, level: LoggingLevel) -> Self {
        self.settings.log_level = Some(level);
        self
    }

    /// Does not forward log messages of the server to `tracing` (target `turms::server_log`).
    pub fn without_log_tracing(mut self) -> Self {
        self.trace_logs = false;
        self
    }

    pub(crate) fn identity(&self) -> &Implementation {
        &self.settings.info
    }
    pub(crate) fn shared_roots(&self) -> Option<&Roots> {
        self.answers.shared_roots()
    }

    /// Connects to a service in this process, such as a server's router.
    ///
    /// # Errors
    /// When the two have no revision in common.
    pub async fn connect_service(self, service: impl Service) -> Result<Client, ConnectError> {
        self.connect(LocalConnector::new(service)).await
    }

    /// Connects over a byte stream: a socket, a pipe, one end of [`memory`](turms_core::transport::memory).
    ///
    /// # Errors
    /// When the server does not answer, or the two cannot agree.
    pub async fn connect_stream(
        self,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Client, ConnectError> {
        self.connect(StreamConnector::new(reader, writer)).await
    }

    /// Starts a program and connects to it over its standard input and output.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use turms_client::{ChildCommand, Client};
    ///
    /// let command = ChildCommand::new("npx").args(["-y", "@modelcontextprotocol/server-everything"]);
    /// let client = Client::builder("my-app", "1.0.0").connect_command(command).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the program does not start, ends at once, or does not speak the protocol.
    pub async fn connect_command(self, command: ChildCommand) -> Result<Client, ConnectError> {
        self.connect(command).await
    }

    /// Connects with a connector, such as an `HttpConnector`, and waits until the client is ready.
    ///
    /// # Errors
    /// When the server cannot be reached, or the two cannot agree. With [`reconnect`](Self::reconnect), a server that does not respond
    /// is tried again until [`connect_timeout`](Self::connect_timeout).
    pub async fn connect(self, connector: impl Connector) -> Result<Client, ConnectError> {
        let deadline = Instant::now() + self.connect_timeout;
        let (client, connected) = self.spawn(connector, Some(deadline))?;
        match connected.await {
            Ok(Err(error)) => Err(error),
            _ => Ok(client),
        }
    }

    /// Connects in the background. Calls wait until the client is ready, each up to its own timeout.
    ///
    /// With [`reconnect`](Self::reconnect), a server that does not respond is tried again as the backoff says, without an end by
    /// default. Must be called in a Tokio runtime.
    ///
    /// # Errors
    /// When an extension cannot be declared.
    pub fn start(self, connector: impl Connector) -> Result<Client, ConnectError> {
        Ok(self.spawn(connector, None)?.0)
    }

    fn spawn(
        self,
        connector: impl Connector,
        deadline: Option<Instant>,
    ) -> Result<(Client, oneshot::Receiver<Result<(), ConnectError>>), ConnectError> {
        let roots = self.answers.shared_roots().cloned();
        let shared = self.shared(Arc::new(connector))?;
        let shutdown = Arc::new(shared.shutdown.clone().drop_guard());
        let connected = Supervisor::spawn(&shared, deadline);
        Ok((Client::new(ServerBackend::new(shared), roots, shutdown), connected))
    }

    /// The state of a client that is not started yet.
    pub(crate) fn shared(self, connector: Arc<dyn Connector>) -> Result<Arc<ServerShared>, ConnectError> {
        let mut settings = self.settings;
        settings.capabilities = self.answers.capabilities();
        settings.capabilities.extensions = extension::declared(self.extra.extensions, &self.extensions)?;
        let incoming = IncomingHandler {
            handlers: Arc::new(self.answers),
            events: Arc::default(),
            cache: Arc::default(),
            tools: Arc::new(ToolIndex::new(settings.max_validation_steps)),
            on_log: self.on_log,
            on_progress: self.on_progress,
            trace_logs: self.trace_logs,
            extensions: self.extensions.into(),
        };
        Ok(ServerShared::new(settings, connector, Arc::new(incoming)))
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("info", &self.settings.info).finish_non_exhaustive()
    }
}
