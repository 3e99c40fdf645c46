//! The connection to a server, with all that commands need.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use turms::Client;
use turms::client::{Backoff, Call, CallError, ClientBuilder, VersionChoice};
use turms::transport::ConnectError;
use turms::types::{LogMessage, LoggingLevel, Method};

use crate::args::{ServerArgs, ServerOptions};
use crate::error::{CliError, CliResult, ExitStatus};
use crate::explain;
use crate::input::{self, TerminalPrompt};
use crate::printer::{Printer, Verbosity};
use crate::progress_bar::ProgressBar;
use crate::show;
use crate::target::{CliTarget, RecordedResults};

/// Timeout for a response without a terminal, where Ctrl-C is not an option.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout for the handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout for the probe for the newest revision.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// Time after which the user is told that the server has not responded yet.
pub(crate) const SLOW_NOTICE_DELAY: Duration = Duration::from_secs(4);

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct CliSession {
    pub(crate) client: Client,
    pub(crate) printer: Printer,
    /// Prompts the user; `None` without a terminal.
    pub(crate) terminal: Option<TerminalPrompt>,
    target: CliTarget,
    /// The server as given on the command line, with the options that a later command needs. Secrets are left out.
    server_args: String,
    kind: SessionKind,
    /// Results exactly as the server sent them, for `--json`.
    record: RecordedResults,
    timeout: Option<Duration>,
    /// Timeout that progress does not renew.
    max_time: Option<Duration>,
    /// Value of `--timeout`.
    timeout_option: Option<Duration>,
    /// Ids of the tasks that this session started. Not every server lists its tasks.
    tasks: Mutex<Vec<String>>,
}

/// Purpose of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionKind {
    /// One command.
    OneCommand,
    /// The command `log`. Prefers revisions in which a server sends log messages at any time.
    Log,
    /// The shell. Reconnects, and prints the server's log.
    Interactive,
}

