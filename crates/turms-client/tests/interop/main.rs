//! Held against servers that others wrote: two that are published, and one on each version of the official SDKs.
//!
//! They are real processes, reached over standard input and output or over HTTP. `peers/README.md` says what each of them offers and where they differ; `cargo xtask peers`
//! installs them.
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
