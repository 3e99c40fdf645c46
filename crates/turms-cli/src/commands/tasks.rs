use std::path::Path;

use serde_json::{Value, json};
use turms::types::{Ability, CallTool, CallToolResult, GetCoreTaskResult, GetTask, ListCoreTasks, Method as _, Task};

use super::call;
use crate::args::TasksArgs;
use crate::error::{CliError, CliResult, ExitStatus};
use crate::session::{CliSession, quote};
use crate::show::{self, ContentSaver};

/// Lists the tasks, or shows, waits for or cancels one.
pub(crate) async fn run(session: &CliSession, args: &TasksArgs) -> CliResult {
    let Some(id) = &args.id else { return list(session).await };
    let saver = ContentSaver::new(args.output.as_deref(), &session.printer)?;
    let handle = session.call(session.client.task(id.as_str())).await?;
    let failed = |error| session.call_error(&error);
    if args.wait {
        let result = handle.wait().await.map_err(failed)?;
        return call::print(session, id, &result, recorded_result(session), saver);
    }
    if args.cancel {
        handle.cancel().await.map_err(failed)?;
        handle.refresh().await.map_err(failed)?;
    }
    match handle.task() {
        Some(task) => print(session, &task, saver),
        None => Ok(()),
    }
}

/// Prints the id of a task that a call started.
pub(super) fn print_started(session: &CliSession, task: &Task, output: Option<&Path>) -> CliResult {
    session.add_task(&task.task_id);
    if session.server_exits_with_command() {
        session.printer.warn(
            "the server exits with this command, and the task with it; omit --task to wait, or use the shell or a server \
             at a URL",
        );
    } else {
        let output = output.map(|path| format!(" --output {}", quote(&path.display().to_string())));
        let command = session.command_line(&format!("tasks {} --wait{}", task.task_id, output.unwrap_or_default()));
        session.printer.note(format!("the call continues as a task; `{command}` waits for it"));
    }
    match session.printer.is_json() {
        true => session.print_result::<CallTool>(task),
        false => session.printer.line(task.task_id.as_str()),
    }
}

/// Lists the tasks of the server, or those of this session if the server does not list tasks.
async fn list(session: &CliSession) -> CliResult {
    if !session.client.server_capabilities().is_some_and(|offered| show::has_tasks(&offered)) {
        return Err(CliError::new(ExitStatus::Protocol, "the server does not support tasks")
            .hint("`info` shows its capabilities"));
    }
    let is_listed = session.client.protocol_version().is_some_and(|version| version.has(Ability::CoreTasks));
    let tasks =
        if is_listed { session.call(session.client.list_tasks()).await? } else { session_tasks(session).await? };
    if session.printer.is_json() {
        return session.print_list_result::<ListCoreTasks>("tasks", &json!({ "tasks": tasks }));
    }
    if tasks.is_empty() {
        session.printer.note("there are no tasks");
    }
    tasks.iter().try_for_each(|task| session.printer.line(show::task(task)))
}

async fn session_tasks(session: &CliSession) -> CliResult<Vec<Task>> {
    let ids = session.started_tasks();
    if ids.is_empty() {
        return Err(CliError::usage("in this protocol revision, a server does not list tasks")
            .hint("give the id of a task; `call --task` prints it"));
    }
    let mut tasks = Vec::new();
    for id in ids {
        tasks.extend(session.call(session.client.task(id)).await?.task());
    }
    Ok(tasks)
}

/// Returns the recorded result of a task: sent separately, or as part of the task.
pub(super) fn recorded_result(session: &CliSession) -> Option<String> {
    let record = session.record();
    record.last(GetCoreTaskResult::NAME).or_else(|| {
        let task: Value = serde_json::from_str(&record.last(GetTask::NAME)?).ok()?;
        task.get("result").map(Value::to_string)
    })
}

/// Prints the status of a task, and its result if it has one.
fn print(session: &CliSession, task: &Task, saver: ContentSaver) -> CliResult {
    if session.printer.is_json() {
        return session.print_result::<GetTask>(task);
    }
    session.printer.line(show::task(task))?;
    match task.result.as_ref().map(|result| result.decode::<CallToolResult>()) {
        Some(Ok(result)) => call::print(session, &task.task_id, &result, None, saver),
        _ => Ok(()),
    }
}
