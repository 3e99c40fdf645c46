use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use turms_proto::types::Task;
use turms_proto::{ErrorObject, RawJson};

use super::StoreError;
use crate::peer::BoxFuture;

/// A stored task.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct TaskRecord {
    /// The state of the task, as clients see it.
    pub task: Task,
    /// The [key](crate::Principal::key) of the authenticated caller that created the task. No other caller may see it.
    pub owner: Option<String>,
    /// The scopes of its tool: a caller without them may not see the task.
    pub scopes: Vec<String>,
    /// The creator: only `tasks/list` of the same creator includes the task.
    pub creator: String,
    /// The responses to input requests of the task that its handler has not received yet, by the key of the request.
    pub answers: BTreeMap<String, TaskAnswer>,
    /// The number of changes of the record, starting at 0.
    pub revision: u64,
}

/// The response to an input request of a task.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum TaskAnswer {
    /// The result.
    Given(RawJson),
    /// An error.
    Refused(ErrorObject),
}

impl TaskRecord {
    /// Creates a task without an owner.
    #[must_use]
    pub fn new(task: Task, creator: impl Into<String>) -> Self {
        Self { task, owner: None, scopes: Vec::new(), creator: creator.into(), answers: BTreeMap::new(), revision: 0 }
    }

    /// Sets the subject of the authenticated caller.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<Option<String>>) -> Self {
        self.owner = owner.into();
        self
    }

    /// Sets the scopes that a caller needs to see the task.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Estimates the number of bytes that the record takes.
    fn size(&self) -> usize {
        let answers = self.answers.values().map(|answer| match answer {
            TaskAnswer::Given(result) => result.as_str().len(),
            TaskAnswer::Refused(error) => error.message.len(),
        });
        let input_requests = self.task.input_requests.as_ref().map_or(0, |requests| requests.len() * 1024);
        let result = self.task.result.as_ref().map_or(0, |result| result.as_str().len());
        1024 + answers.sum::<usize>() + input_requests + result
    }
}

/// Hides the input, the result and the id of the task: they may be secret.
impl fmt::Debug for TaskRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut record = f.debug_struct("TaskRecord");
        record.field("status", &self.task.status).field("revision", &self.revision).finish_non_exhaustive()
    }
}

impl fmt::Debug for TaskAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Given(_) => "Given",
            Self::Refused(_) => "Refused",
        })
    }
}

/// The tasks by id.
///
/// Ids are secrets: a client that knows one can read the result of the task, unless it has an owner. The process that runs a task and
/// those that receive requests about it share only the store: the record has the whole state, and to wait for a task is to wait for a
/// change of its record.
pub trait TaskStore: Send + Sync + 'static {
    /// Stores a new task, which expires after `ttl`; `None` for never.
    fn insert(&self, record: TaskRecord, ttl: Option<Duration>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Loads a task, if it exists.
    fn load<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Arc<TaskRecord>>, StoreError>>;

    /// Replaces the stored record with the same id and revision, and increments its revision. Returns `false` if the stored revision is
    /// another one, because of a concurrent change, or if the task does not exist.
    fn replace(&self, record: TaskRecord) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Removes a task, if it exists. [`changed`](Self::changed) then returns `None`.
    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Waits until the task has a later revision than this, and returns the newest. Returns `None` when the task does not exist any more.
    fn changed<'a>(&'a self, id: &'a str, revision: u64) -> BoxFuture<'a, Result<Option<Arc<TaskRecord>>, StoreError>>;

    /// Lists up to `limit` tasks of a creator, oldest first, after the task with the id `after`. [`StoreError::NotFound`] if that task does not
    /// exist or belongs to another creator.
    fn list<'a>(
        &'a self,
        creator: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Arc<TaskRecord>>, StoreError>>;
}

/// An `Arc` of a store is the same store.
impl<S: TaskStore + ?Sized> TaskStore for Arc<S> {
    fn insert(&self, record: TaskRecord, ttl: Option<Duration>) -> BoxFuture<'_, Result<(), StoreError>> {
        (**self).insert(record, ttl)
    }

    fn load<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Arc<TaskRecord>>, StoreError>> {
        (**self).load(id)
    }

    fn replace(&self, record: TaskRecord) -> BoxFuture<'_, Result<bool, StoreError>> {
        (**self).replace(record)
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        (**self).remove(id)
    }

    fn changed<'a>(&'a self, id: &'a str, revision: u64) -> BoxFuture<'a, Result<Option<Arc<TaskRecord>>, StoreError>> {
        (**self).changed(id, revision)
    }

    fn list<'a>(
        &'a self,
        creator: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Arc<TaskRecord>>, StoreError>> {
        (**self).list(creator, after, limit)
    }
}

/// A task store in memory, with a maximum number of tasks and an approximate maximum number of bytes. When it is full, it rejects new
/// tasks; stored tasks stay until they expire.
pub struct MemoryTaskStore {
    max_tasks: usize,
    max_bytes: usize,
    state: Mutex<TaskStoreState>,
}

#[derive(Default)]
struct TaskStoreState {
    entries: HashMap<Box<str>, TaskEntry>,
    /// The ids in the order of insertion.
    order: BTreeMap<u64, Box<str>>,
    last_position: u64,
    bytes: usize,
    /// The time of the next search for expired tasks.
    next_cleanup: Option<Instant>,
}

struct TaskEntry {
    record: watch::Sender<Arc<TaskRecord>>,
    /// The key in `order`.
    position: u64,
    expires: Option<Instant>,
}

impl TaskEntry {
    fn is_live(&self, now: Instant) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }

    fn record(&self) -> Arc<TaskRecord> {
        self.record.borrow().clone()
    }
}

