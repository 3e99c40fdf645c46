use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::pipe::ChildInput;
use super::process_group::{ProcessGroup, poll_delays};
use super::stderr::StderrReader;

/// Supervises a process until its group has exited: reads its standard error, notices its exit, and ends it on request. Dropping it
/// kills the group.
#[derive(Debug)]
pub(super) struct Supervisor {
    pub(super) group: Arc<ProcessGroup>,
    pub(super) input: Arc<ChildInput>,
    pub(super) stderr: StderrReader,
    /// Notified when the process is to be ended.
    pub(super) end_requested: Arc<Notify>,
    pub(super) exit_timeout: Duration,
    pub(super) kill_timeout: Duration,
}

impl Supervisor {
    /// Timeout for the other members of the group to exit after the leader has.
    const MEMBER_EXIT_TIMEOUT: Duration = Duration::from_millis(200);
    /// Timeout for a killed group to exit. Some members may never do: a process that the system does not release, or a zombie that its
    /// parent does not reap.
    const KILL_TIMEOUT: Duration = Duration::from_secs(1);
    /// Timeout for reading the rest of standard error. It is reached only if another process keeps the pipe open.
    const DRAIN_TIMEOUT: Duration = Duration::from_millis(50);

    pub(super) async fn run(mut self) {
        self.wait_for_exit_or_request().await;
        self.input.close();
        if self.exits_by_itself().await || self.exits_on_sigterm().await || self.exits_on_sigkill().await {
            return;
        }
        tracing::warn!(
            target: "turms::child",
            program = self.stderr.program(),
            pid = self.group.id(),
            "a killed process has not exited",
        );
        self.group.give_up();
    }

    async fn wait_for_exit_or_request(&mut self) {
        let mut exited = pin!(self.group.leader_exit());
        let mut requested = pin!(self.end_requested.notified());
        // The reaper thread of an abandoned process does not wake a task that waits for its exit.
        let mut state = self.group.state();
        let mut gone = pin!(state.wait_for(|state| state.gone));
        let any = poll_fn(|task| {
            let is_ready = exited.as_mut().poll(task).is_ready()
                || requested.as_mut().poll(task).is_ready()
                || gone.as_mut().poll(task).is_ready();
            if is_ready { Poll::Ready(()) } else { Poll::Pending }
        });
        self.stderr.read_during(any).await;
    }

    async fn exits_by_itself(&mut self) -> bool {
        timeout(self.exit_timeout, self.leader_exit()).await.is_ok()
            && timeout(Self::MEMBER_EXIT_TIMEOUT, self.group_exit()).await.is_ok()
    }

    async fn exits_on_sigterm(&mut self) -> bool {
        self.trace("sending SIGTERM to the group of a process that did not exit");
        self.group.terminate();
        timeout(self.kill_timeout, self.group_exit()).await.is_ok()
    }

    async fn exits_on_sigkill(&mut self) -> bool {
        self.trace("sending SIGKILL to the group of a process that did not exit");
        self.group.kill();
        timeout(Self::KILL_TIMEOUT, self.group_exit()).await.is_ok()
    }

    /// Waits until the leader has exited. Its standard error is read before the exit is published.
    async fn leader_exit(&mut self) {
        let exit = self.stderr.read_during(self.group.leader_exit()).await;
        if !self.group.has_published_exit() {
            let _ = timeout(Self::DRAIN_TIMEOUT, self.stderr.read_to_end()).await;
            self.group.publish_exit(exit);
        }
    }

    /// Waits until the whole group has exited.
    async fn group_exit(&mut self) {
        self.leader_exit().await;
        for delay in poll_delays() {
            if self.group.reap() {
                return;
            }
            self.stderr.read_during(sleep(delay)).await;
        }
    }

    fn trace(&self, message: &str) {
        tracing::debug!(target: "turms::child", program = self.stderr.program(), pid = self.group.id(), "{message}");
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.input.close();
        self.group.abandon();
    }
}
