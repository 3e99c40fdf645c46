//! The call that the current task serves, by which `ForwardTracing` finds the caller of an event.

use turms_core::ResponseFuture;

use crate::context::Context;

tokio::task_local! {
    pub(crate) static CURRENT_CALL: Context;
}

/// Runs a call as the current one.
pub(crate) fn with_current_call(context: Context, call: ResponseFuture) -> ResponseFuture {
    Box::pin(CURRENT_CALL.scope(context, call))
}
