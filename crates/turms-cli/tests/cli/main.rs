//! Tests of the `turms` binary, at a terminal and in scripts.
#![allow(clippy::unwrap_used, reason = "test helpers panic on failure")]

mod auth;
#[cfg(unix)]
mod bridges;
mod commands;
mod errors;
#[cfg(unix)]
mod forms;
mod help;
mod input;
#[cfg(unix)]
mod peers;
mod proxy_and_tls;
mod repeat;
mod run;
mod servers;
#[cfg(unix)]
mod shell;
mod transports;
