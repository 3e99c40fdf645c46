//! Extractors: the arguments of handlers.

use std::ops::Deref;
use std::sync::Arc;

use http::HeaderMap;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use turms_proto::types::{Implementation, Meta, ProgressParams};
use turms_proto::{DecodeError, ErrorObject, Number};

use crate::context::Context;
use crate::handle::ServerHandle;
use crate::handler::{CallParts, FromCall, Rejection, schema_of};
use crate::input_call::ProgressReport;
use crate::session::Session;
use turms_core::{CancellationToken, Principal};

/// Extracts the arguments of a tool or a prompt, or the variables of a resource URI.
///
/// Prompt arguments and URI variables are strings on the wire. Numbers and booleans are parsed from them. A list, a map
/// or another type that is never a string is parsed from JSON: `["a", "b"]` for a `Vec<String>`.
#[doc(alias = "Parameters")]
#[doc(alias = "arguments")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "a wrapper and nothing else")]
pub struct Args<T>(pub T);

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema> FromCall for Args<T> {
    fn from_call(call: &mut CallParts) -> Result<Self, Rejection> {
        decoded(call).map(Self)
    }

    fn input_schema() -> Option<Value> {
        schema_of::<T>()
    }
}

/// The arguments of a function with `#[tool]`, `#[prompt]` or `#[resource]`, in the struct that the attribute
/// generates. Separate from [`Args`], so that a compile error names the type of one argument instead of that struct.
#[doc(hidden)]
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "a wrapper and nothing else")]
pub struct Arguments<T>(pub T);

impl<T: DeserializeOwned + JsonSchema> FromCall for Arguments<T> {
    fn from_call(call: &mut CallParts) -> Result<Self, Rejection> {
        decoded(call).map(Self)
    }

    fn input_schema() -> Option<Value> {
        schema_of::<T>()
    }
}

/// The type of one argument of such a function. The lifetime has no meaning: a bound for every lifetime is checked
/// where the struct of the arguments is used, instead of in each derived implementation.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument",
    label = "not a type that arguments can be decoded into",
    note = "for an argument of the caller, add `#[derive(serde::Deserialize, schemars::JsonSchema)]` to the type",
    note = "for something taken from the call (a type that implements `FromCall`), put `#[extract]` on the parameter"
)]
pub trait Argument<'a>: DeserializeOwned + JsonSchema {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema> Argument<'_> for T {}

fn decoded<T: DeserializeOwned>(call: &CallParts) -> Result<T, Rejection> {
    call.input.decode().map_err(invalid_arguments)
}

#[cold]
fn invalid_arguments(error: DecodeError) -> Rejection {
    Rejection::InvalidArguments(error.within("arguments").to_string())
}

/// Extracts state that was added with [`Server::state`](crate::Server::state). A call fails if the server has no state of
/// this type. Take it apart in the parameter, `State(counters): State<Counters>`, or use it like a `&T`.
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_structs, reason = "a wrapper and nothing else")]
pub struct State<T>(pub Arc<T>);

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Send + Sync + 'static> FromCall for State<T> {
    fn from_call(call: &mut CallParts) -> Result<Self, Rejection> {
        let missing = || {
            let name = std::any::type_name::<T>();
            ErrorObject::internal(format!("the server has no state of type {name}: give it one with `.state(..)`"))
        };
        Ok(Self(call.context.server().state().ok_or_else(missing)?))
    }
}

/// Checks the `requestState` of an earlier round first, because a handler with a context can request input.
impl FromCall for Context {
    fn from_call(call: &mut CallParts) -> Result<Self, Rejection> {
        call.context.check_rounds()?;
        Ok(call.context.clone())
    }
}

/// Sends progress notifications. Does nothing if the client did not request them.
#[derive(Debug, Clone)]
pub struct Progress(Context);

impl Progress {
    pub(crate) fn new(context: Context) -> Self {
        Self(context)
    }

