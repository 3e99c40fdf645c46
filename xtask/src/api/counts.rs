//! Sizes of the public API: items, types and functions of each crate, first words of doc comments, and names that several
//! types share.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::surface::Entry;

/// Words that speak of persons.
const PERSONS: &[&str] = &["anybody", "everybody", "nobody", "somebody", "themselves", "whoever", "whom", "whose"];

const TYPES: &[&str] = &["enum", "struct", "trait", "union"];

/// The sizes of the API that is reachable through the façade. An item belongs to the crate that defines it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Items with a doc comment.
    documented: usize,
    traits: usize,
    /// Types that implement `std::error::Error`.
    errors: usize,
    /// Public errors with a name that does not end in `Error`.
    other_errors: Vec<String>,
    /// Types and functions of each crate.
    crates: BTreeMap<String, (usize, usize)>,
    /// Doc comments by their first word, if it is a question word.
    openings: BTreeMap<&'static str, usize>,
    /// Doc comments that speak of persons.
    persons: usize,
    /// Names that several types share, with the paths of the types.
    shared_names: BTreeMap<String, Vec<String>>,
}

impl Counts {
    pub(super) fn new(entries: &[Entry]) -> Self {
        let mut counts = Self::default();
        let defined = entries.iter().filter(|entry| !["impl", "use"].contains(&entry.kind));
        for entry in defined {
            counts.add(entry);
        }
        counts.shared_names.retain(|_, paths| paths.len() > 1);
        for entry in entries.iter().filter(|entry| entry.kind == "impl" && entry.signature == "error::Error") {
            counts.errors += 1;
            if !entry.path.ends_with("Error") {
                counts.other_errors.push(entry.path.clone());
            }
        }
        counts
    }

    fn add(&mut self, entry: &Entry) {
        let words = || entry.docs.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        self.documented += usize::from(!entry.docs.is_empty());
        self.persons += usize::from(words().any(|word| PERSONS.contains(&word.to_ascii_lowercase().as_str())));
        let opening =
            words().next().and_then(|word| ["What", "How", "Whether", "Who"].into_iter().find(|it| *it == word));
        if let Some(opening) = opening {
            *self.openings.entry(opening).or_default() += 1;
        }
        let (types, functions) = self.crates.entry(entry.krate.clone()).or_default();
        if TYPES.contains(&entry.kind) {
            *types += 1;
            self.traits += usize::from(entry.kind == "trait");
            let name = entry.path.rsplit("::").next().unwrap_or_default();
            self.shared_names.entry(name.to_owned()).or_default().push(entry.path.clone());
        } else if entry.kind == "fn" {
            *functions += 1;
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "documented public items: {}", self.documented)?;
        writeln!(f, "traits: {}", self.traits)?;
        let other = BTreeSet::from_iter(&self.other_errors);
        writeln!(f, "error types: {}, of these not named ..Error: {other:?}", self.errors)?;
        writeln!(f, "doc comments that begin with a question word: {:?}", self.openings)?;
        writeln!(f, "doc comments that speak of persons: {}", self.persons)?;
        writeln!(f, "names that several types share: {}", self.shared_names.len())?;
        for (name, paths) in &self.shared_names {
            writeln!(f, "  {name}: {}", paths.join(", "))?;
        }
        writeln!(f, "types / functions and methods:")?;
        for (krate, (types, functions)) in &self.crates {
            writeln!(f, "  {krate}: {types} / {functions}")?;
        }
        let all = |count: fn(&(usize, usize)) -> usize| self.crates.values().map(count).sum::<usize>();
        write!(f, "  all: {} / {}", all(|it| it.0), all(|it| it.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, kind: &'static str, docs: &str) -> Entry {
        let krate = path.split("::").next().unwrap().to_owned();
        Entry { path: path.to_owned(), kind, krate, docs: docs.to_owned(), ..Entry::default() }
    }

    #[test]
    fn items_are_counted_by_crate_and_names_by_their_types() {
        let error = Entry { signature: "error::Error".to_owned(), ..entry("b::Problem", "impl", "") };
        let counts = Counts::new(&[
            entry("a::Call", "struct", "A call."),
            entry("a::Call::new", "fn", "Whether it is new."),
            entry("b::Call", "trait", "For whoever calls."),
            entry("b::Again", "use", "A call."),
            error,
        ]);
        let expected = Counts {
            documented: 3,
            traits: 1,
            errors: 1,
            other_errors: vec!["b::Problem".to_owned()],
            crates: [("a".to_owned(), (1, 1)), ("b".to_owned(), (1, 0))].into(),
            openings: [("Whether", 1)].into(),
            persons: 1,
            shared_names: [("Call".to_owned(), vec!["a::Call".to_owned(), "b::Call".to_owned()])].into(),
        };
        assert_eq!(counts, expected);
    }
}
