use std::time::Duration;

use turms_proto::session::ConnectionStats;

/// The counters of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ClientStats {
    /// The counters of the current connection.
    pub connection: ConnectionStats,
    /// The sums over all connections of the client, including the current one.
    pub lifetime: ConnectionStats,
}

/// A call that has no response yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingCall {
    /// The id for [`Client::cancel`](crate::Client::cancel).
    pub id: u64,
    /// The method, with the name of the tool, prompt or resource, such as `tools/call "add"`.
    pub target: String,
    /// The time since the call began.
    pub elapsed: Duration,
}
