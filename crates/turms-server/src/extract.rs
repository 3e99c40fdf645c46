//! What handlers may ask a call for.

use std::ops::Deref;
use std::sync::Arc;

use http::HeaderMap;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;
use turms_proto::types::{Implementation, Meta};
use turms_proto::{DecodeError, ErrorObject, Number};

use crate::context::Context;
use crate::handler::{Call, FromCall, Rejection, schema_of};
use crate::session::Session;
use turms_core::Principal;

/// The caller's arguments: of a tool, of a prompt, or the variables in a URI.
///
/// Arguments of prompts and variables are texts on the wire. Numbers and truth values are read out of them, and a list, a map or
/// another value that is never a text is read from JSON: `["a", "b"]` for a `Vec<String>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "a wrapper and nothing else")]
pub struct Args<T>(pub T);

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema> FromCall for Args<T> {
    fn from_call(call: &mut Call) -> Result<Self, Rejection> {
        decoded(call).map(Self)
    }

    fn input_schema() -> Option<Value> {
        schema_of::<T>()
    }
}

/// The arguments of a function with `#[tool]`, `#[prompt]` or `#[resource]`, in the struct that the attribute writes. Apart from
/// [`Args`], so that a compile error names the type of one argument rather than that struct.
#[doc(hidden)]
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "a wrapper and nothing else")]
pub struct Arguments<T>(pub T);

impl<T: DeserializeOwned + JsonSchema> FromCall for Arguments<T> {
    fn from_call(call: &mut Call) -> Result<Self, Rejection> {
        decoded(call).map(Self)
    }

    fn input_schema() -> Option<Value> {
        schema_of::<T>()
    }
}

/// The type of one argument of such a function. The lifetime has no meaning: a bound for every lifetime is checked where the struct
/// of the arguments is used, rather than in each implementation that a derive writes for it.
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

fn decoded<T: DeserializeOwned>(call: &Call) -> Result<T, Rejection> {
    call.input.decode().map_err(misfit)
}

#[cold]
fn misfit(error: DecodeError) -> Rejection {
    Rejection::Arguments(error.within("arguments").to_string())
}

/// Something that the server was given with [`Server::state`](crate::Server::state).
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
    fn from_call(call: &mut Call) -> Result<Self, Rejection> {
        let missing = || {
            let name = std::any::type_name::<T>();
            ErrorObject::internal(format!("the server has no state of type {name}: give it one with `.state(..)`"))
        };
        Ok(Self(call.context.server().state().ok_or_else(missing)?))
    }
}

/// Whoever has it may ask the client, so what the client carried from an earlier round is looked at first.
impl FromCall for Context {
    fn from_call(call: &mut Call) -> Result<Self, Rejection> {
        call.context.check_rounds().map_err(|error| Rejection::Protocol(Box::new(error)))?;
        Ok(call.context.clone())
    }
}

/// Reports how far the work has come. Costs nothing if the client does not want to know.
#[derive(Debug, Clone)]
pub struct Progress(Context);

impl Progress {
    /// So far.
    pub async fn report(&self, progress: impl Into<Number>) {
        self.0.progress(progress, None, None).await;
    }

    /// So far, of so much.
    pub async fn report_of(&self, progress: impl Into<Number>, total: f64) {
        self.0.progress(progress, Some(total), None).await;
    }

    /// So far, of so much, and what is happening.
    pub async fn say(&self, progress: impl Into<Number>, total: Option<f64>, message: &str) {
        self.0.progress(progress, total, Some(message)).await;
    }
}

impl FromCall for Progress {
    fn from_call(call: &mut Call) -> Result<Self, Rejection> {
        Ok(Self(call.context.clone()))
    }
}

/// Tells work outside the handler that nobody waits for it any more. The handler itself need not ask: it is dropped.
///
/// Keep it in the handler; hand [`Cancellation::token`] to tasks and threads.
#[derive(Debug)]
pub struct Cancellation {
    // Dropped with the handler, whether it was cancelled or has finished; either way nobody waits.
    alive: watch::Sender<()>,
}

impl Cancellation {
    /// What work outside the handler looks at.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        CancellationToken(self.alive.subscribe())
    }
}

/// Whether somebody still waits for a handler.
#[derive(Debug, Clone)]
pub struct CancellationToken(watch::Receiver<()>);

impl CancellationToken {
    /// Whether nobody waits any more.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.has_changed().is_err()
    }

    /// Waits until nobody does.
    pub async fn cancelled(&mut self) {
        while self.0.changed().await.is_ok() {}
    }
}

impl FromCall for Cancellation {
    fn from_call(_: &mut Call) -> Result<Self, Rejection> {
        Ok(Self { alive: watch::Sender::new(()) })
    }
}

/// Who the client says it is. For people and logs.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "a wrapper and nothing else")]
pub struct ClientInfo(pub Implementation);

impl FromCall for ClientInfo {
    fn from_call(call: &mut Call) -> Result<Self, Rejection> {
        let info = call.context.client_info();
        info.map(Self).ok_or_else(|| ErrorObject::invalid_params("the client does not say who it is").into())
    }
}

/// The headers of the HTTP request; empty over other transports.
#[derive(Debug, Clone, Default)]
#[expect(clippy::exhaustive_structs, reason = "a wrapper and nothing else")]
pub struct Headers(pub HeaderMap);

impl FromCall for Headers {
    fn from_call(call: &mut Call) -> Result<Self, Rejection> {
        Ok(Self(call.context.extension::<HeaderMap>().cloned().unwrap_or_default()))
    }
}

/// A value that the transport or middleware put into the request.
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_structs, reason = "a wrapper and nothing else")]
pub struct Extension<T>(pub T);

impl<T: Clone + Send + Sync + 'static> FromCall for Extension<T> {
    fn from_call(call: &mut Call) -> Result<Self, Rejection> {
        let missing = || ErrorObject::internal(format!("no {} was put into the request", std::any::type_name::<T>()));
        Ok(Self(call.context.extension::<T>().cloned().ok_or_else(missing)?))
    }
}

impl FromCall for Principal {
    fn from_call(call: &mut Call) -> Result<Self, Rejection> {
        let principal = call.context.principal().cloned();
        principal.ok_or_else(|| ErrorObject::invalid_request("this needs a client that is authenticated").into())
    }
}

impl FromCall for Meta {
    fn from_call(call: &mut Call) -> Result<Self, Rejection> {
        Ok(call.context.meta().cloned().unwrap_or_default())
    }
}

/// Fails for requests of 2026-07-28, which belong to no session: take `Option<Arc<Session>>` to serve these, too.
impl FromCall for Arc<Session> {
    fn from_call(call: &mut Call) -> Result<Self, Rejection> {
        let missing = || {
            let version = call.context.version();
            ErrorObject::internal(format!(
                "the handler takes `Arc<Session>`, and requests of {version} belong to no session: take \
                 `Option<Arc<Session>>`, or what every request has (`Context`, `ClientInfo`, `State<T>`)"
            ))
        };
        Ok(call.context.session().cloned().ok_or_else(missing)?)
    }
}

/// `None` where the call does not have it. Arguments of the wrong shape are still refused.
impl<T: FromCall> FromCall for Option<T> {
    fn from_call(call: &mut Call) -> Result<Self, Rejection> {
        match T::from_call(call) {
            Ok(value) => Ok(Some(value)),
            Err(rejection @ Rejection::Arguments(_)) => Err(rejection),
            Err(_) => Ok(None),
        }
    }

    fn input_schema() -> Option<Value> {
        T::input_schema()
    }
}
