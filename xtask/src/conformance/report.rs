//! What is said about a run: on the terminal, and in `conformance/RESULTS.md`.

use std::fmt::{self, Write as _};

use super::results::{Counts, EXPLAINED, Outcome, Status};
use super::suite::Role;

/// A run, ready to be told.
#[derive(Debug)]
pub(crate) struct Report {
    /// The version of each suite.
    pub(crate) suites: Vec<String>,
    pub(crate) outcomes: Vec<Outcome>,
}

impl Report {
    pub(crate) fn is_success(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.problems(EXPLAINED).is_empty())
    }

    /// A line for each scenario, what was skipped, and the sum.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        let width = self.outcomes.iter().map(|outcome| outcome.scenario.len()).max().unwrap_or_default();
        for outcome in &self.outcomes {
            let (suite, counts) = (&self.suites[outcome.suite], outcome.counts());
            let Outcome { role, revision, scenario, trouble, .. } = outcome;
            let mark = if trouble.is_some() { "  no result" } else { "" };
            line(&mut text, format_args!("{suite:<15} {role} {revision}  {scenario:<width$}  {counts}{mark}"));
        }
        for skip in self.skips() {
            line(&mut text, format_args!("skipped by the suite: {skip}"));
        }
        let total: Counts = self.outcomes.iter().map(Outcome::counts).sum();
        line(&mut text, format_args!("total: {} scenarios, {total}", self.outcomes.len()));
        text
    }

    /// What must be mended, scenario by scenario.
    pub(crate) fn problems(&self) -> String {
        let mut text = String::new();
        for outcome in &self.outcomes {
            let problems = outcome.problems(EXPLAINED);
            if !problems.is_empty() {
                line(&mut text, format_args!("{} (suite {}):", Place(outcome), self.suites[outcome.suite]));
            }
            for problem in problems {
                line(&mut text, format_args!("  {}", problem.replace('\n', "\n    ")));
            }
        }
        text
    }

    /// The same without anything that differs from run to run or from machine to machine.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::from(INTRODUCTION);
        self.write_sums(&mut text);
        for (suite, version) in self.suites.iter().enumerate() {
            line(&mut text, format_args!("\n## Suite {version}"));
            let mut part = None;
            for outcome in self.outcomes.iter().filter(|outcome| outcome.suite == suite) {
                if part.replace((outcome.role, &outcome.revision)) != Some((outcome.role, &outcome.revision)) {
                    line(&mut text, format_args!("\n### {}, {}\n\n{HEAD}", title(outcome.role), outcome.revision));
                }
                let Counts { passed, failed, warnings, skipped } = outcome.counts();
                let scenario = &outcome.scenario;
                let mark = if outcome.trouble.is_some() { ", no result" } else { "" };
                line(&mut text, format_args!("| `{scenario}`{mark} | {passed} | {failed} | {warnings} | {skipped} |"));
            }
        }
        section(&mut text, "Warnings, explained", self.warnings());
        section(&mut text, "Skipped by the suite", self.skips());
        text
    }

    fn write_sums(&self, text: &mut String) {
        line(text, format_args!("| suite | judges | revision | scenarios | passed | failed | warnings | skipped |"));
        line(text, format_args!("|---|---|---|--:|--:|--:|--:|--:|"));
        for part in self.outcomes.chunk_by(|a, b| a.is_beside(b)) {
            let Some(first) = part.first() else { continue };
            let Counts { passed, failed, warnings, skipped } = part.iter().map(Outcome::counts).sum();
            let (suite, role, revision, scenarios) =
                (&self.suites[first.suite], first.role, &first.revision, part.len());
            line(
                text,
                format_args!(
                    "| {suite} | {role} | {revision} | {scenarios} | {passed} | {failed} | {warnings} | {skipped} |"
                ),
            );
        }
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for outcome in &self.outcomes {
            for check in outcome.with(Status::Warning) {
                let why = outcome.explanation(check, EXPLAINED).unwrap_or("not explained");
                warnings.push(format!("{}, {}: {why}", Place(outcome), check.id));
            }
        }
        warnings
    }

    /// Checks that were skipped for the same reason stand together.
    fn skips(&self) -> Vec<String> {
        let mut skips = Vec::new();
        for outcome in &self.outcomes {
            let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
            for check in outcome.with(Status::Skipped) {
                let why = outcome.explanation(check, EXPLAINED).unwrap_or(&check.message);
                match reasons.iter_mut().find(|(reason, _)| *reason == why) {
                    Some((_, checks)) => checks.push(&check.id),
                    None => reasons.push((why, vec![&check.id])),
                }
            }
            let place = Place(outcome);
            skips.extend(reasons.iter().map(|(reason, checks)| format!("{place}, {}: {reason}", few(checks))));
        }
        skips
    }
}

impl Outcome {
    fn is_beside(&self, other: &Self) -> bool {
        (self.suite, self.role, &self.revision) == (other.suite, other.role, &other.revision)
    }
}

