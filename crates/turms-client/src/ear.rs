//! What a client hears and is asked.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use turms_core::{CallContext, NotifyFuture, Payload, Request, ResponseFuture, Service};
use turms_proto::method::{Method, Notification as NotificationMethod};
use turms_proto::revision::{Translate, task_of_core};
use turms_proto::types::{
    Acknowledged, CoreTaskStatus, CreateMessage, Elicit, ElicitationComplete, EmptyResult, InputRequest, ListRoots,
    Log, LogMessage, LoggingLevel, Ping, Progress, ProgressParams, PromptListChanged, ResourceListChanged,
    ResourceUpdated, Task, TaskChanged, ToolListChanged,
};
use turms_proto::{ErrorObject, Notification, ProtocolVersion};

use crate::answer::Answers;
use crate::cache::{Cache, Changed};
use crate::event::{Event, EventHub};
use crate::extension::{self, ClientExtension};
use crate::tool::KnownTools;

/// A callback that lives as long as its client.
pub(crate) type Callback<T> = Arc<dyn Fn(&T) + Send + Sync>;

/// The service that a server speaks to.
#[derive(Clone)]
pub(crate) struct Ear {
    pub(crate) answers: Arc<Answers>,
    pub(crate) events: Arc<EventHub>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) tools: Arc<KnownTools>,
    pub(crate) on_log: Option<Callback<LogMessage>>,
    pub(crate) on_progress: Option<Callback<ProgressParams>>,
    pub(crate) trace_logs: bool,
    pub(crate) extensions: Arc<[Arc<dyn ClientExtension>]>,
}

impl Ear {
    /// Takes note of what a server tells.
    pub(crate) fn hear(&self, notification: Notification) {
        let event = match &*notification.method {
            ToolListChanged::NAME => {
                self.forget(&notification);
                Event::ToolsChanged
            }
            PromptListChanged::NAME => {
                self.forget(&notification);
                Event::PromptsChanged
            }
            ResourceListChanged::NAME => {
                self.forget(&notification);
                Event::ResourcesChanged
            }
            ResourceUpdated::NAME => match notification.params::<ResourceUpdated>() {
                Ok(params) => {
                    self.cache.invalidate(Changed::Resource(&params.uri));
                    Event::ResourceUpdated { uri: params.uri }
                }
                Err(_) => Event::Other(Arc::new(notification)),
            },
            Log::NAME => match notification.params::<Log>() {
                Ok(message) => return self.hear_log(message),
                Err(_) => Event::Other(Arc::new(notification)),
            },
            Progress::NAME => match notification.params::<Progress>() {
                Ok(params) => return self.hear_progress(params),
                Err(_) => Event::Other(Arc::new(notification)),
            },
            ElicitationComplete::NAME => match notification.params::<ElicitationComplete>() {
                Ok(params) => Event::ElicitationComplete { id: params.elicitation_id },
                Err(_) => Event::Other(Arc::new(notification)),
            },
            TaskChanged::NAME | CoreTaskStatus::NAME => match task_of(&notification) {
                Some(task) => Event::TaskChanged(Arc::new(task)),
                None => Event::Other(Arc::new(notification)),
            },
            Acknowledged::NAME => return,
            _ => {
                self.extensions.iter().for_each(|extension| extension.hear(&notification));
                Event::Other(Arc::new(notification))
            }
        };
        self.events.publish(&event);
    }

    /// Forgets all that may have changed while nobody heard of it.
    pub(crate) fn forget_all(&self) {
        self.cache.invalidate(Changed::Everything);
        self.tools.forget();
    }

    /// Forgets what a change has made stale.
    pub(crate) fn forget(&self, notification: &Notification) {
        match &*notification.method {
            ToolListChanged::NAME => {
                self.tools.forget();
                self.cache.invalidate(Changed::Tools);
            }
            PromptListChanged::NAME => self.cache.invalidate(Changed::Prompts),
            ResourceListChanged::NAME => self.cache.invalidate(Changed::Resources),
            ResourceUpdated::NAME => {
                if let Ok(params) = notification.params::<ResourceUpdated>() {
                    self.cache.invalidate(Changed::Resource(&params.uri));
                }
            }
            _ => {}
        }
    }

    pub(crate) fn hear_progress(&self, params: ProgressParams) {
        if let Some(heard) = &self.on_progress {
            heard(&params);
        }
        self.events.publish(&Event::Progress(Arc::new(params)));
    }

    fn hear_log(&self, message: LogMessage) {
        if self.trace_logs {
            trace(&message);
        }
        if let Some(heard) = &self.on_log {
            heard(&message);
        }
        self.events.publish(&Event::Log(Arc::new(message)));
    }

    fn asked<M: Method>(
        &self,
        params: Payload,
        version: ProtocolVersion,
        question: impl FnOnce(M::Params) -> InputRequest,
    ) -> ResponseFuture
    where
        M::Params: DeserializeOwned,
        M::Result: DeserializeOwned + Translate,
    {
        let mut params: M::Params = match params.take() {
            Ok(params) => params,
            Err(error) => {
                return Box::pin(std::future::ready(Err(ErrorObject::invalid_params(error.to_string()).into())));
            }
        };
        params.raise(version);
        let (question, answers) = (question(params), self.answers.clone());
        Box::pin(async move {
            let answer = answers.answer(question).await.map_err(ErrorObject::from)?;
            Ok(Payload::json(answer))
        })
    }
}

impl Service for Ear {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        let version = cx.version();
        match &*request.method {
            Ping::NAME => Box::pin(std::future::ready(Ok(Payload::new(EmptyResult::new())))),
            CreateMessage::NAME => {
                self.asked::<CreateMessage>(request.params, version, |params| InputRequest::Sample(Box::new(params)))
            }
            Elicit::NAME => {
                self.asked::<Elicit>(request.params, version, |params| InputRequest::Elicit(Box::new(params)))
            }
            ListRoots::NAME => self.asked::<ListRoots>(request.params, version, InputRequest::Roots),
            _ => extension::ask(&self.extensions, request),
        }
    }

    fn notify(&self, notification: Notification, _: CallContext) -> NotifyFuture {
        self.hear(notification);
        Box::pin(async {})
    }
}

impl fmt::Debug for Ear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ear").field("answers", &self.answers).finish_non_exhaustive()
    }
}

/// The task that a notification tells of, as the extension has it.
pub(crate) fn task_of(notification: &Notification) -> Option<Task> {
    match &*notification.method {
        TaskChanged::NAME => notification.params::<TaskChanged>().ok(),
        CoreTaskStatus::NAME => Some(task_of_core(notification.params::<CoreTaskStatus>().ok()?, None)),
        _ => None,
    }
}

/// The data stays JSON, and what JSON leaves of control characters is escaped: a server must not write to a terminal.
fn trace(message: &LogMessage) {
    let logger = message.logger.as_deref().unwrap_or_default();
    let data = turms_core::escape_control(message.data.as_str());
    macro_rules! say {
        ($level:ident) => {
            tracing::$level!(target: "turms::server_log", logger = ?logger, level = message.level.as_str(), "{data}")
        };
    }
    match message.level {
        LoggingLevel::Debug => say!(debug),
        LoggingLevel::Info | LoggingLevel::Notice => say!(info),
        LoggingLevel::Warning => say!(warn),
        _ => say!(error),
    }
}
