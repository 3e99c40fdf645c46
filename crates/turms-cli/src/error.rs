//! How the command ends: one number for scripts, and words for people.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use turms::proto::ErrorObject;

/// How the command ended, as scripts see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Something on this machine failed, such as writing a file.
    Failure = 1,
    /// What was typed cannot be right; nothing was sent.
    Usage = 2,
    /// There is no way to the server.
    Connect = 3,
    /// The server wants credentials.
    Unauthorized = 4,
    /// The server answered with an error, or with something that is no answer.
    Protocol = 5,
    /// The tool ran and said that it failed.
    Tool = 6,
    /// The server did not answer in time.
    Timeout = 7,
    /// Ctrl-C.
    Interrupted = 130,
}

impl Exit {
    /// The table of `--help` and of the manual page.
    pub(crate) const TABLE: &'static str = "\
Exit status:
  0    done
  1    something on this machine failed, such as writing a file
  2    usage: what was typed cannot be right, and nothing was sent
  3    cannot connect: no such program, no such address, or the server went away
  4    authorization needed
  5    protocol error: the server answered with an error, or with no valid answer
  6    tool error: the tool ran and said that it failed
  7    timeout
  130  interrupted";
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why something was not done: what happened, why, and what to try.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    message: String,
    causes: Vec<String>,
    hints: Vec<String>,
    /// The error that the server answered with, as JSON.
    answer: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), causes: Vec::new(), hints: Vec::new(), answer: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// With an error and all that caused it.
    pub(crate) fn of(exit: Exit, error: &dyn Error) -> Self {
        Self::new(exit, error.to_string()).caused_by(error.source())
    }

    /// With why, down to the first cause.
    pub(crate) fn caused_by(mut self, error: Option<&dyn Error>) -> Self {
        let mut next = error;
        while let Some(error) = next {
            let text = error.to_string();
            // Some libraries say the cause in the message, too.
            let said = self.causes.last().unwrap_or(&self.message);
            if !said.contains(&text) {
                self.causes.push(text);
            }
            next = error.source();
        }
        self
    }

    /// With one more cause, in words.
    pub(crate) fn because(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// With one more thing to try.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub(crate) fn hint_if(self, hint: Option<impl Into<String>>) -> Self {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    /// With the error that the server answered with.
    pub(crate) fn answered(mut self, error: &ErrorObject) -> Self {
        self.answer = serde_json::to_string(&serde_json::json!({ "error": error })).ok();
        self
    }

    /// The error that the server answered with, as programs want it.
    pub(crate) fn answer(&self) -> Option<&str> {
        self.answer.as_deref()
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn causes(&self) -> &[String] {
        &self.causes
    }

    pub(crate) fn hints(&self) -> &[String] {
        &self.hints
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// What a command comes to.
pub(crate) type Done<T = ()> = Result<T, Failure>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_stands_in_the_documentation() {
        assert!(include_str!("../README.md").contains(Exit::TABLE));
    }

    #[test]
    fn the_table_has_every_number() {
        for exit in [
            Exit::Failure,
            Exit::Usage,
            Exit::Connect,
            Exit::Unauthorized,
            Exit::Protocol,
            Exit::Tool,
            Exit::Timeout,
            Exit::Interrupted,
        ] {
            assert!(Exit::TABLE.contains(&format!("\n  {:<3}  ", exit as u8)), "{exit:?}");
        }
    }

    #[test]
    fn a_cause_that_the_message_names_already_is_not_told_twice() {
        let inner = std::io::Error::other("no way");
        let failure = Failure::new(Exit::Failure, "cannot: no way").caused_by(Some(&inner));
        assert_eq!(failure.causes(), [""; 0]);
        let failure = Failure::new(Exit::Failure, "cannot").caused_by(Some(&inner));
        assert_eq!(failure.causes(), ["no way"]);
    }
}
