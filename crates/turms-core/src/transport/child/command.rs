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

use super::environment::{Environment, InheritedVariables};
use super::pipe::{ChildInput, ChildOutput, ChildReader, ChildWriter, StdoutCallback};
use super::process_group::ProcessGroup;
use super::stderr::{StderrCallback, StderrReader, StderrTail};
use super::supervisor::Supervisor;
use super::watchdog::Watchdog;
use super::{Child, ChildProcess, KillOnDrop};

/// A command that starts a server as a child process, connected over its standard input and output.
///
/// The child inherits only a few environment variables, so that secrets of the host do not reach it: `PATH`, `HOME`, `USER`, `LOGNAME`,
/// `SHELL`, `TERM`, `LANG`, `LC_*`, `TZ` and `TMPDIR`; on Windows their equivalents. Add others with [`ChildCommand::env`], or all with
/// [`ChildCommand::inherit_env`].
///
/// On Unix the child runs in its own process group, so that it can be ended together with the processes that it starts.
///
/// # Examples
/// ```no_run
/// # mod turms { pub mod transport { pub use turms_core::transport::*; pub use turms_core::*; } }
/// use turms::transport::{ChildCommand, Connection, Limits};
/// # use turms_core::Service;
/// # use turms_proto::session::ClientOptions;
///
/// # async fn connect(service: impl Service, client: ClientOptions) -> Result<(), Box<dyn std::error::Error>> {
/// let command = ChildCommand::new("npx").args(["-y", "some-server"]).env("API_KEY", "secret");
/// let (reader, writer, child) = command.spawn()?.into_parts();
///
/// let (connection, handle) = Connection::client(reader, writer, client, Limits::default());
/// let driver = tokio::spawn(connection.run(service));
/// // … send requests through the handle …
/// handle.shutdown();
/// driver.await??;
/// println!("{command} {}", child.end().await);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "stdio")]
#[doc(alias = "subprocess")]
#[doc(alias = "StdioTransport")]
#[doc(alias = "TokioChildProcess")]
#[derive(Clone)]
#[must_use = "a command does nothing until it is spawned"]
pub struct ChildCommand {
    program: OsString,
    args: Vec<OsString>,
    environment: Environment,
    cwd: Option<PathBuf>,
    on_stderr: Option<StderrCallback>,
    pub(super) on_stdout: Option<StdoutCallback>,
    pub(super) max_message_bytes: usize,
    exit_timeout: Duration,
    kill_timeout: Duration,
}

impl ChildCommand {
    /// Creates a command for a program: a path, or a name that is looked up in `PATH`.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            environment: Environment::default(),
            cwd: None,
            on_stderr: None,
            on_stdout: None,
            max_message_bytes: Lines::DEFAULT_LIMIT,
            exit_timeout: Duration::from_secs(2),
            kill_timeout: Duration::from_secs(2),
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

