//! The interactive shell.

mod command;
mod completer;
mod tokens;

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use turms::client::Subscription;
use turms::types::ListRootsResult;

use self::command::ShellCommand;
use self::completer::ShellCompleter;
use crate::args::{ServerArgs, ServerCommand};
use crate::commands;
use crate::error::{CliError, CliResult, ExitStatus};
use crate::input::{self, TerminalPrompt};
use crate::line_editor::{LineEditor, LineInput, Purpose};
use crate::printer::Printer;
use crate::session::{CliSession, SessionKind};
use crate::show;
use crate::text::{StyledText, escape_line};

/// Runs the shell: at the terminal if there is one, or on the lines of standard input.
pub(crate) async fn run(server: &ServerArgs, printer: &Printer) -> CliResult {
    if io::stdin().is_terminal() && io::stdout().is_terminal() {
        run_at_terminal(server, printer).await
    } else {
        run_script(server, printer).await
    }
}

/// Outcome of a line.
#[derive(Debug, PartialEq, Eq)]
enum LineOutcome {
    Continue,
    Exit,
}

async fn run_at_terminal(server: &ServerArgs, printer: &Printer) -> CliResult {
    // The editor is opened first, because the server may request input while connecting. The completer needs the connection.
    let completer: Arc<OnceLock<ShellCompleter>> = Arc::default();
    let connected = completer.clone();
    let complete = Box::new(move |line: &str, position: usize| match connected.get() {
        Some(completer) => completer.complete(line, position),
        None => (position, Vec::new()),
    });
    let (editor, print) = LineEditor::open(complete, history_file())?;
    printer.set_external_printer(print);
    let done = run_interactive(server, printer, &editor, &completer).await;
    printer.clear_external_printer();
    done
}

/// Runs lines until the user exits.
async fn run_interactive(
    server: &ServerArgs,
    printer: &Printer,
    editor: &LineEditor,
    completer: &OnceLock<ShellCompleter>,
) -> CliResult {
    let terminal = TerminalPrompt::with_editor(printer, editor.clone());
    let session = CliSession::open(server, printer, Some(terminal), SessionKind::Interactive).await?;
    let _ = completer.set(ShellCompleter::new(session.client.clone(), Handle::current()));
    welcome(&session).await;

    let mut shell = Shell::new(session, editor.history().to_vec());
    let prompt = shell.prompt();
    loop {
        let line = match editor.read_line(&*prompt, Purpose::Command).await {
            LineInput::Entered(line) => line,
            LineInput::Interrupted => continue,
            LineInput::Eof => break,
        };
        match shell.run_line(&line).await {
            Ok(LineOutcome::Continue) => {}
            Ok(LineOutcome::Exit) => break,
            Err(failure) => printer.error(&failure),
        }
    }
    shell.close().await;
    Ok(())
}

/// Runs the lines of standard input, without prompts. A line that fails does not stop the shell, but sets its exit status.
async fn run_script(server: &ServerArgs, printer: &Printer) -> CliResult {
    let session = CliSession::open(server, printer, None, SessionKind::Interactive).await?;
    let mut shell = Shell::new(session, Vec::new());
    let mut lines = stdin_lines()?;
    let (mut first_failure, mut has_lines) = (None, false);
    while let Some(line) = lines.recv().await {
        has_lines = true;
        let outcome = match line {
            Ok(line) => shell.run_line(&line).await,
            Err(failure) => Err(failure),
        };
        match outcome {
            Ok(LineOutcome::Continue) => {}
            Ok(LineOutcome::Exit) => break,
            Err(failure) if failure.exit == ExitStatus::Interrupted => {
                shell.close().await;
                return Err(failure);
            }
            Err(failure) => {
                printer.error(&failure);
                first_failure.get_or_insert(failure.exit);
            }
        }
    }
    if !has_lines {
        // Without any input, show what the shell is.
        print_overview(&shell.session).await?;
    }
    shell.close().await;
    match first_failure {
        Some(exit) => Err(CliError::new(exit, "some lines failed")),
        None => Ok(()),
    }
}

/// Reads standard input on a thread of its own, because reading may block forever.
fn stdin_lines() -> CliResult<mpsc::Receiver<CliResult<String>>> {
    let (sender, lines) = mpsc::channel(1);
    let read = move || {
        for (index, line) in io::stdin().lock().split(b'\n').enumerate() {
            let is_error = line.is_err();
            let line = line
                .map_err(|error| CliError::new(ExitStatus::Failure, format!("cannot read standard input: {error}")))
                .and_then(|line| String::from_utf8(line).map_err(|_| not_utf8(index + 1)));
            if sender.blocking_send(line).is_err() || is_error {
                return;
            }
        }
    };
    let spawned = std::thread::Builder::new().name("standard-input".to_owned()).spawn(read);
    spawned.map(|_| lines).map_err(|error| CliError::of(ExitStatus::Failure, &error))
}

fn not_utf8(line: usize) -> CliError {
    CliError::usage(format!("line {line} of standard input is not UTF-8")).hint("the other lines are run anyway")
}

async fn welcome(session: &CliSession) {
    let printer = &session.printer;
    printer.note(show::welcome(session));
    printer.note(summary(session).await);
    printer
        .note(StyledText::new().dim("`help` shows the commands, Tab completes, Ctrl-C cancels a call, `exit` exits."));
}

