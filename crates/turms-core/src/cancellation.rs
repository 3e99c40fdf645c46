use std::fmt;
use std::pin::pin;
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

/// A token that cancels work, with an optional reason. Clones are the same token: cancelling one cancels all.
///
/// Give one to any number of calls of a client to cancel them together. In a handler it is an extractor, for work that runs outside
/// of the handler: the token is cancelled when the handler returns or is dropped.
///
/// ```
/// # use turms_core as turms;
/// use turms::CancellationToken;
///
/// let token = CancellationToken::new();
/// assert!(!token.is_cancelled());
/// token.clone().cancel_with_reason("the user pressed Escape");
/// assert!(token.is_cancelled());
/// assert_eq!(token.reason(), Some("the user pressed Escape"));
/// ```
#[doc(alias = "cancel")]
#[doc(alias = "abort")]
#[derive(Clone, Default)]
pub struct CancellationToken(Arc<TokenState>);

#[derive(Default)]
struct TokenState {
    /// Set once, by the first cancellation.
    reason: OnceLock<Option<Box<str>>>,
    cancelled: Notify,
}

impl CancellationToken {
    /// Creates a token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the work. Has no effect if it is cancelled already.
    pub fn cancel(&self) {
        self.set(None);
    }

    /// Cancels the work and gives a reason for people, which is sent to the peer where the protocol has a place for it. Has no effect
    /// if the work is cancelled already.
    pub fn cancel_with_reason(&self, reason: impl Into<String>) {
        self.set(Some(reason.into().into_boxed_str()));
    }

    /// Cancels the work with the reason of another token, if that has one.
    pub fn cancel_as(&self, other: &Self) {
        self.set(other.reason().map(Box::from));
    }

    fn set(&self, reason: Option<Box<str>>) {
        if self.0.reason.set(reason).is_ok() {
            self.0.cancelled.notify_waiters();
        }
    }

    /// Returns `true` if the token is cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.reason.get().is_some()
    }

    /// The reason of the cancellation; `None` if it has none, or if the token is not cancelled.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.0.reason.get()?.as_deref()
    }

    /// Waits until the token is cancelled.
    pub async fn cancelled(&self) {
        let mut cancelled = pin!(self.0.cancelled.notified());
        // From here on no notification is missed, so looking once is enough.
        cancelled.as_mut().enable();
        if !self.is_cancelled() {
            cancelled.await;
        }
    }

    /// Waits until this token or `other` is cancelled. If it is `other`, this token is cancelled with the same reason.
    pub async fn cancelled_with(&self, other: Option<&Self>) {
        let Some(other) = other else { return self.cancelled().await };
        // Boxed: few calls have a second token.
        Box::pin(async {
            tokio::select! {
                () = self.cancelled() => {}
                () = other.cancelled() => self.cancel_as(other),
            }
        })
        .await;
    }
}

impl fmt::Debug for CancellationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancellationToken").field("is_cancelled", &self.is_cancelled()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_cancellation_counts() {
        let token = CancellationToken::new();
        token.cancel_with_reason("first");
        token.cancel();
        assert_eq!(token.reason(), Some("first"));
        token.cancelled().await;
    }

    #[tokio::test]
    async fn another_token_cancels_with_its_reason() {
        let (token, other) = (CancellationToken::new(), CancellationToken::new());
        let waits = token.cancelled_with(Some(&other));
        tokio::join!(waits, async { other.cancel_with_reason("both") });
        assert_eq!(token.reason(), Some("both"));
    }

    #[tokio::test]
    async fn every_waiting_task_is_woken() {
        let token = CancellationToken::new();
        let tasks = [0; 3].map(|_| {
            let token = token.clone();
            tokio::spawn(async move { token.cancelled().await })
        });
        tokio::task::yield_now().await;
        token.cancel();
        for task in tasks {
            task.await.unwrap();
        }
    }
}
