//! Telling all connections of a listener to end.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Poll;

use tokio::sync::Notify;

/// How long connections may go on. Asking costs next to nothing, so that it can be asked whenever something happens.
#[derive(Debug, Default)]
pub(super) struct Ward {
    phase: AtomicU8,
    changed: Notify,
}

const ENDING: u8 = 1;
const CUT: u8 = 2;

impl Ward {
    /// What runs may finish; nothing new begins.
    pub(super) fn begin_ending(&self) {
        self.enter(ENDING);
    }

    /// Nothing goes on.
    pub(super) fn cut(&self) {
        self.enter(CUT);
    }

    fn enter(&self, phase: u8) {
        self.phase.store(phase, Ordering::Release);
        self.changed.notify_waiters();
    }

    pub(super) fn is_ending(&self) -> bool {
        self.phase() >= ENDING
    }

    fn phase(&self) -> u8 {
        self.phase.load(Ordering::Acquire)
    }

    /// Does something until it is over or connections are to end. As [`Ward::watch`], all that its task does meanwhile.
    #[cfg(feature = "tls")]
    pub(super) async fn until_ending<F: Future>(&self, mut work: Pin<&mut F>) -> Option<F::Output> {
        let work = pin!(std::future::poll_fn(|task| match work.as_mut().poll(task) {
            Poll::Pending if self.is_ending() => Poll::Ready(None),
            over => over.map(Some),
        }));
        self.watch(work).await.flatten()
    }

    /// Does something until it is over or cut. It is polled, too, when connections are to end.
    ///
    /// This has to be all that its task does: it asks to be woken once, not whenever it is polled.
    pub(super) async fn watch<F: Future>(&self, mut work: Pin<&mut F>) -> Option<F::Output> {
        let mut changed = pin!(self.changed.notified());
        let mut seen = None;
        std::future::poll_fn(|task| {
            // What changes while it is asked for is not missed: then it is asked for again.
            loop {
                let phase = self.phase();
                if seen == Some(phase) {
                    break;
                }
                changed.set(self.changed.notified());
                let _ = changed.as_mut().poll(task);
                seen = Some(phase);
            }
            if seen == Some(CUT) {
                return Poll::Ready(None);
            }
            work.as_mut().poll(task).map(Some)
        })
        .await
    }
}
