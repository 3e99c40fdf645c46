//! A server that is connected, and everything that commands need to talk to it.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use turms::Client;
use turms::client::{Call, ClientBuilder, Supervision, VersionChoice};
use turms::core::ConnectError;
use turms::proto::method::Method;
use turms::types::{LogMessage, LoggingLevel};

use crate::args::{ServerArgs, ServerOptions};
use crate::error::{Done, Exit, Failure};
use crate::explain;
use crate::input::{self, Person};
use crate::printer::{Printer, Verbosity};
use crate::progress_bar::Progress;
use crate::show;
use crate::target::{Record, Target};

/// How long to wait for an answer where nobody can press Ctrl-C.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long to wait for a server to be ready.
const START: Duration = Duration::from_secs(30);

/// How long to wait for a server to say whether it speaks the newest revision.
const PROBE: Duration = Duration::from_secs(3);

/// How long a server may take before a person wonders.
const WONDER: Duration = Duration::from_secs(4);

/// A connected server.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) printer: Printer,
    /// Whoever can be asked, if there is anybody.
    pub(crate) person: Option<Person>,
    target: Target,
    stay: Stay,
    /// What the server said in its own words, for those who want to see exactly that.
    record: Record,
    timeout: Option<Duration>,
    /// Timeout that progress does not renew.
    max_time: Option<Duration>,
    /// The time that was typed, if one was.
    limit: Option<Duration>,
    /// Ids of the tasks that were begun here: not every server lists them.
    tasks: Mutex<Vec<String>>,
}

/// For how long a session is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stay {
    /// One command.
    Once,
    /// One command, which wants the server's log: revisions where a server logs unasked are spoken rather than others.
    ForLog,
    /// Until the person leaves: the connection is kept up, and the server's log is heard.
    Long,
}

impl Session {
    /// Connects, unless Ctrl-C comes first: what was started is then ended in good order.
    pub(crate) async fn open(args: &ServerArgs, printer: &Printer, person: Option<Person>, stay: Stay) -> Done<Self> {
        tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => Err(Failure::new(Exit::Interrupted, "interrupted before it was connected")),
            opened = Self::connect(args, printer, person, stay) => opened,
        }
    }

    async fn connect(args: &ServerArgs, printer: &Printer, person: Option<Person>, stay: Stay) -> Done<Self> {
        let target = Target::resolve(args)?;
        let options = &args.options;
        warn_of_roots(options, printer);
        let record = Record::default();
        let attempt = async |choice| -> Done<Result<Client, ConnectError>> {
            let answers =
                input::answers(options.answers.as_deref(), person.as_ref())?.roots(input::roots(&options.root)?);
            let builder = builder(options, printer, stay).versions(choice).answers(answers);
            Ok(wondering(printer, &target, builder.connect_to(target.connector(printer, &record)?)).await)
        };
        let connected = match (stay, options.protocol.0) {
            (Stay::ForLog, VersionChoice::Auto) => match attempt(VersionChoice::Handshake).await? {
                Err(ConnectError::Refused(_) | ConnectError::Rejected { .. }) => attempt(VersionChoice::Auto).await?,
                connected => connected,
            },
            (_, choice) => attempt(choice).await?,
        };
        let client = connected.map_err(|error| explain::connect(&target, &error))?;
        // A person who is being asked takes their time, and can press Ctrl-C.
        let timeout = options.timeout.or_else(|| person.is_none().then_some(PATIENCE));
        Ok(Self {
            client,
            printer: printer.clone(),
            target,
            stay,
            record,
            timeout,
            max_time: options.max_time,
            limit: options.timeout,
            person,
            tasks: Mutex::default(),
        })
    }

    /// Whoever sits at the terminal, if somebody does.
    pub(crate) fn person_at_terminal(printer: &Printer) -> Option<Person> {
        (io::stdin().is_terminal() && io::stderr().is_terminal()).then(|| Person::new(printer))
    }

    /// Makes a call, and shows how far it comes.
    pub(crate) async fn call<T: 'static>(&self, call: Call<T>) -> Done<T> {
        let call = match self.timeout {
            Some(timeout) => call.timeout(timeout),
            None => call.without_timeout(),
        };
        let call = match self.max_time {
            Some(max_time) => call.max_duration(max_time),
            None => call,
        };
        let outcome = call.await;
        self.printer.clear_progress();
        outcome.map_err(|error| explain::call(&error))
    }

    /// The same for what may take long enough to be worth a report.
    pub(crate) async fn long_call<T: 'static>(&self, call: Call<T>) -> Done<T> {
        let progress = Progress::new(&self.printer);
        self.call(call.on_progress(move |report| progress.show(report))).await
    }

    /// Prints the last result of a method as the server sent it.
    pub(crate) fn print_exactly<M: Method>(&self, result: &impl Serialize) -> Done {
        self.print_json(self.record.last(M::NAME), result)
    }

    /// The same of a list, all pages of which are one.
    pub(crate) fn print_list_exactly<M: Method>(&self, member: &str, list: &impl Serialize) -> Done {
        self.print_json(self.record.list(M::NAME, member), list)
    }

    /// Prints JSON as it came, or a value if nothing came: not everything that is known was a result by itself.
    pub(crate) fn print_json(&self, came: Option<String>, otherwise: &impl Serialize) -> Done {
        match came {
            Some(json) => self.printer.json_text(&json),
            None => self.printer.json(otherwise),
        }
    }

    pub(crate) fn record(&self) -> &Record {
        &self.record
    }

    /// Waits for the next of what is listened to, for as long as was said.
    pub(crate) async fn next<T>(&self, next: impl Future<Output = Option<T>>) -> Done<T> {
        let came = match self.limit {
            Some(limit) => tokio::time::timeout(limit, next).await.map_err(|_| {
                Failure::new(Exit::Timeout, format!("nothing came within {}", show::seconds(limit)))
                    .hint("without --timeout it is listened until Ctrl-C")
            })?,
            None => next.await,
        };
        came.ok_or_else(|| {
            Failure::new(Exit::Connect, "the server tells no more")
                .hint("-v shows what it writes to its standard error")
        })
    }

    /// Waits until the terminal is free.
    pub(crate) async fn settled(&self) {
        if let Some(person) = &self.person {
            person.settled().await;
        }
    }

    /// Hangs up. A server that takes its time to end is not waited for by whoever presses Ctrl-C.
    pub(crate) async fn close(&self) {
        tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => {}
            () = self.client.close() => {}
        }
    }

    /// Warns of a server that writes something else between its messages, which other clients may not forgive.
    pub(crate) fn warn_of_noise(&self) {
        let lines = self.client.stats().parse_errors;
        if lines > 0 {
            let lines = show::count(usize::try_from(lines).unwrap_or(usize::MAX), "line", "lines");
            let sample = self.target.overheard().first().map(|line| format!(", such as {line:?}")).unwrap_or_default();
            self.printer.warn(format!(
                "the server wrote {lines} to its standard output that no client understands{sample}; what is for people \
                 belongs on standard error"
            ));
        }
    }

    /// Whether the server is gone when the command is done, with all that it still does.
    pub(crate) fn ends_with_its_server(&self) -> bool {
        self.stay != Stay::Long && !self.target.is_elsewhere()
    }

    /// A command as it is typed where this one was: in the shell, or after it.
    pub(crate) fn as_typed(&self, command: &str) -> String {
        match (self.stay, command.split_once(' ')) {
            (Stay::Long, _) => command.to_owned(),
            (_, Some((name, rest))) => format!("turms {name} {} {rest}", self.target),
            (_, None) => format!("turms {command} {}", self.target),
        }
    }

    pub(crate) fn remember_task(&self, id: &str) {
        self.tasks.lock().push(id.to_owned());
    }

    pub(crate) fn remembered_tasks(&self) -> Vec<String> {
        self.tasks.lock().clone()
    }

    /// How the server is spoken to.
    pub(crate) fn transport(&self) -> &'static str {
        self.target.transport()
    }

    /// What is at the other end, without secrets.
    pub(crate) fn target(&self) -> String {
        self.target.to_string()
    }
}

