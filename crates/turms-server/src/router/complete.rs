//! Completion of arguments of prompts and of variables of resources.

use turms_core::{Payload, ResponseFuture, ServiceError};
use turms_proto::ErrorObject;
use turms_proto::method::Method as _;
use turms_proto::types::{Complete, CompleteParams, CompleteResult, Reference};
use turms_schema::shortened;

use super::{Bare, find};
use crate::completion;
use crate::context::Context;
use crate::handler::Call;
use crate::server::Item;

impl Bare {
    pub(super) fn complete(&self, params: Payload, context: Context) -> Result<ResponseFuture, ServiceError> {
        let params: CompleteParams = params.take()?;
        let catalog = self.handle.catalog();
        if catalog.capabilities().completions.is_none() {
            return Err(ErrorObject::method_not_found(Complete::NAME).into());
        }
        let known = params.context.and_then(|context| context.arguments);
        let input = completion::input(params.argument.value, known);
        let meta = self.result_meta(&context);
        let call = Call { context, input };
        let running = match &params.reference {
            Reference::Prompt(reference) => match self.prompt(&catalog, &call.context, &reference.name) {
                Some(prompt) => prompt.complete(&params.argument.name, call),
                None => {
                    let name = shortened(&reference.name);
                    return Err(ErrorObject::invalid_params(format!("unknown prompt: {name:?}")).into());
                }
            },
            Reference::Resource(reference) => {
                let found = find(&catalog, &call.context, |catalog| {
                    catalog.templates.get(&reference.uri).or_else(|| catalog.resources.get(&reference.uri)).cloned()
                });
                match found.filter(|family| self.settings.shows(Item::Resource(family), &call.context)) {
                    Some(family) => family.complete(&params.argument.name, call),
                    None => return Err(ErrorObject::resource_not_found(&reference.uri).into()),
                }
            }
            _ => return Err(ErrorObject::invalid_params("unknown kind of reference in params.ref").into()),
        };
        Ok(running
            .map(move |completion| {
                completion.map(|completion| {
                    let mut result = CompleteResult::new(completion);
                    result.meta = meta;
                    Payload::new(result)
                })
            })
            .map(|result| result.map_err(Into::into)))
    }
}
