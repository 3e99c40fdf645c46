//! A store in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;
use turms_core::BoxFuture;

use super::{DEFAULT_LOCK_TIMEOUT, LoginKey, LoginLock, StoreError, StoredClient, StoredLogin, TokenStore};

/// A store that forgets everything when the process ends. Clones share their logins.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
    lock_timeout: Duration,
}

#[derive(Debug, Default)]
struct Shared {
    logins: Mutex<BTreeMap<LoginKey, StoredLogin>>,
    clients: Mutex<HashMap<(String, String), StoredClient>>,
    locks: LockTable<LoginKey>,
}

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self { shared: Arc::default(), lock_timeout: DEFAULT_LOCK_TIMEOUT }
    }

    /// Sets the timeout for the lock of a login. Default: 30 s.
    #[must_use]
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl TokenStore for MemoryStore {
    fn load<'a>(&'a self, key: &'a LoginKey) -> BoxFuture<'a, Result<Option<StoredLogin>, StoreError>> {
        Box::pin(async move { Ok(self.shared.logins.lock().get(key).cloned()) })
    }

    fn lock<'a>(&'a self, key: &'a LoginKey) -> BoxFuture<'a, Result<Box<dyn LoginLock>, StoreError>> {
        Box::pin(async move {
            let held = self.shared.locks.lock(key.clone());
            let held = tokio::time::timeout(self.lock_timeout, held).await;
            let held = held.map_err(|_| StoreError::Locked(self.lock_timeout))?;
            Ok(Box::new(MemoryLock { shared: self.shared.clone(), key: key.clone(), _held: held }) as _)
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<LoginKey>, StoreError>> {
        Box::pin(async move { Ok(self.shared.logins.lock().keys().cloned().collect()) })
    }

    fn load_client<'a>(
        &'a self,
        issuer: &'a str,
        profile: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoredClient>, StoreError>> {
        let key = (issuer.to_owned(), profile.to_owned());
        Box::pin(async move { Ok(self.shared.clients.lock().get(&key).cloned()) })
    }

    fn save_client<'a>(&'a self, profile: &'a str, client: &'a StoredClient) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.shared.clients.lock().insert((client.issuer.clone(), profile.to_owned()), client.clone());
            Ok(())
        })
    }

    fn remove_client<'a>(&'a self, issuer: &'a str, profile: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        let key = (issuer.to_owned(), profile.to_owned());
        Box::pin(async move {
            self.shared.clients.lock().remove(&key);
            Ok(())
        })
    }
}

struct MemoryLock {
    shared: Arc<Shared>,
    key: LoginKey,
    _held: OwnedMutexGuard<()>,
}

impl LoginLock for MemoryLock {
    fn load(&mut self) -> BoxFuture<'_, Result<Option<StoredLogin>, StoreError>> {
        Box::pin(async move { Ok(self.shared.logins.lock().get(&self.key).cloned()) })
    }

    fn save<'a>(&'a mut self, login: &'a StoredLogin) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.shared.logins.lock().insert(self.key.clone(), login.clone());
            Ok(())
        })
    }

    fn clear(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.shared.logins.lock().remove(&self.key);
            Ok(())
        })
    }
}

/// Locks by key, between the tasks of this process.
#[derive(Debug)]
pub(super) struct LockTable<K>(Mutex<HashMap<K, Arc<tokio::sync::Mutex<()>>>>);

impl<K> Default for LockTable<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + std::hash::Hash> LockTable<K> {
    /// Waits for the lock of a key.
    pub(super) async fn lock(&self, key: K) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock();
            // Locks that no task holds or waits for are forgotten. The map has a clone of each, so a count of 1 means unused.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            locks.entry(key).or_default().clone()
        };
        lock.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::contract;

    #[tokio::test]
    async fn the_contract_is_kept() {
        let store = MemoryStore::new();
        contract::check(&store).await;
        contract::check_shared(&store, &store.clone()).await;
        contract::check_lock_timeout(&store.lock_timeout(Duration::from_millis(20))).await;
    }

    #[tokio::test]
    async fn unused_locks_are_forgotten() {
        let table = LockTable::default();
        for number in 0..100 {
            drop(table.lock(number).await);
        }
        assert!(table.0.lock().len() <= 1);
    }

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, time};

        let store = MemoryStore::new();
        let code = [("MemoryStore::lock_timeout", time(store.lock_timeout))];
        assert_documented(include_str!("memory.rs"), &code);
    }
}
