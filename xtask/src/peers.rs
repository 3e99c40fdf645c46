//! Servers in other languages, installed for the tests that talk to them.
//!
//! What is installed is written down in `peers/`; where it goes is `target/peers/`, whatever `CARGO_TARGET_DIR` says, so
//! that a test finds it from its own manifest.

use std::env;
use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::program::{self, RunError};

const SOURCE: &str = "peers";
const TARGET: &str = "target/peers";

/// Copies the servers and installs what they need, where that has not been done yet.
pub(crate) fn install() -> Result<(), PeersError> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    env::set_current_dir(&root).map_err(PeersError::at(&root))?;

    let [node, npm, python] = versions([&NODE, &NPM, &PYTHON])?;
    for language in ["node", "python"] {
        copy_files(&Path::new(SOURCE).join(language), &Path::new(TARGET).join(language))?;
    }
    node_packages(&format!("{node}{npm}")).install()?;
    python_packages("handshake", &python).install()?;
    python_packages("stateless", &python).install()
}

fn node_packages(versions: &str) -> Packages {
    let home = Path::new(TARGET).join("node");
    Packages {
        stamp: home.join("node_modules/installed"),
        tool: versions.to_owned(),
        manifests: ["package.json", "package-lock.json", ".npmrc"].map(|name| home.join(name)).into(),
        commands: vec![program::command(&format!("npm ci --prefix {TARGET}/node"))],
    }
}

/// Each of the servers has an environment of its own: they need different versions of the same package.
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

/// Packages that are installed together.
struct Packages {
    /// Where it is written down what was installed: in a directory that the commands clear first.
    stamp: PathBuf,
    /// The version of what runs them, because another version may need other packages.
    tool: String,
    /// The files that say what to install.
    manifests: Vec<PathBuf>,
    commands: Vec<Command>,
}

impl Packages {
    fn install(&mut self) -> Result<(), PeersError> {
        let wanted = self.wanted()?;
        if fs::read_to_string(&self.stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(());
        }
        for command in &mut self.commands {
            eprintln!("=== peers: {}", program::line(command));
            program::run(command).map_err(PeersError::Run)?;
        }
        fs::write(&self.stamp, wanted).map_err(PeersError::at(&self.stamp))
    }

    /// All that decides what is installed. The files are short enough to be compared as they are.
    fn wanted(&self) -> Result<String, PeersError> {
        let mut wanted = self.tool.clone();
        for path in &self.manifests {
            wanted += &fs::read_to_string(path).map_err(PeersError::at(path))?;
        }
        Ok(wanted)
    }
}

/// Copies the files of a directory, not what is below it.
fn copy_files(from: &Path, to: &Path) -> Result<(), PeersError> {
    fs::create_dir_all(to).map_err(PeersError::at(to))?;
    for entry in fs::read_dir(from).map_err(PeersError::at(from))? {
        let path = entry.map_err(PeersError::at(from))?.path();
        if let Some(name) = path.file_name().filter(|_| path.is_file()) {
            fs::copy(&path, to.join(name)).map_err(PeersError::at(&path))?;
        }
    }
    Ok(())
}

/// A program that must be on the machine already.
struct Tool {
    program: &'static str,
    /// Arguments with which it prints its version, or fails if it will not do.
    probe: &'static [&'static str],
    what: &'static str,
}

const NODE: Tool = Tool {
    program: "node",
    probe: &["-e", "parseInt(process.versions.node) < 20 ? process.exit(1) : console.log(process.version)"],
    what: "Node.js 20 or newer",
};

const NPM: Tool = Tool { program: "npm", probe: &["--version"], what: "the package manager of Node.js" };

const PYTHON: Tool = Tool {
    program: "python3",
    probe: &["-c", "import ensurepip, sys, venv; print(sys.version) if sys.version_info >= (3, 11) else sys.exit(1)"],
    what: "Python 3.11 or newer, with its modules venv and ensurepip",
};

/// What each tool prints as its version, or all the tools that are missing.
fn versions<const N: usize>(tools: [&Tool; N]) -> Result<[String; N], PeersError> {
    let versions = tools.map(Tool::version);
    let missing: Vec<String> = tools
        .iter()
        .zip(&versions)
        .filter(|(_, version)| version.is_none())
        .map(|(tool, _)| format!("{} ({})", tool.program, tool.what))
        .collect();
    if missing.is_empty() { Ok(versions.map(Option::unwrap_or_default)) } else { Err(PeersError::Missing(missing)) }
}

impl Tool {
    fn version(&self) -> Option<String> {
        let output = Command::new(self.program).args(self.probe).stdin(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Why the peers are not installed.
#[derive(Debug)]
pub(crate) enum PeersError {
    Missing(Vec<String>),
    File { path: PathBuf, source: io::Error },
    Run(RunError),
}

impl PeersError {
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        |source| Self::File { path, source }
    }
}

impl fmt::Display for PeersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(tools) => {
                write!(f, "the tests talk to servers in other languages, and this is missing: {}", tools.join("; "))
            }
            Self::File { path, .. } => write!(f, "cannot read or write {}", path.display()),
            Self::Run(error) => error.fmt(f),
        }
    }
}

impl Error for PeersError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Missing(_) => None,
            Self::File { source, .. } => Some(source),
            Self::Run(error) => error.source(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of this test alone, empty.
    fn scratch(test: &str) -> PathBuf {
        let path = env::temp_dir().join(format!("turms-xtask-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn packages(home: &Path, tool: &str, command: &str) -> Packages {
        Packages {
            stamp: home.join("installed"),
            tool: tool.to_owned(),
            manifests: vec![home.join("list")],
            commands: vec![program::command(command)],
        }
    }

    #[test]
    fn packages_are_installed_again_only_if_something_changed() {
        let home = scratch("again");
        let failing = "cargo --no-such-option";
        fs::write(home.join("list"), "one").unwrap();
        packages(&home, "1", "cargo --version").install().unwrap();
        packages(&home, "1", failing).install().unwrap();

        assert!(packages(&home, "2", failing).install().is_err(), "another version of the tool");
        fs::write(home.join("list"), "two").unwrap();
        assert!(packages(&home, "1", failing).install().is_err(), "another list");
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn only_files_are_copied() {
        let home = scratch("copy");
        fs::create_dir_all(home.join("from/node_modules")).unwrap();
        fs::write(home.join("from/server.mjs"), "1").unwrap();
        copy_files(&home.join("from"), &home.join("to")).unwrap();

        assert_eq!(fs::read_to_string(home.join("to/server.mjs")).unwrap(), "1");
        assert!(!home.join("to/node_modules").exists());
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn every_missing_tool_is_named() {
        let cargo = Tool { program: "cargo", probe: &["--version"], what: "cargo" };
        let absent = Tool { program: "no-such-program-here", probe: &[], what: "a program" };
        let old = Tool { program: "cargo", probe: &["--no-such-option"], what: "a newer one" };

        assert!(versions([&cargo]).is_ok());
        let error = versions([&absent, &cargo, &old]).unwrap_err().to_string();
        assert!(error.ends_with("missing: no-such-program-here (a program); cargo (a newer one)"), "{error}");
    }
}
