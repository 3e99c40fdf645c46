use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use turms_proto::ErrorCode;

use super::CallService;
use crate::call::error::{CallError, Delivery, Recovery};
use crate::call::options::CallTimeouts;
use crate::call::{CallOutput, CallRequest};
use crate::connection::ConnectionState;
use crate::event::{Event, EventHub};
use crate::reconnect::{Backoff, RetryPolicy};
use crate::tool_index::ToolIndex;

/// Maximum delay before another attempt to reach a server that rejects connections.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// Retries calls as [`decide`] says. This layer is outside of the circuit breaker, so that each attempt needs its
/// permission.
pub(crate) struct Retry<S> {
    inner: S,
    /// The retry budget; if `None`, calls are retried only for a new session or another revision.
    budget: Option<RetryBudget>,
    backoff: Backoff,
    timeouts: CallTimeouts,
    tools: Arc<ToolIndex>,
    events: Arc<EventHub>,
    state: watch::Receiver<ConnectionState>,
}

impl<S> Retry<S> {
    pub(crate) fn new(
        inner: S,
        policy: Option<(RetryPolicy, Backoff)>,
        timeouts: CallTimeouts,
        tools: Arc<ToolIndex>,
        events: Arc<EventHub>,
        state: watch::Receiver<ConnectionState>,
    ) -> Self {
        let (budget, backoff) = policy.map(|(policy, backoff)| (RetryBudget::new(policy), backoff)).unzip();
        Self { inner, budget, backoff: backoff.unwrap_or_default(), timeouts, tools, events, state }
    }

    /// Waits before an attempt. Returns `false` if the deadline is over or the client is closed.
    async fn wait(&self, attempt: u32, deadline: Option<Instant>) -> bool {
        let Some(delay) = self.backoff.delay(attempt + 1).map(|delay| delay.min(MAX_WAIT)) else { return false };
        if deadline.is_some_and(|deadline| Instant::now() + delay >= deadline) {
            return false;
        }
        let mut state = self.state.clone();
        tokio::select! {
            () = tokio::time::sleep(delay) => true,
            _ = state.wait_for(ConnectionState::is_closed) => false,
        }
    }

    fn report(&self, call: &CallRequest, error: &CallError, attempt: u32) {
        tracing::debug!(target: "turms::client", %error, attempt, "trying again");
        self.events.publish(&Event::Retrying { target: call.target().to_string().into(), attempt });
    }
}

impl<S: CallService> CallService for Retry<S> {
    async fn call(&self, call: &CallRequest) -> Result<CallOutput, CallError> {
        let (mut safe, mut deadline) = (None, None);
        if let Some(budget) = &self.budget {
            // Evaluated before the first attempt, because a new connection clears the tool index.
            safe = Some(call.is_idempotent(Some(call.tools(&self.tools))));
            deadline = self.timeouts.wait(&call.options).and_then(|timeout| Instant::now().checked_add(timeout));
            budget.earn();
        }
        // The error of an attempt that may have run. If a later attempt is not sent, this error is returned instead.
        let mut may_have_run: Option<CallError> = None;
        let (mut attempt, mut renewed) = (0, false);
        loop {
            let error = match self.inner.call(call).await {
                Ok(output) => return Ok(output),
                Err(error) if renewed && error.recovery() == Recovery::NewSession => {
                    error.with_recovery(Recovery::Unknown)
                }
                Err(error) => error,
            };
            let closed = self.state.borrow().is_closed();
            let safe = *safe.get_or_insert_with(|| call.is_idempotent(None));
            let decision = decide(&error, safe, self.budget.is_some() && !closed);
            if decision == Decision::Immediately {
                renewed |= error.recovery() == Recovery::NewSession;
                continue;
            }
            attempt += 1;
            let again = match (decision, &self.budget) {
                (Decision::WhenReachable, _) => Box::pin(self.wait(attempt, deadline)).await,
                (Decision::WithinBudget, Some(budget)) => budget.spend(attempt),
                _ => false,
            };
            if error.may_have_run() {
                may_have_run = Some(error.clone());
            }
            if !again {
                return Err(match error.delivery() {
                    Delivery::NotSent => may_have_run.unwrap_or(error),
                    _ => error,
                });
            }
            self.report(call, &error, attempt);
            // The connection is still open, so the next attempt does not wait for a new one: wait here.
            if decision == Decision::WithinBudget && error.is_transport() {
                tokio::time::sleep(self.backoff.delay(attempt + 1).unwrap_or_default()).await;
            }
        }
    }
}