    /// Sets an environment variable.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.explicit.insert(name.into(), Some(value.into()));
        self
    }

    /// Sets environment variables.
    pub fn envs<N: Into<OsString>, V: Into<OsString>>(mut self, variables: impl IntoIterator<Item = (N, V)>) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), Some(value.into())));
        self.environment.explicit.extend(variables);
        self
    }

    /// Removes an environment variable that the child would inherit.
    pub fn env_remove(mut self, name: impl Into<OsString>) -> Self {
        self.environment.explicit.insert(name.into(), None);
        self
    }

    /// Inherits all environment variables of this process, including secrets.
    pub fn inherit_env(mut self) -> Self {
        self.environment.inherited = InheritedVariables::All;
        self
    }

    /// Sets the working directory. It depends on the system whether a relative path to the program is resolved from there: use an
    /// absolute one.
    pub fn current_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cwd = Some(directory.into());
        self
    }

    /// Calls a function for each line of standard error. Default: none; the lines are logged by
    /// [`tracing`] (target `turms::child`, level info).
    ///
    /// Lines are truncated to 8 KiB, and invalid UTF-8 is replaced. The function is called by the task that supervises the process and must
    /// not block.
    pub fn on_stderr(mut self, callback: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_stderr = Some(Arc::new(callback));
        self
    }

    /// Calls a function with everything that is read from standard output, in chunks of any size, such as to find output that is not a
    /// protocol message. Applies to connections that this command opens.
    pub fn on_stdout(mut self, callback: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        self.on_stdout = Some(Arc::new(callback));
        self
    }

    /// Sets the maximum length of a message from the program in bytes. Default: 16 MiB. A longer one is discarded, and its call fails. Applies to
    /// connections that this command opens.
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// Sets the timeout for the exit after standard input is closed. Default: 2 s.
    pub fn exit_timeout(mut self, timeout: Duration) -> Self {
        self.exit_timeout = timeout;
        self
    }

    /// Sets the timeout for the exit after SIGTERM. Default: 2 s.
    pub fn kill_timeout(mut self, timeout: Duration) -> Self {
        self.kill_timeout = timeout;
        self
    }

    /// Starts the program.
    ///
    /// # Errors
    /// If the program or the directory does not exist, or the system cannot start it.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time enabled.
    pub fn spawn(&self) -> Result<ChildProcess, SpawnError> {
        // Panics before the process is started if there is no runtime.
        let runtime = tokio::runtime::Handle::current();
        let mut leader = self.command().spawn().map_err(|error| self.failure(error))?;
        let (Some(id), Some(stdin), Some(stdout), Some(stderr)) =
            (leader.id(), leader.stdin.take(), leader.stdout.take(), leader.stderr.take())
        else {
            unreachable!("a process that was just started has an id, and three pipes as configured");
        };
        let watchdog = Watchdog::start(id, self.exit_timeout, self.kill_timeout);
        let (input, output) = (Arc::new(ChildInput::new(stdin)), Arc::new(ChildOutput::default()));
        let group = Arc::new(ProcessGroup::new(id, leader, watchdog, Arc::clone(&output)));
        let (tail, end_requested) = (Arc::new(StderrTail::default()), Arc::new(Notify::new()));
        let guard = Arc::new(KillOnDrop(Arc::clone(&group)));
        let program = self.program.to_string_lossy().into_owned();
        let supervisor = Supervisor {
            stderr: StderrReader::new(stderr, program, id, self.on_stderr.clone(), Arc::clone(&tail)),
            group,
            input: Arc::clone(&input),
            end_requested: Arc::clone(&end_requested),
            exit_timeout: self.exit_timeout,
            kill_timeout: self.kill_timeout,
        };
        runtime.spawn(supervisor.run());
        Ok(ChildProcess {
            reader: ChildReader::new(stdout, output),
            writer: ChildWriter::new(input),
            child: Child { guard, tail, end_requested },
        })
    }

    /// The program without its arguments, which may contain secrets.
    pub(super) fn program_name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    /// Identifies the command.
    pub(super) fn identity_text(&self) -> String {
        // The same program may be another server in another environment.
        let mut hasher = DefaultHasher::new();
        self.environment.explicit.hash(&mut hasher);
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

    /// Converts the error of the system, which does not tell a missing program from a missing directory.
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

/// Shows the program and its arguments, but not the environment.
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

/// Quotes a word that is empty or has spaces, quotes or control characters.
fn write_word(f: &mut fmt::Formatter<'_>, word: &OsStr) -> fmt::Result {
    let word = word.to_string_lossy();
    let is_plain =
        |letter: char| !letter.is_whitespace() && !letter.is_control() && !matches!(letter, '"' | '\'' | '\\');
    if !word.is_empty() && word.chars().all(is_plain) { f.write_str(&word) } else { write!(f, "{word:?}") }
}

/// Shows the names of the environment variables, but not their values.
impl fmt::Debug for ChildCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildCommand")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env", &self.environment.explicit.keys())
            .field("inherited_env", &self.environment.inherited)
            .field("cwd", &self.cwd)
            .field("exit_timeout", &self.exit_timeout)
            .field("kill_timeout", &self.kill_timeout)
            .finish_non_exhaustive()
    }
}

/// Error of starting a program.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The program does not exist.
    #[error("cannot start {program:?}: program not found")]
    NotFound {
        /// The program.
        program: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The working directory does not exist.
    #[error("cannot start {program:?}: {directory:?} is not a directory")]
    Directory {
        /// The program.
        program: String,
        /// The working directory.
        directory: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The system cannot start the program for another reason.
    #[error("cannot start {program:?}")]
    Refused {
        /// The program.
        program: String,
        /// The error of the system.
        source: io::Error,
    },
}

crate::__internal::debug_error! {
    SpawnError {
        NotFound { program, source },
        Directory { program, directory, source },
        Refused { program, source },
    }
}

impl SpawnError {
    /// Returns `true` if the program does not exist.
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
        let command =
            ChildCommand::new("sh").args(["-c", "echo \"hi\"", ""]).env("TOKEN", "hunter2").current_dir("/tmp");

        assert_eq!(command.to_string(), r#"sh -c "echo \"hi\"" """#);
        let debug = format!("{command:?}");
        assert!(debug.contains("TOKEN") && !debug.contains("hunter2"), "{debug}");
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(ChildCommand::new("\u{1b}[2J").to_string(), r#""\u{1b}[2J""#);
    }

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, bytes, time, when};

        let it = ChildCommand::new("sh");
        let code = [
            ("ChildCommand::on_stderr", when(it.on_stderr.is_none(), "none")),
            ("ChildCommand::max_message_bytes", bytes(it.max_message_bytes)),
            ("ChildCommand::exit_timeout", time(it.exit_timeout)),
            ("ChildCommand::kill_timeout", time(it.kill_timeout)),
        ];
        assert_documented(include_str!("command.rs"), &code);
    }
}
