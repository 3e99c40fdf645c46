//! The limit on event streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts open event streams.
#[derive(Debug, Clone, Default)]
pub(super) struct StreamLimit(Arc<AtomicUsize>);

/// An open event stream. Dropping it releases the permit.
#[derive(Debug)]
pub(super) struct StreamPermit(Arc<AtomicUsize>);

impl StreamLimit {
    /// Takes a permit if fewer than `max` streams are open.
    pub(super) fn take(&self, max: usize) -> Option<StreamPermit> {
        let taken =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < max).then_some(count + 1));
        taken.is_ok().then(|| StreamPermit(self.0.clone()))
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
