//! Child processes, found by their command line.

use std::process::Command;

use turms_testkit::process::{Process, processes};

/// Returns the child of this process whose command line contains `mark`.
pub(crate) fn child_with(mark: &str) -> u32 {
    let ours = |process: &Process| process.parent == std::process::id() && process.command.contains(mark);
    let found: Vec<_> = processes().into_iter().filter(ours).collect();
    let [process] = &*found else { panic!("one child with {mark:?} was expected, not {found:#?}") };
    process.id
}

/// Kills a process with SIGKILL, as the out-of-memory killer does.
pub(crate) fn kill(id: u32) {
    assert!(Command::new("kill").args(["-9", &id.to_string()]).status().unwrap().success());
}
