//! Prompts: their descriptions and handlers.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use turms_core::layer::Layer;
use turms_core::{BoxFuture, Payload, Request, Service, ServiceError};
use turms_proto::types::{
    Completion, GetPrompt, GetPromptParams, GetPromptResult, Icon, Meta, Prompt as PromptDefinition, PromptArgument,
};

use crate::completion::{Completer, complete, completer};
use crate::context::Context;
use crate::handler::{BoxedHandler, CallParts, Handler, Input, Rejection, SyncHandler};
use crate::layered::{Innermost, LayerStack, call_layered};
use crate::respond::{IntoCompletion, IntoGetPromptResult};
use crate::sealed::Seal;
use crate::text_arguments::TextArguments;

/// A prompt: its description, and the handler that creates its messages.
#[derive(Clone)]
pub struct Prompt {
    core: Arc<PromptCore>,
    /// The prompt wrapped in its layers, if it has any.
    layered: Option<Arc<dyn Service>>,
}

/// A prompt without its layers.
struct PromptCore {
    definition: PromptDefinition,
    constraints: Option<TextArguments>,
    handler: BoxedHandler<GetPromptResult>,
    completers: HashMap<String, Completer>,
    scopes: Vec<String>,
    /// The registration error. It is reported when the server is built, not when the prompt is requested.
    fault: Option<String>,
}

impl Prompt {
    /// Creates a builder for a prompt with a name.
    pub fn builder(name: impl Into<String>) -> PromptBuilder {
        PromptBuilder {
            definition: PromptDefinition::new(name),
            completers: HashMap::new(),
            layers: LayerStack::default(),
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
    pub fn definition(&self) -> &PromptDefinition {
        &self.core.definition
    }

    /// Returns the scopes that callers need.
    #[must_use]
    pub fn scopes(&self) -> &[String] {
        &self.core.scopes
    }

    pub(crate) fn fault(&self) -> Option<&str> {
        self.core.fault.as_deref()
    }

    /// Gets the prompt, through its layers if it has any.
    pub(crate) async fn call(
        &self,
        params: GetPromptParams,
        context: Context,
    ) -> Result<GetPromptResult, ServiceError> {
        match &self.layered {
            None => self.core.run(params, context).await,
            Some(layered) => call_layered(layered.clone(), Request::new::<GetPrompt>(params), context).await,
        }
    }

    pub(crate) fn complete(
        &self,
        argument: &str,
        call: CallParts,
    ) -> BoxFuture<'static, Result<Completion, ServiceError>> {
        complete(&self.core.completers, argument, call)
    }

    pub(crate) fn completes(&self) -> bool {
        !self.core.completers.is_empty()
    }
}

impl PromptCore {
    async fn run(&self, params: GetPromptParams, context: Context) -> Result<GetPromptResult, ServiceError> {
        let call = CallParts::new(context, Input::Texts(params.arguments.unwrap_or_default()));
        let checked = match &self.constraints {
            Some(constraints) => constraints.check(&call).await,
            None => Ok(()),
        };
        let result = match checked {
            Ok(()) => (self.handler)(call).await,
            Err(rejection) => Err(rejection),
        };
        result.map_err(Rejection::into_error)
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt").field("definition", &self.core.definition).finish_non_exhaustive()
    }
}

/// A builder for prompts.
#[must_use = "a prompt needs a handler"]
pub struct PromptBuilder {
    definition: PromptDefinition,
    completers: HashMap<String, Completer>,
    layers: LayerStack,
    scopes: Vec<String>,
}

impl PromptBuilder {
    /// Sets the human-readable title.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.definition.title = Some(title.into());
        self
    }

