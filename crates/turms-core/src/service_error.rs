//! The error of a call.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use turms_proto::revision::Translate as _;
use turms_proto::{DecodeError, ErrorCode, ErrorObject, ProtocolVersion, RawJson};

use crate::principal::InsufficientScopeError;

/// The error of a call: the error object that the caller receives, and its origin.
///
/// Transports and layers decide by the origin, such as on an HTTP status, and never by the message. An [`ErrorObject`] becomes
/// an error of the handler.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceError(Box<ServiceErrorParts>);

#[derive(Debug, Clone, PartialEq)]
struct ServiceErrorParts {
    object: ErrorObject,
    origin: ErrorOrigin,
    /// The scopes that the operation needs, if the origin is [`ErrorOrigin::Forbidden`].
    scopes: Vec<String>,
}

/// The part of a server that an error comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorOrigin {
    /// The parameters of the request are unreadable or invalid.
    Params,
    /// The server does not have the method.
    MethodNotFound,
    /// The error was returned by a handler.
    Handler,
    /// The caller does not have the [scopes](ServiceError::required_scopes) that the operation needs.
    Forbidden,
    /// The caller calls too often.
    RateLimited,
    /// The server is overloaded, regardless of the caller.
    Overloaded,
    /// The call took too long.
    TimedOut,
    /// A dependency of the server, such as a store, cannot be reached.
    Unavailable,
    /// The handler panicked.
    Panic,
    /// An internal error of the server, such as a result that is too large or cannot be encoded as JSON.
    Internal,
}

impl ErrorOrigin {
    /// Returns the code of errors that Turms itself creates: -32050 to -32053, which the specification leaves to servers, for those that are
    /// worth a retry, and the codes of JSON-RPC for the others.
    #[must_use]
    pub fn code(self) -> ErrorCode {
        match self {
            Self::Params => ErrorCode::INVALID_PARAMS,
            Self::MethodNotFound => ErrorCode::METHOD_NOT_FOUND,
            Self::Forbidden => ErrorCode::INVALID_REQUEST,
            Self::RateLimited => ErrorCode::RATE_LIMITED,
            Self::Overloaded => ErrorCode::OVERLOADED,
            Self::TimedOut => ErrorCode::TIMED_OUT,
            Self::Unavailable => ErrorCode::UNAVAILABLE,
            Self::Handler | Self::Panic | Self::Internal => ErrorCode::INTERNAL_ERROR,
        }
    }
}

impl ServiceError {
    /// Creates an error.
    #[must_use]
    pub fn new(origin: ErrorOrigin, object: ErrorObject) -> Self {
        Self(Box::new(ServiceErrorParts { object, origin, scopes: Vec::new() }))
    }

    /// Creates an error with the [code](ErrorOrigin::code) of its origin.
    pub fn internal(origin: ErrorOrigin, message: impl Into<String>) -> Self {
        Self::new(origin, ErrorObject::new(origin.code(), message))
    }

    /// Creates an error for a call that may succeed later, with the time to wait as `retryAfterMs` in its data.
    pub fn retry_after(origin: ErrorOrigin, message: impl Into<String>, wait: Duration) -> Self {
        let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut object = ErrorObject::new(origin.code(), message);
        object.data = RawJson::parse(format!(r#"{{"retryAfterMs":{wait}}}"#)).ok();
        Self::new(origin, object)
    }

    /// Creates the error for a method that the server does not have.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(ErrorOrigin::MethodNotFound, ErrorObject::method_not_found(method))
    }

    /// Creates the error for a caller without the scopes that an operation needs.
    #[must_use]
    pub fn forbidden(error: InsufficientScopeError) -> Self {
        let scopes = error.scopes().to_vec();
        Self(Box::new(ServiceErrorParts { object: error.into(), origin: ErrorOrigin::Forbidden, scopes }))
    }

    /// The scopes that the operation needs, if the origin is [`ErrorOrigin::Forbidden`].
    #[must_use]
    pub fn required_scopes(&self) -> &[String] {
        &self.0.scopes
    }

    /// The origin of the error.
    #[must_use]
    pub fn origin(&self) -> ErrorOrigin {
        self.0.origin
    }

    /// The error object that the caller receives.
    #[must_use]
    pub fn into_object(self) -> ErrorObject {
        self.0.object
    }

    /// Lowers the error object to a revision.
    pub(crate) fn lower(&mut self, to: ProtocolVersion) {
        self.0.object.lower(to);
    }
}

/// The error object that the caller receives.
impl Deref for ServiceError {
    type Target = ErrorObject;

    fn deref(&self) -> &ErrorObject {
        &self.0.object
    }
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.object.fmt(f)
    }
}

impl std::error::Error for ServiceError {}

impl From<ErrorObject> for ServiceError {
    fn from(object: ErrorObject) -> Self {
        Self::new(ErrorOrigin::Handler, object)
    }
}

/// Parameters that cannot be decoded: -32602, with the path.
impl From<DecodeError> for ServiceError {
    fn from(error: DecodeError) -> Self {
        Self::new(ErrorOrigin::Params, error.into())
    }
}

impl From<ServiceError> for ErrorObject {
    fn from(error: ServiceError) -> Self {
        error.into_object()
    }
}
