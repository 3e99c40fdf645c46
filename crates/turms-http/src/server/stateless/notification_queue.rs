//! The queue of notifications that a handler sends before its response, within one request.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context as TaskContext, Poll, Waker};

use bytes::Bytes;
use turms_core::{BoxFuture, PeerError, PeerTransport};
use turms_proto::session::{RequestOptions, SessionError};
use turms_proto::{MethodName, Notification, RawJson};

use crate::server::sync::Mutex;
use crate::sse;

/// The notifications that a handler has sent and the client has not read.
#[derive(Debug, Default)]
pub(in crate::server) struct NotificationQueue(Mutex<QueueState>);

#[derive(Debug, Default)]
struct QueueState {
    events: VecDeque<Vec<u8>>,
    bytes: usize,
    reader: Option<Waker>,
    senders: Vec<Waker>,
    is_closed: bool,
}

impl NotificationQueue {
    /// Maximum number of unread bytes before handlers have to wait. Small in unit tests, which fill the queue thousands
    /// of times.
    const LIMIT: usize = if cfg!(test) { 64 } else { 256 * 1024 };

    fn send(&self, notification: &Notification, sender: Option<&Waker>) -> Poll<bool> {
        let mut queue = self.0.lock();
        if queue.is_closed {
            return Poll::Ready(false);
        }
        if queue.bytes >= Self::LIMIT {
            if let Some(sender) = sender
                && !queue.senders.iter().any(|waiting| waiting.will_wake(sender))
            {
                queue.senders.push(sender.clone());
            }
            return Poll::Pending;
        }
        let mut json = Vec::new();
        notification.encode(&mut json);
        let mut event = Vec::with_capacity(json.len() + 16);
        sse::write_event(&mut event, None, None, &json);
        queue.bytes += event.len();
        queue.events.push_back(event);
        let reader = queue.reader.take();
        drop(queue);
        reader.into_iter().for_each(Waker::wake);
        Poll::Ready(true)
    }

    /// Takes all events.
    pub(in crate::server) fn poll_events(&self, task: &mut TaskContext<'_>) -> Poll<Bytes> {
        let mut queue = self.0.lock();
        if queue.events.is_empty() {
            if !queue.reader.as_ref().is_some_and(|known| known.will_wake(task.waker())) {
                queue.reader = Some(task.waker().clone());
            }
            return Poll::Pending;
        }
        let mut all = Vec::with_capacity(queue.bytes);
        for event in queue.events.drain(..) {
            all.extend_from_slice(&event);
        }
        queue.bytes = 0;
        let senders = std::mem::take(&mut queue.senders);
        drop(queue);
        senders.into_iter().for_each(Waker::wake);
        Poll::Ready(all.into())
    }

    /// Resolves when there are events.
    pub(in crate::server) fn poll_not_empty(&self, task: &mut TaskContext<'_>) -> Poll<()> {
        let mut queue = self.0.lock();
        if queue.events.is_empty() {
            if !queue.reader.as_ref().is_some_and(|known| known.will_wake(task.waker())) {
                queue.reader = Some(task.waker().clone());
            }
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// Closes the queue: the client no longer reads.
    pub(in crate::server) fn close(&self) {
        let mut queue = self.0.lock();
        queue.is_closed = true;
        let senders = std::mem::take(&mut queue.senders);
        drop(queue);
        senders.into_iter().for_each(Waker::wake);
    }
}

/// The client as a peer for the handler of one request.
impl PeerTransport for NotificationQueue {
    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        Box::pin(poll_fn(move |task| {
            self.send(&notification, Some(task.waker())).map(|is_sent| is_sent.then_some(()).ok_or(PeerError::Closed))
        }))
    }

    fn try_notify(&self, notification: Notification) -> bool {
        matches!(self.send(&notification, None), Poll::Ready(true))
    }

    fn request(
        &self,
        _: MethodName,
        _: Option<RawJson>,
        _: RequestOptions,
    ) -> BoxFuture<'_, Result<RawJson, PeerError>> {
        Box::pin(std::future::ready(Err(SessionError::NoServerRequests.into())))
    }
}

#[cfg(test)]
mod tests;
