//! Options of the HTTP server.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use turms_core::store::{EventStore, MemoryEventStore, MemorySessionStore, SessionStore};

use super::request::access::AccessPolicy;

/// The options of an `HttpService`, with their defaults.
#[derive(Debug, Clone)]
pub(super) struct HttpOptions {
    pub(super) access: AccessPolicy,
    pub(super) cors: bool,
    pub(super) max_body_bytes: usize,
    pub(super) body_timeout: Duration,
    pub(super) keep_alive: Duration,
    pub(super) max_streams: usize,
    pub(super) sessions: Option<Arc<SessionOptions>>,
    /// `true` if the HTTP+SSE transport of 2024-11-05 is enabled.
    pub(super) http_sse: bool,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            access: AccessPolicy::new(),
            cors: false,
            max_body_bytes: 4 * 1024 * 1024,
            body_timeout: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
            max_streams: 16 * 1024,
            sessions: Some(Arc::new(SessionOptions::new())),
            http_sse: true,
        }
    }
}

/// The timeouts of one connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionLimits {
    /// Timeout for the head of a request, and for an idle connection.
    pub(super) header_timeout: Duration,
    /// Timeout for a client that does not read.
    pub(super) write_timeout: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { header_timeout: Duration::from_secs(30), write_timeout: Duration::from_secs(60) }
    }
}

/// Options for the sessions of clients of 2025-03-26 to 2025-11-25.
#[derive(Clone)]
#[must_use]
pub struct SessionOptions {
    pub(super) idle: Duration,
    pub(super) max: usize,
    pub(super) max_streams: usize,
    pub(super) retention: Duration,
    store: Option<Arc<dyn SessionStore>>,
    /// The store in memory, if no other store is set.
    memory: OnceLock<Arc<dyn SessionStore>>,
    pub(super) events: Arc<dyn EventStore>,
    start: OnceLock<Instant>,
}

impl SessionOptions {
    /// Default of [`SessionOptions::max`].
    const MAX: usize = 50_000;

    /// Creates the default options: sessions are stored in memory and expire after 30 minutes of inactivity.
    pub fn new() -> Self {
        Self {
            idle: Duration::from_secs(30 * 60),
            max: Self::MAX,
            max_streams: 256,
            retention: Duration::from_secs(5 * 60),
            store: None,
            memory: OnceLock::new(),
            events: Arc::new(MemoryEventStore::new(4 * 1024 * 1024, 256 * 1024 * 1024)),
            start: OnceLock::new(),
        }
    }

    /// Returns the milliseconds since the first call. Half the size of an `Instant`, because there are many sessions.
    pub(super) fn clock(&self) -> u64 {
        self.start.get_or_init(Instant::now).elapsed().as_millis() as u64
    }

    pub(super) fn session_store(&self) -> &dyn SessionStore {
        match &self.store {
            Some(store) => &**store,
            None => &**self.memory.get_or_init(|| Arc::new(MemorySessionStore::new(self.max))),
        }
    }

    /// Returns the interval at which the store is notified that a session is in use.
    pub(super) fn touch_period(&self) -> Duration {
        self.idle / 8
    }

    /// Returns the time to live of a session in the store. Longer than the idle timeout, because the store is not
    /// notified of every use.
    pub(super) fn store_ttl(&self) -> Duration {
        self.idle + self.touch_period()
    }

    /// Extends the lifetime of a session in the store. Returns `false` if the store no longer has the session.
    pub(super) async fn touch(&self, id: &str) -> bool {
        // An error of the store does not mean that the session is gone.
        self.session_store().touch(id, self.store_ttl()).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the lifetime of a session cannot be extended in the store");
            true
        })
    }

    /// Removes events that were stored after the end of their session. A session that is closed only in this process
    /// keeps its events for other processes.
    pub(super) async fn remove_events_of_ended(&self, id: &str) {
        if let Ok(None) = self.session_store().load(id).await
            && let Err(error) = self.events.remove_session(id).await
        {
            tracing::warn!(%error, "the events of a session that has ended cannot be removed from the store");
        }
    }

    /// Idle timeout of a session. Default: 30 minutes. Open streams and running calls count as activity.
    pub fn idle(mut self, idle: Duration) -> Self {
        self.idle = bounded(idle);
        self
    }

    /// Maximum number of sessions in this process. Default: 50 000. Further sessions are rejected.
    pub fn max(mut self, max: usize) -> Self {
        self.max = max;
        self
    }

    /// Maximum number of open event streams per session. Default: 256. Further streams are rejected.
    pub fn max_streams(mut self, max: usize) -> Self {
        self.max_streams = max;
        self
    }

    /// Retention of the events of a closed stream, for clients that resume it. Default: 5 minutes.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = bounded(retention);
        self
    }

    /// Sets the session store, so that other processes can take over sessions. Default: in memory.
    pub fn store(mut self, store: impl SessionStore) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Sets the event store. Default: in memory, 4 MiB per session and 256 MiB in all.
    pub fn events(mut self, events: impl EventStore) -> Self {
        self.events = Arc::new(events);
        self
    }
}

/// Maximum of all durations: a year, which timers can represent.
const MAX_DURATION: Duration = Duration::from_secs(365 * 24 * 60 * 60);

pub(super) fn bounded(time: Duration) -> Duration {
    time.min(MAX_DURATION)
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SessionOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionOptions").field("idle", &self.idle).field("max", &self.max).finish_non_exhaustive()
    }
}
