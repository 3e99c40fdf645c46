//! The arguments of `cargo xtask`.

use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use crate::api;
use crate::conformance::{Filter, Role};

pub(crate) const USAGE: &str = "\
Usage: cargo xtask <task>

Tasks:
  test [--quick]
          Install what the tests need if it is missing, then run the full test:
          formatting, lints, tests, conformance, doc tests, documentation, benches
          and the checks of check-all; --quick runs formatting, lints and the tests
          that need nothing but Rust
  check-all
          Check licences, sources and duplicate versions of dependencies, each
          feature of turms alone and the usual sets, that fuzz/ compiles, and the
          public API as by api --check. Also check that tests compare all
          documented defaults with the code
  api [--check | --counts]
          Write the public API of turms to api/turms.txt, a line for each item;
          --check fails on a difference instead. Checks foreign types, the first
          words of doc comments, and the doc aliases of api/aliases.toml, too.
          --counts prints the numbers of types, functions and documented items
  programs [FILE...]
          Count lines, imported names, and the types and attributes of turms to know
          in each FILE (default: examples/programs/*.rs)
  bench [ROUNDS] [--against COMMIT [--instructions]]
          Build the benchmark servers and measure them in ROUNDS rounds (default 5);
          writes benches/RESULTS.md. With --against, build the server of another
          commit too, measure both in interleaved rounds and print the ratio of each
          row; --instructions adds instruction counts by valgrind
  peers   Install the servers in other languages that the tests talk to
  conformance [--server | --client | --authorization-server]
              [--spec-version REVISION] [--scenario NAME]
          Run the official conformance suite, all of it or what is named;
          all of it writes conformance/RESULTS.md
  command-bench
          Build the turms command as it is shipped, and print its startup time,
          size and memory, beside those of the MCP Inspector if it is installed
  help    Print this help
";

/// A task of xtask.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Test(Extent),
    CheckAll,
    Api(api::Mode),
    Programs(Vec<PathBuf>),
    Bench(BenchOptions),
    Peers,
    Conformance(Filter),
    CommandBench,
    Help,
}

/// The part of the full test to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Full,
    Quick,
}

/// Options of `bench`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BenchOptions {
    pub(crate) rounds: usize,
    pub(crate) against: Option<Against>,
}

/// The commit to compare with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Against {
    pub(crate) commit: String,
    pub(crate) instructions: bool,
}

/// Reads the arguments, without the program's own name.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Task, UsageError> {
    let mut args = args.into_iter();
    let first = args.next().ok_or(UsageError::NoTask)?;
    let task = match first.to_str() {
        Some("test") => return test(args),
        Some("check-all") => Task::CheckAll,
        Some("api") => return api(args),
        Some("programs") => return Ok(Task::Programs(args.map(PathBuf::from).collect())),
        Some("bench") => return bench(args),
        Some("peers") => Task::Peers,
        Some("conformance") => return filter(args).map(Task::Conformance),
        Some("command-bench") => Task::CommandBench,
        Some("help" | "--help" | "-h") => Task::Help,
        _ => return Err(UsageError::UnknownTask(first)),
    };
    match args.next() {
        None => Ok(task),
        Some(extra) => Err(UsageError::Unexpected(extra)),
    }
}

/// Reads the filter of conformance scenarios.
fn filter(mut args: impl Iterator<Item = OsString>) -> Result<Filter, UsageError> {
    let mut filter = Filter::default();
    while let Some(arg) = args.next() {
        let is_new = match arg.to_str() {
            Some("--server") => filter.role.replace(Role::Server).is_none(),
            Some("--client") => filter.role.replace(Role::Client).is_none(),
            Some("--authorization-server") => filter.role.replace(Role::AuthorizationServer).is_none(),
            Some("--spec-version") => filter.revision.replace(value(&arg, args.next())?).is_none(),
            Some("--scenario") => filter.scenario.replace(value(&arg, args.next())?).is_none(),
            _ => false,
        };
        if !is_new {
            return Err(UsageError::Unexpected(arg));
        }
    }
    Ok(filter)
}

fn value(option: &OsString, value: Option<OsString>) -> Result<String, UsageError> {
    value.and_then(|value| value.into_string().ok()).ok_or_else(|| UsageError::NoValue(option.clone()))
}

fn test(mut args: impl Iterator<Item = OsString>) -> Result<Task, UsageError> {
    let extent = match args.next() {
        None => Extent::Full,
        Some(arg) if arg == "--quick" => Extent::Quick,
        Some(extra) => return Err(UsageError::Unexpected(extra)),
    };
    match args.next() {
        None => Ok(Task::Test(extent)),
        Some(extra) => Err(UsageError::Unexpected(extra)),
    }
}

fn api(mut args: impl Iterator<Item = OsString>) -> Result<Task, UsageError> {
    let mode = match args.next() {
        None => api::Mode::Write,
        Some(arg) if arg == "--check" => api::Mode::Check,
        Some(arg) if arg == "--counts" => api::Mode::Count,
        Some(extra) => return Err(UsageError::Unexpected(extra)),
    };
    match args.next() {
        None => Ok(Task::Api(mode)),
        Some(extra) => Err(UsageError::Unexpected(extra)),
    }
}

fn bench(mut args: impl Iterator<Item = OsString>) -> Result<Task, UsageError> {
    let (mut rounds, mut commit, mut instructions) = (None, None, None);
    while let Some(arg) = args.next() {
        let is_new = match arg.to_str() {
            Some("--against") => commit.replace(value(&arg, args.next())?).is_none(),
            Some("--instructions") => instructions.replace(arg.clone()).is_none(),
            Some(count) => match count.parse() {
                Ok(count @ 1..) => rounds.replace(count).is_none(),
                _ => false,
            },
            None => false,
        };
        if !is_new {
            return Err(UsageError::Unexpected(arg));
        }
    }
    let against = match (commit, instructions) {
        (Some(commit), instructions) => Some(Against { commit, instructions: instructions.is_some() }),
        (None, Some(option)) => return Err(UsageError::Unexpected(option)),
        (None, None) => None,
    };
    Ok(Task::Bench(BenchOptions { rounds: rounds.unwrap_or(5), against }))
}

/// Error for invalid arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UsageError {
    NoTask,
    UnknownTask(OsString),
    Unexpected(OsString),
    NoValue(OsString),
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTask => f.write_str("no task was named"),
            Self::UnknownTask(name) => write!(f, "there is no task {name:?}"),
            Self::Unexpected(argument) => write!(f, "unexpected argument {argument:?}"),
            Self::NoValue(option) => write!(f, "{option:?} needs a value"),
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
    fn the_test_is_full_or_quick() {
        assert_eq!(parse_all(&["test"]), Ok(Task::Test(Extent::Full)));
        assert_eq!(parse_all(&["test", "--quick"]), Ok(Task::Test(Extent::Quick)));
        assert!(parse_all(&["test", "--quick", "--quick"]).is_err());
    }

    #[test]
    fn check_all_is_a_task() {
        assert_eq!(parse_all(&["check-all"]), Ok(Task::CheckAll));
    }

    #[test]
    fn the_api_is_written_checked_or_counted() {
        assert_eq!(parse_all(&["api"]), Ok(Task::Api(api::Mode::Write)));
        assert_eq!(parse_all(&["api", "--check"]), Ok(Task::Api(api::Mode::Check)));
        assert_eq!(parse_all(&["api", "--counts"]), Ok(Task::Api(api::Mode::Count)));
        assert!(parse_all(&["api", "--chekc"]).is_err() && parse_all(&["api", "--check", "x"]).is_err());
    }

    #[test]
    fn programs_are_named_or_all() {
        assert_eq!(parse_all(&["programs"]), Ok(Task::Programs(Vec::new())));
        assert_eq!(parse_all(&["programs", "a.rs"]), Ok(Task::Programs(vec![PathBuf::from("a.rs")])));
    }

    #[test]
    fn peers_is_a_task() {
        assert_eq!(parse_all(&["peers"]), Ok(Task::Peers));
    }

    #[test]
    fn command_bench_is_a_task() {
        assert_eq!(parse_all(&["command-bench"]), Ok(Task::CommandBench));
    }

    #[test]
    fn conformance_takes_filters() {
        assert_eq!(parse_all(&["conformance"]), Ok(Task::Conformance(Filter::default())));
        let filter = Filter {
            role: Some(Role::Client),
            revision: Some("2025-11-25".to_owned()),
            scenario: Some("sse-retry".to_owned()),
        };
        assert_eq!(
            parse_all(&["conformance", "--client", "--scenario", "sse-retry", "--spec-version", "2025-11-25"]),
            Ok(Task::Conformance(filter))
        );
    }

    #[test]
    fn a_filter_that_makes_no_sense_is_named() {
        for (args, expected) in [
            (&["conformance", "--srever"][..], r#"unexpected argument "--srever""#),
            (&["conformance", "--server", "--client"], r#"unexpected argument "--client""#),
            (&["conformance", "--scenario"], r#""--scenario" needs a value"#),
        ] {
            assert_eq!(parse_all(args).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn bench_takes_a_number_of_rounds() {
        let rounds = |rounds| Ok(Task::Bench(BenchOptions { rounds, against: None }));
        assert_eq!(parse_all(&["bench"]), rounds(5));
        assert_eq!(parse_all(&["bench", "9"]), rounds(9));
        assert!(parse_all(&["bench", "0"]).is_err() && parse_all(&["bench", "x"]).is_err());
        assert!(parse_all(&["bench", "1", "2"]).is_err());
    }

    #[test]
    fn bench_compares_with_a_commit() {
        let against = |rounds, instructions| {
            let against = Some(Against { commit: "640c08b".to_owned(), instructions });
            Ok(Task::Bench(BenchOptions { rounds, against }))
        };
        assert_eq!(parse_all(&["bench", "--against", "640c08b"]), against(5, false));
        assert_eq!(parse_all(&["bench", "3", "--against", "640c08b", "--instructions"]), against(3, true));
        assert_eq!(parse_all(&["bench", "--against"]).unwrap_err().to_string(), r#""--against" needs a value"#);
        assert_eq!(
            parse_all(&["bench", "--instructions"]).unwrap_err().to_string(),
            r#"unexpected argument "--instructions""#
        );
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
