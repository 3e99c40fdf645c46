//! Tools: their descriptions and handlers.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use turms_core::layer::Layer;
use turms_core::{BoxFuture, Payload, Request, Service, ServiceError};
use turms_proto::header::ParamHeaders;
use turms_proto::method::Method as _;
use turms_proto::types::{
    CallTool, CallToolResult, Icon, Meta, TaskSupport, Tool as ToolDefinition, ToolAnnotations, ToolExecution,
};
use turms_proto::{ErrorObject, Object, RawJson};

use crate::context::Context;
use crate::handler::{CallParts, Handler, Rejection, SyncHandler};
use crate::layered::{Innermost, LayerStack, call_layered};
use crate::respond::IntoCallToolResult;
use crate::router::ToolRequest;
use crate::schema::{Schema, SchemaError, Violations};
use crate::sealed::Seal;
use crate::task::TaskMode;

/// A tool: its description and its handler.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// # use turms_server as turms;
/// use turms::{Args, Tool};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Add {
///     /// the first number
///     a: f64,
///     /// the second number
///     b: f64,
/// }
///
/// let tool = Tool::builder("add")
///     .description("Adds two numbers.")
///     .read_only()
///     .handler(|Args(add): Args<Add>| async move { add.a + add.b });
/// assert_eq!(tool.name(), "add");
/// ```
#[derive(Clone)]
pub struct Tool {
    core: Arc<ToolCore>,
    scopes: Arc<[String]>,
    /// The tool wrapped in its layers, if it has any.
    layered: Option<Arc<dyn Service>>,
}

/// A tool without its layers: its description, the schemas of its input and output, and its handler.
struct ToolCore {
    definition: ToolDefinition,
    input: Option<Schema>,
    output: Option<Schema>,
    mirrored: Option<ParamHeaders>,
    handler: ToolHandler,
    task: Option<TaskMode>,
    task_ttl: Option<Duration>,
    /// The registration error. It is reported when the server is built, not when the tool is called.
    fault: Option<String>,
}

/// The type-erased handler of a tool. Runs between the checks of input and output.
type ToolHandler = Box<dyn Fn(Arc<ToolCore>, CallParts) -> ToolFuture + Send + Sync>;

/// A running tool call.
pub(crate) type ToolFuture = BoxFuture<'static, Result<CallToolResult, ServiceError>>;

impl Tool {
    /// Creates a builder for a tool with a name.
    pub fn builder(name: impl Into<String>) -> ToolBuilder {
        ToolBuilder {
            definition: ToolDefinition::new(name),
            input: None,
            output: None,
            annotations: ToolAnnotations::new(),
            layers: LayerStack::default(),
            task: None,
            task_ttl: None,
            scopes: Vec::new(),
        }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.definition.name
    }

    /// Returns the definition that clients receive.
    #[must_use]
    pub fn definition(&self) -> &ToolDefinition {
        &self.core.definition
    }

    /// Returns the HTTP headers that mirror its arguments.
    #[doc(hidden)]
    #[must_use]
    pub fn headers(&self) -> Option<&ParamHeaders> {
        self.core.mirrored.as_ref()
    }

    /// Returns the scopes that callers need.
    #[must_use]
    pub fn scopes(&self) -> &[String] {
        &self.scopes
    }

    /// Replaces the scopes that callers need, such as with those of a configuration.
    #[must_use]
    pub fn with_scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    pub(crate) fn task_mode(&self) -> Option<TaskMode> {
        self.core.task
    }

    /// Returns the time to live of its tasks, if it differs from the server's.
    pub(crate) fn task_ttl(&self) -> Option<Duration> {
        self.core.task_ttl
    }

    pub(crate) fn fault(&self) -> Option<&str> {
        self.core.fault.as_deref()
    }

    /// Runs the tool, through its layers if it has any.
    pub(crate) fn call(&self, request: ToolRequest, context: Context) -> ToolFuture {
        match &self.layered {
            None => self.core.call(CallParts::new(context, request.into_input())),
            Some(layered) => {
                let request = Request::raw(CallTool::NAME, request.into_payload());
                Box::pin(call_layered(layered.clone(), request, context))
            }
        }
    }
}