impl CliSession {
    /// Connects. On Ctrl-C, shuts down what was started.
    pub(crate) async fn open(
        args: &ServerArgs,
        printer: &Printer,
        terminal: Option<TerminalPrompt>,
        kind: SessionKind,
    ) -> CliResult<Self> {
        tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => Err(CliError::new(ExitStatus::Interrupted, "interrupted while connecting")),
            session = Self::connect(args, printer, terminal, kind) => session,
        }
    }

    async fn connect(
        args: &ServerArgs,
        printer: &Printer,
        terminal: Option<TerminalPrompt>,
        kind: SessionKind,
    ) -> CliResult<Self> {
        let target = CliTarget::resolve(args)?;
        let options = &args.options;
        warn_about_missing_roots(options, printer);
        let record = RecordedResults::default();
        let authorizer = target.authorizer(printer).await?;
        let attempt = async |choice| -> CliResult<Result<Client, ConnectError>> {
            let builder = builder(options, printer, kind).protocol_versions(choice).roots(input::roots(&options.root)?);
            let builder = input::with_handlers(builder, options.answers.as_deref(), terminal.as_ref())?;
            let connector = target.connector(printer, &record, authorizer.clone())?;
            Ok(with_slow_notice(printer, &target, builder.connect(connector)).await)
        };
        let connected = match (kind, options.protocol.0) {
            (SessionKind::Log, VersionChoice::Auto) => match attempt(VersionChoice::Handshake).await? {
                Err(ConnectError::Negotiation(_) | ConnectError::Rejected { .. }) => {
                    attempt(VersionChoice::Auto).await?
                }
                connected => connected,
            },
            (_, choice) => attempt(choice).await?,
        };
        let client = connected.map_err(|error| explain::connect_error(&target, &error))?;
        // A user at the terminal may take any time to answer, and can press Ctrl-C.
        let timeout = options.timeout.or_else(|| terminal.is_none().then_some(DEFAULT_TIMEOUT));
        Ok(Self {
            client,
            printer: printer.clone(),
            server_args: server_args(args, &target),
            target,
            kind,
            record,
            timeout,
            max_time: options.max_time,
            timeout_option: options.timeout,
            terminal,
            tasks: Mutex::default(),
        })
    }

    /// Returns a prompt if standard input and standard error are a terminal.
    pub(crate) fn terminal_prompt(printer: &Printer) -> Option<TerminalPrompt> {
        (io::stdin().is_terminal() && io::stderr().is_terminal()).then(|| TerminalPrompt::new(printer))
    }

    /// Makes a call.
    pub(crate) async fn call<T: 'static>(&self, call: Call<T>) -> CliResult<T> {
        let outcome = self.with_timeouts(call).await;
        self.printer.clear_progress();
        outcome.map_err(|error| self.call_error(&error))
    }

    /// Sets the timeouts of a call.
    pub(crate) fn with_timeouts<T: 'static>(&self, call: Call<T>) -> Call<T> {
        let call = match self.timeout {
            Some(timeout) => call.timeout(timeout),
            None => call.without_timeout(),
        };
        match self.max_time {
            Some(max_time) => call.max_duration(max_time),
            None => call,
        }
    }

    /// Converts the error of a call.
    pub(crate) fn call_error(&self, error: &CallError) -> CliError {
        explain::call_error(&self.target, error)
    }

    /// Makes a call and shows its progress.
    pub(crate) async fn long_call<T: 'static>(&self, call: Call<T>) -> CliResult<T> {
        let progress = ProgressBar::new(&self.printer);
        self.call(call.on_progress(move |report| progress.show(report))).await
    }

    /// Prints the last result of a method exactly as the server sent it.
    pub(crate) fn print_result<M: Method>(&self, result: &impl Serialize) -> CliResult {
        self.print_json(self.record.last(M::NAME), result)
    }

    /// Prints the last list of a method exactly as the server sent it, with all pages joined.
    pub(crate) fn print_list_result<M: Method>(&self, member: &str, list: &impl Serialize) -> CliResult {
        self.print_json(self.record.list(M::NAME, member), list)
    }

    /// Prints recorded JSON, or `value` if nothing was recorded.
    pub(crate) fn print_json(&self, recorded: Option<String>, value: &impl Serialize) -> CliResult {
        match recorded {
            Some(json) => self.printer.json_text(&json),
            None => self.printer.json(value),
        }
    }

    pub(crate) fn record(&self) -> &RecordedResults {
        &self.record
    }

    /// Waits for the next message of a stream, up to the timeout of `--timeout`.
    pub(crate) async fn next<T>(&self, next: impl Future<Output = Option<T>>) -> CliResult<T> {
        let message = match self.timeout_option {
            Some(limit) => tokio::time::timeout(limit, next).await.map_err(|_| {
                CliError::new(ExitStatus::Timeout, format!("nothing received within {}", show::duration(limit)))
                    .hint("without --timeout, the command runs until Ctrl-C")
            })?,
            None => next.await,
        };
        message.ok_or_else(|| {
            CliError::new(ExitStatus::Connect, "the server closed the stream")
                .hint("-v shows the server's standard error")
        })
    }

    /// Waits until no prompt is open on the terminal.
    pub(crate) async fn wait_until_idle(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.wait_until_idle().await;
        }
    }

    /// Closes the connection. Ctrl-C skips waiting for a server that does not exit.
    pub(crate) async fn close(&self) {
        tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => {}
            () = self.client.close() => {}
        }
    }

    /// Warns if the server wrote invalid messages to standard output. Other clients may reject such a server.
    pub(crate) fn warn_about_stray_output(&self) {
        let lines = self.client.stats().connection.parse_errors;
        if lines > 0 {
            let lines = show::count(usize::try_from(lines).unwrap_or(usize::MAX), "line", "lines");
            let sample =
                self.target.stray_output().first().map(|line| format!(", such as {line:?}")).unwrap_or_default();
            self.printer.warn(format!(
                "the server wrote invalid messages to standard output ({lines}{sample}); logs belong on standard error"
            ));
        }
    }

    /// Returns `true` if the server exits when the command ends, and its tasks with it.
    pub(crate) fn server_exits_with_command(&self) -> bool {
        self.kind != SessionKind::Interactive && !self.target.is_remote()
    }

    /// Returns the command line for a command on the same server: in the shell, or with `turms`, the target and its options.
    pub(crate) fn command_line(&self, command: &str) -> String {
        match (self.kind, command.split_once(' ')) {
            (SessionKind::Interactive, _) => command.to_owned(),
            (_, Some((name, rest))) => format!("turms {name} {} {rest}", self.server_args),
            (_, None) => format!("turms {command} {}", self.server_args),
        }
    }

    pub(crate) fn add_task(&self, id: &str) {
        self.tasks.lock().push(id.to_owned());
    }

    pub(crate) fn started_tasks(&self) -> Vec<String> {
        self.tasks.lock().clone()
    }

    /// Returns the name of the transport.
    pub(crate) fn transport(&self) -> &'static str {
        self.target.transport()
    }

    /// Returns the target, without secrets.
    pub(crate) fn target(&self) -> String {
        self.target.to_string()
    }
}

