//! The options for servers that fail: reconnection, health checks, circuit breaker, retries.

use std::time::Duration;

/// The options for a server that fails. Each can be switched off on its own.
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
    /// The backoff between attempts to reconnect.
    pub backoff: Backoff,
    /// The health checks; off by default.
    pub health_check: Option<HealthCheck>,
    /// The circuit breaker; off by default.
    pub breaker: Option<Breaker>,
    /// The retries of calls; on by default.
    pub retry: Option<Retry>,
}

impl Supervision {
    /// Reconnects, and retries what is safe to repeat.
    pub fn new() -> Self {
        Self { backoff: Backoff::new(), health_check: None, breaker: None, retry: Some(Retry::new()) }
    }

    /// Sets the backoff between attempts to reconnect.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Enables health checks.
    pub fn health_check(mut self, check: HealthCheck) -> Self {
        self.health_check = Some(check);
        self
    }

    /// Enables the circuit breaker.
    pub fn breaker(mut self, breaker: Breaker) -> Self {
        self.breaker = Some(breaker);
        self
    }

    /// Sets the retries of calls.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Disables retries.
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
    /// The delay before the second attempt; the first is made at once. Default: 100 ms.
    pub first: Duration,
    /// At most.
    pub longest: Duration,
    /// Maximum number of attempts; `None` for no limit, which is the default.
    pub attempts: Option<u32>,
}

impl Backoff {
    /// Delays of 100 ms up to 30 s, without a limit of attempts.
    pub fn new() -> Self {
        Self { first: Duration::from_millis(100), longest: Duration::from_secs(30), attempts: None }
    }

    /// Sets the delay before the second attempt.
    pub fn first(mut self, first: Duration) -> Self {
        self.first = first;
        self
    }

    /// At most.
    pub fn longest(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    /// Sets the maximum number of attempts.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = Some(attempts);
        self
    }

    /// The delay before an attempt, counted from 1; `None` if it is not to be made.
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

/// Sends pings: `ping`, or `server/discover` where there is no `ping`.
#[derive(Debug, Clone)]
#[must_use]
#[non_exhaustive]
pub struct HealthCheck {
    /// The interval between pings.
    pub every: Duration,
    /// Timeout for a response. Default: 5 s.
    pub timeout: Duration,
    /// Number of failures in a row after which the connection is closed. Default: 2.
    pub failures: u32,
}

impl HealthCheck {
    /// A ping at this interval; two failures in a row, each of 5 s, close the connection.
    pub fn every(every: Duration) -> Self {
        Self { every, timeout: Duration::from_secs(5), failures: 2 }
    }

    /// Sets the timeout for a response.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the number of failures in a row after which the connection is closed.
    pub fn failures(mut self, failures: u32) -> Self {
        self.failures = failures.max(1);
        self
    }
}

/// Refuses calls for a while after several in a row failed: without a connection, by its loss, or by a timeout. An error
/// response is a response.
#[derive(Debug, Clone)]
#[must_use]
#[non_exhaustive]
pub struct Breaker {
    /// Number of failures in a row that open the circuit. Default: 5.
    pub failures: u32,
    /// The time until the next trial. Default: 10 s.
    pub rest: Duration,
}

impl Breaker {
    /// Opens after 5 failures in a row, for 10 s.
    pub fn new() -> Self {
        Self { failures: 5, rest: Duration::from_secs(10) }
    }

    /// Sets the number of failures in a row that open the circuit.
    pub fn failures(mut self, failures: u32) -> Self {
        self.failures = failures.max(1);
        self
    }

    /// Sets the time until the next trial.
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

/// Retries calls that were lost with their connection, if that is safe: what was certainly not sent, what only reads, and tools
/// that declare to be read-only or idempotent.
#[derive(Debug, Clone)]
#[must_use]
#[non_exhaustive]
pub struct Retry {
    /// Maximum number of retries of one call. Default: 2.
    pub attempts: u32,
    /// Retries that every call adds to the budget, so that a failing server is not overloaded. Default: 0.1.
    pub per_call: f64,
    /// Maximum budget, and the budget at the start. Default: 10.
    pub saved: u32,
}

impl Retry {
    /// At most two retries of a call, one for ten calls, with ten at the start.
    pub fn new() -> Self {
        Self { attempts: 2, per_call: 0.1, saved: 10 }
    }

    /// Sets the maximum number of retries of one call.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets the budget: the retries that every call adds, and their maximum.
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
