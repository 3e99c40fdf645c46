//! What every store must do, as tests that any implementation can run.
//!
//! ```
//! use turms_core::store::{MemoryEvents, MemorySessions, MemoryTasks, contract};
//!
//! # async fn example() {
//! contract::check_sessions(&MemorySessions::new(100)).await;
//! contract::check_events(&MemoryEvents::new(1 << 20, 1 << 24)).await;
//! contract::check_tasks(&MemoryTasks::new(100, 1 << 20)).await;
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example());
//! ```

use std::sync::Arc;
use std::time::Duration;

use turms_proto::types::{Task, TaskStatus};
use turms_proto::{ErrorObject, ProtocolVersion, RawJson};

use super::{EventStore, SessionRecord, SessionStore, StoreError, StoredEvent, TaskAnswer, TaskRecord, TaskStore};

const LONG: Duration = Duration::from_secs(600);
/// How long something may take that a store need not do at once.
const PATIENCE: Duration = Duration::from_secs(10);

/// Checks that a store does all that [`SessionStore`] promises. Ids that begin with `contract-` must be free, and there must
/// be room for a few sessions.
///
/// # Panics
/// When the store breaks a promise, saying which.
pub async fn check_sessions(store: &dyn SessionStore) {
    what_was_never_there_is_not_found(store).await;
    what_is_kept_is_found_as_it_was(store).await;
    what_is_removed_is_gone(store).await;
    what_is_not_touched_expires(store).await;
}

async fn what_was_never_there_is_not_found(store: &dyn SessionStore) {
    assert_eq!(store.load("contract-none").await, Ok(None), "a session that never was is found");
    assert_eq!(store.touch("contract-none", LONG).await, Ok(false), "a session that never was is touched");
    assert_eq!(store.remove("contract-none").await, Ok(false), "a session that never was is removed");
}

async fn what_is_kept_is_found_as_it_was(store: &dyn SessionStore) {
    for principal in [None, Some("ann".to_owned())] {
        let record = Arc::new(record().principal(principal));
        store.insert("contract-kept", record.clone(), LONG).await.expect("there is room");
        let found = store.load("contract-kept").await.expect("the store works");
        assert_eq!(found.as_deref(), Some(&*record), "a session is not found as it was kept");
        assert_eq!(store.touch("contract-kept", LONG).await, Ok(true), "a session that is there cannot be touched");
        assert_eq!(store.load("contract-kep").await, Ok(None), "a part of an id finds a session");
        assert_eq!(store.remove("contract-kept").await, Ok(true), "a session that is there cannot be removed");
    }
}

async fn what_is_removed_is_gone(store: &dyn SessionStore) {
    store.insert("contract-one", Arc::new(record()), LONG).await.expect("there is room");
    store.insert("contract-two", Arc::new(record()), LONG).await.expect("there is room");
    assert_eq!(store.remove("contract-one").await, Ok(true), "a session that is there cannot be removed");
    assert_eq!(store.load("contract-one").await, Ok(None), "a session that was removed is found");
    assert_eq!(store.touch("contract-one", LONG).await, Ok(false), "a session that was removed is touched");
    assert!(store.load("contract-two").await.is_ok_and(|found| found.is_some()), "another session went with it");
    assert_eq!(store.remove("contract-two").await, Ok(true), "a session that is there cannot be removed");
}

async fn what_is_not_touched_expires(store: &dyn SessionStore) {
    let short = Duration::from_millis(200);
    store.insert("contract-idle", Arc::new(record()), short).await.expect("there is room");
    store.insert("contract-busy", Arc::new(record()), short).await.expect("there is room");
    assert_eq!(store.touch("contract-busy", LONG).await, Ok(true), "a session that is there cannot be touched");
    let expired = async {
        while store.load("contract-idle").await.expect("the store works").is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, expired).await.expect("a session that nobody touches expires");
    assert!(store.load("contract-busy").await.is_ok_and(|found| found.is_some()), "a session that was touched is gone");
    assert_eq!(store.remove("contract-busy").await, Ok(true), "a session that is there cannot be removed");
}

fn record() -> SessionRecord {
    let client = RawJson::parse(r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"\u00e4"}}"#);
    SessionRecord::new(ProtocolVersion::V2025_11_25, client.unwrap_or_default())
}

