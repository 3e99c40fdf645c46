//! Which part of a server answers what.

mod complete;
mod listen;
pub(crate) mod prompt;
pub(crate) mod resource;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytestring::ByteString;
use http::{HeaderMap, HeaderValue};
use turms_core::{
    BoxFuture, HeadersRepeatBody, Limits, NotifyFuture, Outcome as CallOutcome, Payload, Peer, Ready, Request,
    ResponseFuture, Service, ServiceError,
};
use turms_proto::header::HeaderLookup;
use turms_proto::method::{Method as _, Notification as _};
use turms_proto::revision::initialize_of_discover;
use turms_proto::session::Dialect;
use turms_proto::types::{
    CacheScope, CallTool, CallToolParams, Complete, Discover, DiscoverResult, EmptyResult, GetPrompt, Initialize,
    InitializeParams, InputResponses, Listen, Meta, PaginatedParams, Ping, ReadResource, ResourceParams,
    ServerCapabilities, ServerTasksCapability, SetLevel, SetLevelParams, Subscribe, TASKS_EXTENSION, ToolResult,
    Unsubscribe,
};
use turms_proto::{Ability, ErrorCode, ErrorObject, Object, ProtocolVersion, RawJson};
use turms_schema::shortened;

use self::prompt::PromptWays;
use self::resource::ResourceWays;
use crate::call_log::CallLog;
use crate::catalog::{Catalog, ListKind, ListStyle, meta_for};
use crate::context::Context;
use crate::extension;
use crate::forward;
use crate::front::{Layers, SharedService};
use crate::handle::ServerHandle;
use crate::handler::{Call, Input};
use crate::input::{self, Rounds, RoundsOf};
use crate::server::{Item, Settings};
use crate::session::Session;
use crate::task::{self, Plan};
use crate::tool::Tool;

/// A server as a service: what every transport calls.
#[derive(Clone)]
pub struct Router {
    bare: Bare,
    /// The same behind the layers of the whole server, if it has any.
    front: Option<SharedService>,
}

/// A server without layers.
#[derive(Debug, Clone)]
struct Bare {
    handle: ServerHandle,
    settings: Arc<Settings>,
}

impl Router {
    pub(crate) fn new(handle: ServerHandle, settings: Arc<Settings>, layers: &Layers) -> Self {
        handle.attach(&settings);
        let bare = Bare { handle, settings };
        let front = (!layers.is_empty()).then(|| layers.wrap(Arc::new(bare.clone())));
        Self { bare, front }
    }

    /// The server while it runs. As with [`Server::handle`](crate::Server::handle), clients that connect from now on are told
    /// that tools, prompts and resources may be added.
    #[must_use]
    pub fn handle(&self) -> &ServerHandle {
        self.bare.handle.offer_all();
        &self.bare.handle
    }

    /// As [`Router::handle`], without declaring anything.
    pub(crate) fn own_handle(&self) -> &ServerHandle {
        &self.bare.handle
    }

    /// The bounds of connections that the server was given.
    #[must_use]
    pub fn options(&self) -> &Limits {
        &self.bare.settings.connection
    }

    /// The revisions that the server speaks.
    #[must_use]
    pub fn versions(&self) -> &[ProtocolVersion] {
        &self.bare.settings.versions
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bare.fmt(f)
    }
}

impl Router {
    fn dispatch(&self, request: Request, cx: turms_core::CallContext) -> ResponseFuture {
        match &self.front {
            Some(front) => front.call(request, cx),
            None => self.bare.call(request, cx),
        }
    }
}

impl Service for Router {
    fn call(&self, request: Request, cx: turms_core::CallContext) -> ResponseFuture {
        match CallLog::of_request(&request, &cx) {
            None => self.dispatch(request, cx),
            Some(log) => log.watch(|| self.dispatch(request, cx)),
        }
    }

    fn notify(&self, method: ByteString, params: Option<RawJson>, cx: turms_core::CallContext) -> NotifyFuture {
        let settings = &self.bare.settings;
        let Some(heard) = settings.notifications.get(&*method).or(settings.on_notification.as_ref()) else {
            return NotifyFuture::done();
        };
        let (session, log) = (cx.session(), CallLog::of_notification(&method, &cx));
        let notify = || heard(&method, params, Context::new(cx, self.bare.handle.clone(), session));
        match log {
            None => notify(),
            Some(log) => log.watch(notify),
        }
    }

