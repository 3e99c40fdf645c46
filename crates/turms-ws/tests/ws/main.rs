//! WebSocket over real sockets: with the client of this toolkit, by hand frame by frame, and against others' implementations.
//!
//! The suite of behaviour of `turms-client` runs over WebSocket as well; here is what only this transport has.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod client_handshake;
mod fixture;
mod frames;
mod lifecycle;
mod peers;
mod rejection;
mod session;
mod tls;
mod transports;
