//! Helpers shared by the integration tests of Turms. Not published.

mod wait;

pub use wait::{TIMEOUT, eventually, within};
