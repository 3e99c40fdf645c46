use std::ffi::{OsStr, OsString};
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::Notify;
use turms_proto::Lines;

use super::environment::{Environment, Inherited};
use super::pipe::{ChildReader, ChildWriter, Input, Output, StdoutSink};
use super::process_group::Group;
use super::stderr::{Stderr, StderrSink, Tail};
use super::supervisor::Keeper;
use super::watchdog::Watchdog;
use super::{Child, ChildProcess, Guard};

/// A program to be started as a server that speaks over its standard input and output.
///
/// It is given only a few harmless variables of our environment, so that secrets of the host do not reach it:
/// `PATH`, `HOME`, `USER`, `LOGNAME`, `SHELL`, `TERM`, `LANG`, `LC_*`, `TZ` and `TMPDIR`; on Windows the usual ones. More are
/// given with [`ChildCommand::env`]; [`ChildCommand::inherit_env`] gives all.
///
/// On Unix it runs in a process group of its own, so that it can be ended together with what it starts.
///
/// # Examples
/// ```no_run
/// use turms_core::transport::ChildCommand;
/// use turms_core::{Connection, Limits};
/// # use turms_core::Service;
/// # use turms_proto::session::ClientOptions;
///
/// # async fn connect(service: impl Service, client: ClientOptions) -> Result<(), Box<dyn std::error::Error>> {
/// let command = ChildCommand::new("npx").args(["-y", "some-server"]).env("API_KEY", "secret");
/// let (reader, writer, child) = command.spawn()?.into_parts();
///
/// let (connection, handle) = Connection::client(reader, writer, client, Limits::default());
/// let driver = tokio::spawn(connection.run(service));
/// // … talk to it through the handle …
/// handle.shutdown();
/// driver.await??;
/// println!("{command} {}", child.end().await);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a command does nothing until it is spawned"]
pub struct ChildCommand {
    program: OsString,
    args: Vec<OsString>,
    environment: Environment,
    cwd: Option<PathBuf>,
    sink: Option<StderrSink>,
    pub(super) overhear: Option<StdoutSink>,
    pub(super) message_limit: usize,
    exit_timeout: Duration,
    term_timeout: Duration,
}

impl ChildCommand {
    /// A program, by its path or by a name that is looked for in `PATH`.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            environment: Environment::default(),
            cwd: None,
            sink: None,
            overhear: None,
            message_limit: Lines::DEFAULT_LIMIT,
            exit_timeout: Duration::from_secs(2),
            term_timeout: Duration::from_secs(2),
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Gives it a variable of the environment.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.given.insert(name.into(), Some(value.into()));
        self
    }

    /// Gives it variables of the environment.
    pub fn envs<N: Into<OsString>, V: Into<OsString>>(mut self, variables: impl IntoIterator<Item = (N, V)>) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), Some(value.into())));
        self.environment.given.extend(variables);
        self
    }

    /// Does not give it a variable that it would be given otherwise.
    pub fn env_remove(mut self, name: impl Into<OsString>) -> Self {
        self.environment.given.insert(name.into(), None);
        self
    }

    /// Gives it all variables of our own environment, secrets included.
    pub fn inherit_env(mut self) -> Self {
        self.environment.inherited = Inherited::All;
        self
    }

    /// Starts it in this directory. Systems differ in whether a relative path to the program is meant from there: better
    /// give an absolute one.
    pub fn cwd(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cwd = Some(directory.into());
        self
    }

    /// Hears what it writes to its standard error, line by line, instead of [`tracing`], where it goes otherwise (target
    /// `turms::child`, level info).
    ///
    /// Lines are cut after 8 KiB; what is not UTF-8 is replaced. The function is called by the task that looks after the
    /// process and must not block.
    pub fn on_stderr(mut self, hear: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.sink = Some(Arc::new(hear));
        self
    }

    /// Lets somebody hear what it writes to its standard output, messages and all, wherever it is cut. What is no message there
    /// is why many servers do not work. For connections that are made of this command.
    pub fn on_stdout(mut self, hear: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        self.overhear = Some(Arc::new(hear));
        self
    }

    /// Sets the maximum length of a message from the program in bytes (16 MiB). A longer one is not read, and the call that it
    /// answers fails. For connections that are made of this command.
    pub fn message_limit(mut self, bytes: usize) -> Self {
        self.message_limit = bytes;
        self
    }

    /// How long it has to exit once its standard input is closed; two seconds by default.
    pub fn exit_timeout(mut self, timeout: Duration) -> Self {
        self.exit_timeout = timeout;
        self
    }

    /// How long it has to exit once it was sent SIGTERM; two seconds by default.
    pub fn term_timeout(mut self, timeout: Duration) -> Self {
        self.term_timeout = timeout;
        self
    }

    /// Starts the program.
    ///
    /// # Errors
    /// When there is no such program or directory, or the system refuses.
    ///
    /// # Panics
    /// When called outside of a Tokio runtime that has I/O and time enabled.
    pub fn spawn(&self) -> Result<ChildProcess, SpawnError> {
        // The process must not be running already when it turns out that there is no runtime.
        let runtime = tokio::runtime::Handle::current();
        let mut leader = self.command().spawn().map_err(|error| self.failure(error))?;
        let (Some(id), Some(stdin), Some(stdout), Some(stderr)) =
            (leader.id(), leader.stdin.take(), leader.stdout.take(), leader.stderr.take())
        else {
            unreachable!("a process just started, with three pipes, has an id and three pipes");
        };
        let watchdog = Watchdog::start(id, self.exit_timeout, self.term_timeout);
        let (input, output) = (Arc::new(Input::new(stdin)), Arc::new(Output::default()));
        let group = Arc::new(Group::new(id, leader, watchdog, Arc::clone(&output)));
        let (tail, asked) = (Arc::new(Tail::default()), Arc::new(Notify::new()));
        let guard = Arc::new(Guard(Arc::clone(&group)));
        let program = self.program.to_string_lossy().into_owned();
        let keeper = Keeper {
            stderr: Stderr::new(stderr, program, id, self.sink.clone(), Arc::clone(&tail)),
            group,
            input: Arc::clone(&input),
            asked: Arc::clone(&asked),
            exit_timeout: self.exit_timeout,
            term_timeout: self.term_timeout,
        };
        runtime.spawn(keeper.run());
        Ok(ChildProcess {
            reader: ChildReader::new(stdout, output),
            writer: ChildWriter::new(input),
            child: Child { guard, tail, asked },
        })
    }

    /// The program, for people; its arguments may hold secrets.
    pub(super) fn program_name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    /// What tells it from other programs.
    pub(super) fn identity_text(&self) -> String {
        // What a server is told by its environment may make another server of it.
        let mut hasher = DefaultHasher::new();
        self.environment.given.hash(&mut hasher);
        let directory = self.cwd.as_deref().unwrap_or_else(|| Path::new(""));
        format!("{self} in {:?} with {:x}", directory, hasher.finish())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        self.environment.apply(&mut command);
        if let Some(directory) = &self.cwd {
            command.current_dir(directory);
        }
        #[cfg(unix)]
        command.process_group(0);
        command
    }

    /// The system reports a missing program and a missing directory alike.
    fn failure(&self, source: io::Error) -> SpawnError {
        let program = self.program.to_string_lossy().into_owned();
        if let Some(directory) = &self.cwd
            && !directory.is_dir()
        {
            return SpawnError::Directory { program, directory: directory.clone(), source };
        }
        match source.kind() {
            io::ErrorKind::NotFound => SpawnError::NotFound { program, source },
            _ => SpawnError::Refused { program, source },
        }
    }
}

