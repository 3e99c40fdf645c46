//! Handlers: functions with arguments that are extracted from a call.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;
use turms_core::{BoxFuture, CancellationToken, ServiceError};
use turms_proto::types::{CallToolParams, CallToolResult};
use turms_proto::{Ability, DecodeError, ErrorCode, ErrorObject, Object, ProtocolVersion, decode_strings};

use crate::context::Context;
use crate::schema;
use crate::sealed::Seal;

/// A call before its handler runs. Extractors take values from it.
#[derive(Debug, Clone)]
pub struct CallParts {
    pub(crate) context: Context,
    pub(crate) input: Input,
    /// Set if the handler has extracted a token.
    pub(crate) cancel_on_drop: Option<Arc<CancelOnDrop>>,
}

/// The input of a call.
#[derive(Debug, Clone)]
pub(crate) enum Input {
    /// The arguments of a tool.
    Json(Object),
    /// The arguments of a tool, shared with a client in the same process.
    Shared(Arc<CallToolParams>),
    /// The arguments of a prompt, or the variables of a URI.
    Texts(BTreeMap<String, String>),
}

impl Input {
    /// Returns the arguments as an object.
    pub(crate) fn arguments(&self) -> Cow<'_, Object> {
        static NONE: Object = Object::new();
        match self {
            Self::Json(arguments) => Cow::Borrowed(arguments),
            Self::Shared(params) => Cow::Borrowed(params.arguments.as_ref().unwrap_or(&NONE)),
            Self::Texts(texts) => Cow::Owned(Object::encode(texts).unwrap_or_default()),
        }
    }

    /// Decodes the arguments to the type that a handler takes.
    pub(crate) fn decode<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        match self {
            Self::Texts(texts) => decode_strings(texts),
            json => json.arguments().decode(),
        }
    }
}

impl CallParts {
    pub(crate) fn new(context: Context, input: Input) -> Self {
        Self { context, input, cancel_on_drop: None }
    }

    /// A token that is cancelled when the handler returns or is dropped.
    pub(crate) fn cancellation_token(&mut self) -> CancellationToken {
        let make = || {
            let (token, of_call) = (CancellationToken::new(), self.context.call().cancellation().cloned());
            Arc::new(CancelOnDrop { token, of_call })
        };
        self.cancel_on_drop.get_or_insert_with(make).token.clone()
    }

    /// Returns the context of the call.
    #[must_use]
    pub fn context(&self) -> &Context {
        if let Some(rounds) = self.context.rounds() {
            rounds.set_context_extracted();
        }
        &self.context
    }

    /// Runs the last check, after all extractors and before the handler.
    fn check(&self) -> Result<(), Rejection> {
        match self.context.rounds() {
            Some(rounds) => Ok(rounds.check_without_context()?),
            None => Ok(()),
        }
    }
}

/// Cancels a token on drop, with the reason of the client if that has cancelled the call.
#[derive(Debug)]
pub(crate) struct CancelOnDrop {
    token: CancellationToken,
    of_call: Option<CancellationToken>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        match &self.of_call {
            Some(of_call) => self.token.cancel_as(of_call),
            None => self.token.cancel(),
        }
    }
}

/// The error of a call that is rejected before its handler runs.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The arguments are invalid. A model may correct them: tools return a result with `isError` in revisions that have
    /// it.
    #[error("{0}")]
    InvalidArguments(String),
    /// The request fails with this error.
    #[error(transparent)]
    Error(#[from] ServiceError),
}

impl Rejection {
    /// Converts to a protocol error.
    pub(crate) fn into_error(self) -> ServiceError {
        match self {
            Self::InvalidArguments(message) => ErrorObject::invalid_params(message).into(),
            Self::Error(error) => error,
        }
    }

    /// Converts to a tool result or an error. Invalid arguments become a result if the revision requires it. So does a
    /// missing client capability in revisions that have no error code for it.
    pub(crate) fn into_call_tool_result(self, version: ProtocolVersion) -> Result<CallToolResult, ServiceError> {
        match self {
            Self::InvalidArguments(message) if version.has(Ability::ArgumentErrorsAsResults) => {
                Ok(CallToolResult::error(message))
            }
            Self::Error(error)
                if error.code == ErrorCode::MISSING_CLIENT_CAPABILITY && !version.has(Ability::Stateless) =>
            {
                Ok(CallToolResult::error(&error.message))
            }
            rejection => Err(rejection.into_error()),
        }
    }
}

impl From<schema::Violations> for Rejection {
    fn from(violations: schema::Violations) -> Self {
        Self::InvalidArguments(violations.0)
    }
}

impl From<ErrorObject> for Rejection {
    fn from(error: ErrorObject) -> Self {
        Self::Error(error.into())
    }
}

/// An extractor: a type that a handler can take as an argument.
#[diagnostic::on_unimplemented(
    message = "a handler cannot take `{Self}`",
    label = "not an extractor",
    note = "take `Args<T>` for the arguments, where `T` derives `serde::Deserialize` and `schemars::JsonSchema`, `State<T>`, `Context`, `Progress`, \
            `CancellationToken`, `ClientInfo`, `HeaderMap`, `Principal`, `Session`, `ServerHandle`, `Extension<T>`, `Meta`, `ResourceUri`, or an \
            `Option` of one of these"
)]
pub trait FromCall: Sized {
    /// Extracts the value from the call.
    ///
    /// # Errors
    /// If the call does not have the value.
    fn from_call(call: &mut CallParts) -> Result<Self, Rejection>;

