//! A call that runs inside its HTTP request: no task, no channel.
//!
//! If the handler returns before it sends a notification, the response is one JSON object. Its first notification makes the
//! response an event stream. Dropping the future, or the body of the stream, cancels the call.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use turms_core::__internal::Dispatch;
use turms_core::{BoxFuture, CallResult};

use super::NotificationQueue;
use crate::server::keep_alive::KeepAlive;
use crate::server::request::context::HttpRequestInfo;
use crate::server::response::EventSource;
use crate::server::stream_limit::StreamPermit;
use crate::sse;

/// The first output of a call: its response, or a notification before it.
pub(super) enum FirstOutput {
    Response(CallResult),
    Notification(StreamedCall),
}

/// A call that has sent a notification and may have finished.
pub(super) enum StreamedCall {
    Pending(Dispatch),
    Finished(CallResult),
}

impl StreamedCall {
    pub(super) async fn finish(self) -> CallResult {
        match self {
            Self::Pending(call) => call.await,
            Self::Finished(result) => result,
        }
    }
}

/// Waits until the handler has returned or has sent a notification.
pub(super) async fn first_output(mut call: Dispatch, notifications: &NotificationQueue) -> FirstOutput {
    let result = poll_fn(|task| match Pin::new(&mut call).poll(task) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => notifications.poll_not_empty(task).map(|()| None),
    })
    .await;
    let not_empty = poll_fn(|task| Poll::Ready(notifications.poll_not_empty(task))).await;
    match result {
        Some(result) if not_empty.is_pending() => FirstOutput::Response(result),
        // Notifications that were sent before the handler returned precede the response.
        Some(result) => FirstOutput::Notification(StreamedCall::Finished(result)),
        None => FirstOutput::Notification(StreamedCall::Pending(call)),
    }
}

/// The event stream of a call: its notifications, then its response.
pub(super) struct CallStream {
    call: Option<StreamedCall>,
    info: Arc<HttpRequestInfo>,
    finish: Option<Finish>,
    keep_alive: KeepAlive,
    /// The future that ends a subscription, and the result with which it ends.
    ending: Option<(BoxFuture<'static, ()>, CallResult)>,
    _permit: StreamPermit,
}

/// Encodes a result as a message.
type Finish = Box<dyn FnOnce(CallResult) -> Vec<u8> + Send>;

impl CallStream {
    pub(super) fn new(
        call: StreamedCall,
        info: Arc<HttpRequestInfo>,
        period: Duration,
        permit: StreamPermit,
        finish: impl FnOnce(CallResult) -> Vec<u8> + Send + 'static,
    ) -> Self {
        let keep_alive = KeepAlive::new(period);
        let finish: Option<Finish> = Some(Box::new(finish));
        Self { call: Some(call), info, finish, keep_alive, ending: None, _permit: permit }
    }

    /// Ends the stream with the given result when the future resolves.
    pub(super) fn until(mut self, ending: Option<(BoxFuture<'static, ()>, CallResult)>) -> Self {
        self.ending = ending;
        self
    }
}

impl CallStream {
    fn poll_ending(&mut self, task: &mut TaskContext<'_>) -> Option<CallResult> {
        let (ending, _) = self.ending.as_mut()?;
        match ending.as_mut().poll(task) {
            Poll::Ready(()) => self.ending.take().map(|(_, outcome)| outcome),
            Poll::Pending => None,
        }
    }
}

impl EventSource for CallStream {
    fn poll_piece(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        // Notifications that are sent during the poll precede the response.
        let outcome = match this.call.take() {
            Some(StreamedCall::Finished(result)) => Some(result),
            Some(StreamedCall::Pending(mut call)) => match Pin::new(&mut call).poll(task) {
                Poll::Ready(result) => Some(result),
                Poll::Pending => {
                    this.call = Some(StreamedCall::Pending(call));
                    this.poll_ending(task)
                }
            },
            None => return Poll::Ready(None),
        };
        let mut piece = match this.info.notifications().poll_events(task) {
            Poll::Ready(bytes) => Vec::from(bytes),
            Poll::Pending => Vec::new(),
        };
        if let Some(outcome) = outcome {
            this.call = None;
            if let Some(finish) = this.finish.take() {
                sse::write_event(&mut piece, None, None, &finish(outcome));
            }
        }
        if !piece.is_empty() {
            this.keep_alive.reset();
            return Poll::Ready(Some(piece.into()));
        }
        this.keep_alive.poll(task).map(|comment| Some(Bytes::from_static(comment)))
    }
}

impl Drop for CallStream {
    fn drop(&mut self) {
        self.info.notifications().close();
    }
}
