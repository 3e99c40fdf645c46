//! A client with raw requests over an in-memory connection, for tests of the messages of a server. A [`Script`] has its responses to
//! elicitation, sampling and roots. All other tests use `turms_testing::TestClient`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use turms_core::transport::memory;
use turms_core::{
    CallContext, Connection, ConnectionHandle, HandshakeError, Limits, NotifyFuture, Payload, PeerError, Request,
    ResponseFuture, Service,
};
use turms_proto::method::{Method, NotificationMethod};
use turms_proto::revision::Translate;
use turms_proto::session::{ClientOptions, Negotiated, RequestOptions, VersionChoice};
use turms_proto::types::{
    CallTool, CallToolParams, CallToolResult, ClientCapabilities, CreateMessage, CreateMessageParams,
    CreateMessageResult, Elicit, ElicitParams, ElicitResult, ElicitationCapability, Implementation, InputRequest,
    InputRequiredResult, ListRoots, ListRootsResult, Outcome, Root, RootsCapability, SamplingCapability, key,
};
use turms_proto::{Ability, ErrorObject, Notification, Object, ProtocolVersion, RawJson};

use turms_server::Router;

/// Maximum number of times a call is repeated for a server that keeps requesting input.
const MAX_ROUNDS: usize = 10;

/// Timeout for an expected notification.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(10);

/// The responses of a test client to elicitation, sampling and roots requests.
#[derive(Clone, Default)]
pub struct Script {
    elicit: Option<Responder<ElicitParams, ElicitResult>>,
    sample: Option<Responder<CreateMessageParams, CreateMessageResult>>,
    roots: Option<Vec<Root>>,
    capabilities: ClientCapabilities,
    log_level: Option<turms_proto::types::LoggingLevel>,
}

type Responder<Q, A> = Arc<dyn Fn(Q) -> A + Send + Sync>;

impl Script {
    /// Creates a client without elicitation, sampling and roots.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Responds to elicitation, of forms and URLs, with a function.
    #[must_use]
    pub fn elicit(mut self, answer: impl Fn(ElicitParams) -> ElicitResult + Send + Sync + 'static) -> Self {
        self.elicit = Some(Arc::new(answer));
        self.capabilities.elicitation = Some(ElicitationCapability::new().form(Object::new()).url(Object::new()));
        self
    }

    /// Responds to sampling with a function.
    #[must_use]
    pub fn sample(
        mut self,
        answer: impl Fn(CreateMessageParams) -> CreateMessageResult + Send + Sync + 'static,
    ) -> Self {
        self.sample = Some(Arc::new(answer));
        self.capabilities.sampling = Some(SamplingCapability::new().tools(Object::new()));
        self
    }

    /// Declares roots.
    #[must_use]
    pub fn roots(mut self, roots: impl IntoIterator<Item = Root>) -> Self {
        self.roots = Some(roots.into_iter().collect());
        self.capabilities.roots = Some(RootsCapability::new().list_changed(true));
        self
    }

    /// Declares an extension with its settings.
    #[must_use]
    pub fn extension(mut self, id: &str, settings: impl Into<Object>) -> Self {
        self.capabilities = self.capabilities.with_extension(id, settings);
        self
    }

    /// Sets the minimum level of log messages that stateless requests ask for; without it, they ask for none.
    #[must_use]
    pub fn log_level(mut self, level: turms_proto::types::LoggingLevel) -> Self {
        self.log_level = Some(level);
        self
    }

    fn answer(&self, question: InputRequest) -> Result<RawJson, ErrorObject> {
        let unanswered = |method: &str| ErrorObject::method_not_found(method);
        let answer = match question {
            InputRequest::Elicit(params) => match &self.elicit {
                Some(elicit) => RawJson::encode(&elicit(*params)),
                None => return Err(unanswered(Elicit::NAME)),
            },
            InputRequest::Sample(params) => match &self.sample {
                Some(sample) => RawJson::encode(&sample(*params)),
                None => return Err(unanswered(CreateMessage::NAME)),
            },
            _ => match &self.roots {
                Some(roots) => RawJson::encode(&ListRootsResult::new(roots.clone())),
                None => return Err(unanswered(ListRoots::NAME)),
            },
        };
        answer.map_err(|error| ErrorObject::internal(error.to_string()))
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("capabilities", &self.capabilities).finish_non_exhaustive()
    }
}

/// A client of one revision, connected to a server in the same process.
#[derive(Debug, Clone)]
pub struct TestClient {
    connection: ConnectionHandle,
    version: ProtocolVersion,
    script: Script,
    received: Arc<ReceivedNotifications>,
    opened: Arc<Negotiated>,
}

#[derive(Debug, Default)]
struct ReceivedNotifications {
    notifications: Mutex<Vec<Notification>>,
    more: Notify,
}

