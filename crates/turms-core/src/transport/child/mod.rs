//! Programs that are started as servers and spoken to over their standard input and output.
//!
//! Three things work on a process: whoever reads and writes ([`ChildReader`], [`ChildWriter`]), whoever decides how long it
//! lives ([`Child`]), and a task of its own, the keeper, which hears its standard error, notices its end and ends it when
//! asked. All that is known of the processes stands in one place, the group; only there are signals sent and processes
//! reaped, so that a signal can never go to a process that merely has the same number.

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
use self::process_group::Group;
use self::stderr::Tail;

/// A program that was started: what it says, what is said to it, and its life.
#[derive(Debug)]
pub struct ChildProcess {
    reader: ChildReader,
    writer: ChildWriter,
    child: Child,
}

impl ChildProcess {
    /// Its life.
    #[must_use]
    pub fn child(&self) -> &Child {
        &self.child
    }

    /// Takes it apart: the first two are for a [`Connection`](crate::Connection), the third has to be kept for as long as
    /// the process is to live.
    #[must_use = "without its handle the process is killed"]
    pub fn into_parts(self) -> (ChildReader, ChildWriter, Child) {
        (self.reader, self.writer, self.child)
    }
}

/// The life of a program that was started. May be cloned; when the last clone is dropped, the process is killed at once,
/// together with everything it has started.
///
/// The processes that the program starts belong to it, unless they leave its process group, as daemons do: those are out of
/// reach. What is left of the group when the program itself has gone is ended, too.
///
/// Should this process end without having ended the child, even by SIGKILL, then on Unix a small shell that watches us ends
/// the group in our place. On other systems there are neither groups nor that shell: only the program itself is ended, and
/// asking it to leave means closing its standard input.
#[derive(Clone, Debug)]
pub struct Child {
    guard: Arc<Guard>,
    tail: Arc<Tail>,
    asked: Arc<Notify>,
}

impl Child {
    /// The id that the system has given to the process. It may belong to another one after this one has exited.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.guard.0.id()
    }

    /// How the process ended, if it has.
    #[must_use]
    pub fn exit_status(&self) -> Option<ChildExit> {
        self.guard.0.state().borrow().exit
    }

    /// Waits until the process has ended, whether or not anything that it started is left. What it last wrote to its
    /// standard error is in [`Child::stderr_tail`] by then.
    pub async fn exited(&self) -> ChildExit {
        let mut state = self.guard.0.state();
        let exited = state.wait_for(|state| state.exit.is_some()).await;
        exited.ok().and_then(|state| state.exit).unwrap_or(ChildExit::Unknown)
    }

    /// The last lines that the process has written to its standard error, at most twenty. They are what the process wrote:
    /// before they go to a terminal, control characters should be escaped.
    #[must_use]
    pub fn stderr_tail(&self) -> Vec<String> {
        self.tail.lines()
    }

    /// Ends the process and all of its group, in the way that the specification describes (basic/lifecycle until 2025-11-25,
    /// basic/transports/stdio after, "Shutdown"): closes its standard input, even if a [`ChildWriter`] is still held; waits;
    /// sends SIGTERM; waits; sends SIGKILL. Ready when nothing of it is left.
    ///
    /// May be called more than once, and by several. Once asked for, the end comes even if the future is dropped. It is
    /// brought about in the runtime in which the process was started; if that is shut down, the group is killed.
    pub async fn end(&self) -> ChildExit {
        self.asked.notify_one();
        let mut state = self.guard.0.state();
        let gone = state.wait_for(|state| state.gone).await;
        gone.ok().and_then(|state| state.exit).unwrap_or(ChildExit::Unknown)
    }
}

/// Kills the group when the last handle is dropped.
#[derive(Debug)]
struct Guard(Arc<Group>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
