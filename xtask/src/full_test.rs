//! The full test: every step a change must pass, in the order in which failures are cheapest to find.

use crate::need;
use crate::program;
use crate::step::Step;
use crate::summary::{Outcome, Summary};

/// Runs the steps until one fails.
pub(crate) fn run() -> Summary {
    run_until_failure(steps())
}

fn steps() -> Vec<Step> {
    vec![
        Step::new("needs", need::install_missing()),
        Step::cargo("fmt", "fmt --all --check"),
        Step::cargo("clippy", "clippy --workspace --all-targets --all-features -- -D warnings"),
        Step::cargo("peers", "xtask peers"),
        Step::cargo("tests", test_command()),
        Step::cargo("conformance", "xtask conformance"),
        Step::cargo("doc-tests", "test --workspace --all-features --doc"),
        Step::cargo("docs", "doc --workspace --all-features --no-deps").env("RUSTDOCFLAGS", "-D warnings"),
        // Each bench once, unoptimised: it must run, how fast is asked elsewhere. `--benches` would run the unit tests
        // of libraries and binaries a second time.
        Step::cargo("benches", "test --workspace --all-features --bench *"),
    ]
}

/// Runs all tests, with those that are ignored because they need more than Rust. nextest runs test binaries side by side,
/// which `cargo test` does not; it is worth using but not worth demanding.
fn test_command() -> &'static str {
    if program::works("cargo", "nextest --version") {
        "nextest run --workspace --all-features --run-ignored all"
    } else {
        "test --workspace --all-features --lib --bins --tests --examples -- --include-ignored"
    }
}

fn run_until_failure(steps: Vec<Step>) -> Summary {
    let mut summary = Summary::default();
    for mut step in steps {
        let outcome = if summary.is_success() { step.run() } else { Outcome::NotRun };
        summary.push(step.name(), outcome);
    }
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_stops_the_run_but_every_step_is_reported() {
        let summary = run_until_failure(vec![
            Step::cargo("first", "--version"),
            Step::cargo("second", "--no-such-option"),
            Step::cargo("third", "--version"),
        ]);

        assert!(!summary.is_success());
        let line = summary.to_string();
        assert!(line.starts_with("first ok "), "{line}");
        assert!(line.contains(" | second FAILED "), "{line}");
        assert!(line.contains(" | third not run | total "), "{line}");
    }

    #[test]
    fn a_run_without_failures_succeeds() {
        assert!(run_until_failure(vec![Step::cargo("only", "--version")]).is_success());
    }
}
