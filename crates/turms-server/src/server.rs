//! Putting a server together.

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
    Connection, Endpoint, EndpointInfo, IntoEndpoint, Limits, NotifyFuture, Payload, ResponseFuture, ServeError,
    Service, ServiceError, SharedService,
};
use turms_proto::types::{CacheScope, Icon, Implementation, Meta, key};
use turms_proto::{ErrorObject, Object, ProtocolVersion, RawJson};

use crate::app;
use crate::catalog::{Catalog, ListStyle};
use crate::context::Context;
use crate::extension;
use crate::handle::{RegistrationError, ServerHandle};
use crate::layered::LayerStack;
use crate::prompt::{IntoPrompt, Prompt};
use crate::resource::{IntoResource, Resource};
use crate::router::{self, Router};
use crate::seal::{SealKey, Sealer};
use crate::session::Session;
use crate::task::{TaskManager, Tasks};
use crate::tool::{IntoTool, Tool};
use crate::uri_spelling::normalized;

/// A server in the making.
///
/// ```no_run
/// use turms_server::{Server, Tool};
///
/// # async fn example() -> Result<(), turms_server::ServeError> {
/// let hello = Tool::builder("hello").description("Greets.").handler_sync(|| "Hello!");
/// Server::new("greeter", "1.0.0").tool(hello).serve_stdio().await
/// # }
/// ```
#[must_use = "a server does nothing until it serves"]
pub struct Server {
    handle: ServerHandle,
    info: EndpointInfo,
    pub(crate) settings: Settings,
    seal_keys: Vec<SealKey>,
    seal_lifetime: Duration,
    layers: LayerStack,
    pub(crate) faults: Vec<String>,
    /// Where tools, prompts and resources were registered, by kind and name.
    places: HashMap<(&'static str, String), &'static Location<'static>>,
    /// Where methods and extensions were registered, by kind and name.
    claims: HashMap<(&'static str, String), String>,
    /// Extensions with the ids of those that they require.
    pub(crate) required_extensions: Vec<(Arc<str>, String)>,
}

/// What a server was told when it was put together.
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
    pub(crate) on_open: Option<SessionHook>,
    pub(crate) on_close: Option<SessionHook>,
    pub(crate) notifications: HashMap<String, NotificationHook>,
    pub(crate) on_notification: Option<NotificationHook>,
}

type SessionHook = Box<dyn Fn(&Arc<Session>) + Send + Sync>;
type NotificationHook = Box<dyn Fn(&str, Option<RawJson>, Context) -> NotifyFuture + Send + Sync>;
type Visible = Box<dyn Fn(Item<'_>, &Context) -> bool + Send + Sync>;
type MethodAction = Arc<dyn Fn(&str, Payload, Context) -> ResponseFuture + Send + Sync>;

impl Settings {
    /// Returns `true` if the caller may see and use an item: asked by everything that names one.
    pub(crate) fn check_item(&self, item: Item<'_>, context: &Context) -> bool {
        self.visible.as_ref().is_none_or(|visible| visible(item, context))
    }

    /// The catalog as one caller sees it.
    pub(crate) fn visible_to(&self, catalog: &Catalog, own: Option<&Catalog>, context: &Context) -> Catalog {
        let mut seen = catalog.changed();
        if let Some(own) = own {
            seen.adopt(own);
        }
        if self.visible.is_some() {
            seen.tools.retain(|tool| self.check_item(Item::Tool(tool), context));
            seen.prompts.retain(|prompt| self.check_item(Item::Prompt(prompt), context));
            seen.resources.retain(|resource| self.check_item(Item::Resource(resource), context));
            seen.templates.retain(|resource| self.check_item(Item::Resource(resource), context));
        }
        seen
    }
}

/// Something that a caller may see or not.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Item<'a> {
    /// A tool.
    Tool(&'a Tool),
    /// A prompt.
    Prompt(&'a Prompt),
    /// A resource, or a family of them.
    Resource(&'a Resource),
}

impl Item<'_> {
    /// The name of a tool or prompt, the URI of a resource.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Tool(tool) => tool.name(),
            Self::Prompt(prompt) => prompt.name(),
            Self::Resource(resource) => resource.uri(),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").finish_non_exhaustive()
    }
}

impl Server {
    /// Begins a server of this name and version.
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
                tasks: Arc::new(TaskManager::new(Tasks::new())),
                visible: None,
                forward_tracing: false,
                methods: HashMap::new(),
                fallback: None,
                on_open: None,
                on_close: None,
                notifications: HashMap::new(),
                on_notification: None,
            },
            seal_keys: Vec::new(),
            seal_lifetime: Duration::from_secs(60 * 60),
            layers: LayerStack::default(),
            faults: Vec::new(),
            places: HashMap::new(),
            claims: HashMap::new(),
            required_extensions: Vec::new(),
        }
    }

    /// Its name for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.info.server_info.title = Some(title.into());
        self
    }

    /// What it is.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.info.server_info.description = Some(description.into());
        self
    }

    /// Where to read more.
    pub fn website(mut self, url: impl Into<String>) -> Self {
        self.info.server_info.website_url = Some(url.into());
        self
    }

    /// A picture of it.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.info.server_info.icons.get_or_insert_default().push(icon);
        self
    }

    /// How to use it, for the model.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.settings.instructions = Some(instructions.into());
        self
    }

    /// A tool. Two of one name keep the server from being built.
    #[track_caller]
    pub fn tool<M>(mut self, tool: impl IntoTool<M>) -> Self {
        let tool = tool.into_tool();
        let name = tool.name().to_owned();
        let added = self.handle.add_tool(tool);
        self.note("tool", &name, added, Location::caller());
        self
    }

    /// A prompt. Two of one name keep the server from being built.
    #[track_caller]
    pub fn prompt<M>(mut self, prompt: impl IntoPrompt<M>) -> Self {
        let prompt = prompt.into_prompt();
        let name = prompt.name().to_owned();
        let added = self.handle.add_prompt(prompt);
        self.note("prompt", &name, added, Location::caller());
        self
    }

    /// A resource, or a family of them. Two of one URI keep the server from being built.
    #[track_caller]
    pub fn resource<M>(mut self, resource: impl IntoResource<M>) -> Self {
        let resource = resource.into_resource();
        let uri = resource.uri().to_owned();
        let added = self.handle.add_resource(resource);
        self.note("resource", &uri, added, Location::caller());
        self
    }

    /// Notes where something was registered, and what is wrong with it.
    fn note(
        &mut self,
        kind: &'static str,
        name: &str,
        added: Result<(), RegistrationError>,
        place: &'static Location<'static>,
    ) {
        // Names have no percent-encoded characters.
        let key = (kind, normalized(name).into_owned());
        match added {
            Ok(()) => {
                self.places.insert(key, place);
            }
            Err(RegistrationError::Duplicate { .. }) => {
                let first = self.places.get(&key);
                let first = first.map_or_else(|| "through a handle".to_owned(), |first| format!("at {first}"));
                self.faults.push(format!("{kind} {name:?} is registered twice: {first} and at {place}"));
            }
            Err(error) => self.faults.push(error.to_string()),
        }
    }

    /// Everything that a service object has, as `#[server]` on its `impl` block collects it.
    pub fn service<S: ServerParts>(self, service: S) -> Self {
        Arc::new(service).add_to(self)
    }

    /// Something that handlers ask for with [`State<T>`](crate::State).
    pub fn state<T: Send + Sync + 'static>(self, state: T) -> Self {
        self.handle.put_state(&Arc::new(state));
        self
    }

    /// As [`Server::state`], of something that is shared already.
    #[expect(clippy::needless_pass_by_value, reason = "given away like any other state")]
    pub fn shared_state<T: Send + Sync + 'static>(self, state: Arc<T>) -> Self {
        self.handle.put_state(&state);
        self
    }

    /// The revisions to speak; all of them unless told otherwise.
    pub fn versions(mut self, versions: impl IntoIterator<Item = ProtocolVersion>) -> Self {
        self.info.versions = versions.into_iter().collect();
        self
    }

    /// How many things a page of a list holds.
    pub fn page_size(mut self, size: usize) -> Self {
        self.settings.lists.page_size = size;
        self
    }

    /// For how long and by whom lists may be reused.
    pub fn cache(mut self, ttl: Duration, scope: CacheScope) -> Self {
        self.settings.lists.ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        self.settings.lists.scope = scope;
        self
    }

    /// The keys that seal what clients of 2026-07-28 carry between rounds, the newest first. Replicas need the same; one
    /// process alone makes its own.
    pub fn seal_keys(mut self, keys: impl IntoIterator<Item = SealKey>) -> Self {
        self.seal_keys = keys.into_iter().collect();
        self
    }

    /// How long a client may take between two rounds; an hour unless told otherwise.
    pub fn round_lifetime(mut self, lifetime: Duration) -> Self {
        self.seal_lifetime = lifetime;
        self
    }

    /// How tasks are kept and run.
    pub fn tasks(mut self, tasks: Tasks) -> Self {
        self.settings.tasks = Arc::new(TaskManager::new(tasks));
        self
    }

    /// Sets the limits, which hold over every transport.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.info.limits = limits;
        self
    }

    /// Maximum number of steps of one validation of arguments or structured content against a JSON Schema, 25 million by
    /// default, which are at most about a tenth of a second. A step is a small piece of work, such as following a subschema or
    /// comparing two values. What takes more is refused as too expensive to validate. Values of more than 64 KiB are checked on
    /// a thread of their own, and may take ten times as many steps.
    pub fn max_validation_steps(self, steps: u64) -> Self {
        self.handle.set_max_validation_steps(steps);
        self
    }

    /// What a caller sees and may use; everything unless told otherwise. Where several have a say, all must agree. Lists are
    /// then `private` to caches, whatever [`Server::cache`] says, as they may differ from caller to caller.
    pub fn visible(mut self, visible: impl Fn(Item<'_>, &Context) -> bool + Send + Sync + 'static) -> Self {
        let earlier = self.settings.visible.take();
        self.settings.visible = Some(Box::new(move |item, context| {
            earlier.as_ref().is_none_or(|earlier| earlier(item, context)) && visible(item, context)
        }));
        self
    }

    /// Sends what handlers say through `tracing` to their callers; the subscriber needs [`ForwardLogs`](crate::ForwardLogs).
    pub fn forward_tracing(mut self) -> Self {
        self.settings.forward_tracing = true;
        self
    }

    /// A method of your own. One that the server answers itself, and two of one name, keep it from being built.
    #[track_caller]
    pub fn method<P, R, F, Fut>(mut self, name: impl Into<String>, handler: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static,
        F: Fn(P, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ErrorObject>> + Send + 'static,
    {
        let name = name.into();
        if router::is_own(&name) {
            self.faults.push(extension::usurped(&name));
            return self;
        }
        if self.claim("method", &name, format!("at {}", Location::caller())) {
            self.add_decoded_method(name, handler);
        }
        self
    }

    /// Registers something of which there is one of a name; returns `false` if there is one already, which keeps the server from
    /// being built. `place` says where it is registered.
    pub(crate) fn claim(&mut self, kind: &'static str, name: &str, place: String) -> bool {
        match self.claims.entry((kind, name.to_owned())) {
            Entry::Vacant(entry) => {
                entry.insert(place);
                true
            }
            Entry::Occupied(first) => {
                self.faults.push(format!("{kind} {name:?} is registered twice: {} and {place}", first.get()));
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
            async move { Ok(handler(params.decode()?, context).await?) }
        });
    }

    /// Adds a method whose handler also decodes its parameters.
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
                let params = params.into_raw().map_err(|error| crate::respond::unwritable(&error))?;
                let result = handler(params, context).await?;
                RawJson::encode(&result)
                    .map(Payload::lowered)
                    .map_err(|error| crate::respond::unwritable(&error).into())
            })
        });
        self.settings.methods.insert(name, action);
    }

    /// A notification of your own. Two of one name keep the server from being built.
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
        let handler = Arc::new(handler);
        let hook: NotificationHook = Box::new(move |method, params, context| {
            let params = params.unwrap_or_else(|| Object::new().into());
            match params.decode::<P>() {
                Ok(params) => Box::pin(handler(params, context)),
                Err(error) => {
                    tracing::warn!(method, %error, "a notification of the wrong shape is passed over");
                    Box::pin(async {})
                }
            }
        });
        self.settings.notifications.insert(name, hook);
    }

    /// A layer in front of everything; the last one added is the first to see a call.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<SharedService> + Send + Sync + 'static,
        L::Service: Service,
    {
        self.layers.push(layer);
        self
    }

    /// Answers every method that nobody else does.
    pub fn fallback(
        mut self,
        fallback: impl Fn(&str, Payload, Context) -> ResponseFuture + Send + Sync + 'static,
    ) -> Self {
        self.settings.fallback = Some(Arc::new(fallback));
        self
    }

    /// Called when a client has completed the handshake (`notifications/initialized`), after what was given before.
    pub fn on_open(mut self, opened: impl Fn(&Arc<Session>) + Send + Sync + 'static) -> Self {
        self.settings.on_open = Some(after(self.settings.on_open.take(), opened));
        self
    }

    /// Called when a session ends that [`on_open`](Self::on_open) was called for: the client has gone, or has begun another session
    /// by a second `initialize`. Runs after what was given before.
    pub fn on_close(mut self, closed: impl Fn(&Arc<Session>) + Send + Sync + 'static) -> Self {
        self.settings.on_close = Some(after(self.settings.on_close.take(), closed));
        self
    }

    /// Called with every notification that the protocol leaves to the server.
    pub fn on_notification(
        mut self,
        heard: impl Fn(&str, Option<RawJson>, Context) -> NotifyFuture + Send + Sync + 'static,
    ) -> Self {
        self.settings.on_notification = Some(Box::new(heard));
        self
    }

    /// The server while it runs. May be taken before it does.
    ///
    /// Tools, prompts and resources can be added through it at any time, so a server whose handle was taken declares all
    /// three, and that their lists may change, even if it has none of a kind yet. Other servers declare what they have.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        self.handle.offer_all();
        self.handle.clone()
    }

    /// As [`Server::handle`], without declaring anything.
    #[cfg(feature = "skills")]
    pub(crate) fn own_handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// The finished server as a service, to be called within this process or to be put behind a transport.
    ///
    /// # Errors
    /// When something that was registered cannot be used, such as a tool with an invalid schema, or two of one name.
    pub fn build(mut self) -> Result<Router, ServeError> {
        self.faults.extend(app::faults(&self.handle.catalog()));
        self.faults.extend(self.missing_extensions());
        if !self.faults.is_empty() {
            return Err(ServeError::Registered(self.faults.join("; ")));
        }
        let info = RawJson::encode(&self.info.server_info).unwrap_or_default();
        self.settings.lists.server_meta.insert_raw(key::SERVER_INFO, &info);
        self.settings.sealer = Arc::new(Sealer::new(self.seal_keys, self.seal_lifetime));
        Ok(Router::new(self.handle, Arc::new(self.settings), self.info, &self.layers))
    }

    /// Serves one client over standard input and output, until it goes or the server is shut down.
    ///
    /// # Errors
    /// When something that was registered cannot be used, or reading or writing fails.
    pub async fn serve_stdio(self) -> Result<(), ServeError> {
        let (reader, writer) = stdio().map_err(ServeError::Stdio)?;
        let router = self.build()?;
        // As a task, it runs on the thread that hears of input, which would have to wake another one otherwise.
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

    /// Serves one client over a byte stream, until it goes or the server is shut down.
    ///
    /// # Errors
    /// When something that was registered cannot be used, or reading or writing fails.
    pub async fn serve<R, W>(self, reader: R, writer: W) -> Result<(), ServeError>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        self.build()?.serve(reader, writer).await
    }
}

