use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use bytestring::ByteString;
use serde::Serialize;
use turms_core::{CallContext, NotifyFuture, Payload, Request, ResponseFuture, Service};
use turms_proto::method::{Method, Notification as NotificationMethod};
use turms_proto::revision::raise_result;
use turms_proto::session::{Opened, Stats};
use turms_proto::types::{
    CallTool, CallToolParams, Complete, CompleteParams, CompleteResult, Completion, CompletionArgument,
    CompletionContext, Cursor, GetPrompt, GetPromptParams, Implementation, ListPrompts, ListPromptsResult,
    ListResourceTemplates, ListResourceTemplatesResult, ListResources, ListResourcesResult, ListTools, ListToolsResult,
    LoggingLevel, Meta, Prompt, PromptResult, ReadResource, ReadResourceParams, ReadResourceResult, Reference,
    Resource, ResourceTemplate, ServerCapabilities, SubscriptionFilter, Tool, ToolResult, key,
};
use turms_proto::{Ability, ErrorObject, Notification, Object, ProtocolVersion, RawJson};

use crate::batch::Batch;
use crate::builder::ClientBuilder;
use crate::cache::Key;
use crate::call::error::{CallError, CallErrorKind, DecodeCause};
use crate::event::Events;
use crate::job::{Engine, Job, Label, Subject, subject_of};
use crate::listen::Subscription;
use crate::operation::{Operation, ToolParams};
use crate::options::{CallOptions, Tasking};
use crate::page::{self, Items};
use crate::roots::Roots;
use crate::single::declares_tasks;
use crate::state::{PendingCall, Status};
use crate::tool::{KnownTool, leave_out_invalid};

/// A client: a typed face over a server, a pool of connections, or many servers at once. Clones are the same client; the
/// connection ends when the last is dropped.
///
/// ```
/// use turms_client::Client;
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
    engine: Arc<Held>,
}

/// What the clones of a client share. With the last of them the engine is let go, even if a task of its own holds it, too.
struct Held(Arc<dyn Engine>);

