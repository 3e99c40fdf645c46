use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use std::time::Instant;

use tokio::time::Sleep;

/// A timer with a deadline that can be moved.
#[derive(Debug, Default)]
pub(super) struct DeadlineTimer {
    sleep: Option<Pin<Box<Sleep>>>,
    deadline: Option<Instant>,
}

impl DeadlineTimer {
    pub(super) fn set(&mut self, deadline: Option<Instant>) {
        if self.deadline == deadline {
            return;
        }
        self.deadline = deadline;
        if let Some(deadline) = deadline {
            let deadline = tokio::time::Instant::from_std(deadline);
            match &mut self.sleep {
                Some(sleep) => sleep.as_mut().reset(deadline),
                None => self.sleep = Some(Box::pin(tokio::time::sleep_until(deadline))),
            }
        }
    }

    pub(super) fn poll(&mut self, task: &mut TaskContext<'_>) -> Poll<()> {
        match (&mut self.sleep, self.deadline) {
            (Some(sleep), Some(_)) => {
                let poll = sleep.as_mut().poll(task);
                if poll.is_ready() {
                    self.deadline = None;
                }
                poll
            }
            _ => Poll::Pending,
        }
    }
}
