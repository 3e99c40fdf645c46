//! Sets of places in a URI.

use super::atom::Atom;

/// A set of positions, from before the first atom to after the last.
#[derive(Clone)]
pub(super) struct Positions {
    words: Vec<u64>,
}

impl Positions {
    /// No position of a URI of `len` atoms.
    pub(super) fn new(len: usize) -> Self {
        Self { words: vec![0; len / 64 + 1] }
    }

    pub(super) fn insert(&mut self, position: usize) {
        self.words[position / 64] |= 1 << (position % 64);
    }

    pub(super) fn contains(&self, position: usize) -> bool {
        self.words.get(position / 64).is_some_and(|word| word >> (position % 64) & 1 == 1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Adds all of `other`, a set over the same URI.
    pub(super) fn extend(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    /// Adds the positions from which reading `plain` leads to one of `next`.
    pub(super) fn extend_before(&mut self, uri: &[Atom], plain: u8, next: &Self) {
        for (i, atom) in uri.iter().enumerate() {
            if atom.is(plain) && next.contains(i + 1) {
                self.insert(i);
            }
        }
    }
}
