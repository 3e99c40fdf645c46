//! A call that is answered inside the request that asks for it: no task, no channel.
//!
//! If the handler answers before it speaks, the answer is one JSON object. Its first notification makes it an event stream.
//! Dropping the future, or the body of the stream, is cancellation.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use turms_core::{BoxFuture, CallResult, Dispatch};

use super::keep_alive::KeepAlive;
use super::request::context::HttpRequestInfo;
use super::response::EventSource;
use super::stream_limit::Permit;
use super::voice::Voice;
use crate::sse;

/// What comes first: the answer, or a word before it.
pub(super) enum First {
    Answer(CallResult),
    Word(Running),
}

/// A call that has sent a notification and may have finished.
pub(super) enum Running {
    Pending(Dispatch),
    Finished(CallResult),
}

/// Waits until the handler has answered or spoken.
pub(super) async fn first(mut call: Dispatch, voice: &Voice) -> First {
    let outcome = poll_fn(|task| match Pin::new(&mut call).poll(task) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending => voice.poll_spoken(task).map(|()| None),
    })
    .await;
    let spoken = poll_fn(|task| Poll::Ready(voice.poll_spoken(task))).await;
    match outcome {
        Some(outcome) if spoken.is_pending() => First::Answer(outcome),
        // What was said before the answer is heard before it.
        Some(outcome) => First::Word(Running::Finished(outcome)),
        None => First::Word(Running::Pending(call)),
    }
}

/// A call whose handler has spoken and may not have answered yet.
pub(super) struct SingleCall {
    call: Option<Running>,
    asked: Arc<HttpRequestInfo>,
    finish: Option<Finish>,
    keep_alive: KeepAlive,
    /// When and with what to end calls that would go on for ever.
    ending: Option<(BoxFuture<'static, ()>, CallResult)>,
    _permit: Permit,
}

/// Writes an outcome as a message.
type Finish = Box<dyn FnOnce(CallResult) -> Vec<u8> + Send>;

impl SingleCall {
    pub(super) fn new(
        call: Running,
        asked: Arc<HttpRequestInfo>,
        period: Duration,
        permit: Permit,
        finish: impl FnOnce(CallResult) -> Vec<u8> + Send + 'static,
    ) -> Self {
        let keep_alive = KeepAlive::new(period);
        let finish: Option<Finish> = Some(Box::new(finish));
        Self { call: Some(call), asked, finish, keep_alive, ending: None, _permit: permit }
    }

    /// Ends with an answer of ours when this comes.
    pub(super) fn until(mut self, ending: Option<(BoxFuture<'static, ()>, CallResult)>) -> Self {
        self.ending = ending;
        self
    }
}

impl SingleCall {
    fn poll_ending(&mut self, task: &mut TaskContext<'_>) -> Option<CallResult> {
        let (ending, _) = self.ending.as_mut()?;
        match ending.as_mut().poll(task) {
            Poll::Ready(()) => self.ending.take().map(|(_, outcome)| outcome),
            Poll::Pending => None,
        }
    }
}

impl EventSource for SingleCall {
    fn poll_piece(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        // What the handler says while it is polled goes out before its answer.
        let outcome = match this.call.take() {
            Some(Running::Finished(result)) => Some(result),
            Some(Running::Pending(mut call)) => match Pin::new(&mut call).poll(task) {
                Poll::Ready(result) => Some(result),
                Poll::Pending => {
                    this.call = Some(Running::Pending(call));
                    this.poll_ending(task)
                }
            },
            None => return Poll::Ready(None),
        };
        let mut piece = match this.asked.voice().poll_heard(task) {
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

impl Drop for SingleCall {
    fn drop(&mut self) {
        self.asked.voice().leave();
    }
}
