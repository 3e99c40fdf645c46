//! The interactive shell: one server, one line after another.

mod command;
mod completer;
mod tokens;

use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use turms::types::ListRootsResult;

use self::command::ShellCommand;
use self::completer::Completer;
use crate::args::{ServerArgs, Verb};
use crate::commands;
use crate::error::{Done, Exit, Failure};
use crate::input::{self, Person};
use crate::line_editor::{Editor, Line, Purpose};
use crate::printer::Printer;
use crate::session::{Session, Stay};
use crate::show;
use crate::text::{Text, shown_line};

/// Opens the shell: at the terminal if there is one, on the lines of standard input if not.
pub(crate) async fn run(server: &ServerArgs, printer: &Printer) -> Done {
    if io::stdin().is_terminal() && io::stdout().is_terminal() {
        at_terminal(server, printer).await
    } else {
        on_lines(server, printer).await
    }
}

/// Whether the shell goes on after a line.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Line,
    Leave,
}

async fn at_terminal(server: &ServerArgs, printer: &Printer) -> Done {
    // The editor is there before the server, because the server may ask something at once; what Tab offers comes later.
    let completer: Arc<OnceLock<Completer>> = Arc::default();
    let offers = completer.clone();
    let offer = Box::new(move |line: &str, position: usize| match offers.get() {
        Some(completer) => completer.offer(line, position),
        None => (position, Vec::new()),
    });
    let (editor, print) = Editor::open(offer, history_file())?;
    printer.print_beside(print);
    let done = converse(server, printer, &editor, &completer).await;
    printer.print_alone();
    done
}

/// Does one line after another, until the person leaves.
async fn converse(server: &ServerArgs, printer: &Printer, editor: &Editor, completer: &OnceLock<Completer>) -> Done {
    let person = Person::at(printer, editor.clone());
    let session = Session::open(server, printer, Some(person), Stay::Long).await?;
    let _ = completer.set(Completer::new(session.client.clone(), Handle::current()));
    welcome(&session).await;

    let mut shell = Shell::new(session, editor.past().to_vec());
    let prompt = shell.prompt();
    loop {
        let line = match editor.line(&*prompt, Purpose::Command).await {
            Line::Typed(line) => line,
            Line::Interrupted => continue,
            Line::End => break,
        };
        match shell.line(&line).await {
            Ok(Next::Line) => {}
            Ok(Next::Leave) => break,
            Err(failure) => printer.failure(&failure),
        }
    }
    shell.close().await;
    Ok(())
}

/// Without a terminal: no prompts, no questions. A line that fails does not stop the others, but is how the shell ends.
async fn on_lines(server: &ServerArgs, printer: &Printer) -> Done {
    let session = Session::open(server, printer, None, Stay::Long).await?;
    let mut shell = Shell::new(session, Vec::new());
    let mut lines = lines_of_stdin()?;
    let (mut first_failure, mut any) = (None, false);
    while let Some(line) = lines.recv().await {
        any = true;
        let done = match line {
            Ok(line) => shell.line(&line).await,
            Err(failure) => Err(failure),
        };
        match done {
            Ok(Next::Line) => {}
            Ok(Next::Leave) => break,
            Err(failure) if failure.exit == Exit::Interrupted => {
                shell.close().await;
                return Err(failure);
            }
            Err(failure) => {
                printer.failure(&failure);
                first_failure.get_or_insert(failure.exit);
            }
        }
    }
    if !any {
        // Whoever says nothing wants to see what this is.
        look_around(&shell.session).await?;
    }
    shell.close().await;
    match first_failure {
        Some(exit) => Err(Failure::new(exit, "not all lines were done")),
        None => Ok(()),
    }
}

/// Reading may wait for ever, so it waits on a thread of its own.
fn lines_of_stdin() -> Done<mpsc::Receiver<Done<String>>> {
    let (sender, lines) = mpsc::channel(1);
    let read = move || {
        for (index, line) in io::stdin().lock().split(b'\n').enumerate() {
            let is_over = line.is_err();
            let line = line
                .map_err(|error| Failure::new(Exit::Failure, format!("cannot read standard input: {error}")))
                .and_then(|line| String::from_utf8(line).map_err(|_| not_text(index + 1)));
            if sender.blocking_send(line).is_err() || is_over {
                return;
            }
        }
    };
    let spawned = std::thread::Builder::new().name("standard-input".to_owned()).spawn(read);
    spawned.map(|_| lines).map_err(|error| Failure::of(Exit::Failure, &error))
}

fn not_text(line: usize) -> Failure {
    Failure::usage(format!("line {line} of standard input is not UTF-8")).hint("the other lines are done all the same")
}

async fn welcome(session: &Session) {
    let printer = &session.printer;
    printer.note(show::welcome(session));
    printer.note(summary(session).await);
    printer.note(Text::new().faint("`help` shows the commands, Tab completes, Ctrl-C cancels a call, `exit` leaves."));
}

