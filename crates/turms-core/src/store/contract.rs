//! Tests that every implementation of a store must pass.
//!
//! ```
//! # use turms_core as turms;
//! use turms::store::{MemoryEventStore, MemorySessionStore, MemoryTaskStore, contract};
//!
//! # async fn example() {
//! contract::check_sessions(&MemorySessionStore::new(100)).await;
//! contract::check_events(&MemoryEventStore::new(1 << 20, 1 << 24)).await;
//! contract::check_tasks(&MemoryTaskStore::new(100, 1 << 20)).await;
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example());
//! ```

use std::sync::Arc;
use std::time::Duration;

use turms_proto::types::{Task, TaskStatus};
use turms_proto::{ErrorObject, ProtocolVersion, RawJson};

use super::{EventStore, SessionRecord, SessionStore, StoreError, StoredEvent, TaskAnswer, TaskRecord, TaskStore};

const LONG: Duration = Duration::from_secs(600);
/// Timeout for what a store may do with a delay.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Checks that a store keeps the contract of [`SessionStore`]. Ids that begin with `contract-` must be free, and there must be capacity
/// for a few sessions.
///
/// # Panics
/// If the store violates the contract; the message says how.
pub async fn check_sessions(store: &dyn SessionStore) {
    an_unknown_session_is_not_found(store).await;
    a_stored_session_is_found_unchanged(store).await;
    a_removed_session_is_not_found(store).await;
    a_session_that_is_not_touched_expires(store).await;
}

async fn an_unknown_session_is_not_found(store: &dyn SessionStore) {
    assert_eq!(store.load("contract-none").await, Ok(None), "an unknown session is found");
    assert_eq!(store.touch("contract-none", LONG).await, Ok(false), "an unknown session is touched");
    assert_eq!(store.remove("contract-none").await, Ok(false), "an unknown session is removed");
}

async fn a_stored_session_is_found_unchanged(store: &dyn SessionStore) {
    for principal in [None, Some("ann".to_owned())] {
        let record = Arc::new(record().principal(principal));
        store.insert("contract-stored", record.clone(), LONG).await.expect("the store has capacity");
        let found = store.load("contract-stored").await.expect("the store works");
        assert_eq!(found.as_deref(), Some(&*record), "the stored session is changed");
        assert_eq!(store.touch("contract-stored", LONG).await, Ok(true), "a stored session cannot be touched");
        assert_eq!(store.load("contract-store").await, Ok(None), "a prefix of an id finds a session");
        assert_eq!(store.remove("contract-stored").await, Ok(true), "a stored session cannot be removed");
    }
}

async fn a_removed_session_is_not_found(store: &dyn SessionStore) {
    store.insert("contract-one", Arc::new(record()), LONG).await.expect("the store has capacity");
    store.insert("contract-two", Arc::new(record()), LONG).await.expect("the store has capacity");
    assert_eq!(store.remove("contract-one").await, Ok(true), "a stored session cannot be removed");
    assert_eq!(store.load("contract-one").await, Ok(None), "a removed session is found");
    assert_eq!(store.touch("contract-one", LONG).await, Ok(false), "a removed session is touched");
    assert!(store.load("contract-two").await.is_ok_and(|found| found.is_some()), "another session is removed, too");
    assert_eq!(store.remove("contract-two").await, Ok(true), "a stored session cannot be removed");
}

async fn a_session_that_is_not_touched_expires(store: &dyn SessionStore) {
    let short = Duration::from_millis(200);
    store.insert("contract-idle", Arc::new(record()), short).await.expect("the store has capacity");
    store.insert("contract-busy", Arc::new(record()), short).await.expect("the store has capacity");
    assert_eq!(store.touch("contract-busy", LONG).await, Ok(true), "a stored session cannot be touched");
    let expired = async {
        while store.load("contract-idle").await.expect("the store works").is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, expired).await.expect("a session that is not touched expires");
    assert!(store.load("contract-busy").await.is_ok_and(|found| found.is_some()), "a touched session has expired");
    assert_eq!(store.remove("contract-busy").await, Ok(true), "a stored session cannot be removed");
}

