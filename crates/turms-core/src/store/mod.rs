//! The stores of a server, for what outlasts a request: sessions, the events of their streams, and tasks.
//!
//! - [`SessionStore`] has the sessions of clients with a handshake. Default: [`MemorySessionStore`].
//! - [`EventStore`] has the events of their streams, so that a client can resume a broken stream. Default: [`MemoryEventStore`].
//! - [`TaskStore`] has the tasks that outlast their requests. Default: [`MemoryTaskStore`].
//! - [`contract`] has the tests that every implementation must pass.
//!
//! The future of a store may be moved to another task between polls. It may be dropped before it is ready; the operation is then done
//! or not done.

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
    /// A requested item is not stored, or no longer.
    #[error("not found in the store")]
    NotFound,
    /// The store could not be reached, or failed.
    #[error("the store failed: {0}")]
    Failed(String),
}
