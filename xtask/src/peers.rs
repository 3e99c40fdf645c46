//! Installs the servers and clients in other languages that tests use.
//!
//! The sources and package lists are in `peers/`. They are installed into `target/peers/` even if `CARGO_TARGET_DIR` is set, so that
//! tests find them by the path of their manifest.

use std::path::Path;

use crate::packages::{self, InstallError, NPM, Packages, Tool};
use crate::program;

const SOURCE: &str = "peers";
const TARGET: &str = "target/peers";
const PURPOSE: &str = "the tests talk to servers in other languages";

/// Copies the programs and installs their packages, unless they are up to date.
pub(crate) fn install() -> Result<(), InstallError> {
    packages::enter_root()?;
    let [node, npm, python] = packages::versions(PURPOSE, [&NODE, &NPM, &PYTHON])?;
    for language in ["node", "python"] {
        packages::copy_files(&Path::new(SOURCE).join(language), &Path::new(TARGET).join(language))?;
    }
    node_packages(&format!("{node}{npm}")).install()?;
    python_packages("handshake", &python).install()?;
    python_packages("stateless", &python).install()?;
    program::run(&mut program::command(RUST_BUILD)).map_err(InstallError::Run)
}

/// Builds the client that uses rmcp.
const RUST_BUILD: &str =
    "cargo build --quiet --locked --manifest-path peers/rust/Cargo.toml --target-dir target/peers/rust";

fn node_packages(versions: &str) -> Packages {
    let home = Path::new(TARGET).join("node");
    Packages {
        stamp: home.join("node_modules/installed"),
        tool: versions.to_owned(),
        manifests: ["package.json", "package-lock.json", ".npmrc"].map(|name| home.join(name)).into(),
        commands: vec![
            program::command(&format!("npm ci --prefix {TARGET}/node")),
            program::command(&format!("node {TARGET}/node/chromium.mjs")),
        ],
    }
}

/// One virtual environment for each server: they need different versions of the same package.
fn python_packages(server: &str, version: &str) -> Packages {
    let home = format!("{TARGET}/python/{server}");
    let list = format!("{TARGET}/python/requirements-{server}.txt");
    let pip = format!("{home}/bin/python -m pip --disable-pip-version-check --no-input");
    Packages {
        stamp: Path::new(&home).join("installed"),
        tool: version.to_owned(),
        manifests: vec![list.clone().into()],
        commands: vec![
            program::command(&format!("python3 -m venv --clear {home}")),
            program::command(&format!("{pip} install --quiet --requirement {list}")),
        ],
    }
}

const NODE: Tool = Tool {
    program: "node",
    probe: &["-e", "parseInt(process.versions.node) < 20 ? process.exit(1) : console.log(process.version)"],
    what: "Node.js 20 or newer",
};

const PYTHON: Tool = Tool {
    program: "python3",
    probe: &["-c", "import ensurepip, sys, venv; print(sys.version) if sys.version_info >= (3, 11) else sys.exit(1)"],
    what: "Python 3.11 or newer, with its modules venv and ensurepip",
};
