//! A call as the engines see it: typed at both ends, and repeatable in between.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytestring::ByteString;
use turms_core::{BoxFuture, Payload, Ready};
use turms_proto::method::Method;
use turms_proto::revision::{Translate, task_of_core};
use turms_proto::session::{Opened, RequestOptions, Stats};
use turms_proto::types::{
    CallTool, Complete, Discover, EmptyParams, EmptyResult, GetCoreTaskResult, GetPrompt, GetSkill, GetTask,
    InputRequired, ListCoreTasks, ListPrompts, ListResourceTemplates, ListResources, ListSkills, ListTools,
    LoggingLevel, Meta, MultiRound, Outcome, Ping, ProgressParams, ReadDirectory, ReadResource, ResultType,
    SubscriptionFilter, Task, TaskSupport, UpdateTask,
};
use turms_proto::{Ability, DecodeError, EncodeError, Notification, Object, ProtocolVersion, RawJson};

use crate::cache::Cache;
use crate::cancel::Cancel;
use crate::ear::Callback;
use crate::error::CallError;
use crate::event::Events;
use crate::listen::Subscription;
use crate::pool::MemberId;
use crate::roots::Roots;
use crate::single::lock;
use crate::state::{PendingCall, Status};
use crate::task::Keeper;
use crate::tool::KnownTools;

/// What makes calls: one server, a pool, or many servers behind one face.
pub(crate) trait Engine: Send + Sync + 'static {
    /// Makes a call at once if the server is in this process, where the answer may be there at once, too. `None` if the call has
    /// not been made and is for `perform`.
    fn begin(&self, job: &Job) -> Option<Ready<Result<Performed, CallError>>> {
        let _ = job;
        None
    }
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

/// How a call is made.
#[derive(Clone, Default)]
#[non_exhaustive]
pub(crate) struct CallOptions {
    pub(crate) timeout: Timeout,
    pub(crate) on_progress: Option<Callback<ProgressParams>>,
    pub(crate) meta: Option<Meta>,
    pub(crate) cancel: Option<Cancel>,
    pub(crate) bypass_cache: bool,
    pub(crate) safe: Option<bool>,
    pub(crate) near: Option<Affinity>,
    pub(crate) task: Tasking,
}

/// What is said of a call becoming a task.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tasking {
    /// Whether the caller wants the task, and not what comes of it.
    pub(crate) wanted: bool,
    /// Whether the caller could not do anything with one.
    pub(crate) refused: bool,
    /// For how long the server is to keep it.
    pub(crate) ttl: Option<Duration>,
    /// Whether the tool runs as one, where that is known and the server's own client may not know it.
    pub(crate) support: Option<TaskSupport>,
}

/// Keeps calls that belong together, such as those for the pages of a list, with one member of a pool.
#[derive(Debug, Clone, Default)]
pub(crate) struct Affinity(Arc<Mutex<Vec<MemberId>>>);

impl Affinity {
    /// The calls are with this member from now on. One of another pool may lie on the way to it, and stays.
    pub(crate) fn join(&self, member: MemberId) {
        let mut members = lock(&self.0);
        members.retain(|known| *known != member);
        members.push(member);
    }

    /// How long ago the calls were with a member, as far as others have come since; `None` if they never were.
    pub(crate) fn age(&self, member: MemberId) -> Option<usize> {
        lock(&self.0).iter().rev().position(|known| *known == member)
    }
}

/// How long to wait for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Timeout {
    /// As long as the client usually does.
    #[default]
    Usual,
    After(Duration),
    Never,
}

impl Timeout {
    pub(crate) fn options(self, usual: Duration) -> RequestOptions {
        match self {
            Self::Usual => RequestOptions::default().timeout(usual),
            Self::After(timeout) => {
                let longest = timeout.max(RequestOptions::DEFAULT_MAX_TIMEOUT);
                RequestOptions::default().timeout(timeout).max_timeout(longest)
            }
            Self::Never => RequestOptions::default().for_ever(),
        }
    }
}

/// One call. A clone is the same call, for when it has to be made again elsewhere.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) method: ByteString,
    pub(crate) params: Params,
    /// The name of the tool or the prompt, or the URI.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) options: CallOptions,
    pub(crate) decode: Decode,
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
            Self::Raw(params) => Payload::raw(params.clone()),
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
    pub(crate) fn in_rounds<M, T>(params: M::Params, name: impl Into<Arc<str>>, options: CallOptions) -> Self
    where
        M: Method<Result = Outcome<T>>,
        M::Params: Clone,
        T: MultiRound + serde::Serialize + Translate + Send + Sync + 'static,
    {
        let mut job = Self::with::<M>(params, options, decode_outcome::<T>);
        job.name = Some(name.into());
        job
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
    name: Option<Arc<str>>,
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
    payload.into_raw().map(|raw| Decoded::Complete(Payload::raw(raw))).map_err(DecodeError::custom)
}

fn decode_raw(payload: Payload, _: ProtocolVersion) -> Result<Decoded, DecodeError> {
    let raw = payload.into_raw().map_err(DecodeError::custom)?;
    let asks = raw.member("resultType").is_some_and(|kind| kind.as_str() == "\"input_required\"");
    Ok(if asks { Decoded::Input(Box::new(raw.decode()?)) } else { Decoded::Complete(Payload::raw(raw)) })
}
