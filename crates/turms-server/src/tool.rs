//! A tool: what it is, and the function behind it.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use turms_core::layer::Layer;
use turms_core::{Ready, Service};
use turms_proto::header::ParamHeaders;
use turms_proto::method::Method as _;
use turms_proto::types::{
    CallTool, Icon, Meta, TaskSupport, Tool as ToolSpec, ToolAnnotations, ToolExecution, ToolResult,
};
use turms_proto::{Ability, ErrorCode, ErrorObject, Object, ProtocolVersion, RawJson};

use crate::front::{Front, Run, SharedService};
use crate::handler::{Call, Handler, Rejection, SyncHandler};
use crate::respond::IntoToolResult;
use crate::schema::{Schema, SchemaError};
use crate::task::{TaskMode, TaskWays, WAYS};

/// Something that can be called: what it is, and the function behind it.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use turms_server::{Args, Tool};
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
pub struct Tool(Arc<Inner>);

struct Inner {
    spec: ToolSpec,
    headers: Option<ParamHeaders>,
    run: Run<ToolResult>,
    task: Option<(TaskMode, &'static TaskWays)>,
    keep: Option<Duration>,
    /// What is wrong with it; said when the server is built rather than when the tool is called.
    fault: Option<String>,
}

type Action = Box<dyn Fn(&mut Call) -> Result<Ready<Result<ToolResult, ErrorObject>>, Rejection> + Send + Sync>;

impl Tool {
    /// Begins a tool of this name.
    pub fn builder(name: impl Into<String>) -> ToolBuilder {
        ToolBuilder {
            spec: ToolSpec::new(name),
            input: None,
            output: None,
            annotations: ToolAnnotations::new(),
            front: Front::default(),
            blocking: false,
            task: None,
            keep: None,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.spec.name
    }

    /// What clients are told of it.
    #[must_use]
    pub fn spec(&self) -> &ToolSpec {
        &self.0.spec
    }

    /// The headers that mirror its arguments over HTTP.
    #[must_use]
    pub fn headers(&self) -> Option<&ParamHeaders> {
        self.0.headers.as_ref()
    }

    /// When it runs as a task, if it ever does.
    pub(crate) fn task_mode(&self) -> Option<TaskMode> {
        self.0.task.map(|(mode, _)| mode)
    }

    /// What is done with its tasks, if it ever runs as one.
    pub(crate) fn task_ways(&self) -> Option<&'static TaskWays> {
        self.0.task.map(|(_, ways)| ways)
    }

    /// For how long its tasks are kept, if not as usual.
    pub(crate) fn keeps_task_for(&self) -> Option<Duration> {
        self.0.keep
    }

    pub(crate) fn fault(&self) -> Option<&str> {
        self.0.fault.as_deref()
    }

    pub(crate) fn call(&self, call: Call) -> Ready<Result<ToolResult, ErrorObject>> {
        (self.0.run)(call)
    }
}

/// A function with the checks on what goes in and what comes out.
struct Checked {
    input: Option<Schema>,
    output: Option<Arc<Output>>,
    action: Action,
}

struct Output {
    tool: String,
    schema: Schema,
}

impl Checked {
    fn run(&self, mut call: Call) -> Ready<Result<ToolResult, ErrorObject>> {
        let version = call.context.version();
        let started = self.check_input(&call).and_then(|()| (self.action)(&mut call));
        match (started, &self.output) {
            (Err(rejection), _) => Ready::now(rejection.into_tool_result(&call.context)),
            (Ok(running), None) if version.has(Ability::Stateless) => running,
            (Ok(running), None) => running.edit(move |result| as_the_revision_has_it(result, version)),
            (Ok(running), Some(output)) => {
                let (output, max_steps) = (output.clone(), call.context.server().max_validation_steps());
                running.map(move |mut result| {
                    as_the_revision_has_it(&mut result, version);
                    output.check(result?, max_steps)
                })
            }
        }
    }

