//! What was typed after `cargo xtask`.

use std::error::Error;
use std::ffi::OsString;
use std::fmt;

pub(crate) const USAGE: &str = "\
Usage: cargo xtask <task>

Tasks:
  test    Install what the tests need if it is missing, then run the full test:
          formatting, lints, tests, doc tests, documentation and benches
  peers   Install the servers in other languages that the tests talk to
  help    Print this help
";

/// What xtask can be asked to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Test,
    Peers,
    Help,
}

/// Reads the arguments, without the program's own name.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Task, UsageError> {
    let mut args = args.into_iter();
    let first = args.next().ok_or(UsageError::NoTask)?;
    let task = match first.to_str() {
        Some("test") => Task::Test,
        Some("peers") => Task::Peers,
        Some("help" | "--help" | "-h") => Task::Help,
        _ => return Err(UsageError::UnknownTask(first)),
    };
    match args.next() {
        None => Ok(task),
        Some(extra) => Err(UsageError::Unexpected(extra)),
    }
}

/// Why the arguments make no sense.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UsageError {
    NoTask,
    UnknownTask(OsString),
    Unexpected(OsString),
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTask => f.write_str("no task was named"),
            Self::UnknownTask(name) => write!(f, "there is no task {name:?}"),
            Self::Unexpected(argument) => write!(f, "unexpected argument {argument:?}"),
        }
    }
}

impl Error for UsageError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_all(args: &[&str]) -> Result<Task, UsageError> {
        parse(args.iter().map(OsString::from))
    }

    #[test]
    fn test_is_a_task() {
        assert_eq!(parse_all(&["test"]), Ok(Task::Test));
    }

    #[test]
    fn peers_is_a_task() {
        assert_eq!(parse_all(&["peers"]), Ok(Task::Peers));
    }

    #[test]
    fn help_has_three_spellings() {
        for spelling in ["help", "--help", "-h"] {
            assert_eq!(parse_all(&[spelling]), Ok(Task::Help));
        }
    }

    #[test]
    fn a_task_must_be_named() {
        assert_eq!(parse_all(&[]), Err(UsageError::NoTask));
    }

    #[test]
    fn an_unknown_task_is_named_in_the_error() {
        let error = parse_all(&["tset"]).unwrap_err();
        assert_eq!(error.to_string(), r#"there is no task "tset""#);
    }

    #[test]
    fn nothing_may_follow_the_task() {
        let error = parse_all(&["test", "fast"]).unwrap_err();
        assert_eq!(error.to_string(), r#"unexpected argument "fast""#);
    }
}
