//! Tasks, against servers that are played by hand: the extension of 2026-07-28 and the experimental tasks of 2025-11-25.
//! The clock stands still unless everybody waits.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "task/peer.rs"]
mod peer;

#[path = "task/core.rs"]
mod core;
#[path = "task/handle.rs"]
mod handle;
#[path = "task/waiting.rs"]
mod waiting;