impl ToolCore {
    fn call(self: &Arc<Self>, call: CallParts) -> ToolFuture {
        (self.handler)(self.clone(), call)
    }

    /// Checks the arguments, runs the handler, and checks its structured content.
    async fn run<F>(
        self: Arc<Self>,
        call: CallParts,
        handler: impl FnOnce(CallParts) -> F,
    ) -> Result<CallToolResult, ServiceError>
    where
        F: Future<Output = Result<CallToolResult, Rejection>>,
    {
        let (version, max_steps) = (call.context.protocol_version(), call.context.server().max_validation_steps());
        let result = match self.check_input(&call, max_steps).await {
            Ok(()) => handler(call).await,
            Err(rejection) => Err(rejection),
        };
        let result = result.or_else(|rejection| rejection.into_call_tool_result(version))?;
        match &self.output {
            Some(schema) if !result.is_error() => self.check_output(schema, &result, max_steps).await?,
            _ => {}
        }
        Ok(result)
    }

    async fn check_input(&self, call: &CallParts, max_steps: u64) -> Result<(), Rejection> {
        let Some(schema) = self.input.as_ref().filter(|schema| !schema.is_enforced_by_decoding()) else {
            return Ok(());
        };
        let arguments = RawJson::from(call.input.arguments().into_owned());
        Ok(schema.check(&arguments, "arguments", max_steps).await?)
    }

    async fn check_output(&self, schema: &Schema, result: &CallToolResult, max_steps: u64) -> Result<(), ErrorObject> {
        let checked = match &result.structured_content {
            Some(content) => schema.check(content, "structuredContent", max_steps).await,
            None => Err(Violations("structuredContent is missing".to_owned())),
        };
        checked.map_err(|Violations(violations)| {
            let tool = &self.definition.name;
            ErrorObject::internal(format!(
                "tool {tool:?} returned a result that violates its output schema: {violations}"
            ))
        })
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("definition", &self.core.definition).finish_non_exhaustive()
    }
}

/// A builder for tools.
#[derive(Debug)]
#[must_use = "a tool needs a handler"]
pub struct ToolBuilder {
    pub(crate) definition: ToolDefinition,
    input: Option<Object>,
    output: Option<Object>,
    annotations: ToolAnnotations,
    layers: LayerStack,
    task: Option<TaskMode>,
    task_ttl: Option<Duration>,
    scopes: Vec<String>,
}