impl Deref for Held {
    type Target = dyn Engine;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

impl Client {
    /// Begins with who this client is.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(name, version)
    }

    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine: Arc::new(Held(engine)) }
    }

    pub(crate) fn engine(&self) -> &dyn Engine {
        &**self.engine
    }

    /// Sees whether the server answers: with `ping`, or `server/discover` where there is no `ping`.
    pub fn ping(&self) -> Operation<()> {
        Operation::new(self, |client, options| async move { client.engine.ping(options).await })
    }

    /// All tools.
    pub fn list_tools(&self) -> Operation<Vec<Tool>> {
        Operation::new(self, |client, options| page::all::<ListTools>(client, options, look_at_tools))
    }

    /// One page of tools.
    pub fn list_tools_page(&self, cursor: impl Into<Option<Cursor>>) -> Operation<ListToolsResult> {
        let cursor = cursor.into();
        Operation::new(self, |client, options| page::page::<ListTools>(client, cursor, options, look_at_tools))
    }

    /// All tools, a page at a time as they are read.
    #[must_use]
    pub fn stream_tools(&self) -> Items<Tool> {
        Items::new::<ListTools>(self.clone(), look_at_tools)
    }

    /// All resources.
    pub fn list_resources(&self) -> Operation<Vec<Resource>> {
        Operation::new(self, |client, options| page::all::<ListResources>(client, options, |_, _| {}))
    }

    /// One page of resources.
    pub fn list_resources_page(&self, cursor: impl Into<Option<Cursor>>) -> Operation<ListResourcesResult> {
        let cursor = cursor.into();
        Operation::new(self, |client, options| page::page::<ListResources>(client, cursor, options, |_, _| {}))
    }

    /// All resources, a page at a time as they are read.
    #[must_use]
    pub fn stream_resources(&self) -> Items<Resource> {
        Items::new::<ListResources>(self.clone(), |_, _| {})
    }

    /// All templates of resources.
    pub fn list_resource_templates(&self) -> Operation<Vec<ResourceTemplate>> {
        Operation::new(self, |client, options| page::all::<ListResourceTemplates>(client, options, |_, _| {}))
    }

    /// One page of templates of resources.
    pub fn list_resource_templates_page(
        &self,
        cursor: impl Into<Option<Cursor>>,
    ) -> Operation<ListResourceTemplatesResult> {
        let cursor = cursor.into();
        Operation::new(self, |client, options| page::page::<ListResourceTemplates>(client, cursor, options, |_, _| {}))
    }

    /// All templates of resources, a page at a time as they are read.
    #[must_use]
    pub fn stream_resource_templates(&self) -> Items<ResourceTemplate> {
        Items::new::<ListResourceTemplates>(self.clone(), |_, _| {})
    }

    /// All prompts.
    pub fn list_prompts(&self) -> Operation<Vec<Prompt>> {
        Operation::new(self, |client, options| page::all::<ListPrompts>(client, options, |_, _| {}))
    }

    /// One page of prompts.
    pub fn list_prompts_page(&self, cursor: impl Into<Option<Cursor>>) -> Operation<ListPromptsResult> {
        let cursor = cursor.into();
        Operation::new(self, |client, options| page::page::<ListPrompts>(client, cursor, options, |_, _| {}))
    }

    /// All prompts, a page at a time as they are read.
    #[must_use]
    pub fn stream_prompts(&self) -> Items<Prompt> {
        Items::new::<ListPrompts>(self.clone(), |_, _| {})
    }

    /// Calls a tool. The arguments are anything that is written as a JSON object, or `()` for none.
    ///
    /// What the server asks in between is answered by the client's [answers](crate::Answers). Structured output is held
    /// against the schema that the tool declares. A tool that failed is a result: see [`ToolResult::failed`].
    ///
    /// If the client [takes tasks](ClientBuilder::tasks) and the server makes one of the call, the result of the task is waited
    /// for. The timeout then counts for each time that the server is asked how it stands, progress is told until the task
    /// exists, and giving up the call gives up the task.
    pub fn call_tool(&self, name: impl Into<String>, arguments: impl Serialize) -> Operation<ToolResult> {
        let params = call_tool_params(name.into(), Arguments::of(&arguments));
        Operation::new(self, move |client, options| call_tool(client, params, options))
    }

    /// Reads a resource.
    pub fn read_resource(&self, uri: impl Into<String>) -> Operation<ReadResourceResult> {
        let uri = uri.into();
        Operation::new(self, move |client, options| read_resource(client, uri, options))
    }

    /// Gets a prompt. The arguments are anything that is written as a JSON object of strings, or `()` for none; what is `None`
    /// in it is not given.
    pub fn get_prompt(&self, name: impl Into<String>, arguments: impl Serialize) -> Operation<PromptResult> {
        let (name, arguments) = (name.into(), Arguments::of(&arguments));
        Operation::new(self, move |client, options| async move {
            let params = get_prompt_params(&name, arguments)?;
            let job = Job::in_rounds::<GetPrompt, _>(params, options);
            client.finished(job).await
        })
    }

    /// Asks what could stand in an argument of a prompt or a template.
    pub fn complete(
        &self,
        reference: impl Into<Reference>,
        argument: impl Into<String>,
        value: impl Into<String>,
    ) -> Operation<Completion> {
        self.complete_with(reference, argument, value, BTreeMap::new())
    }

    /// As [`Client::complete`], when other arguments are known already.
    pub fn complete_with(
        &self,
        reference: impl Into<Reference>,
        argument: impl Into<String>,
        value: impl Into<String>,
        known: BTreeMap<String, String>,
    ) -> Operation<Completion> {
        let mut params = CompleteParams::new(reference, CompletionArgument::new(argument, value));
        if !known.is_empty() {
            params.context = Some(CompletionContext::new().arguments(known));
        }
        Operation::new(self, move |client, options| async move {
            let result: CompleteResult = client.finished(Job::new::<Complete>(params, options)).await?;
            Ok(result.completion)
        })
    }

    /// Says from which level on log messages are wanted, now and after every reconnection.
    pub fn set_log_level(&self, level: LoggingLevel) -> Operation<()> {
        Operation::new(self, move |client, options| async move { client.engine.set_log_level(level, options).await })
    }

    /// Watches a resource: changes come as [events](Client::events), also after a reconnection.
    pub fn subscribe(&self, uri: impl Into<String>) -> Operation<()> {
        let uri = uri.into();
        Operation::new(self, move |client, options| async move { client.engine.subscribe(uri, options).await })
    }

    /// Watches a resource no more.
    pub fn unsubscribe(&self, uri: impl Into<String>) -> Operation<()> {
        let uri = uri.into();
        Operation::new(self, move |client, options| async move { client.engine.unsubscribe(uri, options).await })
    }

    /// Listens to changes on its own account. Works in every revision.
    pub fn listen(&self, filter: SubscriptionFilter) -> Operation<Subscription> {
        Operation::new(self, move |client, options| async move { client.engine.listen(filter, options).await })
    }

    /// Tells the server something that the protocol defines.
    ///
    /// # Errors
    /// When there is no connection.
    pub async fn notify<N: NotificationMethod>(&self, params: &N::Params) -> Result<(), CallError> {
        let notification = Notification::new::<N>(params)
            .map_err(|error| CallError::not_sent(N::NAME, CallErrorKind::Encode(error.to_string())))?;
        self.engine.notify(notification).await
    }

    /// Tells the server anything.
    ///
    /// # Errors
    /// When there is no connection.
    pub async fn notify_raw(
        &self,
        method: impl Into<String>,
        params: impl Into<Option<RawJson>>,
    ) -> Result<(), CallError> {
        self.engine.notify(Notification::raw(method.into(), params.into())).await
    }

    /// Makes a request of any method; the parameters are anything that is written as a JSON object, or `()` for none. What
    /// comes back is the result as it came, in the words of the server's revision.
    pub fn request_raw(&self, method: impl Into<String>, params: impl Serialize) -> Operation<RawJson> {
        let (method, params) = (method.into(), Arguments::of(&params));
        Operation::new(self, move |client, options| async move {
            let params = params.object(|| method.clone())?.unwrap_or_default();
            let job = Job::raw(ByteString::from(method.as_str()), params.into(), options);
            let performed = client.engine.perform(job).await?;
            performed.payload.into_raw().map_err(|error| {
                CallError::answered(
                    method,
                    CallErrorKind::Decode(DecodeCause::Invalid(turms_proto::DecodeError::custom(error))),
                )
            })
        })
    }

    /// Gathers several calls that are made at once: in one batch where the server takes batches, side by side elsewhere.
    pub fn batch(&self) -> Batch {
        Batch::new(self.clone())
    }

    /// What happens while nobody asks. Any number of tasks may take a stream of their own.
    ///
    /// A server of 2026-07-28 tells of changes only when asked to; the first stream that is taken asks it.
    #[must_use]
    pub fn events(&self) -> Events {
        self.engine.events()
    }

    /// How the client stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.engine.status()
    }

    /// The revision that is spoken.
    #[must_use]
    pub fn protocol_version(&self) -> Option<ProtocolVersion> {
        self.engine.opened().map(|opened| opened.dialect.version())
    }

    /// Who the server says it is. For people and logs.
    #[must_use]
    pub fn server_info(&self) -> Option<Implementation> {
        self.engine.opened()?.server.as_ref()?.server_info()
    }

    /// What the server can do.
    #[must_use]
    pub fn server_capabilities(&self) -> Option<ServerCapabilities> {
        self.engine.opened()?.server.as_ref().map(|server| server.capabilities.clone())
    }

    /// How to use the server, for the model.
    #[must_use]
    pub fn instructions(&self) -> Option<String> {
        self.engine.opened()?.server.as_ref()?.instructions.clone()
    }

    /// Whom the client talks to, and how.
    #[must_use]
    pub fn opened(&self) -> Option<Arc<Opened>> {
        self.engine.opened()
    }

    /// What has happened on the present connection.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// The calls that have no answer yet, the oldest first.
    #[must_use]
    pub fn pending(&self) -> Vec<PendingCall> {
        self.engine.pending()
    }

    /// Gives up a call by its [key](PendingCall::key); false if it has an answer.
    #[expect(clippy::must_use_candidate, reason = "whoever cancels seldom cares whether it came too late")]
    pub fn cancel(&self, key: u64) -> bool {
        self.engine.cancel(key)
    }

    /// Gives up all calls that have no answer yet; how many.
    #[expect(clippy::must_use_candidate, reason = "how many is of interest to few")]
    pub fn cancel_all(&self) -> usize {
        self.pending().into_iter().filter(|call| self.cancel(call.key)).count()
    }

    /// The directories and files that the server may know of, if this client has any to show.
    #[must_use]
    pub fn roots(&self) -> Option<Roots> {
        self.engine.roots().cloned()
    }

    /// Ends the connection and waits until nothing of it is left, such as a process.
    pub async fn close(&self) {
        self.engine.close().await;
    }

    /// Performs a call and takes its result.
    pub(crate) async fn finished<T>(&self, job: Job) -> Result<T, CallError>
    where
        T: serde::de::DeserializeOwned + 'static,
    {
        let label = Label::from(&job);
        let performed = self.engine.perform(job).await?;
        self.taken(&label, performed.payload)
    }

    #[expect(clippy::unused_self, reason = "reads as what it does")]
    pub(crate) fn taken<T>(&self, subject: &(impl Subject + ?Sized), payload: Payload) -> Result<T, CallError>
    where
        T: serde::de::DeserializeOwned + 'static,
    {
        payload
            .take()
            .map_err(|error| CallError::answered(subject.text(), CallErrorKind::Decode(DecodeCause::Invalid(error))))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("status", &self.status()).finish_non_exhaustive()
    }
}

