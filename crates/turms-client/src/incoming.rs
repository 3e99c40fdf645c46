//! Requests and notifications of the server.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use turms_core::{
    CallContext, CancellationToken, NotifyFuture, ObservedCall, Payload, Request, ResponseFuture, Service,
};
use turms_proto::method::{Method, NotificationMethod};
use turms_proto::revision::{Translate, task_of_core};
use turms_proto::types::{
    CoreTaskStatusNotification, CreateMessage, Elicit, ElicitationCompleteNotification, EmptyResult, InputRequest,
    ListRoots, LogMessage, LoggingLevel, LoggingMessageNotification, Meta, Ping, ProgressNotification, ProgressParams,
    PromptListChangedNotification, ResourceListChangedNotification, ResourceUpdatedNotification,
    SubscriptionsAcknowledgedNotification, Task, TaskNotification, ToolListChangedNotification,
};
use turms_proto::{DecodeError, ErrorObject, Notification};

use crate::event::{Event, EventHub};
use crate::extension::{self, ClientExtension};
use crate::handlers::ClientHandlers;
use crate::layer::cache::{Changed, ResponseCache};
use crate::request_context::{CurrentServer, RequestContext};
use crate::tool_index::ToolIndex;

/// A callback that lives as long as its client.
pub(crate) type Callback<T> = Arc<dyn Fn(&T) + Send + Sync>;

/// The service that a server sends its requests and notifications to.
#[derive(Clone)]
pub(crate) struct IncomingHandler {
    pub(crate) handlers: Arc<ClientHandlers>,
    pub(crate) server: Arc<CurrentServer>,
    pub(crate) events: Arc<EventHub>,
    pub(crate) cache: Arc<ResponseCache>,
    pub(crate) tools: Arc<ToolIndex>,
    pub(crate) on_log: Option<Callback<LogMessage>>,
    pub(crate) on_progress: Option<Callback<ProgressParams>>,
    pub(crate) trace_logs: bool,
    pub(crate) extensions: Arc<[Arc<dyn ClientExtension>]>,
}

impl IncomingHandler {
    /// Invalidates caches and publishes the event of a notification.
    pub(crate) fn on_notification(&self, notification: Notification) {
        let event = match &*notification.method {
            ToolListChangedNotification::NAME => {
                self.forget(&notification);
                Event::ToolsChanged
            }
            PromptListChangedNotification::NAME => {
                self.forget(&notification);
                Event::PromptsChanged
            }
            ResourceListChangedNotification::NAME => {
                self.forget(&notification);
                Event::ResourcesChanged
            }
            ResourceUpdatedNotification::NAME => match notification.params::<ResourceUpdatedNotification>() {
                Ok(params) => {
                    self.cache.invalidate(Changed::Resource(&params.uri));
                    Event::ResourceUpdated { uri: params.uri }
                }
                Err(_) => Event::Notification(Arc::new(notification)),
            },
            LoggingMessageNotification::NAME => match notification.params::<LoggingMessageNotification>() {
                Ok(message) => return self.on_log(message),
                Err(_) => Event::Notification(Arc::new(notification)),
            },
            ProgressNotification::NAME => match notification.params::<ProgressNotification>() {
                Ok(params) => return self.on_progress(params),
                Err(_) => Event::Notification(Arc::new(notification)),
            },
            ElicitationCompleteNotification::NAME => match notification.params::<ElicitationCompleteNotification>() {
                Ok(params) => Event::ElicitationComplete { id: params.elicitation_id },
                Err(_) => Event::Notification(Arc::new(notification)),
            },
            TaskNotification::NAME | CoreTaskStatusNotification::NAME => match task_of(&notification) {
                Some(task) => Event::TaskUpdated(Arc::new(task)),
                None => Event::Notification(Arc::new(notification)),
            },
            SubscriptionsAcknowledgedNotification::NAME => return,
            _ => {
                self.extensions.iter().for_each(|extension| extension.on_notification(&notification));
                Event::Notification(Arc::new(notification))
            }
        };
        self.events.publish(&event);
    }

    /// Clears all caches, because notifications may have been missed.
    pub(crate) fn forget_all(&self) {
        self.cache.invalidate(Changed::Everything);
        self.tools.forget();
    }

    /// Invalidates the caches that a notification affects.
    pub(crate) fn forget(&self, notification: &Notification) {
        match &*notification.method {
            ToolListChangedNotification::NAME => {
                self.tools.forget();
                self.cache.invalidate(Changed::Tools);
            }
            PromptListChangedNotification::NAME => self.cache.invalidate(Changed::Prompts),
            ResourceListChangedNotification::NAME => self.cache.invalidate(Changed::Resources),
            ResourceUpdatedNotification::NAME => {
                if let Ok(params) = notification.params::<ResourceUpdatedNotification>() {
                    self.cache.invalidate(Changed::Resource(&params.uri));
                }
            }
            _ => {}
        }
    }

    pub(crate) fn on_progress(&self, params: ProgressParams) {
        if let Some(callback) = &self.on_progress {
            callback(&params);
        }
        self.events.publish(&Event::Progress(Arc::new(params)));
    }

