//! The lock of shared state: `parking_lot`, or a version for loom in unit tests.

#[cfg(not(test))]
pub(super) use parking_lot::{Mutex, MutexGuard};
#[cfg(test)]
pub(super) use turms_loom::{Mutex, MutexGuard};