    fn for_connection(&self, peer: &Peer) -> Option<Arc<dyn Service>> {
        Some(Arc::new(ConnectedRouter::new(self.clone(), Session::new(peer.clone()))))
    }

    fn versions(&self) -> &[ProtocolVersion] {
        self.versions()
    }

    fn ending(&self) -> BoxFuture<'static, ()> {
        let handle = self.bare.handle.clone();
        Box::pin(async move { handle.ending().await })
    }
}

/// Whether a method is one that every server answers, so that no other answer to it would ever be asked for.
pub(crate) fn is_own(method: &str) -> bool {
    let own = [
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
    own.contains(&method) || ListKind::of_method(method).is_some()
}

impl Service for Bare {
    fn call(&self, request: Request, cx: turms_core::CallContext) -> ResponseFuture {
        let session = cx.session();
        let context = Context::new(cx, self.handle.clone(), session);
        if self.settings.forward_tracing {
            return forward::within(context.clone(), || self.answer(request, context));
        }
        self.answer(request, context)
    }
}

impl Bare {
    fn answer(&self, request: Request, context: Context) -> ResponseFuture {
        self.route(request, context).unwrap_or_else(|error| Ready::now(Err(error)))
    }

    fn route(&self, request: Request, context: Context) -> Result<ResponseFuture, ServiceError> {
        let Request { method, params, .. } = request;
        Ok(match &*method {
            CallTool::NAME => self.call_tool(params, context)?,
            ReadResource::NAME => {
                way(self.resource_ways(&context).map(|ways| ways.read), &method)?(self, params, context)?
            }
            GetPrompt::NAME => way(self.prompt_ways(&context).map(|ways| ways.get), &method)?(self, params, context)?,
            Complete::NAME => way(self.complete_way(&context), &method)?(self, params, context)?,
            Listen::NAME => self.listen(params, context)?,
            Initialize::NAME => now(self.initialize(params, &context)?),
            Discover::NAME => now(self.discover()),
            Ping::NAME => now(EmptyResult::new()),
            SetLevel::NAME => now(set_level(params, &context)?),
            Subscribe::NAME => {
                way(self.resource_ways(&context).map(|ways| ways.subscribe), &method)?(self, params, context)?
            }
            Unsubscribe::NAME => now(unsubscribe(params, &context)?),
            method => match ListKind::of_method(method) {
                Some(kind) => Ready::now(Ok(self.list(kind, params, &context)?)),
                None => return self.task_method(method, params, context),
            },
        })
    }

    fn prompt_ways(&self, context: &Context) -> Option<&'static PromptWays> {
        find(&self.handle.catalog(), context, |catalog| catalog.prompt_ways)
    }

    fn resource_ways(&self, context: &Context) -> Option<&'static ResourceWays> {
        find(&self.handle.catalog(), context, |catalog| catalog.resource_ways)
    }

    fn complete_way(&self, context: &Context) -> Option<Way> {
        let prompts = self.prompt_ways(context).map(|ways| ways.complete);
        prompts.or_else(|| self.resource_ways(context).map(|ways| ways.complete))
    }

    fn task_method(&self, method: &str, mut params: Payload, context: Context) -> Result<ResponseFuture, ServiceError> {
        if let Some(ways) = self.handle.task_ways() {
            let server = self.result_meta(&context);
            if let Some(answer) = (ways.answer)(&self.settings.tasks, method, &mut params, &context, server) {
                return answer;
            }
        }
        self.custom(method, params, context)
    }

    fn custom(&self, method: &str, params: Payload, context: Context) -> Result<ResponseFuture, ServiceError> {
        if let Some(action) = self.settings.methods.get(method) {
            let meta = self.result_meta(&context);
            return Ok(action(method, params, context).map(|outcome| extension::signed(outcome?, meta)));
        }
        match &self.settings.fallback {
            Some(action) => Ok(action(method, params, context)),
            None => Err(ErrorObject::method_not_found(method).into()),
        }
    }

    fn call_tool(&self, params: Payload, mut context: Context) -> Result<ResponseFuture, ServiceError> {
        // What a client in this process may have to send again is looked at where it is.
        let shared = params.share::<CallToolParams>();
        let (plain_name, decoded);
        let (name, arguments, more) = match (params.as_raw().and_then(CallToolParams::plain), &shared) {
            (Some((name, arguments)), _) => {
                plain_name = name;
                (&*plain_name, arguments, None)
            }
            (None, Some(params)) => (&*params.name, None, Some(&**params)),
            (None, None) => {
                let mut params: CallToolParams = params.take()?;
                let arguments = params.arguments.take();
                decoded = params;
                (&*decoded.name, arguments, Some(&decoded))
            }
        };
        let given = shared.as_ref().map_or(arguments.as_ref(), |params| params.arguments.as_ref());
        let catalog = self.handle.catalog();
        let tool = find(&catalog, &context, |catalog| catalog.tools.get(name).cloned());
        let tool = tool.filter(|tool| self.settings.shows(Item::Tool(tool), &context)).ok_or_else(|| {
            if !catalog.offers(ListKind::Tools) {
                return ErrorObject::method_not_found(CallTool::NAME);
            }
            ErrorObject::invalid_params(format!("unknown tool: {:?}", shortened(name)))
        })?;
        check_param_headers(&tool, given, &context)?;
        let wish = more.and_then(|more| more.task.as_ref());
        let plan = match (tool.task_mode(), wish) {
            (None, None) => Plan::Call,
            (_, wish) => task::plan(&tool, wish, &context)?,
        };
        if let (Plan::Task, Some(ways)) = (plan, tool.task_ways()) {
            let server = self.result_meta(&context);
            let input = Input::of_tool(shared.clone(), arguments);
            return (ways.run)(&self.settings.tasks, &tool, input, wish, context, server);
        }
        let meta = self.result_meta(&context);
        let parts = RoundParts {
            method: CallTool::NAME,
            subject: name,
            arguments: given,
            state: more.and_then(|more| more.request_state.as_deref()),
            responses: more.and_then(|more| more.input_responses.as_ref()),
        };
        let rounds = self.rounds(&context, &parts, meta.as_ref());
        context.set_rounds(rounds.clone());
        let input = Input::of_tool(shared, arguments);
        if let (Plan::Later, Some(ways)) = (plan, tool.task_ways()) {
            return Ok((ways.run_later)(self.settings.tasks.clone(), tool, input, context, rounds, meta));
        }
        let call = Call { context, input };
        Ok(input::run(tool.call(call), rounds, move |outcome| {
            answer(outcome, meta, |result: &mut ToolResult| &mut result.meta)
        }))
    }

    fn list(&self, kind: ListKind, params: Payload, context: &Context) -> CallOutcome {
        let params: PaginatedParams = params.take()?;
        let catalog = self.handle.catalog();
        let own = context.session().and_then(|session| session.own.load_full());
        if !catalog.offers(kind) && !own.as_ref().is_some_and(|own| own.offers(kind)) {
            return Err(ErrorObject::method_not_found(method_of(kind)).into());
        }
        let (cursor, style) = (params.cursor.as_ref(), &self.settings.lists);
        if own.is_none() && self.settings.visible.is_none() {
            return catalog.page(kind, cursor, context.version(), style).map(Payload::lowered).map_err(Into::into);
        }
        let seen = self.settings.visible_to(&catalog, own.as_deref(), context);
        let style = ListStyle { scope: CacheScope::Private, ..style.clone() };
        seen.page(kind, cursor, context.version(), &style).map(Payload::lowered).map_err(Into::into)
    }

    fn initialize(
        &self,
        params: Payload,
        context: &Context,
    ) -> Result<turms_proto::types::InitializeResult, ServiceError> {
        let params: InitializeParams = params.take()?;
        if let Some(session) = context.session() {
            session.shake_hands(params);
        }
        let mut discovered = self.discover();
        if self.handle.has_tasks() {
            // The extension means nothing there; one revision has something like it of its own.
            if let Some(extensions) = &mut discovered.capabilities.extensions {
                extensions.remove(TASKS_EXTENSION);
            }
            discovered.capabilities.extensions = discovered.capabilities.extensions.filter(|some| !some.is_empty());
            discovered.capabilities.tasks = Some(core_tasks(context));
        }
        Ok(initialize_of_discover(discovered, context.version()))
    }

    fn discover(&self) -> DiscoverResult {
        let versions: Vec<String> = self.settings.versions.iter().map(ToString::to_string).collect();
        let mut result = DiscoverResult::new(versions, self.capabilities());
        result.instructions.clone_from(&self.settings.instructions);
        result.ttl_ms = Some(self.settings.lists.ttl_ms);
        result.cache_scope = Some(self.settings.lists.scope.clone());
        result.meta = Some(self.settings.lists.server_meta.clone());
        result
    }

    fn capabilities(&self) -> ServerCapabilities {
        let mut capabilities = self.handle.catalog().capabilities();
        capabilities.experimental.clone_from(&self.settings.experimental);
        capabilities.extensions.clone_from(&self.settings.extensions);
        if self.handle.has_tasks() {
            capabilities = capabilities.with_extension(TASKS_EXTENSION, Object::new());
        }
        capabilities
    }

    /// The rounds that a request may take. A client that declares nothing cannot be asked anything, unless that has happened
    /// already, and its calls need none.
    fn rounds(&self, context: &Context, parts: &RoundParts<'_>, server: Option<&Meta>) -> Option<Arc<Rounds>> {
        let has_begun = parts.state.is_some() || parts.responses.is_some();
        let may_ask = has_begun || context.meta().is_some_and(Meta::declares_capabilities);
        if !may_ask || !context.version().has(Ability::InputRequired) {
            return None;
        }
        Some(Rounds::of(RoundsOf {
            sealer: self.settings.sealer.clone(),
            method: parts.method,
            subject: parts.subject.into(),
            arguments: parts.arguments.cloned(),
            state: parts.state.map(str::to_owned),
            responses: parts.responses.cloned(),
            server: server.cloned(),
        }))
    }

    fn result_meta(&self, context: &Context) -> Option<Meta> {
        meta_for(context.version(), &self.settings.lists.server_meta)
    }
}

