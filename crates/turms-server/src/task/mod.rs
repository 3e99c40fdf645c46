//! Tools that outlast their requests: the tasks extension of 2026-07-28 and the experimental tasks of 2025-11-25.
//!
//! A task is a record in a [`TaskStore`] and a handler that runs in a runtime task. Every operation changes the record,
//! and every wait is a wait for the record to change. The process that runs a handler need not be the process that
//! serves requests about it.

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
use turms_core::__internal::random_id;
use turms_core::store::{MemoryTaskStore, StoreError, TaskRecord, TaskStore};
use turms_core::{CallResult, Payload, Principal};
use turms_proto::types::{
    CallToolResult, ClientCapability, Meta, Outcome, RelatedTask, ResultType, TASKS_EXTENSION, Task, TaskRequest,
    TaskStatus, key,
};
use turms_proto::{Ability, ErrorCode, ErrorObject, Object, RawJson};

pub(crate) use self::detach::DetachPoint;
use self::detach::{HandlerProgress, run_until_detached};
pub(crate) use self::run::RunningTask;
pub(crate) use self::watch::{MAX_WATCHED_TASKS, TaskWatch};
use crate::call_log::CallLog;
use crate::context::Context;
use crate::router::{ToolRequest, attach_server_info};
use crate::tool::{Tool, ToolFuture};

/// Limits of the default store.
const DEFAULT_MAX_TASKS: usize = 10_000;
const DEFAULT_MAX_BYTES: usize = 256 * 1024 * 1024;

/// The storage and limits of a server's tasks.
///
/// [`ToolBuilder::task`](crate::ToolBuilder::task) makes a tool run as a task.
#[derive(Clone)]
#[must_use]
pub struct TaskOptions {
    /// Set to a memory store by the first task if no other store is set.
    store: Arc<OnceLock<Arc<dyn TaskStore>>>,
    ttl: Option<Duration>,
    poll_interval: Duration,
    max_running: usize,
}

impl TaskOptions {
    /// Creates the default options.
    pub fn new() -> Self {
        Self {
            store: Arc::default(),
            ttl: Some(Duration::from_secs(60 * 60)),
            poll_interval: Duration::from_secs(1),
            max_running: 1024,
        }
    }

    /// Sets the task store, or an `Arc` of one. Default: in memory. The default store holds at most 10 000 tasks and
    /// 256 MiB.
    pub fn store(mut self, store: impl TaskStore) -> Self {
        self.store = Arc::new(OnceLock::from(Arc::new(store) as Arc<dyn TaskStore>));
        self
    }

    /// Sets the time to live of a task, counted from its creation. Default: 1 h. A task that still runs then is
    /// stopped. Clients of 2025-11-25 can request a shorter time.
    pub fn ttl(mut self, time: Duration) -> Self {
        self.ttl = Some(time);
        self
    }

    /// Removes the time to live: the store decides how long it keeps tasks.
    pub fn without_ttl(mut self) -> Self {
        self.ttl = None;
        self
    }

    /// Sets the poll interval that is suggested to clients. Default: 1 s.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }

    /// Sets the maximum number of tasks that run at once. Default: 1024. Further tasks are rejected.
    pub fn max_running(mut self, max: usize) -> Self {
        self.max_running = max;
        self
    }
}

impl Default for TaskOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TaskOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskOptions")
            .field("ttl", &self.ttl)
            .field("poll_interval", &self.poll_interval)
            .finish_non_exhaustive()
    }
}

/// The condition under which a tool runs as a task, if the client supports tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskMode {
    /// Runs as a task from the start.
    Optional,
    /// Runs as a task from the start. A client that does not support tasks, although its revision has them, is
    /// rejected.
    Required,
    /// Starts as a call; the handler decides when it becomes a task.
    Detachable,
}

/// The mode of one tool call, which depends on the tool and the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallPlan {
    Call,
    Task,
    Detachable,
}

/// Checks that the client supports the tasks extension.
///
/// # Errors
/// If the client did not declare the extension.
pub(crate) fn require_tasks_extension(context: &Context) -> Result<(), ErrorObject> {
    context.client_capabilities().require(ClientCapability::Extension(TASKS_EXTENSION))
}

/// Creates, runs and looks up the tasks of a server.
pub(crate) struct TaskManager {
    options: TaskOptions,
    running: Arc<Semaphore>,
    /// Input requests that are being sent to a client (task id, key), so that each is sent once.
    claimed_requests: Sender<HashSet<(String, String)>>,
}

impl TaskManager {
    pub(crate) fn new(options: TaskOptions) -> Self {
        let running = Arc::new(Semaphore::new(options.max_running.min(Semaphore::MAX_PERMITS)));
        Self { options, running, claimed_requests: Sender::default() }
    }

    fn store(&self) -> &Arc<dyn TaskStore> {
        self.options.store.get_or_init(|| Arc::new(MemoryTaskStore::new(DEFAULT_MAX_TASKS, DEFAULT_MAX_BYTES)))
    }

