//! How long nothing may happen on a connection.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// One timer for the whole life of a connection, which is not set anew for each request.
#[derive(Debug)]
pub(super) struct Patience {
    limit: Duration,
    since: Instant,
    timer: Pin<Box<Sleep>>,
    is_asked: bool,
}

impl Patience {
    pub(super) fn new(limit: Duration) -> Self {
        let since = Instant::now();
        Self { limit, since, timer: Box::pin(tokio::time::sleep_until(since + limit)), is_asked: false }
    }

    /// Something has happened.
    pub(super) fn renew(&mut self) {
        self.since = Instant::now();
    }

    /// Comes when nothing has happened for too long. The timer is asked once to wake the task, which is always the same.
    pub(super) fn poll(&mut self, task: &mut Context<'_>) -> Poll<()> {
        if self.is_asked && !self.timer.is_elapsed() {
            return Poll::Pending;
        }
        while self.timer.as_mut().poll(task).is_ready() {
            let end = self.since + self.limit;
            if end <= Instant::now() {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(end);
        }
        self.is_asked = true;
        Poll::Pending
    }
}
