use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Cancels calls: give a clone to any number of calls, and cancel them all at once.
///
/// ```
/// use turms_client::Cancel;
///
/// let cancel = Cancel::new();
/// assert!(!cancel.is_cancelled());
/// cancel.clone().cancel();
/// assert!(cancel.is_cancelled());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    cancelled: AtomicBool,
    changed: Notify,
}

impl Cancel {
    /// A token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels every call that has this token, now and later.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Release);
        self.0.changed.notify_waiters();
    }

    /// Returns `true` if it was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Waits until it is cancelled.
    pub async fn cancelled(&self) {
        let mut changed = pin!(self.0.changed.notified());
        // From here on no change is missed, so looking once is enough.
        changed.as_mut().enable();
        if !self.is_cancelled() {
            changed.await;
        }
    }
}
