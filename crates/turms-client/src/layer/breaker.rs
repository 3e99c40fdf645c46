use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::CallService;
use crate::call::error::{CallError, CallErrorKind};
use crate::call::{CallOutput, CallRequest};
use crate::event::{BreakerState, Event, EventHub};
use crate::reconnect::CircuitBreaker;

/// Rejects calls while the circuit is open, then lets one trial call through. This layer is outside of the wait for a
/// connection, so that a failed wait counts as a failure.
pub(crate) struct Breaker<S> {
    inner: S,
    circuit: Option<Circuit>,
    events: Arc<EventHub>,
}

impl<S> Breaker<S> {
    pub(crate) fn new(inner: S, options: Option<CircuitBreaker>, events: Arc<EventHub>) -> Self {
        Self { inner, circuit: options.map(Circuit::new), events }
    }
}

impl<S: CallService> CallService for Breaker<S> {
    async fn call(&self, call: &CallRequest) -> Result<CallOutput, CallError> {
        let Some(circuit) = &self.circuit else { return self.inner.call(call).await };
        let trial = match circuit.admit() {
            Admission::Pass => None,
            Admission::Trial => {
                self.events.publish(&Event::CircuitBreaker(BreakerState::HalfOpen));
                Some(Trial(circuit))
            }
            Admission::Refuse(rest) => {
                return Err(CallError::not_sent(call.target(), CallErrorKind::CircuitOpen(rest)));
            }
        };
        let outcome = self.inner.call(call).await;
        let failed = outcome.as_ref().is_err_and(|error| error.is_disconnected() || error.is_timeout());
        if let Some(state) = circuit.record(!failed, trial.is_some()) {
            self.events.publish(&Event::CircuitBreaker(state));
        }
        drop(trial);
        outcome
    }
}

/// The trial call of a half-open circuit. If it is dropped before it ends, another call may be the trial.
struct Trial<'a>(&'a Circuit);

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.0.abandon_trial();
    }
}

/// The state of a circuit breaker.
#[derive(Debug)]
struct Circuit {
    options: CircuitBreaker,
    state: Mutex<CircuitState>,
}

#[derive(Debug, Clone, Copy)]
enum CircuitState {
    Closed { failures: u32 },
    Open { until: Instant },
    HalfOpen,
}

#[derive(Debug, PartialEq, Eq)]
enum Admission {
    Pass,
    Trial,
    /// The time until the next trial.
    Refuse(Duration),
}

impl Circuit {
    fn new(options: CircuitBreaker) -> Self {
        Self { options, state: Mutex::new(CircuitState::Closed { failures: 0 }) }
    }

    fn admit(&self) -> Admission {
        let now = Instant::now();
        let mut state = self.state.lock();
        match *state {
            CircuitState::Closed { .. } => Admission::Pass,
            CircuitState::Open { until } if until <= now => {
                *state = CircuitState::HalfOpen;
                Admission::Trial
            }
            CircuitState::Open { until } => Admission::Refuse(until - now),
            CircuitState::HalfOpen => Admission::Refuse(Duration::ZERO),
        }
    }

    /// Records the end of a call. Returns the new state, if it changed.
    fn record(&self, succeeded: bool, is_trial: bool) -> Option<BreakerState> {
        let mut state = self.state.lock();
        match (*state, succeeded) {
            // The call was sent before the circuit opened.
            (CircuitState::HalfOpen, _) if !is_trial => None,
            (CircuitState::Closed { .. }, true) => {
                *state = CircuitState::Closed { failures: 0 };
                None
            }
            (CircuitState::Closed { failures }, false) if failures + 1 < self.options.failure_threshold => {
                *state = CircuitState::Closed { failures: failures + 1 };
                None
            }
            (CircuitState::HalfOpen, true) => {
                *state = CircuitState::Closed { failures: 0 };
                Some(BreakerState::Closed)
            }
            (CircuitState::Closed { .. } | CircuitState::HalfOpen, false) => {
                *state = CircuitState::Open { until: Instant::now() + self.options.reset_timeout };
                Some(BreakerState::Open)
            }
            (CircuitState::Open { .. }, _) => None,
        }
    }

