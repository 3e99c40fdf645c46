//! Helpers shared by the integration tests of Turms. Not published.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]
#![allow(clippy::needless_pass_by_value, reason = "callers pass messages as literals")]
#![allow(
    clippy::exhaustive_structs,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    reason = "only tests use them"
)]

#[cfg(feature = "server")]
pub mod behaviour_server;
pub mod browser;
#[cfg(feature = "server")]
mod call_counters;
#[cfg(feature = "server")]
pub mod fake_http_server;
#[cfg(feature = "server")]
pub mod fake_server;
#[cfg(feature = "server")]
pub mod fixture;
#[cfg(feature = "fuzz")]
pub mod fuzz;
#[cfg(feature = "server")]
pub mod messages;
#[cfg(all(feature = "server", target_os = "linux"))]
pub mod misbehaving_server;
#[cfg(target_os = "linux")]
pub mod process;
#[cfg(feature = "proxy")]
pub mod proxy;
#[cfg(feature = "server")]
pub mod raw_http;
pub mod raw_ws;
mod schema;
mod software;
#[cfg(feature = "server")]
pub mod test_client;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(feature = "server")]
pub mod tools;
mod trace;
mod wait;

#[cfg(feature = "server")]
pub use call_counters::{CallCounters, CountOnDrop};
pub use schema::{official_schema, public_suite};
pub use software::{node, peer_file, program, python};
pub use trace::{TraceEvent, TraceEvents};
pub use wait::{TIMEOUT, eventually, within};
