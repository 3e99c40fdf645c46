//! Protocol extensions: their declarations and what they add to a server.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use turms_core::layer::Layer;
use turms_core::{CloseReason, Payload, Service, ServiceError};
use turms_proto::types::{ClientCapability, Meta, ResultType, is_extension_id};
use turms_proto::{ErrorObject, Object, RawJson};

use crate::build_error::ComponentError;
use crate::context::Context;
use crate::handle::ServerHandle;
use crate::prompt::IntoPrompt;
use crate::resource::IntoResource;
use crate::router;
use crate::server::{Component, Server};
use crate::session::Session;
use crate::tool::IntoTool;

/// A protocol extension: its id, its settings, and what it adds to a server.
///
/// A server has the extensions that are [added](Server::extension) to it. They are declared to every client. Their
/// methods are available to the clients that declare the extension, too.
///
/// ```
/// use std::sync::Arc;
///
/// use serde::{Deserialize, Serialize};
/// use serde_json::json;
/// # mod turms {
/// #     pub use turms_proto::{ErrorObject, ProtocolVersion};
/// #     pub use turms_proto as jsonrpc;
/// #     pub use turms_proto as types;
/// #     pub use turms_server::*;
/// #     pub use turms_testing as testing;
/// # }
/// use turms::jsonrpc::ErrorCode;
/// use turms::testing::TestClient;
/// use turms::types::Object;
/// use turms::{Context, ErrorObject, ExtensionBuilder, ProtocolVersion, Server, ServerExtension};
///
/// /// Serves the prices of articles.
/// struct Prices;
///
/// const ID: &str = "com.example/prices";
///
/// #[derive(Deserialize)]
/// struct PriceParams {
///     article: String,
/// }
///
/// #[derive(Serialize)]
/// struct PriceResult {
///     cents: u32,
/// }
///
/// impl ServerExtension for Prices {
///     fn id(&self) -> &str {
///         ID
///     }
///
///     fn register(self: Arc<Self>, scope: ExtensionBuilder) -> ExtensionBuilder {
///         scope.method("com.example/prices/get", |params: PriceParams, context: Context| async move {
///             // The settings that the client declares.
///             let _currency = context.client_extension(ID).and_then(|settings| settings.get("currency"));
///             match params.article.as_str() {
///                 "tea" => Ok(PriceResult { cents: 250 }),
///                 other => Err(ErrorObject::invalid_params(format!("there is no {other:?}"))),
///             }
///         })
///     }
/// }
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let server = || Server::new("shop", "1.0.0").extension(Prices);
/// let article = json!({ "article": "tea" });
/// for version in ProtocolVersion::ALL {
///     let client = TestClient::builder(server()).protocol_version(version);
///     let client = client.client(|client| client.declare_extension(ID, Object::new())).connect().await?;
///     let price = client.request_raw("com.example/prices/get", &article).await?;
///     assert_eq!(price.member("cents").unwrap().as_str(), "250");
/// }
/// let stranger = TestClient::connect(server()).await?;
/// let refused = stranger.request_raw("com.example/prices/get", &article).await.unwrap_err();
/// assert_eq!(refused.error_response().unwrap().code, ErrorCode::MISSING_CLIENT_CAPABILITY);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an extension of the protocol",
    note = "implement `ServerExtension` for it: its id, its settings, and what it adds to a server"
)]
pub trait ServerExtension: Send + Sync + 'static {
    /// Returns the id, such as `com.example/prices`: a reversed domain that you own, a slash and a name.
    fn id(&self) -> &str;

    /// Returns the settings that are declared with the id. Called once, when the extension is added.
    fn settings(&self) -> Object {
        Object::new()
    }

    /// Adds the methods, tools, prompts, resources and layers of the extension.
    fn register(self: Arc<Self>, scope: ExtensionBuilder) -> ExtensionBuilder;
}

/// For applications that keep a reference to their extension.
impl<T: ServerExtension> ServerExtension for Arc<T> {
    fn id(&self) -> &str {
        T::id(self)
    }

    fn settings(&self) -> Object {
        T::settings(self)
    }

    fn register(self: Arc<Self>, scope: ExtensionBuilder) -> ExtensionBuilder {
        T::register(Self::clone(&self), scope)
    }
}

