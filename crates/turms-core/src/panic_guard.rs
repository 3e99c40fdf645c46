use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use crate::service_error::{ErrorOrigin, ServiceError};

/// A future that catches panics. A panic becomes an error (-32603) for the caller.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct PanicGuard<F>(Option<F>);

/// Error for a handler that panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the handler panicked")]
#[non_exhaustive]
pub struct HandlerPanicked;

impl HandlerPanicked {
    /// Converts into the error for the caller.
    #[must_use]
    pub fn into_service_error(self) -> ServiceError {
        ServiceError::internal(ErrorOrigin::Panic, self.to_string())
    }
}

impl<F: Future + Unpin> PanicGuard<F> {
    /// Creates the future by `create`. A panic of `create` is caught, too.
    pub fn new(create: impl FnOnce() -> F) -> Self {
        Self(catch_unwind(AssertUnwindSafe(create)).ok())
    }
}

impl<F: Future + Unpin> Future for PanicGuard<F> {
    type Output = Result<F::Output, HandlerPanicked>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.0 else { return Poll::Ready(Err(HandlerPanicked)) };
        match catch_unwind(AssertUnwindSafe(|| Pin::new(future).poll(task))) {
            Ok(poll) => poll.map(Ok),
            Err(_) => {
                // The future may panic again when it is dropped.
                let panicked = self.0.take();
                let _ = catch_unwind(AssertUnwindSafe(move || drop(panicked)));
                Poll::Ready(Err(HandlerPanicked))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::peer::BoxFuture;

    #[test]
    fn a_panic_is_an_internal_error() {
        let at_once = PanicGuard::<BoxFuture<'_, ()>>::new(|| panic!("at once"));
        let polled = PanicGuard::<BoxFuture<'_, ()>>::new(|| Box::pin(async { panic!("when polled") }));
        for guard in [at_once, polled] {
            let error = guard.now_or_never().unwrap().unwrap_err().into_service_error();
            assert_eq!((error.origin(), error.message.as_str()), (ErrorOrigin::Panic, "the handler panicked"));
            assert_eq!(error.code, turms_proto::ErrorCode::INTERNAL_ERROR);
        }
        assert_eq!(PanicGuard::new(|| std::future::ready(1)).now_or_never(), Some(Ok(1)));
    }
}
