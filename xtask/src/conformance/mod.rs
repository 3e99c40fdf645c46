//! The official conformance suite, run against the programs in `conformance/`.
//!
//! The suite lists the scenarios and their revisions; none is left out because it fails. Its results are below
//! `target/conformance/results/`.

mod browser;
mod job;
mod plan;
mod report;
mod results;
mod suite;

use std::env;
use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::num::NonZero;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use self::job::Fixtures;
use self::plan::{Job, Plan};
use self::report::Report;
use self::results::{Counts, EXPLAINED, Outcome};
use self::suite::{ListError, Node, SUITES};
use crate::packages::InstallError;
use crate::program::{self, RunError};

pub(crate) use self::plan::Filter;
pub(crate) use self::suite::Role;

const RESULTS: &str = "conformance/RESULTS.md";

/// Runs the selected scenarios and prints the results. Returns `true` if there is no problem.
pub(crate) fn run(filter: &Filter) -> Result<bool, ConformanceError> {
    let node = Node::install()?;
    program::run(&mut program::command(Fixtures::BUILD))?;
    let fixtures = Fixtures::find()?;
    let catalogs = SUITES.iter().map(|suite| node.catalog(suite)).collect::<Result<Vec<_>, _>>()?;
    let plan = Plan::new(&catalogs, filter);
    if plan.jobs.is_empty() {
        return Err(ConformanceError::Nothing(filter.to_string()));
    }
    forget_results()?;
    let outcomes = run_all(&plan.jobs, |job| job.run(&node, &fixtures));
    let suites = catalogs.into_iter().map(|catalog| catalog.version).collect();
    let report = Report { suites, outcomes };
    print!("{}", report.table());
    if filter.is_all() {
        let note = keep(Path::new(RESULTS), &report.markdown(), env::var_os("CI").is_some_and(|ci| ci == "true"))?;
        if let Some(note) = note {
            eprintln!("note: {RESULTS} {note}");
        }
    }
    eprint!("{}", report.problems());
    Ok(report.is_success())
}

fn forget_results() -> io::Result<()> {
    match fs::remove_dir_all(job::results_directory()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Most jobs that run side by side.
const MAX_JOBS: usize = 4;

/// Runs jobs side by side, as many as there are cores.
fn run_all(jobs: &[Job], run: impl Fn(&Job) -> Vec<Outcome> + Sync) -> Vec<Outcome> {
    run_some(jobs, thread::available_parallelism().map_or(2, NonZero::get).min(MAX_JOBS), run)
}

/// Runs jobs, at most `at_once` at a time. The outcomes are in the order of the jobs.
fn run_some(jobs: &[Job], at_once: usize, run: impl Fn(&Job) -> Vec<Outcome> + Sync) -> Vec<Outcome> {
    let next = Mutex::new(jobs.iter().enumerate());
    let done = Mutex::new(Vec::new());
    // Apart from the loop, which would hold the lock for as long as the job takes.
    let take = || locked(&next).next();
    let work = || {
        while let Some((place, job)) = take() {
            let outcomes = run(job);
            eprintln!("=== conformance: {}", Progress { job, outcomes: &outcomes });
            locked(&done).push((place, outcomes));
        }
    };
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(work);
        }
    });
    let mut done = std::mem::take(&mut *locked(&done));
    done.sort_unstable_by_key(|(place, _)| *place);
    done.into_iter().flat_map(|(_, outcomes)| outcomes).collect()
}

/// A panic of a job ends the whole run, so that a poisoned lock does not matter.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

struct Progress<'a> {
    job: &'a Job,
    outcomes: &'a [Outcome],
}

