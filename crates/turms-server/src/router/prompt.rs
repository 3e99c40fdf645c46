//! `prompts/get`.

use std::pin::pin;

use turms_core::{CallResult, Payload, ServiceError};
use turms_proto::method::Method as _;
use turms_proto::types::{GetPrompt, GetPromptParams};
use turms_proto::{ErrorObject, Object};
use turms_schema::shortened;

use super::{RoundRequest, Router, find_in_catalogs, respond};
use crate::catalog::CatalogList;
use crate::context::Context;
use crate::input::run_round;
use crate::prompt::Prompt;
use crate::server::Component;

impl Router {
    pub(super) async fn get_prompt(self, params: Payload, context: Context) -> CallResult {
        self.require_kind(CatalogList::Prompts, GetPrompt::NAME, &context)?;
        let params: GetPromptParams = params.take()?;
        let prompt = self.find_prompt(&params.name, &context)?;
        let has = |name: &str| params.arguments.as_ref().is_some_and(|arguments| arguments.contains_key(name));
        for argument in prompt.definition().arguments.iter().flatten() {
            if argument.required == Some(true) && !has(&argument.name) {
                return Err(ErrorObject::invalid_params(format!("arguments: missing field {:?}", argument.name)).into());
            }
        }
        let bound = Object::encode(&params.arguments.clone().unwrap_or_default()).ok();
        let server = self.result_meta(&context);
        let round = RoundRequest {
            method: GetPrompt::NAME,
            target: &params.name,
            arguments: bound.as_ref(),
            state: params.request_state.as_deref(),
            responses: params.input_responses.as_ref(),
        };
        let context = self.with_rounds(context, &round, server.as_ref());
        let rounds = context.rounds().cloned();
        let end = run_round(pin!(prompt.call(params, context)), rounds.as_deref()).await;
        respond(end, server, |result| &mut result.meta)
    }

    /// Finds a prompt that the caller may use.
    pub(super) fn find_prompt(&self, name: &str, context: &Context) -> Result<Prompt, ServiceError> {
        let prompt = find_in_catalogs(&self.0.handle.catalog(), context, |catalog| catalog.prompts.get(name).cloned());
        match prompt {
            Some(prompt) if self.0.settings.check_item(Component::Prompt(&prompt), context)? => Ok(prompt),
            _ => Err(ErrorObject::invalid_params(format!("unknown prompt: {:?}", shortened(name))).into()),
        }
    }
}
