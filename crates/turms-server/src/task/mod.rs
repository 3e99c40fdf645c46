//! Tools that outlast their requests: the tasks extension of 2026-07-28, and the experimental tasks of 2025-11-25.
//!
//! A task is a record in a [`TaskStore`], a handler that runs in a task of the runtime, and nothing else. Whoever wants
//! something of it changes the record; whoever waits for it waits for the record to change. So the process that runs a handler
//! need not be the one that is asked about it.

mod detach;
mod methods;
mod run;
mod watch;

use std::collections::HashSet;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::sync::watch::Sender;
use turms_core::store::{MemoryTasks, StoreError, TaskRecord, TaskStore};
use turms_core::{CallResult, Payload, random_id};
use turms_proto::types::{
    ClientCapability, Meta, Outcome, RelatedTask, ResultType, TASKS_EXTENSION, Task, TaskRequest, TaskStatus,
    ToolResult, key,
};
use turms_proto::{Ability, ErrorCode, ErrorObject, Object, RawJson};

pub(crate) use self::detach::DetachPoint;
use self::detach::{Until, run_until_detached};
pub(crate) use self::run::RunningTask;
pub(crate) use self::watch::{MAX_WATCHED_TASKS, TaskWatch};
use crate::call_log::CallLog;
use crate::context::Context;
use crate::router::{ToolRequest, attach_server_info};
use crate::tool::{Tool, ToolFuture};

/// How a server keeps and runs its tasks. Without a word about it, tasks are kept in memory for an hour.
///
/// Whether a tool runs as a task is said where the tool is: see [`ToolBuilder::task`](crate::ToolBuilder::task).
#[derive(Clone)]
#[must_use]
pub struct Tasks {
    /// In memory, if nothing else has been said when the first task is kept.
    store: Arc<OnceLock<Arc<dyn TaskStore>>>,
    keep: Option<Duration>,
    poll_interval: Duration,
    most_running: usize,
}

impl Tasks {
    /// The usual ones.
    pub fn new() -> Self {
        Self {
            store: Arc::default(),
            keep: Some(Duration::from_secs(60 * 60)),
            poll_interval: Duration::from_secs(1),
            most_running: 1024,
        }
    }

    /// Where to keep them.
    pub fn store(self, store: impl TaskStore) -> Self {
        self.shared_store(Arc::new(store))
    }

    /// As [`Tasks::store`], of one that is shared already.
    pub fn shared_store(mut self, store: Arc<dyn TaskStore>) -> Self {
        self.store = Arc::new(OnceLock::from(store));
        self
    }

    /// How long a task is kept from its beginning, an hour unless told otherwise. One that still runs then is given up. Clients
    /// of 2025-11-25 may ask for less.
    pub fn keep_for(mut self, time: Duration) -> Self {
        self.keep = Some(time);
        self
    }

    /// Keeps tasks for as long as the store does.
    pub fn keep_for_ever(mut self) -> Self {
        self.keep = None;
        self
    }

    /// How long clients should wait before they ask again, a second unless told otherwise.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }

    /// How many may run at once, 1024 unless told otherwise; more are refused.
    pub fn most_running(mut self, most: usize) -> Self {
        self.most_running = most;
        self
    }
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tasks = f.debug_struct("Tasks");
        tasks.field("keep", &self.keep).field("poll_interval", &self.poll_interval).finish_non_exhaustive()
    }
}

/// When a tool runs as a task, if its caller knows of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskMode {
    /// From the beginning.
    Optional,
    /// From the beginning, and not otherwise.
    Required,
    /// From where its handler says so.
    Detachable,
}

/// How a call is to be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    Call,
    Task,
    Detachable,
}

/// # Errors
/// When the caller did not declare the extension, where that is needed.
pub(crate) fn declared(context: &Context) -> Result<(), ErrorObject> {
    context.client_capabilities().require(ClientCapability::Extension(TASKS_EXTENSION))
}

/// The tasks of a server.
pub(crate) struct TaskManager {
    options: Tasks,
    running: Arc<Semaphore>,
    /// Questions that some client is being asked, so that it is asked once.
    being_asked: Sender<HashSet<(String, String)>>,
}

impl TaskManager {
    pub(crate) fn new(options: Tasks) -> Self {
        let running = Arc::new(Semaphore::new(options.most_running.min(Semaphore::MAX_PERMITS)));
        Self { options, running, being_asked: Sender::default() }
    }

    fn store(&self) -> &Arc<dyn TaskStore> {
        self.options.store.get_or_init(|| Arc::new(MemoryTasks::new(10_000, 256 * 1024 * 1024)))
    }