fn record() -> SessionRecord {
    let client = RawJson::parse(r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"\u00e4"}}"#);
    SessionRecord::new(ProtocolVersion::V2025_11_25, client.unwrap_or_default())
}

/// Checks that a store keeps the contract of [`EventStore`]. Session ids that begin with `contract-` must be free, and there must be
/// capacity for a few small events.
///
/// # Panics
/// If the store violates the contract; the message says how.
pub async fn check_events(store: &dyn EventStore) {
    assert_eq!(after(store, "contract-a", 1, 0).await, [], "an unknown stream has events");
    for number in 1..=20 {
        // Interleaved streams; the same stream id in two sessions.
        append(store, "contract-a", 1, number).await;
        append(store, "contract-a", 2, number).await;
        append(store, "contract-b", 1, number).await;
    }
    let last = StoredEvent::new(21, "the end").last();
    store.append("contract-a", 1, last.clone()).await.expect("the store has capacity");
    for begin in [0, 1, 7, 19] {
        let mut expected: Vec<_> = (begin + 1..=20).map(|number| event("contract-a", 1, number)).collect();
        expected.push(last.clone());
        assert_eq!(
            after(store, "contract-a", 1, begin).await,
            expected,
            "events after {begin} differ from those stored"
        );
    }
    assert_eq!(after(store, "contract-a", 1, 20).await, [last], "the last event is not found");
    assert_eq!(after(store, "contract-a", 1, 21).await, [], "there are events after the last event");
    assert_eq!(after(store, "contract-a", 2, 0).await.len(), 20, "events of another stream are missing");
    let first = store.after("contract-a", 2, 0, 1).await.expect("the store works");
    assert_eq!(first, [event("contract-a", 2, 1)], "not one event, for a limit of one byte");
    store.remove_stream("contract-a", 1).await.expect("the store works");
    assert_eq!(after(store, "contract-a", 1, 0).await, [], "a removed stream has events");
    assert_eq!(after(store, "contract-a", 2, 0).await.len(), 20, "another stream is removed, too");
    store.remove_session("contract-a").await.expect("the store works");
    assert_eq!(after(store, "contract-a", 2, 0).await, [], "a removed session has events");
    assert_eq!(after(store, "contract-b", 1, 0).await.len(), 20, "another session is removed, too");
    store.remove_session("contract-b").await.expect("the store works");
}

fn event(session: &str, stream: u64, number: u64) -> StoredEvent {
    StoredEvent::new(number, format!("{session}/{stream}/{number}"))
}

async fn append(store: &dyn EventStore, session: &str, stream: u64, number: u64) {
    store.append(session, stream, event(session, stream, number)).await.expect("the store has capacity");
}

/// Loads all events after a number, in as many pages as the store returns.
async fn after(store: &dyn EventStore, session: &str, stream: u64, mut number: u64) -> Vec<StoredEvent> {
    let mut all = Vec::new();
    loop {
        let more = store.after(session, stream, number, 64).await.expect("the store works");
        let Some(last) = more.last() else { return all };
        assert!(last.number > number, "events are repeated");
        number = last.number;
        all.extend(more);
    }
}

/// Checks that a store keeps the contract of [`TaskStore`]. Ids and creators that begin with `contract-` must be free, and there must be
/// capacity for a few tasks.
///
/// # Panics
/// If the store violates the contract; the message says how.
pub async fn check_tasks(store: &dyn TaskStore) {
    a_stored_task_is_found_unchanged(store).await;
    one_of_two_concurrent_changes_wins(store).await;
    a_change_wakes_waiting_callers(store).await;
    a_task_expires(store).await;
    tasks_are_listed_for_their_creator(store).await;
}

async fn a_stored_task_is_found_unchanged(store: &dyn TaskStore) {
    assert_eq!(store.load("contract-none").await, Ok(None), "an unknown task is found");
    assert_eq!(store.changed("contract-none", 0).await, Ok(None), "an unknown task has changed");
    assert_eq!(store.replace(task("contract-none")).await, Ok(false), "an unknown task is replaced");
    let stored = task("contract-stored").owner("ann".to_owned());
    store.insert(stored.clone(), Some(LONG)).await.expect("the store has capacity");
    let found = store.load("contract-stored").await.expect("the store works");
    assert_eq!(found.as_deref(), Some(&stored), "the stored task is changed");
    assert!(store.insert(stored, Some(LONG)).await.is_err(), "an id is stored twice");
}

