use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use http::Extensions;
use tokio::task::{AbortHandle, JoinSet};
use turms_proto::method::Method as _;
use turms_proto::session::{Call, Ticket};
use turms_proto::types::Listen;
use turms_proto::{Notification, RawJson, RequestId};

use crate::cancellation::CancellationToken;
use crate::limits::Limits;

/// The running and waiting calls and notification handlers of a connection. Dropping it stops all of them.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    calls: JoinSet<()>,
    notifications: JoinSet<()>,
    tasks: HashMap<Ticket, CallTask>,
    subscriptions: usize,
    waiting: VecDeque<(Call, LineValues)>,
    /// Notifications that wait until the handler of another one has finished.
    waiting_notifications: VecDeque<(Notification, LineValues)>,
    waiting_bytes: usize,
    /// Set if the last notification that had to wait was dropped, so that the log has one entry for many.
    is_dropping: bool,
}

/// The values that the calls of a line see.
type LineValues = Option<Arc<Extensions>>;

#[derive(Debug)]
struct CallTask {
    abort: AbortHandle,
    is_subscription: bool,
    cancellation: CancellationToken,
}

/// The decision about a call that has arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CallPermit {
    Start,
    Wait,
    Refuse,
}

impl InFlight {
    pub(super) fn admit(&self, call: &Call, limits: &Limits) -> CallPermit {
        if is_subscription(call) {
            return if self.subscriptions < limits.max_subscriptions { CallPermit::Start } else { CallPermit::Refuse };
        }
        if !self.is_full(limits) {
            return CallPermit::Start;
        }
        if self.has_room(size_of(call), limits) { CallPermit::Wait } else { CallPermit::Refuse }
    }

    /// Returns `true` if one more message of this size may wait.
    fn has_room(&self, size: usize, limits: &Limits) -> bool {
        self.waiting.len() + self.waiting_notifications.len() < limits.max_queued
            && self.waiting_bytes.saturating_add(size) <= limits.max_queued_bytes
    }

    pub(super) fn wait(&mut self, mut call: Call, values: LineValues) {
        // It shares the buffer that it was read from, which may be much larger than the counted size.
        call.detach();
        self.waiting_bytes += size_of(&call);
        self.waiting.push_back((call, values));
    }

    /// Removes the next waiting call, if one may start.
    pub(super) fn next(&mut self, limits: &Limits) -> Option<(Call, LineValues)> {
        if self.is_full(limits) {
            return None;
        }
        let (call, values) = self.waiting.pop_front()?;
        self.waiting_bytes -= size_of(&call);
        Some((call, values))
    }

    pub(super) fn spawn(
        &mut self,
        ticket: Ticket,
        is_subscription: bool,
        cancellation: CancellationToken,
        call: impl Future<Output = ()> + Send + 'static,
    ) {
        self.subscriptions += usize::from(is_subscription);
        let abort = self.calls.spawn(call);
        self.tasks.insert(ticket, CallTask { abort, is_subscription, cancellation });
    }

    pub(super) fn spawn_notification(&mut self, handler: impl Future<Output = ()> + Send + 'static) {
        self.notifications.spawn(handler);
    }

    /// Returns `true` if the handler of a notification may run now.
    pub(super) fn can_notify(&self, limits: &Limits) -> bool {
        self.notifications.len() < limits.max_notifications && self.waiting_notifications.is_empty()
    }

    /// Queues a notification until its handler may run. If the queue is full, it is dropped: responses behind it must be read, because
    /// running handlers may wait for them.
    pub(super) fn wait_to_notify(&mut self, mut notification: Notification, values: LineValues, limits: &Limits) {
        if self.has_room(size_of_notification(&notification), limits) {
            notification.detach();
            self.waiting_bytes += size_of_notification(&notification);
            self.waiting_notifications.push_back((notification, values));
            self.is_dropping = false;
        } else if !std::mem::replace(&mut self.is_dropping, true) {
            tracing::warn!(
                method = &*notification.method,
                max_notifications = limits.max_notifications,
                "notifications dropped: too many notification handlers run and too many messages wait"
            );
        }
    }

    /// Removes the next waiting notification, if its handler may start.
    pub(super) fn next_notification(&mut self, limits: &Limits) -> Option<(Notification, LineValues)> {
        if self.notifications.len() >= limits.max_notifications {
            return None;
        }
        let (notification, values) = self.waiting_notifications.pop_front()?;
        self.waiting_bytes -= size_of_notification(&notification);
        Some((notification, values))
    }