/// Checks that a store does all that [`EventStore`] promises. Sessions that begin with `contract-` must be free, and there
/// must be room for a few events of a few bytes.
///
/// # Panics
/// When the store breaks a promise, saying which.
pub async fn check_events(store: &dyn EventStore) {
    assert_eq!(after(store, "contract-a", 1, 0).await, [], "a stream that never was has events");
    for number in 1..=20 {
        // Streams take turns, and sessions do not share them.
        put(store, "contract-a", 1, number).await;
        put(store, "contract-a", 2, number).await;
        put(store, "contract-b", 1, number).await;
    }
    let last = StoredEvent::new(21, "the end").last();
    store.append("contract-a", 1, last.clone()).await.expect("there is room");
    for begin in [0, 1, 7, 19] {
        let mut expected: Vec<_> = (begin + 1..=20).map(|number| event("contract-a", 1, number)).collect();
        expected.push(last.clone());
        assert_eq!(after(store, "contract-a", 1, begin).await, expected, "events after {begin} are not what was kept");
    }
    assert_eq!(after(store, "contract-a", 1, 20).await, [last], "the last event is not found");
    assert_eq!(after(store, "contract-a", 1, 21).await, [], "there is something after the last event");
    assert_eq!(after(store, "contract-a", 2, 0).await.len(), 20, "events of another stream are missing");
    let first = store.after("contract-a", 2, 0, 1).await.expect("the store works");
    assert_eq!(first, [event("contract-a", 2, 1)], "at least one event, and not more than asked for");
    store.remove_stream("contract-a", 1).await.expect("the store works");
    assert_eq!(after(store, "contract-a", 1, 0).await, [], "a stream that was removed has events");
    assert_eq!(after(store, "contract-a", 2, 0).await.len(), 20, "another stream went with it");
    store.remove_session("contract-a").await.expect("the store works");
    assert_eq!(after(store, "contract-a", 2, 0).await, [], "a session that was removed has events");
    assert_eq!(after(store, "contract-b", 1, 0).await.len(), 20, "another session went with it");
    store.remove_session("contract-b").await.expect("the store works");
}

fn event(session: &str, stream: u64, number: u64) -> StoredEvent {
    StoredEvent::new(number, format!("{session}/{stream}/{number}"))
}

async fn put(store: &dyn EventStore, session: &str, stream: u64, number: u64) {
    store.append(session, stream, event(session, stream, number)).await.expect("there is room");
}

/// All events after a number, however few a store gives at a time.
async fn after(store: &dyn EventStore, session: &str, stream: u64, mut number: u64) -> Vec<StoredEvent> {
    let mut all = Vec::new();
    loop {
        let more = store.after(session, stream, number, 64).await.expect("the store works");
        let Some(last) = more.last() else { return all };
        assert!(last.number > number, "events come again");
        number = last.number;
        all.extend(more);
    }
}

/// Checks that a store does all that [`TaskStore`] promises. Ids and creators that begin with `contract-` must be free, and
/// there must be room for a few tasks.
///
/// # Panics
/// When the store breaks a promise, saying which.
pub async fn check_tasks(store: &dyn TaskStore) {
    a_task_is_found_as_it_was_kept(store).await;
    only_one_of_two_changes_wins(store).await;
    whoever_waits_for_a_change_hears_of_it(store).await;
    a_task_is_not_kept_for_longer_than_was_said(store).await;
    tasks_are_listed_for_their_creator(store).await;
}

async fn a_task_is_found_as_it_was_kept(store: &dyn TaskStore) {
    assert_eq!(store.load("contract-none").await, Ok(None), "a task that never was is found");
    assert_eq!(store.changed("contract-none", 0).await, Ok(None), "a task that never was is waited for");
    assert_eq!(store.replace(task("contract-none")).await, Ok(false), "a task that never was is changed");
    let kept = task("contract-kept").owner("ann".to_owned());
    store.insert(kept.clone(), Some(LONG)).await.expect("there is room");
    let found = store.load("contract-kept").await.expect("the store works");
    assert_eq!(found.as_deref(), Some(&kept), "a task is not found as it was kept");
    assert!(store.insert(kept, Some(LONG)).await.is_err(), "an id is given twice");
}

