//! The error of handlers that meet errors of several types.

use std::error::Error;
use std::fmt;

use turms_core::{PeerError, error_chain};
use turms_proto::ErrorObject;
use turms_proto::session::RequestError;
use turms_proto::types::ToolResult;

use crate::context::AskError;

type BoxError = Box<dyn Error + Send + Sync>;

/// The error of a handler that meets errors of several types: `?` converts each of them.
///
/// Any [`std::error::Error`] becomes one, a text, and a `Box<dyn Error + Send + Sync>`. So does an `anyhow::Error`; with the
/// feature `anyhow`, an [`ErrorObject`] is found in it even if it is the outermost error.
///
/// - From a tool it is a result with `isError`, whose text is the message with its causes: `cannot read the index: not found`.
/// - From a prompt, a resource or a completion it is an internal error (-32603) with that message.
/// - With an [`ErrorObject`] among the error and its causes, the request fails with that error of the protocol instead. The same
///   holds for an [`AskError`] that says that the client lacks a capability (-32021).
///
/// A `Result` with another error type is treated in the same way: it is converted into this one.
///
/// ```
/// use turms_proto::ErrorObject;
/// use turms_server::{Context, Tool, ToolError};
///
/// async fn count(context: Context) -> Result<String, ToolError> {
///     let client = context.client_info().ok_or_else(|| ErrorObject::invalid_params("the client does not say its name"))?;
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
pub struct ToolError(BoxError);

impl ToolError {
    /// An error that is only a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into().into())
    }

    /// The error of the protocol among the error and its causes.
    fn protocol_error(&self) -> Option<ErrorObject> {
        let first: &(dyn Error + 'static) = &*self.0;
        for error in std::iter::successors(Some(first), |&error| next(error)) {
            if let Some(error) = unboxed::<ErrorObject>(error) {
                return Some(error.clone());
            }
            if let Some(error) = unboxed::<AskError>(error) {
                return match error {
                    AskError::Unsupported(missing) => Some((**missing).clone()),
                    _ => None,
                };
            }
            // What the other side responded with is about a request of ours.
            if error.is::<PeerError>() || error.is::<RequestError>() {
                return None;
            }
        }
        None
    }

    /// The result of a tool that failed with it.
    pub(crate) fn into_tool_result(self) -> Result<ToolResult, ErrorObject> {
        self.protocol_error().map_or_else(|| Ok(ToolResult::error(self)), Err)
    }

    /// The error of a request that cannot have a result without success.
    pub(crate) fn into_error_object(self) -> ErrorObject {
        self.protocol_error().unwrap_or_else(|| ErrorObject::internal(self.to_string()))
    }
}

/// The cause of an error. An I/O error names the cause of the error inside it, and not that error.
fn next<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

/// An error of a type, be it behind a box or not.
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

/// An `anyhow::Error` hides the type of its outermost error when it is converted as any other.
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

/// The message with its causes.
impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&error_chain(&*self.0))
    }
}

/// As [`Display`](fmt::Display).
impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
