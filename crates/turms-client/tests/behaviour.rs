//! One suite of behaviour, driven through the client for every revision: in this process, over a pair of pipes, against a
//! program of its own, and over a WebSocket. What no good server does is played by hand, line by line.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod fixture;

#[path = "behaviour/peer.rs"]
mod peer;
#[path = "behaviour/reach.rs"]
mod reach;

#[path = "behaviour/answers.rs"]
mod answers;
#[path = "behaviour/batch.rs"]
mod batch;
#[path = "behaviour/cache.rs"]
mod cache;
#[path = "behaviour/cancellation.rs"]
mod cancellation;
#[path = "behaviour/changes.rs"]
mod changes;
#[path = "behaviour/identity.rs"]
mod identity;
#[path = "behaviour/lists.rs"]
mod lists;
#[path = "behaviour/local.rs"]
mod local;
#[path = "behaviour/logs.rs"]
mod logs;
#[path = "behaviour/malformed.rs"]
mod malformed;
#[path = "behaviour/memory.rs"]
mod memory;
#[path = "behaviour/opening.rs"]
mod opening;
#[path = "behaviour/progress.rs"]
mod progress;
#[path = "behaviour/prompts.rs"]
mod prompts;
#[path = "behaviour/raw.rs"]
mod raw;
#[path = "behaviour/repeat.rs"]
mod repeat;
#[path = "behaviour/resources.rs"]
mod resources;
#[path = "behaviour/rounds.rs"]
mod rounds;
#[path = "behaviour/slow_start.rs"]
mod slow_start;
#[path = "behaviour/state.rs"]
mod state;
#[path = "behaviour/tasks.rs"]
mod tasks;
#[path = "behaviour/tools.rs"]
mod tools;