/// A client is a service, so that a gateway is a client that is served.
impl Service for Client {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        let client = self.clone();
        let meta = cx.meta().map(forwarded).filter(|meta| !meta.is_empty());
        // What becomes a task here is a task for whoever asks, too.
        let task = Tasking { refused: !cx.meta().is_some_and(declares_tasks), ..Tasking::default() };
        Box::pin(async move {
            let params = request
                .params
                .into_raw()
                .map_err(|error| ErrorObject::internal(format!("the parameters cannot be written as JSON: {error}")))?;
            let options = CallOptions::default().with(|it| (it.meta, it.task) = (meta, task));
            let job = Job::raw(request.method, without_own_meta(params), options);
            let method = job.method.clone();
            let performed = client.engine.perform(job).await.map_err(CallError::into_error_object)?;
            let raw = performed.payload.into_raw().map_err(|error| ErrorObject::internal(error.to_string()))?;
            // Services speak the newest revision, whatever the server does.
            let version = client.protocol_version().unwrap_or(ProtocolVersion::LATEST);
            let raised = raise_result(&method, &raw, version);
            Ok(Payload::json(raised.map_err(|error| ErrorObject::internal(format!("{method}: {error}")))?))
        })
    }

    fn notify(&self, notification: Notification, _: CallContext) -> NotifyFuture {
        let client = self.clone();
        Box::pin(async move {
            // Nobody waits to hear that it was not told.
            let _ = client.engine.notify(notification).await;
        })
    }
}

