//! The line editor, which runs on its own thread.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use rustyline::config::Behavior;
use rustyline::error::ReadlineError;
use rustyline::{CompletionType, Config};
use tokio::sync::oneshot;

use crate::error::{CliError, CliResult, ExitStatus};
use crate::text::escape_line;

/// Input of the user at a prompt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LineInput {
    Entered(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the terminal is closed.
    Eof,
}

/// Reads lines from the terminal, one at a time. Clones share the terminal.
#[derive(Debug, Clone)]
pub(crate) struct LineEditor {
    requests: mpsc::Sender<LineRequest>,
    /// `true` while a line is being edited and the terminal is in raw mode.
    busy: Arc<AtomicBool>,
    /// Lines from the history file.
    history: Arc<[String]>,
}

struct LineRequest {
    prompt: String,
    purpose: Purpose,
    reply: oneshot::Sender<LineInput>,
}

/// Purpose of a line. It decides about completion and history.
pub(crate) enum Purpose {
    /// No line: the request only waits until the lines before it are read.
    Wait,
    /// A command of the shell.
    Command,
    /// An answer to a prompt.
    Answer(AnswerChoices),
}

/// Completions of an answer, computed from its beginning. Called on the editor thread, so it may block.
pub(crate) struct AnswerChoices(ChoicesFn);

type ChoicesFn = Box<dyn Fn(&str) -> Vec<String> + Send>;

impl AnswerChoices {
    /// Choices that a function computes.
    pub(crate) fn from(choices: impl Fn(&str) -> Vec<String> + Send + 'static) -> Self {
        Self(Box::new(choices))
    }

    /// A fixed list of choices.
    pub(crate) fn of<T: Into<String>>(choices: impl IntoIterator<Item = T>) -> Self {
        let choices: Vec<String> = choices.into_iter().map(Into::into).collect();
        Self::from(move |_| choices.clone())
    }

    /// No choices: free text.
    pub(crate) fn any() -> Self {
        Self::from(|_| Vec::new())
    }
}

/// Completes a command at a position. Returns the start of the word and its completions.
pub(crate) type CompleteFn = Box<dyn Fn(&str, usize) -> (usize, Vec<String>) + Send>;

type Readline = rustyline::Editor<EditorHelper, rustyline::history::FileHistory>;

impl LineEditor {
    /// Opens the terminal. The second value prints text above the line that is being edited.
    pub(crate) fn open(
        complete: CompleteFn,
        history: Option<PathBuf>,
    ) -> CliResult<(Self, impl Fn(String) + Send + Sync + use<>)> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .behavior(Behavior::PreferTerm)
            .max_history_size(1000)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(no_terminal)?
            .auto_add_history(false)
            .build();
        let mut readline = Readline::with_config(config).map_err(no_terminal)?;
        readline.set_helper(Some(EditorHelper { complete, choices: None }));
        if let Some(file) = &history {
            // The file does not exist before the first line.
            let _ = readline.load_history(file);
        }
        let print = external_printer(&mut readline)?;
        let (requests, received) = mpsc::channel();
        let busy: Arc<AtomicBool> = Arc::default();
        let lines = readline.history().iter().cloned().collect();
        let editor = Self { requests, busy: busy.clone(), history: lines };
        std::thread::Builder::new()
            .name("line-editor".to_owned())
            .spawn(move || run_editor(readline, &received, &busy, history.as_deref()))
            .map_err(|error| CliError::of(ExitStatus::Failure, &error))?;
        Ok((editor, print))
    }

    /// Returns the lines of earlier shells, the oldest first.
    pub(crate) fn history(&self) -> &[String] {
        &self.history
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// Waits until no line is being edited.
    pub(crate) async fn wait_until_idle(&self) {
        self.read_line("", Purpose::Wait).await;
    }

    /// Reads a line.
    pub(crate) async fn read_line(&self, prompt: impl Into<String>, purpose: Purpose) -> LineInput {
        let (reply, line) = oneshot::channel();
        let request = LineRequest { prompt: prompt.into(), purpose, reply };
        match self.requests.send(request) {
            Ok(()) => line.await.unwrap_or(LineInput::Eof),
            Err(_) => LineInput::Eof,
        }
    }
}

fn no_terminal(error: impl std::fmt::Display) -> CliError {
    CliError::new(ExitStatus::Failure, format!("cannot use the terminal: {error}"))
}

/// Prints on a thread of its own, because printing blocks while a line is being edited.
fn external_printer(readline: &mut Readline) -> CliResult<impl Fn(String) + Send + Sync + use<>> {
    use rustyline::ExternalPrinter as _;
    let mut printer = readline.create_external_printer().map_err(no_terminal)?;
    let (sender, texts) = mpsc::channel::<(String, mpsc::Sender<()>)>();
    let thread = std::thread::Builder::new().name("printer".to_owned());
    let spawned = thread.spawn(move || {
        for (text, done) in texts {
            let _ = printer.print(text);
            let _ = done.send(());
        }
    });
    spawned.map_err(|error| CliError::of(ExitStatus::Failure, &error))?;
    Ok(move |text| {
        let (done, printed) = mpsc::channel();
        if sender.send((text, done)).is_ok() {
            // Output that follows on standard output must appear below.
            let _ = printed.recv_timeout(std::time::Duration::from_millis(200));
        }
    })
}

fn run_editor(
    mut readline: Readline,
    requests: &mpsc::Receiver<LineRequest>,
    busy: &AtomicBool,
    history: Option<&Path>,
) {
    for LineRequest { prompt, purpose, reply } in requests {
        let is_command = matches!(purpose, Purpose::Command);
        if let Some(helper) = readline.helper_mut() {
            helper.choices = match purpose {
                Purpose::Wait => {
                    let _ = reply.send(LineInput::Eof);
                    continue;
                }
                Purpose::Command => None,
                Purpose::Answer(choices) => Some(choices),
            };
        }
        busy.store(true, Ordering::Relaxed);
        let line = match readline.readline(prompt.as_str()) {
            Ok(line) => LineInput::Entered(line),
            Err(ReadlineError::Interrupted) => LineInput::Interrupted,
            Err(_) => LineInput::Eof,
        };
        busy.store(false, Ordering::Relaxed);
        if let LineInput::Entered(text) = &line
            && is_command
            && !text.trim().is_empty()
        {
            let _ = readline.add_history_entry(text.as_str());
            if let Some(file) = history {
                // Append: another shell may write to the same file.
                let _ = readline.append_history(file);
            }
        }
        let _ = reply.send(line);
    }
}

struct EditorHelper {
    complete: CompleteFn,
    choices: Option<AnswerChoices>,
}

impl rustyline::completion::Completer for EditorHelper {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..position).unwrap_or(line);
        let (start, mut completions) = match &self.choices {
            None => (self.complete)(line, position),
            Some(choices) => (0, (choices.0)(typed)),
        };
        if self.choices.is_some() {
            completions.retain(|completion| completion.starts_with(typed));
        }
        // Completions come from a server: drop those with control characters.
        completions.retain(|completion| *completion == escape_line(completion));
        Ok((start, completions))
    }
}

impl rustyline::hint::Hinter for EditorHelper {
    type Hint = String;
}

impl rustyline::highlight::Highlighter for EditorHelper {}
impl rustyline::validate::Validator for EditorHelper {}
impl rustyline::Helper for EditorHelper {}