/// How much there is.
async fn summary(session: &Session) -> Text {
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
    Text::new().faint("  has           ").plain(parts.join(", "))
}

async fn look_around(session: &Session) -> Done {
    commands::run(session, &Verb::Info).await?;
    if session.client.server_capabilities().is_some_and(|offered| offered.tools.is_some()) {
        commands::run(session, &Verb::Tools(crate::args::ToolsArgs { name: None })).await?;
    }
    session.printer.note("type commands at a terminal, or pipe them in: echo 'call add a=1 b=2' | turms");
    Ok(())
}

struct Shell {
    session: Session,
    history: Vec<String>,
    events: tokio::task::JoinHandle<()>,
}

impl Shell {
    fn new(session: Session, history: Vec<String>) -> Self {
        let mut events = session.client.events();
        let printer = session.printer.clone();
        let events = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if let Some(text) = show::event(&event) {
                    printer.note(text);
                }
            }
        });
        Self { session, history, events }
    }

    fn prompt(&self) -> String {
        let name = self.session.client.server_info().map_or_else(|| "turms".to_owned(), |server| server.name);
        let short: String = shown_line(&name).chars().take(24).collect();
        format!("{short}> ")
    }

    async fn line(&mut self, line: &str) -> Done<Next> {
        let Some(command) = ShellCommand::parse(line)? else { return Ok(Next::Line) };
        self.history.push(line.trim().to_owned());
        let next = tokio::select! {
            biased;
            // Dropping the command gives its call up, and tells the server so.
            _ = tokio::signal::ctrl_c() => Err(Failure::new(Exit::Interrupted, "cancelled")),
            next = self.run(command) => next,
        };
        self.session.settled().await;
        next
    }

    async fn run(&self, command: ShellCommand) -> Done<Next> {
        let (session, printer) = (&self.session, &self.session.printer);
        match command.into_verb() {
            Ok(verb) => commands::run(session, &verb).await?,
            Err(ShellCommand::Help { command }) => printer.aside(command::help(command.as_deref())?)?,
            Err(ShellCommand::Subscribe(args)) => {
                session.call(session.client.subscribe(&*args.uri)).await?;
                printer.note(format!("changes of {} are shown as they come", args.uri));
            }
            Err(ShellCommand::Unsubscribe(args)) => session.call(session.client.unsubscribe(&*args.uri)).await?,
            Err(ShellCommand::Log { level }) => session.call(session.client.set_log_level(level)).await?,
            Err(ShellCommand::Roots { change, path }) => self.roots(change.as_deref(), path.as_deref())?,
            Err(ShellCommand::State) if printer.is_json() => printer.json(&show::state_object(session))?,
            Err(ShellCommand::State) => printer.line(show::state(session))?,
            Err(ShellCommand::History) => {
                let numbered = self.history.iter().enumerate();
                numbered
                    .into_iter()
                    .try_for_each(|(index, line)| printer.aside(format!("{:>4}  {line}", index + 1)))?;
            }
            Err(ShellCommand::Clear) if io::stdout().is_terminal() => printer.write(b"\x1b[2J\x1b[H")?,
            Err(ShellCommand::Exit) => return Ok(Next::Leave),
            Err(_) => {}
        }
        Ok(Next::Line)
    }

    fn roots(&self, change: Option<&str>, path: Option<&str>) -> Done {
        let Some(roots) = self.session.client.roots() else { return Ok(()) };
        match (change, path) {
            (Some("add"), Some(path)) => roots.add(input::root(path)?),
            (Some(_), Some(path)) => {
                let uri = input::root(path)?.uri;
                if !roots.remove(&uri) {
                    return Err(Failure::usage(format!("{uri} is no root")).hint("`roots` shows those there are"));
                }
            }
            _ if self.session.printer.is_json() => {
                self.session.printer.json(&ListRootsResult::new(roots.list()))?;
            }
            _ if roots.list().is_empty() => {
                self.session.printer.note("the server may know of no file or folder; `roots add PATH` names one");
            }
            _ => roots.list().iter().try_for_each(|root| self.session.printer.line(root.uri.as_str()))?,
        }
        Ok(())
    }

    async fn close(self) {
        self.events.abort();
        self.session.warn_of_noise();
        self.session.close().await;
    }
}

/// Where lines are remembered from one shell to the next: in the folder for the state of programs.
fn history_file() -> Option<PathBuf> {
    let state = match std::env::var_os("XDG_STATE_HOME") {
        Some(state) if !state.is_empty() => PathBuf::from(state),
        _ if cfg!(windows) => PathBuf::from(std::env::var_os("LOCALAPPDATA")?),
        _ => PathBuf::from(std::env::var_os("HOME")?).join(".local").join("state"),
    };
    let folder = state.join("turms");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}
