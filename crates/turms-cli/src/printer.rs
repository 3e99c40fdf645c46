//! What is printed, and where: data on standard output, everything else on standard error.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use serde::Serialize;

use crate::error::{Done, Exit, Failure};
use crate::text::{Style, Text, json_line, shown_json, shown_line};

/// The amount of messages beside the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    /// Errors only.
    Quiet,
    Usual,
    /// The log messages and the standard error of the server.
    Talkative,
    /// The log messages of the library, too.
    Debug,
    /// Every request and every answer, too.
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

/// Prints. Clones print to the same place.
#[derive(Clone)]
pub(crate) struct Printer(Arc<Inner>);

struct Inner {
    json: bool,
    verbosity: Verbosity,
    colour_out: bool,
    colour_err: bool,
    /// Takes what is not data while a line is being edited.
    beside: RwLock<Option<Print>>,
    /// `true` after the reader of the data has closed its end.
    unread: AtomicBool,
    /// `true` while a line of progress is on the terminal.
    unfinished: AtomicBool,
}

type Print = Box<dyn Fn(String) + Send + Sync>;

impl Printer {
    pub(crate) fn new(json: bool, verbosity: Verbosity, colour: ColourChoice) -> Self {
        let allowed = |is_terminal: bool| match colour {
            ColourChoice::Always => true,
            ColourChoice::Never => false,
            ColourChoice::Auto => is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        };
        Self(Arc::new(Inner {
            json,
            verbosity,
            colour_out: allowed(io::stdout().is_terminal()),
            colour_err: allowed(io::stderr().is_terminal()),
            beside: RwLock::new(None),
            unread: AtomicBool::new(false),
            unfinished: AtomicBool::new(false),
        }))
    }

    /// Returns `true` if data is printed as the JSON of the protocol.
    pub(crate) fn is_json(&self) -> bool {
        self.0.json
    }

    /// Returns `true` if the reader of the data has closed its end, so that the command can stop.
    pub(crate) fn is_unread(&self) -> bool {
        self.0.unread.load(Ordering::Relaxed)
    }

    pub(crate) fn tells(&self, verbosity: Verbosity) -> bool {
        self.0.verbosity >= verbosity
    }

    /// Says from now on through `print` what is not data, so that a line that is being edited stays whole.
    pub(crate) fn print_beside(&self, print: impl Fn(String) + Send + Sync + 'static) {
        *self.0.beside.write() = Some(Box::new(print));
    }

    /// Says it by itself again: the terminal through which it was said is about to be given back.
    pub(crate) fn print_alone(&self) {
        *self.0.beside.write() = None;
    }

    /// Data for people: a line, or several.
    pub(crate) fn line(&self, text: impl Into<Text>) -> Done {
        let mut rendered = text.into().render(self.0.colour_out);
        rendered.push('\n');
        self.write(rendered.as_bytes())
    }

    /// Something for people alone: data, unless data is for programs.
    pub(crate) fn aside(&self, text: impl Into<Text>) -> Done {
        if !self.is_json() {
            return self.line(text);
        }
        self.note(text);
        Ok(())
    }

    /// Data for programs: one object on one line.
    pub(crate) fn json(&self, value: &impl Serialize) -> Done {
        let json = serde_json::to_string(value)
            .map_err(|error| Failure::new(Exit::Failure, format!("cannot be written as JSON: {error}")))?;
        self.json_text(&json)
    }

    /// The same of what is JSON already.
    pub(crate) fn json_text(&self, json: &str) -> Done {
        self.write(format!("{}\n", shown_json(&json_line(json))).as_bytes())
    }

    /// Data that is neither: the bytes of a file, or a page that was made here.
    pub(crate) fn write(&self, bytes: &[u8]) -> Done {
        self.clear_progress();
        let mut stdout = io::stdout().lock();
        match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            Ok(()) => Ok(()),
            // A reader that has gone away has read all it wanted.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.0.unread.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => Err(Failure::new(Exit::Failure, format!("cannot write to standard output: {error}"))),
        }
    }

    /// Something beside the data, unless it should be quiet.
    pub(crate) fn note(&self, text: impl Into<Text>) {
        if self.tells(Verbosity::Usual) {
            self.say(&text.into());
        }
    }

    /// Prints the context of a question, also with `--quiet`.
    pub(crate) fn question(&self, text: impl Into<Text>) {
        self.say(&text.into());
    }

    /// Something for those who want to know more.
    pub(crate) fn detail(&self, verbosity: Verbosity, text: impl Into<Text>) {
        if self.tells(verbosity) {
            self.say(&text.into());
        }
    }

    /// Something that is not right, and stops nothing.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        self.note(Text::new().with(Style::Warning, "warning").plain(": ").plain(text));
    }

    /// Why something was not done. An error that the server answered with is data for programs.
    pub(crate) fn failure(&self, failure: &Failure) {
        if let (true, Some(answer)) = (self.is_json(), failure.answer()) {
            // If it cannot be written, the words below still can.
            let _ = self.json_text(answer);
        }
        let mut text = Text::new().with(Style::Bad, "error").plain(": ").plain(failure.message());
        for cause in failure.causes() {
            text = text.plain("\n  because ").plain(cause);
        }
        for hint in failure.hints() {
            text = text.plain("\n").with(Style::Hint, "hint").plain(": ").plain(hint);
        }
        self.say(&text);
    }

    /// Writes over the line of progress, if standard error is a terminal; false if it is none.
    pub(crate) fn progress(&self, line: &str) -> bool {
        if !io::stderr().is_terminal() || !self.tells(Verbosity::Usual) {
            return false;
        }
        self.0.unfinished.store(true, Ordering::Relaxed);
        let _ = write!(io::stderr().lock(), "\r\x1b[K{}", shown_line(line));
        true
    }

    /// Takes the line of progress away.
    pub(crate) fn clear_progress(&self) {
        if self.0.unfinished.swap(false, Ordering::Relaxed) {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }

    /// If even this cannot be written, only the exit status is left to say it.
    fn say(&self, text: &Text) {
        self.clear_progress();
        let mut rendered = text.render(self.0.colour_err);
        rendered.push('\n');
        match &*self.0.beside.read() {
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
