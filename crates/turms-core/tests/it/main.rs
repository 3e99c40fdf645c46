//! The public API of the core: connections, child processes, the registry and the stores.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[cfg(target_os = "linux")]
mod child;
mod connection;
mod message_limit;
mod registry;
mod store;
