//! One test suite for every revision and transport. Servers that break the protocol are scripted line by line.

pub(crate) mod peer;
mod reach;

mod answers;
mod batch;
mod beside;
mod cache;
mod cancellation;
mod changes;
mod handlers;
mod identity;
mod listen_filter;
mod lists;
mod local;
mod logs;
mod malformed;
mod max_duration;
mod memory;
mod opening;
mod progress;
mod prompts;
mod raw;
mod repeat;
mod resources;
mod rounds;
mod slow_start;
mod state;
mod tasks;
mod tools;
