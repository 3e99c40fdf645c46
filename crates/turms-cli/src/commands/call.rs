use serde_json::{Map, Value};
use turms::proto::method::Method as _;
use turms::types::{CallTool, Tool, ToolResult};

use super::tasks;
use crate::args::CallArgs;
use crate::arguments;
use crate::error::{Done, Exit, Failure};
use crate::explain::{self, ANSWERS};
use crate::input;
use crate::schema;
use crate::session::Session;
use crate::show::{self, Saver};
use crate::suggest;

/// Calls a tool.
pub(crate) async fn run(session: &Session, args: &CallArgs) -> Done {
    let saver = Saver::new(args.output.as_deref(), &session.printer)?;
    let tool = find(session, &args.name).await?;
    let schema = tool.input_schema.decode::<Value>().unwrap_or(Value::Null);
    let arguments = match &args.args_json {
        Some(file) => arguments::of_file(file)?,
        None => complete(session, &tool, &schema, given(args, &schema)?).await?,
    };
    if args.task {
        let begun = session.long_call(session.client.call_tool_as_task(&*tool.name, arguments)).await?;
        if let Some(task) = begun.task() {
            return tasks::begun(session, &task);
        }
        // The server answered at once.
        let result = begun.wait().await.map_err(|error| explain::call(&error))?;
        return print(session, &tool.name, &result, exactly(session), saver);
    }
    let result = session.long_call(session.client.call_tool(&*tool.name, arguments)).await?;
    print(session, &tool.name, &result, exactly(session), saver)
}

/// Prints what a tool gave, and says so if it failed.
pub(super) fn print(
    session: &Session,
    tool: &str,
    result: &ToolResult,
    exactly: Option<String>,
    mut saver: Saver,
) -> Done {
    let shown = show::tool_result(result, &mut saver)?;
    if session.printer.is_json() {
        session.print_json(exactly, result)?;
    } else {
        shown.into_iter().try_for_each(|text| saver.print(text))?;
    }
    saver.warn_of_nothing();
    if result.failed() {
        let hint = asked_nobody(session, &result.text()).then_some(ANSWERS);
        return Err(Failure::new(Exit::Tool, format!("tool {tool:?} says that it failed")).hint_if(hint));
    }
    Ok(())
}

/// The result as the server sent it: to the call, or for the task that the call became.
fn exactly(session: &Session) -> Option<String> {
    let is_task = |json: &String| {
        let result = serde_json::from_str::<Value>(json).unwrap_or_default();
        result["resultType"] == "task" || result["task"].is_object()
    };
    let result = session.record().last(CallTool::NAME)?;
    if is_task(&result) { tasks::exactly(session) } else { Some(result) }
}

/// What was typed: words, or one JSON object.
fn given(args: &CallArgs, schema: &Value) -> Done<Map<String, Value>> {
    match args.arguments.as_slice() {
        [json] if json.trim_start().starts_with('{') => arguments::of_json(json)
            .map_err(|problem| Failure::usage(format!("tool {:?}: the arguments are {problem}", args.name))),
        words => arguments::of_tool(words, &args.name, schema),
    }
}

/// The tool of this name.
pub(super) async fn find(session: &Session, name: &str) -> Done<Tool> {
    let tools = session.call(session.client.list_tools()).await?;
    let near = suggest::nearest(name, tools.iter().map(|tool| tool.name.as_str())).map(ToOwned::to_owned);
    tools.into_iter().find(|tool| tool.name == name).ok_or_else(|| {
        Failure::usage(format!("the server has no tool {name:?}")).hint(match near {
            Some(near) => format!("did you mean {near:?}?"),
            None => "`tools` lists those that it has".to_owned(),
        })
    })
}

/// Asks for what is missing, if there is anybody to ask.
async fn complete(
    session: &Session,
    tool: &Tool,
    schema: &Value,
    mut given: Map<String, Value>,
) -> Done<Map<String, Value>> {
    let missing = schema::missing(schema, &given);
    if missing.is_empty() {
        return Ok(given);
    }
    let Some(person) = &session.person else {
        let names: Vec<String> = missing.iter().map(|property| format!("{:?}", property.name)).collect();
        let usage: Vec<String> =
            missing.iter().map(|property| format!("{}={}", property.name, property.kind().to_uppercase())).collect();
        return Err(Failure::usage(format!("tool {:?} needs {}", tool.name, names.join(" and "))).hint(format!(
            "give {} as {}; --args-json sends whatever you like",
            if usage.len() == 1 { "it" } else { "them" },
            usage.join(" ")
        )));
    };
    match input::ask_for(person, &missing).await {
        input::Filled::In(values) => {
            given.extend(values);
            Ok(given)
        }
        input::Filled::Cancelled | input::Filled::Declined => {
            Err(Failure::new(Exit::Interrupted, format!("tool {:?} was not called", tool.name)))
        }
    }
}

/// Whether a tool may have failed for want of somebody to ask.
fn asked_nobody(session: &Session, said: &str) -> bool {
    session.person.is_none() && ["elicit", "sampling"].iter().any(|word| said.contains(word))
}