/// The error of a request by a [`TestClient`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TestError {
    /// The server responded with an error.
    Server(Box<ErrorObject>),
    /// There was no response, or it could not be decoded.
    Peer(PeerError),
    /// The server requested input in every round.
    TooManyRounds,
}

impl fmt::Display for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => write!(f, "the server responded with an error: {error}"),
            Self::Peer(error) => error.fmt(f),
            Self::TooManyRounds => write!(f, "the server still requests input after {MAX_ROUNDS} rounds"),
        }
    }
}

impl std::error::Error for TestError {}

impl TestError {
    /// Returns the error that the server responded with.
    ///
    /// # Panics
    /// If this is another error.
    #[must_use]
    pub fn server_error(&self) -> &ErrorObject {
        match self {
            Self::Server(error) => error,
            other => panic!("not an error response of the server: {other}"),
        }
    }
}

impl From<PeerError> for TestError {
    fn from(error: PeerError) -> Self {
        match error {
            PeerError::ErrorResponse(error) => Self::Server(error),
            error => Self::Peer(error),
        }
    }
}

impl TestClient {
    /// Connects a client without elicitation, sampling and roots.
    pub async fn connect(server: &Router, version: ProtocolVersion) -> Self {
        Self::connect_with(server, version, Script::new()).await
    }

    /// Connects a client that responds as the script defines.
    ///
    /// # Panics
    /// If the server does not support the revision.
    pub async fn connect_with(server: &Router, version: ProtocolVersion, script: Script) -> Self {
        let (near, far) = memory();
        let server = server.clone();
        tokio::spawn(async move { server.serve(far.0, far.1).await });
        Self::over(near.0, near.1, version, script).await.expect("the server supports the revision")
    }

