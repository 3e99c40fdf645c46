//! A prompt: what it is, and the function behind it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use turms_core::layer::Layer;
use turms_core::{Ready, Service};
use turms_proto::ErrorObject;
use turms_proto::method::Method as _;
use turms_proto::types::{Completion, GetPrompt, Icon, Meta, Prompt as PromptSpec, PromptArgument, PromptResult};

use crate::completion::{Completer, completer};
use crate::front::{Front, Run, SharedService};
use crate::handler::{Call, Handler, Rejection, SyncHandler};
use crate::respond::{IntoCompletion, IntoPromptResult};
use crate::text_arguments::TextArguments;

/// Messages prepared for a model: what they are, and the function that makes them.
#[derive(Clone)]
pub struct Prompt(Arc<Inner>);

struct Inner {
    spec: PromptSpec,
    run: Run<PromptResult>,
    completers: HashMap<String, Completer>,
    /// The reason why it cannot be used; said when the server is built rather than when the prompt is called.
    fault: Option<String>,
}

type Action = Box<dyn Fn(&mut Call) -> Result<Ready<Result<PromptResult, ErrorObject>>, Rejection> + Send + Sync>;

impl Prompt {
    /// Begins a prompt of this name.
    pub fn builder(name: impl Into<String>) -> PromptBuilder {
        PromptBuilder { spec: PromptSpec::new(name), completers: HashMap::new(), front: Front::default() }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.spec.name
    }

    /// What clients are told of it.
    #[must_use]
    pub fn spec(&self) -> &PromptSpec {
        &self.0.spec
    }

    pub(crate) fn fault(&self) -> Option<&str> {
        self.0.fault.as_deref()
    }

    pub(crate) fn call(&self, call: Call) -> Ready<Result<PromptResult, ErrorObject>> {
        (self.0.run)(call)
    }

    pub(crate) fn complete(&self, argument: &str, call: Call) -> Ready<Result<Completion, ErrorObject>> {
        match self.0.completers.get(argument) {
            Some(completer) => completer(call),
            None => Ready::now(Ok(Completion::new(Vec::new()))),
        }
    }

    pub(crate) fn completes(&self) -> bool {
        !self.0.completers.is_empty()
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt").field("spec", &self.0.spec).finish_non_exhaustive()
    }
}

/// A prompt without its function yet.
#[must_use = "a prompt needs a handler"]
pub struct PromptBuilder {
    spec: PromptSpec,
    completers: HashMap<String, Completer>,
    front: Front<PromptResult>,
}

impl PromptBuilder {
    /// Its name for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.spec.title = Some(title.into());
        self
    }

    /// What it is for.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.spec.description = Some(description.into());
        self
    }

    /// A picture of it.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.spec.icons.get_or_insert_default().push(icon);
        self
    }

    /// Beside the subject.
    pub fn meta(mut self, meta: Meta) -> Self {
        self.spec.meta = Some(meta);
        self
    }

    /// An argument, described by hand; otherwise they are read off the handler's type.
    pub fn argument(mut self, argument: PromptArgument) -> Self {
        self.spec.arguments.get_or_insert_default().push(argument);
        self
    }

    /// What could stand in an argument. The handler takes [`Completing`](crate::Completing).
    pub fn completion<H: Handler<X>, X>(mut self, argument: impl Into<String>, handler: H) -> Self
    where
        H::Output: IntoCompletion,
    {
        self.completers.insert(argument.into(), completer(handler));
        self
    }

    /// A layer in front of this prompt alone; the last one added is the first to see a call.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<SharedService> + Send + Sync + 'static,
        L::Service: Service,
    {
        self.front.push(layer);
        self
    }

    /// The function behind it.
    pub fn handler<H: Handler<X>, X>(self, handler: H) -> Prompt
    where
        H::Output: IntoPromptResult,
    {
        let action: Action = Box::new(move |call| Ok(handler.call(call)?.map(IntoPromptResult::into_prompt_result)));
        self.finish(action, H::input_schema())
    }

    /// The function behind it, if it answers at once.
    pub fn handler_sync<H: SyncHandler<X>, X>(self, handler: H) -> Prompt
    where
        H::Output: IntoPromptResult,
    {
        let action: Action = Box::new(move |call| Ok(Ready::now(handler.call(call)?.into_prompt_result())));
        self.finish(action, H::input_schema())
    }

    fn finish(mut self, action: Action, schema: Option<Value>) -> Prompt {
        let (constraints, fault) = match schema.as_ref().map(TextArguments::of_type).transpose() {
            Ok(constraints) => (constraints.flatten(), None),
            Err(error) => (None, Some(error.to_string())),
        };
        if self.spec.arguments.is_none()
            && let Some(schema) = schema
        {
            self.spec.arguments = Some(arguments_of(&schema)).filter(|arguments| !arguments.is_empty());
        }
        let run = move |mut call: Call| {
            let checked = constraints.as_ref().map_or(Ok(()), |constraints| constraints.check(&call));
            match checked.and_then(|()| action(&mut call)) {
                Ok(running) => running,
                Err(rejection) => Ready::now(Err(rejection.into_error(&call.context))),
            }
        };
        let run = self.front.before(GetPrompt::NAME, &self.spec.name, Box::new(run));
        Prompt(Arc::new(Inner { spec: self.spec, run, completers: self.completers, fault }))
    }
}

impl fmt::Debug for PromptBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PromptBuilder").field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// The arguments of a prompt, from the schema of the type that its handler takes.
fn arguments_of(schema: &Value) -> Vec<PromptArgument> {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties
        .map(|(name, property)| {
            let mut argument = PromptArgument::new(name.as_str()).required(required.contains(&name.as_str()));
            argument.description = property["description"].as_str().map(str::to_owned);
            argument.title = property["title"].as_str().map(str::to_owned);
            argument
        })
        .collect()
}

/// What [`Server::prompt`](crate::Server::prompt) takes: a [`Prompt`], or a function that makes one, as `#[prompt]` writes it.
/// `M` only tells the two apart.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a prompt",
    label = "not a prompt",
    note = "put `#[prompt]` on the function, or build one with `Prompt::builder(\"name\").handler(..)`"
)]
pub trait IntoPrompt<M> {
    /// Makes the prompt.
    fn into_prompt(self) -> Prompt;
}

impl IntoPrompt<()> for Prompt {
    fn into_prompt(self) -> Prompt {
        self
    }
}

impl<F: FnOnce() -> Prompt> IntoPrompt<fn() -> Prompt> for F {
    fn into_prompt(self) -> Prompt {
        self()
    }
}

/// For no type at all. With a second implementation to consider, the compiler says that a function is not a prompt rather than that
/// it takes too many arguments.
#[doc(hidden)]
impl<T: Into<Infallible>> IntoPrompt<Infallible> for T {
    fn into_prompt(self) -> Prompt {
        unreachable!("no value becomes `Infallible`")
    }
}
