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
        // A task that has done much at once would be put off by the timer, which would then never be asked.
        while Pin::new(&mut tokio::task::unconstrained(self.timer.as_mut())).poll(task).is_ready() {
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use super::*;

    /// A task that has done much at once is told to wait by everything that it asks, timers among them.
    #[tokio::test(start_paused = true)]
    async fn patience_ends_also_for_a_task_that_has_done_much_at_once() {
        let mut patience = Patience::new(Duration::from_secs(1));
        poll_fn(|task| {
            while pin!(tokio::task::consume_budget()).poll(task).is_ready() {}
            assert!(patience.poll(task).is_pending());
            Poll::Ready(())
        })
        .await;
        let end = poll_fn(|task| patience.poll(task));
        tokio::time::timeout(Duration::from_secs(2), end).await.unwrap();
    }
}
