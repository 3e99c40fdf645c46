//! The lock of shared state: `parking_lot`'s, and in unit tests one that loom can schedule.

#[cfg(not(test))]
pub(super) use parking_lot::{Mutex, MutexGuard};
#[cfg(test)]
pub(super) use turms_loom::{Mutex, MutexGuard};
