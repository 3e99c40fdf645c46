//! The error of a command: an exit status for scripts, a message with hints for people.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use turms::ErrorObject;

/// Exit status of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    /// A local operation failed, such as writing a file.
    Failure = 1,
    /// The arguments are invalid; nothing was sent.
    Usage = 2,
    /// There is no connection to the server.
    Connect = 3,
    /// The server requires a login, or rights that the credentials do not have.
    Unauthorized = 4,
    /// The server sent an error response or an invalid response.
    Protocol = 5,
    /// The tool ran and reported an error.
    Tool = 6,
    /// The server did not respond in time.
    Timeout = 7,
    /// Ctrl-C.
    Interrupted = 130,
}

impl ExitStatus {
    /// Table of the exit status for `--help` and the manual page.
    pub(crate) const TABLE: &'static str = "\
Exit status:
  0    success
  1    local failure, such as a file that cannot be written
  2    usage: invalid arguments; nothing was sent
  3    cannot connect: no such program, unreachable host, or connection closed
  4    authorization required: no login, or rights are missing
  5    protocol error: an error response, or an invalid response
  6    tool error: the tool ran and reported an error
  7    timeout
  130  interrupted";
}

impl From<ExitStatus> for ExitCode {
    fn from(exit: ExitStatus) -> Self {
        Self::from(exit as u8)
    }
}

/// Error of a command: the message, its causes, and hints for the user.
#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) exit: ExitStatus,
    message: String,
    causes: Vec<String>,
    hints: Vec<String>,
    /// Error response of the server, as JSON.
    response: Option<String>,
}

impl CliError {
    pub(crate) fn new(exit: ExitStatus, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), causes: Vec::new(), hints: Vec::new(), response: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitStatus::Usage, message)
    }

    /// Creates an error from another one and its causes.
    pub(crate) fn of(exit: ExitStatus, error: &dyn Error) -> Self {
        Self::new(exit, error.to_string()).caused_by(error.source())
    }

    /// Adds an error and its sources as causes.
    pub(crate) fn caused_by(mut self, error: Option<&dyn Error>) -> Self {
        let mut next = error;
        while let Some(error) = next {
            let text = error.to_string();
            // Some libraries repeat the cause in the message.
            let previous = self.causes.last().unwrap_or(&self.message);
            if !previous.contains(&text) {
                self.causes.push(text);
            }
            next = error.source();
        }
        self
    }

    /// Adds a cause.
    pub(crate) fn because(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// Adds a hint: something the user can try.
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

    /// Adds the error response of the server.
    pub(crate) fn error_response(mut self, error: &ErrorObject) -> Self {
        self.response = serde_json::to_string(&serde_json::json!({ "error": error })).ok();
        self
    }

    /// Returns the error response of the server, as JSON.
    pub(crate) fn response(&self) -> Option<&str> {
        self.response.as_deref()
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

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Result of a command.
pub(crate) type CliResult<T = ()> = Result<T, CliError>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_contains_the_table() {
        assert!(include_str!("../README.md").contains(ExitStatus::TABLE));
    }

    #[test]
    fn the_table_has_every_number() {
        for exit in [
            ExitStatus::Failure,
            ExitStatus::Usage,
            ExitStatus::Connect,
            ExitStatus::Unauthorized,
            ExitStatus::Protocol,
            ExitStatus::Tool,
            ExitStatus::Timeout,
            ExitStatus::Interrupted,
        ] {
            assert!(ExitStatus::TABLE.contains(&format!("\n  {:<3}  ", exit as u8)), "{exit:?}");
        }
    }

    #[test]
    fn a_cause_that_the_message_contains_is_not_repeated() {
        let inner = std::io::Error::other("refused");
        let failure = CliError::new(ExitStatus::Failure, "cannot: refused").caused_by(Some(&inner));
        assert_eq!(failure.causes(), [""; 0]);
        let failure = CliError::new(ExitStatus::Failure, "cannot").caused_by(Some(&inner));
        assert_eq!(failure.causes(), ["refused"]);
    }
}
