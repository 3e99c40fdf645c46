//! Comments that show that a quiet stream is alive.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::sse;

/// Says when a stream has been quiet for so long that a comment is due.
#[derive(Debug)]
pub(super) struct KeepAlive {
    timer: Pin<Box<Sleep>>,
    period: Duration,
}

impl KeepAlive {
    pub(super) fn new(period: Duration) -> Self {
        Self { timer: Box::pin(tokio::time::sleep(period)), period }
    }

    /// Something was written.
    pub(super) fn reset(&mut self) {
        self.timer.as_mut().reset(Instant::now() + self.period);
    }

    /// The comment, when it is due.
    pub(super) fn poll(&mut self, task: &mut Context<'_>) -> Poll<&'static [u8]> {
        if self.timer.as_mut().poll(task).is_pending() {
            return Poll::Pending;
        }
        self.reset();
        // The timer wakes us only if it is asked.
        let _ = self.timer.as_mut().poll(task);
        Poll::Ready(sse::KEEP_ALIVE)
    }
}