impl TaskStoreState {
    /// Minimum time between searches for expired tasks, which look at every task.
    const CLEANUP_INTERVAL: Duration = Duration::from_secs(10);

    fn remove_expired(&mut self, now: Instant, is_full: bool) {
        if !is_full && self.next_cleanup.is_some_and(|next| now < next) {
            return;
        }
        self.next_cleanup = Some(now + Self::CLEANUP_INTERVAL);
        let Self { entries, order, bytes, .. } = self;
        entries.retain(|_, entry| {
            let is_live = entry.is_live(now);
            if !is_live {
                order.remove(&entry.position);
                *bytes -= entry.record().size();
            }
            is_live
        });
        if entries.capacity() > 64 && entries.len() * 4 < entries.capacity() {
            entries.shrink_to_fit();
        }
    }
}

impl MemoryTaskStore {
    /// Creates a store with a maximum number of tasks and an approximate maximum number of bytes.
    #[must_use]
    pub fn new(max_tasks: usize, max_bytes: usize) -> Self {
        Self { max_tasks, max_bytes, state: Mutex::default() }
    }

    fn insert_record(&self, record: TaskRecord, ttl: Option<Duration>) -> Result<(), StoreError> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let is_full = |state: &TaskStoreState| state.entries.len() >= self.max_tasks || state.bytes >= self.max_bytes;
        let full = is_full(&state);
        state.remove_expired(now, full);
        if is_full(&state) {
            let (what, limit) = match state.entries.len() >= self.max_tasks {
                true => ("tasks", self.max_tasks),
                false => ("bytes", self.max_bytes),
            };
            return Err(StoreError::CapacityExceeded { what, limit });
        }
        let id: Box<str> = record.task.task_id.as_str().into();
        if state.entries.contains_key(&id) {
            return Err(StoreError::Failed("a task with this id exists already".to_owned()));
        }
        state.last_position += 1;
        let position = state.last_position;
        state.bytes += record.size();
        state.order.insert(position, id.clone());
        let expires = ttl.and_then(|ttl| now.checked_add(ttl));
        state.entries.insert(id, TaskEntry { record: watch::Sender::new(Arc::new(record)), position, expires });
        Ok(())
    }

    fn find(&self, id: &str) -> Option<Arc<TaskRecord>> {
        let state = self.state.lock();
        state.entries.get(id).filter(|entry| entry.is_live(Instant::now())).map(TaskEntry::record)
    }

    fn replace_record(&self, mut record: TaskRecord) -> bool {
        let mut state = self.state.lock();
        let TaskStoreState { entries, bytes, .. } = &mut *state;
        let Some(entry) = entries.get(record.task.task_id.as_str()).filter(|entry| entry.is_live(Instant::now()))
        else {
            return false;
        };
        let old = entry.record();
        if old.revision != record.revision {
            return false;
        }
        record.revision += 1;
        *bytes = *bytes + record.size() - old.size();
        entry.record.send_replace(Arc::new(record));
        true
    }

    fn remove_record(&self, id: &str) {
        let mut state = self.state.lock();
        if let Some(entry) = state.entries.remove(id) {
            state.order.remove(&entry.position);
            state.bytes -= entry.record().size();
        }
    }

    fn watch(&self, id: &str) -> Option<(watch::Receiver<Arc<TaskRecord>>, Option<Instant>)> {
        let state = self.state.lock();
        let entry = state.entries.get(id).filter(|entry| entry.is_live(Instant::now()))?;
        Some((entry.record.subscribe(), entry.expires))
    }

    fn page(&self, creator: &str, after: Option<&str>, limit: usize) -> Result<Vec<Arc<TaskRecord>>, StoreError> {
        let now = Instant::now();
        let state = self.state.lock();
        let start = match after {
            Some(id) => {
                let entry = state.entries.get(id).filter(|entry| entry.record.borrow().creator == creator);
                entry.ok_or(StoreError::NotFound)?.position + 1
            }
            None => 0,
        };
        let entries = state.order.range(start..).filter_map(|(_, id)| state.entries.get(id));
        let records = entries.filter(|entry| entry.is_live(now)).map(TaskEntry::record);
        Ok(records.filter(|record| record.creator == creator).take(limit).collect())
    }
}

impl TaskStore for MemoryTaskStore {
    fn insert(&self, record: TaskRecord, ttl: Option<Duration>) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(self.insert_record(record, ttl)))
    }

    fn load<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Arc<TaskRecord>>, StoreError>> {
        Box::pin(std::future::ready(Ok(self.find(id))))
    }

    fn replace(&self, record: TaskRecord) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(std::future::ready(Ok(self.replace_record(record))))
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.remove_record(id);
        Box::pin(std::future::ready(Ok(())))
    }

    fn changed<'a>(&'a self, id: &'a str, revision: u64) -> BoxFuture<'a, Result<Option<Arc<TaskRecord>>, StoreError>> {
        let watched = self.watch(id);
        Box::pin(async move {
            let Some((mut record, expires)) = watched else { return Ok(None) };
            let later = async {
                let found = record.wait_for(|record| record.revision > revision).await;
                // The sender is dropped when the task is removed.
                found.ok().map(|record| record.clone())
            };
            Ok(match expires {
                Some(expires) => tokio::time::timeout_at(expires, later).await.unwrap_or(None),
                None => later.await,
            })
        })
    }

    fn list<'a>(
        &'a self,
        creator: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Arc<TaskRecord>>, StoreError>> {
        Box::pin(std::future::ready(self.page(creator, after, limit)))
    }
}

impl fmt::Debug for MemoryTaskStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("MemoryTaskStore").field("len", &state.entries.len()).field("bytes", &state.bytes).finish()
    }
}
