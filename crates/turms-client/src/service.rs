//! [`Service`] for [`Client`]: a server can forward its calls to another server.

use std::sync::Arc;

use turms_core::{
    CallContext, CallObserver, NotifyFuture, Payload, PeerError, Request, ResponseFuture, Service, ServiceError,
};
use turms_proto::method::{Method, NotificationMethod};
use turms_proto::revision::{raise_result, tag_subscription};
use turms_proto::session::RequestOptions;
use turms_proto::types::{
    AcknowledgedParams, ClientCapabilities, ClientCapability, CreateMessage, Discover, DiscoverResult, Elicit,
    ListRoots, Listen, LoggingMessageNotification, Meta, Outcome, Ping, ProgressNotification, ProgressParams,
    PromptListChangedNotification, ResourceListChangedNotification, ResourceParams, ResourceUpdatedNotification,
    SetLevel, SetLevelParams, Subscribe, SubscriptionsAcknowledgedNotification, SubscriptionsListenResult,
    ToolListChangedNotification, Unsubscribe, key,
};
use turms_proto::{
    Ability, DecodeError, ErrorObject, MethodName, Notification, Object, ProtocolVersion, RawJson, RequestId,
};

use crate::call::options::{CallOptions, TaskMode};
use crate::call::{CallError, CallRequest};
use crate::client::Client;
use crate::connection::declares_tasks;
use crate::subscription::{Change, Subscription};

impl Service for Client {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        let client = self.clone();
        Box::pin(async move {
            if &*request.method == Discover::NAME
                && let Some(server) = client.handshake_result()
            {
                return Ok(Payload::new(server));
            }
            let mut call = call_of(request, &cx)?.with_options(options_of(&cx));
            if let Some(token) = cx.cancellation() {
                // The reason of the cancellation is sent to the server when this future is dropped.
                call.cancellation = token.clone();
            }
            let mut output = client.backend().call(&call).await.map_err(CallError::into_error_object)?;
            if let Some(subscription) = output.subscription.take() {
                return forward_changes(*subscription, &cx).await;
            }
            if let Outcome::InputRequired(required) = output.outcome {
                return Ok(Payload::new(*required));
            }
            let raw = output.payload(&call).map_err(CallError::into_error_object)?.into_raw();
            let raw = raw.map_err(|error| ErrorObject::internal(error.to_string()))?;
            // Services use the newest revision, so the result of an older server is converted.
            let version = client.protocol_version().unwrap_or(ProtocolVersion::LATEST);
            let raised = raise_result(&call.method, &raw, version);
            Ok(Payload::json(raised.map_err(|error| ErrorObject::internal(format!("{}: {error}", call.method)))?))
        })
    }

    fn notify(&self, notification: Notification, _: CallContext) -> NotifyFuture {
        let client = self.clone();
        Box::pin(async move {
            // A notification has no response to report an error in.
            let _ = client.backend().notify(notification).await;
        })
    }
}

impl Client {
    /// Returns a response to `server/discover`, made from the `initialize` result of an older server.
    fn handshake_result(&self) -> Option<DiscoverResult> {
        let negotiated = self.opened()?;
        let mut server = negotiated.server.clone().filter(|_| !negotiated.dialect.version().has(Ability::Stateless))?;
        server.supported_versions = vec![ProtocolVersion::LATEST.to_string()];
        Some(server)
    }
}

/// Converts a request to a call. Methods that differ between revisions are typed, so that the client translates them;
/// other methods are forwarded unchanged.
fn call_of(request: Request, cx: &CallContext) -> Result<CallRequest, ServiceError> {
    fn typed<M: Method>(params: Payload) -> Result<CallRequest, ServiceError>
    where
        M::Params: Clone,
    {
        let invalid = |error: DecodeError| ErrorObject::invalid_params(format!("params: {error}"));
        Ok(CallRequest::new::<M>(params.take().map_err(invalid)?))
    }
    match &*request.method {
        Ping::NAME => typed::<Ping>(request.params),
        SetLevel::NAME => {
            let call = typed::<SetLevel>(request.params)?;
            if let (Some(session), Ok(params)) = (cx.session(), call.params_as::<SetLevelParams>()) {
                session.set_log_level(params.level);
            }
            Ok(call)
        }
        Subscribe::NAME => typed::<Subscribe>(request.params),
        Unsubscribe::NAME => typed::<Unsubscribe>(request.params),
        Listen::NAME => typed::<Listen>(request.params),
        _ => {
            let params = request.params.into_raw();
            let params = params
                .map_err(|error| ErrorObject::internal(format!("the parameters cannot be written as JSON: {error}")))?;
            Ok(CallRequest::raw(request.method, without_meta(params)))
        }
    }
}

/// Returns the call options for the caller's context: metadata, progress token and support for tasks.
fn options_of(cx: &CallContext) -> CallOptions {
    let mut options = CallOptions::default();
    if !cx.meta().is_some_and(declares_tasks) {
        options.task = TaskMode::Refuse;
    }
    options.observer = Some(Arc::new(CallerObserver(cx.clone())));
    if let Some(token) = cx.meta().and_then(|meta| Object::from(meta.clone()).get(key::PROGRESS_TOKEN)) {
        let peer = cx.peer().clone();
        options.on_progress = Some(Arc::new(move |progress: &ProgressParams| {
            if let Some(progress) = with_token(progress, &token) {
                let _ = peer.try_notify_raw(Notification::raw(
                    MethodName::from_static(ProgressNotification::NAME),
                    Some(progress),
                ));
            }
        }));
    }
    let mut forwarded = cx.meta().map(forwarded).unwrap_or_default();
    // The `insert`s below cannot fail: capabilities and levels always serialize.
    if let (true, Some(level)) = (cx.session().is_some(), cx.log_level()) {
        let _ = forwarded.insert(key::LOG_LEVEL, &level);
    }
    // A caller that supports input requests gets them. Otherwise the handlers of this client respond to them.
    if let Some(capabilities) = input_capabilities(cx) {
        options.return_input = true;
        let _ = forwarded.insert(key::CLIENT_CAPABILITIES, &capabilities);
    }
    options.meta = Some(forwarded).filter(|meta| !meta.is_empty());
    options
}

