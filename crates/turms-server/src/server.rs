//! The server builder.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use turms_core::layer::Layer;
use turms_core::transport::stdio;
use turms_core::{
    BoxFuture, CloseReason, Connection, Endpoint, EndpointInfo, Error, InsufficientScopeError, IntoEndpoint, Limits,
    NotifyFuture, Payload, ResponseFuture, Service, ServiceError,
};
use turms_proto::types::{CacheScope, Icon, Implementation, Meta, key};
use turms_proto::{ErrorObject, Object, ProtocolVersion, RawJson};

use crate::app;
use crate::build_error::{BuildError, ComponentError};
use crate::catalog::{Catalog, ListStyle};
use crate::context::Context;
use crate::extension;
use crate::handle::{RegistrationError, ServerHandle};
use crate::layered::LayerStack;
use crate::prompt::{IntoPrompt, Prompt};
use crate::resource::{IntoResource, Resource};
use crate::router::{self, Router};
use crate::seal::{RequestStateKey, Sealer};
use crate::session::Session;
use crate::task::{TaskManager, TaskOptions};
use crate::tool::{IntoTool, Tool};
use crate::tool_error::returned_error;
use crate::uri_spelling::normalized;

/// A builder for MCP servers.
///
/// ```no_run
/// # use turms_server as turms;
/// use turms::{Server, Tool};
///
/// # async fn example() -> Result<(), turms_core::Error> {
/// let hello = Tool::builder("hello").description("Greets.").handler_sync(|| "Hello!");
/// Server::new("greeter", "1.0.0").tool(hello).serve_stdio().await
/// # }
/// ```
#[must_use = "a server does nothing until it serves"]
pub struct Server {
    handle: ServerHandle,
    info: EndpointInfo,
    pub(crate) settings: Settings,
    request_state_keys: Vec<RequestStateKey>,
    seal_lifetime: Duration,
    layers: LayerStack,
    pub(crate) problems: Vec<ComponentError>,
    /// Source locations at which tools, prompts and resources were registered, by kind and name.
    places: HashMap<(&'static str, String), &'static Location<'static>>,
    /// Source locations at which methods and extensions were registered, by kind and name.
    claims: HashMap<(&'static str, String), String>,
    /// Extensions, each with the id of an extension that it requires.
    pub(crate) required_extensions: Vec<(Arc<str>, String)>,
}

/// The settings of a built server.
pub(crate) struct Settings {
    pub(crate) instructions: Option<String>,
    pub(crate) lists: ListStyle,
    pub(crate) experimental: Option<Object>,
    pub(crate) extensions: Option<Object>,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) tasks: Arc<TaskManager>,
    pub(crate) visible: Option<Visible>,
    pub(crate) forward_tracing: bool,
    pub(crate) methods: HashMap<String, MethodAction>,
    pub(crate) fallback: Option<MethodAction>,
    pub(crate) on_session_start: Vec<SessionStartHook>,
    pub(crate) on_session_end: Vec<SessionEndHook>,
    pub(crate) notifications: HashMap<String, NotificationHook>,
    pub(crate) notification_fallback: Option<NotificationHook>,
}

type SessionStartHook = Box<dyn Fn(Session, Context) -> BoxFuture<'static, Result<(), ErrorObject>> + Send + Sync>;
type SessionEndHook = Box<dyn Fn(Session, CloseReason) + Send + Sync>;
type NotificationHook = Box<dyn Fn(&str, Option<RawJson>, Context) -> NotifyFuture + Send + Sync>;
type Visible = Box<dyn Fn(Component<'_>, &Context) -> bool + Send + Sync>;
type MethodAction = Arc<dyn Fn(&str, Payload, Context) -> ResponseFuture + Send + Sync>;

impl Settings {
    /// Checks that the caller may use an item. Every method that names an item calls this. Returns `false` if the caller does not see
    /// it: then it must be indistinguishable from a missing one.
    ///
    /// # Errors
    /// If the caller sees it and does not have its scopes.
    pub(crate) fn check_item(&self, item: Component<'_>, context: &Context) -> Result<bool, InsufficientScopeError> {
        if !self.is_visible(item, context) {
            return Ok(false);
        }
        check_scopes(item.scopes(), context).map(|()| true)
    }

    /// Returns `true` if the caller sees an item.
    pub(crate) fn is_visible(&self, item: Component<'_>, context: &Context) -> bool {
        self.visible.as_ref().is_none_or(|visible| visible(item, context))
    }

    /// Returns the catalog as one caller sees it.
    pub(crate) fn visible_to(&self, catalog: &Catalog, own: Option<&Catalog>, context: &Context) -> Catalog {
        let mut seen = catalog.changed();
        if let Some(own) = own {
            seen.merge(own);
        }
        if self.visible.is_some() {
            seen.tools.retain(|tool| self.is_visible(Component::Tool(tool), context));
            seen.prompts.retain(|prompt| self.is_visible(Component::Prompt(prompt), context));
            seen.resources.retain(|resource| self.is_visible(Component::Resource(resource), context));
            seen.templates.retain(|resource| self.is_visible(Component::Resource(resource), context));
        }
        seen
    }
}

/// A tool, prompt or resource, for [visibility checks](Server::visible_if).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Component<'a> {
    /// A tool.
    Tool(&'a Tool),
    /// A prompt.
    Prompt(&'a Prompt),
    /// A resource or a resource template.
    Resource(&'a Resource),
}

impl Component<'_> {
    /// Returns the name of a tool or prompt, or the URI of a resource.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Tool(tool) => tool.name(),
            Self::Prompt(prompt) => prompt.name(),
            Self::Resource(resource) => resource.uri(),
        }
    }

    /// Returns the scopes that callers need.
    #[must_use]
    pub fn scopes(&self) -> &[String] {
        match self {
            Self::Tool(tool) => tool.scopes(),
            Self::Prompt(prompt) => prompt.scopes(),
            Self::Resource(resource) => resource.scopes(),
        }
    }
}

/// Checks that a caller has scopes. Over a network, a caller without a principal has none. Calls over stdio and within the process
/// are checked only if they have a principal.
fn check_scopes(scopes: &[String], context: &Context) -> Result<(), InsufficientScopeError> {
    match context.principal() {
        _ if scopes.is_empty() => Ok(()),
        Some(principal) => principal.require(scopes),
        None if context.call().is_remote() => Err(InsufficientScopeError::new(scopes)),
        None => Ok(()),
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").finish_non_exhaustive()
    }
}

impl Server {
    /// Creates a server with a name and a version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            handle: ServerHandle::new(),
            info: EndpointInfo::new(Implementation::new(name, version)),
            settings: Settings {
                instructions: None,
                lists: ListStyle { page_size: 1000, ttl_ms: 0, scope: CacheScope::Private, server_meta: Meta::new() },
                experimental: None,
                extensions: None,
                sealer: Arc::new(Sealer::new(Vec::new(), Duration::ZERO)),
                tasks: Arc::new(TaskManager::new(TaskOptions::new())),
                visible: None,
                forward_tracing: false,
                methods: HashMap::new(),
                fallback: None,
                on_session_start: Vec::new(),
                on_session_end: Vec::new(),
                notifications: HashMap::new(),
                notification_fallback: None,
            },
            request_state_keys: Vec::new(),
            seal_lifetime: Duration::from_secs(60 * 60),
            layers: LayerStack::default(),
            problems: Vec::new(),
            places: HashMap::new(),
            claims: HashMap::new(),
            required_extensions: Vec::new(),
        }
    }

    /// Sets the human-readable title.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.info.server_info.title = Some(title.into());
        self
    }

    /// Sets the description.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.info.server_info.description = Some(description.into());
        self
    }

    /// Sets the URL of the website (`websiteUrl`).
    pub fn website_url(mut self, url: impl Into<String>) -> Self {
        self.info.server_info.website_url = Some(url.into());
        self
    }

    /// Adds an icon.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.info.server_info.icons.get_or_insert_default().push(icon);
        self
    }

    /// Sets the instructions for the model on how to use the server.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.settings.instructions = Some(instructions.into());
        self
    }

    /// Adds a tool. Building the server fails if two tools have the same name.
    #[track_caller]
    pub fn tool<M>(mut self, tool: impl IntoTool<M>) -> Self {
        let tool = tool.into_tool();
        let name = tool.name().to_owned();
        let added = self.handle.add_tool(tool);
        self.record_registration("tool", &name, added, Location::caller());
        self
    }

    /// Adds a prompt. Building the server fails if two prompts have the same name.
    #[track_caller]
    pub fn prompt<M>(mut self, prompt: impl IntoPrompt<M>) -> Self {
        let prompt = prompt.into_prompt();
        let name = prompt.name().to_owned();
        let added = self.handle.add_prompt(prompt);
        self.record_registration("prompt", &name, added, Location::caller());
        self
    }

    /// Adds a resource or a resource template. Building the server fails if two have the same URI.
    #[track_caller]
    pub fn resource<M>(mut self, resource: impl IntoResource<M>) -> Self {
        let resource = resource.into_resource();
        let uri = resource.uri().to_owned();
        let added = self.handle.add_resource(resource);
        self.record_registration("resource", &uri, added, Location::caller());
        self
    }

    /// Records the source location of a registration, or its error.
    fn record_registration(
        &mut self,
        kind: &'static str,
        name: &str,
        added: Result<(), RegistrationError>,
        place: &'static Location<'static>,
    ) {
        // Normalization leaves names unchanged, because they have no percent-encoded characters.
        let key = (kind, normalized(name).into_owned());
        match added {
            Ok(()) => {
                self.places.insert(key, place);
            }
            Err(RegistrationError::Duplicate { .. }) => {
                let first = self.places.get(&key);
                let first = first.map_or_else(|| "through a handle".to_owned(), |first| format!("at {first}"));
                let reason = format!("registered twice: {first} and at {place}");
                self.problems.push(ComponentError::new(kind, name, reason));
            }
            Err(RegistrationError::Invalid { reason, .. }) => {
                self.problems.push(ComponentError::new(kind, name, reason));
            }
        }
    }

    /// Adds the tools, prompts and resources of an object, or of an `Arc` of one. `#[handlers]` on its `impl` block implements
    /// [`Handlers`].
    pub fn handlers<H: Handlers>(self, handlers: H) -> Self {
        Arc::new(handlers).register(self)
    }

    /// Adds state, which handlers extract with [`State<T>`](crate::State).
    pub fn state<T: Send + Sync + 'static>(self, state: T) -> Self {
        self.handle.put_state(&Arc::new(state));
        self
    }

    /// Same as [`Server::state`], for a value that is already in an `Arc`.
    #[expect(clippy::needless_pass_by_value, reason = "the same signature as for other state")]
    pub fn shared_state<T: Send + Sync + 'static>(self, state: Arc<T>) -> Self {
        self.handle.put_state(&state);
        self
    }

    /// Sets the supported protocol revisions. Default: all.
    pub fn protocol_versions(mut self, versions: impl IntoIterator<Item = ProtocolVersion>) -> Self {
        self.info.versions = versions.into_iter().collect();
        self
    }

    /// Sets the number of items per page of a list. Default: 1000.
    pub fn page_size(mut self, size: usize) -> Self {
        self.settings.lists.page_size = size;
        self
    }

    /// Sets the time to live and the scope with which clients may cache lists. Default: zero and private.
    pub fn cache(mut self, ttl: Duration, scope: CacheScope) -> Self {
        self.settings.lists.ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        self.settings.lists.scope = scope;
        self
    }

    /// Sets the keys that encrypt the request state of clients of 2026-07-28, newest first. All replicas of a server
    /// need the same keys. Default: a random key per process.
    pub fn request_state_keys(mut self, keys: impl IntoIterator<Item = RequestStateKey>) -> Self {
        self.request_state_keys = keys.into_iter().collect();
        self
    }

    /// Sets the lifetime of the request state: the maximum time between two input rounds. Default: 1 h.
    pub fn request_state_ttl(mut self, lifetime: Duration) -> Self {
        self.seal_lifetime = lifetime;
        self
    }

    /// Sets the storage and limits of tasks.
    pub fn tasks(mut self, tasks: TaskOptions) -> Self {
        self.settings.tasks = Arc::new(TaskManager::new(tasks));
        self
    }

    /// Sets the limits, which apply to every transport.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.info.limits = limits;
        self
    }

    /// Maximum number of steps for one validation of arguments or structured content against a JSON Schema. Default: 25
    /// million; they take at most about 0.1 s. A step is a small unit of work, such as following a subschema or
    /// comparing two values. Values that need more steps are rejected. Values of more than 64 KiB are validated on a
    /// separate thread and may take ten times as many steps.
    pub fn max_validation_steps(self, steps: u64) -> Self {
        self.handle.set_max_validation_steps(steps);
        self
    }

    /// Adds a visibility check: a caller sees and uses only items for which it returns `true`. Default: all items.
    /// Several checks must all return `true`. Lists then have the cache scope `private`, regardless of
    /// [`Server::cache`], because they may differ between callers.
    pub fn visible_if(mut self, visible: impl Fn(Component<'_>, &Context) -> bool + Send + Sync + 'static) -> Self {
        let earlier = self.settings.visible.take();
        self.settings.visible = Some(Box::new(move |item, context| {
            earlier.as_ref().is_none_or(|earlier| earlier(item, context)) && visible(item, context)
        }));
        self
    }

    /// Hides items from callers without their scopes, as [`Server::visible_if`] does: they are not listed, and calling them fails as for
    /// unknown ones. Default: they are listed; a client can then learn which scopes to ask for.
    pub fn hide_without_scope(self) -> Self {
        self.visible_if(|item, context| check_scopes(item.scopes(), context).is_ok())
    }

    /// Forwards the `tracing` events of handlers to their callers as log messages. The subscriber needs the
    /// [`ForwardTracing`](crate::ForwardTracing) layer (feature `tracing-subscriber-0_3`). Default: off.
    pub fn forward_tracing(mut self) -> Self {
        self.settings.forward_tracing = true;
        self
    }

    /// Adds a custom method. Building the server fails if the name belongs to a method of the protocol or is registered
    /// twice.
    #[track_caller]
    pub fn method<P, R, F, Fut>(mut self, name: impl Into<String>, handler: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static,
        F: Fn(P, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ErrorObject>> + Send + 'static,
    {
        let name = name.into();
        if router::is_reserved_method(&name) {
            self.problems.push(ComponentError::new("method", name, extension::RESERVED_METHOD));
            return self;
        }
        if self.claim("method", &name, format!("at {}", Location::caller())) {
            self.add_decoded_method(name, handler);
        }
        self
    }

    /// Registers a name that must be unique within a kind. If it is taken, returns `false` and adds an error, so that
    /// building the server fails. `place` is the source location.
    pub(crate) fn claim(&mut self, kind: &'static str, name: &str, place: String) -> bool {
        match self.claims.entry((kind, name.to_owned())) {
            Entry::Vacant(entry) => {
                entry.insert(place);
                true
            }
            Entry::Occupied(first) => {
                let reason = format!("registered twice: {} and {place}", first.get());
                self.problems.push(ComponentError::new(kind, name, reason));
                false
            }
        }
    }

    pub(crate) fn add_decoded_method<P, R, F, Fut>(&mut self, name: String, handler: F)
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static,
        F: Fn(P, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ErrorObject>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        self.add_method(name, move |params: RawJson, context| {
            let handler = handler.clone();
            async move { handler(params.decode()?, context).await.map_err(returned_error) }
        });
    }

    /// Adds a method with a handler that decodes its own parameters.
    pub(crate) fn add_method<R, F, Fut>(&mut self, name: String, handler: F)
    where
        R: Serialize + Send + 'static,
        F: Fn(RawJson, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ServiceError>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let action: MethodAction = Arc::new(move |_, params, context| {
            let handler = handler.clone();
            Box::pin(async move {
                let params = params.into_raw().map_err(|error| crate::respond::encode_error(&error))?;
                encoded_result(&handler(params, context).await?)
            })
        });
        self.settings.methods.insert(name, action);
    }

    /// Adds a handler for a custom notification. Building the server fails if a name is registered twice.
    #[track_caller]
    pub fn notification<P, F, Fut>(mut self, name: impl Into<String>, handler: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        F: Fn(P, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let name = name.into();
        if self.claim("notification", &name, format!("at {}", Location::caller())) {
            self.add_notification(name, handler);
        }
        self
    }

    pub(crate) fn add_notification<P, F, Fut>(&mut self, name: String, handler: F)
    where
        P: DeserializeOwned + Send + 'static,
        F: Fn(P, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let hook = notification_hook(move |_, params, context| handler(params, context));
        self.settings.notifications.insert(name, hook);
    }

    /// Adds a layer around all requests and notifications. The layer added last is the outermost.
    #[doc(alias = "middleware")]
    #[doc(alias = "tower")]
    #[doc(alias = "interceptor")]
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Arc<dyn Service>> + Send + Sync + 'static,
        L::Service: Service,
    {
        self.layers.push(layer);
        self
    }

    /// Sets the handler for methods that are not registered. It receives the name of the method and its parameters, and
    /// returns the result, an [`ErrorObject`] or a [`ServiceError`]. Default: none; the response is
    /// [`ServiceError::method_not_found`].
    pub fn fallback<P, R, E, F, Fut>(mut self, handler: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static,
        E: Into<ServiceError>,
        F: Fn(String, P, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        self.settings.fallback = Some(Arc::new(move |method, params, context| {
            let (method, handler) = (method.to_owned(), handler.clone());
            Box::pin(async move {
                let params = params.into_raw().map_err(|error| crate::respond::encode_error(&error))?;
                let handling = handler(method, params.decode()?, context);
                encoded_result(&handling.await.map_err(Into::into)?)
            })
        }));
        self
    }

    /// Adds an async callback for a session that starts: it runs before the response to `initialize`, which fails with
    /// the error of a callback that refuses the session. Further requests of a refused session are rejected, and so is another `initialize` on its connection. Callbacks
    /// run in the order in which they were added. Default: none. There are no sessions in 2026-07-28.
    ///
    /// The client accepts no requests before it has received the response. With a shared session store, the callbacks
    /// run in every process that serves the session.
    ///
    /// ```
    /// # use turms_server as turms;
    /// use turms::Server;
    ///
    /// #[derive(Default)]
    /// struct Cart;
    ///
    /// let server = Server::new("shop", "1.0.0").on_session_start(|session, _context| async move {
    ///     session.insert(Cart::default());
    ///     Ok(())
    /// });
    /// # server.build().unwrap();
    /// ```
    pub fn on_session_start<F, Fut>(mut self, started: F) -> Self
    where
        F: Fn(Session, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), ErrorObject>> + Send + 'static,
    {
        self.settings.on_session_start.push(Box::new(move |session, context| Box::pin(started(session, context))));
        self
    }

    /// Adds a callback for the end of a session that was started: the client disconnects, deletes the session or starts
    /// another one with a second `initialize`, or the server closes it. Callbacks run in the order in which they were
    /// added. Default: none.
    pub fn on_session_end(mut self, ended: impl Fn(Session, CloseReason) + Send + Sync + 'static) -> Self {
        self.settings.on_session_end.push(Box::new(ended));
        self
    }

    /// Sets the handler for notifications that are not registered. It receives the name of the notification and its
    /// parameters. Default: none; they are ignored.
    pub fn notification_fallback<P, F, Fut>(mut self, handler: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        F: Fn(String, P, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.settings.notification_fallback = Some(notification_hook(handler));
        self
    }

    /// Returns a handle to the running server. It can be obtained before the server starts.
    ///
    /// Tools, prompts and resources can be added through the handle at any time. After a call of this method the server
    /// therefore declares all three capabilities with `listChanged`, even if it has no items of a kind. Otherwise it
    /// declares only the kinds it has.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        self.handle.offer_all();
        self.handle.clone()
    }

    /// Same as [`Server::handle`], without declaring capabilities.
    #[cfg(feature = "skills")]
    pub(crate) fn own_handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// Builds the server as a service, for in-process calls or for a transport.
    ///
    /// # Errors
    /// If a registration is invalid, such as a tool with an invalid schema or a duplicate name.
    pub fn build(mut self) -> Result<Router, BuildError> {
        self.problems.extend(app::problems(&self.handle.catalog()));
        self.problems.extend(self.missing_extensions());
        if !self.problems.is_empty() {
            return Err(BuildError::new(self.info.server_info.name, self.problems));
        }
        let info = RawJson::encode(&self.info.server_info).unwrap_or_default();
        self.settings.lists.server_meta.insert_raw(key::SERVER_INFO, &info);
        self.settings.sealer = Arc::new(Sealer::new(self.request_state_keys, self.seal_lifetime));
        Ok(Router::new(self.handle, Arc::new(self.settings), self.info, &self.layers))
    }

    /// Serves one client over standard input and output until it disconnects or the server shuts down.
    ///
    /// # Errors
    /// If a registration is invalid, or reading or writing fails.
    #[doc(alias = "stdio")]
    #[doc(alias = "subprocess")]
    #[doc(alias = "StdioTransport")]
    #[doc(alias = "TokioChildProcess")]
    pub async fn serve_stdio(self) -> Result<(), Error> {
        let (reader, writer) = stdio().map_err(|source| {
            Error::with_source(turms_core::ErrorKind::Stdio, "cannot use standard input and output", source)
        })?;
        let router = self.build()?;
        // A spawned task runs on the thread that is notified of input, so that no other thread has to be woken.
        let mut serving = JoinSet::new();
        serving.spawn(async move { router.serve(reader, writer).await });
        match serving.join_next().await {
            Some(Ok(served)) => served,
            Some(Err(failed)) => match failed.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Ok(()),
            },
            None => Ok(()),
        }
    }

    /// Serves one client over a byte stream until it disconnects or the server shuts down.
    ///
    /// # Errors
    /// If a registration is invalid, or reading or writing fails.
    pub async fn serve<R, W>(self, reader: R, writer: W) -> Result<(), Error>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        self.build()?.serve(reader, writer).await
    }
}

fn encoded_result<R: Serialize>(result: &R) -> Result<Payload, ServiceError> {
    RawJson::encode(result).map(Payload::lowered).map_err(|error| crate::respond::encode_error(&error).into())
}

/// Creates a hook that decodes the parameters of a notification for its handler.
fn notification_hook<P, F, Fut>(handler: F) -> NotificationHook
where
    P: DeserializeOwned + Send + 'static,
    F: Fn(String, P, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    Box::new(move |method, params, context| {
        let params = params.unwrap_or_else(|| Object::new().into());
        match params.decode::<P>() {
            Ok(params) => Box::pin(handler(method.to_owned(), params, context)),
            Err(error) => {
                tracing::warn!(method, %error, "ignoring a notification with invalid parameters");
                Box::pin(async {})
            }
        }
    })
}

impl IntoEndpoint for Server {
    fn into_endpoint(self) -> Result<Endpoint, Error> {
        Ok(self.build()?.endpoint())
    }
}

impl Router {
    /// Serves a client over a byte stream until it disconnects or the server shuts down.
    ///
    /// # Errors
    /// If reading or writing fails.
    pub async fn serve<R, W>(&self, reader: R, writer: W) -> Result<(), Error>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let (connection, _) = Connection::server(reader, writer, self.protocol_versions(), self.limits().clone());
        connection.serve(&self.endpoint()).await.map_err(Error::from)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("info", &self.info.server_info).finish_non_exhaustive()
    }
}

/// An object with methods that are tools, prompts and resources. Implemented by `#[handlers]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no tools, prompts or resources",
    note = "put `#[handlers]` on its `impl` block and `#[tool]`, `#[prompt]` or `#[resource(..)]` on the methods"
)]
pub trait Handlers: Send + Sync + 'static {
    /// Registers the tools, prompts and resources of the object.
    fn register(self: Arc<Self>, server: Server) -> Server;
}

