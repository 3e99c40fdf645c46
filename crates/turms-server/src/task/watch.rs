use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use turms_core::BoxFuture;
use turms_core::store::{StoreError, TaskRecord};
use turms_proto::Notification;
use turms_proto::types::{Task, TaskNotification};

use super::{TaskManager, is_owned};
use crate::context::Context;

/// Maximum number of tasks that one subscription may watch.
pub(crate) const MAX_WATCHED_TASKS: usize = 256;

/// The tasks that a subscription watches.
pub(crate) struct TaskWatch {
    manager: Arc<TaskManager>,
    waiting: Vec<PendingChange>,
}

type PendingChange = BoxFuture<'static, Result<Option<Arc<TaskRecord>>, StoreError>>;

impl TaskWatch {
    /// Watches those of the tasks that the caller may see. Also returns their ids.
    pub(crate) async fn of(manager: &Arc<TaskManager>, ids: &[String], context: &Context) -> (Self, Vec<String>) {
        let mut watch = Self { manager: manager.clone(), waiting: Vec::new() };
        let mut watched = Vec::new();
        for id in ids {
            if watched.contains(id) {
                continue;
            }
            let found = manager.store().load(id).await;
            if found.is_ok_and(|record| record.is_some_and(|record| is_owned(&record, context))) {
                // Changes since the creation of the task are reported, too.
                watch.wait(id.clone(), 0);
                watched.push(id.clone());
            }
        }
        (watch, watched)
    }

    fn wait(&mut self, id: String, revision: u64) {
        let manager = self.manager.clone();
        self.waiting.push(Box::pin(async move { manager.store().changed(&id, revision).await }));
    }

    /// Waits for the next change and returns its notification.
    pub(crate) async fn next(&mut self) -> Option<Notification> {
        Notification::new::<TaskNotification>(&self.next_change().await).ok()
    }

    async fn next_change(&mut self) -> Task {
        loop {
            let changed = poll_fn(|task| {
                for (place, waiting) in self.waiting.iter_mut().enumerate() {
                    if let Poll::Ready(changed) = waiting.as_mut().poll(task) {
                        drop(self.waiting.swap_remove(place));
                        return Poll::Ready(changed);
                    }
                }
                Poll::Pending
            });
            // TaskOptions that expired or cannot be loaded are not reported.
            if let Ok(Some(record)) = changed.await {
                if !record.task.status.is_terminal() {
                    self.wait(record.task.task_id.clone(), record.revision);
                }
                return record.task.clone();
            }
        }
    }
}
