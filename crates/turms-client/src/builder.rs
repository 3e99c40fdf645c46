use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::time::Instant;
use turms_core::__internal::ConnectClient;
use turms_core::transport::{ChildCommand, LocalConnector, StreamConnector};
use turms_core::{ConnectError, Connector, Service};
use turms_proto::session::{RequestOptions, VersionChoice};
use turms_proto::types::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitForm, ElicitParams, ElicitResult, ElicitUrl,
    Implementation, LogMessage, LoggingLevel, ProgressParams, TASKS_EXTENSION,
};
use turms_proto::{Object, ProtocolVersion};
use turms_schema::DEFAULT_MAX_VALIDATION_STEPS;

use crate::backend::ServerBackend;
use crate::call::options::CallTimeouts;
use crate::client::Client;
use crate::connection::{ServerShared, Settings, Supervisor};
use crate::extension::{self, ClientExtension};
use crate::handler_error::HandlerError;
use crate::handlers::ClientHandlers;
use crate::incoming::{Callback, IncomingHandler};
use crate::reconnect::{Backoff, CircuitBreaker, HealthCheck, RetryPolicy};
use crate::request_context::{CurrentServer, RequestContext};
use crate::roots::Roots;
use crate::tool_index::ToolIndex;
use crate::version_cache::VersionCache;

/// A builder of a [`Client`].
#[derive(Clone)]
#[must_use]
pub struct ClientBuilder {
    settings: Settings,
    handlers: ClientHandlers,
    server_name: Option<String>,
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
            handlers: ClientHandlers::default(),
            server_name: None,
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

    /// Sets the protocol revisions that the client accepts. Default: all.
    pub fn protocol_versions(mut self, choice: VersionChoice) -> Self {
        self.settings.choice = choice;
        self
    }

    /// Accepts only this protocol revision.
    pub fn protocol_version(self, version: ProtocolVersion) -> Self {
        self.protocol_versions(VersionChoice::Only(version))
    }

    /// Sets the cache of the protocol revisions of servers. Default: one cache for the process.
    pub fn version_cache(mut self, memory: VersionCache) -> Self {
        self.settings.version_cache = memory;
        self
    }

    /// Timeout for the response to `server/discover` before `initialize` is sent as well, over byte streams and
    /// WebSocket. From then on the server has [`handshake_timeout`](Self::handshake_timeout) to respond to either.
    /// Default: 3 s.
    pub fn probe_timeout(mut self, timeout: Duration) -> Self {
        self.settings.probe_timeout = timeout;
        self
    }

