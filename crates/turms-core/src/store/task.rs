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

/// A task as it is kept.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct TaskRecord {
    /// How it stands, as clients are told.
    pub task: Task,
    /// Whose it is, if whoever began it had proved who they are. Nobody else may see it.
    pub owner: Option<String>,
    /// In whose list of tasks it stands.
    pub creator: String,
    /// What was answered of what it asked, until it has taken notice.
    pub answers: BTreeMap<String, TaskAnswer>,
    /// Which state of the task this is, counted from zero.
    pub revision: u64,
}

/// How a question of a task was answered.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum TaskAnswer {
    /// With what was asked for.
    Given(RawJson),
    /// With an error.
    Refused(ErrorObject),
}

impl TaskRecord {
    /// A task of nobody in particular.
    #[must_use]
    pub fn new(task: Task, creator: impl Into<String>) -> Self {
        Self { task, owner: None, creator: creator.into(), answers: BTreeMap::new(), revision: 0 }
    }

    /// With whose it is.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<Option<String>>) -> Self {
        self.owner = owner.into();
        self
    }

    /// About how many bytes it takes.
    fn size(&self) -> usize {
        let answers = self.answers.values().map(|answer| match answer {
            TaskAnswer::Given(answer) => answer.as_str().len(),
            TaskAnswer::Refused(error) => error.message.len(),
        });
        let questions = self.task.input_requests.as_ref().map_or(0, |questions| questions.len() * 1024);
        let result = self.task.result.as_ref().map_or(0, |result| result.as_str().len());
        1024 + answers.sum::<usize>() + questions + result
    }
}

/// What a task asked, was told and gave may be secret, and so is its id.
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

/// Tasks by their ids.
///
/// Ids are secrets: whoever knows one can see what came of the task, unless it has an owner. The process that runs a task and
/// those that are asked about it have nothing in common but the store: what is to be known of a task is in its record, and
/// whoever waits for something waits for the record to change.
pub trait TaskStore: Send + Sync + 'static {
    /// Keeps a new task, for so long or for ever. Whoever asks for it afterwards finds it.
    fn insert(&self, record: TaskRecord, keep: Option<Duration>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The task of this id, if it is kept.
    fn load<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Arc<TaskRecord>>, StoreError>>;

    /// Puts a record in the place of the one that it was made from, which has the same id and revision; its own is the next.
    /// False if somebody else was quicker, or there is no such task any more.
    fn replace(&self, record: TaskRecord) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Removes a task, if it is there. Waiting for its changes ends.
    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Waits until the task has a later revision than this and gives the newest; `None` when it is not kept any more.
    fn changed<'a>(&'a self, id: &'a str, revision: u64) -> BoxFuture<'a, Result<Option<Arc<TaskRecord>>, StoreError>>;

    /// Some tasks of a creator, the oldest first, beginning after the one of this id. [`StoreError::Gone`] if that one is not
    /// kept any more, or is somebody else's.
    fn list<'a>(
        &'a self,
        creator: &'a str,
        after: Option<&'a str>,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<Arc<TaskRecord>>, StoreError>>;
}

/// Tasks in the memory of this process, up to a number and to about so many bytes. When there is no room, no more are taken;
/// those that were taken are kept for as long as was promised.
pub struct MemoryTasks {
    most: usize,
    bytes: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: HashMap<Box<str>, Entry>,
    /// The ids in the order in which they came.
    order: BTreeMap<u64, Box<str>>,
    last: u64,
    bytes: usize,
    /// When it is worth looking for what has expired.
    next_look: Option<Instant>,
}

struct Entry {
    record: watch::Sender<Arc<TaskRecord>>,
    place: u64,
    until: Option<Instant>,
}

impl Entry {
    fn is_kept(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    fn record(&self) -> Arc<TaskRecord> {
        self.record.borrow().clone()
    }
}

impl State {
    /// Looking through all of them is not for every call.
    const PAUSE: Duration = Duration::from_secs(10);

    fn forget_expired(&mut self, now: Instant, is_full: bool) {
        if !is_full && self.next_look.is_some_and(|next| now < next) {
            return;
        }
        self.next_look = Some(now + Self::PAUSE);
        let Self { entries, order, bytes, .. } = self;
        entries.retain(|_, entry| {
            let stays = entry.is_kept(now);
            if !stays {
                order.remove(&entry.place);
                *bytes -= entry.record().size();
            }
            stays
        });
        if entries.capacity() > 64 && entries.len() * 4 < entries.capacity() {
            entries.shrink_to_fit();
        }
    }
}

impl MemoryTasks {
    /// At most so many tasks, and about so many bytes.
    #[must_use]
    pub fn new(most: usize, bytes: usize) -> Self {
        Self { most, bytes, state: Mutex::default() }
    }

