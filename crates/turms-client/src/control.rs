use std::sync::Arc;

use turms_core::BoxFuture;
use turms_proto::session::{ConnectionStatus, Negotiated};

use crate::event::Events;
use crate::layer::track::PendingCalls;
use crate::state::ClientStats;

/// The operations on a client other than calls.
pub(crate) trait ClientControl: Send + Sync {
    fn status(&self) -> ConnectionStatus;
    /// Returns the server description and the revision, as negotiated.
    fn server(&self) -> Option<Arc<Negotiated>>;
    fn events(&self, interest: EventInterest) -> Events;
    fn pending(&self) -> &PendingCalls;
    fn stats(&self) -> ClientStats;
    /// Closes the client and waits until its resources, such as a child process, are released.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The interest of a subscriber in events about changed lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventInterest {
    /// Request changes of lists from a server of 2026-07-28, which does not send them otherwise.
    AskServer,
    /// Only receive the events that are sent anyway.
    Passive,
}
