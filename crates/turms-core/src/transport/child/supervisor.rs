use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::pipe::Input;
use super::process_group::{Group, pauses};
use super::stderr::Stderr;

/// Looks after a process from its start to its end. Dropping it kills the group.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) group: Arc<Group>,
    pub(super) input: Arc<Input>,
    pub(super) stderr: Stderr,
    /// Told when the process is to be ended.
    pub(super) asked: Arc<Notify>,
    pub(super) exit_timeout: Duration,
    pub(super) term_timeout: Duration,
}

impl Keeper {
    /// How long those whom the leader has left behind may take to notice.
    const LINGER: Duration = Duration::from_millis(200);
    /// How long it may take until a group that was killed is gone. Some of it may never be: a process that the system does
    /// not let go of, or one that has ended and is not reaped by its parent.
    const KILL_TIMEOUT: Duration = Duration::from_secs(1);
    /// How long what a process has written at last may take to be read. Not needed unless somebody else has the pipe, too.
    const DRAIN_TIMEOUT: Duration = Duration::from_millis(50);

    pub(super) async fn run(mut self) {
        self.exits_or_is_to_end().await;
        self.input.close();
        if self.leaves().await || self.leaves_when_told().await || self.leaves_when_killed().await {
            return;
        }
        tracing::warn!(
            target: "turms::child",
            program = self.stderr.program(),
            pid = self.group.id(),
            "a process that was killed is still there",
        );
        self.group.give_up();
    }

    async fn exits_or_is_to_end(&mut self) {
        let mut exited = pin!(self.group.leader_exits());
        let mut asked = pin!(self.asked.notified());
        // A process that was abandoned may be reaped by another thread, which does not wake whoever waits for its exit.
        let mut state = self.group.state();
        let mut gone = pin!(state.wait_for(|state| state.gone));
        let any = poll_fn(|task| {
            let over = exited.as_mut().poll(task).is_ready()
                || asked.as_mut().poll(task).is_ready()
                || gone.as_mut().poll(task).is_ready();
            if over { Poll::Ready(()) } else { Poll::Pending }
        });
        self.stderr.beside(any).await;
    }

    async fn leaves(&mut self) -> bool {
        timeout(self.exit_timeout, self.leader_leaves()).await.is_ok()
            && timeout(Self::LINGER, self.all_leave()).await.is_ok()
    }

    async fn leaves_when_told(&mut self) -> bool {
        self.trace("sends SIGTERM to the group of a process that did not leave");
        self.group.terminate();
        timeout(self.term_timeout, self.all_leave()).await.is_ok()
    }

    async fn leaves_when_killed(&mut self) -> bool {
        self.trace("sends SIGKILL to the group of a process that did not leave");
        self.group.kill();
        timeout(Self::KILL_TIMEOUT, self.all_leave()).await.is_ok()
    }

    /// By the time that others learn of the end, they can see what the process said about it.
    async fn leader_leaves(&mut self) {
        let exit = self.stderr.beside(self.group.leader_exits()).await;
        if !self.group.is_announced() {
            let _ = timeout(Self::DRAIN_TIMEOUT, self.stderr.rest()).await;
            self.group.announce(exit);
        }
    }

    async fn all_leave(&mut self) {
        self.leader_leaves().await;
        for pause in pauses() {
            if self.group.settle() {
                return;
            }
            self.stderr.beside(sleep(pause)).await;
        }
    }

    fn trace(&self, what: &str) {
        tracing::debug!(target: "turms::child", program = self.stderr.program(), pid = self.group.id(), "{what}");
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.input.close();
        self.group.abandon();
    }
}
