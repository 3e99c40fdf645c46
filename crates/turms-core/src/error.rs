//! The error of a call.

use std::fmt;
use std::ops::Deref;

use turms_proto::revision::Translate as _;
use turms_proto::{DecodeError, ErrorObject, ProtocolVersion};

/// The error of a call: the error object that the caller receives, and its origin.
///
/// Transports and layers decide by the origin, such as on an HTTP status, and never by the message. An [`ErrorObject`] becomes
/// an error of the handler.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceError(Box<Parts>);

#[derive(Debug, Clone, PartialEq)]
struct Parts {
    object: ErrorObject,
    origin: ErrorOrigin,
}

/// The part of a server that an error comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorOrigin {
    /// The parameters of the request cannot be read.
    Params,
    /// A handler, or anything that was asked for does not exist.
    Handler,
    /// A limit on the number or the rate of calls.
    Overloaded,
    /// A timeout.
    TimedOut,
    /// A handler that panicked.
    Panic,
    /// A fault of the server, such as a result that is too large or cannot be written as JSON.
    Internal,
}

impl ServiceError {
    /// Creates an error.
    #[must_use]
    pub fn new(origin: ErrorOrigin, object: ErrorObject) -> Self {
        Self(Box::new(Parts { object, origin }))
    }

    /// Creates an error with the code -32603.
    pub fn internal(origin: ErrorOrigin, message: impl Into<String>) -> Self {
        Self::new(origin, ErrorObject::internal(message))
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

    /// Fits the error object to a revision.
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