async fn one_of_two_concurrent_changes_wins(store: &dyn TaskStore) {
    store.insert(task("contract-raced"), Some(LONG)).await.expect("the store has capacity");
    let mut changed = task("contract-raced");
    changed.task.status = TaskStatus::Completed;
    changed.task.result = RawJson::parse(r#"{"content":[]}"#).ok();
    changed.answers.insert("a".to_owned(), TaskAnswer::Given(RawJson::NULL));
    changed.answers.insert("b".to_owned(), TaskAnswer::Refused(ErrorObject::internal("no")));
    assert_eq!(store.replace(changed.clone()).await, Ok(true), "a task cannot be replaced");
    assert_eq!(store.replace(task("contract-raced")).await, Ok(false), "a task is replaced by an outdated record");
    changed.revision = 1;
    let found = store.load("contract-raced").await.expect("the store works");
    assert_eq!(found.as_deref(), Some(&changed), "the loaded task is not the one that replaced it");
    assert_eq!(store.replace(changed).await, Ok(true), "a task cannot be replaced again");
}

async fn a_change_wakes_waiting_callers(store: &dyn TaskStore) {
    store.insert(task("contract-watched"), Some(LONG)).await.expect("the store has capacity");
    let waiting = store.changed("contract-watched", 0);
    let changing = async {
        // Lets `waiting` begin to wait. A store that begins later must not miss the change either.
        tokio::task::yield_now().await;
        store.replace(task("contract-watched")).await
    };
    let both = async { tokio::join!(waiting, changing) };
    let (waited, changed) = tokio::time::timeout(TIMEOUT, both).await.expect("a change wakes the waiting task");
    let waited = waited.map(|record| record.map(|record| record.revision));
    assert_eq!((waited, changed), (Ok(Some(1)), Ok(true)), "the change differs from the one made");
    let at_once = tokio::time::timeout(TIMEOUT, store.changed("contract-watched", 0)).await;
    let at_once = at_once.expect("a past change is returned at once").expect("the store works");
    assert_eq!(at_once.map(|record| record.revision), Some(1), "the returned record is not the newest");
}

async fn a_task_expires(store: &dyn TaskStore) {
    store.insert(task("contract-brief"), Some(Duration::from_millis(200))).await.expect("the store has capacity");
    let expired = tokio::time::timeout(TIMEOUT, store.changed("contract-brief", 0)).await;
    assert_eq!(expired.expect("an expired task wakes waiting callers"), Ok(None), "an expired task has changed");
    assert_eq!(store.load("contract-brief").await, Ok(None), "an expired task is found");
    assert_eq!(store.replace(task("contract-brief")).await, Ok(false), "an expired task is replaced");
}

async fn tasks_are_listed_for_their_creator(store: &dyn TaskStore) {
    for id in ["contract-1", "contract-2", "contract-3"] {
        let mut listed = task(id);
        listed.creator = "contract-lister".to_owned();
        store.insert(listed, Some(LONG)).await.expect("the store has capacity");
    }
    let ids = async |after, limit| {
        let page = store.list("contract-lister", after, limit).await.expect("the store works");
        page.iter().map(|record| record.task.task_id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(None, 10).await, ["contract-1", "contract-2", "contract-3"], "tasks are missing, or out of order");
    assert_eq!(ids(None, 2).await, ["contract-1", "contract-2"], "the page does not have the requested size");
    assert_eq!(ids(Some("contract-2"), 2).await, ["contract-3"], "the next page does not begin where the last ended");
    let unknown = store.list("contract-lister", Some("contract-unknown"), 2).await;
    assert_eq!(unknown.err(), Some(StoreError::NotFound), "a page begins after an unknown task");
    let foreign = store.list("contract-stranger", Some("contract-2"), 2).await;
    assert_eq!(foreign.err(), Some(StoreError::NotFound), "a page begins after a task of another creator");
}

fn task(id: &str) -> TaskRecord {
    let time = "2026-01-01T00:00:00Z";
    TaskRecord::new(Task::new(id, TaskStatus::Working, time, time, None), "contract-creator")
}
