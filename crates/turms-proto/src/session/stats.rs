use std::ops::AddAssign;

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

/// What has happened on one connection and on another.
impl AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        // Taken apart, so that no counter can be forgotten.
        let Self {
            requests_sent,
            requests_received,
            notifications_sent,
            notifications_received,
            completed,
            failed,
            timed_out,
            cancelled,
            parse_errors,
            ignored,
            bytes_sent,
            bytes_received,
        } = other;
        self.requests_sent += requests_sent;
        self.requests_received += requests_received;
        self.notifications_sent += notifications_sent;
        self.notifications_received += notifications_received;
        self.completed += completed;
        self.failed += failed;
        self.timed_out += timed_out;
        self.cancelled += cancelled;
        self.parse_errors += parse_errors;
        self.ignored += ignored;
        self.bytes_sent += bytes_sent;
        self.bytes_received += bytes_received;
    }
}
