//! What was typed after `turms`.

use std::error::Error;
use std::ffi::OsString;
use std::fmt;

/// What the command was asked to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Help,
    Version,
}

/// Reads the arguments, without the program's own name.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Action, UnknownArgument> {
    let mut args = args.into_iter();
    let Some(first) = args.next() else {
        return Ok(Action::Help);
    };
    let action = match first.to_str() {
        Some("help" | "--help" | "-h") => Action::Help,
        Some("--version" | "-V") => Action::Version,
        _ => return Err(UnknownArgument(first)),
    };
    match args.next() {
        None => Ok(action),
        Some(extra) => Err(UnknownArgument(extra)),
    }
}

/// An argument that means nothing where it stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnknownArgument(OsString);

impl fmt::Display for UnknownArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Escaped, because an argument can hold what would steer the terminal.
        write!(f, "unknown argument {:?}", self.0)
    }
}

impl Error for UnknownArgument {}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_all(args: &[&str]) -> Result<Action, UnknownArgument> {
        parse(args.iter().map(OsString::from))
    }

    #[test]
    fn no_argument_asks_for_help() {
        assert_eq!(parse_all(&[]), Ok(Action::Help));
    }

    #[test]
    fn help_and_version_have_their_usual_spellings() {
        for spelling in ["help", "--help", "-h"] {
            assert_eq!(parse_all(&[spelling]), Ok(Action::Help));
        }
        for spelling in ["--version", "-V"] {
            assert_eq!(parse_all(&[spelling]), Ok(Action::Version));
        }
    }

    #[test]
    fn the_argument_that_is_not_known_is_the_one_named() {
        let error = parse_all(&["--help", "--frobnicate"]).unwrap_err();
        assert_eq!(error.to_string(), r#"unknown argument "--frobnicate""#);
    }

    #[test]
    fn control_characters_are_not_repeated_to_the_terminal() {
        let error = parse_all(&["\u{1b}[2J"]).unwrap_err();
        assert_eq!(error.to_string(), r#"unknown argument "\u{1b}[2J""#);
    }
}
