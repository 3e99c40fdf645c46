//! Tasks: calls that continue to run after the response.
//!
//! In the extension of 2026-07-28, `tasks/get` returns everything, including input requests. In 2025-11-25, it returns
//! only the status; `tasks/result` returns the result, and the server sends its input requests while `tasks/result` is
//! pending.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use turms_core::Payload;
use turms_proto::method::Method as _;
use turms_proto::revision::{core_task, task_of_core};
use turms_proto::types::{
    CallToolResult, CancelTask, EmptyResult, GetCoreTaskResult, GetTask, InputRequests, Outcome, ResultType, Task,
    TaskParams, TaskStatus, UpdateTask, UpdateTaskParams,
};
use turms_proto::{Ability, DecodeError, ErrorCode};

use super::CallService;
use super::input::respond;
use crate::call::error::{CallError, CallErrorKind, Delivery, InputCause, TaskCause, UnsupportedCause};
use crate::call::options::{CallOptions, TaskMode, Timeout};
use crate::call::{CallOutput, CallRequest, decode};
use crate::connection::{ServerShared, offers_task};
use crate::event::Event;

/// Default, minimum and maximum poll interval in milliseconds. The server may set another default.
const DEFAULT_POLL_MS: i64 = 1000;
const MIN_POLL_MS: i64 = 50;
const MAX_POLL_MS: i64 = 60_000;

/// Polls the task of a call until it ends, and cancels the task if the call is dropped. This layer is outside of the
/// retries, so that each poll is retried on its own, and the call is not sent again.
pub(crate) struct Tasks<S>(Arc<TaskPoller<S>>);

struct TaskPoller<S> {
    inner: S,
    shared: Arc<ServerShared>,
}

impl<S> Tasks<S> {
    pub(crate) fn new(inner: S, shared: Arc<ServerShared>) -> Self {
        Self(Arc::new(TaskPoller { inner, shared }))
    }
}

impl<S: CallService> CallService for Tasks<S> {
    async fn call(&self, call: &CallRequest) -> Result<CallOutput, CallError> {
        match &call.options.task {
            TaskMode::Await | TaskMode::Return | TaskMode::Refuse => {}
            _ => return Box::pin(self.about_task(call)).await,
        }
        let mut output = self.0.inner.call(call).await?;
        let Outcome::Task(task) = output.outcome else { return Ok(output) };
        if !offers_task(&self.0.shared, call) {
            return Err(CallError::answered(call.target(), CallErrorKind::Task(TaskCause::Unexpected)));
        }
        output.outcome = match call.options.task {
            TaskMode::Return => Outcome::Task(task),
            _ => Outcome::Complete(Payload::new(Box::pin(self.follow(call, *task)).await?)),
        };
        Ok(output)
    }
}

impl<S: CallService> Tasks<S> {
    /// Waits for the task of a call. Dropping the future cancels the task.
    async fn follow(&self, call: &CallRequest, task: Task) -> Result<CallToolResult, CallError> {
        let watch = Arc::new(TaskWatch::new(task));
        let mut guard = CancelOnDrop { poller: self.0.clone(), watch: Some(watch.clone()) };
        let result = self.0.wait(call, &watch).await;
        if matches!(&result, Err(error) if matches!(error.kind(), CallErrorKind::Task(TaskCause::NotFound { .. }))) {
            guard.watch = None;
        }
        result
    }

    /// Handles a call about an existing task: wait, refresh or cancel.
    async fn about_task(&self, call: &CallRequest) -> Result<CallOutput, CallError> {
        Ok(CallOutput::complete(match &call.options.task {
            TaskMode::Refresh(watch) => Payload::new(self.0.refresh(watch, &call.options).await?),
            TaskMode::Cancel(watch) => {
                self.0.cancel(watch, &call.options).await?;
                Payload::new(EmptyResult::new())
            }
            TaskMode::Wait(watch) => Payload::new(self.0.wait(call, watch).await?),
            TaskMode::Await | TaskMode::Return | TaskMode::Refuse => return self.0.inner.call(call).await,
        }))
    }
}

impl<S: CallService> TaskPoller<S> {
    async fn wait(&self, call: &CallRequest, watch: &TaskWatch) -> Result<CallToolResult, CallError> {
        let options = CallOptions::with_timeout(call.options.timeout);
        let result = Waiter { poller: self, watch, call, options }.run().await;
        // The call that created the task was sent, even if this request about the task was not.
        result.map_err(|error| error.maybe_sent().about(call.target()))
    }