impl ToolBuilder {
    /// Sets the human-readable title.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.definition.title = Some(title.into());
        self
    }

    /// Sets the description for the model.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.definition.description = Some(description.into());
        self
    }

    /// Adds an icon.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.definition.icons.get_or_insert_default().push(icon);
        self
    }

    /// Declares that the tool does not modify anything (`readOnlyHint`).
    pub fn read_only(mut self) -> Self {
        self.annotations.read_only_hint = Some(true);
        self
    }

    /// Declares whether the tool may perform destructive updates (`destructiveHint`).
    pub fn destructive(mut self, destructive: bool) -> Self {
        self.annotations.destructive_hint = Some(destructive);
        self
    }

    /// Declares that repeated calls with the same arguments have no additional effect (`idempotentHint`).
    pub fn idempotent(mut self) -> Self {
        self.annotations.idempotent_hint = Some(true);
        self
    }

    /// Declares whether the tool interacts with external systems (`openWorldHint`).
    pub fn open_world(mut self, open_world: bool) -> Self {
        self.annotations.open_world_hint = Some(open_world);
        self
    }

    /// Adds protocol metadata (`_meta`). Members that are already set, such as [the page](ToolBuilder::app), are kept
    /// unless replaced.
    #[expect(clippy::needless_pass_by_value, reason = "builder methods take values")]
    pub fn meta(mut self, meta: Meta) -> Self {
        self.definition.meta.get_or_insert_default().merge(&meta);
        self
    }

    /// Sets a custom schema for the arguments, instead of the one that is generated from the handler's type.
    pub fn input_schema(mut self, schema: impl Into<Object>) -> Self {
        self.input = Some(schema.into());
        self
    }

    /// Sets a custom schema for the structured content, instead of the one that is generated from the handler's type.
    pub fn output_schema(mut self, schema: impl Into<Object>) -> Self {
        self.output = Some(schema.into());
        self
    }

    /// Runs the tool as a task for clients that support tasks, so that no request stays open while it runs. In
    /// 2026-07-28, a handler that is ready at once returns its result instead of a task. Input requests of the handler
    /// become input requests of the task. Cancelling the task drops the handler.
    pub fn task(mut self) -> Self {
        self.task = Some(TaskMode::Optional);
        self
    }

    /// Same as [`ToolBuilder::task`], and rejects clients of 2025-11-25 and later that do not support tasks.
    pub fn task_required(mut self) -> Self {
        self.task = Some(TaskMode::Required);
        self
    }

    /// Starts the tool as an ordinary call that may continue as a task when its handler calls
    /// [`Context::continue_as_task`](crate::Context::continue_as_task). Input requests before that belong to the call.
    pub fn task_deferred(mut self) -> Self {
        self.task = Some(TaskMode::Detachable);
        self
    }

    /// Sets the time to live of its tasks, counted from their creation. Default:
    /// [`TaskOptions::ttl`](crate::TaskOptions::ttl).
    pub fn task_ttl(mut self, time: Duration) -> Self {
        self.task_ttl = Some(time);
        self
    }

    /// Sets the scopes that callers over a network need for this tool. Default: none. A caller without them gets an error that names
    /// them, with HTTP status 403. Calls over stdio and within the process are checked only if they have a principal.
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a layer around this tool. The layer added last is the outermost.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Arc<dyn Service>> + Send + Sync + 'static,
        L::Service: Service,
    {
        self.layers.push(layer);
        self
    }

    /// Sets the async handler and finishes the tool.
    pub fn handler<H: Handler<X>, X>(self, handler: H) -> Tool
    where
        H::Output: IntoCallToolResult,
    {
        let boxed: ToolHandler = Box::new(move |core, call| {
            let handler = handler.clone();
            Box::pin(core.run(call, async move |call| Ok(handler.call(call).await?.into_call_tool_result()?)))
        });
        self.finish(boxed, H::input_schema(), <H::Output as IntoCallToolResult>::output_schema())
    }

    /// Sets a handler that is not async and finishes the tool. It must not block the connection: use
    /// [`ToolBuilder::handler_blocking`] for a handler that computes for long, reads files or sleeps.
    pub fn handler_sync<H: SyncHandler<X>, X>(self, handler: H) -> Tool
    where
        H::Output: IntoCallToolResult,
    {
        let boxed: ToolHandler = Box::new(move |core, call| {
            let handler = handler.clone();
            Box::pin(core.run(call, async move |mut call| Ok(handler.call(&mut call)?.into_call_tool_result()?)))
        });
        self.finish(boxed, H::input_schema(), <H::Output as IntoCallToolResult>::output_schema())
    }

    /// Sets a handler that is not async and blocks, and finishes the tool. It runs on a blocking thread.
    pub fn handler_blocking<H: SyncHandler<X>, X>(self, handler: H) -> Tool
    where
        H::Output: IntoCallToolResult,
    {
        let boxed: ToolHandler = Box::new(move |core, call| {
            let handler = handler.clone();
            Box::pin(core.run(call, async move |mut call| {
                run_on_blocking_thread(move || Ok(handler.call(&mut call)?.into_call_tool_result()?)).await
            }))
        });
        self.finish(boxed, H::input_schema(), <H::Output as IntoCallToolResult>::output_schema())
    }

    fn finish(mut self, handler: ToolHandler, input: Option<Value>, output: Option<Value>) -> Tool {
        let mut fault = None;
        if !ToolDefinition::is_valid_name(&self.definition.name) {
            fault = Some("a name is 1 to 128 letters, digits, `_`, `-` and `.`".to_owned());
        }
        let mut keep = |schema: Result<Schema, SchemaError>, role: &str| match schema {
            Ok(schema) => Some(schema),
            Err(error) => {
                fault.get_or_insert_with(|| format!("invalid {role} schema: {}", error.reason()));
                None
            }
        };
        let input = match self.input {
            Some(own) => Schema::compile(own),
            None => input.map_or_else(|| Ok(Schema::empty()), |made| Schema::of_type(&made)),
        };
        let input = keep(input, "input");
        let output = match (self.output, output) {
            (Some(own), _) => keep(Schema::compile(own), "output"),
            (None, Some(made)) => keep(Schema::of_type(&made), "output"),
            (None, None) => None,
        };
        if let Some(schema) = &input {
            self.definition.input_schema = schema.object().clone();
        }
        self.definition.output_schema = output.as_ref().map(|schema| schema.object().clone());
        let support = self.task.map(|mode| match mode {
            TaskMode::Required => TaskSupport::Required,
            TaskMode::Optional | TaskMode::Detachable => TaskSupport::Optional,
        });
        self.definition.execution = support.map(|support| ToolExecution::new().task_support(support));
        if self.annotations != ToolAnnotations::new() {
            self.definition.annotations = Some(self.annotations);
        }
        let mirrored = match param_headers(&self.definition.input_schema) {
            Ok(headers) => headers,
            Err(problem) => {
                fault.get_or_insert(problem);
                None
            }
        };
        let core = Arc::new(ToolCore {
            definition: self.definition,
            input,
            output,
            mirrored,
            handler,
            task: self.task,
            task_ttl: self.task_ttl,
            fault,
        });
        let innermost = core.clone();
        let layered = self.layers.wrap(Innermost(move |request: Request, context| {
            let core = innermost.clone();
            async move {
                let input = ToolRequest::parse(request.params)?.into_input();
                Ok(Payload::new(core.call(CallParts::new(context, input)).await?))
            }
        }));
        Tool { core, scopes: self.scopes.into(), layered }
    }
}

