//! The results of the suite.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::suite::Role;

/// The outcome of one scenario at one revision.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The index of the suite.
    pub(crate) suite: usize,
    pub(crate) role: Role,
    pub(crate) revision: String,
    pub(crate) scenario: String,
    pub(crate) checks: Vec<Check>,
    /// A problem besides the checks: a crash, or a missing result.
    pub(crate) trouble: Option<String>,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) id: String,
    pub(crate) status: Status,
    /// The message of the suite.
    pub(crate) message: String,
}

/// The status of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Success,
    Failure,
    Warning,
    Skipped,
    /// A remark without a verdict.
    Info,
}

/// The number of checks by status.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) warnings: usize,
    pub(crate) skipped: usize,
}

/// An accepted warning or skipped check, with the reason.
pub(crate) struct Explained {
    pub(crate) scenario: &'static str,
    pub(crate) check: &'static str,
    pub(crate) why: &'static str,
}

/// All warnings and skipped checks that are known and accepted.
pub(crate) const EXPLAINED: &[Explained] = &[
    Explained {
        scenario: "tasks-status-notifications",
        check: "tasks-status-notifications",
        why: "the suite does not look at notifications of tasks yet; our own tests do",
    },
    Explained {
        scenario: "http-standard-headers",
        check: "sep-2243-client-includes-standard-headers",
        why: "2026-07-28 has neither `initialize` nor `notifications/initialized` that could carry headers",
    },
];

impl Check {
    fn from_json(check: &Value) -> Option<Self> {
        let text = |name: &str| check.get(name)?.as_str().map(str::to_owned);
        let status = match text("status")?.as_str() {
            "SUCCESS" => Status::Success,
            "FAILURE" => Status::Failure,
            "WARNING" => Status::Warning,
            "SKIPPED" => Status::Skipped,
            "INFO" => Status::Info,
            _ => return None,
        };
        Some(Self { id: text("id")?, status, message: text("errorMessage").or_else(|| text("description"))? })
    }
}

impl Outcome {
    pub(crate) fn counts(&self) -> Counts {
        let count = |status| self.with(status).count();
        Counts {
            passed: count(Status::Success),
            failed: count(Status::Failure),
            warnings: count(Status::Warning),
            skipped: count(Status::Skipped),
        }
    }

    pub(crate) fn with(&self, status: Status) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(move |check| check.status == status)
    }

    /// The reason for which a warning is accepted, if it is.
    pub(crate) fn explanation(&self, check: &Check, explained: &[Explained]) -> Option<&'static str> {
        let mut explained = explained.iter();
        explained.find(|known| known.scenario == self.scenario && known.check == check.id).map(|known| known.why)
    }

    /// All problems that make the run fail, a line or more each.
    pub(crate) fn problems(&self, explained: &[Explained]) -> Vec<String> {
        let failures = self.with(Status::Failure).map(|check| format!("failed: {}: {}", check.id, check.message));
        let unexplained = |status, word: &'static str| {
            let checks = self.with(status).filter(|check| self.explanation(check, explained).is_none());
            checks.map(move |check| format!("{word}: {}: {}", check.id, check.message))
        };
        let warnings = unexplained(Status::Warning, "warning");
        // The scenarios of an extension are skipped if the server does not declare it, which must be noticed.
        let skipped = unexplained(Status::Skipped, "skipped");
        failures.chain(warnings).chain(skipped).chain(self.trouble.clone()).collect()
    }
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |sum, more| Self {
            passed: sum.passed + more.passed,
            failed: sum.failed + more.failed,
            warnings: sum.warnings + more.warnings,
            skipped: sum.skipped + more.skipped,
        })
    }
}

/// Reads the results of a scenario from this directory.
pub(crate) fn read(directory: &Path, role: Role, scenario: &str) -> Result<Vec<Check>, String> {
    let name = match role {
        Role::Client => scenario.to_owned(),
        Role::Server => format!("server-{scenario}"),
        Role::AuthorizationServer => format!("authorization-server-{scenario}"),
    };
    let found = find(&directory.join(name)).map_err(|error| format!("no result was written: {error}"))?;
    let path = found.ok_or("no result was written")?.join("checks.json");
    let text = fs::read(&path).map_err(|error| format!("no result was written: {error}"))?;
    parse(&text).map_err(|error| format!("the result cannot be read: {error}"))
}

fn parse(text: &[u8]) -> Result<Vec<Check>, String> {
    let checks: Vec<Value> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let checks = checks
        .iter()
        .map(|check| Check::from_json(check).ok_or_else(|| format!("this check is not understood: {check}")))
        .collect::<Result<Vec<_>, _>>()?;
    if checks.is_empty() { Err("nothing was checked".to_owned()) } else { Ok(checks) }
}

