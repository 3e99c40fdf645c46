//! Tasks: what comes of a call that the server goes on with after it has answered.
//!
//! In the extension of 2026-07-28 `tasks/get` tells everything, and questions stand in it. In 2025-11-25 it only tells how the
//! task stands: `tasks/result` gives what came of it, and while that is open the server asks its questions as it asks any.

use std::collections::HashSet;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use turms_core::Payload;
use turms_proto::method::Method as _;
use turms_proto::revision::{core_task, task_of_core};
use turms_proto::types::{
    CallTool, CallToolParams, CancelTask, ClientCapabilities, ClientCapability, EmptyResult, GetCoreTaskResult,
    GetTask, InputRequests, Meta, Outcome, ResultType, TASKS_EXTENSION, Task, TaskParams, TaskRequest, TaskStatus,
    TaskSupport, ToolResult, UpdateTask, UpdateTaskParams, key,
};
use turms_proto::{Ability, DecodeError, ErrorCode, Object, RawJson};

use super::{Live, Single};
use crate::call::error::{CallError, CallErrorKind, DecodeCause, Delivery, InputCause, TaskCause, UnsupportedCause};
use crate::event::Event;
use crate::job::{Job, Performed, decode_any, decode_cancelled, decode_task, decode_whole};
use crate::options::{CallOptions, Timeout};
use crate::task::Keeper;

/// How long to wait before asking again, where the server does not say.
const USUAL_INTERVAL: i64 = 1000;

/// In milliseconds, whatever the server says.
const SHORTEST_INTERVAL: i64 = 50;
const LONGEST_INTERVAL: i64 = 60_000;

impl Single {
    /// What comes of a call, after its task if it became one.
    pub(super) async fn follow(&self, job: &Job, mut performed: Performed) -> Result<Performed, CallError> {
        if job.options.task.wanted {
            performed.keeper = self.me.upgrade().map(Keeper::new);
            return Ok(performed);
        }
        let Some(task) = performed.payload.get_mut::<Task>() else { return Ok(performed) };
        let running = Running::new(task.clone());
        let mut left = Left { single: self, running: Some(&running) };
        let subject = job.subject();
        // Boxed, so that calls that are no tasks do not carry room for it.
        let outcome = Box::pin(self.outcome(&running, &subject, &job.options)).await;
        if matches!(&outcome, Err(error) if matches!(error.kind(), CallErrorKind::Task(TaskCause::NotFound { .. }))) {
            left.running = None;
        }
        drop(left);
        performed.payload = Payload::new(outcome?);
        Ok(performed)
    }

    /// Waits until a task is over, for somebody who sees that and can give it up.
    pub(crate) async fn wait_for(
        &self,
        running: &Running,
        subject: &str,
        options: &CallOptions,
    ) -> Result<ToolResult, CallError> {
        let outcome = self.outcome(running, subject, options);
        self.pending.track(subject.to_owned(), options.cancel.clone(), outcome).await
    }

    async fn outcome(&self, running: &Running, subject: &str, options: &CallOptions) -> Result<ToolResult, CallError> {
        let options = CallOptions::within(options.timeout);
        let outcome = Wait { single: self, running, subject, options }.end().await;
        // Whatever happens to what is asked about a task, the call itself was sent.
        outcome.map_err(|error| error.begun().about(subject))
    }

    /// Asks how a task stands.
    pub(crate) async fn look_up(&self, running: &Running, options: &CallOptions) -> Result<Task, CallError> {
        let job = get_task(&running.id, options.clone());
        let performed = self.attempt(&job).await.map_err(|error| gone(error, &running.id))?;
        let task: Task = taken(&job, performed.payload)?;
        running.see(task.clone());
        Ok(task)
    }

    /// Tells the server that nobody wants a task any more.
    pub(crate) async fn cancel_task(&self, running: &Running, options: CallOptions) -> Result<(), CallError> {
        let params = TaskParams::new(&running.id);
        let job = Job::about_task::<CancelTask>(params, &running.id, options, decode_cancelled);
        let live = self.live(&job, self.patience(&job.options)).await?;
        let declared = || live.server()?.capabilities.tasks.as_ref()?.cancel.as_ref();
        let core = live.version().has(Ability::CoreTasks);
        if core && declared().is_none() {
            return Err(CallError::not_sent(
                job.subject(),
                CallErrorKind::Unsupported(UnsupportedCause::NotOffered(CancelTask::NAME.to_owned())),
            ));
        }
        let mut performed = match self.attempt(&job).await {
            // There, one that is over is refused as one that is not known.
            Err(error) if core && is_refused(&error) => {
                let task = self.look_up(running, &job.options).await?;
                return if task.status.is_terminal() { Ok(()) } else { Err(error) };
            }
            performed => performed.map_err(|error| gone(error, &running.id))?,
        };
        if let Some(task) = performed.payload.get_mut::<Task>() {
            running.see(task.clone());
        }
        Ok(())
    }

