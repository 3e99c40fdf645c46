//! A map with a maximum number of entries that expire, such as login codes. Times are seconds since the Unix epoch.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// A map with entries that expire. When it is full, the entry that would expire first is removed.
#[derive(Debug)]
pub(crate) struct ExpiringMap<K, V> {
    entries: HashMap<K, Entry<V>>,
    /// The keys in the order in which they expire.
    order: BTreeMap<EntryOrder, K>,
    capacity: usize,
    /// The last serial number.
    inserted: u64,
}

/// The time at which an entry expires, and a serial number, which keeps entries apart that expire at the same time.
type EntryOrder = (u64, u64);

#[derive(Debug)]
struct Entry<V> {
    order: EntryOrder,
    value: V,
}

impl<K: Clone + Eq + Hash, V> ExpiringMap<K, V> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { entries: HashMap::new(), order: BTreeMap::new(), capacity: capacity.max(1), inserted: 0 }
    }

    /// Adds or replaces an entry. In a full map, removes the entry that would expire first.
    pub(crate) fn insert(&mut self, key: K, value: V, expires_at: u64, now: u64) {
        self.purge(now);
        self.remove(&key);
        while self.entries.len() >= self.capacity {
            self.remove_first();
        }
        self.inserted += 1;
        let order = (expires_at, self.inserted);
        self.order.insert(order, key.clone());
        self.entries.insert(key, Entry { order, value });
    }

    /// Adds an entry if there is none with this key and the map is not full. Returns `true` if it was added.
    pub(crate) fn insert_new(&mut self, key: K, value: V, expires_at: u64, now: u64) -> bool {
        self.purge(now);
        let is_new = !self.entries.contains_key(&key) && self.entries.len() < self.capacity;
        if is_new {
            self.insert(key, value, expires_at, now);
        }
        is_new
    }

    pub(crate) fn get_mut<Q>(&mut self, key: &Q, now: u64) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.purge(now);
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    pub(crate) fn get<Q>(&mut self, key: &Q, now: u64) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.get_mut(key, now).map(|value| &*value)
    }

    pub(crate) fn take<Q>(&mut self, key: &Q, now: u64) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.purge(now);
        self.remove(key)
    }

    /// Removes the first entry that has expired.
    pub(crate) fn take_expired(&mut self, now: u64) -> Option<V> {
        let first = self.order.first_entry().filter(|first| first.key().0 <= now)?;
        self.entries.remove(&first.remove()).map(|entry| entry.value)
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&V) -> bool) {
        let order = &mut self.order;
        self.entries.retain(|_, entry| {
            let is_kept = keep(&entry.value);
            if !is_kept {
                order.remove(&entry.order);
            }
            is_kept
        });
    }

    /// Returns the keys of some entries, in the order in which they expire.
    pub(crate) fn keys_where(&self, is_wanted: impl Fn(&V) -> bool) -> Vec<K> {
        let is_wanted = |key: &&K| self.entries.get(*key).is_some_and(|entry| is_wanted(&entry.value));
        self.order.values().filter(is_wanted).cloned().collect()
    }

    #[cfg(feature = "dev")]
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
    }

    fn purge(&mut self, now: u64) {
        while self.order.first_key_value().is_some_and(|(order, _)| order.0 <= now) {
            self.remove_first();
        }
    }

    fn remove_first(&mut self) {
        if let Some((_, key)) = self.order.pop_first() {
            self.entries.remove(&key);
        }
    }

    fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let entry = self.entries.remove(key)?;
        self.order.remove(&entry.order);
        Some(entry.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_expire() {
        let mut map = ExpiringMap::new(10);
        map.insert("a", 1, 5, 0);
        assert_eq!(map.get("a", 4), Some(&1));
        assert_eq!(map.get("a", 5), None);
        assert!(map.entries.is_empty() && map.order.is_empty());
    }

    #[test]
    fn a_full_map_drops_the_entry_that_expires_first() {
        let mut map = ExpiringMap::new(2);
        map.insert("a", 1, 9, 0);
        map.insert("b", 2, 5, 0);
        map.insert("c", 3, 7, 0);
        assert_eq!(map.get("a", 0), Some(&1));
        assert_eq!(map.get("b", 0), None);
        assert!(!map.insert_new("d", 4, 9, 0), "a new entry is not added to a full map");
        assert!(map.insert_new("d", 4, 9, 7), "an expired entry makes space");
        assert!(!map.insert_new("d", 4, 9, 7), "an entry is added once");
        assert_eq!(map.entries.len(), map.order.len());
    }

    #[test]
    fn removed_entries_leave_nothing_behind() {
        let mut map = ExpiringMap::new(3);
        for round in 0..10 {
            map.insert("a", round, 100, 0);
            map.insert("b", round, 100, 0);
            assert_eq!(map.take("a", 0), Some(round));
        }
        map.retain(|_| false);
        assert!(map.entries.is_empty() && map.order.is_empty());
    }
}