    /// Reads the state of a task.
    async fn refresh(&self, watch: &TaskWatch, options: &CallOptions) -> Result<Task, CallError> {
        let call = get_task(&watch.id).with_options(CallOptions::with_timeout(options.timeout));
        let output = self.inner.call(&call).await.map_err(|error| not_found(error, &watch.id))?;
        let task: Task = output.take(&call)?;
        watch.update(task.clone());
        Ok(task)
    }

    async fn cancel(&self, watch: &TaskWatch, options: &CallOptions) -> Result<(), CallError> {
        let call = CallRequest::typed::<CancelTask>(TaskParams::new(&watch.id), decode::cancelled_task)
            .with_options(CallOptions::with_timeout(options.timeout));
        let connected = self.shared.ready(call.target(), self.shared.wait_time(&call.options)).await?;
        let declared = || connected.server()?.capabilities.tasks.as_ref()?.cancel.as_ref();
        let core = connected.version().has(Ability::CoreTasks);
        if core && declared().is_none() {
            let cause = UnsupportedCause::NotOffered(CancelTask::NAME.to_owned());
            return Err(CallError::not_sent(call.target(), CallErrorKind::Unsupported(cause)));
        }
        let output = match self.inner.call(&call).await {
            // In 2025-11-25, servers reject an ended task like an unknown one.
            Err(error) if core && is_refused(&error) => {
                let task = self.refresh(watch, options).await?;
                return if task.status.is_terminal() { Ok(()) } else { Err(error) };
            }
            output => output.map_err(|error| not_found(error, &watch.id))?,
        };
        if let Outcome::Complete(payload) = &output.outcome
            && let Some(task) = payload.get::<Task>()
        {
            watch.update(task.clone());
        }
        Ok(())
    }
}

/// The last known state of a task, and the input requests that have responses.
#[derive(Debug)]
pub(crate) struct TaskWatch {
    pub(crate) id: String,
    last: Mutex<Task>,
    /// The lock is held by the one waiter that polls, on behalf of all waiters.
    input: tokio::sync::Mutex<AnsweredInput>,
}

#[derive(Debug, Default)]
struct AnsweredInput {
    keys: HashSet<String>,
    rounds: usize,
}

impl TaskWatch {
    pub(crate) fn new(task: Task) -> Self {
        Self { id: task.task_id.clone(), last: Mutex::new(task), input: tokio::sync::Mutex::default() }
    }

    pub(crate) fn task(&self) -> Task {
        self.last.lock().clone()
    }

    pub(crate) fn status(&self) -> TaskStatus {
        self.last.lock().status
    }

    /// Stores the state of the task, unless the task has already ended.
    fn update(&self, task: Task) {
        let mut last = self.last.lock();
        if !last.status.is_terminal() || is_created(&last) {
            *last = task;
        }
    }
}

/// Returns `true` if this is the task from the response that created it. It has neither input requests nor a result.
fn is_created(task: &Task) -> bool {
    task.result_type == Some(ResultType::Task)
}

/// Cancels a task on drop, unless it has ended.
struct CancelOnDrop<S: CallService> {
    poller: Arc<TaskPoller<S>>,
    watch: Option<Arc<TaskWatch>>,
}

impl<S: CallService> Drop for CancelOnDrop<S> {
    fn drop(&mut self) {
        let Some(watch) = self.watch.take().filter(|watch| !watch.status().is_terminal()) else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let poller = self.poller.clone();
            runtime.spawn(async move {
                if let Err(error) = poller.cancel(&watch, &CallOptions::default()).await {
                    tracing::debug!(target: "turms::client", %error, "a task was not cancelled");
                }
            });
        }
    }
}

/// One call that waits for a task.
struct Waiter<'a, S> {
    poller: &'a TaskPoller<S>,
    watch: &'a TaskWatch,
    call: &'a CallRequest,
    options: CallOptions,
}

