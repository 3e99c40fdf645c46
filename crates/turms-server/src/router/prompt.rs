//! Prompts: how they are got and listed.

use turms_core::{Payload, ResponseFuture, ServiceError};
use turms_proto::method::Method as _;
use turms_proto::types::{GetPrompt, GetPromptParams, ListPromptsResult, PromptResult};
use turms_proto::{ErrorObject, Object, ProtocolVersion, RawJson};
use turms_schema::shortened;

use super::{Bare, RoundParts, Way, answer, find};
use crate::catalog::{Catalog, ListKind, ListStyle, write_pages};
use crate::context::Context;
use crate::handler::{Call, Input};
use crate::input;
use crate::prompt::Prompt;
use crate::server::Item;

/// What is done with prompts. Only what registers one names it, so that a program without any has none of it in it.
pub(crate) static WAYS: PromptWays = PromptWays { get: Bare::get_prompt, complete: Bare::complete, list };

/// See [`WAYS`].
#[derive(Debug)]
pub(crate) struct PromptWays {
    pub(super) get: Way,
    pub(super) complete: Way,
    /// Writes the pages of the list.
    pub(crate) list: fn(&Catalog, ProtocolVersion, &ListStyle) -> Vec<RawJson>,
}

fn list(catalog: &Catalog, version: ProtocolVersion, style: &ListStyle) -> Vec<RawJson> {
    let specs = catalog.prompts.iter().map(|prompt| prompt.spec().clone()).collect::<Vec<_>>();
    write_pages(&specs, version, style, ListPromptsResult::new)
}

impl Bare {
    fn get_prompt(&self, params: Payload, mut context: Context) -> Result<ResponseFuture, ServiceError> {
        let params: GetPromptParams = params.take()?;
        let catalog = self.handle.catalog();
        let prompt = self.prompt(&catalog, &context, &params.name).ok_or_else(|| {
            if !catalog.offers(ListKind::Prompts) {
                return ErrorObject::method_not_found(GetPrompt::NAME);
            }
            ErrorObject::invalid_params(format!("unknown prompt: {:?}", shortened(&params.name)))
        })?;
        let arguments = params.arguments.unwrap_or_default();
        for argument in prompt.spec().arguments.iter().flatten() {
            if argument.required == Some(true) && !arguments.contains_key(&argument.name) {
                return Err(ErrorObject::invalid_params(format!("arguments: missing field {:?}", argument.name)).into());
            }
        }
        let bound = Object::encode(&arguments).ok();
        let meta = self.result_meta(&context);
        let parts = RoundParts {
            method: GetPrompt::NAME,
            subject: &params.name,
            arguments: bound.as_ref(),
            state: params.request_state.as_deref(),
            responses: params.input_responses.as_ref(),
        };
        let rounds = self.rounds(&context, &parts, meta.as_ref());
        context.set_rounds(rounds.clone());
        let call = Call { context, input: Input::Texts(arguments) };
        Ok(input::run(prompt.call(call), rounds, move |outcome| {
            answer(outcome, meta, |result: &mut PromptResult| &mut result.meta)
        }))
    }

    pub(super) fn prompt(&self, catalog: &Catalog, context: &Context, name: &str) -> Option<Prompt> {
        let prompt = find(catalog, context, |catalog| catalog.prompts.get(name).cloned());
        prompt.filter(|prompt| self.settings.shows(Item::Prompt(prompt), context))
    }
}
