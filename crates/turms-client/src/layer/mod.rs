//! The layers of a call. Each is a struct that contains the next. For their order, see
//! [`ServerBackend`](crate::backend::ServerBackend).

pub(crate) mod breaker;
pub(crate) mod cache;
pub(crate) mod input;
pub(crate) mod retry;
pub(crate) mod session;
pub(crate) mod task;
pub(crate) mod track;
pub(crate) mod validate;

use std::sync::Arc;

use crate::call::{CallError, CallOutput, CallRequest};

/// A layer, or the connection below all layers. Dropping the future cancels the call.
pub(crate) trait CallService: Send + Sync + 'static {
    fn call(&self, call: &CallRequest) -> impl Future<Output = Result<CallOutput, CallError>> + Send;
}

impl<S: CallService> CallService for Arc<S> {
    fn call(&self, call: &CallRequest) -> impl Future<Output = Result<CallOutput, CallError>> + Send {
        (**self).call(call)
    }
}

/// A scripted service for the tests of layers.
#[cfg(test)]
pub(crate) mod scripted {
    use std::collections::VecDeque;

    use parking_lot::Mutex;

    use super::*;

    type Step = Box<dyn FnOnce(&CallRequest) -> Result<CallOutput, CallError> + Send>;

    /// Responds with the given results one after the other, and records the calls. When no result is left, it never
    /// responds.
    #[derive(Default)]
    pub(crate) struct Scripted {
        steps: Mutex<VecDeque<Step>>,
        pub(crate) calls: Mutex<Vec<CallRequest>>,
    }

    impl Scripted {
        pub(crate) fn then(
            self,
            step: impl FnOnce(&CallRequest) -> Result<CallOutput, CallError> + Send + 'static,
        ) -> Self {
            self.steps.lock().push_back(Box::new(step));
            self
        }

        pub(crate) fn targets(&self) -> Vec<String> {
            self.calls.lock().iter().map(|call| call.target().to_string()).collect()
        }
    }

    impl CallService for Scripted {
        async fn call(&self, call: &CallRequest) -> Result<CallOutput, CallError> {
            self.calls.lock().push(call.clone());
            let step = self.steps.lock().pop_front();
            match step {
                Some(step) => step(call),
                None => std::future::pending().await,
            }
        }
    }
}