    /// Decides how a tool call runs.
    ///
    /// # Errors
    /// If the tool cannot run as the client requests, or requires a task that the client does not support.
    pub(crate) fn plan(
        &self,
        tool: &Tool,
        task_request: Option<&TaskRequest>,
        context: &Context,
    ) -> Result<CallPlan, ErrorObject> {
        if tool.task_mode().is_none() && task_request.is_none() {
            return Ok(CallPlan::Call);
        }
        let version = context.protocol_version();
        if version.has(Ability::TasksExtension) {
            let Some(mode) = tool.task_mode() else { return Ok(CallPlan::Call) };
            return match require_tasks_extension(context) {
                Ok(()) if mode == TaskMode::Detachable => Ok(CallPlan::Detachable),
                Ok(()) => Ok(CallPlan::Task),
                Err(missing) if mode == TaskMode::Required => Err(missing),
                Err(_) => Ok(CallPlan::Call),
            };
        }
        // A server that does not declare tasks ignores a request for one.
        if !version.has(Ability::CoreTasks) || !context.server().has_tasks() {
            return Ok(CallPlan::Call);
        }
        // In 2025-11-25 the client decides.
        let refused = |problem: &str| {
            let message = format!("tool {:?} {problem}", tool.name());
            Err(ErrorObject::new(ErrorCode::METHOD_NOT_FOUND, message))
        };
        match (tool.task_mode(), task_request) {
            (None, Some(_)) => refused("cannot be run as a task"),
            (Some(TaskMode::Required), None) => refused("can only be run as a task"),
            (Some(_), Some(_)) => Ok(CallPlan::Task),
            (_, None) => Ok(CallPlan::Call),
        }
    }

    /// Runs a tool as a task. The task is stored before its handler starts: if storing fails, the handler never runs.
    pub(crate) async fn run(
        self: &Arc<Self>,
        tool: Tool,
        request: ToolRequest,
        context: Context,
        server_info: Option<Meta>,
    ) -> CallResult {
        let new_task = NewTask::new(self.create(&context, &tool, request.task())?);
        let task = new_task.store().await?;
        let detach = Arc::new(DetachPoint::default());
        detach.set_task(task.clone());
        let context = context.with_detach_point(detach);
        let (version, log) = (context.protocol_version(), CallLog::of_tool(tool.name(), context.call()));
        let mut handler = tool.call(request, context);
        // In 2026-07-28, a result that is available at once is the response. In 2025-11-25, a request for a task always
        // gets a task.
        if version.has(Ability::TasksExtension)
            && let Poll::Ready(result) = poll_fn(|cx| Poll::Ready(handler.as_mut().poll(cx))).await
        {
            task.discard().await;
            new_task.disarm();
            return crate::router::finish(result?, server_info);
        }
        new_task.disarm();
        Ok(spawn(task, handler, server_info, log))
    }

    /// Runs a tool as a call that becomes a task when its handler detaches.
    pub(crate) async fn run_detachable(
        self: &Arc<Self>,
        tool: Tool,
        request: ToolRequest,
        context: Context,
        server_info: Option<Meta>,
    ) -> CallResult {
        let detach = Arc::new(DetachPoint::default());
        let context = context.with_detach_point(detach.clone());
        let handler = tool.call(request, context.clone());
        match run_until_detached(handler, context.rounds().map(|rounds| &**rounds), &detach).await {
            HandlerProgress::Finished(result) => crate::router::finish(result?, server_info),
            HandlerProgress::InputRequired(result) => result,
            HandlerProgress::Detached(handler) => {
                let new_task = NewTask::new(self.create(&context, &tool, None)?);
                let task = new_task.store().await?;
                detach.set_task(task.clone());
                let log = CallLog::of_tool(tool.name(), context.call());
                new_task.disarm();
                Ok(spawn(task, handler, server_info, log))
            }
        }
    }

    /// Creates a task. [Store](RunningTask::store) it before the response names it.
    ///
    /// # Errors
    /// If too many tasks are running.
    pub(crate) fn create(
        &self,
        context: &Context,
        tool: &Tool,
        task_request: Option<&TaskRequest>,
    ) -> Result<RunningTask, ErrorObject> {
        let too_many = |_| {
            let max = self.options.max_running;
            ErrorObject::internal(format!("no more than {max} tasks can run at once: try again later"))
        };
        let permit = self.running.clone().try_acquire_owned().map_err(too_many)?;
        let ttl = granted_ttl(tool.task_ttl().or(self.options.ttl), task_request);
        let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let now = now();
        let mut task = Task::new(random_id(), TaskStatus::Working, now.clone(), now, ttl.map(millis));
        task.poll_interval_ms = Some(millis(self.options.poll_interval));
        let owner = context.principal().map(|principal| principal.key().to_owned());
        let record = TaskRecord::new(task, creator(context).unwrap_or_default()).owner(owner).scopes(tool.scopes());
        Ok(RunningTask::new(record, ttl, self.store().clone(), context, permit))
    }

