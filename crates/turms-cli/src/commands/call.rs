use serde_json::{Map, Value};
use turms::types::{CallTool, CallToolResult, Method as _, Tool};

use super::{repeat, tasks};
use crate::args::CallArgs;
use crate::arguments;
use crate::error::{CliError, CliResult, ExitStatus};
use crate::explain::ANSWERS_HINT;
use crate::input;
use crate::schema;
use crate::session::CliSession;
use crate::show::{self, ContentSaver};
use crate::suggest;

/// Calls a tool.
pub(crate) async fn run(session: &CliSession, args: &CallArgs) -> CliResult {
    let saver = ContentSaver::new(args.output.as_deref(), &session.printer)?;
    let tool = find(session, &args.name).await?;
    let schema = tool.input_schema.decode::<Value>().unwrap_or(Value::Null);
    let arguments = match &args.args_json {
        Some(file) => arguments::read_object(file)?,
        None => prompt_missing(session, &tool, &schema, given(args, &schema)?).await?,
    };
    if let Some(count) = args.repeat {
        return repeat::run(session, &tool.name, arguments, count, args.parallel).await;
    }
    if args.task {
        let started = session.long_call(session.client.call_tool_as_task(&*tool.name, arguments)).await?;
        if let Some(task) = started.task() {
            return tasks::print_started(session, &task, args.output.as_deref());
        }
        // The server sent the result directly.
        let result = started.wait().await.map_err(|error| session.call_error(&error))?;
        return print(session, &tool.name, &result, recorded_result(session), saver);
    }
    let result = session.long_call(session.client.call_tool(&*tool.name, arguments)).await?;
    print(session, &tool.name, &result, recorded_result(session), saver)
}

/// Prints a tool result. Returns an error if the tool failed.
pub(super) fn print(
    session: &CliSession,
    tool: &str,
    result: &CallToolResult,
    recorded: Option<String>,
    mut saver: ContentSaver,
) -> CliResult {
    let shown = show::tool_result(result, &mut saver)?;
    if session.printer.is_json() {
        session.print_json(recorded, result)?;
    } else {
        shown.into_iter().try_for_each(|text| saver.print(text))?;
    }
    saver.warn_if_unused();
    if result.is_error() {
        let hint = needs_input(session, &result.text()).then_some(ANSWERS_HINT);
        return Err(CliError::new(ExitStatus::Tool, format!("tool {tool:?} failed")).hint_if(hint));
    }
    Ok(())
}

/// Returns the recorded result of the call, or of the task that it became.
fn recorded_result(session: &CliSession) -> Option<String> {
    let is_task = |json: &String| {
        let result = serde_json::from_str::<Value>(json).unwrap_or_default();
        result["resultType"] == "task" || result["task"].is_object()
    };
    let result = session.record().last(CallTool::NAME)?;
    if is_task(&result) { tasks::recorded_result(session) } else { Some(result) }
}

/// Parses the arguments: words, or one JSON object.
fn given(args: &CallArgs, schema: &Value) -> CliResult<Map<String, Value>> {
    match args.arguments.as_slice() {
        [json] if json.trim_start().starts_with('{') => arguments::parse_object(json)
            .map_err(|problem| CliError::usage(format!("tool {:?}: invalid arguments: {problem}", args.name))),
        words => arguments::parse_for_tool(words, &args.name, schema),
    }
}

/// Returns the tool of this name.
pub(super) async fn find(session: &CliSession, name: &str) -> CliResult<Tool> {
    let tools = session.call(session.client.list_tools()).await?;
    let closest = suggest::closest(name, tools.iter().map(|tool| tool.name.as_str())).map(ToOwned::to_owned);
    tools.into_iter().find(|tool| tool.name == name).ok_or_else(|| {
        CliError::usage(format!("the server has no tool {name:?}")).hint(match closest {
            Some(closest) => format!("did you mean {closest:?}?"),
            None => "`tools` lists the tools".to_owned(),
        })
    })
}

/// Prompts for missing arguments at the terminal.
async fn prompt_missing(
    session: &CliSession,
    tool: &Tool,
    schema: &Value,
    mut given: Map<String, Value>,
) -> CliResult<Map<String, Value>> {
    let missing = schema::missing(schema, &given);
    if missing.is_empty() {
        return Ok(given);
    }
    let Some(terminal) = &session.terminal else {
        let names: Vec<String> = missing.iter().map(|property| format!("{:?}", property.name)).collect();
        let usage: Vec<String> =
            missing.iter().map(|property| format!("{}={}", property.name, property.kind().to_uppercase())).collect();
        return Err(CliError::usage(format!("tool {:?} needs {}", tool.name, names.join(" and "))).hint(format!(
            "give {} as {}; --args-json sends arguments without checks",
            if usage.len() == 1 { "it" } else { "them" },
            usage.join(" ")
        )));
    };
    match input::fill_form(terminal, &missing).await {
        input::FormOutcome::Accepted(values) => {
            given.extend(values);
            Ok(given)
        }
        input::FormOutcome::Cancelled | input::FormOutcome::Declined => {
            Err(CliError::new(ExitStatus::Interrupted, format!("tool {:?} was not called", tool.name)))
        }
    }
}

/// Returns `true` if a tool probably failed because input requests are not supported without a terminal.
fn needs_input(session: &CliSession, message: &str) -> bool {
    session.terminal.is_none() && ["elicit", "sampling"].iter().any(|word| message.contains(word))
}
