//! The options of an HTTP server.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use turms_core::store::{EventStore, MemoryEvents, MemorySessions, SessionStore};

use super::request::access::AccessPolicy;

/// The options of an `HttpService`, with their defaults.
#[derive(Debug, Clone)]
pub(super) struct HttpOptions {
    pub(super) access: AccessPolicy,
    pub(super) cors: bool,
    pub(super) body_limit: usize,
    pub(super) body_timeout: Duration,
    pub(super) keep_alive: Duration,
    pub(super) max_streams: usize,
    pub(super) sessions: Option<Arc<SessionOptions>>,
    /// Set if the HTTP+SSE transport of 2024-11-05 is offered.
    pub(super) http_sse: bool,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            access: AccessPolicy::new(),
            cors: false,
            body_limit: 4 * 1024 * 1024,
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

/// The sessions of clients of 2025-03-26 to 2025-11-25.
#[derive(Clone)]
#[must_use]
pub struct SessionOptions {
    pub(super) idle: Duration,
    pub(super) max: usize,
    pub(super) max_streams: usize,
    pub(super) retention: Duration,
    store: Option<Arc<dyn SessionStore>>,
    /// The store if none was given.
    memory: OnceLock<Arc<dyn SessionStore>>,
    pub(super) events: Arc<dyn EventStore>,
    start: OnceLock<Instant>,
}

impl SessionOptions {
    /// How many sessions there may be unless [`SessionOptions::max`] says otherwise.
    const MAX: usize = 50_000;

    /// Kept in memory, for half an hour after they were last used.
    pub fn new() -> Self {
        Self {
            idle: Duration::from_secs(30 * 60),
            max: Self::MAX,
            max_streams: 256,
            retention: Duration::from_secs(5 * 60),
            store: None,
            memory: OnceLock::new(),
            events: Arc::new(MemoryEvents::new(4 * 1024 * 1024, 256 * 1024 * 1024)),
            start: OnceLock::new(),
        }
    }

    /// Milliseconds since somebody first asked: half the size of an instant, and there are many sessions.
    pub(super) fn clock(&self) -> u64 {
        self.start.get_or_init(Instant::now).elapsed().as_millis() as u64
    }

    pub(super) fn session_store(&self) -> &dyn SessionStore {
        match &self.store {
            Some(store) => &**store,
            None => &**self.memory.get_or_init(|| Arc::new(MemorySessions::new(self.max))),
        }
    }

    /// How often the store hears that a session is used.
    pub(super) fn touch_period(&self) -> Duration {
        self.idle / 8
    }

    /// How long the store is to keep a session of which it hears nothing: it does not hear of every use.
    pub(super) fn kept(&self) -> Duration {
        self.idle + self.touch_period()
    }

    /// Tells the store that a session is used; false if it does not know the session any more.
    pub(super) async fn touch(&self, id: &str) -> bool {
        // A store that fails now has not forgotten the session.
        self.session_store().touch(id, self.kept()).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the store cannot be told that a session is used");
            true
        })
    }

    /// Removes events that were stored after those of their session had been removed with it. A session that has only been
    /// closed in this process keeps them, for others.
    pub(super) async fn remove_events_of_ended(&self, id: &str) {
        if let Ok(None) = self.session_store().load(id).await
            && let Err(error) = self.events.remove_session(id).await
        {
            tracing::warn!(%error, "the events of a session that has ended cannot be removed from the store");
        }
    }

    /// How long a session is kept that nobody uses. An open stream and a running call are uses.
    pub fn idle(mut self, idle: Duration) -> Self {
        self.idle = bounded(idle);
        self
    }

    /// How many sessions this process may have; more are refused.
    pub fn max(mut self, max: usize) -> Self {
        self.max = max;
        self
    }

    /// How many event streams one session may have open at once; more are refused.
    pub fn max_streams(mut self, max: usize) -> Self {
        self.max_streams = max;
        self
    }

    /// How long the events of a stream that has ended are kept for clients that missed them.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = bounded(retention);
        self
    }

    /// Keeps sessions elsewhere, so that another process can take them up.
    pub fn store(mut self, store: impl SessionStore) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Keeps events elsewhere.
    pub fn events(mut self, events: impl EventStore) -> Self {
        self.events = Arc::new(events);
        self
    }
}

/// Longer than this is for ever. Clocks cannot be asked for much more.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

pub(super) fn bounded(time: Duration) -> Duration {
    time.min(FOR_EVER)
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