    /// Whether the server may make a task of a call.
    pub(super) fn offered_task(&self, job: &Job) -> bool {
        job.options.task.wanted || self.takes_tasks()
    }

    fn takes_tasks(&self) -> bool {
        self.settings.capabilities.supports(ClientCapability::Extension(TASKS_EXTENSION))
    }

    /// In 2025-11-25 it is the client that asks for a task, and only for tools that run as one.
    pub(super) fn ask_for_task(&self, live: &Live, job: &Job, params: &mut Payload) {
        if !live.version().has(Ability::CoreTasks) || &*job.method != CallTool::NAME {
            return;
        }
        let tasks = live.server().and_then(|server| server.capabilities.tasks.as_ref());
        if !tasks.is_some_and(|tasks| tasks.runs_tools()) {
            return;
        }
        let tasking = &job.options.task;
        let known = || self.ear.tools.get(job.name.as_deref()?)?.task_support().cloned();
        let asks = match tasking.support.clone().or_else(known) {
            Some(TaskSupport::Required) => self.offered_task(job),
            Some(TaskSupport::Optional) | None => tasking.wanted,
            Some(_) => false,
        };
        if let Some(params) = params.get_mut::<CallToolParams>().filter(|_| asks) {
            let mut request = TaskRequest::new();
            request.ttl = tasking.ttl.map(|ttl| i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX));
            params.task = Some(request);
        }
    }
}

/// A task, as it was last seen.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) id: String,
    seen: Mutex<Task>,
    /// Held by whoever waits: one asks and answers for all.
    asked: tokio::sync::Mutex<Asked>,
}

/// What a task has asked so far, and was answered.
#[derive(Debug, Default)]
struct Asked {
    answered: HashSet<String>,
    rounds: usize,
}

impl Running {
    pub(crate) fn new(task: Task) -> Self {
        Self { id: task.task_id.clone(), seen: Mutex::new(task), asked: tokio::sync::Mutex::default() }
    }

    pub(crate) fn task(&self) -> Task {
        self.seen.lock().clone()
    }

    pub(crate) fn status(&self) -> TaskStatus {
        self.seen.lock().status
    }

    /// Takes note of how the task stands now. One that is over stays as it was.
    pub(crate) fn see(&self, task: Task) {
        let mut seen = self.seen.lock();
        if !seen.status.is_terminal() || is_created(&seen) {
            *seen = task;
        }
    }
}

/// Whether a task is as the answer told that created it, which tells neither questions nor results.
fn is_created(task: &Task) -> bool {
    task.result_type == Some(ResultType::Task)
}

/// A task of a call. If it is not over when this is dropped, nobody waits for it any more, and the server is told.
struct Left<'a> {
    single: &'a Single,
    running: Option<&'a Running>,
}

impl Drop for Left<'_> {
    fn drop(&mut self) {
        let Some(running) = self.running.filter(|running| !running.status().is_terminal()) else { return };
        if let (Some(single), Ok(runtime)) = (self.single.me.upgrade(), tokio::runtime::Handle::try_current()) {
            let running = Running::new(running.task());
            runtime.spawn(async move {
                if let Err(error) = single.cancel_task(&running, CallOptions::default()).await {
                    tracing::debug!(target: "turms::client", %error, "a task is left that nobody waits for");
                }
            });
        }
    }
}

/// Somebody who waits for a task.
struct Wait<'a> {
    single: &'a Single,
    running: &'a Running,
    subject: &'a str,
    options: CallOptions,
}

