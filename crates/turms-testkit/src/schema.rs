//! The official schemas of the protocol and public test suites, which are not part of this repository.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Reads the official JSON Schema of a revision, such as `2025-11-25`, from `TURMS_SCHEMA_DIR` if that is set, else from
/// `../shared/schema` beside the workspace. Without the schemas it prints that nothing is checked and returns `None`.
///
/// # Panics
/// If the schema does not exist and `TURMS_REQUIRE_SCHEMA` or `CI` is set.
#[must_use]
pub fn official_schema(revision: &str) -> Option<String> {
    let shared = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/schema");
    let named = env::var_os("TURMS_SCHEMA_DIR").filter(|directory| !directory.is_empty());
    let file = named.map_or_else(shared, PathBuf::from).join(format!("{revision}.json"));
    if let Ok(text) = fs::read_to_string(&file) {
        return Some(text);
    }
    report_missing(&format!("the official schema is not at {}", file.display()));
    None
}

/// Returns the folder of a public test suite, such as `json-schema`, below `TURMS_SUITES_DIR` if that is set, else below
/// `../shared/suites` beside the workspace. Without the suite it prints that nothing is checked and returns `None`.
///
/// # Panics
/// If the suite does not exist and `TURMS_REQUIRE_SCHEMA` or `CI` is set.
#[must_use]
pub fn public_suite(name: &str) -> Option<PathBuf> {
    let shared = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/suites");
    let named = env::var_os("TURMS_SUITES_DIR").filter(|directory| !directory.is_empty());
    let directory = named.map_or_else(shared, PathBuf::from).join(name);
    if directory.is_dir() {
        return Some(directory);
    }
    report_missing(&format!("the public test suite {name} is not at {}", directory.display()));
    None
}

/// Prints that a test checks nothing, or fails if that is required.
fn report_missing(what: &str) {
    let message = format!("!! NOTHING WAS CHECKED: {what}\n");
    let is_set = |name| env::var(name).is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"));
    assert!(!is_set("TURMS_REQUIRE_SCHEMA") && !is_set("CI"), "{message}");
    // Not `eprintln!`: the test harness captures its output if the test passes.
    let _ = io::stderr().lock().write_all(message.as_bytes());
}
