//! The full test: the steps that a change must pass, the fastest first.

use crate::args::Extent;
use crate::check_all;
use crate::need;
use crate::program;
use crate::step::Step;
use crate::summary::{Outcome, Summary};

/// Runs the steps until one fails.
pub(crate) fn run(extent: Extent) -> Summary {
    run_until_failure(match extent {
        Extent::Full => full(),
        Extent::Quick => quick(),
    })
}

/// Steps that need only Rust.
fn quick() -> Vec<Step> {
    let mut steps = static_checks();
    steps.extend([examples(), tests(Extent::Quick)]);
    steps
}

fn full() -> Vec<Step> {
    let mut steps = static_checks();
    steps.extend([
        Step::cargo("peers", "xtask peers"),
        examples(),
        tests(Extent::Full),
        Step::cargo("conformance", "xtask conformance"),
        Step::cargo("doc-tests", "test --workspace --all-features --doc"),
        // Each benchmark once, without optimization: it must run. `--benches` would run the unit tests of libraries and
        // binaries a second time.
        Step::cargo("benches", "test --workspace --all-features --bench *"),
    ]);
    steps.extend(check_all::steps());
    steps
}

fn static_checks() -> Vec<Step> {
    vec![
        Step::new("needs", need::install_missing()),
        Step::cargo("fmt", "fmt --all --check"),
        Step::cargo("clippy", "clippy --workspace --all-targets --all-features -- -D warnings"),
    ]
}

/// Builds the examples: tests start some of them as child processes, and `cargo test --tests` does not build them.
fn examples() -> Step {
    Step::cargo("examples", "build --workspace --all-features --examples")
}

/// Runs the tests; the full test includes the ignored ones, which need more than Rust. nextest is used if it is installed, because it
/// runs test binaries in parallel.
fn tests(extent: Extent) -> Step {
    let with_nextest = program::works("cargo", "nextest --version");
    let line = match (with_nextest, extent) {
        (true, Extent::Full) => "nextest run --workspace --all-features --run-ignored all",
        (true, Extent::Quick) => "nextest run --workspace --all-features",
        (false, Extent::Full) => "test --workspace --all-features --lib --bins --tests -- --include-ignored",
        (false, Extent::Quick) => "test --workspace --all-features --lib --bins --tests",
    };
    Step::cargo("tests", line)
}

pub(crate) fn run_until_failure(steps: Vec<Step>) -> Summary {
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