type Way = fn(&Bare, Payload, Context) -> Result<ResponseFuture, ServiceError>;

/// How a method is answered, on servers that have what it is about.
fn way(way: Option<Way>, method: &str) -> Result<Way, ErrorObject> {
    way.ok_or_else(|| ErrorObject::method_not_found(method))
}

/// What the rounds of a request are of, and what it brought along of earlier ones.
struct RoundParts<'a> {
    method: &'static str,
    subject: &'a str,
    arguments: Option<&'a Object>,
    state: Option<&'a str>,
    responses: Option<&'a InputResponses>,
}

fn unsubscribe(params: Payload, context: &Context) -> Result<EmptyResult, ServiceError> {
    let params: ResourceParams = params.take()?;
    if let Some(session) = context.session() {
        session.unsubscribe(&params.uri);
    }
    Ok(EmptyResult::new())
}

fn method_of(kind: ListKind) -> &'static str {
    match kind {
        ListKind::Tools => turms_proto::types::ListTools::NAME,
        ListKind::Prompts => turms_proto::types::ListPrompts::NAME,
        ListKind::Resources => turms_proto::types::ListResources::NAME,
        ListKind::Templates => turms_proto::types::ListResourceTemplates::NAME,
    }
}

/// Returns `true` if there is a resource at the URI that the caller must not learn of. What is gone may be told of.
pub(crate) fn hides(settings: &Settings, handle: &ServerHandle, context: &Context, uri: &str) -> bool {
    let catalog = handle.catalog();
    let ways = find(&catalog, context, |catalog| catalog.resource_ways);
    ways.is_some_and(|ways| (ways.find)(settings, &catalog, context, uri).is_hidden())
}

