//! The stores of a server, for state that outlives a request: sessions, the events of their streams, and tasks.
//!
//! - [`SessionStore`] stores sessions (revisions before 2026-07-28). Default: [`MemorySessionStore`].
//! - [`EventStore`] stores the events of their streams, so that a client can resume a broken stream. Default:
//!   [`MemoryEventStore`].
//! - [`TaskStore`] stores tasks. Default: [`MemoryTaskStore`].
//! - [`contract`] has the tests that every implementation must pass.
//!
//! The future of a store operation may be moved to another task between polls. It may be dropped before it is ready;
//! the operation must then have happened completely or not at all.

pub mod contract;
mod event;
mod session;
mod task;

pub use self::event::{EventStore, MemoryEventStore, StoredEvent};
pub use self::session::{MemorySessionStore, SessionRecord, SessionStore};
pub use self::task::{MemoryTaskStore, TaskAnswer, TaskRecord, TaskStore};

/// Error of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store is full.
    #[error("the store is full: its limit is {limit} {what}")]
    CapacityExceeded {
        /// The unit of the limit, such as "sessions" or "bytes".
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The requested item is not in the store, or was removed.
    #[error("not found in the store")]
    NotFound,
    /// The store could not be reached, or failed.
    #[error("the store failed: {0}")]
    Failed(String),
}
