//! Handlers are plain functions; their arguments say what they want of a call.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;
use turms_core::BoxFuture;
use turms_proto::types::{CallToolParams, ToolResult};
use turms_proto::{Ability, DecodeError, ErrorCode, ErrorObject, Object, ProtocolVersion, decode_strings};

use crate::context::Context;
use crate::schema;

/// A call on its way to a handler.
#[derive(Debug, Clone)]
pub struct Call {
    pub(crate) context: Context,
    pub(crate) input: Input,
}

/// What the caller gave.
#[derive(Debug, Clone)]
pub(crate) enum Input {
    /// The arguments of a tool.
    Json(Object),
    /// The same, as a client in this process holds them.
    Shared(Arc<CallToolParams>),
    /// The arguments of a prompt, or the variables in a URI.
    Texts(BTreeMap<String, String>),
}

impl Input {
    /// The arguments as an object.
    pub(crate) fn arguments(&self) -> Cow<'_, Object> {
        static NONE: Object = Object::new();
        match self {
            Self::Json(arguments) => Cow::Borrowed(arguments),
            Self::Shared(params) => Cow::Borrowed(params.arguments.as_ref().unwrap_or(&NONE)),
            Self::Texts(texts) => Cow::Owned(Object::encode(texts).unwrap_or_default()),
        }
    }

    /// Decodes the arguments into the type that a handler takes.
    pub(crate) fn decode<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        match self {
            Self::Texts(texts) => decode_strings(texts),
            json => json.arguments().decode(),
        }
    }
}

impl Call {
    /// What surrounds the call.
    #[must_use]
    pub fn context(&self) -> &Context {
        if let Some(rounds) = self.context.rounds() {
            rounds.note_context_extracted();
        }
        &self.context
    }

    /// The last check before the handler runs, which has taken what it wants.
    fn check(&self) -> Result<(), Rejection> {
        match self.context.rounds() {
            Some(rounds) => Ok(rounds.check_without_context()?),
            None => Ok(()),
        }
    }
}

/// Why a call does not reach its handler.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Rejection {
    /// The caller's arguments do not fit; a model may do better next time.
    Arguments(String),
    /// The request cannot be served.
    Protocol(Box<ErrorObject>),
}

impl Rejection {
    /// Converts into the protocol's error.
    pub(crate) fn into_error(self) -> ErrorObject {
        match self {
            Self::Arguments(message) => ErrorObject::invalid_params(message),
            Self::Protocol(error) => *error,
        }
    }

    /// Converts into the result or the error of a tool. Wrong arguments are a result where the caller's revision wants them to
    /// be. So is a missing capability of the client in revisions that have no error for it.
    pub(crate) fn into_tool_result(self, version: ProtocolVersion) -> Result<ToolResult, ErrorObject> {
        match self {
            Self::Arguments(message) if version.has(Ability::ArgumentErrorsAsResults) => Ok(ToolResult::error(message)),
            Self::Protocol(error)
                if error.code == ErrorCode::MISSING_CLIENT_CAPABILITY && !version.has(Ability::Stateless) =>
            {
                Ok(ToolResult::error(&error.message))
            }
            rejection => Err(rejection.into_error()),
        }
    }
}

impl From<schema::Violations> for Rejection {
    fn from(violations: schema::Violations) -> Self {
        Self::Arguments(violations.0)
    }
}

impl From<ErrorObject> for Rejection {
    fn from(error: ErrorObject) -> Self {
        Self::Protocol(Box::new(error))
    }
}

/// What a handler may take as an argument.
#[diagnostic::on_unimplemented(
    message = "a handler cannot take `{Self}`",
    label = "not something a call can be asked for",
    note = "take `Args<T>` for the arguments, where `T` derives `serde::Deserialize` and `schemars::JsonSchema`, `State<T>`, `Context`, `Progress`, \
            `Cancellation`, `ClientInfo`, `Headers`, `Principal`, `Arc<Session>`, `Extension<T>`, `Meta`, `Uri`, or an \
            `Option` of one of these"
)]
pub trait FromCall: Sized {
    /// Takes it out of the call.
    ///
    /// # Errors
    /// When the call does not have it.
    fn from_call(call: &mut Call) -> Result<Self, Rejection>;

    /// The schema of the caller's arguments, if this is what takes them.
    #[must_use]
    fn input_schema() -> Option<Value> {
        None
    }
}

/// An asynchronous function whose arguments come from a call. `X` only tells functions of different arguments apart.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    label = "not a handler",
    note = "a handler is an `async` function or closure, of at most eight arguments that each implement `FromCall`; \
            for functions that are not `async` there is `handler_sync`",
    note = "`Args<T>` implements `FromCall` if `T` derives `serde::Deserialize` and `schemars::JsonSchema`"
)]
pub trait Handler<X>: Clone + Send + Sync + 'static {
    /// What it returns.
    type Output: Send + 'static;

    /// Takes the arguments out of the call, and calls the function with them. It fails if the call does not have one of them.
    fn call(self, call: Call) -> impl Future<Output = Result<Self::Output, Rejection>> + Send;

    /// The schema of the caller's arguments.
    #[must_use]
    fn input_schema() -> Option<Value>;
}

/// As [`Handler`], for functions that answer at once.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "a handler takes at most eight arguments that each implement `FromCall`",
    note = "`Args<T>` implements `FromCall` if `T` derives `serde::Deserialize` and `schemars::JsonSchema`"
)]
pub trait SyncHandler<X>: Clone + Send + Sync + 'static {
    /// What it returns.
    type Output: Send + 'static;

    /// Calls it.
    ///
    /// # Errors
    /// When the call does not have what it takes.
    fn call(&self, call: &mut Call) -> Result<Self::Output, Rejection>;

    /// The schema of the caller's arguments.
    #[must_use]
    fn input_schema() -> Option<Value>;
}

/// A handler whose type is erased: the one place where that happens.
pub(crate) type BoxedHandler<R> = Box<dyn Fn(Call) -> BoxFuture<'static, Result<R, Rejection>> + Send + Sync>;

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

            #[allow(unused_mut, reason = "a handler without arguments takes nothing out of the call")]
            async fn call(self, mut call: Call) -> Result<Self::Output, Rejection> {
                let running = {
                    $( let $T = $T::from_call(&mut call)?; )*
                    call.check()?;
                    self($($T),*)
                };
                drop(call);
                Ok(running.await)
            }

            fn input_schema() -> Option<Value> {
                let schema = None;
                $( let schema = schema.or_else($T::input_schema); )*
                schema
            }
        }

        #[allow(non_snake_case, unused_variables, reason = "named for the types")]
        impl<F, O, $($T,)*> SyncHandler<($($T,)*)> for F
        where
            F: Fn($($T),*) -> O + Clone + Send + Sync + 'static,
            O: Send + 'static,
            $($T: FromCall,)*
        {
            type Output = O;

            fn call(&self, call: &mut Call) -> Result<O, Rejection> {
                $( let $T = $T::from_call(call)?; )*
                call.check()?;
                Ok(self($($T),*))
            }

            fn input_schema() -> Option<Value> {
                let schema = None;
                $( let schema = schema.or_else($T::input_schema); )*
                schema
            }
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

/// The schema of `T`, for extractors that take the caller's arguments.
pub(crate) fn schema_of<T: schemars::JsonSchema>() -> Option<Value> {
    Some(schema::of::<T>())
}
