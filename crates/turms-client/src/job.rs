//! A call as the engines see it: typed at both ends, and repeatable in between.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use bytestring::ByteString;
use turms_core::{BoxFuture, Payload};
use turms_proto::method::Method;
use turms_proto::revision::{Translate, task_of_core};
use turms_proto::session::{Opened, Stats};
use turms_proto::types::{
    CallTool, CallToolParams, Complete, Discover, EmptyParams, EmptyResult, GetCoreTaskResult, GetPrompt,
    GetPromptParams, GetSkill, GetTask, InputRequired, ListCoreTasks, ListPrompts, ListResourceTemplates,
    ListResources, ListSkills, ListTools, LoggingLevel, MultiRound, Outcome, Ping, ReadDirectory, ReadResource,
    ReadResourceParams, ResultType, SubscriptionFilter, Task, UpdateTask,
};
use turms_proto::{Ability, DecodeError, EncodeError, Notification, Object, ProtocolVersion, RawJson};

use crate::cache::Cache;
use crate::call::error::CallError;
use crate::event::Events;
use crate::listen::Subscription;
use crate::options::CallOptions;
use crate::roots::Roots;
use crate::state::{PendingCall, Status};
use crate::task::Keeper;
use crate::tool::KnownTools;

/// What makes calls: one server, a pool, or many servers behind one face.
pub(crate) trait Engine: Send + Sync + 'static {
    fn perform(&self, job: Job) -> BoxFuture<'_, Result<Performed, CallError>>;
    fn perform_all(&self, jobs: Vec<Job>) -> BoxFuture<'_, Vec<Result<Performed, CallError>>>;
    /// Sees whether the server answers: with `ping`, or `server/discover` where there is no `ping`.
    fn ping(&self, options: CallOptions) -> BoxFuture<'_, Result<(), CallError>> {
        let pings = self.opened().is_none_or(|opened| opened.dialect.version().has(Ability::Ping));
        let job = match pings {
            true => Job::new::<Ping>(EmptyParams::new(), options),
            false => Job::new::<Discover>(EmptyParams::new(), options),
        };
        Box::pin(async move { self.perform(job).await.map(drop) })
    }
    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), CallError>>;
    fn set_log_level(&self, level: LoggingLevel, options: CallOptions) -> BoxFuture<'_, Result<(), CallError>>;
    fn subscribe(&self, uri: String, options: CallOptions) -> BoxFuture<'_, Result<(), CallError>>;
    fn unsubscribe(&self, uri: String, options: CallOptions) -> BoxFuture<'_, Result<(), CallError>>;
    fn listen(
        &self,
        filter: SubscriptionFilter,
        options: CallOptions,
    ) -> BoxFuture<'_, Result<Subscription, CallError>>;
    fn events(&self) -> Events;
    /// As `events`, but nothing is asked of a server for it.
    fn overhear(&self) -> Events {
        self.events()
    }
    /// Whether all calls come to the same server, or to one as good as it.
    #[cfg(feature = "skills")]
    fn is_one_server(&self) -> bool {
        true
    }
    fn status(&self) -> Status;
    fn opened(&self) -> Option<Arc<Opened>>;
    fn stats(&self) -> Stats;
    fn pending(&self) -> Vec<PendingCall>;
    fn cancel(&self, key: u64) -> bool;
    fn roots(&self) -> Option<&Roots>;
    /// Answers that may be reused, if that is wanted.
    fn cache(&self) -> Option<&Cache>;
    fn tools(&self) -> Option<&KnownTools>;
    fn close(&self) -> BoxFuture<'_, ()>;
    /// Nobody can make calls any more: ends by itself, without anybody waiting for it.
    fn let_go(&self) {}
}

/// One call. A clone is the same call, for when it has to be made again elsewhere.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) method: ByteString,
    pub(crate) params: Params,
    /// The name of the tool or the prompt, or the URI.
    pub(crate) name: Option<Name>,
    pub(crate) options: CallOptions,
    pub(crate) decode: Decode,
}

/// The name of a tool or a prompt, or a URI; it may stand among the parameters of the call.
#[derive(Clone)]
pub(crate) struct Name(Arc<dyn Named>);

/// What says what a call is for.
pub(crate) trait Named: Send + Sync + 'static {
    fn name(&self) -> &str;
}

macro_rules! named {
    ($($Params:ty: $name:ident,)+) => {
        $(impl Named for $Params {
            fn name(&self) -> &str {
                &self.$name
            }
        })+
    };
}
named! { CallToolParams: name, GetPromptParams: name, ReadResourceParams: uri, }

impl Named for String {
    fn name(&self) -> &str {
        self
    }
}

