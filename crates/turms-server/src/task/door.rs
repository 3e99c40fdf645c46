use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

use parking_lot::Mutex;
use turms_core::{Outcome as CallOutcome, Ready};
use turms_proto::ErrorObject;
use turms_proto::types::ToolResult;

use super::run::Running;
use crate::input::Rounds;

/// Where a handler leaves the call that it answers and goes on as a task.
#[derive(Debug, Default)]
pub(crate) struct Door {
    beyond: OnceLock<Arc<Running>>,
    knocks: Mutex<Knocks>,
}

#[derive(Debug, Default)]
struct Knocks {
    /// The handler wants to leave.
    knocked: bool,
    /// Whoever waits for the door to open, which may be more than the handler.
    outside: Vec<Waker>,
    inside: Option<Waker>,
}

impl Door {
    /// The task, if the handler is one already.
    pub(crate) fn beyond(&self) -> Option<&Arc<Running>> {
        self.beyond.get()
    }

    pub(crate) fn open(&self, running: Arc<Running>) {
        let _ = self.beyond.set(running);
        self.knocks.lock().outside.drain(..).for_each(Waker::wake);
    }

    /// Waits, as the handler, until the door opens.
    pub(crate) async fn leave(&self) {
        poll_fn(|task| {
            if self.beyond.get().is_some() {
                return Poll::Ready(());
            }
            let mut knocks = self.knocks.lock();
            knocks.knocked = true;
            if !knocks.outside.iter().any(|waiting| waiting.will_wake(task.waker())) {
                knocks.outside.push(task.waker().clone());
            }
            if let Some(waker) = knocks.inside.take() {
                waker.wake();
            }
            // It may have opened in between.
            if self.beyond.get().is_some() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn is_knocked(&self, waker: &Waker) -> bool {
        let mut knocks = self.knocks.lock();
        if !knocks.knocked {
            knocks.inside = Some(waker.clone());
        }
        knocks.knocked
    }
}

/// How far a handler came within its call.
pub(crate) enum Until {
    Answered(Box<Result<ToolResult, ErrorObject>>),
    Asked(CallOutcome),
    /// It wants to go on as a task.
    Left(Ready<Result<ToolResult, ErrorObject>>),
}

/// Runs a handler until it answers, asks, or wants to go on as a task.
pub(crate) async fn until_answered(
    mut handler: Ready<Result<ToolResult, ErrorObject>>,
    rounds: Option<&Rounds>,
    door: &Door,
) -> Until {
    let reached = poll_fn(|task| {
        if let Poll::Ready(result) = Pin::new(&mut handler).poll(task) {
            return Poll::Ready(Some(Until::Answered(Box::new(result))));
        }
        if let Some(asked) = rounds.and_then(|rounds| rounds.end(task.waker())) {
            return Poll::Ready(Some(Until::Asked(asked)));
        }
        if door.is_knocked(task.waker()) { Poll::Ready(None) } else { Poll::Pending }
    })
    .await;
    reached.unwrap_or(Until::Left(handler))
}
