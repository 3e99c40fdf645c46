//! The context of a call: the API that a handler uses beyond its arguments.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use turms_core::__internal::{debug_error, error_chain, random_id};
use turms_core::store::{StoreError, TaskAnswer};
use turms_core::{CallContext, CancellationToken, Peer, PeerError, Principal};
use turms_proto::method::{Method, NotificationMethod};
use turms_proto::revision::{Translate as _, UnsupportedFeatureError, lower_elicitation};
use turms_proto::session::RequestOptions;
use turms_proto::types::{
    ClientCapabilities, ClientCapability, CreateMessage, CreateMessageParams, CreateMessageResult, Elicit,
    ElicitAction, ElicitParams, ElicitResult, EmptyParams, Implementation, InputRequest, ListRoots, ListRootsResult,
    LogMessage, LoggingLevel, Meta, ProgressNotification, ProgressParams, Root,
};
use turms_proto::{Ability, DecodeError, ErrorObject, ProgressToken, ProtocolVersion, RawJson, RequestId};

use crate::extract::Progress;
use crate::form::{self, FormType};
use crate::handle::ServerHandle;
use crate::input::InputRounds;
use crate::input_call::{InputCall, InputOptions, LogCall};
use crate::session::Session;
use crate::task::{DetachPoint, RunningTask};

/// The context of a call, for its handler. Cheap to clone, and can be moved to other tasks.
#[doc(alias = "ctx")]
#[derive(Debug, Clone)]
pub struct Context(Arc<ContextInner>);

#[derive(Debug, Clone)]
struct ContextInner {
    call: CallContext,
    scope: ServerScope,
}

/// The server's part of a context.
#[derive(Debug, Clone)]
struct ServerScope {
    server: ServerHandle,
    session: Option<Session>,
    rounds: Option<Arc<InputRounds>>,
    detach: Option<Arc<DetachPoint>>,
}

impl Context {
    pub(crate) fn new(call: CallContext, server: ServerHandle, session: Option<Session>) -> Self {
        Self(Arc::new(ContextInner { call, scope: ServerScope { server, session, rounds: None, detach: None } }))
    }

    pub(crate) fn with_rounds(mut self, rounds: Arc<InputRounds>) -> Self {
        Arc::make_mut(&mut self.0).scope.rounds = Some(rounds);
        self
    }

    pub(crate) fn rounds(&self) -> Option<&Arc<InputRounds>> {
        self.0.scope.rounds.as_ref()
    }

    pub(crate) fn with_detach_point(mut self, detach: Arc<DetachPoint>) -> Self {
        Arc::make_mut(&mut self.0).scope.detach = Some(detach);
        self
    }

    /// Returns the task that the handler runs as, if any.
    fn running_task(&self) -> Option<&Arc<RunningTask>> {
        self.0.scope.detach.as_ref()?.task()
    }

    pub(crate) fn call(&self) -> &CallContext {
        &self.0.call
    }

    /// Returns the context for the layers of an item. The server's part is attached to it as an extension.
    pub(crate) fn into_layered(self) -> CallContext {
        let ContextInner { mut call, scope } = Arc::unwrap_or_clone(self.0);
        call.insert_extension(scope);
        call
    }

    /// Restores the context of an item below its layers, with the extensions that they have attached.
    pub(crate) fn from_layered(call: CallContext) -> Option<Self> {
        let scope = call.extension::<ServerScope>()?.clone();
        Some(Self(Arc::new(ContextInner { call, scope })))
    }

    /// Returns `true` if the server shows different items to different callers.
    #[cfg(feature = "skills")]
    pub(crate) fn has_visibility_filter(&self) -> bool {
        self.server().settings().is_none_or(|settings| settings.visible.is_some())
    }

