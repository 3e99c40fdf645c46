//! Tracks whether the notification streams of a connection are alive, separately from the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use turms_core::{CloseInfo, InboundStream};
use turms_proto::method::Method as _;
use turms_proto::types::Listen;

use super::state::{Connected, ServerShared};
use crate::call::error::{CallError, Delivery};
use crate::event::ConnectionEvent;

/// The state of the notification streams of one connection.
#[derive(Debug, Default)]
pub(crate) struct StreamHealth {
    /// Number of broken streams.
    broken: AtomicUsize,
    /// `true` if `ConnectionEvent::Lost` was sent.
    reported: AtomicBool,
    /// `true` if a stream could not be opened again because the server is not reachable, so that calls will fail, too.
    unreachable: AtomicBool,
}

impl StreamHealth {
    pub(crate) fn is_reported(&self) -> bool {
        self.reported.load(Ordering::Relaxed)
    }

    pub(crate) fn is_unreachable(&self) -> bool {
        self.unreachable.load(Ordering::Relaxed)
    }
}

impl ServerShared {
    /// Records that the server responded, and wakes the tasks that wait for the server to be reachable again.
    pub(super) fn note_response(&self, connected: &Connected) {
        if connected.streams.is_reported() {
            connected.streams.unreachable.store(false, Ordering::Relaxed);
            self.responded.notify_waiters();
            self.report_restored(connected);
        }
    }

    /// Sends `ConnectionEvent::Connected` if a loss was reported and no stream is broken any more.
    fn report_restored(&self, connected: &Connected) {
        let streams = &connected.streams;
        let current = self.current().is_some_and(|now| now.generation == connected.generation);
        if current && streams.broken.load(Ordering::Relaxed) == 0 && streams.reported.swap(false, Ordering::Relaxed) {
            // Changes in between were missed.
            self.incoming.forget_all();
            let (version, generation) = (connected.version(), connected.generation);
            self.incoming.events.connection(ConnectionEvent::Connected { version, generation });
        }
    }
}

/// A broken notification stream. Counted as broken until it is restored or dropped.
pub(crate) struct BrokenStream {
    shared: Arc<ServerShared>,
    connected: Arc<Connected>,
}

impl BrokenStream {
    /// Records a broken stream. Reports the first one as `ConnectionEvent::Lost`.
    pub(crate) fn new(shared: &Arc<ServerShared>, connected: &Arc<Connected>, error: &CallError) -> Self {
        let streams = &connected.streams;
        streams.broken.fetch_add(1, Ordering::Relaxed);
        if error.delivery() == Delivery::NotSent {
            streams.unreachable.store(true, Ordering::Relaxed);
        }
        if !streams.reported.swap(true, Ordering::Relaxed) {
            let ended = CloseInfo::new().how(format!("did not keep its notification stream open: {}", cause(error)));
            tracing::debug!(target: "turms::client", %ended, "a notification stream is broken");
            shared.incoming.events.connection(ConnectionEvent::Lost(ended));
        }
        Self { shared: shared.clone(), connected: connected.clone() }
    }

    pub(crate) fn is_of(&self, connected: &Arc<Connected>) -> bool {
        Arc::ptr_eq(&self.connected, connected)
    }

    /// Records that the stream is open again.
    pub(crate) fn restored(self) {
        let (shared, connected) = (self.shared.clone(), self.connected.clone());
        drop(self);
        connected.streams.unreachable.store(false, Ordering::Relaxed);
        shared.report_restored(&connected);
    }
}

impl Drop for BrokenStream {
    fn drop(&mut self) {
        self.connected.streams.broken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Monitors the inbound stream of a channel with a separate stream for notifications. Never returns.
pub(super) async fn watch_inbound(shared: &Arc<ServerShared>, connected: &Arc<Connected>) {
    let mut inbound = connected.control.inbound();
    let broken_by = |state: &InboundStream| match state {
        InboundStream::Broken(error) => Some(error.clone()),
        _ => None,
    };
    loop {
        let error = inbound.wait_for(|state| broken_by(state).is_some()).await.ok().and_then(|state| broken_by(&state));
        // The channel has no such stream.
        let Some(error) = error else { return std::future::pending().await };
        let broken = BrokenStream::new(shared, connected, &CallError::of_peer(Listen::NAME, error));
        if inbound.wait_for(|state| broken_by(state).is_none()).await.is_err() {
            return std::future::pending().await;
        }
        broken.restored();
    }
}

/// Returns the sources of an error in one line.
fn cause(error: &CallError) -> String {
    let first = std::error::Error::source(error);
    let causes: Vec<_> = std::iter::successors(first, |error| error.source()).map(ToString::to_string).collect();
    if causes.is_empty() { error.kind().to_string() } else { causes.join(": ") }
}
