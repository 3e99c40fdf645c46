//! The time of day, in seconds since 1970. Tests set it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The source of the time.
#[derive(Debug, Clone, Default)]
pub struct GuardClock(Option<Arc<AtomicU64>>);

impl GuardClock {
    /// Creates a clock that stands at a time, in seconds since 1970, until it is moved.
    #[must_use]
    pub fn standing_at(seconds: u64) -> Self {
        Self(Some(Arc::new(AtomicU64::new(seconds * 1000))))
    }

    /// Moves a standing clock. Does nothing for the clock of the system.
    pub fn advance(&self, by: Duration) {
        if let Some(millis) = &self.0 {
            millis.fetch_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
        }
    }

    /// Returns the time, in seconds since 1970.
    #[must_use]
    pub fn now(&self) -> f64 {
        match &self.0 {
            Some(millis) => Duration::from_millis(millis.load(Ordering::SeqCst)),
            #[expect(clippy::disallowed_methods, reason = "tokens expire at a time of day")]
            None => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        }
        .as_secs_f64()
    }
}

/// The last second of the year 9999. Later times are taken for this one.
const MAX_SECONDS: f64 = 253_402_300_799.0;

/// Converts seconds since 1970 to a time of the system.
pub(super) fn system_time(seconds: f64) -> SystemTime {
    let since = Duration::try_from_secs_f64(seconds.clamp(0.0, MAX_SECONDS)).unwrap_or_default();
    UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_out_of_range_are_limited() {
        assert_eq!(system_time(-5.0), UNIX_EPOCH);
        assert_eq!(system_time(f64::NAN), UNIX_EPOCH);
        assert_eq!(system_time(1e300), UNIX_EPOCH + Duration::from_secs(253_402_300_799));
        assert_eq!(system_time(1.5), UNIX_EPOCH + Duration::from_millis(1500));
    }
}
