use serde::Serialize;
use turms_proto::types::{CallTool, CallToolResult, Cursor, ListTools, ListToolsResult, Tool};

use crate::call::request::tool_params;
use crate::call::{Call, CallRequest};
use crate::client::Client;
use crate::page::{self, Items};

impl Client {
    /// Lists all tools.
    pub fn list_tools(&self) -> Call<Vec<Tool>> {
        page::list::<ListTools>(self)
    }

    /// Lists one page of tools.
    pub fn list_tools_page(&self, cursor: impl Into<Option<Cursor>>) -> Call<ListToolsResult> {
        page::page::<ListTools>(self, cursor.into())
    }

    /// Returns a stream of all tools, which reads page by page.
    #[must_use]
    pub fn stream_tools(&self) -> Items<Tool> {
        Items::new::<ListTools>(self)
    }

    /// Calls a tool. The arguments are anything that serializes to a JSON object, or `()`.
    ///
    /// Input requests of the server go to the handlers of the client. Structured output is checked against the output
    /// schema of the tool. A tool that failed is a result: see [`CallToolResult::is_error`]
    /// and [`CallToolResult::into_result`].
    ///
    /// If the client [enables tasks](crate::ClientBuilder::enable_tasks) and the call becomes a task, this waits for
    /// the result of the task. The timeout then applies to each poll, progress is reported until the task is created,
    /// and dropping the call cancels the task.
    pub fn call_tool(&self, name: impl Into<String>, arguments: impl Serialize) -> Call<CallToolResult> {
        let params = tool_params(name.into(), &arguments);
        Call::new(self, params.map(CallRequest::multi_round::<CallTool, _>), |call, output| output.take(call))
    }
}
