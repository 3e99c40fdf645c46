//! Translation of error codes, some of which 2026-07-28 changed or removed.

use super::{Ability, ProtocolVersion, Translate};
use crate::json::Object;
use crate::jsonrpc::{ErrorCode, ErrorObject};
use crate::types::{ElicitParams, ElicitUrl, InputRequest, InputRequiredResult, UrlElicitationRequired};

impl Translate for ErrorObject {
    fn lower(&mut self, to: ProtocolVersion) {
        if !to.has(Ability::ResourceErrorsAsInvalidParams) && self.is_resource_not_found() {
            self.code = ErrorCode::RESOURCE_NOT_FOUND;
        }
        if !to.has(Ability::Stateless) {
            self.code = match self.code {
                ErrorCode::UNSUPPORTED_VERSION => ErrorCode::INVALID_PARAMS,
                ErrorCode::HEADER_MISMATCH | ErrorCode::MISSING_CLIENT_CAPABILITY => ErrorCode::INVALID_REQUEST,
                code => code,
            };
        }
    }

    fn raise(&mut self, from: ProtocolVersion) {
        let older = !from.has(Ability::ResourceErrorsAsInvalidParams);
        let names_uri = self.data.as_ref().and_then(|data| data.member("uri")).is_some();
        if older && names_uri && self.code == ErrorCode::RESOURCE_NOT_FOUND {
            self.code = ErrorCode::INVALID_PARAMS;
        }
    }
}

/// Creates the error for a batch in a revision without [`Ability::Batching`].
#[must_use]
pub fn unexpected_batch() -> ErrorObject {
    ErrorObject::invalid_request("batches exist in revision 2025-03-26 only: send one message at a time")
}

/// Converts error -32042 of 2025-11-25 to input requests: the URLs to visit before the request is retried.
#[must_use]
pub fn raise_url_elicitation(error: &ErrorObject) -> Option<InputRequiredResult> {
    if error.code != ErrorCode::URL_ELICITATION_REQUIRED {
        return None;
    }
    let required: UrlElicitationRequired = error.data_as()?.ok()?;
    let pages = required.elicitations.into_iter().enumerate();
    Some(pages.fold(InputRequiredResult::new(), |round, (index, mut page)| {
        let key = page.elicitation_id.take().unwrap_or_else(|| index.to_string());
        page.lower_members(ProtocolVersion::LATEST);
        round.with_request(key, ElicitParams::Url(page))
    }))
}

/// Creates error -32042 for a client of 2025-11-25 if all input requests are URLs; `None` otherwise.
#[must_use]
pub fn lower_url_elicitation(round: &InputRequiredResult) -> Option<ErrorObject> {
    let requests = round.input_requests.as_ref().filter(|requests| !requests.is_empty())?;
    let page = |(key, request): (&String, &InputRequest)| match request {
        InputRequest::Elicit(params) => match &**params {
            ElicitParams::Url(url) => Some(url.clone().elicitation_id(key)),
            ElicitParams::Form(_) => None,
        },
        _ => None,
    };
    let pages = requests.iter().map(page).collect::<Option<Vec<ElicitUrl>>>()?;
    let data = Object::encode(&UrlElicitationRequired::new(pages)).ok()?;
    Some(ErrorObject::new(ErrorCode::URL_ELICITATION_REQUIRED, "a URL has to be visited first").data(data))
}
