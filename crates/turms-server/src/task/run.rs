use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;
use turms_core::__internal::PanicGuard;
use turms_core::store::{StoreError, TaskAnswer, TaskRecord, TaskStore};
use turms_proto::method::NotificationMethod;
use turms_proto::revision::core_task;
use turms_proto::types::{CoreTaskStatusNotification, InputRequest, Meta, Task, TaskStatus};
use turms_proto::{Ability, ErrorObject, MethodName, Notification, Object, RawJson};

use super::{edit_record, end_record, task_store_error, with_related_task};
use crate::context::Context;
use crate::session::SessionCore;
use crate::subscriptions::try_notify;
use crate::tool::ToolFuture;

/// A task, from the point of view of its handler.
pub(crate) struct RunningTask {
    /// The record as it was created.
    record: TaskRecord,
    ttl: Option<Duration>,
    store: Arc<dyn TaskStore>,
    keys: Mutex<InputKeys>,
    /// Keys of responses that the handler has received. They are removed at the next change of the record.
    received: Mutex<Vec<String>>,
    /// The session that is notified of changes, for clients of 2025-11-25.
    session: Option<Weak<SessionCore>>,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
}

impl RunningTask {
    pub(super) fn new(
        record: TaskRecord,
        ttl: Option<Duration>,
        store: Arc<dyn TaskStore>,
        context: &Context,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let notifies_session = context.protocol_version().has(Ability::CoreTasks);
        let session = context.session().filter(|_| notifies_session).map(|session| Arc::downgrade(session.core()));
        let (keys, received, permit) = (Mutex::default(), Mutex::default(), Mutex::new(Some(permit)));
        Self { record, ttl, store, keys, received, session, permit }
    }

    /// Stores the task, so that the client finds it.
    pub(crate) async fn store(&self) -> Result<(), ErrorObject> {
        if let Err(error) = self.store.insert(self.record.clone(), self.ttl).await {
            self.release();
            return Err(task_store_error(&error));
        }
        Ok(())
    }

    /// Removes the task from the store because the response of the call does not name it.
    pub(crate) async fn discard(&self) {
        if let Err(error) = self.store.remove(self.id()).await {
            tracing::warn!(%error, "an unused task cannot be removed from its store");
        }
        self.release();
    }

    pub(crate) fn id(&self) -> &str {
        &self.record.task.task_id
    }

    /// Returns the task as it was created.
    pub(crate) fn created(&self) -> Task {
        self.record.task.clone()
    }

    /// Sends a progress or log notification. Only clients of 2025-11-25 receive it.
    pub(crate) async fn notify<N: NotificationMethod>(&self, params: &N::Params) {
        let Some(session) = self.session.as_ref().and_then(Weak::upgrade) else { return };
        if let Ok(params) = Object::encode(params) {
            let params = with_related_task(params, self.id()).into();
            let notification = Notification::raw(MethodName::from_static(N::NAME), Some(params));
            let _ = session.peer().notify_raw(notification).await;
        }
    }

    /// Requests input from the client and waits without a timeout. Returns `None` if the task ends before there is a
    /// response.
    pub(crate) async fn ask(&self, requested: &str, question: InputRequest) -> Result<Option<TaskAnswer>, StoreError> {
        let key = self.keys.lock().unused(requested);
        let received = std::mem::take(&mut *self.received.lock());
        let asked = edit_record(&*self.store, self.id(), |record| {
            if record.task.status.is_terminal() {
                return false;
            }
            record.answers.retain(|key, _| !received.contains(key));
            record.task.status = TaskStatus::InputRequired;
            record.task.input_requests.get_or_insert_default().insert(key.clone(), question.clone());
            true
        });
        let mut record = asked.await?;
        if let Some(record) = &record {
            self.notify_status(record);
        }
        let withdraw = WithdrawOnDrop { running: self, key: &key };
        while let Some(known) = record.as_ref().filter(|known| !known.task.status.is_terminal()) {
            if let Some(answer) = known.answers.get(&key) {
                let answer = answer.clone();
                std::mem::forget(withdraw);
                self.received.lock().push(key);
                return Ok(Some(answer));
            }
            let later = self.store.changed(self.id(), known.revision).await?;
            record = later.map(|record| (*record).clone());
        }
        std::mem::forget(withdraw);
        Ok(None)
    }

    /// Sets the human-readable status message.
    pub(crate) async fn set_status_message(&self, message: &str) -> Result<(), StoreError> {
        let changed = edit_record(&*self.store, self.id(), |record| {
            if record.task.status.is_terminal() {
                return false;
            }
            record.task.status_message = Some(message.to_owned());
            true
        });
        if let Some(record) = changed.await? {
            self.notify_status(&record);
        }
        Ok(())
    }

