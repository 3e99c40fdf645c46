//! Node.js and Python, which some tests need. Those tests are ignored by default; `cargo xtask test` runs them.

use std::path::{Path, PathBuf};

/// Returns the path of a program on `PATH`.
///
/// # Panics
/// If the program does not exist; the message says how to install it.
#[must_use]
#[track_caller]
pub fn program(name: &str) -> PathBuf {
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&directories).map(|directory| directory.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| missing(&format!("the program `{name}`")))
}

/// Returns the path of a file that `cargo xtask peers` installs, below `target/peers`.
///
/// # Panics
/// If the file does not exist; the message says how to install it.
#[must_use]
#[track_caller]
pub fn peer_file(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers").join(name);
    if !path.exists() {
        missing(&format!("target/peers/{name}"));
    }
    path
}

/// Returns Node.js, after checking that the packages of `peers/node` are installed.
///
/// # Panics
/// If either is missing; the message says how to install it.
#[must_use]
#[track_caller]
pub fn node() -> PathBuf {
    let _ = peer_file("node/node_modules/installed");
    program("node")
}

/// Returns the Python of an environment of `peers/python`: `handshake` or `stateless`.
///
/// # Panics
/// If it is missing; the message says how to install it.
#[must_use]
#[track_caller]
pub fn python(environment: &str) -> PathBuf {
    let _ = peer_file(&format!("python/{environment}/installed"));
    peer_file(&format!("python/{environment}/bin/python"))
}

#[track_caller]
fn missing(what: &str) -> ! {
    panic!(
        "{what} is missing: install Node.js 20 or newer with npm and Python 3.11 or newer with venv, then run \
         `cargo xtask peers`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "target/peers/node/no-such-file is missing: install Node.js 20")]
    fn the_panic_names_a_missing_file_and_the_command_that_installs_it() {
        let _ = peer_file("node/no-such-file");
    }

    #[test]
    #[should_panic(expected = "the program `no-such-program` is missing: install Node.js 20")]
    fn the_panic_names_a_missing_program() {
        let _ = program("no-such-program");
    }
}