    /// Returns the schema of the arguments, if this extractor decodes them.
    #[must_use]
    fn input_schema() -> Option<Value> {
        None
    }
}

/// An async function with arguments that are extracted from a call. `X` only distinguishes functions with different
/// arguments. Implemented for functions and closures; other types cannot implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    label = "not a handler",
    note = "a handler is an `async` function or closure, of at most eight arguments that each implement `FromCall`; \
            for functions that are not `async` there is `handler_sync`, except for completions",
    note = "`Args<T>` implements `FromCall` if `T` derives `serde::Deserialize` and `schemars::JsonSchema`"
)]
pub trait Handler<X>: Clone + Send + Sync + 'static {
    /// The return type.
    type Output: Send + 'static;

    /// Extracts the arguments and calls the function. Fails if an extractor fails.
    #[doc(hidden)]
    fn call(self, call: CallParts) -> impl Future<Output = Result<Self::Output, Rejection>> + Send;

    /// Returns the schema of the arguments.
    #[doc(hidden)]
    #[must_use]
    fn input_schema() -> Option<Value>;

    #[doc(hidden)]
    fn sealed(_: Seal);
}

/// Same as [`Handler`], for functions that are not async. Other types cannot implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "a handler takes at most eight arguments that each implement `FromCall`",
    note = "`Args<T>` implements `FromCall` if `T` derives `serde::Deserialize` and `schemars::JsonSchema`"
)]
pub trait SyncHandler<X>: Clone + Send + Sync + 'static {
    /// The return type.
    type Output: Send + 'static;

    /// Extracts the arguments and calls the function.
    ///
    /// # Errors
    /// If an extractor fails.
    #[doc(hidden)]
    fn call(&self, call: &mut CallParts) -> Result<Self::Output, Rejection>;

    /// Returns the schema of the arguments.
    #[doc(hidden)]
    #[must_use]
    fn input_schema() -> Option<Value>;

    #[doc(hidden)]
    fn sealed(_: Seal);
}

/// A type-erased handler.
pub(crate) type BoxedHandler<R> = Box<dyn Fn(CallParts) -> BoxFuture<'static, Result<R, Rejection>> + Send + Sync>;

macro_rules! handlers {
    ($($T:ident)*) => {
        #[allow(non_snake_case, unused_variables, reason = "named for the types")]
        impl<F, Fut, $($T,)*> Handler<($($T,)*)> for F
        where
            F: Fn($($T),*) -> Fut + Clone + Send + Sync + 'static,
            Fut: Future + Send + 'static,
            Fut::Output: Send + 'static,
            $($T: FromCall,)*
        {
            type Output = Fut::Output;

            #[allow(unused_mut, reason = "a handler without arguments extracts nothing")]
            async fn call(self, mut call: CallParts) -> Result<Self::Output, Rejection> {
                let running = {
                    $( let $T = $T::from_call(&mut call)?; )*
                    call.check()?;
                    self($($T),*)
                };
                // The arguments are not needed any more.
                let _cancel_on_drop = call.cancel_on_drop.take();
                drop(call);
                Ok(running.await)
            }

            fn input_schema() -> Option<Value> {
                let schema = None;
                $( let schema = schema.or_else($T::input_schema); )*
                schema
            }

            fn sealed(_: Seal) {}
        }

        #[allow(non_snake_case, unused_variables, reason = "named for the types")]
        impl<F, O, $($T,)*> SyncHandler<($($T,)*)> for F
        where
            F: Fn($($T),*) -> O + Clone + Send + Sync + 'static,
            O: Send + 'static,
            $($T: FromCall,)*
        {
            type Output = O;

            fn call(&self, call: &mut CallParts) -> Result<O, Rejection> {
                $( let $T = $T::from_call(call)?; )*
                call.check()?;
                Ok(self($($T),*))
            }

            fn input_schema() -> Option<Value> {
                let schema = None;
                $( let schema = schema.or_else($T::input_schema); )*
                schema
            }

            fn sealed(_: Seal) {}
        }
    };
}

handlers!();
handlers!(A);
handlers!(A B);
handlers!(A B C);
handlers!(A B C D);
handlers!(A B C D E);
handlers!(A B C D E G);
handlers!(A B C D E G H);
handlers!(A B C D E G H I);

/// Returns the schema of `T`, for extractors that decode the arguments.
pub(crate) fn schema_of<T: schemars::JsonSchema>() -> Option<Value> {
    Some(schema::of::<T>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_is_an_error() {
        let message =
            |rejection: Rejection| (Box::new(rejection) as Box<dyn std::error::Error + Send + Sync>).to_string();
        assert_eq!(message(Rejection::InvalidArguments("arguments.a: missing".to_owned())), "arguments.a: missing");
        let error = ErrorObject::invalid_request("authentication is required");
        assert_eq!(message(error.clone().into()), error.to_string());
    }
}
