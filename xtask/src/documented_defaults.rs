//! Finds files that document defaults without a test that compares them with the code (`turms_defaults::assert_documented`).

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use crate::sources;

/// The crate with the comparison: its own tests have examples.
const COMPARISON: &str = "crates/turms-defaults";

/// Checks the sources of all crates.
pub(crate) fn check() -> Result<(), Box<dyn Error>> {
    let root = sources::root();
    let (mut documented, mut tested) = (BTreeSet::new(), BTreeSet::new());
    for file in sources::of_crates()? {
        let text = fs::read_to_string(&file)?;
        let folder = file.parent().unwrap_or(&root);
        tested.extend(tested_files(&text).map(|name| resolve(folder, name)));
        if documents_default(&text) && !file.starts_with(root.join(COMPARISON)) {
            documented.insert(file);
        }
    }
    let untested: Vec<_> =
        documented.difference(&tested).map(|file| file.strip_prefix(&root)).collect::<Result<_, _>>()?;
    if untested.is_empty() {
        return Ok(());
    }
    let untested: Vec<_> = untested.iter().map(|file| file.display().to_string()).collect();
    Err(format!(
        "defaults are documented and not compared with the code, by `assert_documented`:\n{}",
        untested.join("\n")
    )
    .into())
}

fn resolve(folder: &Path, name: &str) -> PathBuf {
    match (name.strip_prefix("../"), folder.parent()) {
        (Some(name), Some(parent)) => resolve(parent, name),
        _ => folder.join(name),
    }
}

fn documents_default(text: &str) -> bool {
    text.lines()
        .any(|line| line.trim_start().strip_prefix("///").is_some_and(|doc| format!("{doc} ").contains(" Default: ")))
}

/// The files that are passed to the comparison, relative to the folder of the test.
fn tested_files(text: &str) -> impl Iterator<Item = &str> {
    let calls = text.split("assert_documented(").skip(1);
    calls.filter_map(|call| call.trim_start().strip_prefix("include_str!(\"")?.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_a_documented_default_is_found() {
        assert!(documents_default("    /// Maximum delay. Default: 30 s.\n"));
        assert!(documents_default("    /// Maximum delay. Default:\n    /// 30 s.\n"));
        assert!(!documents_default("// Default: 30 s.\n/// Default of the delay.\n"));
    }

    #[test]
    fn a_test_names_the_file_that_it_compares() {
        let text = "assert_documented(include_str!(\"a.rs\"), &code);\nassert_documented(\n    include_str!(\"b.rs\"),";
        assert_eq!(Vec::from_iter(tested_files(text)), ["a.rs", "b.rs"]);
    }

    #[test]
    fn all_documented_defaults_are_tested() {
        check().unwrap();
    }
}
