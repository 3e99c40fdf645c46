//! Validation tests: a table of every keyword and dialect, comparison with another implementation, and the public
//! suite.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod budget;
mod fuzz;
mod hostile;
mod keyword;
mod oracle;
mod refusal;
mod suite;

use turms_proto::RawJson;
use turms_schema::{DEFAULT_MAX_VALIDATION_STEPS, Validator};

/// Returns the messages of a check; empty if the value is valid.
trait Violations {
    fn violations(&self, value: &RawJson, root: &str) -> Vec<String>;

    fn violations_within(&self, value: &RawJson, root: &str, max_steps: u64) -> Vec<String>;
}

impl Violations for Validator {
    fn violations(&self, value: &RawJson, root: &str) -> Vec<String> {
        self.violations_within(value, root, DEFAULT_MAX_VALIDATION_STEPS)
    }

    fn violations_within(&self, value: &RawJson, root: &str, max_steps: u64) -> Vec<String> {
        self.check_within(value, max_steps).map_or_else(|error| error.messages(root), |_| Vec::new())
    }
}
