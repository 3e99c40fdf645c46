//! Calls that outlast their request, for those who want to hold them in their hands.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use turms_proto::Ability;
use turms_proto::method::Method as _;
use turms_proto::revision::task_of_core;
use turms_proto::types::{CallTool, ListCoreTasks, Task, TaskStatus, ToolResult};

use crate::call::error::{CallError, CallErrorKind, ClosedCause, UnsupportedCause};
use crate::client::{Arguments, Client, call_tool_params, check_output, known_tool};
use crate::job::{Job, Performed};
use crate::operation::Operation;
use crate::options::{CallOptions, Timeout};
use crate::page;
use crate::single::{Running, Single, get_task, gone};

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
pub struct TaskHandle(Arc<Inner>);

struct Inner {
    subject: String,
    timeout: Timeout,
    state: State,
}

enum State {
    /// The server answered at once.
    Done(ToolResult),
    Kept(Box<Kept>),
}

struct Kept {
    running: Running,
    single: Arc<Single>,
    /// Who knows what the tool declares, and by what name.
    tool: Option<(Client, String)>,
    /// Keeps the connection.
    _client: Client,
}

/// Where a task is kept.
pub(crate) struct Keeper {
    single: Arc<Single>,
    /// Who knows what the tool declares, and by what name, if it is not whoever was called.
    pub(crate) tool: Option<(Client, String)>,
}

impl Keeper {
    pub(crate) fn new(single: Arc<Single>) -> Self {
        Self { single, tool: None }
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").finish_non_exhaustive()
    }
}

impl Client {
    /// Calls a tool and does not wait for its result, if the server makes a task of the call. Whether it does is for the server
    /// to decide: one that answers at once gives a handle of a task that is over.
    ///
    /// Needs no [`ClientBuilder::tasks`](crate::ClientBuilder::tasks). A server of 2025-11-25 is asked for a task where it
    /// declares that it runs tools as tasks, and the tool that it runs as one.
    pub fn call_tool_as_task(&self, name: impl Into<String>, arguments: impl Serialize) -> Operation<TaskHandle> {
        let (name, arguments) = (name.into(), Arguments::of(&arguments));
        Operation::new(self, move |client, options| begin(client, name, arguments, options))
    }

    /// Takes up a task of which the id is known, perhaps from an earlier run, and asks how it stands.
    pub fn task(&self, id: impl Into<String>) -> Operation<TaskHandle> {
        let id = id.into();
        Operation::new(self, move |client, options| take_up(client, id, options))
    }

    /// All tasks that a server of 2025-11-25 keeps for this client, without what came of them. There are no lists of tasks
    /// since 2026-07-28.
    pub fn list_tasks(&self) -> Operation<Vec<Task>> {
        Operation::new(self, |client, options| async move {
            let opened = client.opened();
            let keeps = opened.as_ref().filter(|opened| opened.dialect.version().has(Ability::CoreTasks));
            let tasks = keeps.and_then(|opened| opened.server.as_ref()).map(|server| &server.capabilities.tasks);
            if tasks.is_some_and(|tasks| tasks.as_ref().is_none_or(|tasks| tasks.list.is_none())) {
                let kind = CallErrorKind::Unsupported(UnsupportedCause::NotOffered("lists of tasks".to_owned()));
                return Err(CallError::not_sent(ListCoreTasks::NAME, kind));
            }
            let tasks = page::all::<ListCoreTasks>(client, options, |_, _| {}).await?;
            Ok(tasks.into_iter().map(|task| task_of_core(task, None)).collect())
        })
    }
}

impl Operation<TaskHandle> {
    /// For how long from its beginning the server is to keep the task. Only servers of 2025-11-25 can be asked that, and each
    /// may decide otherwise.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options_mut().task.ttl = Some(ttl);
        self
    }
}