/// The directory with this name and a time at its end.
fn find(start: &Path) -> io::Result<Option<PathBuf>> {
    let (Some(parent), Some(name)) = (start.parent(), start.file_name().and_then(|name| name.to_str())) else {
        return Ok(None);
    };
    for entry in fs::read_dir(parent)? {
        let path = entry?.path();
        let end = path.file_name().and_then(|found| found.to_str()?.strip_prefix(name));
        if end.is_some_and(is_time) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Returns `true` for a text like `-2026-11-16T05-59-28-492Z`; others are the rest of another scenario's name.
fn is_time(text: &str) -> bool {
    text.starts_with('-') && text.ends_with('Z') && text.chars().all(|c| c.is_ascii_digit() || "-TZ".contains(c))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn check(id: &str, status: Status, message: &str) -> Check {
        Check { id: id.to_owned(), status, message: message.to_owned() }
    }

    pub(crate) fn outcome(scenario: &str, checks: Vec<Check>) -> Outcome {
        Outcome {
            suite: 0,
            role: Role::Server,
            revision: "2026-07-28".to_owned(),
            scenario: scenario.to_owned(),
            checks,
            trouble: None,
        }
    }

    #[test]
    fn checks_are_read_with_what_is_said_about_them() {
        let checks = parse(
            br#"[{"id":"a","name":"A","description":"about a","status":"SUCCESS","timestamp":"x"},
                 {"id":"b","name":"B","description":"about b","status":"FAILURE","errorMessage":"not so","logs":[]}]"#,
        )
        .unwrap();
        assert_eq!(checks[0], check("a", Status::Success, "about a"));
        assert_eq!((checks[1].status, checks[1].message.as_str()), (Status::Failure, "not so"));
    }

    #[test]
    fn a_result_that_says_nothing_or_something_new_is_an_error() {
        assert_eq!(parse(b"[]").unwrap_err(), "nothing was checked");
        let error = parse(br#"[{"id":"a","description":"","status":"MAYBE"}]"#).unwrap_err();
        assert!(error.contains("MAYBE"), "{error}");
    }

    #[test]
    fn a_warning_or_a_skipped_check_is_a_problem_unless_it_is_explained() {
        let outcome = outcome(
            "tools-list",
            vec![
                check("fine", Status::Success, ""),
                check("order", Status::Warning, "differs"),
                check("absent", Status::Skipped, "not there"),
            ],
        );
        assert_eq!(outcome.counts(), Counts { passed: 1, failed: 0, warnings: 1, skipped: 1 });
        assert_eq!(outcome.problems(&[]), ["warning: order: differs", "skipped: absent: not there"]);
        let explain = |scenario, check| Explained { scenario, check, why: "so be it" };
        assert!(outcome.problems(&[explain("tools-list", "order"), explain("tools-list", "absent")]).is_empty());
        assert_eq!(outcome.problems(&[explain("ping", "order"), explain("tools-list", "absent")]).len(), 1);
    }

    #[test]
    fn failures_and_trouble_are_problems() {
        let mut outcome = outcome("ping", vec![check("pong", Status::Failure, "no answer")]);
        outcome.trouble = Some("it took too long".to_owned());
        assert_eq!(outcome.problems(&[]), ["failed: pong: no answer", "it took too long"]);
    }

    #[test]
    fn the_result_of_a_scenario_is_not_taken_for_that_of_another() {
        let home = std::env::temp_dir().join(format!("turms-xtask-{}-results", std::process::id()));
        let _ = fs::remove_dir_all(&home);
        let write = |name: &str, id: &str| {
            fs::create_dir_all(home.join(name)).unwrap();
            let text = format!(r#"[{{"id":"{id}","description":"","status":"SUCCESS"}}]"#);
            fs::write(home.join(name).join("checks.json"), text).unwrap();
        };
        write("server-prompts-get-simple-2026-11-16T05-59-28-492Z", "long");
        write("server-prompts-get-2026-11-16T05-59-28-492Z", "short");
        write("auth/dpop-2026-11-16T05-59-28-492Z", "nested");

        let id = |role, scenario| read(&home, role, scenario).map(|checks| checks[0].id.clone());
        assert_eq!(id(Role::Server, "prompts-get").unwrap(), "short");
        assert_eq!(id(Role::Server, "prompts-get-simple").unwrap(), "long");
        assert_eq!(id(Role::Client, "auth/dpop").unwrap(), "nested");
        assert!(id(Role::Server, "prompts").unwrap_err().starts_with("no result was written"));
        assert!(id(Role::Client, "other/dpop").unwrap_err().starts_with("no result was written"));
        fs::remove_dir_all(home).unwrap();
    }
}
