use std::time::Duration;

/// How a client stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// Calls go through.
    Connected,
    /// The connection was lost and another is tried; calls wait for it.
    Reconnecting,
    /// It is over.
    Closed,
}

/// A call that has no answer yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingCall {
    /// What to [cancel](crate::Client::cancel) it by.
    pub key: u64,
    /// The method, and the name of the tool, the prompt or the resource.
    pub subject: String,
    /// For how long it has been waiting.
    pub waiting: Duration,
}
