//! Which part of a server answers what.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytestring::ByteString;
use http::HeaderMap;
use turms_core::{
    BoxFuture, CallFuture, ConnectionOptions, HeadersRepeatBody, NotifyFuture, Outcome as CallOutcome, Payload, Peer,
    Ready, Request, Service,
};
use turms_proto::header::HeaderLookup;
use turms_proto::method::{Method as _, Notification as _};
use turms_proto::revision::{initialize_of_discover, tag_subscription};
use turms_proto::session::Dialect;
use turms_proto::types::{
    Acknowledged, AcknowledgedParams, CallTool, CallToolParams, Complete, CompleteParams, CompleteResult, Discover,
    DiscoverResult, EmptyResult, GetPrompt, GetPromptParams, Initialize, InitializeParams, InputResponses, Listen,
    ListenParams, ListenResult, Meta, Outcome, PaginatedParams, Ping, PromptResult, ReadResource, ReadResourceParams,
    ReadResourceResult, Reference, ServerCapabilities, ServerTasksCapability, SetLevel, SetLevelParams, Subscribe,
    SubscriptionFilter, TASKS_EXTENSION, TaskChanged, ToolResult, Unsubscribe,
};
use turms_proto::{Ability, ErrorCode, ErrorObject, Object, ProtocolVersion, RawJson};

