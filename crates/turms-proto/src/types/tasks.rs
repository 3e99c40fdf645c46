//! Work that outlasts its request: the extension of 2026-07-28, and the experimental core tasks of 2025-11-25.

use crate::ErrorObject;
use crate::method::{method, notification};
use crate::object::{object, string_enum};
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

object! {
    /// A task of the extension: as `tools/call` creates it, and as `tasks/get` and `notifications/tasks` tell of it.
    pub struct Task {
        required {
            /// Its id, not to be guessed.
            task_id: String => "taskId",
            /// How it stands.
            status: TaskStatus => "status",
            /// When it began, in ISO 8601.
            created_at: String => "createdAt",
            /// When it last changed, in ISO 8601.
            last_updated_at: String => "lastUpdatedAt",
            /// For how many milliseconds from its beginning it is kept; `None` for ever.
            ttl_ms: Option<i64> => "ttlMs",
        }
        optional {
            /// More on how it stands, for people.
            status_message: String => "statusMessage",
            /// How many milliseconds to wait before asking again.
            poll_interval_ms: i64 => "pollIntervalMs",
            /// What it waits for.
            input_requests: InputRequests => "inputRequests",
            /// Why it failed.
            error: ErrorObject => "error",
            /// What kind of result this is.
            result_type: ResultType => "resultType",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
        any {
            /// What came of it: the result that the request would have had.
            result => "result",
        }
    }
}

object! {
    /// Which task.
    pub struct TaskParams {
        required {
            /// Its id.
            task_id: String => "taskId",
        }
        optional {
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// Answers for a task.
    pub struct UpdateTaskParams {
        required {
            /// Its id.
            task_id: String => "taskId",
            /// The answers.
            input_responses: InputResponses => "inputResponses",
        }
        optional {
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
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

object! {
    /// The wish that a request be run as a task (2025-11-25).
    pub struct TaskRequest {
        optional {
            /// For how many milliseconds to keep it.
            ttl: i64 => "ttl",
        }
    }
}

object! {
    /// The task that a message belongs to (2025-11-25).
    pub struct RelatedTask {
        required {
            /// Its id.
            task_id: String => "taskId",
        }
    }
}

object! {
    /// A task of the core protocol of 2025-11-25.
    pub struct CoreTask {
        required {
            /// Its id, not to be guessed.
            task_id: String => "taskId",
            /// How it stands.
            status: TaskStatus => "status",
            /// When it began, in ISO 8601.
            created_at: String => "createdAt",
            /// When it last changed, in ISO 8601.
            last_updated_at: String => "lastUpdatedAt",
            /// For how many milliseconds from its beginning it is kept; `None` for ever.
            ttl: Option<i64> => "ttl",
        }
        optional {
            /// More on how it stands, for people.
            status_message: String => "statusMessage",
            /// How many milliseconds to wait before asking again.
            poll_interval: i64 => "pollInterval",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// The answer to a request that is run as a task (2025-11-25).
    pub struct CreateTaskResult {
        required {
            /// The task.
            task: CoreTask => "task",
        }
        optional {
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// A page of tasks (2025-11-25).
    pub struct ListTasksResult {
        required {
            /// The tasks.
            tasks: Vec<CoreTask> => "tasks",
        }
        optional {
            /// Where the next page begins, if there is one.
            next_cursor: Cursor => "nextCursor",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
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
    GetCoreTaskResult = "tasks/result", TaskParams => crate::Object
);

notification!(
    /// `notifications/tasks/status` of 2025-11-25.
    CoreTaskStatus = "notifications/tasks/status", CoreTask
);
