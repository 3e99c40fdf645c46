//! The outcome of each step, in one line.

use std::fmt;
use std::time::Duration;

/// The outcome of a step, with its duration.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outcome {
    Passed(Duration),
    Failed(Duration),
    /// An earlier step failed.
    NotRun,
}

/// The steps of a task in order, each with its outcome.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    steps: Vec<(&'static str, Outcome)>,
}

impl Summary {
    pub(crate) fn push(&mut self, step: &'static str, outcome: Outcome) {
        self.steps.push((step, outcome));
    }

    /// Returns `true` if every step has passed.
    pub(crate) fn is_success(&self) -> bool {
        self.steps.iter().all(|(_, outcome)| matches!(outcome, Outcome::Passed(_)))
    }

    fn total(&self) -> Duration {
        self.steps.iter().map(|(_, outcome)| outcome.time()).sum()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (step, outcome) in &self.steps {
            write!(f, "{step} {outcome} | ")?;
        }
        write!(f, "total {}", Seconds(self.total()))
    }
}

impl Outcome {
    fn time(self) -> Duration {
        match self {
            Self::Passed(time) | Self::Failed(time) => time,
            Self::NotRun => Duration::ZERO,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Passed(time) => write!(f, "ok {}", Seconds(time)),
            Self::Failed(time) => write!(f, "FAILED {}", Seconds(time)),
            Self::NotRun => f.write_str("not run"),
        }
    }
}

struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}s", self.0.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(steps: &[(&'static str, Outcome)]) -> Summary {
        Summary { steps: steps.to_vec() }
    }

    #[test]
    fn a_passed_run_reads_as_one_line() {
        let summary = summary(&[
            ("fmt", Outcome::Passed(Duration::from_millis(1_240))),
            ("clippy", Outcome::Passed(Duration::from_secs(48))),
        ]);
        assert_eq!(summary.to_string(), "fmt ok 1.2s | clippy ok 48.0s | total 49.2s");
        assert!(summary.is_success());
    }

    #[test]
    fn a_failed_run_names_what_failed_and_what_never_ran() {
        let summary = summary(&[
            ("fmt", Outcome::Passed(Duration::from_secs(1))),
            ("clippy", Outcome::Failed(Duration::from_secs(2))),
            ("tests", Outcome::NotRun),
        ]);
        assert_eq!(summary.to_string(), "fmt ok 1.0s | clippy FAILED 2.0s | tests not run | total 3.0s");
        assert!(!summary.is_success());
    }
}