    /// Returns the task with an id if the caller may see it.
    async fn owned(&self, id: &str, context: &Context) -> Result<Arc<TaskRecord>, ErrorObject> {
        let found = self.store().load(id).await.map_err(|error| task_store_error(&error))?;
        found.filter(|record| is_owned(record, context)).ok_or_else(|| unknown_task(id))
    }
}

impl fmt::Debug for TaskManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskManager").field("options", &self.options).finish_non_exhaustive()
    }
}

/// A task whose handler is not spawned yet. If the call is cancelled or panics, the client never learns of the task, so
/// dropping this value removes it from the store.
struct NewTask {
    task: Arc<RunningTask>,
    is_armed: bool,
}

impl NewTask {
    fn new(task: RunningTask) -> Self {
        Self { task: Arc::new(task), is_armed: true }
    }

    async fn store(&self) -> Result<Arc<RunningTask>, ErrorObject> {
        self.task.store().await?;
        Ok(self.task.clone())
    }

    /// Drops the value without removing the task.
    fn disarm(mut self) {
        self.is_armed = false;
    }
}

impl Drop for NewTask {
    fn drop(&mut self) {
        if !self.is_armed {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let task = self.task.clone();
            runtime.spawn(async move { task.discard().await });
        }
    }
}

/// Spawns a handler as a task. Returns the response of the call.
fn spawn(task: Arc<RunningTask>, handler: ToolFuture, server_info: Option<Meta>, log: Option<CallLog>) -> Payload {
    let handler: ToolFuture = match log {
        Some(log) => Box::pin(log.watch(handler)),
        None => handler,
    };
    let mut created = task.created().result_type(ResultType::Task);
    if let Some(server_info) = &server_info {
        attach_server_info(&mut created.meta, server_info.clone());
    }
    tokio::spawn(task.run(handler, server_info));
    Payload::new(Outcome::<CallToolResult>::Task(Box::new(created)))
}

fn is_owned(record: &TaskRecord, context: &Context) -> bool {
    let principal = context.principal();
    record.owner.as_deref() == principal.map(Principal::key)
        && principal.is_none_or(|principal| principal.require(&record.scopes).is_ok())
}

/// Returns the time to live of a task: the time that a client of 2025-11-25 requests, limited to the configured one.
fn granted_ttl(max: Option<Duration>, task_request: Option<&TaskRequest>) -> Option<Duration> {
    // A shorter time would end before the client could poll the task.
    const MIN_TTL: Duration = Duration::from_secs(1);
    let requested = task_request.and_then(|request| u64::try_from(request.ttl?).ok());
    let requested = requested.map(|ttl| Duration::from_millis(ttl).max(MIN_TTL));
    match (max, requested) {
        (Some(max), Some(requested)) => Some(requested.min(max)),
        (max, requested) => max.or(requested),
    }
}

/// Returns the caller whose list of tasks a new task appears in: the principal, or else the session. Returns `None` if
/// callers cannot be distinguished.
pub(crate) fn creator(context: &Context) -> Option<String> {
    #[derive(Debug)]
    struct Creator(String);
    match (context.principal(), context.session()) {
        (Some(principal), _) => Some(format!("principal {}", principal.key())),
        (None, Some(session)) => {
            Some(session.get_or_insert_with(|| Creator(format!("session {}", random_id()))).0.clone())
        }
        (None, None) => None,
    }
}

/// Applies an edit to a task, and retries until no concurrent change interferes. An edit returns `false` if it changes
/// nothing. Returns the resulting task, or `None` if it is no longer stored.
async fn edit_record(
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

/// Ends a task with a status. Returns `false` if it has already ended.
fn end_record(record: &mut TaskRecord, status: TaskStatus) -> bool {
    if record.task.status.is_terminal() {
        return false;
    }
    record.task.status = status;
    record.task.input_requests = None;
    record.answers.clear();
    true
}

/// Adds the related-task metadata to a message.
fn with_related_task(mut message: Object, task: &str) -> Object {
    let mut meta = message.get("_meta").and_then(|meta| meta.as_object()).unwrap_or_default();
    if let Ok(related) = RawJson::encode(&RelatedTask::new(task)) {
        meta.insert_raw(key::RELATED_TASK, &related);
    }
    message.insert_raw("_meta", &meta.into());
    message
}

fn unknown_task(id: &str) -> ErrorObject {
    ErrorObject::invalid_params(format!("unknown task: {id:?}"))
}

fn task_store_error(error: &StoreError) -> ErrorObject {
    ErrorObject::internal(format!("the task store failed: {error}"))
}

fn now() -> String {
    #[expect(clippy::disallowed_methods, reason = "the protocol requires the times of creation and of the last change")]
    let now = std::time::SystemTime::now();
    humantime::format_rfc3339_millis(now).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, count, time, when};

        let it = TaskOptions::new();
        let code = [
            ("TaskOptions::store", when(it.store.get().is_none(), "in memory")),
            ("TaskOptions::ttl", time(it.ttl.unwrap())),
            ("TaskOptions::poll_interval", time(it.poll_interval)),
            ("TaskOptions::max_running", count(it.max_running)),
        ];
        assert_documented(include_str!("mod.rs"), &code);
    }
}
