//! The clock of an authorization server.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time of day in seconds since 1970, which tests can move forward.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    ahead: AtomicU64,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "expiries in tokens need the calendar")]
    pub(crate) fn now(&self) -> u64 {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        since_1970.saturating_add(self.ahead.load(Ordering::Relaxed))
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.ahead.fetch_add(by.as_secs(), Ordering::Relaxed);
    }
}

/// Returns the second in which a lifetime that begins now ends.
pub(crate) fn end_of(now: u64, lifetime: Duration) -> u64 {
    now.saturating_add(lifetime.as_secs())
}
