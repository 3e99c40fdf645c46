//! Graceful shutdown of the connections of a listener.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// Signals the connections of a listener to finish, then to stop. Reading the phase is one atomic load.
#[derive(Debug, Default)]
pub(super) struct GracefulShutdown {
    phase: AtomicU8,
    changed: Arc<Notify>,
}

const SHUTTING_DOWN: u8 = 1;
const ABORTED: u8 = 2;

impl GracefulShutdown {
    /// Begins the shutdown: requests in flight may finish, and connections accept no further ones.
    pub(super) fn begin(&self) {
        self.enter(SHUTTING_DOWN);
    }

    /// Stops the futures of [`GracefulShutdown::run`].
    pub(super) fn abort(&self) {
        self.enter(ABORTED);
    }

    fn enter(&self, phase: u8) {
        self.phase.store(phase, Ordering::Release);
        self.changed.notify_waiters();
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.phase() >= SHUTTING_DOWN
    }

    fn phase(&self) -> u8 {
        self.phase.load(Ordering::Acquire)
    }

    /// Runs a future. Returns `None` if it is aborted. The future is polled when the shutdown begins, so that it can
    /// check [`GracefulShutdown::is_shutting_down`].
    pub(super) fn run<F: Future>(self: Arc<Self>, work: F) -> RunUntilAborted<F> {
        RunUntilAborted { work, changed: self.changed.clone().notified_owned(), shutdown: self, registered: None }
    }

    /// Runs a future. Returns `None` if the shutdown begins before it completes.
    #[cfg(feature = "server-tls")]
    pub(super) async fn run_until_begun<F: Future>(self: Arc<Self>, work: F) -> Option<F::Output> {
        let mut work = std::pin::pin!(work);
        let shutdown = self.clone();
        let work = std::future::poll_fn(|task| match work.as_mut().poll(task) {
            Poll::Pending if shutdown.is_shutting_down() => Poll::Ready(None),
            output => output.map(Some),
        });
        self.run(work).await.flatten()
    }
}

pin_project! {
    /// Future of [`GracefulShutdown::run`].
    pub(super) struct RunUntilAborted<F> {
        shutdown: Arc<GracefulShutdown>,
        #[pin]
        work: F,
        #[pin]
        changed: OwnedNotified,
        // The phase after which `changed` was registered, and its waker.
        registered: Option<(u8, Waker)>,
    }
}

impl<F: Future> Future for RunUntilAborted<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let phase = this.shutdown.phase();
            match this.registered {
                Some((seen, waker)) if *seen == phase && waker.will_wake(task.waker()) => break,
                _ => {}
            }
            // Registered before the phase is read again, so that no change is missed.
            this.changed.set(this.shutdown.changed.clone().notified_owned());
            let _ = this.changed.as_mut().poll(task);
            *this.registered = Some((phase, task.waker().clone()));
        }
        if this.shutdown.phase() == ABORTED {
            return Poll::Ready(None);
        }
        this.work.poll(task).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn work_is_polled_when_the_shutdown_begins_and_dropped_when_it_is_aborted() {
        let shutdown = Arc::new(GracefulShutdown::default());
        let (inner, outer) = (shutdown.clone(), shutdown.clone());
        let finishes = tokio::spawn(async move {
            let work = poll_fn(|_| if inner.is_shutting_down() { Poll::Ready(7) } else { Poll::Pending });
            inner.clone().run(work).await
        });
        let never = tokio::spawn(async move { outer.run(pending::<()>()).await });
        tokio::task::yield_now().await;
        shutdown.begin();
        assert_eq!(finishes.await.unwrap(), Some(7));
        assert!(!never.is_finished());
        shutdown.abort();
        assert_eq!(never.await.unwrap(), None);
    }

    /// In a `select!`, several futures share a task, and each poll may have another waker.
    #[tokio::test]
    async fn it_can_share_a_task_with_others() {
        let shutdown = Arc::new(GracefulShutdown::default());
        let moved = shutdown.clone();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        // Polled once in this task, then in another.
        let mut work = Box::pin(moved.run(pending::<()>()));
        poll_fn(|task| Poll::Ready(work.as_mut().poll(task).is_pending())).await;
        tokio::spawn(async move {
            let _ = sender.send(work.await);
        });
        tokio::task::yield_now().await;
        shutdown.abort();
        let ended = tokio::time::timeout(Duration::from_secs(5), receiver).await;
        assert_eq!(ended.unwrap().unwrap(), None);
    }
}