    /// Plans how a call of a tool is run.
    ///
    /// # Errors
    /// If it cannot be run the way the caller asks for, or the only way there is.
    pub(crate) fn plan(&self, tool: &Tool, wish: Option<&TaskRequest>, context: &Context) -> Result<Plan, ErrorObject> {
        if tool.task_mode().is_none() && wish.is_none() {
            return Ok(Plan::Call);
        }
        let version = context.version();
        let plan = |mode| if mode == TaskMode::Detachable { Plan::Detachable } else { Plan::Task };
        if version.has(Ability::TasksExtension) {
            let Some(mode) = tool.task_mode() else { return Ok(Plan::Call) };
            return match declared(context) {
                Ok(()) => Ok(plan(mode)),
                Err(missing) if mode == TaskMode::Required => Err(missing),
                Err(_) => Ok(Plan::Call),
            };
        }
        // A server that has not declared tasks ignores a request for one.
        if !version.has(Ability::CoreTasks) || !context.server().has_tasks() {
            return Ok(Plan::Call);
        }
        // In 2025-11-25 the caller decides, and gets a task if it asks for one.
        let refused = |problem: &str| {
            let message = format!("tool {:?} {problem}", tool.name());
            Err(ErrorObject::new(ErrorCode::METHOD_NOT_FOUND, message))
        };
        match (tool.task_mode(), wish) {
            (None, Some(_)) => refused("cannot be run as a task"),
            (Some(TaskMode::Required), None) => refused("can only be run as a task"),
            (Some(_), Some(_)) => Ok(Plan::Task),
            (_, None) => Ok(Plan::Call),
        }
    }

    /// Runs a tool as a task. The task is stored before its handler starts, so that one that cannot be stored has not run.
    pub(crate) async fn run(
        self: &Arc<Self>,
        tool: Tool,
        request: ToolRequest,
        context: Context,
        server: Option<Meta>,
    ) -> CallResult {
        let created = NewTask(Some(Arc::new(self.create(&context, tool.keep_task_for(), request.task())?)));
        let task = created.store().await?;
        let detach = Arc::new(DetachPoint::default());
        detach.open(task.clone());
        let context = context.with_detach_point(detach);
        let (version, log) = (context.version(), CallLog::of_tool(tool.name(), context.call()));
        let mut handler = tool.call(request, context);
        // A result that is ready at once is the response in 2026-07-28; in 2025-11-25 a request for a task always gets one.
        if version.has(Ability::TasksExtension)
            && let Poll::Ready(result) = poll_fn(|cx| Poll::Ready(handler.as_mut().poll(cx))).await
        {
            task.discard().await;
            created.spawned();
            return crate::router::finish(result?, server);
        }
        created.spawned();
        Ok(spawn(task, handler, server, log))
    }

    /// Runs a tool as a call, and as a task from where its handler detaches.
    pub(crate) async fn run_detachable(
        self: &Arc<Self>,
        tool: Tool,
        request: ToolRequest,
        context: Context,
        server: Option<Meta>,
    ) -> CallResult {
        let detach = Arc::new(DetachPoint::default());
        let context = context.with_detach_point(detach.clone());
        let handler = tool.call(request, context.clone());
        match run_until_detached(handler, context.rounds().map(|rounds| &**rounds), &detach).await {
            Until::Finished(result) => crate::router::finish(result?, server),
            Until::InputRequired(result) => result,
            Until::Detached(handler) => {
                let created = NewTask(Some(Arc::new(self.create(&context, tool.keep_task_for(), None)?)));
                let task = created.store().await?;
                detach.open(task.clone());
                let log = CallLog::of_tool(tool.name(), context.call());
                created.spawned();
                Ok(spawn(task, handler, server, log))
            }
        }
    }

    /// Creates a task, which is to be [stored](RunningTask::store) before its caller is told of it.
    ///
    /// # Errors
    /// When too many run already.
    pub(crate) fn create(
        &self,
        context: &Context,
        keep: Option<Duration>,
        wish: Option<&TaskRequest>,
    ) -> Result<RunningTask, ErrorObject> {
        let too_many = |_| {
            let most = self.options.most_running;
            ErrorObject::internal(format!("no more than {most} tasks can run at once: try again later"))
        };
        let permit = self.running.clone().try_acquire_owned().map_err(too_many)?;
        let keep = granted(keep.or(self.options.keep), wish);
        let now = now();
        let ttl = keep.map(|keep| i64::try_from(keep.as_millis()).unwrap_or(i64::MAX));
        let interval = i64::try_from(self.options.poll_interval.as_millis()).unwrap_or(i64::MAX);
        let mut task = Task::new(random_id(), TaskStatus::Working, now.clone(), now, ttl);
        task.poll_interval_ms = Some(interval);
        let owner = context.principal().map(|principal| principal.subject.clone());
        let record = TaskRecord::new(task, creator(context).unwrap_or_default()).owner(owner);
        Ok(RunningTask::new(record, keep, self.store().clone(), context, permit))
    }