/// Looks in what the session has to itself first.
pub(crate) fn find<T>(catalog: &Catalog, context: &Context, look: impl Fn(&Catalog) -> Option<T>) -> Option<T> {
    let own = context.session().and_then(|session| session.own.load_full());
    own.as_deref().and_then(&look).or_else(|| look(catalog))
}

fn now<T>(value: T) -> ResponseFuture
where
    T: serde::Serialize + turms_proto::revision::Translate + Send + Sync + 'static,
{
    Ready::now(Ok(Payload::new(value)))
}

/// Says who answered, where the revision wants that.
pub(crate) fn answer<T>(
    mut result: Result<T, ErrorObject>,
    server: Option<Meta>,
    meta_of: impl Fn(&mut T) -> &mut Option<Meta>,
) -> CallOutcome
where
    T: serde::Serialize + turms_proto::revision::Translate + Send + Sync + 'static,
{
    // Changed where it is: results are large.
    if let (Ok(result), Some(server)) = (&mut result, server) {
        say_who(meta_of(result), server);
    }
    result.map(Payload::new).map_err(Into::into)
}

pub(crate) fn say_who(meta: &mut Option<Meta>, server: Meta) {
    match meta {
        None => *meta = Some(server),
        Some(own) => {
            for (name, value) in server.iter() {
                own.insert_raw(&name, &value);
            }
        }
    }
}

