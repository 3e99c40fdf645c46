use std::ops::AddAssign;

/// Statistics of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionStats {
    /// Requests sent.
    pub requests_sent: u64,
    /// Requests received.
    pub requests_received: u64,
    /// Notifications sent.
    pub notifications_sent: u64,
    /// Notifications received.
    pub notifications_received: u64,
    /// Sent requests that returned a result.
    pub completed: u64,
    /// Sent requests that returned an error or an invalid response.
    pub failed: u64,
    /// Sent requests that timed out.
    pub timed_out: u64,
    /// Cancelled requests of both sides.
    pub cancelled: u64,
    /// Invalid messages received.
    pub parse_errors: u64,
    /// Messages ignored because they were late or referred to an unknown request.
    pub ignored: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
}

/// Adds the statistics of another connection.
impl AddAssign for ConnectionStats {
    fn add_assign(&mut self, other: Self) {
        // Destructured, so that no counter can be forgotten.
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
