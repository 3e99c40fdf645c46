//! Helpers shared by the integration tests of Turms. Not published.

mod schema;
mod software;
mod wait;

pub use schema::official_schema;
pub use software::{node, peer_file, program, python};
pub use wait::{TIMEOUT, eventually, within};
