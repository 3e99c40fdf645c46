//! The router: dispatches requests and notifications to their handlers.

mod complete;
mod lifecycle;
mod list;
mod listen;
mod prompt;
mod resource;
mod tool;

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use turms_core::{
    CallContext, CallResult, Endpoint, EndpointInfo, Error, IntoEndpoint, Limits, NotifyFuture, Payload, Request,
    ResponseFuture, Service, ServiceError,
};
use turms_proto::method::Method as _;
use turms_proto::revision::Translate;
use turms_proto::types::{
    CallTool, Complete, Discover, EmptyResult, GetPrompt, Initialize, InputResponses, Listen, Meta, Ping, ReadResource,
    SetLevel, Subscribe, Unsubscribe,
};
use turms_proto::{Ability, Notification, Object, ProtocolVersion};

pub(crate) use self::lifecycle::refused_session;
pub(crate) use self::resource::{find_resource, is_hidden};
pub(crate) use self::tool::{ToolRequest, finish};
use crate::call_log::CallLog;
use crate::catalog::{Catalog, CatalogList, meta_for};
use crate::context::Context;
use crate::current_call::with_current_call;
use crate::extension;
use crate::handle::ServerHandle;
use crate::input::{InputRequestState, InputRounds, RoundEnd};
use crate::layered::LayerStack;
use crate::server::Settings;
use crate::session::{Session, SessionCore};

/// A built server, as a [`Service`]. Clones share the same server.
#[derive(Clone)]
pub struct Router(Arc<RouterInner>);

struct RouterInner {
    handle: ServerHandle,
    settings: Arc<Settings>,
    info: EndpointInfo,
    /// The server wrapped in its layers, if it has any.
    layered: Option<Arc<dyn Service>>,
}

impl Router {
    pub(crate) fn new(handle: ServerHandle, settings: Arc<Settings>, info: EndpointInfo, layers: &LayerStack) -> Self {
        handle.attach(&settings);
        let unlayered = Self(Arc::new(RouterInner { handle, settings, info, layered: None }));
        let Some(layered) = layers.wrap(Unlayered(unlayered.clone())) else { return unlayered };
        let RouterInner { handle, settings, info, .. } = &*unlayered.0;
        let (handle, settings, info) = (handle.clone(), settings.clone(), info.clone());
        Self(Arc::new(RouterInner { handle, settings, info, layered: Some(layered) }))
    }

    /// Returns a handle to the running server. As with [`Server::handle`](crate::Server::handle), the server then
    /// declares tools, prompts and resources with `listChanged` to clients that connect later.
    #[must_use]
    pub fn handle(&self) -> &ServerHandle {
        self.0.handle.offer_all();
        &self.0.handle
    }

    /// Returns the limits of the server.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.0.info.limits
    }

    /// Returns the protocol revisions that the server supports.
    #[must_use]
    pub fn protocol_versions(&self) -> &[ProtocolVersion] {
        &self.0.info.versions
    }

    /// Returns the server as an endpoint for transports.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        let shutdown = self.0.handle.shutdown_token().clone();
        Endpoint::with_shutdown(Arc::new(self.clone()), self.0.info.clone(), shutdown)
    }
}

impl IntoEndpoint for Router {
    fn into_endpoint(self) -> Result<Endpoint, Error> {
        Ok(self.endpoint())
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("info", &self.0.info).finish_non_exhaustive()
    }
}

impl Service for Router {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        let log = CallLog::of_request(&request, &cx);
        let call = match &self.0.layered {
            Some(layered) => layered.call(request, cx),
            None => self.route(request, cx),
        };
        match log {
            Some(log) => Box::pin(log.watch(call)),
            None => call,
        }
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        let log = CallLog::of_notification(&notification.method, &cx);
        let handler = match &self.0.layered {
            Some(layered) => layered.notify(notification, cx),
            None => self.handle_notification(notification, cx),
        };
        match log {
            Some(log) => Box::pin(log.watch(handler)),
            None => handler,
        }
    }
}

/// The router below the layers of the server.
struct Unlayered(Router);

impl Service for Unlayered {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        self.0.route(request, cx)
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        self.0.handle_notification(notification, cx)
    }
}

/// Returns `true` if the router serves this method itself, so that a custom method of the same name would never be
/// called.
pub(crate) fn is_reserved_method(method: &str) -> bool {
    let methods = [
        CallTool::NAME,
        ReadResource::NAME,
        GetPrompt::NAME,
        Complete::NAME,
        Listen::NAME,
        Initialize::NAME,
        Discover::NAME,
        Ping::NAME,
        SetLevel::NAME,
        Subscribe::NAME,
        Unsubscribe::NAME,
    ];
    methods.contains(&method) || CatalogList::of_method(method).is_some()
}

impl Router {
    /// Dispatches a request by its method. Each method has its own boxed future, because one async function for all
    /// would have a future as large as the largest of them.
    fn route(&self, request: Request, cx: CallContext) -> ResponseFuture {
        let (router, context) = (self.clone(), self.context(cx));
        let traced = self.0.settings.forward_tracing.then(|| context.clone());
        let Request { method, params, .. } = request;
        if &*method != Initialize::NAME && context.session().is_some_and(|session| session.core().is_refused()) {
            return Box::pin(async { Err(refused_session().into()) });
        }
        let call: ResponseFuture = match &*method {
            CallTool::NAME => Box::pin(router.call_tool(params, context)),
            ReadResource::NAME => Box::pin(router.read_resource(params, context)),
            GetPrompt::NAME => Box::pin(router.get_prompt(params, context)),
            Complete::NAME => Box::pin(router.complete(params, context)),
            Listen::NAME => Box::pin(router.listen(params, context)),
            Initialize::NAME => Box::pin(async move { router.initialize(params, &context).await }),
            Discover::NAME => Box::pin(async move { Ok(Payload::new(router.discover())) }),
            Ping::NAME => Box::pin(async { Ok(Payload::new(EmptyResult::new())) }),
            SetLevel::NAME => Box::pin(async move { lifecycle::set_level(params, &context) }),
            Subscribe::NAME => Box::pin(async move { router.subscribe(params, &context) }),
            Unsubscribe::NAME => Box::pin(async move { router.unsubscribe(params, &context) }),
            name => match CatalogList::of_method(name) {
                Some(kind) => Box::pin(async move { router.list(kind, params, &context) }),
                None => Box::pin(async move { router.call_custom_method(&method, params, context).await }),
            },
        };
        match traced {
            Some(context) => with_current_call(context, call),
            None => call,
        }
    }