    /// Returns `true` if the caller sees the listed resource with this URI.
    #[cfg(feature = "skills")]
    pub(crate) fn can_see_resource(&self, uri: &str) -> bool {
        let Some(settings) = self.server().settings() else { return false };
        let resource =
            crate::router::find_in_catalogs(&self.server().catalog(), self, |catalog| catalog.resource(uri).cloned());
        resource.is_some_and(|resource| settings.is_visible(crate::server::Component::Resource(&resource), self))
    }

    pub(crate) fn insert_extension<T: Clone + Send + Sync + 'static>(&mut self, value: T) {
        Arc::make_mut(&mut self.0).call.insert_extension(value);
    }

    /// Returns the protocol revision of the client.
    #[must_use]
    pub fn protocol_version(&self) -> ProtocolVersion {
        self.call().version()
    }

    /// Returns the request id. `None` if the call did not come over a transport.
    #[must_use]
    pub fn request_id(&self) -> Option<&RequestId> {
        self.call().id()
    }

    /// Returns the `_meta` of the request.
    #[must_use]
    pub fn meta(&self) -> Option<&Meta> {
        self.call().meta()
    }

    /// Returns the client session after `initialize`. `None` in 2026-07-28.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        self.0.scope.session.as_ref()
    }

    /// Returns a handle to the server, to add or remove items, notify clients and shut down.
    #[must_use]
    pub fn server(&self) -> &ServerHandle {
        &self.0.scope.server
    }

    /// Returns the client as a peer, to send custom requests and notifications.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        self.call().peer()
    }

    /// Returns a value that the transport or a layer attached to the request.
    #[must_use]
    pub fn extension<T: Clone + Send + Sync + 'static>(&self) -> Option<&T> {
        self.call().extension()
    }

    /// Returns the authenticated principal.
    #[must_use]
    pub fn principal(&self) -> Option<&Principal> {
        self.call().principal()
    }

    /// Returns the client's name and version. Not verified: use it only for display and logs.
    #[must_use]
    pub fn client_info(&self) -> Option<Implementation> {
        self.call().client_info().map(Cow::into_owned)
    }

    /// Returns the client's capabilities, from this request or from the handshake.
    #[must_use]
    pub fn client_capabilities(&self) -> ClientCapabilities {
        self.call().client_capabilities().map(Cow::into_owned).unwrap_or_default()
    }

    /// Returns `true` if the client has cancelled the call. The handler is dropped then, so this is only useful in the
    /// `Drop` of its values. For work outside of the handler, extract a
    /// [`CancellationToken`](crate::CancellationToken).
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.call().cancellation().is_some_and(CancellationToken::is_cancelled)
    }

    /// Returns the reason of the client for cancelling the call, if it gave one.
    #[must_use]
    pub fn cancellation_reason(&self) -> Option<&str> {
        self.call().cancellation()?.reason()
    }

    /// Returns the id of the task that the handler runs as, if any.
    #[must_use]
    pub fn task_id(&self) -> Option<&str> {
        self.running_task().map(|running| running.id())
    }

    /// Continues as a task, in a tool with [`ToolBuilder::task_deferred`](crate::ToolBuilder::task_deferred): the call
    /// returns the task to the client. Does nothing if the client does not support tasks.
    pub async fn continue_as_task(&self) {
        if let Some(detach) = &self.0.scope.detach {
            detach.detach().await;
        }
    }

    /// Sets the human-readable status message of the task. Does nothing if the handler does not run as a task.
    pub async fn set_status_message(&self, message: &str) {
        if let Some(running) = self.running_task()
            && let Err(error) = running.set_status_message(message).await
        {
            tracing::warn!(%error, "the status message of a task cannot be stored");
        }
    }

    /// Sends a notification to the caller, or to the session of the task.
    pub(crate) async fn send_notification<N: NotificationMethod>(&self, params: &N::Params) {
        match self.running_task() {
            Some(running) => running.notify::<N>(params).await,
            // Errors are ignored: the client has disconnected.
            None => drop(self.peer().notify::<N>(params).await),
        }
    }

    /// Returns the reporter of progress. It does nothing if the client did not request progress notifications.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress::new(self.clone())
    }

    pub(crate) async fn send_progress(&self, mut params: ProgressParams) {
        params.lower(self.protocol_version());
        self.send_notification::<ProgressNotification>(&params).await;
    }

    /// Returns the progress token, if the client requested progress notifications.
    #[must_use]
    pub fn progress_token(&self) -> Option<ProgressToken> {
        self.meta()?.progress_token().ok().flatten()
    }

    /// Sends a log message, if the client requested messages of this level. [`LogCall::logger`] sets the name of the
    /// logger.
    pub fn log(&self, level: LoggingLevel, data: impl Serialize) -> LogCall<'_> {
        let data = if self.log_enabled(level) { RawJson::encode(&data).ok() } else { None };
        LogCall { context: self, message: data.map(|data| LogMessage::new(level, data)) }
    }

    /// Returns `true` if the client requested log messages of this level.
    #[must_use]
    pub fn log_enabled(&self, level: LoggingLevel) -> bool {
        self.call().log_enabled(level)
    }

    /// Asks the user to fill in a form. The form is generated from `T`, which derives `Deserialize` and `JsonSchema`: a
    /// struct of strings, numbers, booleans, enums without data and vectors of such enums. A field of type `Option` is
    /// optional, and is `None` if the response omits it or sets it to `null`.
    ///
    /// Clients of 2024-11-05 and 2025-03-26 have no forms, and others may not declare the capability. The error is then
    /// [`InputError::Unsupported`], before the user is asked. Return it with `?`, or match it to continue without the
    /// input.
    ///
    /// In 2026-07-28 the call ends with the input request, and the handler **runs again from its beginning** when the
    /// client repeats the call with the response. Side effects before the input request happen each time: put them into
    /// [`Context::once`].
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// use schemars::JsonSchema;
    /// use serde::Deserialize;
    /// # mod turms { pub use turms_proto::types; pub use turms_server::*; pub use turms_testing as testing; }
    /// use turms::testing::TestClient;
    /// use turms::types::ElicitResult;
    /// use turms::{Context, InputError, Server, Tool};
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Size {
    ///     size: u32,
    /// }
    ///
    /// static COUNTED: AtomicUsize = AtomicUsize::new(0);
    /// static RESERVED: AtomicUsize = AtomicUsize::new(0);
    ///
    /// async fn order(context: Context) -> Result<String, InputError> {
    ///     COUNTED.fetch_add(1, Ordering::Relaxed);
    ///     context.once("reserve", async { RESERVED.fetch_add(1, Ordering::Relaxed) }).await?;
    ///     let answer = context.elicit::<Size>("Which size?").await?;
    ///     Ok(answer.accepted().map_or_else(|| "nothing".to_owned(), |answer| format!("size {}", answer.size)))
    /// }
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = Server::new("shop", "1.0.0").tool(Tool::builder("order").handler(order));
    /// let client = TestClient::builder(server)
    ///     .client(|client| client.on_form(|_, _| async { Ok(ElicitResult::accept(serde_json::json!({ "size": 42 }))?) }))
    ///     .connect()
    ///     .await?;
    /// assert_eq!(client.call_tool("order", ()).await?.text(), "size 42");
    /// assert_eq!(COUNTED.load(Ordering::Relaxed), 2, "the handler ran twice");
    /// assert_eq!(RESERVED.load(Ordering::Relaxed), 1, "the side effect happened once");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// If a field of `T` has another type, or the client does not support forms or does not respond.
    pub fn elicit<T: FormType>(&self, message: impl Into<String>) -> InputCall<Elicited<T>> {
        let (context, message) = (self.clone(), message.into());
        InputCall::new(async move |options| {
            let form = form::of::<T>()?;
            let answer = context.send_elicit(options, ElicitParams::form(message, form.clone())).await?;
            Ok(match answer.action {
                ElicitAction::Accept => {
                    let content = form::without_nulls(&form, answer.content.unwrap_or_default());
                    Elicited::Accepted(content.decode().map_err(|error| InputError::Decode(error.within("content")))?)
                }
                ElicitAction::Decline => Elicited::Declined,
                _ => Elicited::Cancelled,
            })
        })
    }

    /// Asks the user to open a URL. Acceptance means only that the user agreed to open it. Clients before 2025-11-25
    /// cannot do so: the error is then [`InputError::Unsupported`].
    ///
    /// In 2026-07-28 the call ends with the input request, and the handler **runs again from its beginning** when the
    /// client repeats the call with the response. Side effects before the input request happen each time: put them into
    /// [`Context::once`].
    ///
    /// # Errors
    /// If the client does not support URLs, or does not respond.
    pub fn elicit_url(&self, message: impl Into<String>, url: impl Into<String>) -> InputCall<ElicitAction> {
        let (context, params) = (self.clone(), ElicitParams::url(message, url));
        InputCall::new(async move |options| Ok(context.send_elicit(options, params).await?.action))
    }

    /// Asks the user with custom elicitation parameters.
    ///
    /// In 2026-07-28 the call ends with the input request, and the handler **runs again from its beginning** when the
    /// client repeats the call with the response. Side effects before the input request happen each time: put them into
    /// [`Context::once`].
    ///
    /// # Errors
    /// If the form is invalid, or the client does not support it or does not respond.
    pub fn elicit_with(&self, params: ElicitParams) -> InputCall<ElicitResult> {
        let context = self.clone();
        InputCall::new(async move |options| context.send_elicit(options, params).await)
    }

    async fn send_elicit(&self, options: InputOptions, mut params: ElicitParams) -> Result<ElicitResult, InputError> {
        let needed = match &params {
            ElicitParams::Form(params) => {
                form::check(&params.requested_schema)?;
                ClientCapability::FormElicitation
            }
            ElicitParams::Url(_) => ClientCapability::UrlElicitation,
            _ => ClientCapability::FormElicitation,
        };
        self.require(needed)?;
        if !self.protocol_version().has(Ability::InputRequired) {
            lower_elicitation(&mut params, self.protocol_version(), random_id)?;
        }
        self.ask::<Elicit>(options, "elicit", params, |params| InputRequest::Elicit(Box::new(params))).await
    }

    /// Requests a completion from the client's model, in every revision. The error for a client without the capability
    /// is [`InputError::Unsupported`].
    ///
    /// In 2026-07-28 the call ends with the input request, and the handler **runs again from its beginning** when the
    /// client repeats the call with the response. Side effects before the input request happen each time: put them into
    /// [`Context::once`].
    ///
    /// # Errors
    /// If the client does not support sampling, or does not respond.
    #[doc(alias = "sampling")]
    #[doc(alias = "create_message")]
    #[doc(alias = "llm")]
    pub fn sample(&self, params: CreateMessageParams) -> InputCall<CreateMessageResult> {
        let context = self.clone();
        InputCall::new(async move |options| {
            context.require(ClientCapability::Sampling)?;
            if params.tools.is_some() || params.tool_choice.is_some() {
                context.require(ClientCapability::SamplingTools)?;
            }
            let request = |params| InputRequest::Sample(Box::new(params));
            context.ask::<CreateMessage>(options, "sample", params, request).await
        })
    }

    /// Requests the client's roots.
    ///
    /// In 2026-07-28 the call ends with the input request, and the handler **runs again from its beginning** when the
    /// client repeats the call with the response. Side effects before the input request happen each time: put them into
    /// [`Context::once`].
    ///
    /// # Errors
    /// If the client does not support roots, or does not respond.
    pub fn list_roots(&self) -> InputCall<Vec<Root>> {
        let context = self.clone();
        InputCall::new(async move |options| {
            context.require(ClientCapability::Roots)?;
            let answer: ListRootsResult =
                context.ask::<ListRoots>(options, "roots", EmptyParams::new(), InputRequest::Roots).await?;
            Ok(answer.roots)
        })
    }

    /// Runs a future once per call, even if the handler runs again because of input requests: the outcome is saved and
    /// returned again. Use it for side effects before or between input requests, as in the example at
    /// [`Context::elicit`].
    ///
    /// # Errors
    /// If the outcome cannot be encoded as JSON or decoded again.
    #[doc(alias = "memoize")]
    pub async fn once<T: Serialize + DeserializeOwned>(
        &self,
        key: &str,
        work: impl Future<Output = T>,
    ) -> Result<T, InputError> {
        // The handler of a task does not run again.
        let (Some(rounds), None) = (self.rounds(), self.running_task()) else {
            return Ok(work.await);
        };
        if let Some(outcome) = rounds.outcome(self.principal_key(), key).await {
            return Ok(outcome.decode()?);
        }
        let outcome = work.await;
        let text = RawJson::encode(&outcome).map_err(|error| InputError::Decode(DecodeError::custom(error)))?;
        rounds.save_outcome(key, &text);
        Ok(outcome)
    }

    fn principal_key(&self) -> Option<&str> {
        self.principal().map(Principal::key)
    }

    /// Rejects a `requestState` that was not issued for the request.
    pub(crate) fn check_rounds(&self) -> Result<(), ErrorObject> {
        self.rounds().map_or(Ok(()), |rounds| rounds.check(self.principal_key()))
    }

    fn require(&self, capability: ClientCapability<'_>) -> Result<(), InputError> {
        self.client_capabilities().require(capability).map_err(|mut error| {
            let version = self.protocol_version();
            let ability = match capability {
                ClientCapability::FormElicitation => Some(Ability::FormElicitation),
                ClientCapability::UrlElicitation => Some(Ability::UrlElicitation),
                ClientCapability::SamplingTools => Some(Ability::SamplingTools),
                _ => None,
            };
            // The client cannot declare it: the remedy is a newer client, not a setting.
            if ability.is_some_and(|ability| !version.has(ability)) {
                let _ = write!(error.message, ", which revision {version} does not have");
            }
            InputError::Unsupported(Box::new(error))
        })
    }

    /// Requests input: through the record of the task if the handler runs as one, with a request to the client in
    /// revisions with a handshake, and with an input round in 2026-07-28.
    async fn ask<M: Method>(
        &self,
        options: InputOptions,
        kind: &'static str,
        mut params: M::Params,
        to_input_request: impl FnOnce(M::Params) -> InputRequest,
    ) -> Result<M::Result, InputError> {
        if let Some(running) = self.running_task() {
            let key = options.key.as_deref().unwrap_or(kind);
            let response = self.ask_as_task::<M>(running, key, to_input_request(params));
            return match options.timeout {
                None => response.await,
                Some(limit) => tokio::time::timeout(limit, response)
                    .await
                    .unwrap_or_else(|_| Err(PeerError::TimedOut(limit).into())),
            };
        }
        let Some(rounds) = self.rounds() else {
            params.lower(self.protocol_version());
            let timeout = options.timeout.unwrap_or(ASK_TIMEOUT);
            let mut result = self.peer().request::<M>(&params, RequestOptions::default().timeout(timeout)).await?;
            result.raise(self.protocol_version());
            return Ok(result);
        };
        let principal = self.principal_key();
        let key = options.key.unwrap_or_else(|| rounds.next_key(principal, kind));
        let mut request = to_input_request(params);
        request.lower(self.protocol_version());
        let response = rounds.ask(principal, &key, request.clone()).await;
        match response.decode() {
            Ok(result) => Ok(result),
            // An invalid response is requested again.
            Err(_) => {
                rounds.discard_response(&key);
                Ok(rounds.ask(principal, &key, request).await.decode()?)
            }
        }
    }

    async fn ask_as_task<M: Method>(
        &self,
        running: &RunningTask,
        key: &str,
        mut request: InputRequest,
    ) -> Result<M::Result, InputError> {
        request.lower(self.protocol_version());
        let mut attempts = 0;
        loop {
            attempts += 1;
            let decoded = match running.ask(key, request.clone()).await?.ok_or(InputError::TaskEnded)? {
                TaskAnswer::Given(answer) => answer.decode::<M::Result>(),
                TaskAnswer::Refused(error) => {
                    return Err(PeerError::ErrorResponse(Box::new(error)).into());
                }
                _ => return Err(PeerError::Closed.into()),
            };
            match decoded {
                Ok(mut answer) => {
                    answer.raise(self.protocol_version());
                    return Ok(answer);
                }
                // An invalid response is requested again. `RunningTask::ask` adds a number to a key that was used before.
                Err(error) if attempts == MAX_ATTEMPTS => return Err(error.into()),
                Err(_) => {}
            }
        }
    }
}

