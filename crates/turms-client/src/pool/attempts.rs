use super::MemberId;
use super::member::MemberGuard;
use super::shared::PoolShared;
use crate::call::CallRequest;
use crate::call::error::{CallError, CallErrorKind, Delivery, NoServerCause, Recovery, UnsupportedCause};
use crate::layer::retry::{Decision, decide};

/// The members that one call was sent to. No member gets the same call twice.
#[derive(Debug, Clone, Default)]
pub(super) struct Attempts {
    tried: Vec<MemberId>,
    last: Option<CallError>,
}

impl Attempts {
    /// Picks the next member; `None` if no member is left to try.
    pub(super) fn next(&mut self, pool: &PoolShared, call: Option<&CallRequest>) -> Option<MemberGuard> {
        let guard = pool.pick(&self.tried, call)?;
        self.tried.push(guard.member().id);
        Some(guard)
    }

    /// Returns the number of members tried.
    pub(super) fn len(&self) -> usize {
        self.tried.len()
    }

    /// Returns the error of the call when no member is left to try.
    pub(super) fn error(self, target: impl std::fmt::Display) -> CallError {
        self.last.unwrap_or_else(|| CallError::not_sent(target, CallErrorKind::NoServer(NoServerCause::NoneAvailable)))
    }

    /// Records a failed attempt. Returns the error if the call must not be retried with another member.
    pub(super) fn failed(&mut self, error: CallError, is_safe: impl FnOnce() -> bool) -> Result<(), CallError> {
        // Another member may support a revision that has the method, or have a closed circuit breaker.
        let refused = matches!(
            error.kind(),
            CallErrorKind::CircuitOpen(_) | CallErrorKind::Unsupported(UnsupportedCause::Revision { .. })
        );
        let unsent = error.delivery() == Delivery::NotSent;
        let safe = unsent || error.is_disconnected() && is_safe();
        // The recovery hint is about the connection of this member and does not apply to another.
        let on_other_member = error.clone().with_recovery(Recovery::Unknown);
        if unsent && refused || decide(&on_other_member, safe, true) != Decision::Fail {
            // If the call may have run on any member, the final error must say so.
            if !self.last.as_ref().is_some_and(CallError::may_have_run) {
                self.last = Some(error);
            }
            return Ok(());
        }
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use turms_core::CloseInfo;

    use super::*;
    use crate::call::error::{ClosedCause, TimeoutCause};

    #[test]
    fn the_final_error_says_that_the_call_may_have_run() {
        let lost =
            CallError::new("tools/call", CallErrorKind::Closed(ClosedCause::Lost(CloseInfo::new())), Delivery::Unknown);
        let unsent = || CallError::not_sent("tools/call", CallErrorKind::Closed(ClosedCause::NotConnected(None)));
        let mut attempts = Attempts::default();
        attempts.failed(unsent(), || false).unwrap();
        attempts.failed(lost.clone(), || true).unwrap();
        attempts.failed(unsent(), || true).unwrap();
        assert!(attempts.error("tools/call").may_have_run());
        assert!(Attempts::default().failed(lost, || false).unwrap_err().may_have_run());
        assert!(!Attempts::default().error("tools/call").may_have_run());
    }

    #[test]
    fn a_call_with_a_response_or_a_timeout_is_not_retried() {
        let answered = CallError::server("tools/call", turms_proto::ErrorObject::internal("no"));
        let timed_out = CallErrorKind::Timeout(TimeoutCause::Response(std::time::Duration::ZERO));
        let timed_out = CallError::new("tools/call", timed_out, Delivery::Unknown);
        for error in [answered, timed_out] {
            assert!(Attempts::default().failed(error, || true).is_err());
        }
        let circuit_open = CallErrorKind::CircuitOpen(std::time::Duration::ZERO);
        assert!(Attempts::default().failed(CallError::not_sent("tools/call", circuit_open), || false).is_ok());
    }
}
