use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use turms_core::{CallResult, ServiceError};
use turms_proto::types::CallToolResult;

use super::run::RunningTask;
use crate::input::InputRounds;
use crate::sync::{Mutex, OnceLock};
use crate::tool::ToolFuture;

/// The point at which a handler leaves its call and continues as a task.
#[derive(Debug, Default)]
pub(crate) struct DetachPoint {
    task: OnceLock<Arc<RunningTask>>,
    wakers: Mutex<DetachWakers>,
}

#[derive(Debug, Default)]
struct DetachWakers {
    /// Set once the handler has requested to detach.
    is_requested: bool,
    /// Futures that wait for the task. A handler may have several.
    handlers: Vec<Waker>,
    /// The call, which waits for the handler.
    call: Option<Waker>,
}

impl DetachPoint {
    /// Returns the task if the handler runs as one.
    pub(crate) fn task(&self) -> Option<&Arc<RunningTask>> {
        self.task.get()
    }

    /// Sets the task and wakes the handler.
    pub(crate) fn set_task(&self, task: Arc<RunningTask>) {
        let _ = self.task.set(task);
        let handlers = std::mem::take(&mut self.wakers.lock().handlers);
        handlers.into_iter().for_each(Waker::wake);
    }

    /// Waits, in the handler, until it runs as a task.
    pub(crate) async fn detach(&self) {
        poll_fn(|task| {
            if self.task.get().is_some() {
                return Poll::Ready(());
            }
            let call = {
                let mut wakers = self.wakers.lock();
                wakers.is_requested = true;
                if !wakers.handlers.iter().any(|waiting| waiting.will_wake(task.waker())) {
                    wakers.handlers.push(task.waker().clone());
                }
                wakers.call.take()
            };
            call.into_iter().for_each(Waker::wake);
            // The task may have been set in the meantime.
            if self.task.get().is_some() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Returns `true` if the handler has requested to detach. Otherwise registers `waker`.
    fn is_requested(&self, waker: &Waker) -> bool {
        let mut wakers = self.wakers.lock();
        if !wakers.is_requested && !wakers.call.as_ref().is_some_and(|known| known.will_wake(waker)) {
            wakers.call = Some(waker.clone());
        }
        wakers.is_requested
    }
}

/// The reason why a handler stopped running inside its call.
pub(super) enum HandlerProgress {
    Finished(Result<CallToolResult, ServiceError>),
    InputRequired(CallResult),
    /// The handler continues as a task.
    Detached(ToolFuture),
}

/// Runs a handler until it returns, requests input, or detaches.
pub(super) async fn run_until_detached(
    mut handler: ToolFuture,
    rounds: Option<&InputRounds>,
    detach: &DetachPoint,
) -> HandlerProgress {
    let reached = poll_fn(|task| {
        if let Poll::Ready(result) = handler.as_mut().poll(task) {
            return Poll::Ready(Some(HandlerProgress::Finished(result)));
        }
        if let Some(result) = rounds.and_then(|rounds| rounds.end(task.waker())) {
            return Poll::Ready(Some(HandlerProgress::InputRequired(result)));
        }
        if detach.is_requested(task.waker()) { Poll::Ready(None) } else { Poll::Pending }
    })
    .await;
    reached.unwrap_or(HandlerProgress::Detached(handler))
}

#[cfg(test)]
mod tests;
