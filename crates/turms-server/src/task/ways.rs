use std::sync::Arc;

use turms_core::{BoxFuture, Payload, Ready, ResponseFuture, ServiceError};
use turms_proto::types::{Meta, Outcome, ResultType, TaskRequest, ToolResult};
use turms_proto::{Ability, ErrorObject};

use super::watch::{TaskChanges, TaskWatch};
use super::{Door, Keeper, Running, Until, declared, until_answered};
use crate::call_log::CallLog;
use crate::context::Context;
use crate::handler::{Call, Input};
use crate::input::Rounds;
use crate::router::{answer, say_who};
use crate::tool::Tool;

/// What is done with tasks. Only what makes tools that run as tasks names it, so that a program without any has none of it
/// in it.
pub(crate) static WAYS: TaskWays = TaskWays { answer: Keeper::answer, run, run_later, watch };

/// See [`WAYS`].
#[derive(Debug)]
#[expect(clippy::type_complexity, reason = "each says what it takes and gives, once")]
pub(crate) struct TaskWays {
    /// Answers a method that is about tasks.
    pub(crate) answer:
        fn(&Arc<Keeper>, &str, &mut Payload, &Context, Option<Meta>) -> Option<Result<ResponseFuture, ServiceError>>,
    /// Runs a tool as a task from its beginning.
    pub(crate) run: fn(
        &Arc<Keeper>,
        &Tool,
        Input,
        Option<&TaskRequest>,
        Context,
        Option<Meta>,
    ) -> Result<ResponseFuture, ServiceError>,
    /// Runs a tool as a call, and as a task from where its handler wants to.
    pub(crate) run_later: fn(Arc<Keeper>, Tool, Input, Context, Option<Arc<Rounds>>, Option<Meta>) -> ResponseFuture,
    /// Watches tasks.
    pub(crate) watch: for<'a> fn(&'a Arc<Keeper>, &'a [String], &'a Context) -> BoxFuture<'a, Watched>,
}

/// What changes of the tasks that are watched, and which these are; -32021 if the client did not say that it knows of tasks.
pub(crate) type Watched = Result<(Box<dyn TaskChanges>, Vec<String>), ErrorObject>;

fn watch<'a>(keeper: &'a Arc<Keeper>, ids: &'a [String], context: &'a Context) -> BoxFuture<'a, Watched> {
    Box::pin(async {
        if !ids.is_empty() {
            declared(context)?;
        }
        let (watch, watched) = TaskWatch::of(keeper, ids, context).await;
        Ok((Box::new(watch) as Box<dyn TaskChanges>, watched))
    })
}

fn run(
    tasks: &Arc<Keeper>,
    tool: &Tool,
    input: Input,
    wish: Option<&TaskRequest>,
    context: Context,
    server: Option<Meta>,
) -> Result<ResponseFuture, ServiceError> {
    let door = Arc::new(Door::default());
    let running = tasks.create(&context, tool.keeps_task_for(), wish)?;
    let running = Arc::new(running);
    door.open(running.clone());
    let context = context.with_door(door);
    let handler = tool.call(Call { context: context.clone(), input });
    // What is there already need not be waited for; only in 2025-11-25 whoever asks for a task has to get one.
    if handler.is_now() && context.version().has(Ability::TasksExtension) {
        running.rest();
        return Ok(handler.map(move |result| answer(result, server, |result: &mut ToolResult| &mut result.meta)));
    }
    let log = CallLog::of_tool(tool.name(), context.call());
    Ok(Ready::later(async move {
        running.keep().await?;
        Ok(begin(running, handler, server, log))
    }))
}

fn run_later(
    tasks: Arc<Keeper>,
    tool: Tool,
    input: Input,
    context: Context,
    rounds: Option<Arc<Rounds>>,
    server: Option<Meta>,
) -> ResponseFuture {
    Ready::later(async move {
        let door = Arc::new(Door::default());
        let context = context.with_door(door.clone());
        let handler = tool.call(Call { context: context.clone(), input });
        match until_answered(handler, rounds.as_deref(), &door).await {
            Until::Answered(result) => answer(*result, server, |result: &mut ToolResult| &mut result.meta),
            Until::Asked(asked) => asked,
            Until::Left(handler) => {
                let running = Arc::new(tasks.create(&context, tool.keeps_task_for(), None)?);
                running.keep().await?;
                door.open(running.clone());
                let log = CallLog::of_tool(tool.name(), context.call());
                Ok(begin(running, handler, server, log))
            }
        }
    })
}

/// Lets a handler go on by itself; what its caller is told of it.
fn begin(
    running: Arc<Running>,
    handler: Ready<Result<ToolResult, ErrorObject>>,
    server: Option<Meta>,
    log: Option<CallLog>,
) -> Payload {
    let handler = match log {
        Some(log) => log.watch(|| handler),
        None => handler,
    };
    let mut task = running.begun().result_type(ResultType::Task);
    if let Some(server) = &server {
        say_who(&mut task.meta, server.clone());
    }
    tokio::spawn(running.run(handler, server));
    Payload::new(Outcome::<ToolResult>::Task(Box::new(task)))
}