async fn only_one_of_two_changes_wins(store: &dyn TaskStore) {
    store.insert(task("contract-raced"), Some(LONG)).await.expect("there is room");
    let mut changed = task("contract-raced");
    changed.task.status = TaskStatus::Completed;
    changed.task.result = RawJson::parse(r#"{"content":[]}"#).ok();
    changed.answers.insert("a".to_owned(), TaskAnswer::Given(RawJson::NULL));
    changed.answers.insert("b".to_owned(), TaskAnswer::Refused(ErrorObject::internal("no")));
    assert_eq!(store.replace(changed.clone()).await, Ok(true), "a task cannot be changed");
    assert_eq!(store.replace(task("contract-raced")).await, Ok(false), "a change that comes too late wins");
    changed.revision = 1;
    let found = store.load("contract-raced").await.expect("the store works");
    assert_eq!(found.as_deref(), Some(&changed), "a task is not found as it was changed");
    assert_eq!(store.replace(changed).await, Ok(true), "a task cannot be changed again");
}

async fn whoever_waits_for_a_change_hears_of_it(store: &dyn TaskStore) {
    store.insert(task("contract-watched"), Some(LONG)).await.expect("there is room");
    let waiting = store.changed("contract-watched", 0);
    let changing = async {
        // So that there is somebody waiting; a store that is slower to begin must not miss it either.
        tokio::task::yield_now().await;
        store.replace(task("contract-watched")).await
    };
    let both = async { tokio::join!(waiting, changing) };
    let (waited, changed) = tokio::time::timeout(PATIENCE, both).await.expect("a change wakes the waiting task");
    let waited = waited.map(|record| record.map(|record| record.revision));
    assert_eq!((waited, changed), (Ok(Some(1)), Ok(true)), "the change differs from the one made");
    let at_once = tokio::time::timeout(PATIENCE, store.changed("contract-watched", 0)).await;
    let at_once = at_once.expect("a change of the past is heard of at once").expect("the store works");
    assert_eq!(at_once.map(|record| record.revision), Some(1), "what was heard is not the newest");
}

async fn a_task_is_not_kept_for_longer_than_was_said(store: &dyn TaskStore) {
    store.insert(task("contract-brief"), Some(Duration::from_millis(200))).await.expect("there is room");
    let gone = tokio::time::timeout(PATIENCE, store.changed("contract-brief", 0)).await;
    assert_eq!(gone.expect("a task expires, and whoever waits for it hears"), Ok(None), "an expired task has changed");
    assert_eq!(store.load("contract-brief").await, Ok(None), "an expired task is found");
    assert_eq!(store.replace(task("contract-brief")).await, Ok(false), "an expired task is changed");
}

async fn tasks_are_listed_for_their_creator(store: &dyn TaskStore) {
    for id in ["contract-1", "contract-2", "contract-3"] {
        let mut listed = task(id);
        listed.creator = "contract-lister".to_owned();
        store.insert(listed, Some(LONG)).await.expect("there is room");
    }
    let ids = async |after, most| {
        let page = store.list("contract-lister", after, most).await.expect("the store works");
        page.iter().map(|record| record.task.task_id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(None, 10).await, ["contract-1", "contract-2", "contract-3"], "tasks are missing, or out of order");
    assert_eq!(ids(None, 2).await, ["contract-1", "contract-2"], "not as many as were asked for");
    assert_eq!(ids(Some("contract-2"), 2).await, ["contract-3"], "the next page does not begin where the last ended");
    let gone = store.list("contract-lister", Some("contract-gone"), 2).await;
    assert_eq!(gone.err(), Some(StoreError::Gone), "a page begins after a task that is not there");
    let foreign = store.list("contract-stranger", Some("contract-2"), 2).await;
    assert_eq!(foreign.err(), Some(StoreError::Gone), "a page begins after a task of somebody else");
}

fn task(id: &str) -> TaskRecord {
    let time = "2026-01-01T00:00:00Z";
    TaskRecord::new(Task::new(id, TaskStatus::Working, time, time, None), "contract-somebody")
}
