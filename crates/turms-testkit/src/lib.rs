//! Helpers shared by the integration tests of Turms. Not published.

mod schema;
mod wait;

pub use schema::official_schema;
pub use wait::{TIMEOUT, eventually, within};
