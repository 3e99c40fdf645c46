//! WebSocket over real sockets: with the client of this toolkit, by hand frame by frame, and against others' implementations.
//!
//! The suite of behaviour of `turms-client` runs over WebSocket as well; here is what only this transport has.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod conversation;
mod dial;
mod fixture;
mod frames;
mod life;
mod peers;
mod refusal;
mod tls;
mod transports;
