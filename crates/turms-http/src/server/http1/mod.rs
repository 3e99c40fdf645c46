//! HTTP/1.1 by ourselves, for what a listener of ours serves: one future for each connection, no task and no channel.
//!
//! Requests are read into one buffer each, of which head and body are parts; nothing of a request that is not looked at is
//! made into a value. While a connection is idle or a stream of events is open, it holds no buffer at all.
//!
//! What two readers could understand in two ways is refused (RFC 9112, 11.2): see [`head::BadHead`].

mod body;
mod connection;
mod head;
mod idle_timer;
mod io;
mod response;
mod rewind;
#[cfg(test)]
mod tests;
mod write_timeout;

pub(super) use self::connection::converse;
pub(super) use self::head::WireHead;
pub(super) use self::write_timeout::Stall;
