//! Handlers of the notifications of a session.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::task::JoinSet;
use turms_core::__internal::{dispatch_notification, notification_guard};
use turms_core::{CallContext, Limits};
use turms_proto::Notification;
use turms_proto::session::Dialect;
use turms_proto::types::Meta;

use super::HttpSession;
use crate::server::request::context::HttpRequestInfo;

/// The running notification handlers, and the queue of notifications that wait for a free slot. Dropping it aborts the
/// handlers.
#[derive(Default)]
pub(super) struct NotificationHandlers {
    running: usize,
    tasks: JoinSet<()>,
    /// Oldest first.
    waiting: VecDeque<WaitingNotification>,
    waiting_bytes: usize,
    /// Set if the last notification was dropped.
    is_dropping: bool,
}

struct WaitingNotification {
    notification: Notification,
    cx: CallContext,
    /// Of the notification, and of the head of its request, which the context keeps.
    bytes: usize,
}

impl NotificationHandlers {
    pub(super) fn is_idle(&self) -> bool {
        self.running == 0
    }

    /// Queues a notification unless the queue exceeds its limits. The notification must not share the buffer of its
    /// message.
    fn push(&mut self, notification: Notification, cx: CallContext, head_bytes: usize, limits: &Limits) {
        let params = notification.params.as_ref().map_or(0, |params| params.as_str().len());
        let bytes = notification.method.len() + params + head_bytes;
        if self.waiting.len() < limits.max_queued && self.waiting_bytes + bytes <= limits.max_queued_bytes {
            self.waiting_bytes += bytes;
            self.waiting.push_back(WaitingNotification { notification, cx, bytes });
            self.is_dropping = false;
        } else if !std::mem::replace(&mut self.is_dropping, true) {
            tracing::warn!(
                method = &*notification.method,
                max_notifications = limits.max_notifications,
                "notifications are dropped: too many handlers of notifications run, and too many notifications wait"
            );
        }
    }

    fn pop(&mut self) -> Option<(Notification, CallContext)> {
        let WaitingNotification { notification, cx, bytes } = self.waiting.pop_front()?;
        self.waiting_bytes -= bytes;
        Some((notification, cx))
    }
}

impl HttpSession {
    /// Handles a notification without waiting for its handler. If too many handlers run, the notification is queued.
    pub(super) async fn handle_notification(
        self: &Arc<Self>,
        mut notification: Notification,
        info: &Arc<HttpRequestInfo>,
        limits: &Limits,
    ) {
        let (version, running) = {
            let state = self.state.lock();
            (state.protocol.agreed(), state.notifications.as_ref().map_or(0, |handlers| handlers.running))
        };
        let Some(version) = version else { return };
        let is_full = running >= limits.max_notifications;
        if is_full {
            // A queued notification keeps only the memory that is counted.
            notification.detach();
        }
        let cx = CallContext::new(Dialect::Handshake(version), self.handle.peer().clone())
            .with_meta(Meta::of_params(notification.params.as_ref()));
        let cx = cx.with_request_info(info.clone()).with_session(self.handle.clone());
        if is_full {
            let mut state = self.state.lock();
            // A handler may have ended in the meantime. If none is running, the queue would not be read.
            if let Some(handlers) = state.notifications.as_mut().filter(|handlers| !handlers.is_idle()) {
                return handlers.push(notification, cx, info.head_bytes(), limits);
            }
        }
        self.run_notification(notification, cx).await;
    }

    /// Runs the handler of a notification; nothing waits for more than its first step.
    pub(super) async fn run_notification(self: &Arc<Self>, notification: Notification, cx: CallContext) {
        let mut handler = notification_guard(&*self.service, notification, cx);
        if poll_fn(|task| Poll::Ready(Pin::new(&mut handler).poll(task))).await.is_ready() {
            return;
        }
        let mut state = self.state.lock();
        if !state.is_open {
            return;
        }
        let handlers = state.notifications.get_or_insert_default();
        handlers.running += 1;
        while handlers.tasks.try_join_next().is_some() {}
        let mut slot = HandlerSlot { session: self.clone(), is_free: false };
        handlers.tasks.spawn(async move {
            let _ = handler.await;
            while let Some((notification, cx)) = slot.next() {
                dispatch_notification(&*slot.session.service, notification, cx).await;
            }
        });
    }
}

/// The slot of one running handler.
struct HandlerSlot {
    session: Arc<HttpSession>,
    is_free: bool,
}

impl HandlerSlot {
    /// Returns the oldest queued notification. Without one, the slot becomes free.
    fn next(&mut self) -> Option<(Notification, CallContext)> {
        let mut state = self.session.state.lock();
        let handlers = state.notifications.as_mut()?;
        let next = handlers.pop();
        if next.is_none() {
            handlers.running -= 1;
            self.is_free = true;
        }
        next
    }
}

impl Drop for HandlerSlot {
    fn drop(&mut self) {
        if self.is_free {
            return;
        }
        if let Some(handlers) = &mut self.session.state.lock().notifications {
            handlers.running = handlers.running.saturating_sub(1);
        }
    }
}
