//! The locks of shared state: `parking_lot` and the standard library, or versions for loom in unit tests.

#[cfg(not(test))]
pub(crate) use std::sync::OnceLock;

#[cfg(not(test))]
pub(crate) use parking_lot::Mutex;
#[cfg(test)]
pub(crate) use turms_loom::{Mutex, OnceLock};