/// Forwards the log messages of a call to its caller, and also the requests of servers before 2026-07-28.
struct CallerObserver(CallContext);

impl CallObserver for CallerObserver {
    fn notification(&self, notification: Notification) -> Result<(), Notification> {
        let Self(cx) = self;
        let level = match &*notification.method {
            LoggingMessageNotification::NAME => {
                notification.params::<LoggingMessageNotification>().map(|message| message.level)
            }
            _ => return Err(notification),
        };
        if level.is_ok_and(|level| cx.log_enabled(level)) {
            let _ = cx.peer().try_notify_raw(notification);
            return Ok(());
        }
        Err(notification)
    }

    /// Forwards a request of the server. Only a caller with a session can receive requests.
    fn request(&self, request: Request) -> Result<ResponseFuture, Request> {
        let Self(cx) = self;
        let capability = match &*request.method {
            CreateMessage::NAME => ClientCapability::Sampling,
            Elicit::NAME => ClientCapability::FormElicitation,
            ListRoots::NAME => ClientCapability::Roots,
            _ => return Err(request),
        };
        let session = cx.session().and_then(|session| session.client());
        if !session.is_some_and(|client| client.capabilities.supports(capability)) {
            return Err(request);
        }
        let cx = cx.clone();
        Ok(Box::pin(async move {
            let Request { method, mut params, .. } = request;
            let unsupported = |error: String| ErrorObject::internal(format!("{method}: {error}"));
            params.lower_params(&method, cx.version()).map_err(|error| unsupported(error.to_string()))?;
            let params = params.into_raw().map_err(|error| unsupported(error.to_string()))?;
            // The server has its own timeout for its request.
            let options = RequestOptions::default().without_timeout();
            match cx.peer().request_raw(method.clone(), Some(params), options).await {
                Ok(response) => Ok(Payload::json(response)),
                Err(PeerError::ErrorResponse(error)) => Err((*error).into()),
                Err(error) => Err(unsupported(error.to_string()).into()),
            }
        }))
    }
}

/// Returns the capabilities of a stateless caller that supports input requests.
fn input_capabilities(cx: &CallContext) -> Option<ClientCapabilities> {
    let capabilities = cx.client_capabilities().filter(|_| cx.version().has(Ability::Stateless))?;
    let gives_input =
        capabilities.sampling.is_some() || capabilities.elicitation.is_some() || capabilities.roots.is_some();
    gives_input.then(|| capabilities.into_owned())
}

fn with_token(progress: &ProgressParams, token: &RawJson) -> Option<RawJson> {
    let mut params = Object::encode(progress).ok()?;
    params.insert_raw("progressToken", token);
    Some(params.into())
}

/// Returns the metadata without the keys that describe the caller's own connection.
fn forwarded(meta: &Meta) -> Meta {
    let mut meta = Object::from(meta.clone());
    let connection_keys = [key::PROTOCOL_VERSION, key::CLIENT_CAPABILITIES, key::CLIENT_INFO, key::PROGRESS_TOKEN];
    meta.retain(|name| !connection_keys.contains(&name));
    meta.into()
}

fn without_meta(params: RawJson) -> RawJson {
    match params.as_object() {
        Some(mut params) if params.contains("_meta") => {
            params.remove("_meta");
            params.into()
        }
        _ => params,
    }
}

/// Forwards the changes of a subscription to the caller, until either side closes it.
async fn forward_changes(mut subscription: Subscription, cx: &CallContext) -> Result<Payload, ServiceError> {
    let id = cx.id().cloned().unwrap_or(RequestId::Number(0));
    let closed = |_| ErrorObject::internal("the caller closed the connection");
    let tagged = |notification: Notification| {
        let params = tag_subscription(notification.params.as_ref(), &id);
        Notification::raw(notification.method, Some(params))
    };
    let acknowledged = AcknowledgedParams::new(subscription.acknowledged().clone());
    let acknowledged = Notification::new::<SubscriptionsAcknowledgedNotification>(&acknowledged);
    let acknowledged = acknowledged.map_err(|error| ErrorObject::internal(error.to_string()))?;
    cx.peer().notify_raw(tagged(acknowledged)).await.map_err(closed)?;
    while let Some(change) = subscription.next().await {
        if let Some(notification) = notification_of(&change) {
            cx.peer().notify_raw(tagged(notification)).await.map_err(closed)?;
        }
    }
    let meta = tag_subscription(None, &id).member("_meta").and_then(|meta| meta.as_object()).unwrap_or_default();
    Ok(Payload::new(SubscriptionsListenResult::new().meta(meta)))
}

/// Returns the notification for a change; `None` for the change of a task, because the change does not contain the
/// task.
fn notification_of(change: &Change) -> Option<Notification> {
    let method = match change {
        Change::ToolList => ToolListChangedNotification::NAME,
        Change::PromptList => PromptListChangedNotification::NAME,
        Change::ResourceList => ResourceListChangedNotification::NAME,
        Change::Resource { uri } => {
            return Notification::new::<ResourceUpdatedNotification>(&ResourceParams::new(uri)).ok();
        }
        Change::Task { .. } => return None,
    };
    Some(Notification::raw(MethodName::from_static(method), None))
}
