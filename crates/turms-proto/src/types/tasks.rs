//! Tasks: the extension of 2026-07-28, and the experimental tasks of 2025-11-25.

use turms_proto_derive::ProtocolObject;

use crate::ErrorObject;
use crate::json::Object;
use crate::json::RawJson;
use crate::method::{method, notification};
use crate::object::string_enum;
use crate::types::{Cursor, EmptyResult, InputRequests, InputResponses, Meta, PaginatedParams, ResultType};

/// The id of the tasks extension (since 2026-07-28). It has no settings.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

string_enum! {
    /// Status of a task.
    closed TaskStatus {
        /// The task is running.
        Working = "working",
        /// The task waits for input.
        InputRequired = "input_required",
        /// The task has a result.
        Completed = "completed",
        /// The task has an error.
        Failed = "failed",
        /// The task was cancelled.
        Cancelled = "cancelled",
    }
}

impl TaskStatus {
    /// Returns `true` if the task has ended. A terminal status never changes.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// A task of the extension, in `tools/call` results, `tasks/get` results and `notifications/tasks`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct Task {
    /// The task id. It must not be guessable.
    pub task_id: String,
    /// The current status.
    pub status: TaskStatus,
    /// Creation time, in ISO 8601.
    pub created_at: String,
    /// Time of the last change, in ISO 8601.
    pub last_updated_at: String,
    /// Retention time from creation, in milliseconds; `None` for unlimited.
    #[object(required)]
    pub ttl_ms: Option<i64>,
    /// Human-readable details of the status.
    pub status_message: Option<String>,
    /// Suggested time between polls, in milliseconds.
    pub poll_interval_ms: Option<i64>,
    /// Input requests that the task waits for.
    pub input_requests: Option<InputRequests>,
    /// Error of a failed task.
    pub error: Option<ErrorObject>,
    /// Type of the result; absent before 2026-07-28, which means [`ResultType::Complete`].
    pub result_type: Option<ResultType>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Result of a completed task: the result of the original request.
    pub result: Option<RawJson>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Parameters of `tasks/get` and `tasks/cancel`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct TaskParams {
    /// The task id.
    pub task_id: String,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Parameters of `tasks/update`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct UpdateTaskParams {
    /// The task id.
    pub task_id: String,
    /// Responses to the input requests of the task.
    pub input_responses: InputResponses,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

method!(
    /// `tasks/get` of the extension.
    GetTask = "tasks/get", TaskParams => Task
);

method!(
    /// `tasks/update` of the extension.
    UpdateTask = "tasks/update", UpdateTaskParams => EmptyResult
);

method!(
    /// `tasks/cancel` of the extension.
    CancelTask = "tasks/cancel", TaskParams => EmptyResult
);

notification!(
    /// `notifications/tasks` of the extension.
    TaskNotification = "notifications/tasks", Task
);

/// Request to run as a task (2025-11-25).
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct TaskRequest {
    /// Requested retention time, in milliseconds.
    pub ttl: Option<i64>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Reference to the task that a message belongs to (2025-11-25).
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct RelatedTask {
    /// The task id.
    pub task_id: String,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A task of 2025-11-25.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct CoreTask {
    /// The task id. It must not be guessable.
    pub task_id: String,
    /// The current status.
    pub status: TaskStatus,
    /// Creation time, in ISO 8601.
    pub created_at: String,
    /// Time of the last change, in ISO 8601.
    pub last_updated_at: String,
    /// Retention time from creation, in milliseconds; `None` for unlimited.
    #[object(required)]
    pub ttl: Option<i64>,
    /// Human-readable details of the status.
    pub status_message: Option<String>,
    /// Suggested time between polls, in milliseconds.
    pub poll_interval: Option<i64>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Result of a request that runs as a task (2025-11-25).
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct CreateTaskResult {
    /// The task.
    pub task: CoreTask,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Result of `tasks/list`: a page of tasks (2025-11-25).
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ListTasksResult {
    /// The tasks.
    pub tasks: Vec<CoreTask>,
    /// Cursor of the next page; `None` on the last page.
    pub next_cursor: Option<Cursor>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

method!(
    /// `tasks/get` of 2025-11-25.
    GetCoreTask = "tasks/get", TaskParams => CoreTask
);

method!(
    /// `tasks/cancel` of 2025-11-25.
    CancelCoreTask = "tasks/cancel", TaskParams => CoreTask
);

method!(
    /// `tasks/list` of 2025-11-25.
    ListCoreTasks = "tasks/list", PaginatedParams => ListTasksResult
);

method!(
    /// `tasks/result` of 2025-11-25: waits until the task ends and returns the result of the original request.
    GetCoreTaskResult = "tasks/result", TaskParams => Object
);

notification!(
    /// `notifications/tasks/status` of 2025-11-25.
    CoreTaskStatusNotification = "notifications/tasks/status", CoreTask
);