impl<S: CallService> Waiter<'_, S> {
    async fn run(&self) -> Result<CallToolResult, CallError> {
        let mut input = self.watch.input.lock().await;
        loop {
            let task = self.watch.task();
            if task.status == TaskStatus::Cancelled || task.result.is_some() || task.error.is_some() {
                return self.result_of(task);
            }
            let shared = &self.poller.shared;
            let connected = shared.ready(self.call.target(), shared.wait_time(&self.options)).await?;
            let core = connected.version().has(Ability::CoreTasks);
            drop(connected);
            match task.status {
                TaskStatus::Working => self.poll_later().await?,
                TaskStatus::InputRequired if core => {
                    // The request may take as long as the task. Meanwhile, polls detect a server that is gone.
                    tokio::select! {
                        biased;
                        fetched = self.fetch_result(Timeout::Never) => fetched?,
                        ended = self.poll_to_end() => ended?,
                    }
                }
                TaskStatus::InputRequired if is_created(&task) => self.poll().await?,
                TaskStatus::InputRequired => self.give_input(task, &mut input).await?,
                _ if core => self.fetch_result(self.options.timeout).await?,
                _ if is_created(&task) => self.poll().await?,
                _ => return self.result_of(task),
            }
        }
    }

    fn result_of(&self, task: Task) -> Result<CallToolResult, CallError> {
        let invalid = |problem| self.call.invalid(problem);
        if task.status == TaskStatus::Cancelled {
            let cause = TaskCause::Cancelled { id: task.task_id, reason: task.status_message };
            return Err(CallError::answered(self.call.target(), CallErrorKind::Task(cause)));
        }
        match (task.result, task.error) {
            (Some(result), _) => match result.decode().map_err(|error| invalid(error.within("result")))? {
                Outcome::<CallToolResult>::Complete(result) => Ok(result),
                _ => Err(invalid(DecodeError::custom("the result of a task is none of a tool"))),
            },
            (None, Some(error)) => Err(CallError::server(self.call.target(), error)),
            (None, None) => Err(invalid(DecodeError::custom("the task is over and has neither a result nor an error"))),
        }
    }

    /// Reads the state of the task. If the client reconnects, waits for an unreachable server up to the timeout of a
    /// response.
    async fn poll(&self) -> Result<(), CallError> {
        let (shared, started) = (&self.poller.shared, Instant::now());
        loop {
            let Err(error) = self.poller.refresh(self.watch, &self.options).await else { return Ok(()) };
            let away = error.is_disconnected() || matches!(error.kind(), CallErrorKind::CircuitOpen(_));
            let in_time = shared.wait_time(&self.options).is_none_or(|timeout| started.elapsed() < timeout);
            if !away || !in_time || !shared.reconnects() || shared.is_closed() {
                return Err(error);
            }
            self.pause().await;
        }
    }

    async fn poll_later(&self) -> Result<(), CallError> {
        self.pause().await;
        self.poll().await
    }

    async fn poll_to_end(&self) -> Result<(), CallError> {
        while !self.watch.status().is_terminal() {
            self.poll_later().await?;
        }
        Ok(())
    }

    /// Waits for the poll interval, or for a notification about the task.
    async fn pause(&self) {
        let interval = self.watch.last.lock().poll_interval_ms.unwrap_or(DEFAULT_POLL_MS);
        let rest = interval.clamp(MIN_POLL_MS, MAX_POLL_MS) - MIN_POLL_MS;
        let mut events = self.poller.shared.incoming.events.subscribe();
        let changed = events.find(|event| match event {
            Event::TaskUpdated(task) if task.task_id == self.watch.id => Some(()),
            _ => None,
        });
        // Minimum interval between polls, regardless of the number of notifications.
        tokio::time::sleep(millis(MIN_POLL_MS)).await;
        tokio::select! {
            () = tokio::time::sleep(millis(rest)) => {}
            Some(()) = changed => {}
        }
    }

    /// Responds to new input requests of the task, unless it ends meanwhile.
    async fn give_input(&self, task: Task, input: &mut AnsweredInput) -> Result<(), CallError> {
        let mut requests = task.input_requests.unwrap_or_default();
        // The server may still list requests that already have a response.
        requests.retain(|key, _| !input.keys.contains(key));
        if requests.is_empty() {
            return self.poll_later().await;
        }
        let max = self.poller.shared.settings.max_input_rounds;
        if input.rounds == max {
            let kind = CallErrorKind::Input(InputCause::TooManyRounds(max));
            return Err(CallError::answered(self.call.target(), kind));
        }
        tokio::select! {
            biased;
            updated = self.update(requests, input) => updated,
            ended = self.poll_to_end() => ended,
        }
    }

    async fn update(&self, requests: InputRequests, input: &mut AnsweredInput) -> Result<(), CallError> {
        let keys: Vec<_> = requests.keys().cloned().collect();
        let responses = respond(&self.poller.shared.incoming, self.call, requests).await?;
        input.rounds += 1;
        let params = UpdateTaskParams::new(&self.watch.id, responses);
        let call = CallRequest::typed::<UpdateTask>(params, decode::complete::<EmptyResult>);
        self.poller.inner.call(&call.with_options(self.options.clone())).await?;
        // Recorded only after success, so that the next poll sends lost responses again.
        input.keys.extend(keys);
        Ok(())
    }

    /// Reads the result of a task of 2025-11-25. Waits until the task has ended.
    async fn fetch_result(&self, timeout: Timeout) -> Result<(), CallError> {
        let options = self.options.clone().with(|options| options.timeout = timeout);
        let call = CallRequest::typed::<GetCoreTaskResult>(TaskParams::new(&self.watch.id), decode::any);
        let call = call.with_options(options);
        let outcome = match self.poller.inner.call(&call).await {
            Ok(output) => {
                let raw = output.payload(&call)?.into_raw();
                Ok(raw.map_err(|error| call.invalid(DecodeError::custom(error)))?)
            }
            Err(error) => Err(error.error_response().cloned().ok_or(error)?),
        };
        if let Err(error) = &outcome
            && !self.watch.status().is_terminal()
        {
            // The task may have been cancelled, or its result is not available yet.
            self.poll().await?;
            match self.watch.status() {
                TaskStatus::Cancelled => return Ok(()),
                status if status.is_terminal() => {}
                _ => return Err(CallError::server(self.call.target(), error.clone())),
            }
        }
        let mut last = self.watch.last.lock();
        let mut core = core_task(&last);
        core.status = if outcome.is_ok() { TaskStatus::Completed } else { TaskStatus::Failed };
        *last = task_of_core(core, Some(outcome));
        Ok(())
    }
}

