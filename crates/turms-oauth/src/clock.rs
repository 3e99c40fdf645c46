//! The time of day.

use std::time::SystemTime;

/// Returns the time of day.
#[expect(clippy::disallowed_methods, reason = "tokens, assertions and proofs have times of day")]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}
