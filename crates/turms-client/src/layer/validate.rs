use std::sync::Arc;

use tokio::sync::watch;
use turms_proto::Ability;
use turms_proto::types::{CallToolResult, ListTools, Outcome};

use super::CallService;
use crate::call::error::{CallError, CallErrorKind, DecodeCause};
use crate::call::options::{CallOptions, TaskMode};
use crate::call::{CallOutput, CallRequest};
use crate::connection::ConnectionState;
use crate::page;
use crate::tool_index::{KnownTool, ToolIndex};

/// Validates structured output against the output schema of its tool. A tool that was never listed is looked up once,
/// if the result has structured output. This layer is outside of the tasks, so that their results are validated, too.
pub(crate) struct ValidateOutput<S, L> {
    inner: S,
    /// Lists the tools, which updates the tool index.
    lists: L,
    tools: Arc<ToolIndex>,
    state: watch::Receiver<ConnectionState>,
}

impl<S: CallService, L: CallService> CallService for ValidateOutput<S, L> {
    async fn call(&self, call: &CallRequest) -> Result<CallOutput, CallError> {
        if matches!(call.options.task, TaskMode::Return) {
            Box::pin(self.learn_task_support(call)).await;
        }
        let output = self.inner.call(call).await?;
        if let Outcome::Complete(payload) = &output.outcome
            && let Some(result) = payload.get::<CallToolResult>()
            && !call.options.unchecked_output
        {
            match call.tools(&self.tools).get(call.name().unwrap_or_default()) {
                Some(tool) if !tool.is_large(result) => {
                    refuse(call, tool.violations(call.name().unwrap_or_default(), result))?
                }
                None if result.structured_content.is_none() => {}
                _ => Box::pin(self.check(call, result)).await?,
            }
        }
        Ok(output)
    }
}

impl<S: CallService, L: CallService> ValidateOutput<S, L> {
    pub(crate) fn new(inner: S, lists: L, tools: Arc<ToolIndex>, state: watch::Receiver<ConnectionState>) -> Self {
        Self { inner, lists, tools, state }
    }

    /// Validates a result that is large, or has a tool that must be looked up.
    async fn check(&self, call: &CallRequest, result: &CallToolResult) -> Result<(), CallError> {
        let name = call.name().unwrap_or_default();
        match self.look_up(call).await {
            Some(tool) if tool.is_large(result) => refuse(call, tool.violations_apart(name, result).await),
            Some(tool) => refuse(call, tool.violations(name, result)),
            // The tools cannot be listed, so there is no schema.
            None => Ok(()),
        }
    }

    async fn look_up(&self, call: &CallRequest) -> Option<Arc<KnownTool>> {
        let (tools, name) = (call.tools(&self.tools), call.name()?);
        if let Some(known) = tools.get(name) {
            return Some(known);
        }
        let options = CallOptions::with_timeout(call.options.timeout).with(|options| {
            options.bypass_cache = true;
            options.max_duration = call.options.max_duration;
            options.cancellation.clone_from(&call.options.cancellation);
            options.tools.clone_from(&call.options.tools);
        });
        if page::all::<ListTools>(&self.lists, options).await.is_ok() {
            tools.learn_missing(name);
        }
        tools.get(name)
    }

    /// Looks up the tool on a server of 2025-11-25 with tasks: a call may be sent as a task only if the tool supports
    /// it.
    async fn learn_task_support(&self, call: &CallRequest) {
        let runs_tasks = |state: &ConnectionState| {
            let connected = state.connected().filter(|connected| connected.version().has(Ability::CoreTasks));
            let tasks = connected.and_then(|connected| connected.server()?.capabilities.tasks.as_ref());
            tasks.is_some_and(|tasks| tasks.runs_tools())
        };
        let runs_tasks = runs_tasks(&self.state.borrow());
        if runs_tasks {
            self.look_up(call).await;
        }
    }
}

fn refuse(call: &CallRequest, violations: Vec<String>) -> Result<(), CallError> {
    if violations.is_empty() {
        return Ok(());
    }
    Err(CallError::answered(call.target(), CallErrorKind::Decode(DecodeCause::Output(violations))))
}

#[cfg(test)]
mod tests {
    use turms_core::Payload;
    use turms_proto::types::{CallTool, CallToolParams, ListToolsResult, Tool};
    use turms_proto::{Object, RawJson};

    use super::*;
    use crate::layer::cache::Cache;
    use crate::layer::scripted::Scripted;

    fn call() -> CallRequest {
        CallRequest::multi_round::<CallTool, _>(CallToolParams::new("add"))
    }

    fn output(json: &'static str) -> impl FnOnce(&CallRequest) -> Result<CallOutput, CallError> + Send + 'static {
        move |_| {
            let result = CallToolResult::new().structured_content(RawJson::parse(json).unwrap());
            Ok(CallOutput::complete(Payload::new(result)))
        }
    }

    fn tools(_: &CallRequest) -> Result<CallOutput, CallError> {
        let schema = Object::parse(r#"{"type":"object","required":["sum"]}"#).unwrap();
        Ok(CallOutput::complete(Payload::new(ListToolsResult::new([Tool::new("add").output_schema(schema)]))))
    }

    fn validate(inner: Scripted, lists: Scripted) -> ValidateOutput<Scripted, Cache<Scripted>> {
        let tools = Arc::new(ToolIndex::new(1_000_000));
        let state = watch::Sender::new(ConnectionState::Connecting(turms_proto::session::ConnectionStatus::Connecting))
            .subscribe();
        let lists = Cache::new(lists, None, tools.clone(), state.clone());
        ValidateOutput::new(inner, lists, tools, state)
    }

    #[tokio::test]
    async fn an_unlisted_tool_is_looked_up_once() {
        let inner = Scripted::default().then(output(r#"{"sum":1}"#)).then(output("{}"));
        let validate = validate(inner, Scripted::default().then(tools));
        validate.call(&call()).await.unwrap();
        let error = validate.call(&call()).await.unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Decode(DecodeCause::Output(_))), "{error}");
    }

    #[tokio::test]
    async fn nothing_is_looked_up_without_structured_output_or_on_request() {
        let text = |_: &CallRequest| Ok(CallOutput::complete(Payload::new(CallToolResult::from_text("3"))));
        let validate = validate(Scripted::default().then(text).then(output("{}")), Scripted::default());
        validate.call(&call()).await.unwrap();
        let mut unchecked = call();
        unchecked.options.unchecked_output = true;
        validate.call(&unchecked).await.unwrap();
    }
}
