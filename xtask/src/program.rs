//! Child processes.

use std::error::Error;
use std::fmt;
use std::io;
use std::process::{Command, ExitStatus, Stdio};

/// Creates a command from a line. Words are separated by spaces, without quoting.
pub(crate) fn command(line: &str) -> Command {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    command
}

/// Returns `true` if the program starts with these arguments and succeeds.
pub(crate) fn works(program: &str, args: &str) -> bool {
    Command::new(program)
        .args(args.split_whitespace())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs the command and waits for it. Its output is inherited. Its input is empty, so that it cannot wait for an answer.
pub(crate) fn run(command: &mut Command) -> Result<(), RunError> {
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(RunError::Failed { line: line(command), status }),
        Err(source) => Err(RunError::NotStarted { line: line(command), source }),
    }
}

/// Returns the command line.
pub(crate) fn line(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}

/// Error for a program that did not start or failed.
#[derive(Debug)]
pub(crate) enum RunError {
    NotStarted { line: String, source: io::Error },
    Failed { line: String, status: ExitStatus },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted { line, .. } => write!(f, "cannot start `{line}`"),
            Self::Failed { line, status } => write!(f, "`{line}` failed with {status}"),
        }
    }
}

impl Error for RunError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NotStarted { source, .. } => Some(source),
            Self::Failed { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_reads_back_as_it_was_written() {
        let text = "cargo fmt --all --check";
        assert_eq!(line(&command(text)), text);
    }

    #[test]
    fn a_missing_program_is_told_from_a_failing_one() {
        let missing = run(&mut command("no-such-program-here")).unwrap_err();
        assert!(matches!(missing, RunError::NotStarted { .. }));
        assert_eq!(missing.to_string(), "cannot start `no-such-program-here`");

        let failing = run(&mut command("cargo --no-such-option")).unwrap_err();
        assert!(matches!(failing, RunError::Failed { .. }));
    }

    #[test]
    fn only_a_program_that_succeeds_works() {
        assert!(works("cargo", "--version"));
        assert!(!works("cargo", "--no-such-option"));
        assert!(!works("no-such-program-here", "--version"));
    }
}
