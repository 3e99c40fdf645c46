//! A bounded cache of verdicts about tokens.

use std::collections::HashMap;

use parking_lot::Mutex;

/// Digest of a token. The token itself is not kept.
pub(super) type TokenHash = [u8; 16];

/// A cache with two generations. If the young one is full, it becomes the old one, and the entries of the old one are dropped. An entry
/// that is used moves to the young one, so the entries in use stay.
pub(super) struct TokenCache<V> {
    generations: Mutex<Generations<V>>,
    /// Maximum number of entries of a generation.
    capacity: usize,
}

struct Generations<V> {
    young: HashMap<TokenHash, CacheEntry<V>>,
    old: HashMap<TokenHash, CacheEntry<V>>,
}

struct CacheEntry<V> {
    value: V,
    /// Time of the insertion. If the clock is set back, the entry is invalid.
    from: f64,
    until: f64,
}

impl<V> CacheEntry<V> {
    fn is_valid(&self, now: f64) -> bool {
        self.from <= now && now < self.until
    }
}

impl<V: Clone> TokenCache<V> {
    /// Creates a cache with a maximum number of entries. It keeps at least half as many of those used last.
    pub(super) fn new(capacity: usize) -> Self {
        let generations = Generations { young: HashMap::new(), old: HashMap::new() };
        Self { generations: Mutex::new(generations), capacity: capacity / 2 }
    }

    pub(super) fn get(&self, token: &TokenHash, now: f64) -> Option<V> {
        let mut generations = self.generations.lock();
        if let Some(entry) = generations.young.get(token) {
            return entry.is_valid(now).then(|| entry.value.clone());
        }
        let entry = generations.old.remove(token).filter(|entry| entry.is_valid(now))?;
        let value = entry.value.clone();
        generations.insert(*token, entry, self.capacity);
        Some(value)
    }

    pub(super) fn insert(&self, token: TokenHash, value: V, now: f64, until: f64) {
        if self.capacity > 0 {
            let mut generations = self.generations.lock();
            generations.old.remove(&token);
            generations.insert(token, CacheEntry { value, from: now, until }, self.capacity);
        }
    }
}

impl<V> Generations<V> {
    fn insert(&mut self, token: TokenHash, entry: CacheEntry<V>, capacity: usize) {
        if self.young.len() >= capacity && !self.young.contains_key(&token) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(token, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(token: &str) -> TokenHash {
        let mut hash = [0; 16];
        hash.copy_from_slice(&crate::jws::sha256(token)[..16]);
        hash
    }

    fn len<V>(cache: &TokenCache<V>) -> usize {
        let generations = cache.generations.lock();
        generations.young.len() + generations.old.len()
    }

    #[test]
    fn the_cache_is_bounded_and_keeps_entries_in_use() {
        let cache = TokenCache::new(100);
        let used = hash("used");
        cache.insert(used, 0, 0.0, 1e9);
        for number in 1..1000 {
            cache.insert(hash(&format!("{number}")), number, 0.0, 1e9);
            assert_eq!(cache.get(&used, 1.0), Some(0));
            assert!(len(&cache) <= 100);
        }
        assert_eq!(cache.get(&hash("999"), 1.0), Some(999));
        assert_eq!(cache.get(&hash("1"), 1.0), None);
    }

    #[test]
    fn an_entry_is_valid_between_two_times() {
        let cache = TokenCache::new(10);
        let token = hash("token");
        cache.insert(token, "value", 100.0, 200.0);
        assert_eq!(cache.get(&token, 199.0), Some("value"));
        assert_eq!(cache.get(&token, 200.0), None);
        assert_eq!(cache.get(&token, 99.0), None, "the clock was set back");
    }

    #[test]
    fn a_cache_without_capacity_keeps_nothing() {
        let cache = TokenCache::new(0);
        cache.insert(hash("token"), (), 0.0, 1e9);
        assert_eq!(cache.get(&hash("token"), 0.0), None);
    }
}
