//! Programs that the full test needs in addition to cargo.

use std::process::Command;

use crate::program;

/// Returns the commands that install the missing programs.
pub(crate) fn install_missing() -> Vec<Command> {
    NEEDS
        .iter()
        .filter(|need| !program::works(need.program, "--version"))
        .map(|need| program::command(need.how))
        .collect()
}

/// A program and the command that installs it.
struct Need {
    program: &'static str,
    how: &'static str,
}

const NEEDS: &[Need] = &[
    Need { program: "cargo-fmt", how: "rustup component add rustfmt" },
    Need { program: "cargo-clippy", how: "rustup component add clippy" },
];
