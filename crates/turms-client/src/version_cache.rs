use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use turms_proto::session::{Dialect, Negotiated};
use turms_proto::types::{CacheScope, DiscoverResult};

/// A cache of the protocol revision of each server, so that the next connection does not need to negotiate it.
///
/// All clients of a process share one cache, unless the builder sets another. Clients may have different credentials,
/// so the cache stores a `server/discover` result only if the server allows sharing it (`cacheScope` is `public`), and
/// only for its `ttlMs`.
#[derive(Clone, Default)]
pub struct VersionCache(Arc<Mutex<HashMap<String, CachedVersion>>>);

#[derive(Debug, Clone)]
struct CachedVersion {
    dialect: Dialect,
    /// A `server/discover` result with public cache scope, and its expiry time.
    server: Option<(DiscoverResult, Instant)>,
}

impl VersionCache {
    /// Maximum number of servers.
    const CAPACITY: usize = 1024;

    /// Creates an empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the cache that the clients of this process share by default.
    #[must_use]
    pub fn shared() -> Self {
        static SHARED: LazyLock<VersionCache> = LazyLock::new(VersionCache::new);
        SHARED.clone()
    }

    #[cfg(test)]
    pub(crate) fn is_shared(&self) -> bool {
        Arc::ptr_eq(&self.0, &Self::shared().0)
    }

    /// Returns the dialect of a server, by its [identity](turms_core::Connector::identity).
    #[must_use]
    pub fn dialect(&self, server: &str) -> Option<Dialect> {
        self.0.lock().get(server).map(|known| known.dialect)
    }

    /// Removes a server.
    pub fn forget(&self, server: &str) {
        self.0.lock().remove(server);
    }

    pub(crate) fn recall(&self, server: &str) -> Option<Negotiated> {
        let known = self.0.lock().get(server).cloned()?;
        let fresh = known.server.filter(|(_, until)| *until > Instant::now());
        Some(Negotiated::new(known.dialect, fresh.map(|(server, _)| server)))
    }

    pub(crate) fn remember(&self, server: &str, opened: &Negotiated) {
        let mut known = self.0.lock();
        if known.len() >= Self::CAPACITY && !known.contains_key(server) {
            known.clear();
        }
        let shareable = opened.server.as_ref().filter(|server| server.cache_scope == Some(CacheScope::Public));
        let reusable = shareable.and_then(|server| {
            let ttl = Duration::from_millis(u64::try_from(server.ttl_ms?).ok()?);
            Some((server.clone(), Instant::now().checked_add(ttl)?))
        });
        known.insert(server.to_owned(), CachedVersion { dialect: opened.dialect, server: reusable });
    }
}

impl fmt::Debug for VersionCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VersionCache").field("servers", &self.0.lock().len()).finish()
    }
}