    /// Connects over a byte stream.
    ///
    /// # Errors
    /// If the server does not support the revision.
    pub async fn over<R, W>(
        reader: R,
        writer: W,
        version: ProtocolVersion,
        script: Script,
    ) -> Result<Self, HandshakeError>
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let mut capabilities = script.capabilities.clone();
        capabilities.lower(version);
        let options = ClientOptions::new(Implementation::new("test-client", "1.0.0"), capabilities)
            .choice(VersionChoice::Only(version));
        let (connection, handle) = Connection::client(reader, writer, options, Limits::default());
        let received = Arc::new(ReceivedNotifications::default());
        let handler = ScriptedHandler { script: script.clone(), received: received.clone() };
        tokio::spawn(async move { connection.run(handler).await });
        let opened = handle.opened().await?;
        Ok(Self { connection: handle, version, script, received, opened })
    }

    /// Returns the protocol revision of the connection.
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// Returns the server's info and capabilities.
    #[must_use]
    pub fn opened(&self) -> &Negotiated {
        &self.opened
    }

    /// Returns the connection.
    #[must_use]
    pub fn connection(&self) -> &ConnectionHandle {
        &self.connection
    }

    /// Calls a tool and responds to its input requests as the script defines.
    ///
    /// # Errors
    /// If the request fails. A tool that fails returns a result with `isError`.
    pub async fn call_tool(&self, name: &str, arguments: Value) -> Result<CallToolResult, TestError> {
        let mut params = CallToolParams::new(name);
        if let Value::Object(arguments) = arguments {
            params.arguments = Some(arguments.into());
        }
        self.request_rounds::<CallTool, _>(&params).await
    }

    /// Sends a request and responds to input requests as the script defines.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn request_rounds<M, T>(&self, params: &M::Params) -> Result<T, TestError>
    where
        M: Method<Result = Outcome<T>>,
    {
        let mut params = object_of(params)?;
        for _ in 0..MAX_ROUNDS {
            match self.request_object::<M>(params.clone(), RequestOptions::default()).await? {
                Outcome::Complete(result) => return Ok(result),
                Outcome::InputRequired(round) => self.answer_round(&mut params, *round)?,
                other => {
                    return Err(TestError::Peer(PeerError::Decode(turms_proto::DecodeError::custom(format_args!(
                        "unexpected kind of result (a task: {})",
                        matches!(other, Outcome::Task(_))
                    )))));
                }
            }
        }
        Err(TestError::TooManyRounds)
    }

    /// Sends a request and returns the result of the first round.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn request<M: Method>(&self, params: &M::Params) -> Result<M::Result, TestError> {
        self.request_object::<M>(object_of(params)?, RequestOptions::default()).await
    }

    /// Same as [`TestClient::request`], with progress notifications.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn request_with_progress<M: Method>(&self, params: &M::Params) -> Result<M::Result, TestError> {
        self.request_object::<M>(object_of(params)?, RequestOptions::default().with_progress()).await
    }

    /// Sends a request with any method.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn request_raw(&self, method: &str, params: Object) -> Result<RawJson, TestError> {
        let params = self.with_meta(params);
        let options = RequestOptions::default();
        Ok(self.connection.peer().request_raw(method.to_owned(), Some(params.into()), options).await?)
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn notify<N: NotificationMethod>(&self, params: &N::Params) -> Result<(), TestError> {
        Ok(self.connection.peer().notify::<N>(params).await?)
    }

    /// Waits for the next notification with a method and removes it from the received ones.
    ///
    /// # Panics
    /// If there is none within ten seconds, or it is malformed.
    pub async fn expect_notification<N: NotificationMethod>(&self) -> N::Params {
        let found = tokio::time::timeout(NOTIFICATION_TIMEOUT, async {
            loop {
                let more = self.received.more.notified();
                let mut pinned = std::pin::pin!(more);
                pinned.as_mut().enable();
                if let Some(notification) = self.take_notification(N::NAME) {
                    return notification;
                }
                pinned.await;
            }
        });
        let notification = found
            .await
            .unwrap_or_else(|_| panic!("no {} received; other notifications: {:?}", N::NAME, self.notifications()));
        notification.params::<N>().unwrap_or_else(|error| panic!("{}: {error}", N::NAME))
    }

    /// Returns the methods of the notifications that were received and not yet expected.
    #[must_use]
    pub fn notifications(&self) -> Vec<String> {
        self.received.notifications.lock().iter().map(|notification| notification.method.to_string()).collect()
    }

    fn take_notification(&self, method: &str) -> Option<Notification> {
        let mut notifications = self.received.notifications.lock();
        let place = notifications.iter().position(|notification| *notification.method == *method)?;
        Some(notifications.remove(place))
    }

    async fn request_object<M: Method>(&self, params: Object, options: RequestOptions) -> Result<M::Result, TestError> {
        let params = self.with_meta(params);
        let answer = self.connection.peer().request_raw(M::NAME, Some(params.into()), options).await?;
        Ok(answer.decode().map_err(PeerError::Decode)?)
    }

    fn with_meta(&self, mut params: Object) -> Object {
        if !self.version.has(Ability::Stateless) {
            return params;
        }
        let mut meta = params.get("_meta").and_then(|meta| meta.as_object()).unwrap_or_default();
        meta.insert_raw(key::PROTOCOL_VERSION, &text_of(&self.version));
        meta.insert_raw(key::CLIENT_CAPABILITIES, &text_of(&self.script.capabilities));
        meta.insert_raw(key::CLIENT_INFO, &text_of(&Implementation::new("test-client", "1.0.0")));
        if let Some(level) = &self.script.log_level {
            meta.insert_raw(key::LOG_LEVEL, &text_of(level));
        }
        params.insert_raw("_meta", &meta.into());
        params
    }

    fn answer_round(&self, params: &mut Object, round: InputRequiredResult) -> Result<(), TestError> {
        let mut answers = Object::new();
        for (name, question) in round.input_requests.unwrap_or_default() {
            let answer = self.script.answer(question).map_err(|error| TestError::Server(Box::new(error)))?;
            answers.insert_raw(&name, &answer);
        }
        params.insert_raw("inputResponses", &answers.into());
        match round.request_state {
            Some(state) => params.insert_raw("requestState", &RawJson::string(&state)),
            None => {
                params.remove("requestState");
            }
        }
        Ok(())
    }
}

fn text_of(value: &impl serde::Serialize) -> RawJson {
    RawJson::encode(value).unwrap_or_default()
}

fn object_of<P: serde::Serialize>(params: &P) -> Result<Object, TestError> {
    Object::encode(params).map_err(|error| TestError::Peer(error.into()))
}

/// Responds to requests of the server and records its notifications.
struct ScriptedHandler {
    script: Script,
    received: Arc<ReceivedNotifications>,
}

impl Service for ScriptedHandler {
    fn call(&self, request: Request, _: CallContext) -> ResponseFuture {
        Box::pin(std::future::ready(self.answer(request).map(Payload::lowered).map_err(Into::into)))
    }

    fn notify(&self, notification: Notification, _: CallContext) -> NotifyFuture {
        self.received.notifications.lock().push(notification);
        self.received.more.notify_waiters();
        Box::pin(async {})
    }
}

impl ScriptedHandler {
    fn answer(&self, request: Request) -> Result<RawJson, ErrorObject> {
        let Request { method, params, .. } = request;
        let question = match &*method {
            Elicit::NAME => InputRequest::Elicit(Box::new(params.take()?)),
            CreateMessage::NAME => InputRequest::Sample(Box::new(params.take()?)),
            ListRoots::NAME => InputRequest::Roots(params.take()?),
            "ping" => return Ok(Object::new().into()),
            method => return Err(ErrorObject::method_not_found(method)),
        };
        self.script.answer(question)
    }
}
