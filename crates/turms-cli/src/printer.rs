//! Output: data on standard output, everything else on standard error.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use serde::Serialize;

use crate::error::{CliError, CliResult, ExitStatus};
use crate::text::{Style, StyledText, escape_json, escape_line, json_line};

/// Amount of messages on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    /// Errors only.
    Quiet,
    Normal,
    /// The log messages and the standard error of the server.
    Verbose,
    /// The log messages of the library, too.
    Debug,
    /// Every request and every response, too.
    Trace,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum ColourChoice {
    /// On terminals
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Writes all output. Clones share their state.
#[derive(Clone)]
pub(crate) struct Printer(Arc<PrinterState>);

struct PrinterState {
    json: bool,
    verbosity: Verbosity,
    colour_out: bool,
    colour_err: bool,
    /// Receives messages while a line is being edited.
    external: RwLock<Option<PrintFn>>,
    /// `true` after the reader of standard output has closed its end.
    stdout_closed: AtomicBool,
    /// `true` while a progress line is on the terminal.
    progress_shown: AtomicBool,
}

type PrintFn = Box<dyn Fn(String) + Send + Sync>;

impl Printer {
    pub(crate) fn new(json: bool, verbosity: Verbosity, colour: ColourChoice) -> Self {
        let allowed = |is_terminal: bool| match colour {
            ColourChoice::Always => true,
            ColourChoice::Never => false,
            ColourChoice::Auto => is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        };
        Self(Arc::new(PrinterState {
            json,
            verbosity,
            colour_out: allowed(io::stdout().is_terminal()),
            colour_err: allowed(io::stderr().is_terminal()),
            external: RwLock::new(None),
            stdout_closed: AtomicBool::new(false),
            progress_shown: AtomicBool::new(false),
        }))
    }

    /// Returns `true` if data is printed as JSON (`--json`).
    pub(crate) fn is_json(&self) -> bool {
        self.0.json
    }

    /// Returns `true` if the reader of standard output has closed its end, so that the command can stop.
    pub(crate) fn is_stdout_closed(&self) -> bool {
        self.0.stdout_closed.load(Ordering::Relaxed)
    }

    /// Returns `true` if messages of this level are printed.
    pub(crate) fn shows(&self, verbosity: Verbosity) -> bool {
        self.0.verbosity >= verbosity
    }

    /// Sends messages to `print` from now on, which does not break a line that is being edited.
    pub(crate) fn set_external_printer(&self, print: impl Fn(String) + Send + Sync + 'static) {
        *self.0.external.write() = Some(Box::new(print));
    }

    /// Writes messages to standard error again, before the line editor is dropped.
    pub(crate) fn clear_external_printer(&self) {
        *self.0.external.write() = None;
    }

    /// Prints data for people: one or more lines.
    pub(crate) fn line(&self, text: impl Into<StyledText>) -> CliResult {
        let mut rendered = text.into().render(self.0.colour_out);
        rendered.push('\n');
        self.write(rendered.as_bytes())
    }

    /// Prints text for people: on standard output, or on standard error with `--json`.
    pub(crate) fn line_or_note(&self, text: impl Into<StyledText>) -> CliResult {
        if !self.is_json() {
            return self.line(text);
        }
        self.note(text);
        Ok(())
    }

    /// Prints data for programs: one JSON value on one line.
    pub(crate) fn json(&self, value: &impl Serialize) -> CliResult {
        let json = serde_json::to_string(value)
            .map_err(|error| CliError::new(ExitStatus::Failure, format!("cannot encode as JSON: {error}")))?;
        self.json_text(&json)
    }

    /// Prints encoded JSON on one line.
    pub(crate) fn json_text(&self, json: &str) -> CliResult {
        self.write(format!("{}\n", escape_json(&json_line(json))).as_bytes())
    }

    /// Writes bytes to standard output.
    pub(crate) fn write(&self, bytes: &[u8]) -> CliResult {
        self.clear_progress();
        let mut stdout = io::stdout().lock();
        match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            Ok(()) => Ok(()),
            // A closed pipe is not an error: the reader has read all that it wanted.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.0.stdout_closed.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => Err(CliError::new(ExitStatus::Failure, format!("cannot write to standard output: {error}"))),
        }
    }

    /// Prints a message, unless `--quiet` is set.
    pub(crate) fn note(&self, text: impl Into<StyledText>) {
        if self.shows(Verbosity::Normal) {
            self.write_stderr(&text.into());
        }
    }

    /// Prints a message, also with `--quiet`. For the context of prompts.
    pub(crate) fn always(&self, text: impl Into<StyledText>) {
        self.write_stderr(&text.into());
    }

    /// Prints a message at this verbosity and above.
    pub(crate) fn detail(&self, verbosity: Verbosity, text: impl Into<StyledText>) {
        if self.shows(verbosity) {
            self.write_stderr(&text.into());
        }
    }

    /// Prints a warning.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        self.note(StyledText::new().with(Style::Warning, "warning").plain(": ").plain(text));
    }

    /// Prints an error. With `--json`, an error response of the server is printed as data, too.
    pub(crate) fn error(&self, error: &CliError) {
        if let (true, Some(response)) = (self.is_json(), error.response()) {
            // If standard output fails, the message below still goes to standard error.
            let _ = self.json_text(response);
        }
        let mut text = StyledText::new().with(Style::Error, "error").plain(": ").plain(error.message());
        for cause in error.causes() {
            text = text.plain("\n  caused by: ").plain(cause);
        }
        for hint in error.hints() {
            text = text.plain("\n").with(Style::Hint, "hint").plain(": ").plain(hint);
        }
        self.write_stderr(&text);
    }

    /// Replaces the progress line. Returns `false` if standard error is not a terminal.
    pub(crate) fn progress(&self, line: &str) -> bool {
        if !io::stderr().is_terminal() || !self.shows(Verbosity::Normal) {
            return false;
        }
        self.0.progress_shown.store(true, Ordering::Relaxed);
        let _ = write!(io::stderr().lock(), "\r\x1b[K{}", escape_line(line));
        true
    }

    /// Removes the progress line.
    pub(crate) fn clear_progress(&self) {
        if self.0.progress_shown.swap(false, Ordering::Relaxed) {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }

    /// Writes to standard error. A failure is ignored: the exit status remains.
    fn write_stderr(&self, text: &StyledText) {
        self.clear_progress();
        let mut rendered = text.render(self.0.colour_err);
        rendered.push('\n');
        match &*self.0.external.read() {
            Some(print) => print(rendered),
            None => drop(io::stderr().lock().write_all(rendered.as_bytes())),
        }
    }
}

impl fmt::Debug for Printer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Printer")
            .field("json", &self.0.json)
            .field("verbosity", &self.0.verbosity)
            .finish_non_exhaustive()
    }
}