impl Server {
    /// Adds a protocol extension and declares it. Building the server fails if the id is invalid or registered twice,
    /// or if a [required extension](ExtensionBuilder::requires) is missing.
    #[track_caller]
    pub fn extension(mut self, extension: impl ServerExtension) -> Self {
        let extension = Arc::new(extension);
        let id: Arc<str> = extension.id().into();
        if !is_extension_id(&id) {
            let problem = "its id has to be a prefix, a slash and a name, such as com.example/prices";
            self.problems.push(ComponentError::new("extension", &*id, problem));
            return self;
        }
        if !self.claim("extension", &id, format!("at {}", Location::caller())) {
            return self;
        }
        let declared = self.settings.extensions.get_or_insert_default();
        declared.insert_raw(&id, &extension.settings().into());
        extension.register(ExtensionBuilder { server: self, id }).server
    }

    /// Returns an error for each required extension that is missing.
    pub(crate) fn missing_extensions(&self) -> Vec<ComponentError> {
        let has = |id: &str| self.settings.extensions.as_ref().is_some_and(|declared| declared.contains(id));
        let missing = self.required_extensions.iter().filter(|(_, required)| !has(required));
        let error = |(id, required): &(Arc<str>, String)| {
            let reason = format!("requires extension {required:?}, which the server does not have");
            ComponentError::new("extension", &**id, reason)
        };
        missing.map(error).collect()
    }
}

impl Context {
    /// Returns the client's settings of an extension, from this request or from the handshake. `None` if the client
    /// does not declare the extension.
    #[must_use]
    pub fn client_extension(&self, id: &str) -> Option<Object> {
        let settings = self.client_capabilities().extensions?.get(id)?;
        Some(settings.as_object().unwrap_or_default())
    }
}

/// The server builder, as an [extension](ServerExtension) uses it.
#[must_use = "builder methods return the changed scope"]
pub struct ExtensionBuilder {
    server: Server,
    id: Arc<str>,
}