use crate::catalog::{Catalog, ListKind, meta_for};
use crate::completion;
use crate::context::Context;
use crate::extension;
use crate::forward;
use crate::front::{Layers, SharedService};
use crate::handle::ServerHandle;
use crate::handler::{Call, Input};
use crate::hub::Listening;
use crate::input::{self, Rounds};
use crate::prompt::Prompt;
use crate::resource::Uri;
use crate::server::{Item, Settings};
use crate::session::{MAX_SUBSCRIPTIONS, Session};
use crate::task::{self, Plan, TaskWatch};
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
        let bare = Bare { handle, settings };
        let front = (!layers.is_empty()).then(|| layers.wrap(Arc::new(bare.clone())));
        Self { bare, front }
    }

    /// The server while it runs.
    #[must_use]
    pub fn handle(&self) -> &ServerHandle {
        &self.bare.handle
    }

    /// The bounds of connections that the server was given.
    #[must_use]
    pub fn options(&self) -> &ConnectionOptions {
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

impl Service for Router {
    fn call(&self, request: Request, cx: turms_core::Context) -> CallFuture {
        match &self.front {
            Some(front) => front.call(request, cx),
            None => self.bare.call(request, cx),
        }
    }

    fn notify(&self, method: ByteString, params: Option<RawJson>, cx: turms_core::Context) -> NotifyFuture {
        let settings = &self.bare.settings;
        let Some(heard) = settings.notifications.get(&*method).or(settings.on_notification.as_ref()) else {
            return NotifyFuture::done();
        };
        let session = cx.session();
        heard(&method, params, Context::new(cx, self.handle().clone(), session))
    }

    fn for_connection(&self, peer: &Peer) -> Option<Arc<dyn Service>> {
        Some(Arc::new(ConnectedRouter::new(self.clone(), Session::new(peer.clone()))))
    }

    fn versions(&self) -> &[ProtocolVersion] {
        self.versions()
    }

    fn ending(&self) -> BoxFuture<'static, ()> {
        let handle = self.handle().clone();
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
    fn call(&self, request: Request, cx: turms_core::Context) -> CallFuture {
        let session = cx.session();
        let context = Context::new(cx, self.handle.clone(), session);
        if self.settings.forward_tracing {
            return forward::within(context.clone(), || self.answer(request, context));
        }
        self.answer(request, context)
    }
}

impl Bare {
    fn answer(&self, request: Request, context: Context) -> CallFuture {
        self.route(request, context).unwrap_or_else(|error| Ready::now(Err(error)))
    }

    fn route(&self, request: Request, context: Context) -> Result<CallFuture, ErrorObject> {
        let Request { method, params, .. } = request;
        Ok(match &*method {
            CallTool::NAME => self.call_tool(params, context)?,
            ReadResource::NAME => self.read_resource(params, context)?,
            GetPrompt::NAME => self.get_prompt(params, context)?,
            Complete::NAME => self.complete(params, context)?,
            Listen::NAME => self.listen(params, context)?,
            Initialize::NAME => now(self.initialize(params, &context)?),
            Discover::NAME => now(self.discover()),
            Ping::NAME => now(EmptyResult::new()),
            SetLevel::NAME => now(set_level(params, &context)?),
            Subscribe::NAME => now(self.subscribe(params, &context)?),
            Unsubscribe::NAME => now(unsubscribe(params, &context)?),
            method => match ListKind::of_method(method) {
                Some(kind) => Ready::now(Ok(self.list(kind, params, &context)?)),
                None => return self.task_method(method, params, context),
            },
        })
    }

    fn task_method(&self, method: &str, mut params: Payload, context: Context) -> Result<CallFuture, ErrorObject> {
        if let Some(ways) = self.handle.task_ways() {
            let server = self.result_meta(&context);
            if let Some(answer) = (ways.answer)(&self.settings.tasks, method, &mut params, &context, server) {
                return answer;
            }
        }
        self.custom(method, params, context)
    }

    fn custom(&self, method: &str, params: Payload, context: Context) -> Result<CallFuture, ErrorObject> {
        if let Some(action) = self.settings.methods.get(method) {
            let meta = self.result_meta(&context);
            return Ok(action(method, params, context).map(|outcome| extension::signed(outcome?, meta)));
        }
        match &self.settings.fallback {
            Some(action) => Ok(action(method, params, context)),
            None => Err(ErrorObject::method_not_found(method)),
        }
    }

    fn call_tool(&self, params: Payload, mut context: Context) -> Result<CallFuture, ErrorObject> {
        let (name, arguments, more) = match params.as_raw().and_then(CallToolParams::plain) {
            Some((name, arguments)) => (name, arguments, None),
            None => {
                let mut params: CallToolParams = params.take()?;
                (std::mem::take(&mut params.name).into(), params.arguments.take(), Some(params))
            }
        };
        let catalog = self.handle.catalog();
        let tool = find(&catalog, &context, |catalog| catalog.tools.get(&name).cloned());
        let tool = tool.filter(|tool| self.settings.shows(Item::Tool(tool), &context)).ok_or_else(|| {
            if catalog.tools.is_empty() {
                return ErrorObject::method_not_found(CallTool::NAME);
            }
            ErrorObject::invalid_params(format!("unknown tool: {name:?}"))
        })?;
        check_param_headers(&tool, arguments.as_ref(), &context)?;
        let wish = more.as_ref().and_then(|more| more.task.as_ref());
        let plan = match (tool.task_mode(), wish) {
            (None, None) => Plan::Call,
            (_, wish) => task::plan(&tool, wish, &context)?,
        };
        if let (Plan::Task, Some(ways)) = (plan, tool.task_ways()) {
            let server = self.result_meta(&context);
            return (ways.run)(&self.settings.tasks, &tool, arguments, wish, context, server);
        }
        let rounds = self.rounds(
            &context,
            &RoundParts {
                method: CallTool::NAME,
                subject: &name,
                arguments: arguments.as_ref(),
                state: more.as_ref().and_then(|more| more.request_state.as_deref()),
                responses: more.as_ref().and_then(|more| more.input_responses.as_ref()),
            },
        )?;
        let meta = self.result_meta(&context);
        context.set_rounds(rounds.clone());
        if let (Plan::Later, Some(ways)) = (plan, tool.task_ways()) {
            return Ok((ways.run_later)(self.settings.tasks.clone(), tool, arguments, context, rounds, meta));
        }
        let call = Call { context, input: Input::Json(arguments.unwrap_or_default()) };
        Ok(input::run(tool.call(call), rounds, move |outcome| {
            answer(outcome, meta, |result: &mut ToolResult| &mut result.meta)
        }))
    }

    fn get_prompt(&self, params: Payload, mut context: Context) -> Result<CallFuture, ErrorObject> {
        let params: GetPromptParams = params.take()?;
        let catalog = self.handle.catalog();
        let prompt = self.prompt(&catalog, &context, &params.name).ok_or_else(|| {
            if catalog.prompts.is_empty() {
                return ErrorObject::method_not_found(GetPrompt::NAME);
            }
            ErrorObject::invalid_params(format!("unknown prompt: {:?}", params.name))
        })?;
        let arguments = params.arguments.unwrap_or_default();
        for argument in prompt.spec().arguments.iter().flatten() {
            if argument.required == Some(true) && !arguments.contains_key(&argument.name) {
                return Err(ErrorObject::invalid_params(format!("arguments: missing field {:?}", argument.name)));
            }
        }
        let bound = Object::encode(&arguments).ok();
        let rounds = self.rounds(
            &context,
            &RoundParts {
                method: GetPrompt::NAME,
                subject: &params.name,
                arguments: bound.as_ref(),
                state: params.request_state.as_deref(),
                responses: params.input_responses.as_ref(),
            },
        )?;
        let meta = self.result_meta(&context);
        context.set_rounds(rounds.clone());
        let call = Call { context, input: Input::Texts(arguments) };
        Ok(input::run(prompt.call(call), rounds, move |outcome| {
            answer(outcome, meta, |result: &mut PromptResult| &mut result.meta)
        }))
    }

    fn read_resource(&self, params: Payload, mut context: Context) -> Result<CallFuture, ErrorObject> {
        let params: ReadResourceParams = params.take()?;
        let catalog = self.handle.catalog();
        let found = find(&catalog, &context, |catalog| {
            catalog.resource_at(&params.uri).map(|(resource, variables)| (resource.clone(), variables))
        });
        let found = found.filter(|(resource, _)| self.settings.shows(Item::Resource(resource), &context));
        let (resource, variables) = found.ok_or_else(|| {
            if catalog.resources.is_empty() && catalog.templates.is_empty() {
                return ErrorObject::method_not_found(ReadResource::NAME);
            }
            ErrorObject::resource_not_found(&params.uri)
        })?;
        let rounds = self.rounds(
            &context,
            &RoundParts {
                method: ReadResource::NAME,
                subject: &params.uri,
                arguments: None,
                state: params.request_state.as_deref(),
                responses: params.input_responses.as_ref(),
            },
        )?;
        let meta = self.result_meta(&context);
        context.put(Uri(params.uri.clone()));
        context.set_rounds(rounds.clone());
        let call = Call { context, input: Input::Texts(variables) };
        Ok(input::run(resource.read(params.uri, call), rounds, move |outcome| {
            answer(outcome, meta, |result: &mut ReadResourceResult| &mut result.meta)
        }))
    }

    fn prompt(&self, catalog: &Catalog, context: &Context, name: &str) -> Option<Prompt> {
        let prompt = find(catalog, context, |catalog| catalog.prompts.get(name).cloned());
        prompt.filter(|prompt| self.settings.shows(Item::Prompt(prompt), context))
    }

    fn complete(&self, params: Payload, context: Context) -> Result<CallFuture, ErrorObject> {
        let params: CompleteParams = params.take()?;
        let catalog = self.handle.catalog();
        if catalog.capabilities().completions.is_none() {
            return Err(ErrorObject::method_not_found(Complete::NAME));
        }
        let known = params.context.and_then(|context| context.arguments);
        let input = completion::input(params.argument.value, known);
        let meta = self.result_meta(&context);
        let call = Call { context, input };
        let running = match &params.reference {
            Reference::Prompt(reference) => match self.prompt(&catalog, &call.context, &reference.name) {
                Some(prompt) => prompt.complete(&params.argument.name, call),
                None => {
                    return Err(ErrorObject::invalid_params(format!("unknown prompt: {:?}", reference.name)));
                }
            },
            Reference::Resource(reference) => {
                let found = find(&catalog, &call.context, |catalog| {
                    catalog.templates.get(&reference.uri).or_else(|| catalog.resources.get(&reference.uri)).cloned()
                });
                match found.filter(|family| self.settings.shows(Item::Resource(family), &call.context)) {
                    Some(family) => family.complete(&params.argument.name, call),
                    None => return Err(ErrorObject::resource_not_found(&reference.uri)),
                }
            }
            _ => return Err(ErrorObject::invalid_params("params.ref: unknown kind of reference")),
        };
        Ok(running.map(move |completion| {
            completion.map(|completion| {
                let mut result = CompleteResult::new(completion);
                result.meta = meta;
                Payload::new(result)
            })
        }))
    }

    fn list(&self, kind: ListKind, params: Payload, context: &Context) -> CallOutcome {
        let params: PaginatedParams = params.take()?;
        let catalog = self.handle.catalog();
        let own = context.session().and_then(|session| session.own.load_full());
        if !catalog.offers(kind) && !own.as_ref().is_some_and(|own| own.offers(kind)) {
            return Err(ErrorObject::method_not_found(method_of(kind)));
        }
        let (cursor, style) = (params.cursor.as_ref(), &self.settings.lists);
        if own.is_none() && self.settings.visible.is_none() {
            return catalog.page(kind, cursor, context.version(), style).map(Payload::fitted);
        }
        let seen = self.settings.visible_to(&catalog, own.as_deref(), context);
        seen.page(kind, cursor, context.version(), style).map(Payload::fitted)
    }

    fn initialize(
        &self,
        params: Payload,
        context: &Context,
    ) -> Result<turms_proto::types::InitializeResult, ErrorObject> {
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

    fn subscribe(&self, params: Payload, context: &Context) -> Result<EmptyResult, ErrorObject> {
        let params: turms_proto::types::ResourceParams = params.take()?;
        let catalog = self.handle.catalog();
        let found = find(&catalog, context, |catalog| catalog.resource_at(&params.uri).map(|(found, _)| found.clone()));
        if !found.is_some_and(|resource| self.settings.shows(Item::Resource(&resource), context)) {
            return Err(ErrorObject::resource_not_found(&params.uri));
        }
        match context.session() {
            Some(session) if !session.subscribe(params.uri) => Err(too_many_subscriptions()),
            _ => Ok(EmptyResult::new()),
        }
    }

    /// A request that lasts: first what will be told, then every change of it, until either side has had enough.
    fn listen(&self, params: Payload, context: Context) -> Result<CallFuture, ErrorObject> {
        let params: ListenParams = params.take()?;
        let capabilities = self.capabilities();
        let tells = capabilities.tools.is_some() || capabilities.prompts.is_some() || capabilities.resources.is_some();
        if !tells {
            return Err(ErrorObject::method_not_found(Listen::NAME));
        }
        let mut task_ids = params.notifications.task_ids.clone().unwrap_or_default();
        if !self.handle.has_tasks() {
            task_ids.clear();
        }
        if !task_ids.is_empty() {
            task::declared(&context)?;
        }
        if task_ids.len() > TaskWatch::MOST {
            let most = TaskWatch::MOST;
            return Err(ErrorObject::invalid_params(format!("at most {most} tasks can be watched at once")));
        }
        if params.notifications.resource_subscriptions.as_ref().is_some_and(|uris| uris.len() > MAX_SUBSCRIPTIONS) {
            return Err(too_many_subscriptions());
        }
        let filter = honoured(&params.notifications, &capabilities);
        let listening = self.handle.hub().listen(filter.clone());
        let handle = self.handle.clone();
        let tasks = self.settings.tasks.clone();
        Ok(Ready::later(async move {
            let mut filter = filter;
            let (watch, watched) = match handle.task_ways() {
                Some(ways) => (ways.watch)(&tasks, &task_ids, &context).await,
                None => (TaskWatch::of_none(tasks), Vec::new()),
            };
            filter.task_ids = Some(watched).filter(|watched| !watched.is_empty());
            tell_changes(filter, listening, watch, context, handle).await
        }))
    }

    fn rounds(&self, context: &Context, parts: &RoundParts<'_>) -> Result<Option<Arc<Rounds>>, ErrorObject> {
        if !context.version().has(Ability::InputRequired) {
            return Ok(None);
        }
        let begun = parts.state.is_some() || parts.responses.is_some();
        // A client that declares nothing cannot be asked anything, and its calls need no rounds.
        if !begun && !context.meta().is_some_and(Meta::declares_capabilities) {
            return Ok(None);
        }
        let principal = context.principal().map(|principal| principal.subject.as_str());
        let bound_to = input::binding(parts.method, parts.subject, parts.arguments, principal);
        let rounds = Rounds::new(self.settings.sealer.clone(), bound_to, parts.state, parts.responses)?;
        Ok(Some(Arc::new(rounds)))
    }

    fn result_meta(&self, context: &Context) -> Option<Meta> {
        meta_for(context.version(), &self.settings.lists.server_meta)
    }
}

struct RoundParts<'a> {
    method: &'a str,
    subject: &'a str,
    arguments: Option<&'a Object>,
    state: Option<&'a str>,
    responses: Option<&'a InputResponses>,
}

fn method_of(kind: ListKind) -> &'static str {
    match kind {
        ListKind::Tools => turms_proto::types::ListTools::NAME,
        ListKind::Prompts => turms_proto::types::ListPrompts::NAME,
        ListKind::Resources => turms_proto::types::ListResources::NAME,
        ListKind::Templates => turms_proto::types::ListResourceTemplates::NAME,
    }
}

