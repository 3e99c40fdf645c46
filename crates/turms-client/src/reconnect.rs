//! The options for servers that fail: reconnection, health checks, circuit breaker, retries.

use std::time::Duration;

/// Exponential backoff with jitter between attempts to connect. See
/// [`ClientBuilder::reconnect`](crate::ClientBuilder::reconnect).
///
/// ```
/// use std::time::Duration;
///
/// # use turms_client as turms;
/// use turms::Backoff;
///
/// let backoff = Backoff::new().initial_delay(Duration::from_millis(50)).max_attempts(20);
/// # let _ = backoff;
/// ```
#[doc(alias = "exponential")]
#[doc(alias = "jitter")]
#[doc(alias = "reconnect")]
#[doc(alias = "supervision")]
#[derive(Debug, Clone)]
#[must_use]
pub struct Backoff {
    initial_delay: Duration,
    max_delay: Duration,
    max_attempts: Option<u32>,
}

impl Backoff {
    /// Creates a backoff with delays of 100 ms to 30 s and no maximum of attempts.
    pub fn new() -> Self {
        Self { initial_delay: Duration::from_millis(100), max_delay: Duration::from_secs(30), max_attempts: None }
    }

    /// Sets the delay before the second attempt; the first is immediate. Each delay is twice the previous one. Default:
    /// 100 ms.
    pub fn initial_delay(mut self, delay: Duration) -> Self {
        self.initial_delay = delay;
        self
    }

    /// Maximum delay. Default: 30 s.
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.max_delay = delay;
        self
    }

    /// Maximum number of attempts in a row. Default: no maximum.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// Returns the delay before an attempt, counted from 1; `None` if there are no more attempts.
    pub(crate) fn delay(&self, attempt: u32) -> Option<Duration> {
        if self.max_attempts.is_some_and(|max| attempt > max) {
            return None;
        }
        if attempt <= 1 {
            return Some(Duration::ZERO);
        }
        let doubled = self.initial_delay.saturating_mul(2_u32.saturating_pow(attempt - 2)).min(self.max_delay);
        // Jitter: between half and all of it, so that clients that were disconnected together do not reconnect
        // together.
        Some(doubled.mul_f64(0.5 + fastrand::f64() / 2.0))
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new()
    }
}

/// Health checks: pings at an interval, by `ping`, or by `server/discover` in 2026-07-28, which has no `ping`. See
/// [`ClientBuilder::health_check`](crate::ClientBuilder::health_check).
#[derive(Debug, Clone)]
#[must_use]
pub struct HealthCheck {
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
    pub(crate) max_failures: u32,
}

impl HealthCheck {
    /// Creates a health check with a ping at this interval.
    pub fn every(interval: Duration) -> Self {
        Self { interval, timeout: Duration::from_secs(5), max_failures: 2 }
    }

    /// Timeout for the response to a ping. Default: 5 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Number of failures in a row after which the connection is closed, at least 1. Default: 2.
    pub fn max_failures(mut self, failures: u32) -> Self {
        self.max_failures = failures.max(1);
        self
    }
}

/// A circuit breaker: rejects calls for some time after several consecutive failures. Timeouts and lost or missing
/// connections are failures; error responses are not. See
/// [`ClientBuilder::circuit_breaker`](crate::ClientBuilder::circuit_breaker).
#[doc(alias = "breaker")]
#[derive(Debug, Clone)]
#[must_use]
pub struct CircuitBreaker {
    pub(crate) failure_threshold: u32,
    pub(crate) reset_timeout: Duration,
}

impl CircuitBreaker {
    /// Creates a circuit breaker that opens after 5 failures in a row, for 10 s.
    pub fn new() -> Self {
        Self { failure_threshold: 5, reset_timeout: Duration::from_secs(10) }
    }

    /// Number of failures in a row that open the circuit, at least 1. Default: 5.
    pub fn failure_threshold(mut self, failures: u32) -> Self {
        self.failure_threshold = failures.max(1);
        self
    }

    /// Time until one call is let through as a trial. Default: 10 s.
    pub fn reset_timeout(mut self, timeout: Duration) -> Self {
        self.reset_timeout = timeout;
        self
    }
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self::new()
    }
}

/// Retries of calls that were lost with their connection, if that is safe: requests that were certainly not sent,
/// methods that only read, and tools that declare to be read-only or idempotent. See
/// [`ClientBuilder::retry`](crate::ClientBuilder::retry).
///
/// The client knows what a tool declares only if it has listed the tools
/// ([`Client::list_tools`](crate::Client::list_tools)) since it connected, and servers of 2024-11-05 declare nothing. Use
/// [`Call::idempotent`](crate::Call::idempotent) for tools that are known to be safe.
///
/// A retry waits for the new connection, or for the delay of the [`Backoff`] if the connection is open.
#[doc(alias = "retry")]
#[derive(Debug, Clone)]
#[must_use]
pub struct RetryPolicy {
    pub(crate) max_retries: u32,
    pub(crate) ratio: f64,
    pub(crate) reserve: u32,
}

impl RetryPolicy {
    /// Creates a policy with at most 2 retries of a call, and a budget of one retry for ten calls with ten in reserve.
    pub fn new() -> Self {
        Self { max_retries: 2, ratio: 0.1, reserve: 10 }
    }

    /// Maximum number of retries of one call. Default: 2.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// Budget of retries, so that a failing server is not overloaded: each call adds `ratio` of a retry, up to
    /// `reserve`, which is also the budget at the start. Default: 0.1 and 10.
    pub fn budget(mut self, ratio: f64, reserve: u32) -> Self {
        self.ratio = ratio.max(0.0);
        self.reserve = reserve;
        self
    }
}

impl Default for RetryPolicy {
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
        let backoff = Backoff::new().initial_delay(SECOND).max_delay(10 * SECOND).max_attempts(6);
        assert_eq!(backoff.delay(1), Some(Duration::ZERO));
        for (attempt, seconds) in [(2, 1), (3, 2), (4, 4), (5, 8), (6, 10)] {
            let delay = backoff.delay(attempt).unwrap();
            assert!(delay >= seconds * SECOND / 2 && delay <= seconds * SECOND, "{attempt}: {delay:?}");
        }
        assert_eq!(backoff.delay(7), None);
        let delays: std::collections::HashSet<_> = (0..50).map(|_| backoff.delay(3)).collect();
        assert!(delays.len() > 10);
    }

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, count, time, when};

        let backoff = Backoff::new();
        let check = HealthCheck::every(SECOND);
        let breaker = CircuitBreaker::new();
        let retry = RetryPolicy::new();
        let code = [
            ("Backoff::initial_delay", time(backoff.initial_delay)),
            ("Backoff::max_delay", time(backoff.max_delay)),
            ("Backoff::max_attempts", when(backoff.max_attempts.is_none(), "no maximum")),
            ("HealthCheck::timeout", time(check.timeout)),
            ("HealthCheck::max_failures", count(check.max_failures)),
            ("CircuitBreaker::failure_threshold", count(breaker.failure_threshold)),
            ("CircuitBreaker::reset_timeout", time(breaker.reset_timeout)),
            ("RetryPolicy::max_retries", count(retry.max_retries)),
            ("RetryPolicy::budget", format!("{} and {}", retry.ratio, retry.reserve)),
        ];
        assert_documented(include_str!("reconnect.rs"), &code);
    }
}
