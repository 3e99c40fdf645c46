//! The rules of `deny.toml` that can be checked without `cargo deny`: licences, sources, duplicate versions, wildcards.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;
use std::fs;
use std::path::Path;

use semver::{Version, VersionReq};
use serde::Deserialize;
use spdx::{Expression, LicenseReq};

use crate::program;

const RULES: &str = "deny.toml";
const DEFAULT_REGISTRY: &str = "registry+";

/// Checks all dependencies of the workspace, for every target and with all features.
pub(crate) fn check() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let rules: Rules = toml::from_str(&fs::read_to_string(root.join(RULES))?)?;
    let packages = packages("--all-features")?;
    let problems = problems(&rules, &packages)?;
    if problems.is_empty() { Ok(()) } else { Err(Problems(problems).into()) }
}

/// Checks that a WebSocket client does not depend on the HTTP server.
pub(crate) fn check_ws_client() -> Result<(), Box<dyn Error>> {
    let line = "cargo tree --locked --edges normal --prefix none -p turms --no-default-features --features ws-client";
    let output =
        program::command(line).args(["--format", "{p} | {f}"]).current_dir(env!("CARGO_MANIFEST_DIR")).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    }
    let tree = String::from_utf8_lossy(&output.stdout);
    let packages: Vec<_> = tree.lines().filter_map(|line| line.split_once(" | ")).collect();
    let has = |name: &str, feature: &str| {
        let features = packages.iter().filter(|(package, _)| package.split(' ').next() == Some(name));
        features.flat_map(|(_, features)| features.split(',')).any(|it| it == feature)
    };
    match ["turms-http", "hyper", "hyper-util"].into_iter().find(|name| has(name, "server")) {
        Some(name) => Err(format!("the feature `ws-client` brings the feature `server` of {name}: `{line}`").into()),
        None if !has("turms-http", "client") => Err(format!("`{line}` does not print the features").into()),
        None => Ok(()),
    }
}

/// Returns the features of a package of the workspace, sorted. Empty if `cargo metadata` fails.
pub(crate) fn features_of(name: &str) -> Vec<String> {
    let packages = packages("--no-deps").unwrap_or_default();
    let package = packages.into_iter().find(|package| package.name == name);
    package.map(|package| package.features.into_keys().collect()).unwrap_or_default()
}

/// Returns a package of the workspace, followed by its dependencies in the workspace, sorted.
pub(crate) fn closure_of(name: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let packages = packages("--no-deps")?;
    let mut closure = vec![name.to_owned()];
    let mut next = 0;
    while let Some(name) = closure.get(next) {
        let package = packages.iter().find(|package| package.name == *name);
        let package = package.ok_or_else(|| format!("there is no package {name} in the workspace"))?;
        let ours = package.dependencies.iter().filter(|it| it.path.is_some() && it.kind.is_none());
        let new: BTreeSet<_> = ours.map(|it| &it.name).filter(|it| !closure.contains(it)).cloned().collect();
        closure.extend(new);
        next += 1;
    }
    closure[1..].sort();
    Ok(closure)
}

fn packages(option: &str) -> Result<Vec<Package>, Box<dyn Error>> {
    let line = format!("cargo metadata --format-version 1 --locked {option}");
    let output = program::command(&line).current_dir(env!("CARGO_MANIFEST_DIR")).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout)?;
    Ok(metadata.packages)
}

fn problems(rules: &Rules, packages: &[Package]) -> Result<Vec<String>, Box<dyn Error>> {
    let mut problems = Vec::new();
    for package in packages {
        problems.extend(licence_problem(&rules.licenses, package));
        problems.extend(source_problem(package));
        problems.extend(wildcard_problem(package));
    }
    problems.extend(duplicates(&rules.bans, packages)?);
    Ok(problems)
}

fn licence_problem(rules: &LicenceRules, package: &Package) -> Option<String> {
    let Some(licence) = &package.license else {
        return Some(format!("{package}: no licence is named"));
    };
    let extra = rules.exceptions.iter().filter(|exception| exception.krate == package.name);
    let allowed: BTreeSet<_> = rules.allow.iter().chain(extra.flat_map(|exception| &exception.allow)).collect();
    let is_allowed = |requirement: &LicenseReq| allowed.contains(&requirement.to_string());
    match Expression::parse_mode(licence, spdx::ParseMode::LAX) {
        Ok(expression) if expression.evaluate(is_allowed) => None,
        Ok(_) => Some(format!("{package}: the licence {licence:?} is not allowed in {RULES}")),
        Err(error) => Some(format!("{package}: the licence {licence:?} cannot be read: {}", error.reason)),
    }
}

/// Crates of the workspace have no source; all others come from a registry.
fn source_problem(package: &Package) -> Option<String> {
    let source = package.source.as_deref()?;
    (!source.starts_with(DEFAULT_REGISTRY))
        .then(|| format!("{package}: comes from {source}, which is not the registry"))
}

fn wildcard_problem(package: &Package) -> Option<String> {
    let ours = package.source.is_none();
    let wildcard = package.dependencies.iter().find(|it| ours && it.req == "*" && it.path.is_none())?;
    Some(format!("{package}: any version of {} will do", wildcard.name))
}

