//! `tools/call` in three steps: parse the request, find the tool and plan the call, run it.

use std::sync::Arc;

use bytestring::ByteString;
use turms_core::{CallResult, Payload, ServiceError};
use turms_proto::method::Method as _;
use turms_proto::types::{CallTool, CallToolParams, CallToolResult, Meta, TaskRequest};
use turms_proto::{DecodeError, ErrorObject, Object, RawJson};
use turms_schema::shortened;

use super::{RoundRequest, Router, find_in_catalogs, respond};
use crate::catalog::CatalogList;
use crate::context::Context;
use crate::handler::Input;
use crate::input::{RoundEnd, run_round};
use crate::server::Component;
use crate::task::CallPlan;
use crate::tool::Tool;

/// The parameters of `tools/call`.
pub(crate) enum ToolRequest {
    /// Only a name and arguments, as in most calls. Both share the buffer of the parameters, which layers receive.
    Plain { params: RawJson, name: ByteString, arguments: Option<Object> },
    /// Other parameters, or a value from a client in the same process.
    Full(Arc<CallToolParams>),
}

impl ToolRequest {
    pub(crate) fn parse(params: Payload) -> Result<Self, DecodeError> {
        if let Some(raw) = params.as_raw()
            && let Some((name, arguments)) = CallToolParams::plain(raw)
        {
            return Ok(Self::Plain { params: raw.clone(), name, arguments });
        }
        match params.share::<CallToolParams>() {
            Some(shared) => Ok(Self::Full(shared)),
            None => Ok(Self::Full(Arc::new(params.take()?))),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Plain { name, .. } => name,
            Self::Full(params) => &params.name,
        }
    }

    fn arguments(&self) -> Option<&Object> {
        match self {
            Self::Plain { arguments, .. } => arguments.as_ref(),
            Self::Full(params) => params.arguments.as_ref(),
        }
    }

    fn full(&self) -> Option<&CallToolParams> {
        match self {
            Self::Plain { .. } => None,
            Self::Full(params) => Some(params),
        }
    }

    pub(crate) fn task(&self) -> Option<&TaskRequest> {
        self.full()?.task.as_ref()
    }

    fn round(&self) -> RoundRequest<'_> {
        let full = self.full();
        RoundRequest {
            method: CallTool::NAME,
            target: self.name(),
            arguments: self.arguments(),
            state: full.and_then(|params| params.request_state.as_deref()),
            responses: full.and_then(|params| params.input_responses.as_ref()),
        }
    }

    pub(crate) fn into_input(self) -> Input {
        match self {
            Self::Plain { arguments, .. } => Input::Json(arguments.unwrap_or_default()),
            Self::Full(params) => Input::Shared(params),
        }
    }

    pub(crate) fn into_payload(self) -> Payload {
        match self {
            Self::Plain { params, .. } => Payload::json(params),
            Self::Full(params) => Payload::shared(params),
        }
    }
}

impl Router {
    pub(super) async fn call_tool(self, params: Payload, context: Context) -> CallResult {
        let request = ToolRequest::parse(params)?;
        let tool = self.find_tool(&request, &context)?;
        if let (Some(mirrored), Some(info)) = (tool.headers(), context.call().request_info()) {
            info.check_arguments(mirrored, request.arguments())?;
        }
        let tasks = &self.0.settings.tasks;
        let plan = tasks.plan(&tool, request.task(), &context)?;
        let server_info = self.result_meta(&context);
        // The futures of tasks are boxed, so that ordinary calls need no memory for them.
        match plan {
            CallPlan::Call => {
                let context = self.with_rounds(context, &request.round(), server_info.as_ref());
                let rounds = context.rounds().cloned();
                let end = run_round(tool.call(request, context).as_mut(), rounds.as_deref()).await;
                respond(end, server_info, |result| &mut result.meta)
            }
            CallPlan::Task => Box::pin(tasks.run(tool, request, context, server_info)).await,
            CallPlan::Detachable => {
                let context = self.with_rounds(context, &request.round(), server_info.as_ref());
                Box::pin(tasks.run_detachable(tool, request, context, server_info)).await
            }
        }
    }

    /// Finds a tool that the caller may use.
    fn find_tool(&self, request: &ToolRequest, context: &Context) -> Result<Tool, ServiceError> {
        let name = request.name();
        let tool = find_in_catalogs(&self.0.handle.catalog(), context, |catalog| catalog.tools.get(name).cloned());
        if let Some(tool) = tool
            && self.0.settings.check_item(Component::Tool(&tool), context)?
        {
            return Ok(tool);
        }
        self.require_kind(CatalogList::Tools, CallTool::NAME, context)?;
        Err(ErrorObject::invalid_params(format!("unknown tool: {:?}", shortened(name))).into())
    }
}

/// Converts the result of a tool to the response of its call.
pub(crate) fn finish(result: CallToolResult, server_info: Option<Meta>) -> CallResult {
    respond(RoundEnd::Finished(Ok(result)), server_info, |result| &mut result.meta)
}