/// A server that is told of a folder looks into it.
fn warn_of_roots(options: &ServerOptions, printer: &Printer) {
    for root in options.root.iter().filter(|root| !root.contains("://") && !Path::new(root).exists()) {
        printer.warn(format!("--root: there is nothing at {root}"));
    }
}

/// A client as the options have it.
fn builder(options: &ServerOptions, printer: &Printer, stay: Stay) -> ClientBuilder {
    let log = printer.clone();
    let mut builder = Client::builder("turms", env!("CARGO_PKG_VERSION"))
        .handshake_timeout(options.timeout.unwrap_or(START))
        .timeout(options.timeout.unwrap_or(PATIENCE))
        // Longer than this nobody waits for a server that does not say no to what it does not know.
        .probe_timeout(options.timeout.unwrap_or(PROBE).min(PROBE))
        .tasks()
        .without_log_tracing()
        .on_log(move |message| tell_log(&log, message, stay));
    if printer.is_json() {
        // What is printed is what the server says each time.
        builder = builder.without_cache();
    }
    if let Some(level) = log_level(printer, stay) {
        builder = builder.log_level(level);
    }
    match stay {
        Stay::Long => builder.supervise(Supervision::new()),
        Stay::Once | Stay::ForLog => builder,
    }
}

/// Tells a person who may wonder that the server has not answered yet.
async fn wondering<T>(printer: &Printer, target: &Target, connect: impl Future<Output = T>) -> T {
    let mut connect = std::pin::pin!(connect);
    match tokio::time::timeout(WONDER, &mut connect).await {
        Ok(connected) => connected,
        Err(_) => {
            printer.note(format!("{target} has not answered yet; Ctrl-C gives up"));
            connect.await
        }
    }
}

/// Asking for the log costs an older server a request, so it is only asked for where it is shown.
fn log_level(printer: &Printer, stay: Stay) -> Option<LoggingLevel> {
    match stay {
        // The command asks, with the level that was typed.
        Stay::ForLog => None,
        _ if printer.tells(Verbosity::Debug) => Some(LoggingLevel::Debug),
        Stay::Long => Some(LoggingLevel::Info),
        Stay::Once => printer.tells(Verbosity::Talkative).then_some(LoggingLevel::Info),
    }
}

/// Many servers log without being asked.
fn tell_log(printer: &Printer, message: &LogMessage, stay: Stay) {
    match stay {
        Stay::Long => printer.note(show::log(message)),
        Stay::Once => printer.detail(Verbosity::Talkative, show::log(message)),
        // There the log is the data.
        Stay::ForLog => {}
    }
}
