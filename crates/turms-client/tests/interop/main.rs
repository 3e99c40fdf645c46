//! Tests with servers of other projects: two published servers, and one on each version of the official SDKs.
//!
//! The servers are real processes, reached over standard input and output or over HTTP. `peers/README.md` lists what
//! each of them has and how they differ; `cargo xtask peers` installs them.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod conversation;
mod everything;
mod filesystem;
mod http;
mod life;
mod peer;
#[cfg(target_os = "linux")]
mod process;
mod revision;
