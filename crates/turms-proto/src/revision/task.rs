//! Translation of tasks between two formats: 2025-11-25 has them in the protocol itself ("core tasks", experimental),
//! 2026-07-28 as an extension.

use super::{Ability, ProtocolVersion, Translate, lower_result, raise_result};
use crate::json::RawJson;
use crate::jsonrpc::ErrorObject;
use crate::method::Method as _;
use crate::types::{CallTool, CoreTask, CreateTaskResult, Outcome, ResultType, Task, TaskStatus};

/// The only revision with core tasks.
const CORE: ProtocolVersion = ProtocolVersion::V2025_11_25;

impl<T: Translate> Translate for Outcome<T> {
    fn lower(&mut self, to: ProtocolVersion) {
        match self {
            Self::Complete(result) => result.lower(to),
            Self::InputRequired(round) => round.lower(to),
            Self::Task(task) if to.has(Ability::CoreTasks) => {
                let mut created = CreateTaskResult::new(core_task(task));
                created.meta = task.meta.take();
                created.lower(to);
                *self = Self::CoreTask(Box::new(created));
            }
            Self::Task(task) => task.lower(to),
            Self::CoreTask(created) => created.lower(to),
        }
    }

    fn raise(&mut self, from: ProtocolVersion) {
        match self {
            Self::Complete(result) => result.raise(from),
            Self::InputRequired(round) => round.raise(from),
            Self::Task(task) => task.raise(from),
            Self::CoreTask(created) => {
                let mut task = task_of_core(created.task.clone(), None).result_type(ResultType::Task);
                task.meta = created.meta.take();
                *self = Self::Task(Box::new(task));
            }
        }
    }
}

/// Converts a task to the format of 2025-11-25. There, a task is failed if its tool failed; in the extension, it is
/// completed.
#[must_use]
pub fn core_task(task: &Task) -> CoreTask {
    let status = match &task.result {
        Some(result) if task.status == TaskStatus::Completed && is_tool_error(result) => TaskStatus::Failed,
        _ => task.status,
    };
    let mut core =
        CoreTask::new(task.task_id.clone(), status, task.created_at.clone(), task.last_updated_at.clone(), task.ttl_ms);
    core.status_message.clone_from(&task.status_message);
    core.poll_interval = task.poll_interval_ms;
    core.extra = task.extra.clone();
    core
}

/// Returns the outcome that `tasks/result` of 2025-11-25 has for a finished task.
#[must_use]
pub fn core_task_result(task: &Task) -> Option<Result<RawJson, ErrorObject>> {
    match (&task.result, &task.error) {
        // If the result cannot be lowered, it is returned unchanged.
        (Some(result), _) => Some(Ok(lower_result(CallTool::NAME, result, CORE).unwrap_or_else(|_| result.clone()))),
        (None, Some(error)) => Some(Err(error.clone())),
        (None, None) => None,
    }
}

/// Converts a task of 2025-11-25, given the results of `tasks/get` and `tasks/result`, to the format of the extension.
#[must_use]
pub fn task_of_core(core: CoreTask, outcome: Option<Result<RawJson, ErrorObject>>) -> Task {
    let status = match &outcome {
        Some(Ok(result)) if core.status == TaskStatus::Failed && is_tool_error(result) => TaskStatus::Completed,
        _ => core.status,
    };
    let mut task = Task::new(core.task_id, status, core.created_at, core.last_updated_at, core.ttl);
    task.status_message = core.status_message;
    task.poll_interval_ms = core.poll_interval;
    task.extra = core.extra;
    match outcome {
        Some(Ok(result)) => task.result = Some(raise_result(CallTool::NAME, &result, CORE).unwrap_or(result)),
        Some(Err(error)) => task.error = Some(error),
        None => {}
    }
    task
}

fn is_tool_error(result: &RawJson) -> bool {
    result.member("isError").is_some_and(|flag| flag.as_str() == "true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_tool_fails_its_task_only_in_the_older_dialect() {
        let mut task = Task::new("t", TaskStatus::Completed, "a", "b", 5).poll_interval_ms(7).status_message("m");
        task.result = Some(RawJson::parse(r#"{"content":[],"isError":true,"resultType":"complete"}"#).unwrap());
        let (core, outcome) = (core_task(&task), core_task_result(&task));
        assert_eq!((core.status, core.ttl, core.poll_interval), (TaskStatus::Failed, Some(5), Some(7)));
        assert_eq!(outcome.as_ref().unwrap().as_ref().unwrap().as_str(), r#"{"content":[],"isError":true}"#);
        assert_eq!(task_of_core(core, outcome), task);
    }

    #[test]
    fn a_created_task_has_the_format_of_the_revision() {
        let task = Task::new("t", TaskStatus::Working, "a", "b", 5).result_type(ResultType::Task);
        let mut outcome = Outcome::<crate::types::CallToolResult>::Task(Box::new(task));
        let before = outcome.clone();
        outcome.lower(CORE);
        let text = serde_json::to_string(&outcome).unwrap();
        assert_eq!(text, r#"{"task":{"taskId":"t","status":"working","createdAt":"a","lastUpdatedAt":"b","ttl":5}}"#);
        outcome.raise(CORE);
        assert_eq!(outcome, before);
    }

    #[test]
    fn a_task_that_broke_failed_in_both() {
        let mut task = Task::new("t", TaskStatus::Failed, "a", "b", None);
        task.error = Some(ErrorObject::internal("broke"));
        let (core, outcome) = (core_task(&task), core_task_result(&task));
        assert_eq!((core.status, core.ttl), (TaskStatus::Failed, None));
        assert_eq!(task_of_core(core, outcome), task);
    }
}
