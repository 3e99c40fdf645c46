//! What was measured.

use std::time::{Duration, Instant};

use crate::server::Server;

/// When to count: after the server has become warm.
pub(crate) struct Clock {
    begin: Instant,
    end: Instant,
}

impl Clock {
    pub(crate) fn new(time: Duration) -> Self {
        let begin = Instant::now() + time / 4;
        Self { begin, end: begin + time }
    }

    pub(crate) fn begin(&self) -> Instant {
        self.begin
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }
}

/// How long calls took.
#[derive(Default)]
pub(crate) struct Tally(Vec<u64>);

impl Tally {
    pub(crate) fn add(&mut self, clock: &Clock, asked: Instant) {
        if asked >= clock.begin {
            self.0.push(u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
    }

    pub(crate) fn join(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// In one line; `before` is what the server had used of the processor when the clock began to count.
    pub(crate) fn line(mut self, server: &Server, before: u64) -> String {
        self.0.sort_unstable();
        let calls = self.0.len().max(1);
        let at = |part: f64| self.0.get((calls as f64 * part) as usize).copied().unwrap_or_default();
        let cpu = server.cpu().saturating_sub(before) / calls as u64;
        format!("calls={} cpu_ns={cpu} p50_ns={} p99_ns={}", self.0.len(), at(0.5), at(0.99))
    }
}
