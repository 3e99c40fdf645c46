//! How many there are of something that must not become too many.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts permits that are out.
#[derive(Debug, Clone, Default)]
pub(super) struct Gauge(Arc<AtomicUsize>);

/// One of what is counted, until it is dropped.
#[derive(Debug)]
pub(super) struct Permit(Arc<AtomicUsize>);

impl Gauge {
    /// One more, if there are fewer than so many.
    pub(super) fn take(&self, limit: usize) -> Option<Permit> {
        let taken =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < limit).then_some(count + 1));
        taken.is_ok().then(|| Permit(self.0.clone()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