/// Looks in what the session has to itself first.
fn find<T>(catalog: &Catalog, context: &Context, look: impl Fn(&Catalog) -> Option<T>) -> Option<T> {
    let own = context.session().and_then(|session| session.own.load_full());
    own.as_deref().and_then(&look).or_else(|| look(catalog))
}

fn now<T>(value: T) -> CallFuture
where
    T: serde::Serialize + turms_proto::revision::Translate + Send + Sync + 'static,
{
    Ready::now(Ok(Payload::new(value)))
}

/// Says who answered, where the revision wants that.
pub(crate) fn answer<T>(
    outcome: Result<Outcome<T>, ErrorObject>,
    server: Option<Meta>,
    meta_of: impl Fn(&mut T) -> &mut Option<Meta>,
) -> CallOutcome
where
    T: serde::Serialize + turms_proto::revision::Translate + Send + Sync + 'static,
{
    let mut outcome = outcome?;
    if let Some(server) = server {
        match &mut outcome {
            Outcome::Complete(result) => say_who(meta_of(result), server),
            Outcome::InputRequired(round) => say_who(&mut round.meta, server),
            Outcome::Task(task) => say_who(&mut task.meta, server),
            _ => {}
        }
    }
    Ok(Payload::new(outcome))
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

fn set_level(params: Payload, context: &Context) -> Result<EmptyResult, ErrorObject> {
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
        .check(&arguments, |name| lookup_header(headers, name))
        .map_err(|mismatch| ErrorObject::new(ErrorCode::HEADER_MISMATCH, mismatch.to_string()))
}

/// What a request has under the name of a header.
fn lookup_header<'a>(headers: &'a HeaderMap, name: &str) -> HeaderLookup<'a> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => HeaderLookup::Absent,
        (Some(value), None) => value.to_str().map_or(HeaderLookup::NotText, HeaderLookup::One),
        (Some(_), Some(_)) => HeaderLookup::Repeated,
    }
}

