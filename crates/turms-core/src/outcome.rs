//! What comes of a call, on its way to a wire.

use turms_proto::jsonrpc::encode;
use turms_proto::{EncodeError, ProtocolVersion, RequestId};

use crate::error::{ErrorOrigin, ServiceError};
use crate::payload::Payload;

/// What comes of a call.
pub type Outcome = Result<Payload, ServiceError>;

/// An outcome in the words of an older revision.
///
/// # Errors
/// The error that the call ended with, or that its result is not one of this method's.
pub fn lower_outcome(outcome: Outcome, method: &str, to: ProtocolVersion) -> Outcome {
    match outcome {
        Ok(mut payload) => match payload.lower_result(method, to) {
            Ok(()) => Ok(payload),
            Err(problem) => {
                let message = format!("the result of {method} is not one: {problem}");
                Err(ServiceError::internal(ErrorOrigin::Internal, message))
            }
        },
        Err(mut error) => {
            error.lower(to);
            Err(error)
        }
    }
}

/// Appends an outcome to a buffer as the answer to a request. A result that cannot be written as JSON becomes an error.
pub fn write_outcome(out: &mut Vec<u8>, id: &RequestId, outcome: Outcome) {
    let written = outcome.and_then(|payload| {
        encode::success_with(out, id, |out| payload.write(out)).map_err(|error| unwritable(&error))
    });
    if let Err(error) = written {
        encode::failure(out, Some(id), &error);
    }
}

/// An outcome as the answer to a request, in a buffer that is large enough from the beginning where that is known.
#[must_use]
pub fn written_outcome(id: &RequestId, outcome: Outcome) -> Vec<u8> {
    let size = outcome.as_ref().map_or(0, Payload::size_hint);
    let mut out = Vec::with_capacity(size + 256);
    write_outcome(&mut out, id, outcome);
    out
}

/// What to say of a result that cannot be written as JSON.
pub(crate) fn unwritable(error: &EncodeError) -> ServiceError {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    ServiceError::internal(ErrorOrigin::Internal, format!("the result cannot be written as JSON: {cause}"))
}
