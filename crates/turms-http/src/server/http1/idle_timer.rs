//! The idle timeout of a connection.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// Resolves after a connection has been idle for too long. There is one timer per connection. It is not reset for each
/// request, because that would take the lock of the timer wheel.
#[derive(Debug)]
pub(super) struct IdleTimer {
    timeout: Duration,
    idle_since: Instant,
    timer: Pin<Box<Sleep>>,
    /// The waker that is registered with the timer.
    waker: Option<Waker>,
}

impl IdleTimer {
    pub(super) fn new(timeout: Duration) -> Self {
        let now = Instant::now();
        Self { timeout, idle_since: now, timer: Box::pin(tokio::time::sleep_until(now + timeout)), waker: None }
    }

    /// Restarts the timeout.
    pub(super) fn restart(&mut self) {
        self.idle_since = Instant::now();
    }

    pub(super) fn poll(&mut self, task: &mut Context<'_>) -> Poll<()> {
        let is_registered = self.waker.as_ref().is_some_and(|waker| waker.will_wake(task.waker()));
        if is_registered && !self.timer.is_elapsed() {
            return Poll::Pending;
        }
        // Unconstrained: in a task without coop budget, the timer would return `Pending` without registering the waker.
        while Pin::new(&mut tokio::task::unconstrained(self.timer.as_mut())).poll(task).is_ready() {
            let deadline = self.idle_since + self.timeout;
            if deadline <= Instant::now() {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(deadline);
        }
        self.waker = Some(task.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_without_budget_is_registered() {
        let mut idle = IdleTimer::new(Duration::from_secs(1));
        poll_fn(|task| {
            while pin!(tokio::task::consume_budget()).poll(task).is_ready() {}
            assert!(idle.poll(task).is_pending());
            Poll::Ready(())
        })
        .await;
        let end = poll_fn(|task| idle.poll(task));
        tokio::time::timeout(Duration::from_secs(2), end).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_waker_is_woken() {
        let mut idle = IdleTimer::new(Duration::from_secs(1));
        let counters = [Arc::new(Counter::default()), Arc::new(Counter::default())];
        for counter in &counters {
            let waker = Waker::from(counter.clone());
            assert!(idle.poll(&mut Context::from_waker(&waker)).is_pending());
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(counters.map(|counter| counter.0.load(Ordering::SeqCst)), [0, 1]);
    }
}