impl ExtensionBuilder {
    /// Returns the id of the extension.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns a handle to the running server. It can be stored until the server starts.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        self.server.handle()
    }

    /// Same as [`ExtensionBuilder::handle`], without declaring capabilities for items that are added later.
    #[cfg(feature = "skills")]
    pub(crate) fn own_handle(&self) -> ServerHandle {
        self.server.own_handle()
    }

    /// Requires another extension, added before or after this one. Building the server fails without it.
    pub fn requires(mut self, id: impl Into<String>) -> Self {
        self.server.required_extensions.push((self.id.clone(), id.into()));
        self
    }

    /// Adds an error, so that building the server fails.
    pub fn error(mut self, problem: impl fmt::Display) -> Self {
        self.server.problems.push(ComponentError::new("extension", &*self.id, problem.to_string()));
        self
    }

    /// Adds a method for clients that declare the extension. Other clients receive the error -32021.
    pub fn method<P, R, F, Fut>(mut self, name: impl Into<String>, handler: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static,
        F: Fn(P, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ErrorObject>> + Send + 'static,
    {
        let name = name.into();
        if !self.claim_method(&name) {
            return self;
        }
        let (id, handler) = (self.id.clone(), Arc::new(handler));
        // The parameters are decoded after the client is checked, because the extension defines their meaning.
        self.server.add_method(name, move |params: RawJson, context: Context| {
            let (id, handler) = (id.clone(), handler.clone());
            async move {
                context.client_capabilities().require(ClientCapability::Extension(&id))?;
                Ok(handler(params.decode()?, context).await?)
            }
        });
        self
    }

    /// Adds a method for all clients, including those that do not declare the extension. Only for extensions that allow
    /// this.
    pub fn method_for_any_client<P, R, F, Fut>(mut self, name: impl Into<String>, handler: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static,
        F: Fn(P, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ErrorObject>> + Send + 'static,
    {
        let name = name.into();
        if self.claim_method(&name) {
            self.server.add_decoded_method(name, handler);
        }
        self
    }

    /// Registers the name of a method. If it is taken, returns `false` and adds an error, so that building the server
    /// fails.
    fn claim_method(&mut self, name: &str) -> bool {
        if router::is_reserved_method(name) {
            let reason = format!("method {name:?}: {RESERVED_METHOD}");
            self.server.problems.push(ComponentError::new("extension", &*self.id, reason));
            return false;
        }
        self.server.claim("method", name, format!("by extension {:?}", self.id))
    }

    /// Adds a handler for a notification from clients that declare the extension. It is ignored from other clients. In
    /// 2026-07-28, notifications carry no capabilities, so it is accepted from all clients.
    pub fn notification<P, F, Fut>(mut self, name: impl Into<String>, handler: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        F: Fn(P, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let name = name.into();
        if !self.server.claim("notification", &name, format!("by extension {:?}", self.id)) {
            return self;
        }
        let (id, handler) = (self.id.clone(), Arc::new(handler));
        self.server.add_notification(name, move |params: P, context: Context| {
            let heard = context.session().is_none() || context.client_extension(&id).is_some();
            let handled = heard.then(|| handler(params, context));
            async move {
                if let Some(handled) = handled {
                    handled.await;
                }
            }
        });
        self
    }

    /// Adds a tool, visible to all callers unless it is [hidden](ExtensionBuilder::visible_if).
    #[track_caller]
    pub fn tool<M>(mut self, tool: impl IntoTool<M>) -> Self {
        self.server = self.server.tool(tool);
        self
    }

    /// Adds a prompt, visible to all callers unless it is [hidden](ExtensionBuilder::visible_if).
    #[track_caller]
    pub fn prompt<M>(mut self, prompt: impl IntoPrompt<M>) -> Self {
        self.server = self.server.prompt(prompt);
        self
    }

    /// Adds a resource or a resource template, visible to all callers unless it is [hidden](ExtensionBuilder::visible_if).
    #[track_caller]
    pub fn resource<M>(mut self, resource: impl IntoResource<M>) -> Self {
        self.server = self.server.resource(resource);
        self
    }

    /// Adds a visibility check for all items of the server. An item is visible if all checks return `true`.
    pub fn visible_if(mut self, visible: impl Fn(Component<'_>, &Context) -> bool + Send + Sync + 'static) -> Self {
        self.server = self.server.visible_if(visible);
        self
    }

    /// Adds state, which handlers extract with [`State<T>`](crate::State).
    pub fn state<T: Send + Sync + 'static>(mut self, state: T) -> Self {
        self.server = self.server.state(state);
        self
    }

    /// Same as [`ExtensionBuilder::state`], for a value that is already in an `Arc`.
    pub fn shared_state<T: Send + Sync + 'static>(mut self, state: Arc<T>) -> Self {
        self.server = self.server.shared_state(state);
        self
    }

    /// Adds a layer around all requests and notifications of the server.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Arc<dyn Service>> + Send + Sync + 'static,
        L::Service: Service,
    {
        self.server = self.server.layer(layer);
        self
    }

    /// Adds an async callback for a session that starts, also of clients that do not declare the extension: see
    /// [`Server::on_session_start`].
    pub fn on_session_start<F, Fut>(mut self, started: F) -> Self
    where
        F: Fn(Session, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), ErrorObject>> + Send + 'static,
    {
        self.server = self.server.on_session_start(started);
        self
    }

    /// Adds a callback for the end of a session that was started: see [`Server::on_session_end`].
    pub fn on_session_end(mut self, ended: impl Fn(Session, CloseReason) + Send + Sync + 'static) -> Self {
        self.server = self.server.on_session_end(ended);
        self
    }
}

impl fmt::Debug for ExtensionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtensionBuilder").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The reason why a method of the protocol cannot be registered.
pub(crate) const RESERVED_METHOD: &str = "the method is reserved: the server implements it";

/// Adds `resultType` and the server info to the result of a custom method. Without `server`, the revision has neither.
pub(crate) fn with_server_info(result: Payload, server: Option<Meta>) -> Result<Payload, ServiceError> {
    let Some(server) = server else { return Ok(result) };
    let raw = result.into_raw().map_err(|error| crate::respond::encode_error(&error))?;
    let Some(mut result) = raw.as_object() else { return Ok(Payload::lowered(raw)) };
    if !result.contains("resultType") {
        result.insert_raw("resultType", &RawJson::string(ResultType::Complete.as_str()));
    }
    let mut meta = result.get("_meta").and_then(|meta| meta.as_object()).unwrap_or_default();
    meta.extend(&server);
    result.insert_raw("_meta", &meta.into());
    Ok(Payload::lowered(result.into()))
}
