//! Notifications whose handlers cannot run yet, because too many run.

use std::collections::VecDeque;

use turms_core::{CallContext, Limits};
use turms_proto::Notification;

/// The notifications of a session that wait, oldest first.
#[derive(Default)]
pub(super) struct WaitingNotifications {
    queue: VecDeque<(Notification, CallContext)>,
    bytes: usize,
    /// Set if the last notification was dropped.
    is_dropping: bool,
}

impl WaitingNotifications {
    /// Keeps a notification unless too many of them, or too many bytes, wait already. It must not share the memory of its message.
    pub(super) fn push(&mut self, notification: Notification, cx: CallContext, limits: &Limits) {
        let bytes = size_of(&notification);
        if self.queue.len() < limits.max_queued && self.bytes + bytes <= limits.max_queued_bytes {
            self.bytes += bytes;
            self.queue.push_back((notification, cx));
            self.is_dropping = false;
        } else if !std::mem::replace(&mut self.is_dropping, true) {
            tracing::warn!(
                method = &*notification.method,
                max_notifications = limits.max_notifications,
                "notifications are dropped: too many handlers of notifications run, and too many notifications wait"
            );
        }
    }

    pub(super) fn pop(&mut self) -> Option<(Notification, CallContext)> {
        let next = self.queue.pop_front()?;
        self.bytes -= size_of(&next.0);
        Some(next)
    }
}

fn size_of(notification: &Notification) -> usize {
    notification.method.len() + notification.params.as_ref().map_or(0, |params| params.as_str().len())
}
