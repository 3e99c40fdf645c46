use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use turms_proto::{ProtocolVersion, RawJson};

use super::StoreError;
use crate::peer::BoxFuture;

/// What is known of a session: enough to take it up where it is not known yet.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct SessionRecord {
    /// The revision that was agreed on.
    pub version: ProtocolVersion,
    /// What the client said in its `initialize`.
    pub client: RawJson,
    /// Whose session it is, if whoever began it had proved who they are. Nobody else may use it.
    pub principal: Option<String>,
}

impl SessionRecord {
    /// A session of nobody in particular.
    #[must_use]
    pub fn new(version: ProtocolVersion, client: RawJson) -> Self {
        Self { version, client, principal: None }
    }

    /// With whose it is.
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

/// Sessions by their ids.
///
/// Ids are secrets: whoever knows one can use the session. A store does not write them anywhere that others read.
pub trait SessionStore: Send + Sync + 'static {
    /// Keeps a session for as long as it is touched at least every `idle`.
    fn insert<'a>(
        &'a self,
        id: &'a str,
        record: Arc<SessionRecord>,
        idle: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// The session of this id, if there is one.
    fn load<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Arc<SessionRecord>>, StoreError>>;

    /// Keeps a session for another while; false if there is none of this id any more.
    fn touch<'a>(&'a self, id: &'a str, idle: Duration) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Forgets a session; false if there was none of this id.
    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Whether other processes may end sessions too, so that whoever uses one has to ask first.
    fn is_shared(&self) -> bool {
        true
    }
}

/// Sessions in the memory of this process, up to a number.
pub struct MemorySessions {
    limit: usize,
    entries: Mutex<HashMap<Box<str>, Entry>>,
}

struct Entry {
    record: Arc<SessionRecord>,
    until: Instant,
}

impl MemorySessions {
    /// At most so many sessions.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, entries: Mutex::default() }
    }

    fn keep(&self, id: &str, record: Arc<SessionRecord>, idle: Duration) -> Result<(), StoreError> {
        let mut entries = self.entries.lock();
        if entries.len() >= self.limit {
            let now = Instant::now();
            entries.retain(|_, entry| now < entry.until);
            if entries.len() >= self.limit && !entries.contains_key(id) {
                return Err(StoreError::Full(self.limit));
            }
        }
        entries.insert(id.into(), Entry { record, until: Instant::now() + idle });
        Ok(())
    }
}

impl SessionStore for MemorySessions {
    fn insert<'a>(
        &'a self,
        id: &'a str,
        record: Arc<SessionRecord>,
        idle: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(std::future::ready(self.keep(id, record, idle)))
    }

    fn load<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Arc<SessionRecord>>, StoreError>> {
        let entries = self.entries.lock();
        let found = entries.get(id).filter(|entry| Instant::now() < entry.until).map(|entry| entry.record.clone());
        Box::pin(std::future::ready(Ok(found)))
    }

    fn touch<'a>(&'a self, id: &'a str, idle: Duration) -> BoxFuture<'a, Result<bool, StoreError>> {
        let now = Instant::now();
        let mut entries = self.entries.lock();
        let touched = entries.get_mut(id).filter(|entry| now < entry.until).map(|entry| entry.until = now + idle);
        Box::pin(std::future::ready(Ok(touched.is_some())))
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        let mut entries = self.entries.lock();
        let removed = entries.remove(id).is_some_and(|entry| Instant::now() < entry.until);
        if entries.capacity() > 64 && entries.len() * 4 < entries.capacity() {
            entries.shrink_to_fit();
        }
        Box::pin(std::future::ready(Ok(removed)))
    }

    fn is_shared(&self) -> bool {
        false
    }
}

impl fmt::Debug for MemorySessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySessions").field("limit", &self.limit).field("len", &self.entries.lock().len()).finish()
    }
}
