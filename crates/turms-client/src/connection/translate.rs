//! From a call in the newest revision to a request in the revision of the server.

use std::sync::Arc;

use turms_core::{CallObserver, OutgoingRequest, Payload, Request, ResponseFuture};
use turms_proto::method::Method as _;
use turms_proto::revision::method_info;
use turms_proto::types::{
    CallTool, CallToolParams, CancelTask, ClientCapabilities, ClientCapability, GetTask, Meta, ProgressParams,
    ReadDirectory, SKILLS_EXTENSION, TASKS_EXTENSION, TaskRequest, TaskSupport, UpdateTask, key,
};
use turms_proto::{Ability, Notification, Object};

use super::state::{Connected, ServerShared};
use crate::call::CallRequest;
use crate::call::error::{CallError, CallErrorKind, UnsupportedCause};
use crate::call::options::TaskMode;
use crate::incoming::{Callback, IncomingHandler};

/// The request of a call on a connection.
pub(super) fn request(
    shared: &ServerShared,
    connected: &Connected,
    call: &CallRequest,
) -> Result<OutgoingRequest, CallError> {
    let version = connected.version();
    if method_info(&call.method).is_some_and(|method| !method.is_defined_in(version)) {
        let cause = UnsupportedCause::Revision { what: call.method.to_string(), version };
        return Err(CallError::not_sent(call.target(), CallErrorKind::Unsupported(cause)));
    }
    if &*call.method == ReadDirectory::NAME && !call.is_raw() && !reads_directories(connected) {
        let cause = UnsupportedCause::NotOffered("directories (directoryRead)".to_owned());
        return Err(CallError::not_sent(call.target(), CallErrorKind::Unsupported(cause)));
    }
    let mut params = call.params.payload();
    if version.has(Ability::CoreTasks) && &*call.method == CallTool::NAME {
        request_task(shared, connected, call, &mut params);
    }
    if !version.has(Ability::Stateless) {
        params
            .lower_params(&call.method, version)
            .map_err(|error| CallError::not_sent(call.target(), CallErrorKind::Encode(error.to_string())))?;
    }
    let mut options = shared.settings.timeouts.request(&call.options);
    options.progress = wants_progress(shared, call);
    let meta = metadata(connected, call);
    let request = OutgoingRequest::with_options(call.method.clone(), params, options).meta(meta);
    Ok(request.observer(observer(shared, call)).cancellation(call.cancellation.clone()))
}

/// Returns `true` if the server declares that its directories can be read (SEP-2640).
fn reads_directories(connected: &Connected) -> bool {
    let extensions = connected.server().and_then(|server| server.capabilities.extensions.as_ref());
    let skills = extensions.and_then(|extensions| extensions.get(SKILLS_EXTENSION)?.as_object());
    skills.and_then(|skills| skills.get("directoryRead")).is_some_and(|value| value.as_str() == "true")
}

/// The metadata of one request.
fn metadata(connected: &Connected, call: &CallRequest) -> Option<Meta> {
    let mut meta = connected.metadata();
    if matches!(call.options.task, TaskMode::Return) || is_about_tasks(call) {
        meta = meta.map(declare_tasks);
    } else if matches!(call.options.task, TaskMode::Refuse) {
        meta = meta.map(withdraw_tasks);
    }
    if let Some(own) = &call.options.meta {
        meta.get_or_insert_default().extend(own);
    }
    if !connected.version().has(Ability::Stateless)
        && let Some(meta) = &mut meta
    {
        // Declared in the handshake.
        meta.remove(key::CLIENT_CAPABILITIES);
    }
    meta
}

fn wants_progress(shared: &ServerShared, call: &CallRequest) -> bool {
    let every_call = shared.incoming.on_progress.is_some() && &*call.method == CallTool::NAME;
    call.options.on_progress.is_some() || every_call
}

