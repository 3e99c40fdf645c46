//! Lines that a person types, edited on a thread of their own.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use rustyline::config::Behavior;
use rustyline::error::ReadlineError;
use rustyline::{CompletionType, Config};
use tokio::sync::oneshot;

use crate::error::{Done, Exit, Failure};
use crate::text::shown_line;

/// What became of a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Typed(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or there is no terminal any more.
    End,
}

/// Whoever may ask for lines. Clones ask the same terminal, one after another.
#[derive(Debug, Clone)]
pub(crate) struct Editor {
    requests: mpsc::Sender<Request>,
    /// Whether a line is being typed, and the terminal therefore not as it was found.
    busy: Arc<AtomicBool>,
    /// What was typed before it was opened.
    past: Arc<[String]>,
}

struct Request {
    prompt: String,
    purpose: Purpose,
    reply: oneshot::Sender<Line>,
}

/// What a line is for, which decides what Tab offers and whether it is remembered.
pub(crate) enum Purpose {
    /// None: whoever asks only waits for their turn.
    Nothing,
    /// A command of the shell.
    Command,
    /// The answer to a question, with what could be answered.
    Answer(Choices),
}

/// What could be answered, by how the answer begins. Asked on the thread where lines are typed, so it may wait a little.
pub(crate) struct Choices(Known);

type Known = Box<dyn Fn(&str) -> Vec<String> + Send>;

impl Choices {
    /// What somebody else knows.
    pub(crate) fn from(known: impl Fn(&str) -> Vec<String> + Send + 'static) -> Self {
        Self(Box::new(known))
    }

    /// Only these.
    pub(crate) fn of<T: Into<String>>(choices: impl IntoIterator<Item = T>) -> Self {
        let choices: Vec<String> = choices.into_iter().map(Into::into).collect();
        Self::from(move |_| choices.clone())
    }

    /// Anything.
    pub(crate) fn any() -> Self {
        Self::from(|_| Vec::new())
    }
}

/// What Tab offers while a command is typed: where the word begins, and what could stand there.
pub(crate) type Offer = Box<dyn Fn(&str, usize) -> (usize, Vec<String>) + Send>;

type Inner = rustyline::Editor<Helper, rustyline::history::FileHistory>;

impl Editor {
    /// Opens the terminal. With it comes a function that prints without breaking the line that is being typed.
    pub(crate) fn open(offer: Offer, history: Option<PathBuf>) -> Done<(Self, impl Fn(String) + Send + Sync + use<>)> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .behavior(Behavior::PreferTerm)
            .max_history_size(1000)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(no_terminal)?
            .auto_add_history(false)
            .build();
        let mut inner = Inner::with_config(config).map_err(no_terminal)?;
        inner.set_helper(Some(Helper { offer, answers: None }));
        if let Some(file) = &history {
            // The first time there is none.
            let _ = inner.load_history(file);
        }
        let print = printer(&mut inner)?;
        let (requests, asked) = mpsc::channel();
        let busy: Arc<AtomicBool> = Arc::default();
        let past = inner.history().iter().cloned().collect();
        let editor = Self { requests, busy: busy.clone(), past };
        std::thread::Builder::new()
            .name("line-editor".to_owned())
            .spawn(move || serve(inner, &asked, &busy, history.as_deref()))
            .map_err(|error| Failure::of(Exit::Failure, &error))?;
        Ok((editor, print))
    }

    /// The lines that were remembered from other times, the oldest first.
    pub(crate) fn past(&self) -> &[String] {
        &self.past
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// Waits until no line is being typed any more.
    pub(crate) async fn settled(&self) {
        self.line("", Purpose::Nothing).await;
    }

    /// Asks for a line.
    pub(crate) async fn line(&self, prompt: impl Into<String>, purpose: Purpose) -> Line {
        let (reply, line) = oneshot::channel();
        let request = Request { prompt: prompt.into(), purpose, reply };
        match self.requests.send(request) {
            Ok(()) => line.await.unwrap_or(Line::End),
            Err(_) => Line::End,
        }
    }
}

fn no_terminal(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Failure, format!("cannot use the terminal: {error}"))
}

/// Prints from a thread of its own: while a line is typed, printing waits for the editor.
fn printer(inner: &mut Inner) -> Done<impl Fn(String) + Send + Sync + use<>> {
    use rustyline::ExternalPrinter as _;
    let mut printer = inner.create_external_printer().map_err(no_terminal)?;
    let (sender, texts) = mpsc::channel::<(String, mpsc::Sender<()>)>();
    let thread = std::thread::Builder::new().name("printer".to_owned());
    let spawned = thread.spawn(move || {
        for (text, done) in texts {
            let _ = printer.print(text);
            let _ = done.send(());
        }
    });
    spawned.map_err(|error| Failure::of(Exit::Failure, &error))?;
    Ok(move |text| {
        let (done, printed) = mpsc::channel();
        if sender.send((text, done)).is_ok() {
            // What is printed next to standard output should stand below.
            let _ = printed.recv_timeout(std::time::Duration::from_millis(200));
        }
    })
}

fn serve(mut inner: Inner, asked: &mpsc::Receiver<Request>, busy: &AtomicBool, history: Option<&Path>) {
    for Request { prompt, purpose, reply } in asked {
        let is_command = matches!(purpose, Purpose::Command);
        if let Some(helper) = inner.helper_mut() {
            helper.answers = match purpose {
                Purpose::Nothing => {
                    let _ = reply.send(Line::End);
                    continue;
                }
                Purpose::Command => None,
                Purpose::Answer(answers) => Some(answers),
            };
        }
        busy.store(true, Ordering::Relaxed);
        let line = match inner.readline(prompt.as_str()) {
            Ok(line) => Line::Typed(line),
            Err(ReadlineError::Interrupted) => Line::Interrupted,
            Err(_) => Line::End,
        };
        busy.store(false, Ordering::Relaxed);
        if let Line::Typed(text) = &line
            && is_command
            && !text.trim().is_empty()
        {
            let _ = inner.add_history_entry(text.as_str());
            if let Some(file) = history {
                // Another shell may be open, and remember other lines.
                let _ = inner.append_history(file);
            }
        }
        let _ = reply.send(line);
    }
}

struct Helper {
    offer: Offer,
    answers: Option<Choices>,
}

impl rustyline::completion::Completer for Helper {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..position).unwrap_or(line);
        let (start, mut offers) = match &self.answers {
            None => (self.offer)(line, position),
            Some(answers) => (0, (answers.0)(typed)),
        };
        if self.answers.is_some() {
            offers.retain(|offer| offer.starts_with(typed));
        }
        // They come from a server and go to a terminal.
        offers.retain(|offer| *offer == shown_line(offer));
        Ok((start, offers))
    }
}

impl rustyline::hint::Hinter for Helper {
    type Hint = String;
}

impl rustyline::highlight::Highlighter for Helper {}
impl rustyline::validate::Validator for Helper {}
impl rustyline::Helper for Helper {}
