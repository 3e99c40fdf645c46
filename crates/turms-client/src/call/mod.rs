//! A call: its error.

pub(crate) mod error;