/// The decision about a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    Fail,
    /// Retry immediately, on the new connection.
    Immediately,
    /// Retry with backoff until the deadline of the call. Does not use the budget.
    WhenReachable,
    /// Retry if the budget allows it.
    WithinBudget,
}

/// Decides about a failed attempt. `safe`: the call may be repeated even if it has run. `reconnects`: the client
/// reconnects.
pub(crate) fn decide(error: &CallError, safe: bool, reconnects: bool) -> Decision {
    let unsent = error.delivery() == Delivery::NotSent;
    match error.recovery() {
        Recovery::NewSession if unsent => return Decision::Immediately,
        // The tool may have run. Only this error code cannot come from the tool, because it is about the revision.
        Recovery::NewVersion => {
            let code = error.error_response().map(|response| response.code);
            if code == Some(ErrorCode::UNSUPPORTED_VERSION) || safe && code.is_some() {
                return Decision::Immediately;
            }
        }
        Recovery::DoNotRetry => return Decision::Fail,
        Recovery::NewSession | Recovery::Unknown => {}
    }
    if !reconnects || !error.is_disconnected() {
        Decision::Fail
    } else if unsent && error.is_transport() {
        Decision::WhenReachable
    } else if unsent || safe {
        Decision::WithinBudget
    } else {
        Decision::Fail
    }
}

/// Limits retries to a share of all calls, so that a failing server is not overloaded.
#[derive(Debug)]
struct RetryBudget {
    policy: RetryPolicy,
    saved: Mutex<f64>,
}

impl RetryBudget {
    fn new(policy: RetryPolicy) -> Self {
        let saved = f64::from(policy.reserve);
        Self { policy, saved: Mutex::new(saved) }
    }

    fn earn(&self) {
        let mut saved = self.saved.lock();
        *saved = (*saved + self.policy.ratio).min(f64::from(self.policy.reserve));
    }