    fn on_log(&self, message: LogMessage) {
        if self.trace_logs {
            trace(&message);
        }
        if let Some(callback) = &self.on_log {
            callback(&message);
        }
        self.events.publish(&Event::Log(Arc::new(message)));
    }

    /// Creates the context of an input request that is part of a response.
    pub(crate) fn input_context(&self, cancellation: CancellationToken) -> RequestContext {
        RequestContext::new(self.server.get(), None, cancellation)
    }

    /// Passes notifications that the protocol does not define to their handlers, one at a time.
    pub(crate) fn handle_notifications(self: Arc<Self>) -> impl Future<Output = ()> + Send + 'static {
        let mut events = self.events.subscribe();
        async move {
            while let Some(event) = events.next().await {
                let notification = match event {
                    Event::Notification(notification) => notification,
                    Event::Lagged(count) => {
                        tracing::warn!(target: "turms::client", count, "notifications were dropped: their handlers are too slow");
                        continue;
                    }
                    _ => continue,
                };
                let meta = notification.params.as_ref().and_then(|params| params.member("_meta")?.as_object());
                let cx = RequestContext::new(self.server.get(), meta.map(Meta::from), CancellationToken::new());
                self.handlers.notify(&notification, cx).await;
            }
        }
    }

    /// Responds to an input request: by the observer of the call that it belongs to, or by the handlers of the client.
    fn handle<M: Method>(
        &self,
        params: Payload,
        cx: &CallContext,
        input: impl FnOnce(M::Params) -> InputRequest,
    ) -> ResponseFuture
    where
        M::Params: DeserializeOwned + Clone,
        M::Result: DeserializeOwned + Translate,
    {
        let invalid = |error: DecodeError| -> ResponseFuture {
            Box::pin(std::future::ready(Err(ErrorObject::invalid_params(error.to_string()).into())))
        };
        let mut params: M::Params = match params.take() {
            Ok(params) => params,
            Err(error) => return invalid(error),
        };
        params.raise(cx.version());
        if let Some(call) = cx.extension::<ObservedCall>() {
            match call.request(Request::new::<M>(params)) {
                Ok(response) => return response,
                Err(request) => match request.params.take() {
                    Ok(unchanged) => params = unchanged,
                    Err(error) => return invalid(error),
                },
            }
        }
        let (input, handlers) = (input(params), self.handlers.clone());
        let cx = RequestContext::of_call(self.server.get(), cx);
        Box::pin(async move { Ok(Payload::json(handlers.respond(input, cx).await.map_err(ErrorObject::from)?)) })
    }
}

impl Service for IncomingHandler {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        match &*request.method {
            Ping::NAME => Box::pin(std::future::ready(Ok(Payload::new(EmptyResult::new())))),
            CreateMessage::NAME => {
                self.handle::<CreateMessage>(request.params, &cx, |params| InputRequest::Sample(Box::new(params)))
            }
            Elicit::NAME => self.handle::<Elicit>(request.params, &cx, |params| InputRequest::Elicit(Box::new(params))),
            ListRoots::NAME => self.handle::<ListRoots>(request.params, &cx, InputRequest::Roots),
            _ => match self.handlers.call(request, RequestContext::of_call(self.server.get(), &cx)) {
                Ok(response) => response,
                Err(request) => extension::call(&self.extensions, request),
            },
        }
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        let unhandled = match cx.extension::<ObservedCall>() {
            Some(call) if &*notification.method == LoggingMessageNotification::NAME => call.notification(notification),
            _ => Err(notification),
        };
        if let Err(notification) = unhandled {
            self.on_notification(notification);
        }
        Box::pin(async {})
    }
}

impl fmt::Debug for IncomingHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IncomingHandler").field("handlers", &self.handlers).finish_non_exhaustive()
    }
}

/// Returns the task of a notification, in the form of the extension of 2026-07-28.
pub(crate) fn task_of(notification: &Notification) -> Option<Task> {
    match &*notification.method {
        TaskNotification::NAME => notification.params::<TaskNotification>().ok(),
        CoreTaskStatusNotification::NAME => {
            Some(task_of_core(notification.params::<CoreTaskStatusNotification>().ok()?, None))
        }
        _ => None,
    }
}

/// Logs a message of the server. The data is logged as JSON, with all control characters escaped, so that a server
/// cannot send escape sequences to a terminal.
fn trace(message: &LogMessage) {
    let logger = message.logger.as_deref().unwrap_or_default();
    let data = turms_core::__internal::escape_control(message.data.as_str());
    macro_rules! log {
        ($level:ident) => {
            tracing::$level!(target: "turms::server_log", logger = ?logger, level = message.level.as_str(), "{data}")
        };
    }
    match message.level {
        LoggingLevel::Debug => log!(debug),
        LoggingLevel::Info | LoggingLevel::Notice => log!(info),
        LoggingLevel::Warning => log!(warn),
        _ => log!(error),
    }
}