    /// Reports the progress. [`ProgressReport::total`] and [`ProgressReport::message`] add the total and a message:
    /// `progress.report(3).total(10).message("deleting").await`.
    pub fn report(&self, progress: impl Into<Number>) -> ProgressReport<'_> {
        let token = self.0.progress_token();
        ProgressReport { context: &self.0, params: token.map(|token| ProgressParams::new(token, progress)) }
    }
}

impl FromCall for Progress {
    fn from_call(call: &mut CallParts) -> Result<Self, Rejection> {
        Ok(Self(call.context.clone()))
    }
}

/// Extracts a token for work outside of the handler, such as a thread. It is cancelled when the handler returns or is dropped, with the
/// reason of the client if the client has cancelled the call. The handler itself is dropped on cancellation and need not check.
impl FromCall for CancellationToken {
    fn from_call(call: &mut CallParts) -> Result<Self, Rejection> {
        Ok(call.cancellation_token())
    }
}

/// Extracts the client's name and version. Not verified: use it only for display and logs.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "a wrapper and nothing else")]
pub struct ClientInfo(pub Implementation);

impl FromCall for ClientInfo {
    fn from_call(call: &mut CallParts) -> Result<Self, Rejection> {
        let info = call.context.client_info();
        info.map(Self).ok_or_else(|| ErrorObject::invalid_params("the client sends no clientInfo").into())
    }
}

/// Extracts the headers of the HTTP request. Empty with other transports.
impl FromCall for HeaderMap {
    fn from_call(call: &mut CallParts) -> Result<Self, Rejection> {
        Ok(call.context.extension::<Self>().cloned().unwrap_or_default())
    }
}

/// Extracts a value that the transport, middleware of the HTTP application or a layer attached to the request. Middleware
/// attaches it with `request.extensions_mut().insert(value)`. The call fails if there is none; extract
/// `Option<Extension<T>>` if it is optional.
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_structs, reason = "a wrapper and nothing else")]
pub struct Extension<T>(pub T);

impl<T: Clone + Send + Sync + 'static> FromCall for Extension<T> {
    fn from_call(call: &mut CallParts) -> Result<Self, Rejection> {
        let missing = || {
            ErrorObject::internal(format!(
                "the request has no extension of type {}: attach it in middleware or in a layer",
                std::any::type_name::<T>()
            ))
        };
        Ok(Self(call.context.extension::<T>().cloned().ok_or_else(missing)?))
    }
}

impl FromCall for Principal {
    fn from_call(call: &mut CallParts) -> Result<Self, Rejection> {
        let principal = call.context.principal().cloned();
        principal.ok_or_else(|| ErrorObject::invalid_request("authentication is required").into())
    }
}

impl FromCall for Meta {
    fn from_call(call: &mut CallParts) -> Result<Self, Rejection> {
        Ok(call.context.meta().cloned().unwrap_or_default())
    }
}

/// Fails for requests of 2026-07-28, which have no session. Extract `Option<Session>` to support them.
impl FromCall for Session {
    fn from_call(call: &mut CallParts) -> Result<Self, Rejection> {
        let missing = || {
            let version = call.context.protocol_version();
            ErrorObject::internal(format!(
                "the handler takes `Session`, and requests of {version} have no session: take \
                 `Option<Session>`, or what every request has (`Context`, `ClientInfo`, `State<T>`)"
            ))
        };
        Ok(call.context.session().cloned().ok_or_else(missing)?)
    }
}

/// Extracts a handle to the server, to change its items, notify clients and shut down.
impl FromCall for ServerHandle {
    fn from_call(call: &mut CallParts) -> Result<Self, Rejection> {
        Ok(call.context.server().clone())
    }
}

/// `None` if the call does not have the value. Invalid arguments are still rejected.
impl<T: FromCall> FromCall for Option<T> {
    fn from_call(call: &mut CallParts) -> Result<Self, Rejection> {
        match T::from_call(call) {
            Ok(value) => Ok(Some(value)),
            Err(rejection @ Rejection::InvalidArguments(_)) => Err(rejection),
            Err(_) => Ok(None),
        }
    }

    fn input_schema() -> Option<Value> {
        T::input_schema()
    }
}
