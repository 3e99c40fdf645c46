//! The locks of shared state: those of `parking_lot` and the standard library, and in unit tests some that loom can schedule.

#[cfg(not(test))]
pub(crate) use std::sync::OnceLock;

#[cfg(not(test))]
pub(crate) use parking_lot::Mutex;
#[cfg(test)]
pub(crate) use turms_loom::{Mutex, OnceLock};
