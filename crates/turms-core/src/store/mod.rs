//! Where servers keep what outlasts a request: sessions, what was sent on their streams, and tasks.
//!
//! - [`SessionStore`] has the sessions that clients of older revisions have begun, [`MemorySessions`] by default.
//! - [`EventStore`] has what was sent on their streams, so that a stream that broke can be taken up again,
//!   [`MemoryEvents`] by default.
//! - [`TaskStore`] has the tasks that outlast their requests, [`MemoryTasks`] by default.
//! - [`contract`] has the rules of all as tests that any other implementation can run.
//!
//! A future of a store may be polled once and then moved to another task before it is polled again, as every future may. It may
//! be dropped before it is done; what it was to do is then done or not.

pub mod contract;
mod event;
mod session;
mod task;

pub use self::event::{EventStore, MemoryEvents, StoredEvent};
pub use self::session::{MemorySessions, SessionRecord, SessionStore};
pub use self::task::{MemoryTasks, TaskAnswer, TaskRecord, TaskStore};

/// Why a store did not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no room for more.
    #[error("there is no room for more than {0}")]
    Full(usize),
    /// Some of what was asked for is not kept any more.
    #[error("what was asked for is not kept any more")]
    Gone,
    /// The store could not be reached, or failed.
    #[error("the store failed: {0}")]
    Failed(String),
}