impl TaskHandle {
    /// The id of the task; `None` if the server answered at once and there is no task.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.0.kept().map(|kept| kept.running.id.as_str())
    }

    /// The task as it was last seen; `None` if there is none.
    #[must_use]
    pub fn task(&self) -> Option<Task> {
        self.0.kept().map(|kept| kept.running.task())
    }

    /// How the task stood when it was last seen.
    #[must_use]
    pub fn status(&self) -> TaskStatus {
        self.0.kept().map_or(TaskStatus::Completed, |kept| kept.running.status())
    }

    /// Asks how the task stands now; `None` if there is none. A server of 2025-11-25 does not tell here what came of it:
    /// [wait](TaskHandle::wait) for that.
    ///
    /// # Errors
    /// When the server does not know the task any more, or cannot be asked.
    pub async fn refresh(&self) -> Result<Option<Task>, CallError> {
        let Some(kept) = self.0.kept() else { return Ok(None) };
        kept.single.look_up(&kept.running, &self.0.options()).await.map(Some)
    }

    /// Waits until the task is over, and answers meanwhile what it asks. Asks the server as often as that says; the timeout of
    /// the call counts for each time, and not for the whole.
    ///
    /// Dropping the future leaves the task as it is, and it can be waited for again.
    ///
    /// # Errors
    /// When the task failed, was given up or is not known any more, when it asks something that this client cannot answer, and
    /// when the server cannot be asked.
    pub async fn wait(&self) -> Result<ToolResult, CallError> {
        let kept = match &self.0.state {
            State::Done(result) => return Ok(result.clone()),
            State::Kept(kept) => kept,
        };
        let result = kept.single.wait_for(&kept.running, &self.0.subject, &self.0.options()).await?;
        if let Some((client, tool)) = &kept.tool {
            check_output(client, tool, &result, self.0.options()).await?;
        }
        Ok(result)
    }

    /// Tells the server that nobody wants the task any more. It may come to its end all the same; one that is over stays as it
    /// is.
    ///
    /// # Errors
    /// When the server cannot be told, does not know the task, or gives up no tasks.
    pub async fn cancel(&self) -> Result<(), CallError> {
        match self.0.kept() {
            Some(kept) if !kept.running.status().is_terminal() => {
                kept.single.cancel_task(&kept.running, self.0.options()).await
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").field("id", &self.id()).field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Inner {
    fn kept(&self) -> Option<&Kept> {
        match &self.state {
            State::Kept(kept) => Some(kept),
            State::Done(_) => None,
        }
    }

    fn options(&self) -> CallOptions {
        CallOptions::within(self.timeout)
    }
}

async fn begin(
    client: Client,
    name: String,
    arguments: Arguments,
    mut options: CallOptions,
) -> Result<TaskHandle, CallError> {
    let params = call_tool_params(name.clone(), arguments)?;
    options.task.wanted = true;
    learn_whether_task(&client, &name, &options).await;
    let (timeout, check) = (options.timeout, options.clone());
    let job = Job::in_rounds::<CallTool, _>(params, options);
    let subject = job.subject();
    let mut performed = client.engine().perform(job).await?;
    if performed.payload.get_mut::<Task>().is_some() {
        return kept(client, Some(name), subject, timeout, performed);
    }
    let result: ToolResult = client.taken(subject.as_str(), performed.payload)?;
    check_output(&client, &name, &result, check).await?;
    Ok(TaskHandle(Arc::new(Inner { subject, timeout, state: State::Done(result) })))
}

/// A server of 2025-11-25 is only asked for tasks of tools that run as one, so it has to be known which do.
pub(crate) async fn learn_whether_task(client: &Client, name: &str, options: &CallOptions) {
    let Some(opened) = client.opened().filter(|opened| opened.dialect.version().has(Ability::CoreTasks)) else {
        return;
    };
    let tasks = opened.server.as_ref().and_then(|server| server.capabilities.tasks.as_ref());
    if tasks.is_some_and(|tasks| tasks.runs_tools()) {
        known_tool(client, name, options.clone()).await;
    }
}

async fn take_up(client: Client, id: String, mut options: CallOptions) -> Result<TaskHandle, CallError> {
    options.task.wanted = true;
    let (timeout, job) = (options.timeout, get_task(&id, options));
    let subject = job.subject();
    let performed = client.engine().perform(job).await.map_err(|error| gone(error, &id))?;
    kept(client, None, subject, timeout, performed)
}

fn kept(
    client: Client,
    tool: Option<String>,
    subject: String,
    timeout: Timeout,
    performed: Performed,
) -> Result<TaskHandle, CallError> {
    let Some(keeper) = performed.keeper else {
        return Err(CallError::answered(subject, CallErrorKind::Closed(ClosedCause::NotConnected(None))));
    };
    let task: Task = client.taken(subject.as_str(), performed.payload)?;
    let tool = keeper.tool.or_else(|| Some((client.clone(), tool?)));
    let kept = Kept { running: Running::new(task), single: keeper.single, tool, _client: client };
    Ok(TaskHandle(Arc::new(Inner { subject, timeout, state: State::Kept(Box::new(kept)) })))
}