    /// Takes one retry from the budget, if there is one left. `attempt` is the number of the retry within its call,
    /// starting at 1.
    fn spend(&self, attempt: u32) -> bool {
        let mut saved = self.saved.lock();
        if attempt > self.policy.max_retries || *saved < 1.0 {
            return false;
        }
        *saved -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use turms_core::{CloseInfo, Payload};
    use turms_proto::ErrorObject;
    use turms_proto::types::{CallTool, CallToolParams, EmptyParams, EmptyResult, Ping};

    use super::*;
    use crate::call::error::{CallErrorKind, ClosedCause, TimeoutCause};
    use crate::layer::scripted::Scripted;

    fn lost() -> CallError {
        CallError::new("x", CallErrorKind::Closed(ClosedCause::Lost(CloseInfo::new())), Delivery::Unknown)
    }

    fn unsent() -> CallError {
        CallError::not_connected("x", None)
    }

    fn refused(delivery: Delivery) -> CallError {
        CallError::new("x", CallErrorKind::Transport(Arc::new(std::fmt::Error)), delivery)
    }

    fn response(code: i64) -> CallError {
        CallError::server("x", ErrorObject::new(ErrorCode(code), "no"))
    }

    #[test]
    fn the_table_of_decisions() {
        use Decision::{Fail, Immediately, WhenReachable, WithinBudget};
        let timeout = CallErrorKind::Timeout(TimeoutCause::Response(Duration::ZERO));
        let new_version = |code| response(code).with_recovery(Recovery::NewVersion);
        // The error; then the decision for an unsafe and a safe call without `reconnect`, and for both with it.
        let table = [
            (unsent().with_recovery(Recovery::NewSession), [Immediately; 4]),
            (lost().with_recovery(Recovery::NewSession), [Fail, Fail, Fail, WithinBudget]),
            (new_version(-32022), [Immediately; 4]),
            (new_version(-32601), [Fail, Immediately, Fail, Immediately]),
            (unsent().with_recovery(Recovery::DoNotRetry), [Fail; 4]),
            (refused(Delivery::NotSent), [Fail, Fail, WhenReachable, WhenReachable]),
            (refused(Delivery::Unknown), [Fail, Fail, Fail, WithinBudget]),
            (unsent(), [Fail, Fail, WithinBudget, WithinBudget]),
            (lost(), [Fail, Fail, Fail, WithinBudget]),
            // After an input round, no error counts as not sent.
            (unsent().maybe_sent(), [Fail, Fail, Fail, WithinBudget]),
            (CallError::new("x", timeout, Delivery::Unknown), [Fail; 4]),
            (CallError::new("x", CallErrorKind::Cancelled, Delivery::Unknown), [Fail; 4]),
            (CallError::not_sent("x", CallErrorKind::Unauthorized(Arc::new(std::fmt::Error))), [Fail; 4]),
            (CallError::not_sent("x", CallErrorKind::CircuitOpen(Duration::ZERO)), [Fail; 4]),
            (response(-32603), [Fail; 4]),
        ];
        for (error, expected) in table {
            let decided = [(false, false), (true, false), (false, true), (true, true)]
                .map(|(safe, reconnects)| decide(&error, safe, reconnects));
            assert_eq!(decided, expected, "{error}, {:?}", error.recovery());
        }
    }

    fn retrying(inner: Scripted, policy: Option<RetryPolicy>) -> Retry<Scripted> {
        let (sender, state) =
            watch::channel(ConnectionState::Connecting(turms_proto::session::ConnectionStatus::Connecting));
        // As in a client, it lives as long as the layers do.
        std::mem::forget(sender);
        let timeouts = CallTimeouts { timeout: Duration::from_secs(30), max_duration: None };
        let policy = policy.map(|policy| (policy, Backoff::new()));
        Retry::new(inner, policy, timeouts, Arc::new(ToolIndex::new(1)), Arc::default(), state)
    }

    fn done(_: &CallRequest) -> Result<CallOutput, CallError> {
        Ok(CallOutput::complete(Payload::new(EmptyResult::new())))
    }

    fn ping() -> CallRequest {
        CallRequest::new::<Ping>(EmptyParams::new())
    }

    #[tokio::test(start_paused = true)]
    async fn a_safe_call_is_repeated_as_often_as_the_policy_says() {
        let inner = Scripted::default().then(|_| Err(lost())).then(|_| Err(lost())).then(done);
        let retry = retrying(inner, Some(RetryPolicy::new()));
        let mut events = retry.events.subscribe();
        retry.call(&ping()).await.unwrap();
        assert!(matches!(events.next().await, Some(Event::Retrying { attempt: 1, .. })));
        assert!(matches!(events.next().await, Some(Event::Retrying { attempt: 2, .. })));
        let inner = Scripted::default().then(|_| Err(lost())).then(|_| Err(lost())).then(|_| Err(lost()));
        let failing = retrying(inner, Some(RetryPolicy::new()));
        assert!(failing.call(&ping()).await.unwrap_err().may_have_run());
        assert_eq!(failing.inner.calls.lock().len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_may_have_run_says_so_in_the_end() {
        let open = |call: &CallRequest| {
            Err(CallError::not_sent(call.target(), CallErrorKind::CircuitOpen(Duration::from_secs(1))))
        };
        let retry = retrying(Scripted::default().then(|_| Err(lost())).then(open), Some(RetryPolicy::new()));
        let error = retry.call(&ping()).await.unwrap_err();
        assert!(error.may_have_run() && error.is_disconnected(), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_unreachable_server_is_waited_for_until_the_deadline() {
        let steps = (0..100).fold(Scripted::default(), |inner, _| inner.then(|_| Err(refused(Delivery::NotSent))));
        let retry = retrying(steps, Some(RetryPolicy::new()));
        let started = Instant::now();
        let call = CallRequest::multi_round::<CallTool, _>(CallToolParams::new("pay"));
        assert!(!retry.call(&call).await.unwrap_err().may_have_run());
        assert!(started.elapsed() > Duration::from_secs(25) && started.elapsed() < Duration::from_secs(30));
    }

    #[tokio::test]
    async fn an_expired_session_is_replaced_once() {
        let expired = |_: &CallRequest| Err(unsent().with_recovery(Recovery::NewSession));
        let retry = retrying(Scripted::default().then(expired).then(expired), None);
        retry.call(&ping()).await.unwrap_err();
        assert_eq!(retry.inner.calls.lock().len(), 2);
    }

    #[test]
    fn retries_are_earned_by_calls() {
        let budget = RetryBudget::new(RetryPolicy::new().max_retries(2).budget(0.5, 1));
        assert!(budget.spend(1));
        assert!(!budget.spend(1));
        budget.earn();
        assert!(!budget.spend(1));
        budget.earn();
        assert!(!budget.spend(3));
        assert!(budget.spend(2));
    }
}
