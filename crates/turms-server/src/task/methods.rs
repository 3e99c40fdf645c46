//! The `tasks/*` methods of both formats: the extension of 2026-07-28, and the core tasks of 2025-11-25. Functions for
//! the latter have `core` in their names.

use std::sync::Arc;

use tokio::task::JoinSet;
use turms_core::store::{StoreError, TaskAnswer, TaskRecord};
use turms_core::{CallResult, Payload, Peer, PeerError, ServiceError};
use turms_proto::method::Method as _;
use turms_proto::revision::{core_task, core_task_result};
use turms_proto::session::RequestOptions;
use turms_proto::types::{
    CancelTask, CoreTask, Cursor, EmptyResult, GetCoreTaskResult, GetTask, InputRequest, ListCoreTasks,
    ListTasksResult, Meta, PaginatedParams, ResultType, TaskParams, TaskStatus, UpdateTask, UpdateTaskParams,
};
use turms_proto::{Ability, ErrorObject, Object, RawJson};

use super::run::resolve_request;
use super::{
    TaskManager, creator, edit_record, end_record, is_owned, require_tasks_extension, task_store_error, unknown_task,
    with_related_task,
};
use crate::context::{ASK_TIMEOUT, Context};

/// Number of tasks per page of `tasks/list`.
const TASK_PAGE_SIZE: usize = 100;

impl TaskManager {
    /// Handles a `tasks/*` method. Returns `None` for other methods, and for methods that the caller's revision does
    /// not have.
    pub(crate) async fn handle(
        self: &Arc<Self>,
        method: &str,
        params: &mut Payload,
        context: &Context,
        server: Option<Meta>,
    ) -> Option<CallResult> {
        let version = context.protocol_version();
        let mut params = || std::mem::take(params);
        Some(if version.has(Ability::TasksExtension) {
            match method {
                GetTask::NAME => self.get(params(), context, server).await,
                UpdateTask::NAME => self.update(params(), context, server).await,
                CancelTask::NAME => self.cancel(params(), context, server).await,
                _ => return None,
            }
        } else if version.has(Ability::CoreTasks) {
            match method {
                GetTask::NAME => self.get_core(params(), context).await,
                CancelTask::NAME => self.cancel_core(params(), context).await,
                GetCoreTaskResult::NAME => self.core_result(params(), context).await,
                ListCoreTasks::NAME => self.list_core(params(), context).await,
                _ => return None,
            }
        } else {
            return None;
        })
    }

    async fn get(&self, params: Payload, context: &Context, server: Option<Meta>) -> CallResult {
        require_tasks_extension(context)?;
        let params: TaskParams = params.take()?;
        let record = self.owned(&params.task_id, context).await?;
        let mut task = record.task.clone().result_type(ResultType::Complete);
        task.meta = server;
        Ok(Payload::new(task))
    }

    async fn update(&self, params: Payload, context: &Context, server: Option<Meta>) -> CallResult {
        require_tasks_extension(context)?;
        let params: UpdateTaskParams = params.take()?;
        self.owned(&params.task_id, context).await?;
        let given: Vec<(String, RawJson)> =
            params.input_responses.iter().map(|(key, answer)| (key.into_owned(), answer)).collect();
        let store_responses = |record: &mut TaskRecord| {
            // Responses without a pending input request are ignored.
            let taken = given
                .iter()
                .filter(|(key, answer)| resolve_request(record, key, Some(TaskAnswer::Given(answer.clone()))));
            taken.count() > 0
        };
        let found = edit_record(&**self.store(), &params.task_id, store_responses).await;
        found.map_err(|error| task_store_error(&error))?.ok_or_else(|| unknown_task(&params.task_id))?;
        Ok(Payload::new(empty_result(server)))
    }

    async fn cancel(&self, params: Payload, context: &Context, server: Option<Meta>) -> CallResult {
        require_tasks_extension(context)?;
        let params: TaskParams = params.take()?;
        self.cancel_record(&params.task_id, context).await?;
        Ok(Payload::new(empty_result(server)))
    }

    /// Cancels a task unless it has ended. Returns the task and its previous status.
    async fn cancel_record(&self, id: &str, context: &Context) -> Result<(TaskRecord, TaskStatus), ErrorObject> {
        let before = self.owned(id, context).await?.task.status;
        let ended = edit_record(&**self.store(), id, |record| end_record(record, TaskStatus::Cancelled)).await;
        let record = ended.map_err(|error| task_store_error(&error))?.ok_or_else(|| unknown_task(id))?;
        Ok((record, before))
    }

    async fn get_core(&self, params: Payload, context: &Context) -> CallResult {
        let params: TaskParams = params.take()?;
        Ok(core_payload(&*self.owned(&params.task_id, context).await?))
    }

    async fn cancel_core(&self, params: Payload, context: &Context) -> CallResult {
        let params: TaskParams = params.take()?;
        let (record, before) = self.cancel_record(&params.task_id, context).await?;
        // The task may have ended by itself in the meantime.
        let status = record.task.status;
        if before.is_terminal() || status != TaskStatus::Cancelled {
            let message = format!("the task cannot be cancelled any more: it is {}", status.as_str());
            return Err(ErrorObject::invalid_params(message).into());
        }
        Ok(core_payload(&record))
    }

