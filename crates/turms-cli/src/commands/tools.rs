use serde_json::Value;
use turms::types::{ListTools, ListToolsResult, Method as _};

use super::{call, print_list};
use crate::args::ToolsArgs;
use crate::error::CliResult;
use crate::session::CliSession;
use crate::show;

/// Lists the tools, or shows one in full.
pub(crate) async fn run(session: &CliSession, args: &ToolsArgs) -> CliResult {
    if let Some(name) = &args.name {
        let tool = call::find(session, name).await?;
        return match session.printer.is_json() {
            true => session.print_json(recorded_tool(session, name), &tool),
            false => session.printer.line(show::tool(&tool, true)),
        };
    }
    let tools = session.call(session.client.list_tools()).await?;
    if session.printer.is_json() {
        return session.print_list_result::<ListTools>("tools", &ListToolsResult::new(tools));
    }
    print_list(&session.printer, "tools", &tools, show::tool)
}

/// Returns the tool as it is in the recorded list.
fn recorded_tool(session: &CliSession, name: &str) -> Option<String> {
    let list: Value = serde_json::from_str(&session.record().list(ListTools::NAME, "tools")?).ok()?;
    let tool = list["tools"].as_array()?.iter().find(|tool| tool["name"] == name)?;
    serde_json::to_string(tool).ok()
}
