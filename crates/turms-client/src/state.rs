use std::time::Duration;

use turms_proto::session::ConnectionStats;

/// The counters of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ClientStats {
    /// Those of the current connection.
    pub connection: ConnectionStats,
    /// Those of all connections of the client, the current one included.
    pub lifetime: ConnectionStats,
}

/// A call without a response.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingCall {
    /// The id to [cancel](crate::Client::cancel) it by.
    pub id: u64,
    /// The method, and the name of the tool, the prompt or the resource: `tools/call "add"`.
    pub target: String,
    /// The time since the call began.
    pub elapsed: Duration,
}