    async fn list_core(&self, params: Payload, context: &Context) -> CallResult {
        let creator = creator(context).ok_or_else(|| ServiceError::method_not_found(ListCoreTasks::NAME))?;
        let params: PaginatedParams = params.take()?;
        let after = params.cursor.as_ref().map(Cursor::as_str);
        let records = self.store().list(&creator, after, TASK_PAGE_SIZE).await.map_err(|error| match error {
            StoreError::NotFound => ErrorObject::invalid_params("the cursor was not issued by this server"),
            error => task_store_error(&error),
        })?;
        let visible = records.iter().filter(|record| is_owned(record, context));
        let tasks: Vec<CoreTask> = visible.map(|record| core_task(&record.task)).collect();
        let next = records.last().filter(|_| records.len() == TASK_PAGE_SIZE);
        let mut result = ListTasksResult::new(tasks);
        result.next_cursor = next.map(|record| Cursor::from(record.task.task_id.clone()));
        Ok(Payload::new(result))
    }

    /// Handles `tasks/result`, which waits until the task ends.
    async fn core_result(self: &Arc<Self>, params: Payload, context: &Context) -> CallResult {
        let params: TaskParams = params.take()?;
        let record = self.owned(&params.task_id, context).await?;
        self.clone().wait_and_send_requests(record, context).await
    }

    /// Waits until a task ends. Sends the task's input requests to the waiting client in the meantime.
    async fn wait_and_send_requests(self: Arc<Self>, mut record: Arc<TaskRecord>, context: &Context) -> CallResult {
        let id = record.task.task_id.clone();
        let mut asking: JoinSet<Result<(), ErrorObject>> = JoinSet::new();
        let mut claims = self.claimed_requests.subscribe();
        while !record.task.status.is_terminal() {
            for (key, _) in record.task.input_requests.iter().flatten() {
                if let Some(claim) = InputRequestClaim::of(&self, &id, key) {
                    let peer = context.peer().clone();
                    asking.spawn(async move { claim.ask(peer).await });
                }
            }
            let later = tokio::select! {
                later = self.store().changed(&id, record.revision) => later,
                Some(asked) = asking.join_next() => {
                    asked.unwrap_or_else(|_| Err(ErrorObject::internal("an input request of the task failed")))?;
                    self.store().load(&id).await
                }
                // Another request may have released its claim without a response.
                _ = claims.changed() => continue,
            };
            record = later.map_err(|error| task_store_error(&error))?.ok_or_else(|| unknown_task(&id))?;
        }
        result_of(&record)
    }
}

/// The exclusive right to send one input request of a task to the client. Several `tasks/result` requests may wait for
/// the same task, and only one of them may send it.
struct InputRequestClaim {
    manager: Arc<TaskManager>,
    id: String,
    key: String,
}

impl InputRequestClaim {
    fn of(manager: &Arc<TaskManager>, id: &str, key: &str) -> Option<Self> {
        let mut claimed = false;
        manager.claimed_requests.send_if_modified(|claims| {
            claimed = claims.insert((id.to_owned(), key.to_owned()));
            // Only the release of a claim notifies the other requests.
            false
        });
        claimed.then(|| Self { manager: manager.clone(), id: id.to_owned(), key: key.to_owned() })
    }

    async fn ask(self, peer: Peer) -> Result<(), ErrorObject> {
        // The previous owner of the claim may have received a response. It stores the response before it releases the
        // claim.
        let found = self.manager.store().load(&self.id).await.map_err(|error| task_store_error(&error))?;
        let question = found.and_then(|record| record.task.input_requests.as_ref()?.get(&self.key).cloned());
        let Some(question) = question else { return Ok(()) };
        let answer = match ask(&peer, question, &self.id).await {
            Ok(answer) => TaskAnswer::Given(answer),
            Err(PeerError::ErrorResponse(error)) => TaskAnswer::Refused(*error),
            Err(error) if error.is_timeout() => TaskAnswer::Refused(ErrorObject::internal(error.to_string())),
            // Another connection may send it later.
            Err(error) => return Err(ErrorObject::internal(format!("the input request could not be sent: {error}"))),
        };
        let take = |record: &mut TaskRecord| resolve_request(record, &self.key, Some(answer.clone()));
        edit_record(&**self.manager.store(), &self.id, take).await.map_err(|error| task_store_error(&error))?;
        Ok(())
    }
}

impl Drop for InputRequestClaim {
    fn drop(&mut self) {
        let claim = (std::mem::take(&mut self.id), std::mem::take(&mut self.key));
        self.manager.claimed_requests.send_if_modified(|claims| claims.remove(&claim));
    }
}

/// Sends an input request of a task as a request from server to client.
async fn ask(peer: &Peer, question: InputRequest, task: &str) -> Result<RawJson, PeerError> {
    let method = question.method();
    let params = match &question {
        InputRequest::Elicit(params) => Object::encode(params)?,
        InputRequest::Sample(params) => Object::encode(params)?,
        InputRequest::Roots(params) => Object::encode(params)?,
        _ => Object::new(),
    };
    let params = with_related_task(params, task).into();
    peer.request_raw(method, Some(params), RequestOptions::default().timeout(ASK_TIMEOUT)).await
}

/// Returns the response to `tasks/result` for a task that has ended.
fn result_of(record: &TaskRecord) -> CallResult {
    match core_task_result(&record.task) {
        Some(Ok(result)) => {
            let result = result.as_object().unwrap_or_default();
            Ok(Payload::lowered(with_related_task(result, &record.task.task_id).into()))
        }
        Some(Err(error)) => Err(error.into()),
        None => {
            Err(ErrorObject::internal(format!("the task has no result: it is {}", record.task.status.as_str())).into())
        }
    }
}

/// Returns the task in the format of 2025-11-25.
fn core_payload(record: &TaskRecord) -> Payload {
    Payload::new(core_task(&record.task))
}

fn empty_result(server: Option<Meta>) -> EmptyResult {
    let mut result = EmptyResult::new();
    result.meta = server;
    result
}
