use std::time::Duration;

use turms_proto::{DEFAULT_BATCH_LIMIT, Lines};

/// The limits of a server or a client, the same for every transport.
///
/// Set them with [`Server::limits`](https://docs.rs/turms-server). A connection over stdio, a byte stream, WebSocket or HTTP+SSE,
/// and a session over HTTP, each have their own count.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum length of a message in bytes. Default: 16 MiB. A longer one is discarded: if it is a response, its request fails with
    /// [`PeerError::TooLarge`](crate::PeerError::TooLarge); if it is a request, it is refused. Over HTTP the body of a
    /// request also has a limit of its own.
    pub max_message_bytes: usize,
    /// Maximum number of messages in a batch. Default: 100.
    pub max_batch: usize,
    /// Maximum number of requests of the peer that run at once. Default: 1024. More wait; over HTTP, where the client can retry, they are refused.
    pub max_in_flight: usize,
    /// Maximum number of notification handlers that run at once. Default: 256. More notifications wait.
    pub max_notifications: usize,
    /// Maximum number of requests and notifications that wait. Default: 16 384. More requests are refused, more notifications dropped.
    pub max_queued: usize,
    /// Maximum number of bytes that waiting requests and notifications keep in memory: ids, methods and parameters. Default: 64 MiB.
    /// More requests are refused, more notifications dropped.
    pub max_queued_bytes: usize,
    /// Maximum number of open subscriptions. Default: 256. More are refused.
    pub max_subscriptions: usize,
    /// Maximum number of bytes in the write buffer. Default: 1 MiB. When it is reached, handlers wait to send; when responses alone
    /// reach it, no more requests are read.
    pub max_write_buffer_bytes: usize,
    /// Timeout for a peer that does not read what is written to it. Default: 1 min.
    pub write_timeout: Duration,
    /// Timeout for running calls when the peer has disconnected or the server shuts down. Default: 2 s.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_message_bytes: Lines::DEFAULT_LIMIT,
            max_batch: DEFAULT_BATCH_LIMIT,
            max_in_flight: 1024,
            max_notifications: 256,
            max_queued: 16 * 1024,
            max_queued_bytes: 64 * 1024 * 1024,
            max_subscriptions: 256,
            max_write_buffer_bytes: 1024 * 1024,
            write_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(2),
        }
    }
}

macro_rules! setters {
    ($($name:ident: $Type:ty,)+) => {
        impl Limits {$(
            #[doc = concat!("Sets [`", stringify!($name), "`](field@Self::", stringify!($name), ").")]
            #[must_use]
            pub fn $name(mut self, $name: $Type) -> Self {
                self.$name = $name;
                self
            }
        )+}
    };
}

setters! {
    max_message_bytes: usize,
    max_batch: usize,
    max_in_flight: usize,
    max_notifications: usize,
    max_queued: usize,
    max_queued_bytes: usize,
    max_subscriptions: usize,
    max_write_buffer_bytes: usize,
    write_timeout: Duration,
    drain_timeout: Duration,
}

impl Limits {
    /// Creates the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, bytes, count, time};

        let it = Limits::new();
        let code = [
            ("Limits::max_message_bytes", bytes(it.max_message_bytes)),
            ("Limits::max_batch", count(it.max_batch)),
            ("Limits::max_in_flight", count(it.max_in_flight)),
            ("Limits::max_notifications", count(it.max_notifications)),
            ("Limits::max_queued", count(it.max_queued)),
            ("Limits::max_queued_bytes", bytes(it.max_queued_bytes)),
            ("Limits::max_subscriptions", count(it.max_subscriptions)),
            ("Limits::max_write_buffer_bytes", bytes(it.max_write_buffer_bytes)),
            ("Limits::write_timeout", time(it.write_timeout)),
            ("Limits::drain_timeout", time(it.drain_timeout)),
        ];
        assert_documented(include_str!("limits.rs"), &code);
    }
}