/// For applications that keep a reference to the object.
impl<H: Handlers> Handlers for Arc<H> {
    fn register(self: Arc<Self>, server: Server) -> Server {
        H::register(Self::clone(&self), server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, count, time, when};

        let it = Server::new("server", "1");
        let (lists, settings) = (&it.settings.lists, &it.settings);
        let is_uncached = lists.ttl_ms == 0 && lists.scope == CacheScope::Private;
        let code = [
            ("Server::protocol_versions", when(it.info.versions == ProtocolVersion::ALL, "all")),
            ("Server::page_size", count(lists.page_size)),
            ("Server::cache", when(is_uncached, "zero and private")),
            ("Server::request_state_keys", when(it.request_state_keys.is_empty(), "a random key per process")),
            ("Server::request_state_ttl", time(it.seal_lifetime)),
            ("Server::max_validation_steps", count(it.handle.max_validation_steps())),
            ("Server::visible_if", when(settings.visible.is_none(), "all items")),
            ("Server::hide_without_scope", when(settings.visible.is_none(), "they are listed")),
            ("Server::forward_tracing", when(!settings.forward_tracing, "off")),
            ("Server::fallback", when(settings.fallback.is_none(), "none")),
            ("Server::on_session_start", when(settings.on_session_start.is_empty(), "none")),
            ("Server::on_session_end", when(settings.on_session_end.is_empty(), "none")),
            ("Server::notification_fallback", when(settings.notification_fallback.is_none(), "none")),
        ];
        assert_documented(include_str!("server.rs"), &code);
    }
}
