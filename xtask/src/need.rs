//! What the full test needs on the machine beyond cargo itself.

use std::process::Command;

use crate::program;

/// Commands that install whatever is missing, none if all is there.
pub(crate) fn install_missing() -> Vec<Command> {
    NEEDS
        .iter()
        .filter(|need| !program::works(need.program, "--version"))
        .map(|need| program::command(need.how))
        .collect()
}

/// A program and the command that brings it.
struct Need {
    program: &'static str,
    how: &'static str,
}

const NEEDS: &[Need] = &[
    Need { program: "cargo-fmt", how: "rustup component add rustfmt" },
    Need { program: "cargo-clippy", how: "rustup component add clippy" },
];
