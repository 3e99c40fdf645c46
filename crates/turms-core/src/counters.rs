use std::sync::atomic::{AtomicU64, Ordering};

use turms_proto::session::ConnectionStats;

use crate::clock::CallClock;

/// The counters of a connection, for channels without a protocol session that counts.
#[derive(Debug, Default)]
pub struct Counters {
    requests_sent: AtomicU64,
    notifications_sent: AtomicU64,
    notifications_received: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
    timed_out: AtomicU64,
    cancelled: AtomicU64,
    bytes_sent: AtomicU64,
    bytes_received: AtomicU64,
}

impl Counters {
    /// Counts a request that is sent. Its outcome is counted by the returned guard.
    pub fn request(&self, clock: CallClock) -> CountedRequest<'_> {
        let number = self.requests_sent.fetch_add(1, Ordering::Relaxed) + 1;
        CountedRequest { counters: self, clock, number, is_finished: false }
    }

    /// Counts a notification that is sent.
    pub fn notification_sent(&self) {
        increment(&self.notifications_sent);
    }

    /// Counts a notification that is received.
    pub fn notification_received(&self) {
        increment(&self.notifications_received);
    }

    /// Counts bytes that are sent.
    pub fn sent(&self, bytes: usize) {
        self.bytes_sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes that are received.
    pub fn received(&self, bytes: usize) {
        self.bytes_received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns the statistics so far.
    #[must_use]
    pub fn stats(&self) -> ConnectionStats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut stats = ConnectionStats::default();
        stats.requests_sent = count(&self.requests_sent);
        stats.notifications_sent = count(&self.notifications_sent);
        stats.notifications_received = count(&self.notifications_received);
        stats.completed = count(&self.completed);
        stats.failed = count(&self.failed);
        stats.timed_out = count(&self.timed_out);
        stats.cancelled = count(&self.cancelled);
        stats.bytes_sent = count(&self.bytes_sent);
        stats.bytes_received = count(&self.bytes_received);
        stats
    }
}

fn increment(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A sent request, before its outcome is counted. Dropping it counts it as timed out or cancelled.
#[derive(Debug)]
#[must_use = "the outcome is counted when it is dropped"]
pub struct CountedRequest<'a> {
    counters: &'a Counters,
    clock: CallClock,
    number: u64,
    is_finished: bool,
}

impl CountedRequest<'_> {
    /// Returns the number of the request, starting at 1.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Counts the outcome of the request.
    pub fn finish<T, E>(mut self, outcome: Result<T, E>) -> Result<T, E> {
        self.is_finished = true;
        increment(if outcome.is_ok() { &self.counters.completed } else { &self.counters.failed });
        outcome
    }
}

impl Drop for CountedRequest<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            increment(if self.clock.is_over() { &self.counters.timed_out } else { &self.counters.cancelled });
        }
    }
}
