//! Answers that may be reused (server/utilities/caching, since 2026-07-28).

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use turms_proto::method::Method;
use turms_proto::types::{ListPrompts, ListResourceTemplates, ListResources, ListSkills, ListTools, ReadResource};

/// Answers of one server, for as long as it allows.
///
/// A client belongs to one user, so what may be reused within one authorization may be reused here.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    entries: Mutex<HashMap<Key, Entry>>,
    /// Counts changes, so that an answer that was on its way when something changed is not kept.
    changes: AtomicU64,
}

/// A request: the method and what tells its answers apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    method: &'static str,
    subject: String,
}

impl Key {
    pub(crate) fn new<M: Method>(subject: impl Into<String>) -> Self {
        Self { method: M::NAME, subject: subject.into() }
    }
}

#[derive(Debug)]
struct Entry {
    value: Arc<dyn Any + Send + Sync>,
    until: Instant,
}

/// What has changed at the server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Changed<'a> {
    Tools,
    Prompts,
    Resources,
    Resource(&'a str),
    Everything,
}

impl Changed<'_> {
    fn affects(&self, key: &Key) -> bool {
        match self {
            Self::Tools => key.method == ListTools::NAME,
            Self::Prompts => key.method == ListPrompts::NAME,
            // The skills of a server are resources as well.
            Self::Resources => {
                [ListResources::NAME, ListResourceTemplates::NAME, ListSkills::NAME].contains(&key.method)
            }
            // What is told may be a part of what was read.
            Self::Resource(uri) => key.method == ReadResource::NAME && crate::listen::is_within(uri, &key.subject),
            Self::Everything => true,
        }
    }
}

/// A moment, as far as changes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(u64);

impl Cache {
    /// More answers than this are not kept at a time.
    const CAPACITY: usize = 1024;

    /// No answer is kept for longer than this, whatever the server says.
    const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

    pub(crate) fn get<T: Clone + 'static>(&self, key: &Key) -> Option<T> {
        let entries = self.entries.lock();
        let entry = entries.get(key).filter(|entry| entry.until > Instant::now())?;
        entry.value.downcast_ref().cloned()
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment(self.changes.load(Ordering::Acquire))
    }

    /// Keeps an answer that was asked for at a moment, unless something has changed since.
    pub(crate) fn put<T: Send + Sync + 'static>(&self, key: Key, value: T, ttl_ms: i64, asked: Moment) {
        let Some(ttl) = u64::try_from(ttl_ms).ok().filter(|ttl| *ttl > 0) else { return };
        let now = Instant::now();
        let mut entries = self.entries.lock();
        if self.moment() != asked {
            return;
        }
        if entries.len() >= Self::CAPACITY {
            entries.retain(|_, entry| entry.until > now);
        }
        if entries.len() >= Self::CAPACITY
            && let Some(first) = entries.iter().min_by_key(|(_, entry)| entry.until).map(|(key, _)| key.clone())
        {
            entries.remove(&first);
        }
        let until = now + Duration::from_millis(ttl).min(Self::LONGEST);
        entries.insert(key, Entry { value: Arc::new(value), until });
    }

    pub(crate) fn invalidate(&self, changed: Changed<'_>) {
        let mut entries = self.entries.lock();
        self.changes.fetch_add(1, Ordering::Release);
        entries.retain(|key, _| !changed.affects(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(subject: &str) -> Key {
        Key::new::<ReadResource>(subject)
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_kept_as_long_as_the_server_says() {
        let cache = Cache::default();
        cache.put(key("a"), 1, 1000, cache.moment());
        cache.put(key("b"), 2, 0, cache.moment());
        cache.put(key("c"), 3, -5, cache.moment());
        assert_eq!(cache.get::<i32>(&key("a")), Some(1));
        assert_eq!((cache.get::<i32>(&key("b")), cache.get::<i32>(&key("c"))), (None, None));
        tokio::time::advance(Duration::from_millis(1000)).await;
        assert_eq!(cache.get::<i32>(&key("a")), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_makes_stale_what_it_touches_and_what_was_on_its_way() {
        let cache = Cache::default();
        let asked = cache.moment();
        cache.put(key("a"), 1, 1000, asked);
        cache.put(key("b"), 2, 1000, asked);
        cache.put(Key::new::<ListTools>(""), 3, 1000, asked);
        cache.invalidate(Changed::Resource("a"));
        assert_eq!((cache.get::<i32>(&key("a")), cache.get::<i32>(&key("b"))), (None, Some(2)));
        cache.put(key("a"), 1, 1000, asked);
        assert_eq!(cache.get::<i32>(&key("a")), None);
        cache.invalidate(Changed::Tools);
        assert_eq!(cache.get::<i32>(&Key::new::<ListTools>("")), None);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_so_many_are_kept() {
        let cache = Cache::default();
        for number in 0..2 * Cache::CAPACITY {
            cache.put(key(&number.to_string()), number, 60_000 + number as i64, cache.moment());
        }
        assert_eq!(cache.entries.lock().len(), Cache::CAPACITY);
        assert_eq!(cache.get::<usize>(&key(&(2 * Cache::CAPACITY - 1).to_string())), Some(2 * Cache::CAPACITY - 1));
    }
}
