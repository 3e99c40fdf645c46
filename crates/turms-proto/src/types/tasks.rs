//! Work that outlasts its request: the extension of 2026-07-28, and the experimental core tasks of 2025-11-25.

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
    /// How a task stands.
    closed TaskStatus {
        /// It runs.
        Working = "working",
        /// It waits for answers.
        InputRequired = "input_required",
        /// It has a result.
        Completed = "completed",
        /// It has an error.
        Failed = "failed",
        /// It was given up.
        Cancelled = "cancelled",
    }
}

impl TaskStatus {
    /// Whether the task is over; then its status never changes again.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// A task of the extension: as `tools/call` creates it, and as `tasks/get` and `notifications/tasks` tell of it.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct Task {
    /// Its id, not to be guessed.
    pub task_id: String,
    /// How it stands.
    pub status: TaskStatus,
    /// When it began, in ISO 8601.
    pub created_at: String,
    /// When it last changed, in ISO 8601.
    pub last_updated_at: String,
    /// For how many milliseconds from its beginning it is kept; `None` for ever.
    #[object(required)]
    pub ttl_ms: Option<i64>,
    /// More on how it stands, for people.
    pub status_message: Option<String>,
    /// How many milliseconds to wait before asking again.
    pub poll_interval_ms: Option<i64>,
    /// What it waits for.
    pub input_requests: Option<InputRequests>,
    /// Why it failed.
    pub error: Option<ErrorObject>,
    /// What kind of result this is.
    pub result_type: Option<ResultType>,
    /// Beside the subject.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// What came of it: the result that the request would have had.
    pub result: Option<RawJson>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Which task.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct TaskParams {
    /// Its id.
    pub task_id: String,
    /// Beside the subject.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Answers for a task.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct UpdateTaskParams {
    /// Its id.
    pub task_id: String,
    /// The answers.
    pub input_responses: InputResponses,
    /// Beside the subject.
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
    TaskChanged = "notifications/tasks", Task
);

/// The wish that a request be run as a task (2025-11-25).
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct TaskRequest {
    /// For how many milliseconds to keep it.
    pub ttl: Option<i64>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// The task that a message belongs to (2025-11-25).
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct RelatedTask {
    /// Its id.
    pub task_id: String,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A task of the core protocol of 2025-11-25.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct CoreTask {
    /// Its id, not to be guessed.
    pub task_id: String,
    /// How it stands.
    pub status: TaskStatus,
    /// When it began, in ISO 8601.
    pub created_at: String,
    /// When it last changed, in ISO 8601.
    pub last_updated_at: String,
    /// For how many milliseconds from its beginning it is kept; `None` for ever.
    #[object(required)]
    pub ttl: Option<i64>,
    /// More on how it stands, for people.
    pub status_message: Option<String>,
    /// How many milliseconds to wait before asking again.
    pub poll_interval: Option<i64>,
    /// Beside the subject.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// The answer to a request that is run as a task (2025-11-25).
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct CreateTaskResult {
    /// The task.
    pub task: CoreTask,
    /// Beside the subject.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A page of tasks (2025-11-25).
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ListTasksResult {
    /// The tasks.
    pub tasks: Vec<CoreTask>,
    /// Where the next page begins, if there is one.
    pub next_cursor: Option<Cursor>,
    /// Beside the subject.
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
    /// `tasks/result` of 2025-11-25: waits until the task is over and gives what the request would have had.
    GetCoreTaskResult = "tasks/result", TaskParams => Object
);

notification!(
    /// `notifications/tasks/status` of 2025-11-25.
    CoreTaskStatus = "notifications/tasks/status", CoreTask
);