    fn check_input(&self, call: &Call) -> Result<(), Rejection> {
        let Some(schema) = self.input.as_ref().filter(|schema| !schema.is_kept_by_decoding()) else { return Ok(()) };
        let arguments = call.input.arguments();
        let violations = schema.violations(
            &RawJson::from(arguments.into_owned()),
            "arguments",
            call.context.server().max_validation_steps(),
        );
        if violations.is_empty() { Ok(()) } else { Err(Rejection::Arguments(violations.join("; "))) }
    }
}

/// Before 2026-07-28 there is no error for a client that lacks a capability; then the tool failed, and says why.
fn as_the_revision_has_it(result: &mut Result<ToolResult, ErrorObject>, version: ProtocolVersion) {
    if let Err(error) = result
        && error.code == ErrorCode::MISSING_CLIENT_CAPABILITY
        && !version.has(Ability::Stateless)
    {
        *result = Ok(ToolResult::error(&error.message));
    }
}

impl Output {
    fn check(&self, result: ToolResult, max_steps: u64) -> Result<ToolResult, ErrorObject> {
        if result.failed() {
            return Ok(result);
        }
        let violations = match &result.structured_content {
            Some(content) => self.schema.violations(content, "structuredContent", max_steps),
            None => vec!["structuredContent is missing".to_owned()],
        };
        if violations.is_empty() {
            return Ok(result);
        }
        let tool = &self.tool;
        let message = format!("tool {tool:?} gave what its output schema forbids: {}", violations.join("; "));
        Err(ErrorObject::internal(message))
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("spec", &self.0.spec).finish_non_exhaustive()
    }
}

/// A tool without its function yet.
#[derive(Debug)]
#[must_use = "a tool needs a handler"]
pub struct ToolBuilder {
    pub(crate) spec: ToolSpec,
    input: Option<Object>,
    output: Option<Object>,
    annotations: ToolAnnotations,
    front: Front<ToolResult>,
    blocking: bool,
    task: Option<(TaskMode, &'static TaskWays)>,
    keep: Option<Duration>,
}

impl ToolBuilder {
    /// Its name for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.spec.title = Some(title.into());
        self
    }

    /// What it does, for the model.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.spec.description = Some(description.into());
        self
    }

    /// A picture of it.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.spec.icons.get_or_insert_default().push(icon);
        self
    }

    /// It changes nothing.
    pub fn read_only(mut self) -> Self {
        self.annotations.read_only_hint = Some(true);
        self
    }

    /// It may destroy something, or not.
    pub fn destructive(mut self, destructive: bool) -> Self {
        self.annotations.destructive_hint = Some(destructive);
        self
    }

    /// Calling it again with the same arguments changes nothing more.
    pub fn idempotent(mut self) -> Self {
        self.annotations.idempotent_hint = Some(true);
        self
    }

    /// It deals with an open world, or not.
    pub fn open_world(mut self, open_world: bool) -> Self {
        self.annotations.open_world_hint = Some(open_world);
        self
    }

    /// Beside the subject. What was said there before stays if it is not said anew, such as [the page](ToolBuilder::app).
    #[expect(clippy::needless_pass_by_value, reason = "given away like everything else that a builder takes")]
    pub fn meta(mut self, meta: Meta) -> Self {
        self.spec.meta.get_or_insert_default().merge(&meta);
        self
    }

    /// A schema of your own for the arguments, instead of the one made from the handler's type.
    pub fn input_schema(mut self, schema: impl Into<Object>) -> Self {
        self.input = Some(schema.into());
        self
    }

    /// A schema of your own for the structured content, instead of the one made from the handler's type.
    pub fn output_schema(mut self, schema: impl Into<Object>) -> Self {
        self.output = Some(schema.into());
        self
    }

    /// Its function takes its time without being `async`: it is run on a thread of its own, where it keeps nobody waiting.
    /// Means something only with [`ToolBuilder::handler_sync`].
    pub fn blocking(mut self) -> Self {
        self.blocking = true;
        self
    }

    /// It takes its time: for a client that knows of tasks it runs as one, so that the client need not wait with an open request.
    /// One that is done at once answers at once. Its handler is written as any other. A question that it asks is one of the task, and a task that is cancelled drops it.
    pub fn task(mut self) -> Self {
        self.task = Some((TaskMode::Optional, &WAYS));
        self
    }

    /// As [`ToolBuilder::task`], and clients of 2025-11-25 and later that do not know of tasks are refused.
    pub fn task_required(mut self) -> Self {
        self.task = Some((TaskMode::Required, &WAYS));
        self
    }

    /// It begins as a call like any other, and may go on as a task from where its handler says
    /// [`Context::go_on_as_task`](crate::Context::go_on_as_task). What it asks before that belongs to the call.
    pub fn task_later(mut self) -> Self {
        self.task = Some((TaskMode::Later, &WAYS));
        self
    }

    /// For how long its tasks are kept from their beginning, if not as long as [`Tasks::keep_for`](crate::Tasks::keep_for) says.
    pub fn keep_task_for(mut self, time: Duration) -> Self {
        self.keep = Some(time);
        self
    }

    /// A layer in front of this tool alone; the last one added is the first to see a call.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<SharedService> + Send + Sync + 'static,
        L::Service: Service,
    {
        self.front.push(layer);
        self
    }

    /// The function behind it.
    pub fn handler<H: Handler<X>, X>(self, handler: H) -> Tool
    where
        H::Output: IntoToolResult,
    {
        let action: Action = Box::new(move |call| Ok(handler.call(call)?.map(IntoToolResult::into_tool_result)));
        self.finish(action, H::input_schema(), <H::Output as IntoToolResult>::output_schema())
    }

    /// The function behind it, if it answers at once. The connection waits for it: one that computes for long, reads files or
    /// sleeps needs [`ToolBuilder::blocking`], too.
    pub fn handler_sync<H: SyncHandler<X>, X>(self, handler: H) -> Tool
    where
        H::Output: IntoToolResult,
    {
        let action: Action = if self.blocking {
            Box::new(move |call| Ok(on_a_thread(handler.clone(), call.clone())))
        } else {
            Box::new(move |call| Ok(Ready::now(handler.call(call)?.into_tool_result())))
        };
        self.finish(action, H::input_schema(), <H::Output as IntoToolResult>::output_schema())
    }

    fn finish(mut self, action: Action, input: Option<Value>, output: Option<Value>) -> Tool {
        let mut fault = None;
        if !ToolSpec::is_valid_name(&self.spec.name) {
            fault = Some("a name is 1 to 128 letters, digits, `_`, `-` and `.`".to_owned());
        }
        let mut keep = |schema: Result<Schema, SchemaError>| match schema {
            Ok(schema) => Some(schema),
            Err(error) => {
                fault.get_or_insert_with(|| error.to_string());
                None
            }
        };
        let input = keep(match self.input {
            Some(own) => Schema::compile(own),
            None => input.map_or_else(|| Ok(Schema::empty()), |made| Schema::of_type(&made)),
        });
        let output = match (self.output, output) {
            (Some(own), _) => keep(Schema::compile(own)),
            (None, Some(made)) => keep(Schema::of_type(&made)),
            (None, None) => None,
        };
        if let Some(schema) = &input {
            self.spec.input_schema = schema.object().clone();
        }
        self.spec.output_schema = output.as_ref().map(|schema| schema.object().clone());
        let support = self.task.map(|(mode, _)| match mode {
            TaskMode::Required => TaskSupport::Required,
            TaskMode::Optional | TaskMode::Later => TaskSupport::Optional,
        });
        self.spec.execution = support.map(|support| ToolExecution::new().task_support(support));
        if self.annotations != ToolAnnotations::new() {
            self.spec.annotations = Some(self.annotations);
        }
        let headers = match param_headers(&self.spec.input_schema) {
            Ok(headers) => headers,
            Err(problem) => {
                fault.get_or_insert(problem);
                None
            }
        };
        let output = output.map(|schema| Arc::new(Output { tool: self.spec.name.clone(), schema }));
        let checked = Checked { input, output, action };
        let run = self.front.before(CallTool::NAME, &self.spec.name, Box::new(move |call| checked.run(call)));
        Tool(Arc::new(Inner { spec: self.spec, headers, run, task: self.task, keep: self.keep, fault }))
    }
}