    /// Timeout for the first response of a server, after [`probe_timeout`](Self::probe_timeout) if the server is
    /// probed. Default: 30 s.
    pub fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.settings.handshake_timeout = timeout;
        self
    }

    /// Maximum time that connecting waits for a server that does not respond, if the client
    /// [reconnects](Self::reconnect). The time in which an authorizer works, such as for a login, does not count. Zero
    /// for one attempt. Default: 30 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Timeout for the response to a call, renewed by each report of progress. Default: 30 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeouts.timeout = timeout;
        self
    }

    /// Timeout for the response to a call that progress does not renew. It does not apply to subscriptions, nor to the
    /// time that a task takes. Default: 1 h; at least the timeout of the call.
    pub fn max_duration(mut self, duration: Duration) -> Self {
        self.settings.timeouts.max_duration = Some(duration);
        self
    }

    /// Maximum number of input rounds of a call or a task. Default: 10.
    pub fn max_input_rounds(mut self, rounds: usize) -> Self {
        self.settings.max_input_rounds = rounds;
        self
    }

    /// Maximum number of steps for validating structured content against the output schema of its tool. A result that
    /// needs more fails the call. Default: 25 million; they take about 0.1 s.
    pub fn max_validation_steps(mut self, steps: u64) -> Self {
        self.settings.max_validation_steps = steps;
        self
    }

    /// Disables the response cache. It is enabled by default, and keeps responses as long as the server allows.
    pub fn without_cache(mut self) -> Self {
        self.settings.caching = false;
        self
    }

    /// Reconnects with this backoff when the connection is lost. Calls wait for the new connection, and calls that are
    /// safe to repeat are [retried](Self::retry). Off by default.
    pub fn reconnect(mut self, backoff: Backoff) -> Self {
        self.settings.reconnect = Some(backoff);
        self
    }

    /// Sets the retries of calls that were lost with their connection. On by default if the client
    /// [reconnects](Self::reconnect), and has no effect otherwise. Which calls of tools are safe to repeat is known after
    /// [`Client::list_tools`], or from [`Call::idempotent`](crate::Call::idempotent): see [`RetryPolicy`].
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

    /// Rejects calls for a while after several in a row have failed. Off by default.
    pub fn circuit_breaker(mut self, breaker: CircuitBreaker) -> Self {
        self.settings.circuit_breaker = Some(breaker);
        self
    }

    /// Sets the handler for sampling: requests of a server for a response of a model. Declares the capability
    /// `sampling`.
    ///
    /// ```
    /// # mod turms { pub use turms_client::{self as client, Client}; pub use turms_proto::types; }
    /// use turms::Client;
    /// use turms::client::HandlerError;
    /// use turms::types::CreateMessageResult;
    ///
    /// let builder = Client::builder("my-app", "1.0.0").on_sampling(|params, cx| async move {
    ///     if params.max_tokens > 10_000 {
    ///         return Err(HandlerError::rejected(format!("too many tokens for {}", cx.server_name())));
    ///     }
    ///     Ok(CreateMessageResult::assistant("Paris", "my-model"))
    /// });
    /// # let _ = builder;
    /// ```
    pub fn on_sampling<F, A>(mut self, handler: F) -> Self
    where
        F: Fn(CreateMessageParams, RequestContext) -> A + Send + Sync + 'static,
        A: Future<Output = Result<CreateMessageResult, HandlerError>> + Send + 'static,
    {
        self.handlers.set_sampling(false, handler);
        self
    }

    /// Sets the handler for sampling, and accepts requests with tools for the model. Declares the capability
    /// `sampling.tools`.
    pub fn on_sampling_with_tools<F, A>(mut self, handler: F) -> Self
    where
        F: Fn(CreateMessageParams, RequestContext) -> A + Send + Sync + 'static,
        A: Future<Output = Result<CreateMessageResult, HandlerError>> + Send + 'static,
    {
        self.handlers.set_sampling(true, handler);
        self
    }

    /// Sets the handler for all elicitations, forms and URLs. See [`on_form`](Self::on_form) and
    /// [`on_url`](Self::on_url).
    ///
    /// ```
    /// # mod turms { pub use turms_client::Client; pub use turms_proto::types; }
    /// use turms::Client;
    /// use turms::types::ElicitResult;
    ///
    /// let builder = Client::builder("my-app", "1.0.0").on_elicitation(|params, cx| async move {
    ///     println!("{} asks: {}", cx.server_name(), params.message());
    ///     Ok(ElicitResult::accept(serde_json::json!({ "sure": true }))?)
    /// });
    /// # let _ = builder;
    /// ```
    pub fn on_elicitation<F, A>(self, handler: F) -> Self
    where
        F: Fn(ElicitParams, RequestContext) -> A + Send + Sync + 'static,
        A: Future<Output = Result<ElicitResult, HandlerError>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let same = handler.clone();
        self.on_form(move |form, cx| handler(ElicitParams::Form(form), cx))
            .on_url(move |page, cx| same(ElicitParams::Url(page), cx))
    }

    /// Sets the handler for forms. Fields that its result leaves out get their defaults, and the contents are validated
    /// against the schema of the form before they are sent. Declares the capability `elicitation.form`.
    pub fn on_form<F, A>(mut self, handler: F) -> Self
    where
        F: Fn(ElicitForm, RequestContext) -> A + Send + Sync + 'static,
        A: Future<Output = Result<ElicitResult, HandlerError>> + Send + 'static,
    {
        self.handlers.set_form(handler);
        self
    }

    /// Sets the handler for URLs that the user should open. Show the URL and open it only with the user's consent.
    /// Declares the capability `elicitation.url`.
    pub fn on_url<F, A>(mut self, handler: F) -> Self
    where
        F: Fn(ElicitUrl, RequestContext) -> A + Send + Sync + 'static,
        A: Future<Output = Result<ElicitResult, HandlerError>> + Send + 'static,
    {
        self.handlers.set_url(handler);
        self
    }

    /// Declines all elicitations.
    pub fn decline_elicitation(self) -> Self {
        self.on_elicitation(|_, _| std::future::ready(Ok(ElicitResult::decline())))
    }

    /// Sets the directories and files that the server may list. Keep a clone of the [`Roots`] to change them later.
    /// Declares the capability `roots`.
    pub fn roots(mut self, roots: impl Into<Roots>) -> Self {
        self.handlers.set_roots(roots.into());
        self
    }

    /// Sets the handler for requests of a method that the protocol does not define. It comes before those of
    /// [extensions](Self::extension). Servers of 2026-07-28 send no requests.
    pub fn on_request<P, R, F, A>(mut self, method: impl Into<String>, handler: F) -> Self
    where
        P: DeserializeOwned + 'static,
        R: Serialize + 'static,
        F: Fn(P, RequestContext) -> A + Send + Sync + 'static,
        A: Future<Output = Result<R, HandlerError>> + Send + 'static,
    {
        self.handlers.add_request(method.into(), handler);
        self
    }

    /// Sets the handler for notifications of a method that the protocol does not define. Handlers run one after the
    /// other, in the order of the notifications; up to 1024 wait. An error of a handler is logged.
    pub fn on_notification<P, F, A>(mut self, method: impl Into<String>, handler: F) -> Self
    where
        P: DeserializeOwned + 'static,
        F: Fn(P, RequestContext) -> A + Send + Sync + 'static,
        A: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.handlers.add_notification(method.into(), handler);
        self
    }

    /// Declares an extension of the protocol by its id, such as `com.example/prices`. Connecting fails if the id is
    /// invalid.
    pub fn declare_extension(mut self, id: &str, settings: impl Into<Object>) -> Self {
        self.extra = self.extra.with_extension(id, settings);
        self
    }

    /// Adds an extension with its own handlers, and declares it. Connecting fails if its id is invalid or already
    /// declared.
    pub fn extension(mut self, extension: impl ClientExtension) -> Self {
        self.extensions.push(Arc::new(extension));
        self
    }

    /// Declares the tasks extension of 2026-07-28: a server may respond to a tool call with a task, which the client
    /// polls. [`Client::call_tool`] waits for the result of the task. It also does for tools of 2025-11-25 that only
    /// run as tasks, if they were listed before.
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

    /// Sets the minimum level of log messages. Default: that of the server; servers of 2026-07-28 then send none.
    pub fn log_level(mut self, level: LoggingLevel) -> Self {
        self.settings.log_level = Some(level);
        self
    }

    /// Disables the forwarding of the server's log messages to `tracing` (target `turms::server_log`).
    pub fn without_log_tracing(mut self) -> Self {
        self.trace_logs = false;
        self
    }

    pub(crate) fn identity(&self) -> &Implementation {
        &self.settings.info
    }

    #[cfg(test)]
    pub(crate) fn handlers(&self) -> &ClientHandlers {
        &self.handlers
    }

    /// Sets the name of the server, as a group knows it.
    pub(crate) fn server_name(mut self, name: &str) -> Self {
        self.server_name = Some(name.to_owned());
        self
    }

    pub(crate) fn shared_roots(&self) -> Option<&Roots> {
        self.handlers.shared_roots()
    }

    /// Connects to a service in this process, such as a server's router.
    ///
    /// # Errors
    /// When the client and the service have no revision in common.
    pub async fn connect_service(self, service: impl Service) -> Result<Client, ConnectError> {
        self.connect(LocalConnector::new(service)).await
    }

    /// Connects over a byte stream: a socket, a pipe, one end of [`memory`](turms_core::transport::memory).
    ///
    /// # Errors
    /// When the server does not respond, or the negotiation fails.
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
    /// # use turms_client as turms;
    /// use turms::{ChildCommand, Client};
    ///
    /// let command = ChildCommand::new("npx").args(["-y", "@modelcontextprotocol/server-everything"]);
    /// let client = Client::builder("my-app", "1.0.0").connect_command(command).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the program does not start, exits at once, or does not speak the protocol.
    #[doc(alias = "stdio")]
    #[doc(alias = "subprocess")]
    #[doc(alias = "StdioTransport")]
    #[doc(alias = "TokioChildProcess")]
    pub async fn connect_command(self, command: ChildCommand) -> Result<Client, ConnectError> {
        self.connect(command).await
    }

    /// Connects with a connector, such as an `HttpConnector`, and waits until the client is ready.
    ///
    /// # Errors
    /// When the server cannot be reached, or the negotiation fails. With [`reconnect`](Self::reconnect), a server that
    /// does not respond is tried again until [`connect_timeout`](Self::connect_timeout).
    pub async fn connect(self, connector: impl Connector) -> Result<Client, ConnectError> {
        self.connect_within(connector, None).await
    }

    /// Connects with a timeout for everything but the authorizer of the connector.
    pub(crate) async fn connect_within(
        self,
        connector: impl Connector,
        limit: Option<Duration>,
    ) -> Result<Client, ConnectError> {
        let deadline = Instant::now() + self.connect_timeout;
        let started = self.spawn(connector, Some(deadline))?;
        match (started.shared.wait_connecting(limit, started.connected).await, limit) {
            (Some(Ok(Err(error))), _) => Err(error),
            (None, Some(limit)) => Err(ConnectError::Timeout { server: None, limit }),
            _ => Ok(started.client),
        }
    }

    /// Connects in the background. Calls wait until the client is ready, each up to its own timeout.
    ///
    /// With [`reconnect`](Self::reconnect), a server that does not respond is retried with the backoff, which has no
    /// maximum number of attempts by default. Must be called in a Tokio runtime.
    ///
    /// # Errors
    /// When an extension cannot be declared.
    pub fn start(self, connector: impl Connector) -> Result<Client, ConnectError> {
        Ok(self.spawn(connector, None)?.client)
    }

    fn spawn(self, connector: impl Connector, deadline: Option<Instant>) -> Result<StartedClient, ConnectError> {
        let roots = self.handlers.shared_roots().cloned();
        let shared = self.shared(Arc::new(connector))?;
        let shutdown = Arc::new(shared.shutdown.clone().drop_guard());
        if shared.incoming.handlers.has_notifications() {
            let handling = shared.incoming.clone().handle_notifications();
            shared.tasks.spawn(shared.shutdown.clone().run_until_cancelled_owned(handling));
        }
        let connected = Supervisor::spawn(&shared, deadline);
        let client = Client::new(ServerBackend::new(shared.clone()), roots, shutdown);
        Ok(StartedClient { client, shared, connected })
    }

    /// The state of a client that is not started yet.
    pub(crate) fn shared(self, connector: Arc<dyn Connector>) -> Result<Arc<ServerShared>, ConnectError> {
        let mut settings = self.settings;
        settings.capabilities = self.handlers.capabilities();
        settings.capabilities.extensions = extension::declared(self.extra.extensions, &self.extensions)?;
        let incoming = IncomingHandler {
            handlers: Arc::new(self.handlers),
            server: Arc::new(CurrentServer::new(self.server_name)),
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

/// A client that connects in the background.
struct StartedClient {
    client: Client,
    shared: Arc<ServerShared>,
    /// The outcome of the first connection.
    connected: oneshot::Receiver<Result<(), ConnectError>>,
}

impl ConnectClient for ClientBuilder {
    type Client = Client;

    fn connect_client(self, connector: impl Connector) -> impl Future<Output = Result<Client, ConnectError>> + Send {
        self.connect(connector)
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("info", &self.settings.info).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, count, time, when};

        let it = ClientBuilder::new("client", "1");
        let settings = &it.settings;
        let max_duration = settings.timeouts.request(&crate::call::options::Options::DEFAULT).max_timeout.unwrap();
        let code = [
            ("ClientBuilder::protocol_versions", when(matches!(settings.choice, VersionChoice::Auto), "all")),
            ("ClientBuilder::version_cache", when(settings.version_cache.is_shared(), "one cache for the process")),
            ("ClientBuilder::probe_timeout", time(settings.probe_timeout)),
            ("ClientBuilder::handshake_timeout", time(settings.handshake_timeout)),
            ("ClientBuilder::connect_timeout", time(it.connect_timeout)),
            ("ClientBuilder::timeout", time(settings.timeouts.timeout)),
            ("ClientBuilder::max_duration", time(max_duration)),
            ("ClientBuilder::max_input_rounds", count(settings.max_input_rounds)),
            ("ClientBuilder::max_validation_steps", count(settings.max_validation_steps)),
            ("ClientBuilder::log_level", when(settings.log_level.is_none(), "that of the server")),
        ];
        assert_documented(include_str!("builder.rs"), &code);
    }
}
