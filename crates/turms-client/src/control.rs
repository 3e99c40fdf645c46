use std::sync::Arc;

use turms_core::BoxFuture;
use turms_proto::session::{ConnectionStatus, Negotiated};

use crate::event::Events;
use crate::layer::track::PendingCalls;
use crate::state::ClientStats;

/// The control of a client, apart from its calls.
pub(crate) trait ClientControl: Send + Sync {
    fn status(&self) -> ConnectionStatus;
    /// The server and the revision that is spoken.
    fn server(&self) -> Option<Arc<Negotiated>>;
    fn events(&self, interest: EventInterest) -> Events;
    fn pending(&self) -> &PendingCalls;
    fn stats(&self) -> ClientStats;
    /// Closes the client and waits until nothing of it is left, such as a process.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The interest in events of lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventInterest {
    /// A server of 2026-07-28 is asked for changes of its lists.
    AskServer,
    /// Only events that come anyway.
    Passive,
}