const INTRODUCTION: &str = "\
# Conformance results

Results of the official conformance suite for the server, the client and the authorization server in this directory.
`cargo xtask conformance` writes this file; it changes when a result does. Each figure is a number of checks.

";

const HEAD: &str = "| scenario | passed | failed | warnings | skipped |\n|---|--:|--:|--:|--:|";

fn title(role: Role) -> &'static str {
    match role {
        Role::Server => "Server",
        Role::Client => "Client",
        Role::AuthorizationServer => "Authorization server",
    }
}

/// The names of a few, or how many there are.
fn few(names: &[&str]) -> String {
    if names.len() <= 3 { names.join(", ") } else { format!("{} checks", names.len()) }
}

fn section(text: &mut String, title: &str, entries: Vec<String>) {
    line(text, format_args!("\n## {title}\n"));
    if entries.is_empty() {
        line(text, format_args!("None."));
    }
    for entry in entries {
        line(text, format_args!("- {entry}"));
    }
}

fn line(text: &mut String, words: fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{words}");
}

/// Which scenario, for people.
struct Place<'a>(&'a Outcome);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { role, revision, scenario, .. } = self.0;
        write!(f, "{role} {revision} {scenario}")
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} warnings", self.passed, self.failed, self.warnings)?;
        if self.skipped > 0 { write!(f, ", {} skipped", self.skipped) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::{check, outcome};
    use super::*;

    fn report() -> Report {
        let fine = outcome("ping", vec![check("pong", Status::Success, "")]);
        let skipping = outcome(
            "skills",
            vec![check("a", Status::Skipped, "not declared"), check("b", Status::Skipped, "not declared")],
        );
        let mut client = outcome("initialize", vec![check("sent", Status::Success, "")]);
        (client.suite, client.role) = (1, Role::Client);
        Report { suites: vec!["2.0".to_owned(), "1.0".to_owned()], outcomes: vec![fine, skipping, client] }
    }

    #[test]
    fn the_table_has_a_line_for_each_scenario_and_a_sum() {
        assert_eq!(
            report().table(),
            "2.0             server 2026-07-28  ping        1 passed, 0 failed, 0 warnings\n\
             2.0             server 2026-07-28  skills      0 passed, 0 failed, 0 warnings, 2 skipped\n\
             1.0             client 2026-07-28  initialize  1 passed, 0 failed, 0 warnings\n\
             skipped by the suite: server 2026-07-28 skills, a, b: not declared\n\
             total: 3 scenarios, 2 passed, 0 failed, 0 warnings, 2 skipped\n"
        );
    }

    #[test]
    fn the_file_has_sums_tables_and_reasons() {
        let text = report().markdown();
        for part in [
            "| 2.0 | server | 2026-07-28 | 2 | 1 | 0 | 0 | 2 |\n| 1.0 | client | 2026-07-28 | 1 | 1 | 0 | 0 | 0 |\n",
            "## Suite 2.0\n\n### Server, 2026-07-28\n\n| scenario |",
            "| `ping` | 1 | 0 | 0 | 0 |\n| `skills` | 0 | 0 | 0 | 2 |\n\n## Suite 1.0\n\n### Client, 2026-07-28\n",
            "## Warnings, explained\n\nNone.\n",
            "## Skipped by the suite\n\n- server 2026-07-28 skills, a, b: not declared\n",
        ] {
            assert!(text.contains(part), "{part}\nis not in\n{text}");
        }
    }

    #[test]
    fn only_a_few_skipped_checks_are_named() {
        assert_eq!(few(&["a", "b", "c"]), "a, b, c");
        assert_eq!(few(&["a", "b", "c", "d"]), "4 checks");
    }

    #[test]
    fn a_run_without_problems_says_nothing_of_them() {
        let mut report = report();
        report.outcomes.remove(1);
        assert!(report.is_success());
        assert_eq!(report.problems(), "");
    }

    #[test]
    fn problems_are_told_with_their_scenario() {
        let mut report = report();
        report.outcomes[0].checks.push(check("late", Status::Failure, "too\nlate"));
        report.outcomes[2].trouble = Some("no result was written".to_owned());
        assert!(!report.is_success());
        assert_eq!(
            report.problems(),
            "server 2026-07-28 ping (suite 2.0):\n  failed: late: too\n    late\n\
             server 2026-07-28 skills (suite 2.0):\n  skipped: a: not declared\n  skipped: b: not declared\n\
             client 2026-07-28 initialize (suite 1.0):\n  no result was written\n"
        );
        assert!(report.table().contains("initialize  1 passed, 0 failed, 0 warnings  no result\n"));
        assert!(report.markdown().contains("| `initialize`, no result | 1 |"));
    }

    #[test]
    fn a_warning_nobody_explained_is_told_as_such() {
        let mut report = report();
        report.outcomes[0].checks.push(check("order", Status::Warning, "differs"));
        assert!(!report.is_success());
        assert!(report.markdown().contains("- server 2026-07-28 ping, order: not explained\n"));
    }
}
