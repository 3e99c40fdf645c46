//! Handles of calls that outlast their request.

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

/// A call of a tool that goes on after the server has answered, or went on in an earlier run of the program.
///
/// Clones are the same task. A handle keeps the client connected as a clone of the client does. Dropping it leaves the task as
/// it is: [cancel](TaskHandle::cancel) it, or keep its [id](TaskHandle::id) and come back with [`Client::task`].
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
    /// The server responded at once.
    Done(CallToolResult),
    Running(Running),
}

struct Running {
    watch: Arc<TaskWatch>,
    owner: TaskOwner,
    /// The call that created the task, as its server knows it.
    call: CallRequest,
    /// Keeps the connection open.
    _client: Client,
}

/// The server that owns a task, behind whatever pool or group was called.
pub(crate) struct TaskOwner {
    backend: ServerBackend,
    /// The call as that server knows it, if it has another name there.
    call: Option<CallRequest>,
}

impl TaskOwner {
    pub(crate) fn new(backend: ServerBackend) -> Self {
        Self { backend, call: None }
    }

    /// Sets the call as the owner knows it, if it is not set.
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
    /// Calls a tool and does not wait for its result, if the server makes a task of the call. Whether it does is for the server
    /// to decide: one that responds at once gives a handle of a task that has ended.
    ///
    /// Needs no [`ClientBuilder::enable_tasks`](crate::ClientBuilder::enable_tasks). A server of 2025-11-25 is asked for a task where it
    /// declares that it runs tools as tasks, and the tool that it runs as one.
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

    /// Returns a handle of a task whose id is known, perhaps from an earlier run, and reads its state.
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
    /// Time to keep the task, counted from its creation. Only servers of 2025-11-25 can be asked that, and each may decide
    /// otherwise.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options_mut().task_ttl = Some(ttl);
        self
    }
}

impl TaskHandle {
    /// The id of the task. `None` if the server responded at once: there is no task then, and [`Client::task`] finds none under any id.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.running().map(|running| running.watch.id.as_str())
    }

    /// The task as it was last seen; `None` if there is none.
    #[must_use]
    pub fn task(&self) -> Option<Task> {
        self.running().map(|running| running.watch.task())
    }

    /// The status of the task when it was last seen.
    #[must_use]
    pub fn status(&self) -> TaskStatus {
        self.running().map_or(TaskStatus::Completed, |running| running.watch.status())
    }

    /// Reads the state of the task; `None` if there is none. A server of 2025-11-25 does not return the result here:
    /// [wait](TaskHandle::wait) for that.
    ///
    /// # Errors
    /// When the server does not know the task, or cannot be reached.
    pub async fn refresh(&self) -> Result<Option<Task>, CallError> {
        let Some(running) = self.running() else { return Ok(None) };
        let call = get_task(&running.watch.id);
        let output = running.call(call.clone(), TaskMode::Refresh).await?;
        output.take(&call).map(Some)
    }

    /// Waits for the end of the task, and responds to its input requests. The server is polled as often as it says; the timeout of
    /// the call counts for each poll, and not for the whole.
    ///
    /// Dropping the future leaves the task as it is, and it can be waited for again.
    ///
    /// # Errors
    /// When the task failed, was cancelled or is not known any more, when it requests input that this client does not give, and
    /// when the server cannot be reached.
    pub async fn wait(&self) -> Result<CallToolResult, CallError> {
        match &*self.0 {
            HandleState::Done(result) => Ok(result.clone()),
            HandleState::Running(running) => {
                let output = running.call(running.call.clone(), TaskMode::Wait).await?;
                output.take(&running.call)
            }
        }
    }

    /// Cancels the task. It may end with a result all the same; one that has ended stays as it is.
    ///
    /// # Errors
    /// When the server cannot be reached, does not know the task, or does not cancel tasks.
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