/// The observer of a call, if anything is to be observed.
fn observer(shared: &ServerShared, call: &CallRequest) -> Option<Arc<dyn CallObserver>> {
    let options = &call.options;
    if options.observer.is_none() && !wants_progress(shared, call) {
        return None;
    }
    let (incoming, on_progress) = (shared.incoming.clone(), options.on_progress.clone());
    Some(Arc::new(RequestObserver { incoming, on_progress, caller: options.observer.clone() }))
}

/// Delivers progress to the callbacks of the call and of the client, and all else to the observer of the caller.
struct RequestObserver {
    incoming: Arc<IncomingHandler>,
    on_progress: Option<Callback<ProgressParams>>,
    caller: Option<Arc<dyn CallObserver>>,
}

impl CallObserver for RequestObserver {
    fn progress(&self, params: &ProgressParams) {
        if let Some(callback) = &self.on_progress {
            callback(params);
        }
        self.incoming.on_progress(params.clone());
    }

    fn notification(&self, notification: Notification) -> Result<(), Notification> {
        match &self.caller {
            Some(caller) => caller.notification(notification),
            None => Err(notification),
        }
    }

    fn request(&self, request: Request) -> Result<ResponseFuture, Request> {
        match &self.caller {
            Some(caller) => caller.request(request),
            None => Err(request),
        }
    }
}

/// Returns `true` if the server may make a task of a call.
pub(crate) fn offers_task(shared: &ServerShared, call: &CallRequest) -> bool {
    matches!(call.options.task, TaskMode::Return)
        || shared.settings.capabilities.supports(ClientCapability::Extension(TASKS_EXTENSION))
}

/// In 2025-11-25 the client requests a task, and only for tools that run as one.
fn request_task(shared: &ServerShared, connected: &Connected, call: &CallRequest, params: &mut Payload) {
    let tasks = connected.server().and_then(|server| server.capabilities.tasks.as_ref());
    if !tasks.is_some_and(|tasks| tasks.runs_tools()) {
        return;
    }
    let known = call.name().and_then(|name| call.tools(&shared.incoming.tools).get(name));
    let requested = match known.as_ref().and_then(|tool| tool.task_support()) {
        Some(TaskSupport::Required) => offers_task(shared, call),
        Some(TaskSupport::Optional) | None => matches!(call.options.task, TaskMode::Return),
        Some(_) => false,
    };
    if let Some(params) = params.get_mut::<CallToolParams>().filter(|_| requested) {
        let mut request = TaskRequest::new();
        request.ttl = call.options.task_ttl.map(|ttl| i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX));
        params.task = Some(request);
    }
}

/// Returns `true` for requests that have to declare the tasks extension.
fn is_about_tasks(call: &CallRequest) -> bool {
    matches!(&*call.method, GetTask::NAME | UpdateTask::NAME | CancelTask::NAME)
}

/// Returns `true` if request metadata declares the tasks extension.
pub(crate) fn declares_tasks(meta: &Meta) -> bool {
    declared(meta).supports(ClientCapability::Extension(TASKS_EXTENSION))
}

/// Declares the tasks extension in request metadata.
pub(crate) fn declare_tasks(meta: Meta) -> Meta {
    if declares_tasks(&meta) {
        return meta;
    }
    let capabilities = declared(&meta).with_extension(TASKS_EXTENSION, Object::new());
    with_capabilities(meta, &capabilities)
}

fn withdraw_tasks(meta: Meta) -> Meta {
    if !declares_tasks(&meta) {
        return meta;
    }
    let mut capabilities = declared(&meta);
    capabilities.extensions.iter_mut().for_each(|extensions| drop(extensions.remove(TASKS_EXTENSION)));
    with_capabilities(meta, &capabilities)
}

fn declared(meta: &Meta) -> ClientCapabilities {
    meta.get_as(key::CLIENT_CAPABILITIES).and_then(Result::ok).unwrap_or_default()
}

fn with_capabilities(mut meta: Meta, capabilities: &ClientCapabilities) -> Meta {
    // Capabilities always serialize.
    let _ = meta.insert(key::CLIENT_CAPABILITIES, capabilities);
    meta
}