    /// Handles the methods of tasks, and custom methods of the application and of extensions.
    async fn call_custom_method(&self, method: &str, mut params: Payload, context: Context) -> CallResult {
        let settings = &self.0.settings;
        let meta = self.result_meta(&context);
        if self.0.handle.has_tasks()
            && let Some(result) = settings.tasks.handle(method, &mut params, &context, meta.clone()).await
        {
            return result;
        }
        if let Some(action) = settings.methods.get(method) {
            return extension::with_server_info(action(method, params, context).await?, meta);
        }
        match &settings.fallback {
            Some(action) => action(method, params, context).await,
            None => Err(ServiceError::method_not_found(method)),
        }
    }

    fn handle_notification(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        let (router, context) = (self.clone(), self.context(cx));
        Box::pin(async move {
            let settings = &router.0.settings;
            let Notification { method, params, .. } = notification;
            if context.session().is_some_and(|session| session.core().is_refused()) {
                return;
            }
            if let Some(handler) = settings.notifications.get(&*method).or(settings.notification_fallback.as_ref()) {
                handler(&method, params, context).await;
            }
        })
    }

    /// Creates the context of a handler. In revisions with a handshake it has the session; its state is created on
    /// first use.
    fn context(&self, cx: CallContext) -> Context {
        let session = cx.session().and_then(|handle| {
            handle.state(|| {
                let session = Arc::new(SessionCore::new(handle.peer().clone(), handle.serial(), self.0.handle.clone()));
                self.0.handle.subscriptions().join(handle);
                session
            })
        });
        let session = session.map(Session::new);
        Context::new(cx, self.0.handle.clone(), session)
    }

    /// Checks that the server has items of a kind. Without them, it does not have the methods of the kind either.
    fn require_kind(&self, kind: CatalogList, method: &str, context: &Context) -> Result<(), ServiceError> {
        let offered = self.0.handle.catalog().offers(kind)
            || context.session().and_then(|session| session.core().own.load_full()).is_some_and(|own| own.offers(kind));
        if offered { Ok(()) } else { Err(ServiceError::method_not_found(method)) }
    }

    /// Adds the input rounds of a request to its context. A client that declares no capabilities cannot receive input
    /// requests, so its calls have no input rounds, unless the request continues an earlier round.
    fn with_rounds(&self, context: Context, request: &RoundRequest<'_>, server: Option<&Meta>) -> Context {
        let continues = request.state.is_some() || request.responses.is_some();
        let may_request_input = continues || context.meta().is_some_and(Meta::declares_capabilities);
        if !may_request_input || !context.protocol_version().has(Ability::InputRequired) {
            return context;
        }
        context.with_rounds(InputRounds::new(InputRequestState {
            sealer: self.0.settings.sealer.clone(),
            method: request.method,
            target: request.target.into(),
            arguments: request.arguments.cloned(),
            state: request.state.map(str::to_owned),
            responses: request.responses.cloned(),
            server: server.cloned(),
        }))
    }

    /// Returns the `_meta` of a result, with the server info if the revision has it.
    fn result_meta(&self, context: &Context) -> Option<Meta> {
        meta_for(context.protocol_version(), &self.0.settings.lists.server_meta)
    }
}

/// A request that may take several input rounds, with the state of earlier ones.
struct RoundRequest<'a> {
    method: &'static str,
    target: &'a str,
    arguments: Option<&'a Object>,
    state: Option<&'a str>,
    responses: Option<&'a InputResponses>,
}

/// Looks an item up in the catalog of the session, then in that of the server.
pub(crate) fn find_in_catalogs<T>(
    catalog: &Catalog,
    context: &Context,
    look: impl Fn(&Catalog) -> Option<T>,
) -> Option<T> {
    let own = context.session().and_then(|session| session.core().own.load_full());
    own.as_deref().and_then(&look).or_else(|| look(catalog))
}

/// Creates the response of a call at the end of a round: its result with the server info in `_meta`, or an
/// input-required result.
fn respond<T>(end: RoundEnd<T>, server: Option<Meta>, meta: impl FnOnce(&mut T) -> &mut Option<Meta>) -> CallResult
where
    T: Serialize + Translate + Send + Sync + 'static,
{
    match end {
        RoundEnd::Finished(result) => {
            let mut result = result?;
            if let Some(server) = server {
                attach_server_info(meta(&mut result), server);
            }
            Ok(Payload::new(result))
        }
        RoundEnd::InputRequired(result) => result,
    }
}

/// Adds the server info to the `_meta` of a result.
pub(crate) fn attach_server_info(meta: &mut Option<Meta>, server: Meta) {
    match meta {
        None => *meta = Some(server),
        Some(own) => {
            for (name, value) in server.iter() {
                own.insert_raw(&name, &value);
            }
        }
    }
}