/// Runs a function on a blocking thread.
async fn run_on_blocking_thread(
    run: impl FnOnce() -> Result<CallToolResult, Rejection> + Send + 'static,
) -> Result<CallToolResult, Rejection> {
    match tokio::task::spawn_blocking(run).await {
        Ok(result) => result,
        Err(_) => Err(ErrorObject::internal("the handler panicked").into()),
    }
}

fn param_headers(schema: &Object) -> Result<Option<ParamHeaders>, String> {
    if !schema.as_str().contains("x-mcp-header") {
        return Ok(None);
    }
    let value: Value = schema.decode().map_err(|error| error.to_string())?;
    let headers = ParamHeaders::from_schema(&value).map_err(|error| error.to_string())?;
    Ok(Some(headers).filter(|headers| !headers.is_empty()))
}

/// Conversion for [`Server::tool`](crate::Server::tool): from a [`Tool`], or from a function that creates one, as
/// generated by `#[tool]`. `M` only distinguishes the two implementations.
/// Other types cannot implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    label = "not a tool",
    note = "put `#[tool]` on the function, or build one with `Tool::builder(\"name\").handler(..)`"
)]
pub trait IntoTool<M> {
    /// Converts to the tool.
    fn into_tool(self) -> Tool;

    #[doc(hidden)]
    fn sealed(_: Seal);
}

impl IntoTool<()> for Tool {
    fn into_tool(self) -> Tool {
        self
    }

    fn sealed(_: Seal) {}
}

impl<F: FnOnce() -> Tool> IntoTool<fn() -> Tool> for F {
    fn into_tool(self) -> Tool {
        self()
    }

    fn sealed(_: Seal) {}
}

/// Implemented for no type. Because of this second candidate, the compiler reports that a function is not a tool
/// instead of that it takes too many arguments.
#[doc(hidden)]
impl<T: Into<Infallible>> IntoTool<Infallible> for T {
    fn into_tool(self) -> Tool {
        unreachable!("no value becomes `Infallible`")
    }

    fn sealed(_: Seal) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, when};

        let it = Tool::builder("add");
        let code = [
            ("ToolBuilder::task_ttl", when(it.task_ttl.is_none(), "[`TaskOptions::ttl`](crate::TaskOptions::ttl)")),
            ("ToolBuilder::scopes", when(it.scopes.is_empty(), "none")),
        ];
        assert_documented(include_str!("tool.rs"), &code);
    }
}
