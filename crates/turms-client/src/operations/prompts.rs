use serde::Serialize;
use turms_proto::types::{
    Complete, CompleteParams, CompleteResult, Completion, CompletionArgument, CompletionContext, Cursor, GetPrompt,
    GetPromptResult, ListPrompts, ListPromptsResult, Prompt, Reference,
};

use crate::call::request::{prompt_params, string_arguments};
use crate::call::{Call, CallRequest};
use crate::client::Client;
use crate::page::{self, Items};

impl Client {
    /// Lists all prompts.
    pub fn list_prompts(&self) -> Call<Vec<Prompt>> {
        page::list::<ListPrompts>(self)
    }

    /// Lists one page of prompts.
    pub fn list_prompts_page(&self, cursor: impl Into<Option<Cursor>>) -> Call<ListPromptsResult> {
        page::page::<ListPrompts>(self, cursor.into())
    }

    /// Returns a stream of all prompts, which reads page by page.
    #[must_use]
    pub fn stream_prompts(&self) -> Items<Prompt> {
        Items::new::<ListPrompts>(self)
    }

    /// Gets a prompt. The arguments are anything that serializes to a JSON object of strings, or `()`; a field that is `None` is not
    /// sent.
    pub fn get_prompt(&self, name: impl Into<String>, arguments: impl Serialize) -> Call<GetPromptResult> {
        let params = prompt_params(name.into(), &arguments);
        Call::new(self, params.map(CallRequest::multi_round::<GetPrompt, _>), |call, output| output.take(call))
    }

    /// Completes an argument of a prompt or a resource template. [`Call::arguments`] sends the other arguments along.
    pub fn complete(
        &self,
        reference: impl Into<Reference>,
        argument: impl Into<String>,
        value: impl Into<String>,
    ) -> Call<Completion> {
        let params = CompleteParams::new(reference, CompletionArgument::new(argument, value));
        Call::new(self, Ok(CallRequest::new::<Complete>(params)), |call, output| {
            Ok(output.take::<CompleteResult>(call)?.completion)
        })
    }
}

impl Call<Completion> {
    /// Sets the arguments that are known already: anything that serializes to a JSON object of strings, or `()`. A field that is
    /// `None` is not sent.
    pub fn arguments(self, known: impl Serialize) -> Self {
        self.map_request(|request| {
            let mut params: CompleteParams = request.params_as()?;
            let known = string_arguments(&known, request.target())?.filter(|known| !known.is_empty());
            params.context = known.map(|known| CompletionContext::new().arguments(known));
            Ok(request.with_params(params))
        })
    }
}