/// The program and its arguments, for people. Never shows the environment.
impl fmt::Display for ChildCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_word(f, &self.program)?;
        for arg in &self.args {
            f.write_str(" ")?;
            write_word(f, arg)?;
        }
        Ok(())
    }
}

/// Quotes what would not be seen to be one word.
fn write_word(f: &mut fmt::Formatter<'_>, word: &OsStr) -> fmt::Result {
    let word = word.to_string_lossy();
    let plain = |letter: char| !letter.is_whitespace() && !letter.is_control() && !matches!(letter, '"' | '\'' | '\\');
    if !word.is_empty() && word.chars().all(plain) { f.write_str(&word) } else { write!(f, "{word:?}") }
}

/// Names the variables of the environment that are given, but not their values.
impl fmt::Debug for ChildCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildCommand")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env", &self.environment.given.keys())
            .field("inherited_env", &self.environment.inherited)
            .field("cwd", &self.cwd)
            .field("exit_timeout", &self.exit_timeout)
            .field("term_timeout", &self.term_timeout)
            .finish_non_exhaustive()
    }
}

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// There is no such program.
    #[error("cannot start {program:?}: there is no such program")]
    NotFound {
        /// The program.
        program: String,
        /// What the system says.
        source: io::Error,
    },
    /// It was to be started in a directory that is none.
    #[error("cannot start {program:?}: {directory:?} is not a directory")]
    Directory {
        /// The program.
        program: String,
        /// What is not a directory.
        directory: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The system does not start it.
    #[error("cannot start {program:?}: the system refuses")]
    Refused {
        /// The program.
        program: String,
        /// What the system says.
        source: io::Error,
    },
}

impl SpawnError {
    /// Whether the program does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_words_and_without_its_environment() {
        let command = ChildCommand::new("sh").args(["-c", "echo \"hi\"", ""]).env("TOKEN", "hunter2").cwd("/tmp");

        assert_eq!(command.to_string(), r#"sh -c "echo \"hi\"" """#);
        let debug = format!("{command:?}");
        assert!(debug.contains("TOKEN") && !debug.contains("hunter2"), "{debug}");
    }

    #[test]
    fn control_characters_are_not_shown_as_they_are() {
        assert_eq!(ChildCommand::new("\u{1b}[2J").to_string(), r#""\u{1b}[2J""#);
    }
}