fn duplicates(rules: &BanRules, packages: &[Package]) -> Result<Vec<String>, Box<dyn Error>> {
    let mut versions: BTreeMap<&str, BTreeSet<Version>> = BTreeMap::new();
    for package in packages {
        if !rules.is_skipped(package)? {
            versions.entry(&package.name).or_default().insert(package.version.clone());
        }
    }
    let several = versions.into_iter().filter(|(_, versions)| versions.len() > 1);
    Ok(several
        .map(|(name, versions)| {
            let versions: Vec<_> = versions.iter().map(ToString::to_string).collect();
            format!(
                "{name}: several versions ({}); list the one that cannot be avoided in {RULES}",
                versions.join(", ")
            )
        })
        .collect())
}

#[derive(Debug, Deserialize)]
struct Rules {
    licenses: LicenceRules,
    bans: BanRules,
}

#[derive(Debug, Deserialize)]
struct LicenceRules {
    allow: Vec<String>,
    #[serde(default)]
    exceptions: Vec<LicenceException>,
}

#[derive(Debug, Deserialize)]
struct LicenceException {
    #[serde(rename = "crate")]
    krate: String,
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct BanRules {
    #[serde(default)]
    skip: Vec<SkippedVersion>,
}

impl BanRules {
    /// Returns `true` if this version is listed as an allowed duplicate.
    fn is_skipped(&self, package: &Package) -> Result<bool, semver::Error> {
        for skipped in &self.skip {
            let (name, version) = skipped.krate.split_once('@').unwrap_or((&skipped.krate, "*"));
            if name == package.name && VersionReq::parse(version)?.matches(&package.version) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[derive(Debug, Deserialize)]
struct SkippedVersion {
    #[serde(rename = "crate")]
    krate: String,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: Version,
    license: Option<String>,
    source: Option<String>,
    #[serde(default)]
    dependencies: Vec<Dependency>,
    #[serde(default)]
    features: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    req: String,
    /// `dev` or `build`; `None` for a normal dependency.
    #[serde(default)]
    kind: Option<String>,
    path: Option<String>,
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// The violations of the rules.
#[derive(Debug)]
struct Problems(Vec<String>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dependencies break {} rules of {RULES}:", self.0.len())?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl Error for Problems {}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES_TEXT: &str = r#"
        [licenses]
        allow = ["MIT", "Unicode-3.0"]
        exceptions = [{ crate = "odd", allow = ["BSL-1.0"] }]
        [bans]
        skip = [{ crate = "old@0.2", reason = "held back" }]
    "#;

    fn found(packages: &str) -> Vec<String> {
        let rules = toml::from_str(RULES_TEXT).unwrap();
        let metadata: Metadata = serde_json::from_str(&format!(r#"{{"packages":[{packages}]}}"#)).unwrap();
        problems(&rules, &metadata.packages).unwrap()
    }

    fn package(name: &str, version: &str, license: &str, source: &str) -> String {
        format!(r#"{{"name":"{name}","version":"{version}","license":"{license}","source":"{source}"}}"#)
    }

    #[test]
    fn a_websocket_client_brings_no_http_server() {
        check_ws_client().unwrap();
    }

    #[test]
    fn the_closure_of_a_package_is_what_it_is_built_from() {
        let closure = closure_of("turms").unwrap();
        assert_eq!(closure[0], "turms");
        assert!(["turms-client", "turms-proto"].iter().all(|name| closure.iter().any(|it| it == name)), "{closure:?}");
        assert!(!closure.iter().any(|it| it == "turms-testkit"), "only tests need it: {closure:?}");
    }

    #[test]
    fn a_licence_must_be_allowed() {
        for licence in ["MIT", "MIT OR GPL-3.0", "MIT/GPL-3.0", "(MIT OR Apache-2.0) AND Unicode-3.0"] {
            assert_eq!(found(&package("a", "1.0.0", licence, "registry+x")), [""; 0], "{licence}");
        }
        assert_eq!(
            found(&package("a", "1.0.0", "MIT AND GPL-3.0", "registry+x")),
            [r#"a 1.0.0: the licence "MIT AND GPL-3.0" is not allowed in deny.toml"#]
        );
        assert_eq!(found(&package("odd", "1.0.0", "BSL-1.0", "registry+x")), [""; 0]);
        assert_eq!(found(&package("even", "1.0.0", "BSL-1.0", "registry+x")).len(), 1);
        assert_eq!(found(r#"{"name":"a","version":"1.0.0"}"#), ["a 1.0.0: no licence is named"]);
    }

    #[test]
    fn a_source_other_than_the_registry_is_named() {
        let problems = found(&package("a", "1.0.0", "MIT", "git+https://example.org/a"));
        assert_eq!(problems, ["a 1.0.0: comes from git+https://example.org/a, which is not the registry"]);
    }

    #[test]
    fn a_second_version_needs_an_entry() {
        let version = |name: &str, version: &str| package(name, version, "MIT", "registry+x");
        let problems = found(&[version("a", "1.0.0"), version("a", "2.0.0")].join(","));
        assert_eq!(problems, ["a: several versions (1.0.0, 2.0.0); list the one that cannot be avoided in deny.toml"]);
        assert_eq!(found(&[version("old", "0.2.7"), version("old", "0.3.0")].join(",")), [""; 0]);
    }

    #[test]
    fn a_dependency_of_ours_has_a_version() {
        let problems = found(
            r#"{"name":"a","version":"1.0.0","license":"MIT","dependencies":[
                {"name":"b","req":"*","path":"/b"},{"name":"c","req":"^1"},{"name":"d","req":"*"}]}"#,
        );
        assert_eq!(problems, ["a 1.0.0: any version of d will do"]);
    }
}