fn unsubscribe(params: Payload, context: &Context) -> Result<EmptyResult, ErrorObject> {
    let params: turms_proto::types::ResourceParams = params.take()?;
    if let Some(session) = context.session() {
        session.unsubscribe(&params.uri);
    }
    Ok(EmptyResult::new())
}

fn too_many_subscriptions() -> ErrorObject {
    ErrorObject::invalid_params(format!("at most {MAX_SUBSCRIPTIONS} resources can be watched at once"))
}

/// What of a filter the server can honour.
fn honoured(wanted: &SubscriptionFilter, capabilities: &ServerCapabilities) -> SubscriptionFilter {
    let mut filter = SubscriptionFilter::new();
    filter.tools_list_changed = wanted.tools_list_changed.filter(|_| capabilities.tools.is_some());
    filter.prompts_list_changed = wanted.prompts_list_changed.filter(|_| capabilities.prompts.is_some());
    if capabilities.resources.is_some() {
        filter.resources_list_changed = wanted.resources_list_changed;
        filter.resource_subscriptions.clone_from(&wanted.resource_subscriptions);
    }
    filter
}

async fn tell_changes(
    filter: SubscriptionFilter,
    listening: Listening,
    mut tasks: TaskWatch,
    context: Context,
    handle: ServerHandle,
) -> CallOutcome {
    let id = context.request_id().cloned().unwrap_or_else(|| 0.into());
    let gone = |_| ErrorObject::internal("the client has gone");
    let acknowledged = AcknowledgedParams::new(filter);
    let params = RawJson::encode(&acknowledged).map_err(|error| crate::respond::unwritable(&error))?;
    let tagged = |params: Option<&RawJson>, method: ByteString| {
        turms_proto::Notification::raw(method, Some(tag_subscription(params, &id)))
    };
    let acknowledgement = tagged(Some(&params), ByteString::from_static(Acknowledged::NAME));
    context.peer().notify_raw(acknowledgement).await.map_err(gone)?;
    let mut ending = handle.hub().ending();
    loop {
        let notification = tokio::select! {
            biased;
            change = listening.next_change() => change.notification(),
            task = tasks.next_change() => turms_proto::Notification::new::<TaskChanged>(&task).ok(),
            _ = ending.wait_for(|ending| *ending) => break,
        };
        let Some(notification) = notification else { continue };
        let told = tagged(notification.params.as_ref(), notification.method);
        context.peer().notify_raw(told).await.map_err(gone)?;
    }
    let mut meta = Meta::new();
    let tag = tag_subscription(None, &id);
    if let Some(tag) = tag.member("_meta").and_then(|meta| meta.as_object()) {
        meta = tag.into();
    }
    Ok(Payload::new(ListenResult::new().meta(meta)))
}

