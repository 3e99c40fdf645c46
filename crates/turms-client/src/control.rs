//! The backends of a client: a connection, a pool or a group.

use std::sync::Arc;

use turms_core::BoxFuture;
use turms_proto::session::{ConnectionStatus, Negotiated};

use crate::event::Events;
use crate::layer::track::PendingCalls;
use crate::state::ClientStats;

/// The operations of a [`Client`](crate::Client) other than calls. Implemented by each backend: one server, a pool, a group.
pub(crate) trait ClientControl: Send + Sync {
    fn status(&self) -> ConnectionStatus;
    /// Returns the server description and the revision, as negotiated.
    fn server(&self) -> Option<Arc<Negotiated>>;
    /// Returns a stream of events.
    fn events(&self, interest: EventInterest) -> Events;
    fn pending(&self) -> &PendingCalls;
    fn stats(&self) -> ClientStats;
    /// Closes the client and waits until its resources, such as a child process, are released.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// Determines if a subscriber to events makes the server send changes of its lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventInterest {
    /// Request changes of lists from a server of 2026-07-28, which does not send them otherwise.
    AskServer,
    /// Receive the changes that are sent for other reasons. For tasks of the client itself, which do not need them.
    Passive,
}