/// What a request says of its own version and client is not what this client says of itself.
fn forwarded(meta: &Meta) -> Meta {
    let mut meta = Object::from(meta.clone());
    let own = [key::PROTOCOL_VERSION, key::CLIENT_CAPABILITIES, key::CLIENT_INFO, key::PROGRESS_TOKEN];
    meta.retain(|name| !own.contains(&name));
    meta.into()
}

fn without_own_meta(params: RawJson) -> RawJson {
    match params.as_object() {
        Some(mut params) if params.contains("_meta") => {
            params.remove("_meta");
            params.into()
        }
        _ => params,
    }
}

/// Arguments, written as JSON when they are given and looked at when the call is made.
pub(crate) struct Arguments(Result<RawJson, String>);

impl Arguments {
    pub(crate) fn of(arguments: &impl Serialize) -> Self {
        Self(RawJson::encode(arguments).map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            cause.unwrap_or_else(|| error.to_string())
        }))
    }

    pub(crate) fn object(self, subject: impl Fn() -> String) -> Result<Option<Object>, CallError> {
        let unwritable = |problem: String| CallError::not_sent(subject(), CallErrorKind::Encode(problem));
        let json = self.0.map_err(unwritable)?;
        if json.is_null() {
            return Ok(None);
        }
        if !json.is_object() {
            return Err(unwritable(format!("arguments must be an object, not {}", kind_of(&json))));
        }
        Ok(json.into_object())
    }
}

/// What a value is, without showing it: it may be a secret.
fn kind_of(json: &RawJson) -> &'static str {
    match json.as_str().as_bytes().first() {
        Some(b'[') => "a list",
        Some(b'"') => "text",
        Some(b't' | b'f') => "true or false",
        _ => "a number",
    }
}

pub(crate) fn call_tool_params(name: String, arguments: Arguments) -> ToolParams {
    let arguments = arguments.object(|| subject_of(CallTool::NAME, Some(&name)))?;
    let mut params = CallToolParams::new(name);
    params.arguments = arguments;
    Ok(Arc::new(params))
}

pub(crate) fn get_prompt_params(name: &str, arguments: Arguments) -> Result<GetPromptParams, CallError> {
    let subject = || subject_of(GetPrompt::NAME, Some(name));
    let mut params = GetPromptParams::new(name);
    if let Some(arguments) = arguments.object(subject)? {
        let arguments: BTreeMap<String, Option<String>> = arguments.decode().map_err(|error| {
            CallError::not_sent(subject(), CallErrorKind::Encode(format!("arguments of prompts are strings: {error}")))
        })?;
        // A field of a struct that is `None` is an argument that is not given.
        let given = arguments.into_iter().filter_map(|(name, value)| Some((name, value?)));
        params.arguments = Some(given.collect());
    }
    Ok(params)
}

