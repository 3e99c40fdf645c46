//! The in-memory stores satisfy the contract of their traits, and enforce their limits.

use std::sync::Arc;
use std::time::Duration;

use turms_core::store::{
    EventStore as _, MemoryEventStore, MemorySessionStore, MemoryTaskStore, SessionRecord, SessionStore as _,
    StoreError, StoredEvent, TaskRecord, TaskStore as _, contract,
};
use turms_proto::types::{Task, TaskStatus};
use turms_proto::{ProtocolVersion, RawJson};

const LONG: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn the_session_store_keeps_the_contract() {
    contract::check_sessions(&MemorySessionStore::new(4)).await;
}

#[tokio::test]
async fn the_event_store_keeps_the_contract() {
    contract::check_events(&MemoryEventStore::new(64 * 1024, 1024 * 1024)).await;
}

#[tokio::test(start_paused = true)]
async fn the_task_store_keeps_the_contract() {
    contract::check_tasks(&MemoryTaskStore::new(16, 1 << 20)).await;
}

fn task(id: &str) -> TaskRecord {
    TaskRecord::new(Task::new(id, TaskStatus::Working, "", "", None), "creator")
}

#[tokio::test(start_paused = true)]
async fn a_full_task_store_rejects_tasks_until_one_expires() {
    let store = MemoryTaskStore::new(2, 1 << 20);
    store.insert(task("brief"), Some(Duration::from_secs(1))).await.unwrap();
    store.insert(task("for ever"), None).await.unwrap();
    assert_eq!(store.insert(task("more"), None).await, Err(StoreError::CapacityExceeded { what: "tasks", limit: 2 }));
    tokio::time::advance(Duration::from_secs(2)).await;
    store.insert(task("more"), None).await.unwrap();
    assert!(store.load("for ever").await.unwrap().is_some());
    assert!(store.load("brief").await.unwrap().is_none());
}

#[tokio::test]
async fn results_count_towards_the_limit_of_the_task_store() {
    let store = MemoryTaskStore::new(100, 10_000);
    let mut large = task("large");
    store.insert(large.clone(), None).await.unwrap();
    large.task.result = Some(RawJson::string(&"x".repeat(10_000)));
    assert_eq!(store.replace(large).await, Ok(true));
    let error = store.insert(task("more"), None).await.unwrap_err();
    assert_eq!(error, StoreError::CapacityExceeded { what: "bytes", limit: 10_000 });
    assert_eq!(error.to_string(), "the store is full: its limit is 10000 bytes");
}

#[tokio::test(start_paused = true)]
async fn a_full_session_store_removes_only_expired_sessions() {
    let store = MemorySessionStore::new(2);
    let record = Arc::new(SessionRecord::new(ProtocolVersion::V2025_11_25, RawJson::default()));
    store.insert("a", record.clone(), Duration::from_secs(1)).await.unwrap();
    store.insert("b", record.clone(), LONG).await.unwrap();
    assert_eq!(
        store.insert("c", record.clone(), LONG).await,
        Err(StoreError::CapacityExceeded { what: "sessions", limit: 2 })
    );
    tokio::time::advance(Duration::from_secs(2)).await;
    store.insert("c", record, LONG).await.unwrap();
    assert!(store.load("b").await.unwrap().is_some());
}

#[tokio::test]
async fn the_oldest_events_of_a_session_are_dropped_and_reported_as_gone() {
    let store = MemoryEventStore::new(1_000, 1 << 20);
    for number in 1..=20 {
        store.append("a", 1, StoredEvent::new(number, vec![b'x'; 100])).await.unwrap();
    }
    assert_eq!(store.after("a", 1, 0, usize::MAX).await, Err(StoreError::NotFound));
    let newest = store.after("a", 1, 17, usize::MAX).await.unwrap();
    assert_eq!(newest.iter().map(|event| event.number).collect::<Vec<_>>(), [18, 19, 20]);
}

#[tokio::test]
async fn events_of_the_largest_session_are_dropped_first() {
    let store = MemoryEventStore::new(1 << 20, 10_000);
    store.append("small", 1, StoredEvent::new(1, "little")).await.unwrap();
    for number in 1..=100 {
        store.append("large", 1, StoredEvent::new(number, vec![b'x'; 500])).await.unwrap();
    }
    assert_eq!(store.after("small", 1, 0, usize::MAX).await.unwrap().len(), 1);
    assert_eq!(store.after("large", 1, 0, usize::MAX).await, Err(StoreError::NotFound));
    assert_eq!(store.after("large", 1, 99, usize::MAX).await.unwrap().len(), 1);
}
