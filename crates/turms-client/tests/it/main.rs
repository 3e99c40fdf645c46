//! The public API of the client, with servers of this project over every transport and with scripted servers.
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
