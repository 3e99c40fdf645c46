//! Checks of the whole tree other than tests: version comparisons, defaults, dependencies, features, fuzz
//! targets, documentation, the public API.

use crate::api;
use crate::dependencies;
use crate::documented_defaults;
use crate::full_test::run_until_failure;
use crate::program;
use crate::step::Step;
use crate::summary::Summary;
use crate::version_comparison;

/// Features of `turms` that are used together.
const FEATURE_SETS: &[&str] = &[
    "",
    "default",
    "client,http-client",
    "ws-client",
    "ws-server",
    "server,http-server",
    "client,server,http",
    "client,server,http,server-tls,ws",
    "client,server,http,server-http2,server-tls,ws,skills",
    "oauth-client,ws-client",
    "oauth-server,ws-server",
    "oauth,oauth-dev,oauth-proxy,ws",
];

/// Runs the checks until one fails.
pub(crate) fn run() -> Summary {
    run_until_failure(steps())
}

pub(crate) fn steps() -> Vec<Step> {
    vec![
        Step::function("versions", version_comparison::check),
        Step::function("defaults", documented_defaults::check),
        dependency_step(),
        Step::function("lean clients", dependencies::check_ws_client),
        Step::new("features", feature_checks().iter().map(|line| program::command(line)).collect()),
        Step::cargo("fuzz", "check --manifest-path fuzz/Cargo.toml --target-dir target/fuzz"),
        Step::cargo("docs", "doc --workspace --all-features --no-deps").env("RUSTDOCFLAGS", "-D warnings"),
        Step::function("api", || api::run(api::Mode::Check)),
    ]
}

/// Uses `cargo deny` if it is installed, which checks more. Advisories need a database from the network: run
/// `cargo deny check advisories` for them.
fn dependency_step() -> Step {
    if program::works("cargo", "deny --version") {
        Step::cargo("dependencies", "deny --all-features check licenses bans sources")
    } else {
        Step::function("dependencies", dependencies::check)
    }
}

fn feature_checks() -> Vec<String> {
    let features = dependencies::features_of("turms");
    let alone = features.iter().map(String::as_str).filter(|feature| *feature != "default");
    let sets = FEATURE_SETS.iter().copied().chain(alone);
    sets.map(|set| format!("cargo check --quiet -p turms --no-default-features --features={set}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_is_checked_alone() {
        let checks = feature_checks();
        for feature in ["client", "server", "server-http2", "ws"] {
            let line = format!("cargo check --quiet -p turms --no-default-features --features={feature}");
            assert!(checks.contains(&line), "{checks:#?}");
        }
    }

    #[test]
    fn every_set_names_features_that_exist() {
        let features = dependencies::features_of("turms");
        for feature in FEATURE_SETS.iter().flat_map(|set| set.split(',')).filter(|feature| !feature.is_empty()) {
            assert!(features.iter().any(|it| it == feature), "{feature}: {features:?}");
        }
    }
}