/// A server as one connection sees it: with a memory of who is at the other end.
#[derive(Debug)]
pub(crate) struct ConnectedRouter {
    router: Router,
    session: Arc<Session>,
}

impl ConnectedRouter {
    pub(crate) fn new(router: Router, session: Session) -> Self {
        let session = Arc::new(session);
        router.handle().hub().join(&session);
        Self { router, session }
    }

    /// Requests that say everything for themselves have no session, even here.
    fn remember(&self, cx: turms_core::Context) -> turms_core::Context {
        match cx.dialect() {
            Dialect::Handshake(_) => cx.with_session(self.session.clone()),
            _ => cx,
        }
    }
}

impl Service for ConnectedRouter {
    fn call(&self, request: Request, cx: turms_core::Context) -> CallFuture {
        self.router.call(request, self.remember(cx))
    }

    fn notify(&self, method: ByteString, params: Option<RawJson>, cx: turms_core::Context) -> NotifyFuture {
        let settings = &self.router.bare.settings;
        if &*method == turms_proto::types::Initialized::NAME
            && self.session.is_announced_now()
            && let Some(opened) = &settings.on_open
        {
            opened(&self.session);
        }
        self.router.notify(method, params, self.remember(cx))
    }
}

impl Drop for ConnectedRouter {
    fn drop(&mut self) {
        self.router.handle().hub().leave(&self.session);
        if self.session.is_open()
            && let Some(closed) = &self.router.bare.settings.on_close
        {
            // A hook that panics must not keep the connection from ending.
            let _ = catch_unwind(AssertUnwindSafe(|| closed(&self.session)));
        }
    }
}
