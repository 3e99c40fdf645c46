use serde_json::{Value, json};
use turms::proto::Ability;
use turms::proto::method::Method as _;
use turms::types::{CallTool, GetCoreTaskResult, GetTask, ListCoreTasks, Task, ToolResult};

use super::call;
use crate::args::TasksArgs;
use crate::error::{Done, Exit, Failure};
use crate::explain;
use crate::session::Session;
use crate::show::{self, Saver};

/// Lists the tasks, or looks after one.
pub(crate) async fn run(session: &Session, args: &TasksArgs) -> Done {
    let Some(id) = &args.id else { return list(session).await };
    let saver = Saver::new(args.output.as_deref(), &session.printer)?;
    let handle = session.call(session.client.task(id.as_str())).await?;
    let told = |error| explain::call(&error);
    if args.wait {
        let result = handle.wait().await.map_err(told)?;
        return call::print(session, id, &result, exactly(session), saver);
    }
    if args.cancel {
        handle.cancel().await.map_err(told)?;
        handle.refresh().await.map_err(told)?;
    }
    match handle.task() {
        Some(task) => print(session, &task, saver),
        None => Ok(()),
    }
}

/// A call that goes on as a task: its id is what there is to print.
pub(super) fn begun(session: &Session, task: &Task) -> Done {
    session.remember_task(&task.task_id);
    if session.ends_with_its_server() {
        session.printer.warn(
            "the server ends with this command, and the task with it; `call` without --task waits, and a shell or a server \
             at an address stays",
        );
    } else {
        let command = session.as_typed(&format!("tasks {} --wait", task.task_id));
        session.printer.note(format!("the call goes on as a task; `{command}` waits for it"));
    }
    match session.printer.is_json() {
        true => session.print_exactly::<CallTool>(task),
        false => session.printer.line(task.task_id.as_str()),
    }
}

/// All tasks where the server lists them, those of this session where it does not.
async fn list(session: &Session) -> Done {
    if !session.client.server_capabilities().is_some_and(|offered| show::has_tasks(&offered)) {
        return Err(Failure::new(Exit::Protocol, "the server makes no tasks").hint("`info` shows what it offers"));
    }
    let lists = session.client.protocol_version().is_some_and(|version| version.has(Ability::CoreTasks));
    let tasks = if lists { session.call(session.client.list_tasks()).await? } else { remembered(session).await? };
    if session.printer.is_json() {
        return session.print_list_exactly::<ListCoreTasks>("tasks", &json!({ "tasks": tasks }));
    }
    if tasks.is_empty() {
        session.printer.note("there are no tasks");
    }
    tasks.iter().try_for_each(|task| session.printer.line(show::task(task)))
}

async fn remembered(session: &Session) -> Done<Vec<Task>> {
    let known = session.remembered_tasks();
    if known.is_empty() {
        return Err(Failure::usage("in this revision a server does not list tasks")
            .hint("name one by its id; `call --task` prints the id of the task that it begins"));
    }
    let mut tasks = Vec::new();
    for id in known {
        tasks.extend(session.call(session.client.task(id)).await?.task());
    }
    Ok(tasks)
}

/// What came of a task as the server sent it: by itself, or with the task.
pub(super) fn exactly(session: &Session) -> Option<String> {
    let record = session.record();
    record.last(GetCoreTaskResult::NAME).or_else(|| {
        let task: Value = serde_json::from_str(&record.last(GetTask::NAME)?).ok()?;
        task.get("result").map(Value::to_string)
    })
}

/// How a task stands, and what came of it if that is known.
fn print(session: &Session, task: &Task, saver: Saver) -> Done {
    if session.printer.is_json() {
        return session.print_exactly::<GetTask>(task);
    }
    session.printer.line(show::task(task))?;
    match task.result.as_ref().map(|result| result.decode::<ToolResult>()) {
        Some(Ok(result)) => call::print(session, &task.task_id, &result, None, saver),
        _ => Ok(()),
    }
}