fn millis(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or_default())
}

/// Returns the request for the state of a task.
pub(crate) fn get_task(id: &str) -> CallRequest {
    CallRequest::typed::<GetTask>(TaskParams::new(id), decode::task)
}

/// Converts the error of a request about a task that the server does not know.
pub(crate) fn not_found(error: CallError, id: &str) -> CallError {
    if !is_refused(&error) {
        return error;
    }
    let kind = CallErrorKind::Task(TaskCause::NotFound { id: id.to_owned() });
    CallError::new(error.target(), kind, Delivery::Unknown)
}

fn is_refused(error: &CallError) -> bool {
    error.error_response().is_some_and(|response| response.code == ErrorCode::INVALID_PARAMS)
}

#[cfg(test)]
mod tests {
    use turms_proto::RawJson;
    use turms_proto::types::{CallTool, CallToolParams};

    use super::*;
    use crate::connection::tests::shared;
    use crate::layer::scripted::Scripted;

    fn call() -> CallRequest {
        CallRequest::multi_round::<CallTool, _>(CallToolParams::new("work"))
    }

    fn task(json: &str) -> Task {
        RawJson::parse(json.to_owned()).unwrap().decode().unwrap()
    }

    const STAMPS: &str = r#""createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null"#;

    fn created(_: &CallRequest) -> Result<CallOutput, CallError> {
        let created = format!(r#"{{"taskId":"t","status":"working","resultType":"task",{STAMPS}}}"#);
        Ok(CallOutput::new(Outcome::Task(Box::new(task(&created)))))
    }

    fn state(rest: &'static str) -> impl FnOnce(&CallRequest) -> Result<CallOutput, CallError> + Send + 'static {
        move |_| {
            let state = format!(r#"{{"taskId":"t",{rest},{STAMPS}}}"#);
            Ok(CallOutput::complete(Payload::new(task(&state))))
        }
    }

    async fn tasks(inner: Scripted) -> Tasks<Scripted> {
        Tasks::new(inner, shared(|builder| builder.enable_tasks()).await)
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_is_polled_to_its_end() {
        let completed = state(r#""status":"completed","result":{"content":[],"resultType":"complete"}"#);
        let inner = Scripted::default().then(created).then(state(r#""status":"working""#)).then(completed);
        let tasks = tasks(inner).await;
        let result: CallToolResult = tasks.call(&call()).await.unwrap().take(&call()).unwrap();
        assert!(result.content.is_empty());
        assert_eq!(tasks.0.inner.targets(), ["tools/call \"work\"", "tasks/get \"t\"", "tasks/get \"t\""]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_poll_of_a_task_may_have_run_and_names_the_call() {
        let unsent = |call: &CallRequest| Err(CallError::not_connected(call.target(), None));
        let tasks = tasks(Scripted::default().then(created).then(unsent)).await;
        let error = tasks.call(&call()).await.unwrap_err();
        assert_eq!((error.target(), error.delivery()), ("tools/call \"work\"", Delivery::Unknown));
    }

    #[tokio::test]
    async fn a_task_that_was_not_offered_is_an_error() {
        let tasks = Tasks::new(Scripted::default().then(created), shared(|builder| builder).await);
        let error = tasks.call(&call()).await.unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Task(TaskCause::Unexpected)), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_call_cancels_its_task() {
        let tasks = tasks(Scripted::default().then(created)).await;
        let call = call();
        let mut waiting = Box::pin(tasks.call(&call));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(waiting);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(tasks.0.inner.targets(), ["tools/call \"work\"", "tasks/cancel \"t\""]);
    }
}
