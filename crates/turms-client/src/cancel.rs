use std::sync::Arc;

use tokio::sync::watch;

/// Gives up calls from outside: hand a clone to any number of calls, and cancel them all at once.
///
/// ```
/// use turms_client::Cancel;
///
/// let cancel = Cancel::new();
/// assert!(!cancel.is_cancelled());
/// cancel.clone().cancel();
/// assert!(cancel.is_cancelled());
/// ```
#[derive(Debug, Clone)]
pub struct Cancel(Arc<watch::Sender<bool>>);

impl Cancel {
    /// One that nothing has been cancelled with.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Gives up every call that has this, now and later.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    /// Whether it was used.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is used.
    pub async fn cancelled(&self) {
        // It cannot be dropped while it is borrowed here.
        let _ = self.0.subscribe().wait_for(|cancelled| *cancelled).await;
    }
}

impl Default for Cancel {
    fn default() -> Self {
        Self::new()
    }
}
