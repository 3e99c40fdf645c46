//! The error of handlers of a client.

use std::error::Error;
use std::fmt;

use turms_core::__internal::error_chain;
use turms_proto::{ErrorCode, ErrorObject};

/// Error of a handler for requests of a server. Every [`Error`] converts to it with `?`.
///
/// An [`ErrorObject`] is sent unchanged as the error response (before 2026-07-28). `HandlerError` does not implement
/// [`Error`] itself, because that would conflict with the conversion.
///
/// ```
/// # mod turms { pub use turms_client as client; }
/// use turms::client::HandlerError;
///
/// fn approve(answer: &str) -> Result<u32, HandlerError> {
///     if answer.is_empty() {
///         return Err(HandlerError::rejected("the user did not answer"));
///     }
///     Ok(answer.parse()?)
/// }
/// # assert!(approve("").unwrap_err().is_rejected());
/// # assert!(!approve("x").unwrap_err().is_rejected());
/// ```
pub struct HandlerError(HandlerErrorKind);

enum HandlerErrorKind {
    Rejected(String),
    Failed(Box<dyn Error + Send + Sync>),
}

impl HandlerError {
    /// Creates the error of a request that the user rejects (code -1).
    pub fn rejected(reason: impl Into<String>) -> Self {
        Self(HandlerErrorKind::Rejected(reason.into()))
    }

    /// Creates the error of a request that failed (code -32603).
    pub fn new(reason: impl fmt::Display) -> Self {
        Self(HandlerErrorKind::Failed(reason.to_string().into()))
    }

    pub(crate) fn into_boxed(self) -> Box<dyn Error + Send + Sync> {
        match self.0 {
            HandlerErrorKind::Rejected(reason) => reason.into(),
            HandlerErrorKind::Failed(error) => error,
        }
    }

    /// Returns `true` if the user rejected the request.
    #[must_use]
    pub fn is_rejected(&self) -> bool {
        matches!(self.0, HandlerErrorKind::Rejected(_))
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self(HandlerErrorKind::Failed(error.into()))
    }
}

/// The error response.
impl From<HandlerError> for ErrorObject {
    fn from(error: HandlerError) -> Self {
        match error.0 {
            HandlerErrorKind::Rejected(reason) => Self::new(ErrorCode::USER_REJECTED, reason),
            HandlerErrorKind::Failed(error) => match error.downcast::<Self>() {
                Ok(error) => *error,
                Err(error) => Self::internal(error_chain(&*error)),
            },
        }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            HandlerErrorKind::Rejected(reason) => f.write_str(reason),
            HandlerErrorKind::Failed(error) => f.write_str(&error_chain(&**error)),
        }
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_converts_and_a_protocol_error_stays_what_it_is() {
        let response = |error: HandlerError| ErrorObject::from(error);
        assert_eq!(response(HandlerError::rejected("no")), ErrorObject::new(ErrorCode::USER_REJECTED, "no"));
        assert_eq!(response(HandlerError::new("off")), ErrorObject::internal("off"));
        let parsed = HandlerError::from("x".parse::<u32>().unwrap_err());
        assert_eq!(response(parsed), ErrorObject::internal("invalid digit found in string"));
        let own = ErrorObject::invalid_params("too long");
        assert_eq!(response(own.clone().into()), own);
    }
}