fn on_a_thread<H: SyncHandler<X>, X>(handler: H, mut call: Call) -> Ready<Result<ToolResult, ErrorObject>>
where
    H::Output: IntoToolResult,
{
    let context = call.context.clone();
    let work = tokio::task::spawn_blocking(move || handler.call(&mut call).map(IntoToolResult::into_tool_result));
    Ready::later(async move {
        match work.await {
            Ok(Ok(result)) => result,
            Ok(Err(rejection)) => rejection.into_tool_result(&context),
            Err(_) => Err(ErrorObject::internal("the handler panicked")),
        }
    })
}

fn param_headers(schema: &Object) -> Result<Option<ParamHeaders>, String> {
    if !schema.as_str().contains("x-mcp-header") {
        return Ok(None);
    }
    let value: Value = schema.decode().map_err(|error| error.to_string())?;
    let headers = ParamHeaders::from_schema(&value).map_err(|error| error.to_string())?;
    Ok(Some(headers).filter(|headers| !headers.is_empty()))
}

/// What [`Server::tool`](crate::Server::tool) takes: a [`Tool`], or a function that makes one, as `#[tool]` writes it.
/// `M` only tells the two apart.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    label = "not a tool",
    note = "put `#[tool]` on the function, or build one with `Tool::builder(\"name\").handler(..)`"
)]
pub trait IntoTool<M> {
    /// Makes the tool.
    fn into_tool(self) -> Tool;
}

impl IntoTool<()> for Tool {
    fn into_tool(self) -> Tool {
        self
    }
}

impl<F: FnOnce() -> Tool> IntoTool<fn() -> Tool> for F {
    fn into_tool(self) -> Tool {
        self()
    }
}

/// For no type at all. With a second implementation to consider, the compiler says that a function is not a tool rather than that
/// it takes too many arguments.
#[doc(hidden)]
impl<T: Into<Infallible>> IntoTool<Infallible> for T {
    fn into_tool(self) -> Tool {
        unreachable!("no value becomes `Infallible`")
    }
}