    /// Sets the description.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.definition.description = Some(description.into());
        self
    }

    /// Adds an icon.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.definition.icons.get_or_insert_default().push(icon);
        self
    }

    /// Protocol metadata (`_meta`).
    pub fn meta(mut self, meta: Meta) -> Self {
        self.definition.meta = Some(meta);
        self
    }

    /// Adds the description of an argument. Without it, the arguments are derived from the handler's type.
    pub fn argument(mut self, argument: PromptArgument) -> Self {
        self.definition.arguments.get_or_insert_default().push(argument);
        self
    }

    /// Sets the completion handler of an argument. It extracts [`CompletionRequest`](crate::CompletionRequest).
    pub fn completion<H: Handler<X>, X>(mut self, argument: impl Into<String>, handler: H) -> Self
    where
        H::Output: IntoCompletion,
    {
        self.completers.insert(argument.into(), completer(handler));
        self
    }

    /// Sets the scopes that callers over a network need for this prompt and its completions. Default: none. A caller without them gets
    /// an error that names them, with HTTP status 403. Calls over stdio and within the process are checked only if they have a principal.
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a layer around this prompt. The layer added last is the outermost.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Arc<dyn Service>> + Send + Sync + 'static,
        L::Service: Service,
    {
        self.layers.push(layer);
        self
    }

    /// Sets the async handler and finishes the prompt.
    pub fn handler<H: Handler<X>, X>(self, handler: H) -> Prompt
    where
        H::Output: IntoGetPromptResult,
    {
        let boxed: BoxedHandler<GetPromptResult> = Box::new(move |call| {
            let handler = handler.clone();
            Box::pin(async move { Ok(handler.call(call).await?.into_get_prompt_result()?) })
        });
        self.finish(boxed, H::input_schema())
    }

    /// Sets a handler that is not async and finishes the prompt. It must not block.
    pub fn handler_sync<H: SyncHandler<X>, X>(self, handler: H) -> Prompt
    where
        H::Output: IntoGetPromptResult,
    {
        let boxed: BoxedHandler<GetPromptResult> = Box::new(move |mut call| {
            let handler = handler.clone();
            Box::pin(async move { Ok(handler.call(&mut call)?.into_get_prompt_result()?) })
        });
        self.finish(boxed, H::input_schema())
    }

    fn finish(mut self, handler: BoxedHandler<GetPromptResult>, schema: Option<Value>) -> Prompt {
        let (constraints, fault) = match schema.as_ref().map(TextArguments::of_type).transpose() {
            Ok(constraints) => (constraints.flatten(), None),
            Err(error) => (None, Some(format!("invalid schema of the arguments: {}", error.reason()))),
        };
        if self.definition.arguments.is_none()
            && let Some(schema) = schema
        {
            self.definition.arguments = Some(arguments_of(&schema)).filter(|arguments| !arguments.is_empty());
        }
        let core = Arc::new(PromptCore {
            definition: self.definition,
            constraints,
            handler,
            completers: self.completers,
            scopes: self.scopes,
            fault,
        });
        let innermost = core.clone();
        let layered = self.layers.wrap(Innermost(move |request: Request, context| {
            let core = innermost.clone();
            async move { Ok(Payload::new(core.run(request.params.take()?, context).await?)) }
        }));
        Prompt { core, layered }
    }
}

impl fmt::Debug for PromptBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PromptBuilder").field("definition", &self.definition).finish_non_exhaustive()
    }
}

/// Derives the arguments of a prompt from the schema of its handler's type.
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

/// Conversion for [`Server::prompt`](crate::Server::prompt): from a [`Prompt`], or from a function that creates one, as
/// generated by `#[prompt]`. `M` only distinguishes the two implementations.
/// Other types cannot implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a prompt",
    label = "not a prompt",
    note = "put `#[prompt]` on the function, or build one with `Prompt::builder(\"name\").handler(..)`"
)]
pub trait IntoPrompt<M> {
    /// Converts to the prompt.
    fn into_prompt(self) -> Prompt;

    #[doc(hidden)]
    fn sealed(_: Seal);
}

impl IntoPrompt<()> for Prompt {
    fn into_prompt(self) -> Prompt {
        self
    }

    fn sealed(_: Seal) {}
}

impl<F: FnOnce() -> Prompt> IntoPrompt<fn() -> Prompt> for F {
    fn into_prompt(self) -> Prompt {
        self()
    }

    fn sealed(_: Seal) {}
}

/// Implemented for no type. Because of this second candidate, the compiler reports that a function is not a prompt
/// instead of that it takes too many arguments.
#[doc(hidden)]
impl<T: Into<Infallible>> IntoPrompt<Infallible> for T {
    fn into_prompt(self) -> Prompt {
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

        let it = Prompt::builder("greet");
        let code = [("PromptBuilder::scopes", when(it.scopes.is_empty(), "none"))];
        assert_documented(include_str!("prompt.rs"), &code);
    }
}
