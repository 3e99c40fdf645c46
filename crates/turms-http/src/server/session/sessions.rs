//! All sessions of this process.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::Duration;

use super::HttpSession;
use crate::server::options::SessionOptions;

type Map = HashMap<Arc<str>, Arc<HttpSession>>;

/// Sessions by their ids, in several maps, so that those who look up hardly ever wait for those who change.
pub(in crate::server) struct Sessions {
    shards: [RwLock<Map>; SHARDS],
    hasher: RandomState,
    count: AtomicUsize,
    is_swept: AtomicBool,
}

const SHARDS: usize = 16;

impl Default for Sessions {
    fn default() -> Self {
        Self {
            shards: Default::default(),
            hasher: RandomState::new(),
            count: AtomicUsize::new(0),
            is_swept: AtomicBool::new(false),
        }
    }
}

impl Sessions {
    pub(in crate::server) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn shard(&self, id: &str) -> &RwLock<Map> {
        &self.shards[self.hasher.hash_one(id) as usize % SHARDS]
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<HttpSession>> {
        read(self.shard(id)).get(id).cloned()
    }

    /// Adds a session, or gives the one that somebody else has added meanwhile.
    pub(super) fn add(self: &Arc<Self>, session: Arc<HttpSession>) -> Arc<HttpSession> {
        let mut shard = write(self.shard(&session.id));
        if let Some(there) = shard.get(&session.id) {
            return there.clone();
        }
        shard.insert(session.id.clone(), session.clone());
        drop(shard);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.sweep_from_now_on(session.options.idle);
        session
    }

    fn take(&self, id: &str) -> Option<Arc<HttpSession>> {
        let mut shard = write(self.shard(id));
        let session = shard.remove(id)?;
        if shard.capacity() > 64 && shard.len() * 4 < shard.capacity() {
            shard.shrink_to_fit();
        }
        drop(shard);
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some(session)
    }

    /// Ends a session; false if there is none of this id, here or in the store.
    pub(in crate::server) async fn close(&self, id: &str, options: &SessionOptions) -> bool {
        let here = self.take(id);
        if let Some(session) = &here {
            session.close();
        }
        // What the store cannot forget now it forgets by itself.
        let elsewhere = options.store.remove(id).await.unwrap_or(false);
        let _ = options.events.remove_session(id).await;
        here.is_some() || elsewhere
    }

    /// Ends what runs here; the store keeps the sessions for other processes.
    pub(in crate::server) fn close_all(&self) {
        for shard in &self.shards {
            let sessions = std::mem::take(&mut *write(shard));
            self.count.fetch_sub(sessions.len(), Ordering::Relaxed);
            sessions.values().for_each(|session| session.close());
        }
    }

    /// One task looks after all sessions, while there are any.
    fn sweep_from_now_on(self: &Arc<Self>, idle: Duration) {
        if self.is_swept.swap(true, Ordering::AcqRel) {
            return;
        }
        let period = (idle / 4).clamp(Duration::from_millis(10), Duration::from_secs(30));
        let sessions = Arc::downgrade(self);
        tokio::spawn(async move { while sweep(&sessions, period).await {} });
    }

    fn all(&self) -> impl Iterator<Item = Arc<HttpSession>> {
        // One map at a time, so that nobody waits for long.
        self.shards.iter().flat_map(|shard| read(shard).values().cloned().collect::<Vec<_>>())
    }
}

async fn sweep(sessions: &Weak<Sessions>, period: Duration) -> bool {
    tokio::time::sleep(period).await;
    let Some(sessions) = sessions.upgrade() else { return false };
    for session in sessions.all() {
        let options = session.options.clone();
        for stream in session.forget_streams() {
            let _ = options.events.remove_stream(&session.id, stream).await;
        }
        if session.is_expired() {
            sessions.close(&session.id, &options).await;
        } else if !session.is_busy() {
            session.rest(period);
        } else if session.touch() {
            let _ = options.store.touch(&session.id, options.idle).await;
        }
    }
    if sessions.len() > 0 {
        return true;
    }
    // Whoever adds one now begins anew; whoever has just added one is not left alone.
    sessions.is_swept.store(false, Ordering::Release);
    sessions.len() > 0 && !sessions.is_swept.swap(true, Ordering::AcqRel)
}

fn read(shard: &RwLock<Map>) -> RwLockReadGuard<'_, Map> {
    shard.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(shard: &RwLock<Map>) -> RwLockWriteGuard<'_, Map> {
    shard.write().unwrap_or_else(PoisonError::into_inner)
}
