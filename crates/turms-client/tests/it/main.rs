//! The public API of the client: against servers of ours over every transport, and against fake ones.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod apps;
mod batch;
mod behaviour;
mod extension;
#[cfg(target_os = "linux")]
mod fault;
mod group;
mod http;
mod pool;
mod served;
#[cfg(feature = "skills")]
mod skills;
mod stream_health;
mod supervision;
mod task;