    fn abandon_trial(&self) {
        let mut state = self.state.lock();
        if matches!(*state, CircuitState::HalfOpen) {
            *state = CircuitState::Open { until: Instant::now() };
        }
    }
}

#[cfg(test)]
mod tests {
    use turms_core::Payload;
    use turms_proto::types::{EmptyParams, EmptyResult, Ping};

    use super::*;
    use crate::call::error::Delivery;
    use crate::call::error::TimeoutCause;
    use crate::layer::scripted::Scripted;

    const SECOND: Duration = Duration::from_secs(1);

    fn timeout(call: &CallRequest) -> Result<CallOutput, CallError> {
        let kind = CallErrorKind::Timeout(TimeoutCause::Response(SECOND));
        Err(CallError::new(call.target(), kind, Delivery::Unknown))
    }

    fn pong(_: &CallRequest) -> Result<CallOutput, CallError> {
        Ok(CallOutput::complete(Payload::new(EmptyResult::new())))
    }

    fn breaker(inner: Scripted) -> Breaker<Scripted> {
        Breaker::new(inner, Some(CircuitBreaker::new().failure_threshold(2).reset_timeout(SECOND)), Arc::default())
    }

    fn ping() -> CallRequest {
        CallRequest::new::<Ping>(EmptyParams::new())
    }

    async fn is_refused(breaker: &Breaker<Scripted>) -> bool {
        let error = breaker.call(&ping()).await.unwrap_err();
        matches!(error.kind(), CallErrorKind::CircuitOpen(_))
    }

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_open_the_circuit_and_a_trial_closes_it() {
        let breaker =
            breaker(Scripted::default().then(timeout).then(pong).then(timeout).then(timeout).then(pong).then(pong));
        let mut events = breaker.events.subscribe();
        for _ in 0..4 {
            let _ = breaker.call(&ping()).await;
        }
        assert!(is_refused(&breaker).await);
        tokio::time::advance(SECOND).await;
        breaker.call(&ping()).await.unwrap();
        breaker.call(&ping()).await.unwrap();
        for expected in [BreakerState::Open, BreakerState::HalfOpen, BreakerState::Closed] {
            assert!(matches!(events.next().await, Some(Event::CircuitBreaker(state)) if state == expected));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_trial_at_a_time_and_a_dropped_one_leaves_the_next_to_try() {
        let breaker = breaker(Scripted::default().then(timeout).then(timeout));
        for _ in 0..2 {
            let _ = breaker.call(&ping()).await;
        }
        tokio::time::advance(SECOND).await;
        let ping = ping();
        let mut trial = Box::pin(breaker.call(&ping));
        assert!(futures_util::poll!(&mut trial).is_pending());
        assert!(is_refused(&breaker).await);
        drop(trial);
        let mut next = Box::pin(breaker.call(&ping));
        assert!(futures_util::poll!(&mut next).is_pending());
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_trial_decides_about_a_half_open_circuit() {
        for earlier_succeeds in [true, false] {
            let circuit = Circuit::new(CircuitBreaker::new().failure_threshold(1).reset_timeout(SECOND));
            assert_eq!(circuit.record(false, false), Some(BreakerState::Open));
            tokio::time::advance(SECOND).await;
            assert_eq!(circuit.admit(), Admission::Trial);
            // A call that was sent before the circuit opened ends.
            assert_eq!(circuit.record(earlier_succeeds, false), None);
            assert_eq!(circuit.admit(), Admission::Refuse(Duration::ZERO));
            assert_eq!(circuit.record(true, true), Some(BreakerState::Closed));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_trial_opens_the_circuit_again() {
        let breaker = breaker(Scripted::default().then(timeout).then(timeout).then(timeout));
        for _ in 0..2 {
            let _ = breaker.call(&ping()).await;
        }
        tokio::time::advance(SECOND).await;
        assert!(breaker.call(&ping()).await.unwrap_err().is_timeout());
        assert!(is_refused(&breaker).await);
    }
}
