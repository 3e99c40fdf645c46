//! Keep-alive comments for event streams.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::sse;

/// Emits a comment after a period without writes.
#[derive(Debug)]
pub(super) struct KeepAlive {
    timer: Pin<Box<Sleep>>,
    period: Duration,
}

impl KeepAlive {
    pub(super) fn new(period: Duration) -> Self {
        Self { timer: Box::pin(tokio::time::sleep(period)), period }
    }

    /// Restarts the period.
    pub(super) fn reset(&mut self) {
        self.timer.as_mut().reset(Instant::now() + self.period);
    }

    /// Returns the comment when it is due.
    pub(super) fn poll(&mut self, task: &mut Context<'_>) -> Poll<&'static [u8]> {
        if self.timer.as_mut().poll(task).is_pending() {
            return Poll::Pending;
        }
        self.reset();
        // Registers the waker for the next period.
        let _ = self.timer.as_mut().poll(task);
        Poll::Ready(sse::KEEP_ALIVE)
    }
}
