//! The public API of the server, with clients of every revision.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "helpers of tests fail as tests do")]

mod apps;
mod behaviour;
mod extension;
mod layers;
mod lines;
mod scopes;
#[cfg(feature = "skills")]
mod skills;
mod task;
mod task_edges;
