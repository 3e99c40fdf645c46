use turms::types::ListToolsResult;

use super::{call, print_list};
use crate::args::ToolsArgs;
use crate::exit::Done;
use crate::session::Session;
use crate::show;

/// Lists the tools, or shows one in full.
pub(crate) async fn run(session: &Session, args: &ToolsArgs) -> Done {
    if let Some(name) = &args.name {
        let tool = call::find(session, name).await?;
        return match session.printer.is_json() {
            true => session.printer.json(&tool),
            false => session.printer.line(show::tool(&tool, true)),
        };
    }
    let tools = session.call(session.client.list_tools()).await?;
    if session.printer.is_json() {
        return session.printer.json(&ListToolsResult::new(tools));
    }
    print_list(&session.printer, "tools", &tools, show::tool)
}