    fn add(&self, record: TaskRecord, keep: Option<Duration>) -> Result<(), StoreError> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let is_full = |state: &State| state.entries.len() >= self.most || state.bytes >= self.bytes;
        let full = is_full(&state);
        state.forget_expired(now, full);
        if is_full(&state) {
            return Err(StoreError::Full(self.most.min(state.entries.len())));
        }
        let id: Box<str> = record.task.task_id.as_str().into();
        if state.entries.contains_key(&id) {
            return Err(StoreError::Failed("there is a task of this id already".to_owned()));
        }
        state.last += 1;
        let place = state.last;
        state.bytes += record.size();
        state.order.insert(place, id.clone());
        let until = keep.and_then(|keep| now.checked_add(keep));
        state.entries.insert(id, Entry { record: watch::Sender::new(Arc::new(record)), place, until });
        Ok(())
    }

    fn find(&self, id: &str) -> Option<Arc<TaskRecord>> {
        let state = self.state.lock();
        state.entries.get(id).filter(|entry| entry.is_kept(Instant::now())).map(Entry::record)
    }

    fn put(&self, mut record: TaskRecord) -> bool {
        let mut state = self.state.lock();
        let State { entries, bytes, .. } = &mut *state;
        let Some(entry) = entries.get(record.task.task_id.as_str()).filter(|entry| entry.is_kept(Instant::now()))
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

    fn delete(&self, id: &str) {
        let mut state = self.state.lock();
        if let Some(entry) = state.entries.remove(id) {
            state.order.remove(&entry.place);
            state.bytes -= entry.record().size();
        }
    }

    fn watch(&self, id: &str) -> Option<(watch::Receiver<Arc<TaskRecord>>, Option<Instant>)> {
        let state = self.state.lock();
        let entry = state.entries.get(id).filter(|entry| entry.is_kept(Instant::now()))?;
        Some((entry.record.subscribe(), entry.until))
    }

    fn page(&self, creator: &str, after: Option<&str>, most: usize) -> Result<Vec<Arc<TaskRecord>>, StoreError> {
        let now = Instant::now();
        let state = self.state.lock();
        let start = match after {
            Some(id) => {
                let entry = state.entries.get(id).filter(|entry| entry.record.borrow().creator == creator);
                entry.ok_or(StoreError::Gone)?.place + 1
            }
            None => 0,
        };
        let entries = state.order.range(start..).filter_map(|(_, id)| state.entries.get(id));
        let records = entries.filter(|entry| entry.is_kept(now)).map(Entry::record);
        Ok(records.filter(|record| record.creator == creator).take(most).collect())
    }
}

impl TaskStore for MemoryTasks {
    fn insert(&self, record: TaskRecord, keep: Option<Duration>) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(self.add(record, keep)))
    }

    fn load<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Arc<TaskRecord>>, StoreError>> {
        Box::pin(std::future::ready(Ok(self.find(id))))
    }

    fn replace(&self, record: TaskRecord) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(std::future::ready(Ok(self.put(record))))
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.delete(id);
        Box::pin(std::future::ready(Ok(())))
    }

    fn changed<'a>(&'a self, id: &'a str, revision: u64) -> BoxFuture<'a, Result<Option<Arc<TaskRecord>>, StoreError>> {
        let watched = self.watch(id);
        Box::pin(async move {
            let Some((mut record, until)) = watched else { return Ok(None) };
            let later = async {
                let found = record.wait_for(|record| record.revision > revision).await;
                // Whoever forgot it has dropped the other end.
                found.ok().map(|record| record.clone())
            };
            Ok(match until {
                Some(until) => tokio::time::timeout_at(until, later).await.unwrap_or(None),
                None => later.await,
            })
        })
    }

    fn list<'a>(
        &'a self,
        creator: &'a str,
        after: Option<&'a str>,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<Arc<TaskRecord>>, StoreError>> {
        Box::pin(std::future::ready(self.page(creator, after, most)))
    }
}

impl fmt::Debug for MemoryTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("MemoryTasks").field("len", &state.entries.len()).field("bytes", &state.bytes).finish()
    }
}
