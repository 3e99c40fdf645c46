use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use turms_core::BoxFuture;
use turms_core::store::{StoreError, TaskRecord};
use turms_proto::Notification;
use turms_proto::types::{Task, TaskChanged};

use super::{Keeper, is_owned};
use crate::context::Context;

/// Changes of tasks, as they are told to who listens. Behind a trait, so that who has no tasks links nothing of them.
pub(crate) trait TaskChanges: Send {
    /// The next one.
    fn next(&mut self) -> BoxFuture<'_, Option<Notification>>;
}

/// How many tasks one client may listen to at once.
pub(crate) const MOST_WATCHED: usize = 256;

/// Tasks that somebody listens to.
pub(crate) struct TaskWatch {
    keeper: Arc<Keeper>,
    waiting: Vec<Waiting>,
}

type Waiting = BoxFuture<'static, Result<Option<Arc<TaskRecord>>, StoreError>>;

impl TaskWatch {
    /// Of these tasks, those that the caller may see; with their ids.
    pub(crate) async fn of(keeper: &Arc<Keeper>, ids: &[String], context: &Context) -> (Self, Vec<String>) {
        let mut watch = Self { keeper: keeper.clone(), waiting: Vec::new() };
        let mut watched = Vec::new();
        for id in ids {
            if watched.contains(id) {
                continue;
            }
            let found = keeper.store().load(id).await;
            if found.is_ok_and(|record| record.is_some_and(|record| is_owned(&record, context))) {
                // What has happened since the task began is news, too.
                watch.wait(id.clone(), 0);
                watched.push(id.clone());
            }
        }
        (watch, watched)
    }

    fn wait(&mut self, id: String, revision: u64) {
        let keeper = self.keeper.clone();
        self.waiting.push(Box::pin(async move { keeper.store().changed(&id, revision).await }));
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
            // What is not kept any more, or cannot be looked at, is not told of.
            if let Ok(Some(record)) = changed.await {
                if !record.task.status.is_terminal() {
                    self.wait(record.task.task_id.clone(), record.revision);
                }
                return record.task.clone();
            }
        }
    }
}

impl TaskChanges for TaskWatch {
    fn next(&mut self) -> BoxFuture<'_, Option<Notification>> {
        Box::pin(async { Notification::new::<TaskChanged>(&self.next_change().await).ok() })
    }
}