impl Wait<'_> {
    async fn end(&self) -> Result<ToolResult, CallError> {
        let mut asked = self.running.asked.lock().await;
        loop {
            let task = self.running.task();
            if task.status == TaskStatus::Cancelled || task.result.is_some() || task.error.is_some() {
                return self.result_of(task);
            }
            let live = self.single.live(self.subject, self.single.patience(&self.options)).await?;
            let core = live.version().has(Ability::CoreTasks);
            drop(live);
            match task.status {
                TaskStatus::Working => self.ask_later().await?,
                TaskStatus::InputRequired if core => {
                    // It may take as long as the task does. Asking in between shows that the server is still there.
                    tokio::select! {
                        biased;
                        fetched = self.fetch(Timeout::Never) => fetched?,
                        over = self.until_over() => over?,
                    }
                }
                TaskStatus::InputRequired if is_created(&task) => self.ask().await?,
                TaskStatus::InputRequired => self.answer(task, &mut asked).await?,
                _ if core => self.fetch(self.options.timeout).await?,
                _ if is_created(&task) => self.ask().await?,
                _ => return self.result_of(task),
            }
        }
    }

    fn result_of(&self, task: Task) -> Result<ToolResult, CallError> {
        let invalid = |problem| CallError::answered(self.subject, CallErrorKind::Decode(DecodeCause::Invalid(problem)));
        if task.status == TaskStatus::Cancelled {
            let kind = CallErrorKind::Task(TaskCause::Cancelled { id: task.task_id, reason: task.status_message });
            return Err(CallError::answered(self.subject, kind));
        }
        match (task.result, task.error) {
            (Some(result), _) => match result.decode().map_err(|error| invalid(error.within("result")))? {
                Outcome::<ToolResult>::Complete(result) => Ok(result),
                _ => Err(invalid(DecodeError::custom("the result of a task is none of a tool"))),
            },
            (None, Some(error)) => Err(CallError::server(self.subject, error)),
            (None, None) => Err(invalid(DecodeError::custom("the task is over and has neither a result nor an error"))),
        }
    }

    /// Asks how the task stands. A server that is away is waited for as long as for any answer, if the client is supervised.
    async fn ask(&self) -> Result<(), CallError> {
        let begun = Instant::now();
        loop {
            let Err(error) = self.single.look_up(self.running, &self.options).await else { return Ok(()) };
            let away = error.is_disconnected() || matches!(error.kind(), CallErrorKind::CircuitOpen(_));
            let in_time = self.single.patience(&self.options).is_none_or(|patience| begun.elapsed() < patience);
            if !away || !in_time || !self.single.is_supervised() || self.single.is_closed() {
                return Err(error);
            }
            self.pause().await;
        }
    }

    async fn ask_later(&self) -> Result<(), CallError> {
        self.pause().await;
        self.ask().await
    }

    async fn until_over(&self) -> Result<(), CallError> {
        while !self.running.status().is_terminal() {
            self.ask_later().await?;
        }
        Ok(())
    }

    /// Waits until it is time to ask again: when the server says so, or when it has told of a change.
    async fn pause(&self) {
        let interval = self.running.seen.lock().poll_interval_ms.unwrap_or(USUAL_INTERVAL);
        let rest = interval.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL) - SHORTEST_INTERVAL;
        let mut events = self.single.ear.events.subscribe();
        let told = events.find(|event| match event {
            Event::TaskChanged(task) if task.task_id == self.running.id => Some(()),
            _ => None,
        });
        // However much it tells, it is not asked more often than this.
        tokio::time::sleep(millis(SHORTEST_INTERVAL)).await;
        tokio::select! {
            () = tokio::time::sleep(millis(rest)) => {}
            Some(()) = told => {}
        }
    }

    /// Answers what the task asks and was not answered before; if the task ends meanwhile, that is all the better.
    async fn answer(&self, task: Task, asked: &mut Asked) -> Result<(), CallError> {
        let mut questions = task.input_requests.unwrap_or_default();
        // What was answered may still be shown for a while.
        questions.retain(|key, _| !asked.answered.contains(key));
        if questions.is_empty() {
            return self.ask_later().await;
        }
        let most = self.single.settings.max_rounds;
        if asked.rounds == most {
            return Err(CallError::answered(self.subject, CallErrorKind::Input(InputCause::TooManyRounds(most))));
        }
        tokio::select! {
            biased;
            updated = self.update(questions, asked) => updated?,
            over = self.until_over() => over?,
        }
        Ok(())
    }

    async fn update(&self, questions: InputRequests, asked: &mut Asked) -> Result<(), CallError> {
        let keys: Vec<_> = questions.keys().cloned().collect();
        let responses = self.single.responses(self.subject, questions).await?;
        asked.rounds += 1;
        let params = UpdateTaskParams::new(&self.running.id, responses);
        let job =
            Job::about_task::<UpdateTask>(params, &self.running.id, self.options.clone(), decode_whole::<EmptyResult>);
        self.single.attempt(&job).await?;
        // Only now: what did not arrive is for whoever waits next.
        asked.answered.extend(keys);
        Ok(())
    }

    /// Fetches what came of a task of 2025-11-25, waiting for it if it is not over.
    async fn fetch(&self, timeout: Timeout) -> Result<(), CallError> {
        let options = self.options.clone().with(|it| it.timeout = timeout);
        let params = TaskParams::new(&self.running.id);
        let job = Job::about_task::<GetCoreTaskResult>(params, &self.running.id, options, decode_any);
        let outcome = match self.single.attempt(&job).await {
            Ok(performed) => Ok(taken_raw(&job, performed.payload)?),
            Err(error) => Err(error.error_response().cloned().ok_or(error)?),
        };
        if let Err(error) = &outcome
            && !self.running.status().is_terminal()
        {
            // It may be an error that there is nothing to fetch, because the task was given up, or that it cannot be fetched.
            self.ask().await?;
            match self.running.status() {
                TaskStatus::Cancelled => return Ok(()),
                status if status.is_terminal() => {}
                _ => return Err(CallError::server(self.subject, error.clone())),
            }
        }
        let mut seen = self.running.seen.lock();
        let mut core = core_task(&seen);
        core.status = if outcome.is_ok() { TaskStatus::Completed } else { TaskStatus::Failed };
        *seen = task_of_core(core, Some(outcome));
        Ok(())
    }
}

