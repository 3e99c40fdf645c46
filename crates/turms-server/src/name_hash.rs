//! A hash for names that are looked up in every call.
//!
//! What is in the table is chosen by whoever writes the server; clients only look things up, so they cannot fill it with names
//! that collide, and they do not know the secret either. That needs no more than this, which costs a fifth of what `std` has.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Makes hashers that share a secret.
#[derive(Debug, Clone)]
pub(crate) struct NameHash(u64);

impl Default for NameHash {
    fn default() -> Self {
        Self(RandomState::new().hash_one(()))
    }
}

impl BuildHasher for NameHash {
    type Hasher = NameHasher;

    fn build_hasher(&self) -> NameHasher {
        NameHasher(self.0)
    }
}

#[derive(Debug)]
pub(crate) struct NameHasher(u64);

impl NameHasher {
    /// A word has its share in all of the product, of which the two halves make up for each other's weak bits.
    #[inline]
    fn add(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl Hasher for NameHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some((word, next)) = rest.split_first_chunk() {
            self.add(u64::from_le_bytes(*word));
            rest = next;
        }
        let tail = rest.iter().fold(bytes.len() as u64, |word, byte| word << 8 | u64::from(*byte));
        self.add(tail);
    }

    fn write_u8(&mut self, _: u8) {
        // What ends every text; its length is in already.
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_that_differ_a_little_differ_in_every_part_of_their_hash() {
        let hash = NameHash::default();
        let names = || (0..4096).map(|number| format!("tool_{number}")).chain((0..64).map(|count| "a".repeat(count)));
        let hashes: HashSet<u64> = names().map(|name| hash.hash_one(name.as_str())).collect();
        assert_eq!(hashes.len(), names().count());
        for shift in [0, 52] {
            let parts: HashSet<u64> = hashes.iter().map(|hash| hash >> shift & 0xfff).collect();
            assert!(parts.len() > 2000, "{} of 4096", parts.len());
        }
    }

    #[test]
    fn every_table_has_a_secret_of_its_own() {
        assert_ne!(NameHash::default().hash_one("echo"), NameHash::default().hash_one("echo"));
    }
}
