//! What every store must do, as tests that any implementation can run.
//!
//! ```
//! use turms_core::store::{MemoryEvents, MemorySessions, contract};
//!
//! # async fn example() {
//! contract::check_sessions(&MemorySessions::new(100)).await;
//! contract::check_events(&MemoryEvents::new(1 << 20, 1 << 24)).await;
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example());
//! ```

use std::sync::Arc;
use std::time::Duration;

use turms_proto::{ProtocolVersion, RawJson};

use super::{EventStore, SessionRecord, SessionStore, StoredEvent};

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
