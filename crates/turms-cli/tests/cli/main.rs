//! The real binary, used as a person or a script would.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

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
mod run;
mod servers;
#[cfg(unix)]
mod shell;
mod transports;