    /// Stops the notification handlers and drops the waiting notifications.
    pub(super) fn stop_notifications(&mut self) {
        self.notifications.abort_all();
        for (notification, _) in self.waiting_notifications.drain(..) {
            self.waiting_bytes -= size_of_notification(&notification);
        }
    }

    pub(super) fn finished(&mut self, ticket: &Ticket) {
        // Most calls never become tasks, and then there is nothing to hash.
        if self.tasks.is_empty() {
            return;
        }
        if let Some(task) = self.tasks.remove(ticket) {
            self.subscriptions -= usize::from(task.is_subscription);
        }
    }

    /// Cancels a call of the peer, for the reason that the peer gave.
    pub(super) fn cancel(&mut self, ticket: &Ticket, reason: Option<String>) {
        match self.tasks.remove(ticket) {
            Some(task) => {
                self.subscriptions -= usize::from(task.is_subscription);
                match reason {
                    Some(reason) => task.cancellation.cancel_with_reason(reason),
                    None => task.cancellation.cancel(),
                }
                task.abort.abort();
            }
            None => {
                if let Some(index) = self.waiting.iter().position(|(call, _)| call.ticket == *ticket)
                    && let Some((call, _)) = self.waiting.remove(index)
                {
                    self.waiting_bytes -= size_of(&call);
                }
            }
        }
    }

    /// Stops everything and returns the tickets of the calls that have no response.
    pub(super) fn stop(&mut self) -> Vec<Ticket> {
        self.calls.abort_all();
        self.subscriptions = 0;
        self.waiting_notifications.clear();
        self.waiting_bytes = 0;
        let waiting = std::mem::take(&mut self.waiting).into_iter().map(|(call, _)| call.ticket);
        self.tasks.drain().map(|(ticket, _)| ticket).chain(waiting).collect()
    }

    /// Removes finished tasks. Ready when a notification handler has finished, because another one may start then.
    pub(super) fn poll(&mut self, task: &mut TaskContext<'_>) -> Poll<()> {
        while let Poll::Ready(Some(_)) = self.calls.poll_join_next(task) {}
        let mut is_free = false;
        while let Poll::Ready(Some(_)) = self.notifications.poll_join_next(task) {
            is_free = true;
        }
        if is_free { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Subscriptions do not count: they are long-lived and must not block calls.
    fn is_full(&self, limits: &Limits) -> bool {
        self.tasks.len() - self.subscriptions >= limits.max_in_flight
    }
}

fn is_subscription(call: &Call) -> bool {
    &*call.request.method == Listen::NAME
}

/// The number of bytes that a waiting call keeps in memory.
fn size_of(call: &Call) -> usize {
    let id = match &call.request.id {
        RequestId::String(id) => id.len(),
        RequestId::Number(_) => 0,
    };
    id + call.request.method.len() + length_of(call.request.params.as_ref())
}

/// The number of bytes that a waiting notification keeps in memory.
fn size_of_notification(notification: &Notification) -> usize {
    notification.method.len() + length_of(notification.params.as_ref())
}

fn length_of(params: Option<&RawJson>) -> usize {
    params.map_or(0, |params| params.as_str().len())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use turms_proto::session::Session;
    use turms_proto::{Incoming, ProtocolVersion};

    use super::*;

    /// A buffer with a reference count that shows whether it is still shared.
    struct Buffer(Vec<u8>, #[expect(dead_code, reason = "held")] Arc<()>);

    impl AsRef<[u8]> for Buffer {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    #[test]
    fn a_waiting_call_keeps_only_the_counted_bytes() {
        let junk = "x".repeat(256 * 1024);
        let params = r#"{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}"#;
        for method in ["tools/call", "own/method"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":"a","junk":"{junk}","method":"{method}","params":{params}}}"#);
            let is_shared = Arc::new(());
            let line = Bytes::from_owner(Buffer(line.into_bytes(), is_shared.clone()));
            let mut session = Session::<()>::server(&ProtocolVersion::ALL);
            let now = tokio::time::Instant::now().into_std();
            let call = session.receive_call(Incoming::decode(line, 1), now).unwrap();
            assert_eq!(Arc::strong_count(&is_shared), 2, "a call that does not wait is not copied");
            let mut in_flight = InFlight::default();
            in_flight.wait(call, None);
            assert_eq!(Arc::strong_count(&is_shared), 1, "the line is kept");
            assert_eq!(in_flight.waiting_bytes, 1 + method.len() + params.len());
            let (call, _) = in_flight.next(&Limits::default()).unwrap();
            assert_eq!(call.request.params.unwrap().as_str(), params);
            assert!(call.meta.unwrap().iter().count() == 2);
            assert_eq!(in_flight.waiting_bytes, 0);
        }
    }
}