/// What a server of 2025-11-25 says of its tasks.
fn core_tasks(context: &Context) -> ServerTasksCapability {
    let calls = RawJson::parse(r#"{"tools":{"call":{}}}"#).ok().and_then(|calls| calls.as_object());
    let mut tasks = ServerTasksCapability::new().cancel(Object::new());
    tasks.list = task::creator(context).map(|_| Object::new());
    tasks.requests(calls.unwrap_or_default())
}

fn set_level(params: Payload, context: &Context) -> Result<EmptyResult, ServiceError> {
    let params: SetLevelParams = params.take()?;
    if let Some(session) = context.session() {
        session.set_log_level(params.level);
    }
    Ok(EmptyResult::new())
}

/// Only the router knows which arguments of a tool its headers must repeat.
fn check_param_headers(tool: &Tool, arguments: Option<&Object>, context: &Context) -> Result<(), ErrorObject> {
    let (Some(params), Some(_)) = (tool.headers(), context.extension::<HeadersRepeatBody>()) else {
        return Ok(());
    };
    let Some(headers) = context.extension::<HeaderMap>() else { return Ok(()) };
    let arguments = match arguments.map(|arguments| serde_json::from_str(arguments.as_str())) {
        Some(Ok(arguments)) => arguments,
        // What cannot be read cannot be compared, such as a number beyond all numbers.
        Some(Err(error)) => {
            let message = format!("the arguments cannot be compared with the headers that repeat them: {error}");
            return Err(ErrorObject::new(ErrorCode::HEADER_MISMATCH, message));
        }
        None => serde_json::Value::Null,
    };
    params
        .check(&arguments, |name| HeaderLookup::from_values(headers.get_all(name).iter().map(HeaderValue::to_str)))
        .map_err(|mismatch| ErrorObject::new(ErrorCode::HEADER_MISMATCH, mismatch.to_string()))
}

/// A server as one connection sees it: with a memory of who is at the other end.
#[derive(Debug)]
pub(crate) struct ConnectedRouter {
    router: Router,
    /// The current session. A second `initialize` on the connection puts another one in its place.
    session: ArcSwap<Session>,
}

impl ConnectedRouter {
    pub(crate) fn new(router: Router, session: Session) -> Self {
        let session = Arc::new(session);
        router.bare.handle.hub().join(&session);
        Self { router, session: ArcSwap::new(session) }
    }

    /// Requests that say everything for themselves have no session, even here.
    fn remember(&self, cx: turms_core::CallContext) -> turms_core::CallContext {
        match cx.dialect() {
            Dialect::Handshake(_) => cx.with_session(self.session.load_full()),
            _ => cx,
        }
    }

    /// Ends the session and begins another one with this peer.
    fn begin_session(&self, peer: &Peer) {
        let session = Arc::new(Session::new(peer.clone()));
        session.begin();
        self.router.bare.handle.hub().join(&session);
        let ended = self.session.swap(session);
        self.end_session(&ended);
    }

    fn end_session(&self, session: &Arc<Session>) {
        self.router.bare.handle.hub().leave(session);
        if session.is_open()
            && let Some(closed) = &self.router.bare.settings.on_close
        {
            // A hook that panics must not keep the connection from ending.
            let _ = catch_unwind(AssertUnwindSafe(|| closed(session)));
        }
    }
}

impl Service for ConnectedRouter {
    fn call(&self, request: Request, cx: turms_core::CallContext) -> ResponseFuture {
        if &*request.method == Initialize::NAME && !self.session.load().begin() {
            self.begin_session(cx.peer());
        }
        self.router.call(request, self.remember(cx))
    }

    fn notify(&self, method: ByteString, params: Option<RawJson>, cx: turms_core::CallContext) -> NotifyFuture {
        let settings = &self.router.bare.settings;
        if &*method == turms_proto::types::Initialized::NAME
            && let Some(opened) = &settings.on_open
        {
            let session = self.session.load_full();
            if session.is_announced_now() {
                opened(&session);
            }
        }
        self.router.notify(method, params, self.remember(cx))
    }
}

impl Drop for ConnectedRouter {
    fn drop(&mut self) {
        self.end_session(&self.session.load_full());
    }
}
