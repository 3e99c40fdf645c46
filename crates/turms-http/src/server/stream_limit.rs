//! The limit on event streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts open event streams.
#[derive(Debug, Clone, Default)]
pub(super) struct StreamLimit(Arc<AtomicUsize>);

/// One open event stream, until it is dropped.
#[derive(Debug)]
pub(super) struct Permit(Arc<AtomicUsize>);

impl StreamLimit {
    /// Opens a stream if fewer than `max` are open.
    pub(super) fn take(&self, max: usize) -> Option<Permit> {
        let taken =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < max).then_some(count + 1));
        taken.is_ok().then(|| Permit(self.0.clone()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