fn millis(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or_default())
}

/// A request for how a task stands.
pub(crate) fn get_task(id: &str, options: CallOptions) -> Job {
    Job::about_task::<GetTask>(TaskParams::new(id), id, options, decode_task)
}

/// What an error means that `tasks/get` or `tasks/cancel` was answered with.
pub(crate) fn gone(error: CallError, id: &str) -> CallError {
    if !is_refused(&error) {
        return error;
    }
    CallError::new(error.target(), CallErrorKind::Task(TaskCause::NotFound { id: id.to_owned() }), Delivery::Unknown)
}

fn is_refused(error: &CallError) -> bool {
    error.error_response().is_some_and(|answer| answer.code == ErrorCode::INVALID_PARAMS)
}

fn taken<T: serde::de::DeserializeOwned + 'static>(job: &Job, payload: Payload) -> Result<T, CallError> {
    payload
        .take()
        .map_err(|error| CallError::answered(job.subject(), CallErrorKind::Decode(DecodeCause::Invalid(error))))
}

fn taken_raw(job: &Job, payload: Payload) -> Result<RawJson, CallError> {
    let invalid = |error| {
        CallError::answered(job.subject(), CallErrorKind::Decode(DecodeCause::Invalid(DecodeError::custom(error))))
    };
    payload.into_raw().map_err(invalid)
}

/// Whether a method is one of the extension, which has to be declared with it.
pub(super) fn is_about_tasks(method: &str) -> bool {
    matches!(method, GetTask::NAME | UpdateTask::NAME | CancelTask::NAME)
}

/// Whether what a request says for itself declares the extension.
pub(crate) fn declares_tasks(meta: &Meta) -> bool {
    declared_by(meta).supports(ClientCapability::Extension(TASKS_EXTENSION))
}

/// Declares the extension in what a request says for itself.
pub(crate) fn declaring_tasks(meta: Meta) -> Meta {
    if declares_tasks(&meta) {
        return meta;
    }
    let declared = declared_by(&meta).with_extension(TASKS_EXTENSION, Object::new());
    declaring(meta, &declared)
}

/// Does not declare it, whatever the client usually does.
pub(super) fn renouncing_tasks(meta: Meta) -> Meta {
    if !declares_tasks(&meta) {
        return meta;
    }
    let mut declared = declared_by(&meta);
    declared.extensions.iter_mut().for_each(|extensions| drop(extensions.remove(TASKS_EXTENSION)));
    declaring(meta, &declared)
}

fn declared_by(meta: &Meta) -> ClientCapabilities {
    meta.get_as(key::CLIENT_CAPABILITIES).and_then(Result::ok).unwrap_or_default()
}

fn declaring(mut meta: Meta, capabilities: &ClientCapabilities) -> Meta {
    // They are made of JSON.
    let _ = meta.insert(key::CLIENT_CAPABILITIES, capabilities);
    meta
}
