use super::MemberId;
use super::member::MemberGuard;
use super::shared::PoolShared;
use crate::call::CallRequest;
use crate::call::error::{CallError, CallErrorKind, Delivery, NoServerCause, Recovery, UnsupportedCause};
use crate::layer::retry::{Decision, decide};

/// The members that one call has tried: no member gets it twice.
#[derive(Debug, Clone, Default)]
pub(super) struct Attempts {
    tried: Vec<MemberId>,
    last: Option<CallError>,
}

impl Attempts {
    pub(super) fn next(&mut self, pool: &PoolShared, call: Option<&CallRequest>) -> Option<MemberGuard> {
        let guard = pool.pick(&self.tried, call)?;
        self.tried.push(guard.member().id);
        Some(guard)
    }

    /// The number of members tried.
    pub(super) fn len(&self) -> usize {
        self.tried.len()
    }

    /// The error when there is no other member.
    pub(super) fn error(self, target: impl std::fmt::Display) -> CallError {
        self.last.unwrap_or_else(|| CallError::not_sent(target, CallErrorKind::NoServer(NoServerCause::NoneAvailable)))
    }

    /// Records a failure. Returns it if the call must not be repeated elsewhere.
    pub(super) fn failed(&mut self, error: CallError, is_safe: impl FnOnce() -> bool) -> Result<(), CallError> {
        // Another member may speak a revision that has the method, or be in better health.
        let refused = matches!(
            error.kind(),
            CallErrorKind::CircuitOpen(_) | CallErrorKind::Unsupported(UnsupportedCause::Revision { .. })
        );
        let unsent = error.delivery() == Delivery::NotSent;
        let safe = unsent || error.is_disconnected() && is_safe();
        // What is known about the connection of one member does not matter for another.
        let elsewhere = error.clone().with_recovery(Recovery::Unknown);
        if unsent && refused || decide(&elsewhere, safe, true) != Decision::Fail {
            // If it may have run anywhere, the final error says so.
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
    fn a_call_that_may_have_run_says_so_in_the_end() {
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
    fn an_answer_is_not_asked_for_elsewhere() {
        let answered = CallError::server("tools/call", turms_proto::ErrorObject::internal("no"));
        let timed_out = CallErrorKind::Timeout(TimeoutCause::Response(std::time::Duration::ZERO));
        let timed_out = CallError::new("tools/call", timed_out, Delivery::Unknown);
        for error in [answered, timed_out] {
            assert!(Attempts::default().failed(error, || true).is_err());
        }
        let resting = CallErrorKind::CircuitOpen(std::time::Duration::ZERO);
        assert!(Attempts::default().failed(CallError::not_sent("tools/call", resting), || false).is_ok());
    }
}
