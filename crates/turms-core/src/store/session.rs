use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use turms_proto::{ProtocolVersion, RawJson};

use super::StoreError;
use crate::peer::BoxFuture;

/// A stored session: enough to resume it in another process.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct SessionRecord {
    /// The negotiated revision.
    pub version: ProtocolVersion,
    /// The parameters of the client's `initialize`.
    pub client: RawJson,
    /// The [key](crate::Principal::key) of the authenticated caller that created the session. No other caller may use it.
    pub principal: Option<String>,
}

impl SessionRecord {
    /// Creates a session without a principal.
    #[must_use]
    pub fn new(version: ProtocolVersion, client: RawJson) -> Self {
        Self { version, client, principal: None }
    }

    /// Sets the [key](crate::Principal::key) of the authenticated caller.
    #[must_use]
    pub fn principal(mut self, principal: impl Into<Option<String>>) -> Self {
        self.principal = principal.into();
        self
    }
}

impl fmt::Debug for SessionRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionRecord").field("version", &self.version).finish_non_exhaustive()
    }
}

/// The sessions by id.
///
/// Ids are secrets: a client that knows one can use the session. A store must not expose them, such as in logs.
pub trait SessionStore: Send + Sync + 'static {
    /// Stores a session. It expires when it is not touched for `idle_timeout`.
    fn insert<'a>(
        &'a self,
        id: &'a str,
        record: Arc<SessionRecord>,
        idle_timeout: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Loads a session, if it exists.
    fn load<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Arc<SessionRecord>>, StoreError>>;

    /// Restarts the idle timeout of a session. Returns `false` if the session does not exist.
    fn touch<'a>(&'a self, id: &'a str, idle_timeout: Duration) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Removes a session. Returns `false` if it did not exist.
    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Returns `true` if other processes may end sessions, so that a session must be loaded before each use.
    fn is_shared(&self) -> bool {
        true
    }
}

/// An `Arc` of a store is the same store.
impl<S: SessionStore + ?Sized> SessionStore for Arc<S> {
    fn insert<'a>(
        &'a self,
        id: &'a str,
        record: Arc<SessionRecord>,
        idle_timeout: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        (**self).insert(id, record, idle_timeout)
    }

    fn load<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Arc<SessionRecord>>, StoreError>> {
        (**self).load(id)
    }

    fn touch<'a>(&'a self, id: &'a str, idle_timeout: Duration) -> BoxFuture<'a, Result<bool, StoreError>> {
        (**self).touch(id, idle_timeout)
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        (**self).remove(id)
    }

    /// Returns `true`: another service of this process may use the same store.
    fn is_shared(&self) -> bool {
        true
    }
}

/// A session store in memory, with a maximum number of sessions.
pub struct MemorySessionStore {
    limit: usize,
    entries: Mutex<HashMap<Box<str>, SessionEntry>>,
}

struct SessionEntry {
    record: Arc<SessionRecord>,
    expires: Instant,
}

impl MemorySessionStore {
    /// Creates a store with a maximum number of sessions.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, entries: Mutex::default() }
    }

    fn insert_entry(&self, id: &str, record: Arc<SessionRecord>, idle_timeout: Duration) -> Result<(), StoreError> {
        let mut entries = self.entries.lock();
        if entries.len() >= self.limit {
            let now = Instant::now();
            entries.retain(|_, entry| now < entry.expires);
            if entries.len() >= self.limit && !entries.contains_key(id) {
                return Err(StoreError::CapacityExceeded { what: "sessions", limit: self.limit });
            }
        }
        entries.insert(id.into(), SessionEntry { record, expires: Instant::now() + idle_timeout });
        Ok(())
    }
}

impl SessionStore for MemorySessionStore {
    fn insert<'a>(
        &'a self,
        id: &'a str,
        record: Arc<SessionRecord>,
        idle_timeout: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(std::future::ready(self.insert_entry(id, record, idle_timeout)))
    }

    fn load<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Arc<SessionRecord>>, StoreError>> {
        let entries = self.entries.lock();
        let found = entries.get(id).filter(|entry| Instant::now() < entry.expires).map(|entry| entry.record.clone());
        Box::pin(std::future::ready(Ok(found)))
    }

    fn touch<'a>(&'a self, id: &'a str, idle_timeout: Duration) -> BoxFuture<'a, Result<bool, StoreError>> {
        let now = Instant::now();
        let mut entries = self.entries.lock();
        let touched =
            entries.get_mut(id).filter(|entry| now < entry.expires).map(|entry| entry.expires = now + idle_timeout);
        Box::pin(std::future::ready(Ok(touched.is_some())))
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        let mut entries = self.entries.lock();
        let removed = entries.remove(id).is_some_and(|entry| Instant::now() < entry.expires);
        if entries.capacity() > 64 && entries.len() * 4 < entries.capacity() {
            entries.shrink_to_fit();
        }
        Box::pin(std::future::ready(Ok(removed)))
    }

    fn is_shared(&self) -> bool {
        false
    }
}

impl fmt::Debug for MemorySessionStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySessionStore")
            .field("limit", &self.limit)
            .field("len", &self.entries.lock().len())
            .finish()
    }
}
