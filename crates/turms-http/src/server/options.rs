//! Options of the HTTP server.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use turms_core::store::{EventStore, MemoryEventStore, MemorySessionStore, SessionStore};

use super::guard::SharedGuard;
use super::request::access::AccessPolicy;

/// The options of an `HttpService`, with their defaults.
#[derive(Debug, Clone)]
pub(super) struct HttpOptions {
    pub(super) access: AccessPolicy,
    pub(super) guard: SharedGuard,
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
            access: AccessPolicy::default(),
            guard: SharedGuard::default(),
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
    pub(super) idle_timeout: Duration,
    pub(super) max_sessions: usize,
    pub(super) max_streams: usize,
    pub(super) event_retention: Duration,
    session_store: Option<Arc<dyn SessionStore>>,
    /// The store in memory, if no other store is set. Created on first use, because its limit is set after [`Self::new`].
    memory_store: OnceLock<Arc<dyn SessionStore>>,
    pub(super) event_store: Arc<dyn EventStore>,
    /// Origin of the times that `clock` returns.
    clock_start: OnceLock<Instant>,
}

impl SessionOptions {
    /// Default of [`Self::max_sessions`].
    const DEFAULT_MAX_SESSIONS: usize = 50_000;

    /// Limits of the event store in memory: of one session, and of all sessions together.
    const MAX_SESSION_EVENT_BYTES: usize = 4 * 1024 * 1024;
    const MAX_EVENT_BYTES: usize = 256 * 1024 * 1024;

    /// Creates the default options: sessions are stored in memory and expire after 30 minutes of inactivity.
    pub fn new() -> Self {
        Self {
            idle_timeout: Duration::from_secs(30 * 60),
            max_sessions: Self::DEFAULT_MAX_SESSIONS,
            max_streams: 256,
            event_retention: Duration::from_secs(5 * 60),
            session_store: None,
            memory_store: OnceLock::new(),
            event_store: Arc::new(MemoryEventStore::new(Self::MAX_SESSION_EVENT_BYTES, Self::MAX_EVENT_BYTES)),
            clock_start: OnceLock::new(),
        }
    }

    /// Returns the milliseconds since the first call. An `Instant` would be twice as large, and there are many sessions.
    pub(super) fn clock(&self) -> u64 {
        self.clock_start.get_or_init(Instant::now).elapsed().as_millis() as u64
    }

    pub(super) fn sessions(&self) -> &dyn SessionStore {
        match &self.session_store {
            Some(store) => &**store,
            None => &**self.memory_store.get_or_init(|| Arc::new(MemorySessionStore::new(self.max_sessions))),
        }
    }

    /// Returns the interval at which the store is notified that a session is in use.
    pub(super) fn touch_period(&self) -> Duration {
        self.idle_timeout / 8
    }

    /// Returns the time to live of a session in the store. Longer than the idle timeout, because the store is not
    /// notified of every use.
    pub(super) fn store_ttl(&self) -> Duration {
        self.idle_timeout + self.touch_period()
    }

    /// Extends the lifetime of a session in the store. Returns `false` if the store no longer has the session.
    pub(super) async fn touch(&self, id: &str) -> bool {
        // An error of the store does not mean that the session is gone.
        self.sessions().touch(id, self.store_ttl()).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the lifetime of a session cannot be extended in the store");
            true
        })
    }

    /// Removes events that were stored after the end of their session. A session that is closed only in this process
    /// keeps its events for other processes.
    pub(super) async fn remove_events_of_ended(&self, id: &str) {
        if let Ok(None) = self.sessions().load(id).await
            && let Err(error) = self.event_store.remove_session(id).await
        {
            tracing::warn!(%error, "the events of a session that has ended cannot be removed from the store");
        }
    }

    /// Idle timeout of a session. Default: 30 min. Open streams and running calls count as activity.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = bounded(timeout);
        self
    }

    /// Maximum number of sessions in this process. Default: 50 000. Further sessions are rejected.
    pub fn max_sessions(mut self, max: usize) -> Self {
        self.max_sessions = max;
        self
    }

    /// Maximum number of open event streams per session. Default: 256. Further streams are rejected.
    pub fn max_streams(mut self, max: usize) -> Self {
        self.max_streams = max;
        self
    }

    /// Retention of the events of a closed stream, for clients that resume it. Default: 5 min.
    pub fn event_retention(mut self, retention: Duration) -> Self {
        self.event_retention = bounded(retention);
        self
    }

    /// Sets the session store, so that other processes can take over sessions; an `Arc` of a store is a store, too. Default: in
    /// memory.
    pub fn session_store(mut self, store: impl SessionStore) -> Self {
        self.session_store = Some(Arc::new(store));
        self
    }

    /// Sets the event store. Default: in memory, 4 MiB per session and 256 MiB in all.
    pub fn event_store(mut self, store: impl EventStore) -> Self {
        self.event_store = Arc::new(store);
        self
    }
}

/// Maximum of every timeout: a year. Timers cannot represent `Duration::MAX`.
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
        f.debug_struct("SessionOptions")
            .field("idle_timeout", &self.idle_timeout)
            .field("max_sessions", &self.max_sessions)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, bytes, count, time, when};

        let it = SessionOptions::new();
        let (session, all) = (SessionOptions::MAX_SESSION_EVENT_BYTES, SessionOptions::MAX_EVENT_BYTES);
        let store = format!("in memory, {} per session and {} in all", bytes(session), bytes(all));
        let code = [
            ("SessionOptions::idle_timeout", time(it.idle_timeout)),
            ("SessionOptions::max_sessions", count(it.max_sessions)),
            ("SessionOptions::max_streams", count(it.max_streams)),
            ("SessionOptions::event_retention", time(it.event_retention)),
            ("SessionOptions::session_store", when(it.session_store.is_none(), "in memory")),
            ("SessionOptions::event_store", store),
        ];
        assert_documented(include_str!("options.rs"), &code);
    }
}