/// Returns the numbers of tools, resources and prompts.
async fn summary(session: &CliSession) -> StyledText {
    let client = &session.client;
    let offered = client.server_capabilities().unwrap_or_default();
    let mut parts = Vec::new();
    if offered.tools.is_some()
        && let Ok(tools) = client.list_tools().await
    {
        parts.push(show::count(tools.len(), "tool", "tools"));
    }
    if offered.resources.is_some()
        && let Ok(resources) = client.list_resources().await
    {
        parts.push(show::count(resources.len(), "resource", "resources"));
    }
    if offered.prompts.is_some()
        && let Ok(prompts) = client.list_prompts().await
    {
        parts.push(show::count(prompts.len(), "prompt", "prompts"));
    }
    StyledText::new().dim("  has           ").plain(parts.join(", "))
}

async fn print_overview(session: &CliSession) -> CliResult {
    commands::run(session, &ServerCommand::Info).await?;
    if session.client.server_capabilities().is_some_and(|offered| offered.tools.is_some()) {
        commands::run(session, &ServerCommand::Tools(crate::args::ToolsArgs { name: None })).await?;
    }
    session.printer.note("type commands at a terminal, or pipe them in: echo 'call add a=1 b=2' | turms");
    Ok(())
}

struct Shell {
    session: CliSession,
    history: Vec<String>,
    events: tokio::task::JoinHandle<()>,
    /// By URI. Their changes are printed as events.
    subscriptions: Mutex<BTreeMap<String, Subscription>>,
}

impl Shell {
    fn new(session: CliSession, history: Vec<String>) -> Self {
        let mut events = session.client.events();
        let printer = session.printer.clone();
        let events = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if let Some(text) = show::event(&event) {
                    printer.note(text);
                }
            }
        });
        Self { session, history, events, subscriptions: Mutex::default() }
    }

    fn prompt(&self) -> String {
        let name = self.session.client.server_info().map_or_else(|| "turms".to_owned(), |server| server.name);
        let short: String = escape_line(&name).chars().take(24).collect();
        format!("{short}> ")
    }

    async fn run_line(&mut self, line: &str) -> CliResult<LineOutcome> {
        let Some(command) = ShellCommand::parse(line)? else { return Ok(LineOutcome::Continue) };
        self.history.push(line.trim().to_owned());
        let next = tokio::select! {
            biased;
            // Dropping the command cancels its call, and notifies the server.
            _ = tokio::signal::ctrl_c() => Err(CliError::new(ExitStatus::Interrupted, "cancelled")),
            next = self.run(command) => next,
        };
        self.session.wait_until_idle().await;
        next
    }

    async fn run(&self, command: ShellCommand) -> CliResult<LineOutcome> {
        let (session, printer) = (&self.session, &self.session.printer);
        match command.into_server_command() {
            Ok(command) => commands::run(session, &command).await?,
            Err(ShellCommand::Help { command }) => printer.line_or_note(command::help(command.as_deref())?)?,
            Err(ShellCommand::Subscribe(args)) => {
                let subscription = session.call(session.client.subscribe(&args.uri)).await?;
                self.subscriptions.lock().insert(args.uri.clone(), subscription);
                printer.note(format!("subscribed to {}", args.uri));
            }
            Err(ShellCommand::Unsubscribe(args)) => drop(self.subscriptions.lock().remove(&args.uri)),
            Err(ShellCommand::Log { level }) => session.call(session.client.set_log_level(level)).await?,
            Err(ShellCommand::Roots { change, path }) => self.roots(change.as_deref(), path.as_deref())?,
            Err(ShellCommand::State) if printer.is_json() => printer.json(&show::state_object(session))?,
            Err(ShellCommand::State) => printer.line(show::state(session))?,
            Err(ShellCommand::History) => {
                let numbered = self.history.iter().enumerate();
                numbered
                    .into_iter()
                    .try_for_each(|(index, line)| printer.line_or_note(format!("{:>4}  {line}", index + 1)))?;
            }
            Err(ShellCommand::Clear) if io::stdout().is_terminal() => printer.write(b"\x1b[2J\x1b[H")?,
            Err(ShellCommand::Exit) => return Ok(LineOutcome::Exit),
            Err(_) => {}
        }
        Ok(LineOutcome::Continue)
    }

    fn roots(&self, change: Option<&str>, path: Option<&str>) -> CliResult {
        let Some(roots) = self.session.client.roots() else { return Ok(()) };
        match (change, path) {
            (Some("add"), Some(path)) => roots.add(input::root(path)?),
            (Some(_), Some(path)) => {
                let uri = input::root(path)?.uri;
                if !roots.remove(&uri) {
                    return Err(CliError::usage(format!("{uri} is not a root")).hint("`roots` lists the roots"));
                }
            }
            _ if self.session.printer.is_json() => {
                self.session.printer.json(&ListRootsResult::new(roots.list()))?;
            }
            _ if roots.list().is_empty() => {
                self.session.printer.note("there are no roots; `roots add PATH` adds one");
            }
            _ => roots.list().iter().try_for_each(|root| self.session.printer.line(root.uri.as_str()))?,
        }
        Ok(())
    }

    async fn close(self) {
        self.events.abort();
        self.session.warn_about_stray_output();
        self.session.close().await;
    }
}

/// Returns the path of the history file, in the state directory of the user.
fn history_file() -> Option<PathBuf> {
    let state = match std::env::var_os("XDG_STATE_HOME") {
        Some(state) if !state.is_empty() => PathBuf::from(state),
        _ if cfg!(windows) => PathBuf::from(std::env::var_os("LOCALAPPDATA")?),
        _ => PathBuf::from(std::env::var_os("HOME")?).join(".local").join("state"),
    };
    let directory = state.join("turms");
    std::fs::create_dir_all(&directory).ok()?;
    Some(directory.join("history"))
}
