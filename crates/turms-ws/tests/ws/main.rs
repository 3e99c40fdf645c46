//! WebSocket over real sockets: with the client of Turms, with raw frames, and with other implementations.
//!
//! The behaviour suite of `turms-client` also runs over WebSocket; these tests cover what is specific to this transport.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod authorize;
mod client_handshake;
mod fixture;
mod frames;
mod lifecycle;
mod peers;
mod rejection;
mod session;
mod tls;
mod transports;