async fn call_tool(client: Client, params: ToolParams, options: CallOptions) -> Result<ToolResult, CallError> {
    let job = Job::in_rounds::<CallTool, _>(params?, options);
    let performed = client.engine.perform(job.clone()).await?;
    let result = tool_result(&job, performed.payload)?;
    check_output(&client, name_of(&job), &result, job.options.clone()).await?;
    Ok(result)
}

fn name_of(job: &Job) -> &str {
    job.name.as_deref().unwrap_or_default()
}

fn tool_result(subject: &impl Subject, payload: Payload) -> Result<ToolResult, CallError> {
    payload
        .take()
        .map_err(|error| CallError::answered(subject.text(), CallErrorKind::Decode(DecodeCause::Invalid(error))))
}

/// A tool that was never listed is looked up, but only if it gave something to check.
pub(crate) async fn check_output(
    client: &Client,
    name: &str,
    result: &ToolResult,
    options: CallOptions,
) -> Result<(), CallError> {
    if let Some(checked) = check_known(client, name, result) {
        return checked;
    }
    match Box::pin(known_tool(client, name, options)).await {
        Some(tool) if tool.is_large(result) => refuse(name, Box::pin(tool.violations_apart(name, result)).await),
        Some(tool) => refuse(name, tool.violations(name, result)),
        // What cannot be listed cannot be checked either.
        None => Ok(()),
    }
}

/// As [`check_output`]; `None` if the tool has to be looked up, or if the check is for a thread of its own.
fn check_known(client: &Client, name: &str, result: &ToolResult) -> Option<Result<(), CallError>> {
    let Some(tools) = client.engine.tools() else { return Some(Ok(())) };
    match tools.get(name) {
        Some(tool) if tool.is_large(result) => None,
        Some(tool) => Some(refuse(name, tool.violations(name, result))),
        None => result.structured_content.is_none().then_some(Ok(())),
    }
}

fn refuse(name: &str, violations: Vec<String>) -> Result<(), CallError> {
    if violations.is_empty() {
        return Ok(());
    }
    let subject = format!("{} {name:?}", CallTool::NAME);
    Err(CallError::answered(subject, CallErrorKind::Decode(DecodeCause::Output(violations))))
}

/// What is known of a tool. One that was never listed is looked up.
pub(crate) async fn known_tool(client: &Client, name: &str, options: CallOptions) -> Option<Arc<KnownTool>> {
    let tools = client.engine.tools()?;
    if let Some(known) = tools.get(name) {
        return Some(known);
    }
    let options = options.with(|it| {
        it.bypass_cache = true;
        (it.on_progress, it.meta, it.task) = (None, None, Tasking::default());
    });
    if page::all::<ListTools>(client.clone(), options, look_at_tools).await.is_ok() {
        tools.learn_missing(name);
    }
    tools.get(name)
}

/// Reads a resource, or takes it from the cache if it may be.
pub(crate) async fn read_resource(
    client: Client,
    uri: String,
    options: CallOptions,
) -> Result<ReadResourceResult, CallError> {
    let key = Key::new::<ReadResource>(&uri);
    let cache = client.engine.cache();
    if !options.bypass_cache
        && let Some(result) = cache.and_then(|cache| cache.get(&key))
    {
        return Ok(result);
    }
    let asked = cache.map(|cache| cache.moment());
    let job = Job::in_rounds::<ReadResource, _>(ReadResourceParams::new(uri), options);
    let label = Label::from(&job);
    let performed = client.engine.perform(job).await?;
    let answered = performed.answered;
    let result: ReadResourceResult = client.taken(&label, performed.payload)?;
    if let (Some(cache), Some(asked), false) = (client.engine.cache(), asked, answered) {
        cache.put(key, result.clone(), result.ttl_ms.unwrap_or_default(), asked);
    }
    Ok(result)
}

/// Keeps what is worth knowing of tools, and leaves out those that cannot be called.
pub(crate) fn look_at_tools(client: &Client, page: &mut ListToolsResult) {
    // Where many servers stand behind the client, each was looked at by its own.
    let Some(known) = client.engine.tools() else { return };
    let mirrors = client.protocol_version().is_some_and(|version| version.has(Ability::HeaderMirroring));
    if mirrors {
        leave_out_invalid(&mut page.tools);
    }
    known.learn(&page.tools);
}