/// Maximum number of times a task requests input after invalid responses.
const MAX_ATTEMPTS: usize = 3;

/// Default timeout for a response of the user or the model.
pub(crate) const ASK_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10 * 60);

/// The user's response to a form.
#[doc(alias = "elicitation")]
#[doc(alias = "form")]
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "handlers decide on each of the three actions of the specification")]
pub enum Elicited<T> {
    /// The user submitted the form.
    Accepted(T),
    /// The user declined.
    Declined,
    /// The user dismissed the form without a decision.
    Cancelled,
}

impl<T> Elicited<T> {
    /// Returns the submitted content, if any.
    pub fn accepted(self) -> Option<T> {
        match self {
            Self::Accepted(content) => Some(content),
            Self::Declined | Self::Cancelled => None,
        }
    }
}

/// The error of an input request to the client.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The client did not declare the required capability, or its revision does not have it: forms exist since
    /// 2025-06-18, URLs since 2025-11-25.
    #[error("{}", .0.message)]
    Unsupported(Box<ErrorObject>),
    /// The client's revision cannot express the request.
    #[error(transparent)]
    UnsupportedByProtocol(#[from] UnsupportedFeatureError),
    /// The form is invalid, such as one with a field of a type that forms do not allow. The message names the field.
    #[error("{0}")]
    Schema(String),
    /// The client responded with an error, could not be reached, or did not respond in time. It is not the `source` of
    /// this error, so that an error response of the client is not mistaken for an error of the server.
    #[error("{}", peer_message(.0))]
    Peer(PeerError),
    /// The task store failed to store the input request.
    #[error("the input request could not be stored")]
    Store(#[from] StoreError),
    /// The task was cancelled or has expired.
    #[error("the task has ended; input requests are no longer possible")]
    TaskEnded,
    /// The response could not be decoded.
    #[error("the client's response could not be decoded: {0}")]
    Decode(#[from] DecodeError),
}

debug_error! {
    InputError {
        Unsupported(error),
        UnsupportedByProtocol(error),
        Schema(message),
        Peer(error),
        Store(error),
        TaskEnded,
        Decode(error),
    }
}

impl InputError {
    /// Returns the client's error response, with its own code and message.
    #[must_use]
    pub fn error_response(&self) -> Option<&ErrorObject> {
        match self {
            Self::Peer(PeerError::ErrorResponse(error)) => Some(error),
            _ => None,
        }
    }

    /// Returns `true` if the client did not respond in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Peer(error) if error.is_timeout())
    }
}

fn peer_message(error: &PeerError) -> String {
    match error {
        PeerError::ErrorResponse(error) => format!("the client responded with an error: {error}"),
        error => error_chain(error),
    }
}

impl From<PeerError> for InputError {
    fn from(error: PeerError) -> Self {
        Self::Peer(error)
    }
}

/// A missing capability becomes the protocol error that names it; every other error becomes an internal error.
impl From<InputError> for ErrorObject {
    fn from(error: InputError) -> Self {
        match error {
            InputError::Unsupported(error) => *error,
            error => Self::internal(error.to_string()),
        }
    }
}