    /// The task of this id, if the caller may see it.
    async fn owned(&self, id: &str, context: &Context) -> Result<Arc<TaskRecord>, ErrorObject> {
        let found = self.store().load(id).await.map_err(|error| unkept(&error))?;
        found.filter(|record| is_owned(record, context)).ok_or_else(|| unknown(id))
    }
}

impl fmt::Debug for TaskManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskManager").field("options", &self.options).finish_non_exhaustive()
    }
}

/// A task whose handler does not run on its own yet. If its call is cancelled or panics before that, no caller knows the task, and
/// it is removed again.
struct NewTask(Option<Arc<RunningTask>>);

impl NewTask {
    async fn store(&self) -> Result<Arc<RunningTask>, ErrorObject> {
        let Some(task) = &self.0 else { return Err(ErrorObject::internal("the task is stored already")) };
        task.store().await?;
        Ok(task.clone())
    }

    fn spawned(mut self) {
        self.0 = None;
    }
}

impl Drop for NewTask {
    fn drop(&mut self) {
        if let (Some(task), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { task.discard().await });
        }
    }
}

/// Lets a handler go on as a task; returns the response of its call.
fn spawn(task: Arc<RunningTask>, handler: ToolFuture, server: Option<Meta>, log: Option<CallLog>) -> Payload {
    let handler: ToolFuture = match log {
        Some(log) => Box::pin(log.watch(handler)),
        None => handler,
    };
    let mut created = task.created().result_type(ResultType::Task);
    if let Some(server) = &server {
        attach_server_info(&mut created.meta, server.clone());
    }
    tokio::spawn(task.run(handler, server));
    Payload::new(Outcome::<ToolResult>::Task(Box::new(created)))
}

fn is_owned(record: &TaskRecord, context: &Context) -> bool {
    record.owner.as_deref() == context.principal().map(|principal| principal.subject.as_str())
}

/// What a client of 2025-11-25 asks for is granted up to what there is.
fn granted(most: Option<Duration>, wish: Option<&TaskRequest>) -> Option<Duration> {
    // Less would be gone before anybody could ask for it.
    const LEAST: Duration = Duration::from_secs(1);
    let wish = wish.and_then(|wish| u64::try_from(wish.ttl?).ok()).map(|ttl| Duration::from_millis(ttl).max(LEAST));
    match (most, wish) {
        (Some(most), Some(wish)) => Some(wish.min(most)),
        (most, wish) => most.or(wish),
    }
}

/// In whose list a task stands: the caller's if it is known who they are, or else the session's. In nobody's if callers cannot
/// be told apart.
pub(crate) fn creator(context: &Context) -> Option<String> {
    #[derive(Debug)]
    struct Creator(String);
    match (context.principal(), context.session()) {
        (Some(principal), _) => Some(format!("principal {}", principal.subject)),
        (None, Some(session)) => Some(match session.assigned::<Creator>() {
            Some(creator) => creator.0.clone(),
            None => {
                let creator = format!("session {}", random_id());
                session.assign(Creator(creator.clone()));
                creator
            }
        }),
        (None, None) => None,
    }
}

/// Changes a task until nobody else was quicker. An edit that has nothing to change says false. Gives the task as it is then,
/// or `None` if it is not kept any more.
async fn change(
    store: &dyn TaskStore,
    id: &str,
    edit: impl Fn(&mut TaskRecord) -> bool,
) -> Result<Option<TaskRecord>, StoreError> {
    loop {
        let Some(record) = store.load(id).await? else { return Ok(None) };
        let mut next = (*record).clone();
        if !edit(&mut next) {
            return Ok(Some(next));
        }
        next.task.last_updated_at = now();
        if store.replace(next.clone()).await? {
            next.revision += 1;
            return Ok(Some(next));
        }
    }
}

/// Ends a task one way or another, unless it has ended before.
fn end(record: &mut TaskRecord, status: TaskStatus) -> bool {
    if record.task.status.is_terminal() {
        return false;
    }
    record.task.status = status;
    record.task.input_requests = None;
    record.answers.clear();
    true
}

/// Says which task a message belongs to.
fn related(mut message: Object, task: &str) -> Object {
    let mut meta = message.get("_meta").and_then(|meta| meta.as_object()).unwrap_or_default();
    if let Ok(related) = RawJson::encode(&RelatedTask::new(task)) {
        meta.insert_raw(key::RELATED_TASK, &related);
    }
    message.insert_raw("_meta", &meta.into());
    message
}

fn unknown(id: &str) -> ErrorObject {
    ErrorObject::invalid_params(format!("unknown task: {id:?}"))
}

fn unkept(error: &StoreError) -> ErrorObject {
    ErrorObject::internal(format!("the task cannot be kept or found: {error}"))
}

fn now() -> String {
    #[expect(clippy::disallowed_methods, reason = "clients are told when a task began and changed")]
    let now = std::time::SystemTime::now();
    humantime::format_rfc3339_millis(now).to_string()
}
