//! The sessions of this process.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use turms_core::CloseReason;
use turms_core::store::SessionRecord;

use super::HttpSession;
use crate::server::options::SessionOptions;

type SessionMap = HashMap<Arc<str>, Arc<HttpSession>>;

/// The sessions by id, in several shards, so that readers rarely wait for writers.
pub(in crate::server) struct SessionManager {
    shards: [RwLock<SessionMap>; SHARDS],
    hasher: RandomState,
    count: AtomicUsize,
    has_sweeper: AtomicBool,
    /// The records of the most recent distinct clients.
    recent: Mutex<Vec<Weak<SessionRecord>>>,
}

const SHARDS: usize = 16;

impl Default for SessionManager {
    fn default() -> Self {
        Self {
            shards: Default::default(),
            hasher: RandomState::new(),
            count: AtomicUsize::new(0),
            has_sweeper: AtomicBool::new(false),
            recent: Mutex::default(),
        }
    }
}

impl SessionManager {
    pub(in crate::server) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns the record of another session if one of the most recent distinct records is the same. Most sessions
    /// belong to the same few programs.
    pub(super) fn shared(&self, record: SessionRecord) -> Arc<SessionRecord> {
        const MAX_RECENT: usize = 16;
        let mut recent = self.recent.lock();
        if let Some(same) = recent.iter().filter_map(Weak::upgrade).find(|other| **other == record) {
            return same;
        }
        let record = Arc::new(record);
        recent.retain(|other| other.strong_count() > 0);
        if recent.len() == MAX_RECENT {
            recent.remove(0);
        }
        recent.push(Arc::downgrade(&record));
        record
    }

    fn shard(&self, id: &str) -> &RwLock<SessionMap> {
        &self.shards[self.hasher.hash_one(id) as usize % SHARDS]
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<HttpSession>> {
        self.shard(id).read().get(id).cloned()
    }

    /// Reserves the place of a session; `None` if there are `max` already.
    pub(super) fn reserve(self: &Arc<Self>, max: usize) -> Option<SessionPlace> {
        let reserved =
            self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| (count < max).then_some(count + 1));
        reserved.is_ok().then(|| SessionPlace { sessions: self.clone(), is_taken: false })
    }

    /// Adds a session, or returns the one that another request has added meanwhile.
    pub(super) fn add(self: &Arc<Self>, session: Arc<HttpSession>, mut place: SessionPlace) -> Arc<HttpSession> {
        let mut shard = self.shard(&session.id).write();
        if let Some(there) = shard.get(&session.id) {
            return there.clone();
        }
        shard.insert(session.id.clone(), session.clone());
        drop(shard);
        place.is_taken = true;
        self.start_sweeper(session.options.idle_timeout);
        session
    }

    fn take(&self, id: &str) -> Option<Arc<HttpSession>> {
        let mut shard = self.shard(id).write();
        let session = shard.remove(id)?;
        if shard.capacity() > 64 && shard.len() * 4 < shard.capacity() {
            shard.shrink_to_fit();
        }
        drop(shard);
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some(session)
    }

    /// Closes a session. Returns `false` if there is none with this id, here or in the store.
    pub(in crate::server) async fn close(&self, id: &str, options: &SessionOptions, reason: CloseReason) -> bool {
        // Removed from the store first. Otherwise another process could load it again.
        let is_there = options.sessions().remove(id).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "a session that has ended cannot be removed from the store");
            false
        });
        let here = self.take(id);
        if let Some(session) = &here {
            session.close(reason);
        }
        if let Err(error) = options.event_store.remove_session(id).await {
            tracing::warn!(%error, "the events of a session that has ended cannot be removed from the store");
        }
        here.is_some() || is_there
    }

    /// Removes a session after its `initialize` was refused, here and from the store. It is not closed: the client may still read the
    /// refusal, and the session ends with the stream of that.
    pub(super) async fn remove_if_refused(&self, session: &HttpSession) {
        if session.state.lock().protocol.agreed().is_some() {
            return;
        }
        if let Err(error) = session.options.sessions().remove(&session.id).await {
            tracing::warn!(%error, "a session that was refused cannot be removed from the store");
        }
        self.take(&session.id);
    }

    /// Closes a session that is idle here. Where processes share the store, another one may use the session, and the store forgets it
    /// when none does.
    async fn close_idle(&self, id: &str, options: &SessionOptions) {
        if !options.sessions().is_shared() {
            self.close(id, options, CloseReason::Idle).await;
        } else if let Some(session) = self.take(id) {
            session.close(CloseReason::Idle);
        }
    }

    /// Closes the sessions of this process. They stay in the store for other processes.
    pub(in crate::server) fn close_all(&self) {
        for shard in &self.shards {
            let sessions = std::mem::take(&mut *shard.write());
            self.count.fetch_sub(sessions.len(), Ordering::Relaxed);
            sessions.values().for_each(|session| session.close(CloseReason::Shutdown));
        }
    }

    /// Starts the sweeper task, which expires sessions, unless it runs already. It ends when there are no sessions.
    fn start_sweeper(self: &Arc<Self>, idle: Duration) {
        if self.has_sweeper.swap(true, Ordering::AcqRel) {
            return;
        }
        let period = (idle / 4).clamp(Duration::from_millis(10), Duration::from_secs(30));
        let sessions = Arc::downgrade(self);
        let mut sweeper = SweeperGuard(sessions.clone());
        tokio::spawn(async move {
            loop {
                while sweep(&sessions, period).await {}
                drop(sweeper);
                // A session may have been added while the sweeper was still marked as running.
                match sessions.upgrade() {
                    Some(all) if all.len() > 0 && !all.has_sweeper.swap(true, Ordering::AcqRel) => {}
                    _ => return,
                }
                sweeper = SweeperGuard(sessions.clone());
            }
        });
    }

    fn all(&self) -> impl Iterator<Item = Arc<HttpSession>> {
        // Locks one shard at a time, and only briefly.
        self.shards.iter().flat_map(|shard| shard.read().values().cloned().collect::<Vec<_>>())
    }
}

/// A place for a session that is about to be added. Dropping it frees the place.
pub(super) struct SessionPlace {
    sessions: Arc<SessionManager>,
    is_taken: bool,
}

impl Drop for SessionPlace {
    fn drop(&mut self) {
        if !self.is_taken {
            self.sessions.count.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Marks the sweeper as ended when it is dropped, also after a panic of a store.
struct SweeperGuard(Weak<SessionManager>);

impl Drop for SweeperGuard {
    fn drop(&mut self) {
        if let Some(sessions) = self.0.upgrade() {
            sessions.has_sweeper.store(false, Ordering::Release);
        }
    }
}

/// Sweeps all sessions once. Returns `false` if there are none left.
async fn sweep(sessions: &Weak<SessionManager>, period: Duration) -> bool {
    tokio::time::sleep(period).await;
    let Some(sessions) = sessions.upgrade() else { return false };
    for session in sessions.all() {
        let options = session.options.clone();
        session.remove_old_streams();
        if session.is_expired() {
            sessions.close_idle(&session.id, &options).await;
        } else if !session.is_busy() {
            if session.unused_for() >= period {
                session.shrink_memory();
            }
        } else if session.claim_touch() && !options.touch(&session.id).await {
            sessions.close(&session.id, &options, CloseReason::Deleted).await;
        }
    }
    sessions.len() > 0
}
