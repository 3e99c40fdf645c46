//! Completion of prompt arguments and URI template variables.

use std::collections::{BTreeMap, HashMap};

use turms_core::{BoxFuture, ServiceError};
use turms_proto::ErrorObject;
use turms_proto::types::Completion;

use crate::handler::{BoxedHandler, CallParts, FromCall, Handler, Input, Rejection};
use crate::respond::IntoCompletion;

/// The argument to complete. An extractor for completion handlers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompletionRequest {
    /// The partial value that the user has typed.
    pub value: String,
    /// The values of the other arguments that are already set.
    pub arguments: BTreeMap<String, String>,
}

impl FromCall for CompletionRequest {
    fn from_call(call: &mut CallParts) -> Result<Self, Rejection> {
        match &mut call.input {
            Input::Texts(texts) => {
                let mut arguments = std::mem::take(texts);
                let value = arguments.remove(VALUE).unwrap_or_default();
                Ok(Self { value, arguments })
            }
            Input::Json(_) | Input::Shared(_) => {
                Err(ErrorObject::internal("only completions have a value to complete").into())
            }
        }
    }
}

/// The key of the partial value among the other arguments. No argument has an empty name.
const VALUE: &str = "";

/// Creates the input of a completion handler.
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

/// Completes an argument with its completer. Returns no values if it has none.
pub(crate) fn complete(
    completers: &HashMap<String, Completer>,
    argument: &str,
    call: CallParts,
) -> BoxFuture<'static, Result<Completion, ServiceError>> {
    let completed = completers.get(argument).map(|completer| completer(call));
    Box::pin(async move {
        match completed {
            Some(completed) => completed.await.map_err(Rejection::into_error),
            None => Ok(Completion::new(Vec::new())),
        }
    })
}
