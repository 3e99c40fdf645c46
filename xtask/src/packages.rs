//! Packages of other languages, installed below `target/`, and again when their list or their tool changes.

use std::env;
use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::program::{self, RunError};

/// Makes the root of the repository the current directory. All paths are relative to it.
pub(crate) fn enter_root() -> Result<(), InstallError> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    env::set_current_dir(&root).map_err(InstallError::at(&root))
}

/// Packages that are installed together.
pub(crate) struct Packages {
    /// File that records the installed state, in a directory that the commands clear first.
    pub(crate) stamp: PathBuf,
    /// Version of the tool: another version may need other packages.
    pub(crate) tool: String,
    /// Files that list the packages.
    pub(crate) manifests: Vec<PathBuf>,
    pub(crate) commands: Vec<Command>,
}

impl Packages {
    pub(crate) fn install(&mut self) -> Result<(), InstallError> {
        let wanted = self.wanted()?;
        if fs::read_to_string(&self.stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(());
        }
        for command in &mut self.commands {
            eprintln!("=== packages: {}", program::line(command));
            program::run(command).map_err(InstallError::Run)?;
        }
        fs::write(&self.stamp, wanted).map_err(InstallError::at(&self.stamp))
    }

    /// Returns the version and the contents of the lists, which are compared with the recorded state.
    fn wanted(&self) -> Result<String, InstallError> {
        let mut wanted = self.tool.clone();
        for path in &self.manifests {
            wanted += &fs::read_to_string(path).map_err(InstallError::at(path))?;
        }
        Ok(wanted)
    }
}

/// Copies the files of a directory, without its subdirectories.
pub(crate) fn copy_files(from: &Path, to: &Path) -> Result<(), InstallError> {
    fs::create_dir_all(to).map_err(InstallError::at(to))?;
    for entry in fs::read_dir(from).map_err(InstallError::at(from))? {
        let path = entry.map_err(InstallError::at(from))?.path();
        if let Some(name) = path.file_name().filter(|_| path.is_file()) {
            fs::copy(&path, to.join(name)).map_err(InstallError::at(&path))?;
        }
    }
    Ok(())
}

/// A program that must be installed already.
pub(crate) struct Tool {
    pub(crate) program: &'static str,
    /// Arguments with which it prints its version, or fails if it is too old.
    pub(crate) probe: &'static [&'static str],
    pub(crate) what: &'static str,
}

/// The package manager of Node.js.
pub(crate) const NPM: Tool = Tool { program: "npm", probe: &["--version"], what: "the package manager of Node.js" };

/// Returns the version of each tool; an error names the missing tools and their purpose.
pub(crate) fn versions<const N: usize>(purpose: &'static str, tools: [&Tool; N]) -> Result<[String; N], InstallError> {
    let versions = tools.map(Tool::version);
    let missing: Vec<String> = tools
        .iter()
        .zip(&versions)
        .filter(|(_, version)| version.is_none())
        .map(|(tool, _)| format!("{} ({})", tool.program, tool.what))
        .collect();
    if missing.is_empty() {
        Ok(versions.map(Option::unwrap_or_default))
    } else {
        Err(InstallError::Missing { purpose, tools: missing })
    }
}

impl Tool {
    fn version(&self) -> Option<String> {
        let output = Command::new(self.program).args(self.probe).stdin(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Error of an installation.
#[derive(Debug)]
pub(crate) enum InstallError {
    Missing { purpose: &'static str, tools: Vec<String> },
    File { path: PathBuf, source: io::Error },
    Run(RunError),
}

impl InstallError {
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        |source| Self::File { path, source }
    }
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { purpose, tools } => write!(f, "{purpose}, and this is missing: {}", tools.join("; ")),
            Self::File { path, .. } => write!(f, "cannot read or write {}", path.display()),
            Self::Run(error) => error.fmt(f),
        }
    }
}

impl Error for InstallError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Missing { .. } => None,
            Self::File { source, .. } => Some(source),
            Self::Run(error) => error.source(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates an empty directory for one test.
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

        assert!(versions("this needs tools", [&cargo]).is_ok());
        let error = versions("this needs tools", [&absent, &cargo, &old]).unwrap_err().to_string();
        assert!(error.ends_with("missing: no-such-program-here (a program); cargo (a newer one)"), "{error}");
    }
}
