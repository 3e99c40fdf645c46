//! What could stand in an argument or a variable.

use std::collections::{BTreeMap, HashMap};

use turms_core::{BoxFuture, ServiceError};
use turms_proto::ErrorObject;
use turms_proto::types::Completion;

use crate::handler::{BoxedHandler, Call, FromCall, Handler, Input, Rejection};
use crate::respond::IntoCompletion;

/// An argument that is being written, and what is known already. Handlers of completions take this.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completing {
    /// What has been written so far.
    pub value: String,
    /// The arguments that are decided.
    pub known: BTreeMap<String, String>,
}

impl FromCall for Completing {
    fn from_call(call: &mut Call) -> Result<Self, Rejection> {
        match &mut call.input {
            Input::Texts(texts) => {
                let mut known = std::mem::take(texts);
                let value = known.remove(VALUE).unwrap_or_default();
                Ok(Self { value, known })
            }
            Input::Json(_) | Input::Shared(_) => {
                Err(ErrorObject::internal("only completions have a value to complete").into())
            }
        }
    }
}

/// Where the value travels among the known arguments; no argument is called this.
const VALUE: &str = "";

/// The input of a completion.
pub(crate) fn input(value: String, known: Option<BTreeMap<String, String>>) -> Input {
    let mut texts = known.unwrap_or_default();
    texts.insert(VALUE.to_owned(), value);
    Input::Texts(texts)
}

pub(crate) type Completer = BoxedHandler<Completion>;

pub(crate) fn completer<H: Handler<X>, X>(handler: H) -> Completer
where
    H::Output: IntoCompletion,
{
    Box::new(move |call| {
        let handler = handler.clone();
        Box::pin(async move { Ok(handler.call(call).await?.into_completion()?) })
    })
}

/// Completes an argument by its completer, if it has one.
pub(crate) fn complete(
    completers: &HashMap<String, Completer>,
    argument: &str,
    call: Call,
) -> BoxFuture<'static, Result<Completion, ServiceError>> {
    let completed = completers.get(argument).map(|completer| completer(call));
    Box::pin(async move {
        match completed {
            Some(completed) => Ok(completed.await.map_err(Rejection::into_error)?),
            None => Ok(Completion::new(Vec::new())),
        }
    })
}