impl fmt::Display for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Job { role, revision, scenarios, .. } = self.job;
        match scenarios.as_slice() {
            [one] => write!(f, "{role} {revision} {one}: ")?,
            all => write!(f, "{role} {revision}, {} scenarios: ", all.len())?,
        }
        let total: Counts = self.outcomes.iter().map(Outcome::counts).sum();
        let is_fine = self.outcomes.iter().all(|outcome| outcome.problems(EXPLAINED).is_empty());
        write!(f, "{total}{}", if is_fine { "" } else { " FAILED" })
    }
}

/// Writes the results, and returns a message. CI writes nothing: a difference to the file is reported there, and is not a
/// failure, because failed checks are errors anyway.
fn keep(path: &Path, results: &str, is_ci: bool) -> io::Result<Option<&'static str>> {
    if fs::read_to_string(path).is_ok_and(|kept| kept == results) {
        return Ok(None);
    }
    if is_ci {
        return Ok(Some("says something else than this run: run `cargo xtask conformance` and commit it"));
    }
    fs::write(path, results)?;
    Ok(Some("is written anew"))
}

/// Error of a run of the suite.
#[derive(Debug)]
pub(crate) enum ConformanceError {
    Install(InstallError),
    Build(RunError),
    List(ListError),
    Nothing(String),
    File(io::Error),
}

impl fmt::Display for ConformanceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Install(error) => error.fmt(f),
            Self::Build(error) => error.fmt(f),
            Self::List(error) => error.fmt(f),
            Self::Nothing(wanted) => write!(f, "nothing to run: the suite has no {wanted}"),
            Self::File(_) => f.write_str("cannot keep the results"),
        }
    }
}

impl Error for ConformanceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Install(error) => error.source(),
            Self::Build(error) => error.source(),
            Self::File(error) => Some(error),
            Self::List(_) | Self::Nothing(_) => None,
        }
    }
}

impl From<InstallError> for ConformanceError {
    fn from(error: InstallError) -> Self {
        Self::Install(error)
    }
}

impl From<RunError> for ConformanceError {
    fn from(error: RunError) -> Self {
        Self::Build(error)
    }
}

impl From<ListError> for ConformanceError {
    fn from(error: ListError) -> Self {
        Self::List(error)
    }
}

impl From<io::Error> for ConformanceError {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

#[cfg(test)]
mod tests {
    use super::plan::Scope;
    use super::results::tests::outcome;
    use super::*;

    fn job(scenario: &str) -> Job {
        Job {
            suite: 0,
            role: Role::Server,
            revision: "2026-07-28".to_owned(),
            scope: Scope::Scenario,
            scenarios: vec![scenario.to_owned()],
        }
    }

    #[test]
    fn jobs_run_side_by_side() {
        let meeting = std::sync::Barrier::new(2);
        let jobs = [job("one"), job("two")];
        let outcomes = run_some(&jobs, 2, |_| {
            meeting.wait();
            Vec::new()
        });
        assert!(outcomes.is_empty());
    }

    #[test]
    fn outcomes_come_in_the_order_of_the_jobs() {
        let names: Vec<String> = (0..50).map(|number| number.to_string()).collect();
        let jobs: Vec<Job> = names.iter().map(|name| job(name)).collect();
        let outcomes = run_some(&jobs, 4, |job| vec![outcome(&job.scenarios[0], Vec::new())]);
        assert_eq!(
            outcomes.iter().map(|outcome| &outcome.scenario).collect::<Vec<_>>(),
            names.iter().collect::<Vec<_>>()
        );
    }

    #[test]
    fn results_that_changed_are_written_but_not_in_ci() {
        let path = env::temp_dir().join(format!("turms-xtask-{}-kept.md", std::process::id()));
        let _ = fs::remove_file(&path);
        assert!(keep(&path, "one", true).unwrap().unwrap().contains("commit it"));
        assert!(!path.exists());

        assert_eq!(keep(&path, "one", false).unwrap(), Some("is written anew"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        assert_eq!(keep(&path, "one", false).unwrap(), None);
        assert_eq!(keep(&path, "one", true).unwrap(), None);
        fs::remove_file(path).unwrap();
    }
}