impl<S: Into<String>> From<S> for Name {
    fn from(name: S) -> Self {
        Self(Arc::new(name.into()))
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        self.0.name()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// What came of a call.
#[derive(Debug)]
pub(crate) struct Performed {
    pub(crate) payload: Payload,
    /// Whether it took answers of ours, so that others would not get the same.
    pub(crate) answered: bool,
    /// Where its task is kept, if the caller wants that.
    pub(crate) keeper: Option<Keeper>,
}

impl Performed {
    pub(crate) fn new(payload: Payload) -> Self {
        Self { payload, answered: false, keeper: None }
    }
}

/// Reads an answer of a server of some revision.
pub(crate) type Decode = fn(Payload, ProtocolVersion) -> Result<Decoded, DecodeError>;

/// An answer, read.
pub(crate) enum Decoded {
    Complete(Payload),
    Input(Box<InputRequired>),
    Task(Box<Task>),
}

/// Parameters that can be sent more than once.
#[derive(Clone)]
pub(crate) enum Params {
    Typed(Arc<dyn Repeat>),
    Raw(RawJson),
}

pub(crate) trait Repeat: Send + Sync {
    fn payload(self: Arc<Self>) -> Payload;
    fn object(&self) -> Result<Object, EncodeError>;
}

impl<P: serde::Serialize + Translate + Clone + Send + Sync + 'static> Repeat for P {
    fn payload(self: Arc<Self>) -> Payload {
        Payload::shared(self)
    }

    fn object(&self) -> Result<Object, EncodeError> {
        Object::encode(self)
    }
}

impl Params {
    pub(crate) fn payload(&self) -> Payload {
        match self {
            Self::Typed(params) => params.clone().payload(),
            Self::Raw(params) => Payload::json(params.clone()),
        }
    }

    pub(crate) fn object(&self) -> Result<Object, EncodeError> {
        match self {
            Self::Typed(params) => params.object(),
            Self::Raw(params) => {
                params.as_object().ok_or_else(|| EncodeError::custom("the parameters of a request must be an object"))
            }
        }
    }
}

impl Job {
    /// A call whose answer is what it is.
    pub(crate) fn new<M: Method>(params: M::Params, options: CallOptions) -> Self
    where
        M::Params: Clone,
        M::Result: Whole,
    {
        Self::with::<M>(params, options, decode_whole::<M::Result>)
    }

    /// A call that the server may answer with questions first.
    pub(crate) fn in_rounds<M, T>(params: impl Into<Arc<M::Params>>, options: CallOptions) -> Self
    where
        M: Method<Result = Outcome<T>>,
        M::Params: Named + Clone,
        T: MultiRound + serde::Serialize + Translate + Send + Sync + 'static,
    {
        let params = params.into();
        Self {
            method: ByteString::from_static(M::NAME),
            name: Some(Name(params.clone())),
            params: Params::Typed(params),
            options,
            decode: decode_outcome::<T>,
        }
    }

    /// A call of a method that others have defined: what its answer may be, its type knows.
    pub(crate) fn foreign<M: Method>(params: M::Params, options: CallOptions) -> Self
    where
        M::Params: Clone,
    {
        Self::with::<M>(params, options, decode_foreign::<M::Result>)
    }

    /// A call about a task.
    pub(crate) fn about_task<M: Method>(params: M::Params, id: &str, options: CallOptions, decode: Decode) -> Self
    where
        M::Params: Clone,
    {
        let mut job = Self::with::<M>(params, options, decode);
        job.name = Some(id.into());
        job
    }

    fn with<M: Method>(params: M::Params, options: CallOptions, decode: Decode) -> Self
    where
        M::Params: Clone,
    {
        let method = ByteString::from_static(M::NAME);
        Self { method, params: Params::Typed(Arc::new(params)), name: None, options, decode }
    }

    /// A call of any method.
    pub(crate) fn raw(method: ByteString, params: RawJson, options: CallOptions) -> Self {
        Self { method, params: Params::Raw(params), name: None, options, decode: decode_raw }
    }

    /// What the call is, for people.
    pub(crate) fn subject(&self) -> String {
        subject_of(&self.method, self.name.as_deref())
    }

    /// Whether the call may be repeated although it may have run.
    pub(crate) fn is_safe_to_repeat(&self, tools: Option<&KnownTools>) -> bool {
        if let Some(safe) = self.options.safe {
            return safe;
        }
        match &*self.method {
            CallTool::NAME => {
                let known = self.name.as_deref().and_then(|name| tools?.get(name));
                known.is_some_and(|tool| tool.is_safe_to_repeat())
            }
            Ping::NAME
            | Discover::NAME
            | ListTools::NAME
            | ListResources::NAME
            | ListResourceTemplates::NAME
            | ListPrompts::NAME
            | ReadResource::NAME
            | GetPrompt::NAME
            | Complete::NAME
            | GetTask::NAME
            // An answer that has arrived already is ignored (extension io.modelcontextprotocol/tasks, "Task Update Requests").
            | UpdateTask::NAME
            | GetCoreTaskResult::NAME
            | ListCoreTasks::NAME
            | ListSkills::NAME
            | GetSkill::NAME
            | ReadDirectory::NAME => true,
            _ => false,
        }
    }
}

/// What a call is, for people.
pub(crate) fn subject_of(method: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{method} {name:?}"),
        None => method.to_owned(),
    }
}

/// What a call is; said only when it comes to that.
#[derive(Debug, Clone)]
pub(crate) struct Label {
    method: ByteString,
    name: Option<Name>,
}

