//! `completion/complete`.

use turms_core::{CallResult, Payload, ServiceError};
use turms_proto::ErrorObject;
use turms_proto::method::Method as _;
use turms_proto::types::{Complete, CompleteParams, CompleteResult, Reference};

use super::{Router, find_in_catalogs};
use crate::completion;
use crate::context::Context;
use crate::handler::CallParts;
use crate::server::Component;

impl Router {
    pub(super) async fn complete(self, params: Payload, context: Context) -> CallResult {
        let params: CompleteParams = params.take()?;
        if self.0.handle.catalog().capabilities().completions.is_none() {
            return Err(ServiceError::method_not_found(Complete::NAME));
        }
        let known = params.context.and_then(|context| context.arguments);
        let input = completion::input(params.argument.value, known);
        let meta = self.result_meta(&context);
        let argument = &params.argument.name;
        let completed = match &params.reference {
            Reference::Prompt(reference) => {
                let prompt = self.find_prompt(&reference.name, &context)?;
                prompt.complete(argument, CallParts::new(context, input))
            }
            Reference::Resource(reference) => {
                let found = find_in_catalogs(&self.0.handle.catalog(), &context, |catalog| {
                    catalog.templates.get(&reference.uri).or_else(|| catalog.resource(&reference.uri)).cloned()
                });
                match found {
                    Some(resource) if self.0.settings.check_item(Component::Resource(&resource), &context)? => {
                        resource.complete(argument, CallParts::new(context, input))
                    }
                    _ => return Err(ErrorObject::resource_not_found(&reference.uri).into()),
                }
            }
            _ => return Err(ErrorObject::invalid_params("unknown kind of reference in params.ref").into()),
        };
        let mut result = CompleteResult::new(completed.await?);
        result.meta = meta;
        Ok(Payload::new(result))
    }
}
