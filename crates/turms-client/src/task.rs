//! Handles of tasks: calls that continue to run after the response.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use turms_proto::Ability;
use turms_proto::method::Method as _;
use turms_proto::revision::task_of_core;
use turms_proto::types::{CallTool, CallToolResult, CancelTask, ListCoreTasks, Outcome, Task, TaskParams, TaskStatus};

use crate::backend::{Backend, ServerBackend};
use crate::call::error::{CallError, CallErrorKind, UnsupportedCause};
use crate::call::options::{CallOptions, TaskMode};
use crate::call::request::tool_params;
use crate::call::{Call, CallOutput, CallRequest, decode};
use crate::client::Client;
use crate::layer::task::{TaskWatch, get_task, not_found};
use crate::page;

/// A handle of a task: a tool call that continues to run after the response.
///
/// Clones refer to the same task. A handle keeps the client connected, like a clone of the client. Dropping it does not
/// affect the task: [cancel](TaskHandle::cancel) the task, or store its [id](TaskHandle::id) and get another handle
/// with [`Client::task`], even after a restart of the program.
///
/// ```no_run
/// # async fn example(client: turms_client::Client) -> Result<(), turms_client::CallError> {
/// let report = client.call_tool_as_task("report", serde_json::json!({ "year": 2026 })).await?;
/// println!("{:?} is {}", report.id(), report.status());
/// println!("{}", report.wait().await?.text());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TaskHandle(Arc<HandleState>);

enum HandleState {
    /// The server responded with a result instead of a task.
    Done(CallToolResult),
    Running(Running),
}

struct Running {
    watch: Arc<TaskWatch>,
    owner: TaskOwner,
    /// The call that created the task, as it was sent to its server.
    call: CallRequest,
    /// Keeps the connection open.
    _client: Client,
}

/// The server that runs a task, also if the call went through a pool or a group.
pub(crate) struct TaskOwner {
    backend: ServerBackend,
    /// The call as it was sent to that server, if a group changed the name of the tool.
    call: Option<CallRequest>,
}

impl TaskOwner {
    pub(crate) fn new(backend: ServerBackend) -> Self {
        Self { backend, call: None }
    }

    /// Sets the call as it was sent to the server, unless it is already set.
    pub(crate) fn set_call(&mut self, call: CallRequest) {
        self.call.get_or_insert(call);
    }
}

impl fmt::Debug for TaskOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskOwner").finish_non_exhaustive()
    }
}

impl Client {
    /// Calls a tool as a task, without waiting for its result. The server decides whether the call becomes a task; if
    /// it responds with a result, the handle is that of an ended task.
    ///
    /// Does not require [`ClientBuilder::enable_tasks`](crate::ClientBuilder::enable_tasks). In 2025-11-25, a task is
    /// requested if the server declares tasks for tools, and the tool declares support for tasks.
    pub fn call_tool_as_task(&self, name: impl Into<String>, arguments: impl Serialize) -> Call<TaskHandle> {
        let params = tool_params(name.into(), &arguments);
        let call = params.map(CallRequest::multi_round::<CallTool, _>);
        Call::steps(self, |client, options| async move {
            let call = call?.with_options(options.with(|options| options.task = TaskMode::Return));
            let output = client.backend().call(&call).await?;
            match output.outcome {
                Outcome::Complete(_) => Ok(TaskHandle(Arc::new(HandleState::Done(output.take(&call)?)))),
                _ => handle(client, call, output),
            }
        })
    }

    /// Returns a handle of an existing task by its id, and reads its state.
    pub fn task(&self, id: impl Into<String>) -> Call<TaskHandle> {
        let id = id.into();
        Call::steps(self, |client, options| async move {
            let call = get_task(&id).with_options(options.with(|options| options.task = TaskMode::Return));
            let output = client.backend().call(&call).await.map_err(|error| not_found(error, &id))?;
            handle(client, call, output)
        })
    }

