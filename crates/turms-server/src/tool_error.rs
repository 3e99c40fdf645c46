//! The error type for handlers that use `?` on errors of several types.

use std::error::Error;
use std::fmt;

use turms_core::__internal::error_chain;
use turms_core::{InsufficientScopeError, PeerError, ServiceError};
use turms_proto::ErrorObject;
use turms_proto::types::CallToolResult;

use crate::context::InputError;

type BoxError = Box<dyn Error + Send + Sync>;

/// An error type for handlers that use `?` on errors of several types.
///
/// Converts from any [`std::error::Error`], from strings, from `Box<dyn Error + Send + Sync>` and from `anyhow::Error`.
/// With the feature `anyhow`, an [`ErrorObject`] is found in an `anyhow::Error` even if it is the outermost error.
///
/// - A tool returns a result with `isError`. Its text is the message and its causes: `cannot read the index: not found`.
/// - A prompt, a resource or a completion fails with an internal error (-32603) with that message.
/// - If the error or one of its causes is an [`ErrorObject`] or a [`ServiceError`], the request fails with that protocol error
///   instead. The same holds for the error of [`Principal::require`](crate::Principal::require), and for an [`InputError`] for a
///   missing client capability (-32021), on which the host can act. Every other [`InputError`], such as a form without a
///   response, is a result with `isError`: the model learns of it and can go on without the input.
///
/// A `Result` with another error type behaves in the same way: its error is converted to this type.
///
/// ```
/// # mod turms { pub use turms_proto::ErrorObject; pub use turms_server::*; }
/// use turms::{Context, ErrorObject, Tool, ToolError};
///
/// async fn count(context: Context) -> Result<String, ToolError> {
///     let client = context.client_info().ok_or_else(|| ErrorObject::invalid_params("the client sends no clientInfo"))?;
///     let files = std::fs::read_to_string("files.txt")?;
///     let limit: usize = files.lines().next().unwrap_or("0").parse()?;
///     if limit == 0 {
///         return Err(ToolError::new("there is nothing to count"));
///     }
///     Ok(format!("{limit} files for {}", client.name))
/// }
///
/// let tool = Tool::builder("count").handler(count);
/// ```
#[doc(alias = "isError")]
pub struct ToolError(BoxError);

impl ToolError {
    /// Creates an error from a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into().into())
    }

    pub(crate) fn into_boxed(self) -> BoxError {
        self.0
    }

    /// Returns the protocol error in the chain of causes, if there is one.
    fn protocol_error(&self) -> Option<ServiceError> {
        let first: &(dyn Error + 'static) = &*self.0;
        if let Some(error) = unboxed::<ErrorObject>(first) {
            return Some(returned_error(error.clone()));
        }
        for error in std::iter::successors(Some(first), |&error| next(error)) {
            if let Some(error) = unboxed::<InsufficientScopeError>(error) {
                return Some(error.clone().into());
            }
            if let Some(error) = unboxed::<ServiceError>(error) {
                return Some(error.clone());
            }
            if let Some(error) = unboxed::<ErrorObject>(error) {
                return Some(error.clone().into());
            }
            if let Some(error) = unboxed::<InputError>(error) {
                return match error {
                    InputError::Unsupported(missing) => Some((**missing).clone().into()),
                    _ => None,
                };
            }
            // An error response of the peer belongs to a request of this server, not to the call.
            if error.is::<PeerError>() {
                return None;
            }
        }
        None
    }

    /// Returns the tool result for this error, or the protocol error.
    pub(crate) fn into_call_tool_result(self) -> Result<CallToolResult, ServiceError> {
        self.protocol_error().map_or_else(|| Ok(CallToolResult::error(self)), Err)
    }

    /// Returns the error for a request that has no `isError` result.
    pub(crate) fn into_service_error(self) -> ServiceError {
        self.protocol_error().unwrap_or_else(|| ErrorObject::internal(self.to_string()).into())
    }
}

/// Returns the error of a handler that has returned an error object. One of [`InsufficientScopeError`] keeps its origin.
pub(crate) fn returned_error(object: ErrorObject) -> ServiceError {
    match InsufficientScopeError::of_object(&object) {
        Some(missing) => missing.into(),
        None => object.into(),
    }
}

/// Returns the cause of an error. For an I/O error this is the wrapped error, which `source` skips.
fn next<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

/// Downcasts an error, boxed or not.
fn unboxed<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    error.downcast_ref::<E>().or_else(|| error.downcast_ref::<Box<E>>().map(AsRef::as_ref))
}

impl<E: Into<BoxError> + 'static> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self(boxed(error))
    }
}

#[cfg(not(feature = "anyhow"))]
fn boxed<E: Into<BoxError>>(error: E) -> BoxError {
    error.into()
}

/// Unwraps an `anyhow::Error` first: converted like other errors, it hides the type of its outermost error.
#[cfg(feature = "anyhow")]
fn boxed<E: Into<BoxError> + 'static>(error: E) -> BoxError {
    let mut error = Some(error);
    let hidden = (&mut error as &mut dyn std::any::Any).downcast_mut::<Option<anyhow::Error>>().and_then(Option::take);
    match (hidden, error) {
        (Some(hidden), _) => hidden.reallocate_into_boxed_dyn_error_without_backtrace(),
        (None, Some(error)) => error.into(),
        (None, None) => unreachable!("only an `anyhow::Error` is taken out"),
    }
}

/// Writes the message and its causes.
impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&error_chain(&*self.0))
    }
}

/// Same as [`Display`](fmt::Display).
impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
