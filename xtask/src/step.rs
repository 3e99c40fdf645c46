//! A step of a task.

use std::error::Error;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::program;
use crate::summary::Outcome;

/// A function that is run as a part of a step.
type Function = fn() -> Result<(), Box<dyn Error>>;

/// A named list of commands, or a function, that must succeed.
pub(crate) struct Step {
    name: &'static str,
    commands: Vec<Command>,
    function: Option<Function>,
}

impl Step {
    pub(crate) fn new(name: &'static str, commands: Vec<Command>) -> Self {
        Self { name, commands, function: None }
    }

    /// Creates a step that runs a function.
    pub(crate) fn function(name: &'static str, function: Function) -> Self {
        Self { name, commands: Vec::new(), function: Some(function) }
    }

    /// Creates a step of one cargo command; `args` are separated by spaces.
    pub(crate) fn cargo(name: &'static str, args: &str) -> Self {
        let mut cargo = Command::new("cargo");
        cargo.args(args.split_whitespace());
        Self::new(name, vec![cargo])
    }

    /// Sets an environment variable for the step's commands.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        for command in &mut self.commands {
            command.env(name, value);
        }
        self
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the commands one after another. Prints each command, and the error if one fails.
    pub(crate) fn run(&mut self) -> Outcome {
        let (result, time) = timed(|| self.run_all());
        match result {
            Ok(()) => Outcome::Passed(time),
            Err(error) => {
                eprintln!("error: {}: {}", self.name, with_causes(&*error));
                Outcome::Failed(time)
            }
        }
    }

    fn run_all(&mut self) -> Result<(), Box<dyn Error>> {
        for command in &mut self.commands {
            eprintln!("\n=== {}: {}", self.name, program::line(command));
            program::run(command)?;
        }
        if let Some(function) = self.function {
            eprintln!("\n=== {}", self.name);
            function()?;
        }
        Ok(())
    }
}

/// Returns an error with its sources in one line.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[expect(clippy::disallowed_methods, reason = "how long a step took is what this tool reports")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_with_nothing_to_do_passes() {
        assert!(matches!(Step::new("needs", Vec::new()).run(), Outcome::Passed(_)));
    }

    #[test]
    fn the_cause_follows_the_error() {
        let error = program::run(&mut Command::new("no-such-program-here")).unwrap_err();
        let text = with_causes(&error);
        assert!(text.starts_with("cannot start `no-such-program-here`: "), "{text}");
    }
}
