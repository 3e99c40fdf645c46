//! Tracking of pending calls, to list and to cancel them.

use std::sync::Arc;

use parking_lot::Mutex;
use slab::Slab;
use tokio::time::Instant;
use turms_core::CancellationToken;

use super::CallService;
use crate::call::error::{CallError, CallErrorKind, Delivery};
use crate::call::{CallOutput, CallRequest};
use crate::state::PendingCall;

/// The layer that tracks pending calls. It is outside of all layers that wait, such as for a connection or a retry, so
/// that a call can be cancelled while it waits there.
pub(crate) struct Track<S> {
    inner: S,
    pending: Arc<PendingCalls>,
}

impl<S> Track<S> {
    pub(crate) fn new(inner: S, pending: Arc<PendingCalls>) -> Self {
        Self { inner, pending }
    }
}

impl<S: CallService> CallService for Track<S> {
    fn call(&self, call: &CallRequest) -> impl Future<Output = Result<CallOutput, CallError>> + Send {
        self.pending.track(call, || self.inner.call(call))
    }
}

/// The table of pending calls.
#[derive(Debug, Default)]
pub(crate) struct PendingCalls(Mutex<PendingTable>);

#[derive(Debug, Default)]
struct PendingTable {
    last_number: u64,
    calls: Slab<PendingRecord>,
}

#[derive(Debug)]
struct PendingRecord {
    /// The id of the call. Unlike its index in the slab, it is never reused.
    number: u64,
    call: CallRequest,
    since: Instant,
}

impl PendingCalls {
    /// Runs a call. It is in the table, and can be cancelled, until it ends.
    pub(crate) async fn track<F>(&self, call: &CallRequest, make: impl FnOnce() -> F) -> Result<CallOutput, CallError>
    where
        F: Future<Output = Result<CallOutput, CallError>>,
    {
        let token = call.options.cancellation.as_ref();
        if token.is_some_and(CancellationToken::is_cancelled) {
            return Err(CallError::not_sent(call.target(), CallErrorKind::Cancelled));
        }
        let _removes_on_drop = self.insert(call.clone());
        // The call is polled first, so that a result that is ready immediately wins.
        tokio::select! {
            biased;
            outcome = make() => outcome,
            () = call.cancellation.cancelled_with(token) => Err(CallError::new(call.target(), CallErrorKind::Cancelled, Delivery::Unknown)),
        }
    }

    fn insert(&self, call: CallRequest) -> PendingEntry<'_> {
        let since = Instant::now();
        let mut table = self.0.lock();
        table.last_number += 1;
        let number = table.last_number;
        let index = table.calls.insert(PendingRecord { number, call, since });
        PendingEntry { calls: self, index }
    }

    /// Returns all pending calls, oldest first.
    pub(crate) fn list(&self) -> Vec<PendingCall> {
        let table = self.0.lock();
        let pending = table.calls.iter().map(|(_, record)| PendingCall {
            id: record.number,
            target: record.call.target().to_string(),
            elapsed: record.since.elapsed(),
        });
        let mut pending: Vec<_> = pending.collect();
        pending.sort_by_key(|call| call.id);
        pending
    }

    /// Cancels a call by its id. Returns `false` if it has ended.
    pub(crate) fn cancel(&self, number: u64, reason: Option<&str>) -> bool {
        let table = self.0.lock();
        let record = table.calls.iter().find(|(_, record)| record.number == number);
        let Some(token) = record.map(|(_, record)| record.call.cancellation.clone()) else { return false };
        drop(table);
        match reason {
            Some(reason) => token.cancel_with_reason(reason),
            None => token.cancel(),
        }
        true
    }
}

/// Removes a call from the table on drop.
struct PendingEntry<'a> {
    calls: &'a PendingCalls,
    index: usize,
}

impl Drop for PendingEntry<'_> {
    fn drop(&mut self) {
        let removed = self.calls.0.lock().calls.remove(self.index);
        // Dropped outside the lock, because it may contain callbacks of the application.
        drop(removed);
    }
}

#[cfg(test)]
mod tests {
    use turms_core::Payload;
    use turms_proto::types::{CallTool, CallToolParams, CallToolResult};

    use super::*;
    use crate::layer::scripted::Scripted;

    fn call(name: &str) -> CallRequest {
        CallRequest::multi_round::<CallTool, _>(CallToolParams::new(name))
    }

    fn tracked(inner: Scripted) -> (Track<Scripted>, Arc<PendingCalls>) {
        let pending = Arc::<PendingCalls>::default();
        (Track::new(inner, pending.clone()), pending)
    }

    #[tokio::test]
    async fn a_call_is_pending_until_it_ends() {
        let (track, pending) = tracked(Scripted::default());
        let targets = || pending.list().into_iter().map(|call| call.target).collect::<Vec<_>>();
        let (a, b) = (call("a"), call("b"));
        let (mut one, mut two) = (Box::pin(track.call(&a)), Box::pin(track.call(&b)));
        assert!(targets().is_empty());
        assert!(futures_util::poll!(&mut one).is_pending() && futures_util::poll!(&mut two).is_pending());
        assert_eq!(targets(), ["tools/call \"a\"", "tools/call \"b\""]);
        let id = pending.list()[1].id;
        assert!(pending.cancel(id, None));
        let error = two.await.unwrap_err();
        assert!(error.is_cancelled() && error.may_have_run());
        assert!(!pending.cancel(id, None));
        drop(one);
        assert!(targets().is_empty());
    }

    #[tokio::test]
    async fn a_call_that_was_cancelled_before_is_not_sent() {
        let (track, _) = tracked(Scripted::default());
        let token = CancellationToken::new();
        token.cancel();
        let mut call = call("a");
        call.options.cancellation = Some(token);
        let error = track.call(&call).await.unwrap_err();
        assert_eq!(error.delivery(), Delivery::NotSent);
        assert!(track.inner.calls.lock().is_empty());
    }

    #[tokio::test]
    async fn a_result_leaves_the_table_empty() {
        let inner =
            Scripted::default().then(|_| Ok(CallOutput::complete(Payload::new(CallToolResult::from_text("done")))));
        let (track, pending) = tracked(inner);
        track.call(&call("a")).await.unwrap();
        assert!(pending.list().is_empty());
    }
}
