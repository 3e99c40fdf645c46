/// What has happened on a connection so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Requests that we sent.
    pub requests_sent: u64,
    /// Requests that the peer sent.
    pub requests_received: u64,
    /// Notifications that we sent.
    pub notifications_sent: u64,
    /// Notifications that the peer sent.
    pub notifications_received: u64,
    /// Requests of ours that got a result.
    pub completed: u64,
    /// Requests of ours that got an error, or an answer that made no sense.
    pub failed: u64,
    /// Requests of ours that got nothing in time.
    pub timed_out: u64,
    /// Requests, of either side, that were given up.
    pub cancelled: u64,
    /// Messages that were none.
    pub parse_errors: u64,
    /// Messages that came too late, or about something unknown, and were passed over.
    pub ignored: u64,
    /// Bytes that we sent.
    pub bytes_sent: u64,
    /// Bytes that the peer sent.
    pub bytes_received: u64,
}
