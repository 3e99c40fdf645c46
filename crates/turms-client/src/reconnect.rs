//! How a client keeps going when its server does not: reconnection, health checks, a circuit breaker, retries.

use std::time::Duration;

/// What a client does about a server that fails. Everything can be switched off on its own.
///
/// ```
/// use std::time::Duration;
/// use turms_client::{Backoff, Breaker, HealthCheck, Retry, Supervision};
///
/// let supervision = Supervision::new()
///     .backoff(Backoff::new().first(Duration::from_millis(50)).attempts(20))
///     .health_check(HealthCheck::every(Duration::from_secs(30)))
///     .breaker(Breaker::new().failures(5).rest(Duration::from_secs(10)))
///     .retry(Retry::new().attempts(2));
/// # let _ = supervision;
/// ```
#[derive(Debug, Clone)]
#[must_use]
#[non_exhaustive]
pub struct Supervision {
    /// How long to wait between attempts to reconnect.
    pub backoff: Backoff,
    /// How to find out that a server hangs; off by default.
    pub health_check: Option<HealthCheck>,
    /// When to leave a server alone; off by default.
    pub breaker: Option<Breaker>,
    /// Which calls to repeat; on by default.
    pub retry: Option<Retry>,
}

impl Supervision {
    /// Reconnects, and repeats what is safe to repeat.
    pub fn new() -> Self {
        Self { backoff: Backoff::new(), health_check: None, breaker: None, retry: Some(Retry::new()) }
    }

    /// Waits so between attempts to reconnect.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Looks whether the server answers.
    pub fn health_check(mut self, check: HealthCheck) -> Self {
        self.health_check = Some(check);
        self
    }

    /// Leaves a server alone that has failed too often.
    pub fn breaker(mut self, breaker: Breaker) -> Self {
        self.breaker = Some(breaker);
        self
    }

    /// Repeats calls so.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Repeats no calls.
    pub fn without_retry(mut self) -> Self {
        self.retry = None;
        self
    }
}

impl Default for Supervision {
    fn default() -> Self {
        Self::new()
    }
}

/// Exponential backoff with jitter between attempts.
#[derive(Debug, Clone)]
#[must_use]
#[non_exhaustive]
pub struct Backoff {
    /// Before the second attempt; the first is made at once.
    pub first: Duration,
    /// At most.
    pub longest: Duration,
    /// How many attempts to make before giving up; `None` for ever.
    pub attempts: Option<u32>,
}

impl Backoff {
    /// From 100 ms up to 30 s, for ever.
    pub fn new() -> Self {
        Self { first: Duration::from_millis(100), longest: Duration::from_secs(30), attempts: None }
    }

    /// Before the second attempt.
    pub fn first(mut self, first: Duration) -> Self {
        self.first = first;
        self
    }

    /// At most.
    pub fn longest(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    /// Gives up after so many attempts.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = Some(attempts);
        self
    }

    /// How long to wait before an attempt, counted from 1; `None` if it is not to be made.
    pub(crate) fn delay(&self, attempt: u32) -> Option<Duration> {
        if self.attempts.is_some_and(|most| attempt > most) {
            return None;
        }
        if attempt <= 1 {
            return Some(Duration::ZERO);
        }
        let doubled = self.first.saturating_mul(2_u32.saturating_pow(attempt - 2)).min(self.longest);
        // Between half and all of it, so that those who were cut off together do not come back together.
        Some(doubled.mul_f64(0.5 + fastrand::f64() / 2.0))
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new()
    }
}

/// Asks the server now and then whether it is there: with `ping`, or `server/discover` where there is no `ping`.
#[derive(Debug, Clone)]
#[must_use]
#[non_exhaustive]
pub struct HealthCheck {
    /// How often.
    pub every: Duration,
    /// How long it may take to answer.
    pub timeout: Duration,
    /// How many failures in a row make a connection a dead one.
    pub failures: u32,
}

impl HealthCheck {
    /// So often; two failures in a row, each of 5 s, make a connection a dead one.
    pub fn every(every: Duration) -> Self {
        Self { every, timeout: Duration::from_secs(5), failures: 2 }
    }

    /// How long an answer may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How many failures in a row make a connection a dead one.
    pub fn failures(mut self, failures: u32) -> Self {
        self.failures = failures.max(1);
        self
    }
}

/// Leaves a server alone for a while when calls have failed in a row: without a connection, by its loss, or for lack of an
/// answer. Errors that the server answers with are answers.
#[derive(Debug, Clone)]
#[must_use]
#[non_exhaustive]
pub struct Breaker {
    /// How many failures in a row.
    pub failures: u32,
    /// For how long.
    pub rest: Duration,
}

impl Breaker {
    /// After 5 failures in a row, for 10 s.
    pub fn new() -> Self {
        Self { failures: 5, rest: Duration::from_secs(10) }
    }

    /// After so many failures in a row.
    pub fn failures(mut self, failures: u32) -> Self {
        self.failures = failures.max(1);
        self
    }

    /// For so long.
    pub fn rest(mut self, rest: Duration) -> Self {
        self.rest = rest;
        self
    }
}

impl Default for Breaker {
    fn default() -> Self {
        Self::new()
    }
}

/// Repeats calls that a broken connection has swallowed, if that is safe: what was certainly not sent, what only reads, and
/// tools that say they are read-only or idempotent.
#[derive(Debug, Clone)]
#[must_use]
#[non_exhaustive]
pub struct Retry {
    /// How often one call may be repeated.
    pub attempts: u32,
    /// How many repetitions every call earns, so that a failing server is not buried under them.
    pub per_call: f64,
    /// How many repetitions may be saved up.
    pub saved: u32,
}

impl Retry {
    /// Each call at most twice; one repetition for ten calls, with ten to begin with.
    pub fn new() -> Self {
        Self { attempts: 2, per_call: 0.1, saved: 10 }
    }

    /// How often one call may be repeated.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// The budget: how many repetitions every call earns, and how many may be saved up.
    pub fn budget(mut self, per_call: f64, saved: u32) -> Self {
        self.per_call = per_call.max(0.0);
        self.saved = saved;
        self
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn delays_double_up_to_the_longest_and_are_never_quite_the_same() {
        let backoff = Backoff::new().first(SECOND).longest(10 * SECOND).attempts(6);
        assert_eq!(backoff.delay(1), Some(Duration::ZERO));
        for (attempt, seconds) in [(2, 1), (3, 2), (4, 4), (5, 8), (6, 10)] {
            let delay = backoff.delay(attempt).unwrap();
            assert!(delay >= seconds * SECOND / 2 && delay <= seconds * SECOND, "{attempt}: {delay:?}");
        }
        assert_eq!(backoff.delay(7), None);
        let delays: std::collections::HashSet<_> = (0..50).map(|_| backoff.delay(3)).collect();
        assert!(delays.len() > 10);
    }
}