fn after(earlier: Option<SessionHook>, hook: impl Fn(&Arc<Session>) + Send + Sync + 'static) -> SessionHook {
    match earlier {
        None => Box::new(hook),
        Some(earlier) => Box::new(move |session| {
            earlier(session);
            hook(session);
        }),
    }
}

impl IntoEndpoint for Server {
    fn into_endpoint(self) -> Result<Endpoint, ServeError> {
        Ok(self.build()?.endpoint())
    }
}

impl Router {
    /// Serves one more client over a byte stream.
    ///
    /// # Errors
    /// If reading or writing fails.
    pub async fn serve<R, W>(&self, reader: R, writer: W) -> Result<(), ServeError>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let (connection, _) = Connection::server(reader, writer, self.versions(), self.limits().clone());
        connection.serve(&self.endpoint()).await.map_err(ServeError::Connection)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("info", &self.info.server_info).finish_non_exhaustive()
    }
}

/// A service object whose methods are tools, prompts and resources, as `#[server]` writes it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no tools, prompts or resources",
    note = "put `#[server]` on its `impl` block and `#[tool]`, `#[prompt]` or `#[resource(..)]` on the methods"
)]
pub trait ServerParts: Send + Sync + 'static {
    /// Registers everything the object has.
    fn add_to(self: Arc<Self>, server: Server) -> Server;
}
