use std::time::Duration;

/// The state of a client's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// Calls go through.
    Connected,
    /// The connection was lost and another is tried; calls wait for it.
    Reconnecting,
    /// The client is closed.
    Closed,
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
