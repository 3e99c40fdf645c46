//! Counting calls and their cost.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use crate::server::{Server, cpu_of};

/// Counts the calls after a warm-up phase, with their latency and the CPU time of server and client.
pub(crate) struct Tally {
    begin: Instant,
    middle: Instant,
    end: Instant,
    /// Number of all calls, including the warm-up.
    answered: Cell<usize>,
    /// Latency of each call after the warm-up, in nanoseconds.
    taken: RefCell<Vec<u64>>,
    /// CPU times at the end of the warm-up and in the middle of the measurement.
    marks: RefCell<Vec<Mark>>,
}

/// CPU time of server and client in nanoseconds, and the number of calls, at one point in time.
#[derive(Clone, Copy)]
struct Mark {
    server: u64,
    client: u64,
    calls: usize,
}

impl Mark {
    fn new(server: &Server, calls: usize) -> Self {
        Self { server: server.cpu(), client: cpu_of("self"), calls }
    }
}

impl Tally {
    pub(crate) fn new(time: Duration) -> Self {
        let begin = Instant::now() + time / 4;
        let (taken, marks) = (RefCell::default(), RefCell::default());
        Self { begin, middle: begin + time / 2, end: begin + time, answered: Cell::default(), taken, marks }
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Counts a call that was sent at `sent` and has its response.
    pub(crate) fn add(&self, server: &Server, sent: Instant) {
        self.answered.set(self.answered.get() + 1);
        let mut taken = self.taken.borrow_mut();
        let mut marks = self.marks.borrow_mut();
        if sent >= if marks.is_empty() { self.begin } else { self.middle } && marks.len() < 2 {
            marks.push(Mark::new(server, taken.len()));
        }
        if !marks.is_empty() {
            taken.push(u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
    }

    /// Returns the results in one line.
    pub(crate) fn line(self, server: &Server) -> String {
        let (mut taken, mut marks) = (self.taken.into_inner(), self.marks.into_inner());
        marks.push(Mark::new(server, taken.len()));
        taken.sort_unstable();
        let at = |part: f64| taken.get((taken.len() as f64 * part) as usize).copied().unwrap_or_default();
        let (all, p50, p99) = (self.answered.get(), at(0.5), at(0.99));
        let mut line = format!("all_calls={all} calls={} p50_ns={p50} p99_ns={p99}", taken.len());
        let calls = |from: Mark, to: Mark| (to.calls - from.calls).max(1) as u64;
        let cost = |from: Mark, to: Mark| (to.server - from.server) / calls(from, to);
        if let [first, middle, last] = marks[..] {
            let (all, early, late) = (cost(first, last), cost(first, middle), cost(middle, last));
            let client = (last.client - first.client) / calls(first, last);
            line.push_str(&format!(" cpu_ns={all} early_ns={early} late_ns={late} client_ns={client}"));
        }
        line
    }
}