    /// Lists the tasks of a server of 2025-11-25. There is no such list in 2026-07-28.
    pub fn list_tasks(&self) -> Call<Vec<Task>> {
        Call::steps(self, |client, options| async move {
            let opened = client.opened();
            let core = opened.as_ref().filter(|opened| opened.dialect.version().has(Ability::CoreTasks));
            let tasks = core.and_then(|opened| opened.server.as_ref()).map(|server| &server.capabilities.tasks);
            if tasks.is_some_and(|tasks| tasks.as_ref().is_none_or(|tasks| tasks.list.is_none())) {
                let kind = CallErrorKind::Unsupported(UnsupportedCause::NotOffered("lists of tasks".to_owned()));
                return Err(CallError::not_sent(ListCoreTasks::NAME, kind));
            }
            let tasks = page::all::<ListCoreTasks>(&client, options).await?;
            Ok(tasks.into_iter().map(|task| task_of_core(task, None)).collect())
        })
    }
}

impl Call<TaskHandle> {
    /// Sets the time to live of the task, counted from its creation. Only sent to servers of 2025-11-25, which may
    /// choose another.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options_mut().task_ttl = Some(ttl);
        self
    }
}

impl TaskHandle {
    /// Returns the id of the task. `None` if the server responded with a result: there is no task then, and [`Client::task`] finds none
    /// under any id.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.running().map(|running| running.watch.id.as_str())
    }

    /// Returns the last known state of the task; `None` if there is no task.
    #[must_use]
    pub fn task(&self) -> Option<Task> {
        self.running().map(|running| running.watch.task())
    }

    /// Returns the last known status of the task.
    #[must_use]
    pub fn status(&self) -> TaskStatus {
        self.running().map_or(TaskStatus::Completed, |running| running.watch.status())
    }

    /// Reads the state of the task from the server; `None` if there is no task. In 2025-11-25, the state does not
    /// contain the result: use [`wait`](TaskHandle::wait).
    ///
    /// # Errors
    /// Returns an error if the server does not know the task, or cannot be reached.
    pub async fn refresh(&self) -> Result<Option<Task>, CallError> {
        let Some(running) = self.running() else { return Ok(None) };
        let call = get_task(&running.watch.id);
        let output = running.call(call.clone(), TaskMode::Refresh).await?;
        output.take(&call).map(Some)
    }

    /// Waits until the task has ended, responds to its input requests, and returns its result. Polls at the interval
    /// that the server suggests. The timeout of the call applies to each poll, not to the whole wait.
    ///
    /// Dropping the future does not affect the task. `wait` can be called again.
    ///
    /// # Errors
    /// Returns an error if the task failed, was cancelled or is no longer known, if it requests input that this client
    /// cannot provide, or if the server cannot be reached.
    pub async fn wait(&self) -> Result<CallToolResult, CallError> {
        match &*self.0 {
            HandleState::Done(result) => Ok(result.clone()),
            HandleState::Running(running) => {
                let output = running.call(running.call.clone(), TaskMode::Wait).await?;
                output.take(&running.call)
            }
        }
    }

    /// Requests the cancellation of the task. The task may still end with a result. Has no effect on an ended task.
    ///
    /// # Errors
    /// Returns an error if the server cannot be reached, does not know the task, or does not support cancellation.
    pub async fn cancel(&self) -> Result<(), CallError> {
        match self.running() {
            Some(running) if !running.watch.status().is_terminal() => {
                let params = TaskParams::new(&running.watch.id);
                let call = CallRequest::typed::<CancelTask>(params, decode::cancelled_task);
                running.call(call, TaskMode::Cancel).await.map(drop)
            }
            _ => Ok(()),
        }
    }

    fn running(&self) -> Option<&Running> {
        match &*self.0 {
            HandleState::Running(running) => Some(running),
            HandleState::Done(_) => None,
        }
    }
}

impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").field("id", &self.id()).field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Running {
    async fn call(&self, call: CallRequest, mode: fn(Arc<TaskWatch>) -> TaskMode) -> Result<CallOutput, CallError> {
        let options = self.call.options.clone().with(|options| options.task = mode(self.watch.clone()));
        self.owner.backend.call(&call.with_options(options)).await
    }
}

fn handle(client: Client, call: CallRequest, mut output: CallOutput) -> Result<TaskHandle, CallError> {
    let Some(mut owner) = output.task.take() else { return Err(CallError::not_connected(call.target(), None)) };
    let task: Task = output.take(&call)?;
    let options = CallOptions::with_timeout(call.options.timeout);
    let call = owner.call.take().unwrap_or(call).with_options(options);
    let running = Running { watch: Arc::new(TaskWatch::new(task)), owner: *owner, call, _client: client };
    Ok(TaskHandle(Arc::new(HandleState::Running(running))))
}
