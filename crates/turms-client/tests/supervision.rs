//! A client that keeps going: what it does about connections that end, servers that hang and calls that are lost, and what it
//! tells of it. Over pairs in memory, with a clock that stands still unless everybody waits.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "supervision/world.rs"]
mod world;

#[path = "supervision/breaker.rs"]
mod breaker;
#[path = "supervision/end.rs"]
mod end;
#[path = "supervision/health.rs"]
mod health;
#[path = "supervision/reconnect.rs"]
mod reconnect;
#[path = "supervision/restored.rs"]
mod restored;
#[path = "supervision/retry.rs"]
mod retry;