/// Returns the server and its options for another command: the name of a configured server, or the URL without secrets.
fn server_args(args: &ServerArgs, target: &CliTarget) -> String {
    let name = args.target.as_deref().filter(|name| !name.contains("://"));
    let mut words = vec![name.map_or_else(|| target.to_string(), quote)];
    words.extend(args.options.repeated().iter().map(|word| quote(word)));
    words.join(" ")
}

/// Quotes a word for a POSIX shell.
pub(crate) fn quote(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Warns about roots that do not exist.
fn warn_about_missing_roots(options: &ServerOptions, printer: &Printer) {
    for root in options.root.iter().filter(|root| !root.contains("://") && !Path::new(root).exists()) {
        printer.warn(format!("--root: {root} does not exist"));
    }
}

/// Builds a client with the options.
fn builder(options: &ServerOptions, printer: &Printer, kind: SessionKind) -> ClientBuilder {
    let log = printer.clone();
    let mut builder = Client::builder("turms", env!("CARGO_PKG_VERSION"))
        .handshake_timeout(options.timeout.unwrap_or(CONNECT_TIMEOUT))
        .timeout(options.timeout.unwrap_or(DEFAULT_TIMEOUT))
        // Some servers do not respond to unknown methods; do not wait long for those.
        .probe_timeout(options.timeout.unwrap_or(PROBE_TIMEOUT).min(PROBE_TIMEOUT))
        .enable_tasks()
        .without_log_tracing()
        .on_log(move |message| print_log(&log, message, kind));
    if printer.is_json() {
        // Each list that is printed is requested anew.
        builder = builder.without_cache();
    }
    if let Some(level) = log_level(printer, kind) {
        builder = builder.log_level(level);
    }
    match kind {
        // A server that does not respond at the start is reported at once.
        SessionKind::Interactive => builder.reconnect(Backoff::new()).connect_timeout(Duration::ZERO),
        SessionKind::OneCommand | SessionKind::Log => builder,
    }
}

/// Tells the user when connecting takes long.
async fn with_slow_notice<T>(printer: &Printer, target: &CliTarget, connect: impl Future<Output = T>) -> T {
    let mut connect = std::pin::pin!(connect);
    match tokio::time::timeout(SLOW_NOTICE_DELAY, &mut connect).await {
        Ok(connected) => connected,
        Err(_) => {
            printer.note(format!("waiting for {target}; Ctrl-C cancels"));
            connect.await
        }
    }
}

/// Returns the logging level to request. In older revisions that costs a request, so it is only done if the log is shown.
fn log_level(printer: &Printer, kind: SessionKind) -> Option<LoggingLevel> {
    match kind {
        // The command sends its own level.
        SessionKind::Log => None,
        _ if printer.shows(Verbosity::Debug) => Some(LoggingLevel::Debug),
        SessionKind::Interactive => Some(LoggingLevel::Info),
        SessionKind::OneCommand => printer.shows(Verbosity::Verbose).then_some(LoggingLevel::Info),
    }
}

/// Prints a log message. Many servers send them without a request for a level.
fn print_log(printer: &Printer, message: &LogMessage, kind: SessionKind) {
    match kind {
        SessionKind::Interactive => printer.note(show::log(message)),
        SessionKind::OneCommand => printer.detail(Verbosity::Verbose, show::log(message)),
        // The command prints log messages as data.
        SessionKind::Log => {}
    }
}