    /// Runs the handler until it returns, or until the task is cancelled or expires.
    pub(crate) async fn run(self: Arc<Self>, handler: ToolFuture, server: Option<Meta>) {
        let result = tokio::select! {
            // If the task has ended, the handler is dropped without its result.
            biased;
            () = self.ended_or_expired() => return self.release(),
            result = PanicGuard::new(|| handler) => result,
        };
        let result = match result {
            Ok(result) => result.map_err(ErrorObject::from),
            Err(panicked) => Err(panicked.into_service_error().into_object()),
        };
        let outcome = result.and_then(|mut result| {
            if let Some(server) = server {
                crate::router::attach_server_info(&mut result.meta, server);
            }
            RawJson::encode(&result).map_err(|error| crate::respond::encode_error(&error))
        });
        let mut pause = Duration::from_millis(500);
        // The store may become available again, so storing the result is retried.
        for _ in 0..8 {
            match edit_record(&*self.store, self.id(), |record| finish(record, &outcome)).await {
                Ok(record) => {
                    if let Some(record) = &record {
                        self.notify_status(record);
                    }
                    return self.release();
                }
                Err(error) => tracing::warn!(%error, "the result of a task cannot be stored; retrying"),
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        tracing::error!("the result of a task is lost: its store cannot be reached");
        self.release();
    }

    /// Resolves when the task is ended by another request or is no longer stored.
    async fn ended_or_expired(&self) {
        let mut revision = 0;
        loop {
            match self.store.changed(self.id(), revision).await {
                Ok(Some(record)) if !record.task.status.is_terminal() => revision = record.revision,
                Ok(_) => return,
                Err(error) => {
                    tracing::warn!(%error, "a task cannot be loaded; retrying");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    /// Releases the permit of the task: its handler has ended, or does not run as a task.
    pub(crate) fn release(&self) {
        self.permit.lock().take();
    }

    /// Notifies a client of 2025-11-25 of the status. Best effort: clients also poll.
    fn notify_status(&self, record: &TaskRecord) {
        let Some(session) = self.session.as_ref().and_then(Weak::upgrade) else { return };
        let core = core_task(&record.task);
        if let Ok(notification) = Notification::new::<CoreTaskStatusNotification>(&core) {
            try_notify(&session, notification);
        }
    }
}

fn finish(record: &mut TaskRecord, outcome: &Result<RawJson, ErrorObject>) -> bool {
    match outcome {
        Ok(result) => {
            let ended = end_record(record, TaskStatus::Completed);
            if ended {
                if result.member("isError").is_some_and(|flag| flag.as_str() == "true") {
                    record.task.status_message = Some("the tool failed: see its result".to_owned());
                }
                record.task.result = Some(result.clone());
            }
            ended
        }
        Err(error) => {
            let ended = end_record(record, TaskStatus::Failed);
            if ended {
                record.task.status_message = Some(error.message.to_string());
                record.task.error = Some(error.clone());
            }
            ended
        }
    }
}

/// Keys of a task's input requests. Each key is used once. Maps a requested key to the number of its uses, so memory
/// grows only with the number of distinct requested keys.
#[derive(Default)]
struct InputKeys(HashMap<String, u64>);

impl InputKeys {
    /// Returns an unused key: the requested one, or the requested one with a numeric suffix.
    fn unused(&mut self, requested: &str) -> String {
        let mut number = self.0.get(requested).copied().unwrap_or(0);
        loop {
            number += 1;
            let key = if number == 1 { requested.to_owned() } else { format!("{requested}-{number}") };
            if !self.is_used(&key) {
                self.0.insert(requested.to_owned(), number);
                return key;
            }
        }
    }

    fn is_used(&self, key: &str) -> bool {
        let numbered = key.rsplit_once('-').and_then(|(requested, number)| {
            let number = number.parse().ok().filter(|parsed: &u64| *parsed > 1 && parsed.to_string() == number)?;
            Some(self.0.get(requested).is_some_and(|last| number <= *last))
        });
        self.0.contains_key(key) || numbered == Some(true)
    }
}

/// Removes an input request from the record when its handler stops waiting for it.
struct WithdrawOnDrop<'a> {
    running: &'a RunningTask,
    key: &'a str,
}

impl Drop for WithdrawOnDrop<'_> {
    fn drop(&mut self) {
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let (store, id, key) = (self.running.store.clone(), self.running.id().to_owned(), self.key.to_owned());
        tokio::spawn(async move {
            // If this fails, the client may respond to the input request, and the response is ignored.
            let _ = edit_record(&*store, &id, |record| resolve_request(record, &key, None)).await;
        });
    }
}

/// Removes a pending input request and stores the response, if any. Returns `false` if there is no such request.
pub(super) fn resolve_request(record: &mut TaskRecord, key: &str, answer: Option<TaskAnswer>) -> bool {
    let Some(questions) = &mut record.task.input_requests else { return false };
    if questions.shift_remove(key).is_none() {
        return false;
    }
    if questions.is_empty() {
        record.task.input_requests = None;
        record.task.status = TaskStatus::Working;
    }
    record.answers.extend(answer.map(|answer| (key.to_owned(), answer)));
    true
}

impl fmt::Debug for RunningTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningTask").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::InputKeys;

    #[test]
    fn a_key_is_used_once_and_many_take_no_room() {
        let mut keys = InputKeys::default();
        assert_eq!(keys.unused("a"), "a");
        assert_eq!(keys.unused("a"), "a-2");
        assert_eq!(keys.unused("a-2"), "a-2-2");
        assert_eq!(keys.unused("a-4"), "a-4");
        assert_eq!(keys.unused("a-03"), "a-03");
        let more: HashSet<_> = (0..100_000).map(|_| keys.unused("a")).collect();
        assert!(more.len() == 100_000 && more.contains("a-3") && !more.contains("a-2") && !more.contains("a-4"));
        assert_eq!(keys.0.len(), 4);
    }
}
