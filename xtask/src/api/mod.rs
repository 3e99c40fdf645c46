//! The public API as a file: a line for each item that is reachable through the façade, the crate `turms`. The diff of the
//! file shows every change of the API.

mod alias;
mod counts;
mod rules;
mod rustdoc;
mod signature;
mod surface;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;

use counts::Counts;
use rustdoc::Docs;
use surface::Entry;

use crate::sources;

const BASELINE: &str = "api/turms.txt";

/// The mode of `cargo xtask api`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Write the file.
    Write,
    /// Compare with the file.
    Check,
    /// Print sizes, without checking the rules.
    Count,
}

/// Writes the file or compares with it, and checks the rules; or prints sizes.
pub(crate) fn run(mode: Mode) -> Result<(), Box<dyn Error>> {
    let entries = surface::entries(&Docs::build()?);
    let text: String = entries.iter().map(|entry| format!("{entry}\n")).collect();
    println!("{}", count_by_kind(&entries));
    let file = sources::root().join(BASELINE);
    match mode {
        Mode::Write => fs::write(file, text)?,
        Mode::Check => compare(&fs::read_to_string(file)?, &text)?,
        Mode::Count => {
            println!("{}", Counts::new(&entries));
            return Ok(());
        }
    }
    let mut problems = rules::problems(&entries);
    problems.extend(alias::problems(&entries)?);
    if problems.is_empty() {
        Ok(())
    } else {
        Err(format!("rules of the API are broken:\n{}", problems.join("\n")).into())
    }
}

/// Returns the first line of output, such as `2 public items: 1 fn, 1 struct`.
fn count_by_kind(entries: &[Entry]) -> String {
    let mut counts = BTreeMap::<_, usize>::new();
    for entry in entries {
        *counts.entry(entry.kind).or_default() += 1;
    }
    let counts: Vec<_> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    format!("{} public items: {}", entries.len(), counts.join(", "))
}

fn compare(old: &str, new: &str) -> Result<(), String> {
    let (old, new): (BTreeSet<_>, BTreeSet<_>) = (old.lines().collect(), new.lines().collect());
    let mut changes: Vec<_> = old.symmetric_difference(&new).collect();
    changes.sort();
    if changes.is_empty() {
        return Ok(());
    }
    let sign = |line| if new.contains(line) { '+' } else { '-' };
    let changes: String = changes.iter().map(|line| format!("\n{} {line}", sign(**line))).collect();
    Err(format!("the public API differs from {BASELINE}; run `cargo xtask api` to update the file:{changes}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_lines_are_shown_with_the_command_that_updates_the_file() {
        assert_eq!(compare("a fn ()\nb fn ()\n", "a fn ()\nb fn ()\n"), Ok(()));
        assert_eq!(
            compare("a fn ()\nb fn ()\nc fn ()\n", "a fn ()\nb fn (&self)\nc fn ()\n").unwrap_err(),
            "the public API differs from api/turms.txt; run `cargo xtask api` to update the file:\n+ b fn (&self)\n- b fn ()"
        );
    }
}
