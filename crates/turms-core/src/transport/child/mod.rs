//! Servers that run as child processes, connected over their standard input and output.
//!
//! [`ChildReader`] and [`ChildWriter`] are the pipes of a process, and [`Child`] is the handle that ends it. A task for each process, the
//! supervisor, reads its standard error, notices its exit and ends it on request. The process group has the state of the processes; only
//! there are signals sent and processes reaped, so that a signal never goes to another process that has reused an id.

mod command;
mod connect;
mod environment;
mod exit;
mod pipe;
mod process_group;
#[cfg(unix)]
mod process_table;
mod stderr;
mod supervisor;
mod watchdog;

use std::sync::Arc;

use tokio::sync::Notify;

pub use self::command::{ChildCommand, SpawnError};
pub use self::exit::ChildExit;
pub use self::pipe::{ChildReader, ChildWriter};
use self::process_group::ProcessGroup;
use self::stderr::StderrTail;

/// A child process that was started: its output, its input and its handle.
#[derive(Debug)]
pub struct ChildProcess {
    reader: ChildReader,
    writer: ChildWriter,
    child: Child,
}

impl ChildProcess {
    /// The handle of the process.
    #[must_use]
    pub fn child(&self) -> &Child {
        &self.child
    }

    /// Splits it into a reader and a writer, for a [`Connection`](crate::Connection), and the handle. The process is killed when the handle is
    /// dropped.
    #[must_use = "the process is killed when its handle is dropped"]
    pub fn into_parts(self) -> (ChildReader, ChildWriter, Child) {
        (self.reader, self.writer, self.child)
    }
}

/// The handle of a child process. When the last clone is dropped, the process is killed, together with the processes that it has started.
///
/// Processes that leave the process group, such as daemons, are not ended. Members of the group that still run after the program itself
/// has exited are ended, too.
///
/// If this process exits without having ended the child, even by SIGKILL, a small shell that watches it ends the group on Unix. Other
/// systems have neither groups nor that shell: only the program itself is ended, and instead of SIGTERM it is killed.
#[derive(Clone, Debug)]
pub struct Child {
    guard: Arc<KillOnDrop>,
    tail: Arc<StderrTail>,
    end_requested: Arc<Notify>,
}

impl Child {
    /// The process id. The system may reuse it after the process has exited.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.guard.0.id()
    }

    /// The exit of the process; `None` while it runs.
    #[must_use]
    pub fn exit_status(&self) -> Option<ChildExit> {
        self.guard.0.state().borrow().exit
    }

    /// Waits until the process has exited. Processes that it has started may still run. [`Child::stderr_tail`] then has the last lines of its
    /// standard error.
    pub async fn exited(&self) -> ChildExit {
        let mut state = self.guard.0.state();
        let exited = state.wait_for(|state| state.exit.is_some()).await;
        exited.ok().and_then(|state| state.exit).unwrap_or(ChildExit::Unknown)
    }

    /// The last lines of standard error, at most 20. Escape control characters before you print them to a terminal.
    #[must_use]
    pub fn stderr_tail(&self) -> Vec<String> {
        self.tail.lines()
    }

    /// Ends the process and its group, as the specification describes (basic/lifecycle until 2025-11-25, basic/transports/stdio after,
    /// "Shutdown"): closes its standard input, even if a [`ChildWriter`] still exists; waits; sends SIGTERM; waits; sends SIGKILL. Resolves
    /// when the whole group has exited.
    ///
    /// It may be called repeatedly and concurrently. The process is ended even if the future is dropped. This happens in the runtime in
    /// which the process was started; if that is shut down, the group is killed.
    pub async fn end(&self) -> ChildExit {
        self.end_requested.notify_one();
        let mut state = self.guard.0.state();
        let gone = state.wait_for(|state| state.gone).await;
        gone.ok().and_then(|state| state.exit).unwrap_or(ChildExit::Unknown)
    }
}

/// Kills the group when the last handle is dropped.
#[derive(Debug)]
struct KillOnDrop(Arc<ProcessGroup>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