impl From<&Job> for Label {
    fn from(job: &Job) -> Self {
        Self { method: job.method.clone(), name: job.name.clone() }
    }
}

impl From<String> for Label {
    fn from(subject: String) -> Self {
        Self { method: subject.into(), name: None }
    }
}

/// Something that can say what it is, when it comes to that.
pub(crate) trait Subject {
    fn text(&self) -> String;
}

impl<S: Subject + ?Sized> Subject for &S {
    fn text(&self) -> String {
        (**self).text()
    }
}

impl Subject for Job {
    fn text(&self) -> String {
        self.subject()
    }
}

impl Subject for Label {
    fn text(&self) -> String {
        subject_of(&self.method, self.name.as_deref())
    }
}

impl Subject for str {
    fn text(&self) -> String {
        self.to_owned()
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("subject", &self.subject()).finish_non_exhaustive()
    }
}

/// A result that cannot be anything but complete.
pub(crate) trait Whole:
    serde::Serialize + serde::de::DeserializeOwned + Translate + Send + Sync + 'static
{
    fn kind(&self) -> Option<&ResultType>;
}

macro_rules! whole {
    ($($Result:ident),+) => {
        $(impl Whole for turms_proto::types::$Result {
            fn kind(&self) -> Option<&ResultType> {
                self.result_type.as_ref()
            }
        })+
    };
}
whole!(
    ListToolsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListPromptsResult,
    CompleteResult,
    DiscoverResult,
    ListSkillsResult,
    GetSkillResult,
    ReadDirectoryResult
);

impl Whole for EmptyResult {
    fn kind(&self) -> Option<&ResultType> {
        None
    }
}

impl Whole for turms_proto::types::ListTasksResult {
    fn kind(&self) -> Option<&ResultType> {
        None
    }
}

pub(crate) fn decode_whole<R: Whole>(payload: Payload, from: ProtocolVersion) -> Result<Decoded, DecodeError> {
    let mut result: R = payload.take()?;
    match result.kind() {
        None | Some(ResultType::Complete) => {}
        Some(kind) => {
            let problem = format_args!("unknown resultType {:?}", kind.as_str());
            return Err(DecodeError::custom(problem));
        }
    }
    result.raise(from);
    Ok(Decoded::Complete(Payload::new(result)))
}

fn decode_outcome<T>(mut payload: Payload, from: ProtocolVersion) -> Result<Decoded, DecodeError>
where
    T: MultiRound + serde::Serialize + Translate + Send + Sync + 'static,
{
    if let Some(result) = payload.get_mut::<T>() {
        result.raise(from);
        return Ok(Decoded::Complete(payload));
    }
    let mut outcome = payload.take::<Outcome<T>>()?;
    outcome.raise(from);
    Ok(match outcome {
        Outcome::Complete(result) => Decoded::Complete(Payload::new(result)),
        Outcome::InputRequired(round) => Decoded::Input(round),
        Outcome::Task(task) => Decoded::Task(task),
        _ => return Err(DecodeError::custom("a task of another revision")),
    })
}

fn decode_foreign<R>(payload: Payload, from: ProtocolVersion) -> Result<Decoded, DecodeError>
where
    R: serde::Serialize + serde::de::DeserializeOwned + Translate + Send + Sync + 'static,
{
    match decode_raw(payload, from)? {
        Decoded::Complete(payload) => {
            let mut result: R = payload.take()?;
            result.raise(from);
            Ok(Decoded::Complete(Payload::new(result)))
        }
        asked => Ok(asked),
    }
}

/// How a task stands, in the words of the extension. Only the answer that creates a task says by its kind that it is one.
pub(crate) fn decode_task(payload: Payload, from: ProtocolVersion) -> Result<Decoded, DecodeError> {
    let mut task = match from.has(Ability::CoreTasks) {
        true => task_of_core(payload.take()?, None),
        false => payload.take::<Task>()?,
    };
    task.result_type = None;
    Ok(Decoded::Complete(Payload::new(task)))
}

/// What a task is told that it is given up by: nothing, or how it stands then.
pub(crate) fn decode_cancelled(payload: Payload, from: ProtocolVersion) -> Result<Decoded, DecodeError> {
    if from.has(Ability::CoreTasks) { decode_task(payload, from) } else { decode_whole::<EmptyResult>(payload, from) }
}

/// Whatever it is.
pub(crate) fn decode_any(payload: Payload, _: ProtocolVersion) -> Result<Decoded, DecodeError> {
    payload.into_raw().map(|raw| Decoded::Complete(Payload::json(raw))).map_err(DecodeError::custom)
}

fn decode_raw(payload: Payload, _: ProtocolVersion) -> Result<Decoded, DecodeError> {
    let raw = payload.into_raw().map_err(DecodeError::custom)?;
    let asks = raw.member("resultType").is_some_and(|kind| kind.as_str() == "\"input_required\"");
    Ok(if asks { Decoded::Input(Box::new(raw.decode()?)) } else { Decoded::Complete(Payload::json(raw)) })
}
