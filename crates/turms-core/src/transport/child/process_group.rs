use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::process::Child;
use tokio::sync::watch;

use self::platform::GroupMembers;
use super::exit::ChildExit;
use super::pipe::ChildOutput;
use super::watchdog::Watchdog;

/// The process group of a child: the child, which is its leader, and the processes that it has started.
///
/// Signals are sent and processes reaped only while the lock is held, because the last handle may be dropped on any thread. The id of a
/// process is reserved until it is reaped, and the id of a group until it is empty; after that, the system may reuse both.
///
/// process-wrap 10 does not replace this: its `wait` returns while processes of the group that are not children of ours are
/// still running, and its `start_kill` signals the number of the group after the group has ended (both tried).
#[derive(Debug)]
pub(super) struct ProcessGroup {
    id: u32,
    processes: Mutex<GroupProcesses>,
    state: watch::Sender<GroupState>,
    output: Arc<ChildOutput>,
}

#[derive(Debug)]
struct GroupProcesses {
    leader: Child,
    /// The exit of the leader, once it is reaped.
    exit: Option<ChildExit>,
    members: GroupMembers,
    /// Set if all members have exited, or those that have not cannot be ended. No more signals are sent.
    gone: bool,
    watchdog: Option<Watchdog>,
}

/// The published state of a group.
#[derive(Debug, Default)]
pub(super) struct GroupState {
    /// The exit of the leader.
    pub(super) exit: Option<ChildExit>,
    /// Set once the whole group has exited.
    pub(super) gone: bool,
}

impl ProcessGroup {
    pub(super) fn new(id: u32, leader: Child, watchdog: Option<Watchdog>, output: Arc<ChildOutput>) -> Self {
        let processes = GroupProcesses { leader, exit: None, members: GroupMembers::of(id), gone: false, watchdog };
        Self { id, processes: Mutex::new(processes), state: watch::Sender::default(), output }
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }

    pub(super) fn state(&self) -> watch::Receiver<GroupState> {
        self.state.subscribe()
    }

    /// Waits until the leader has exited, and reaps it. Other members may still run.
    pub(super) async fn leader_exit(&self) -> ChildExit {
        poll_fn(|task| self.processes.lock().poll_leader(task)).await
    }

    /// Returns `true` if the exit of the leader is published.
    pub(super) fn has_published_exit(&self) -> bool {
        self.state.borrow().exit.is_some()
    }

    /// Publishes the exit of the leader.
    pub(super) fn publish_exit(&self, exit: ChildExit) {
        self.state.send_if_modified(|state| state.exit.replace(exit) != Some(exit));
    }

    /// Reaps members that have exited. Returns `true` once all have.
    pub(super) fn reap(&self) -> bool {
        let mut processes = self.processes.lock();
        if !processes.reap() {
            return false;
        }
        let exit = processes.exit;
        drop(processes);
        self.close(exit);
        true
    }

    /// Sends SIGTERM to all members.
    pub(super) fn terminate(&self) {
        self.processes.lock().signal(GroupMembers::terminate, platform::terminate);
    }

    /// Sends SIGKILL to all members.
    pub(super) fn kill(&self) {
        self.processes.lock().signal(GroupMembers::kill, |leader| drop(leader.start_kill()));
    }

    /// Treats the group as gone after it was killed, although members have not exited.
    pub(super) fn give_up(&self) {
        let (exit, watchdog) = {
            let mut processes = self.processes.lock();
            processes.gone = true;
            (processes.exit, processes.watchdog.take())
        };
        watchdog.into_iter().for_each(Watchdog::stop_and_wait);
        self.close(exit);
    }

    /// Kills the group and reaps it, without a runtime: it may have shut down.
    pub(super) fn abandon(self: &Arc<Self>) {
        if self.state.borrow().gone {
            return;
        }
        self.kill();
        if self.reap() {
            return;
        }
        let group = Arc::clone(self);
        let reaper = std::thread::Builder::new().name("turms-reaper".to_owned()).spawn(move || group.reap_all());
        if let Err(error) = reaper {
            tracing::warn!(target: "turms::child", pid = self.id, %error, "cannot start a thread to reap a killed child process");
        }
    }

    /// Blocks until the group has exited, for a few seconds at most.
    fn reap_all(&self) {
        const MAX_ATTEMPTS: usize = 100;
        for delay in poll_delays().take(MAX_ATTEMPTS) {
            if self.reap() {
                return;
            }
            std::thread::sleep(delay);
        }
        self.give_up();
    }

    fn close(&self, exit: Option<ChildExit>) {
        self.state.send_if_modified(|state| {
            state.exit = state.exit.or(exit).or(Some(ChildExit::Unknown));
            !std::mem::replace(&mut state.gone, true)
        });
        self.output.end();
    }
}

/// The delays between attempts to reap processes that do not signal their exit: 1 ms, doubled up to 32 ms.
pub(super) fn poll_delays() -> impl Iterator<Item = Duration> {
    const MAX_DELAY: Duration = Duration::from_millis(32);
    std::iter::successors(Some(Duration::from_millis(1)), |delay| Some((*delay * 2).min(MAX_DELAY)))
}

impl GroupProcesses {
    fn poll_leader(&mut self, task: &mut Context<'_>) -> Poll<ChildExit> {
        if let Some(exit) = self.exit {
            return Poll::Ready(exit);
        }
        let waited = ready!(pin!(self.leader.wait()).poll(task));
        Poll::Ready(self.leader_reaped(waited.ok().map(ChildExit::from)))
    }

    /// Stores the exit of the leader; `None` if other code in this process has reaped it.
    fn leader_reaped(&mut self, exit: Option<ChildExit>) -> ChildExit {
        let exit = *self.exit.insert(exit.unwrap_or(ChildExit::Unknown));
        self.update_gone();
        exit
    }

    /// Checks whether the group is gone. The leader must be reaped: until then, its id keeps the group.
    fn update_gone(&mut self) {
        self.gone = self.gone || (self.exit.is_some() && self.members.are_gone());
    }

    fn reap(&mut self) -> bool {
        if self.exit.is_none() {
            match self.leader.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => _ = self.leader_reaped(Some(status.into())),
                Err(_) => _ = self.leader_reaped(None),
            }
        }
        self.update_gone();
        if self.gone && self.watchdog.as_mut().is_some_and(Watchdog::stop) {
            self.watchdog = None;
        }
        self.gone && self.watchdog.is_none()
    }

    fn signal(&mut self, members: impl Fn(&GroupMembers) -> bool, leader: impl Fn(&mut Child)) {
        if self.gone || members(&self.members) {
            return;
        }
        // The group is empty. The leader itself may have joined another group.
        match self.exit {
            Some(_) => self.gone = true,
            None => leader(&mut self.leader),
        }
    }
}

#[cfg(unix)]
mod platform {
    use rustix::process::{
        Pid, Signal, WaitOptions, kill_process, kill_process_group, test_kill_process_group, waitpgid,
    };
    use tokio::process::Child;

    use super::super::process_table::ProcessTable;

    /// The members of a process group.
    #[derive(Debug)]
    pub(super) struct GroupMembers {
        group: Option<Pid>,
        table: ProcessTable,
    }

    impl GroupMembers {
        pub(super) fn of(leader: u32) -> Self {
            Self { group: pid(leader), table: ProcessTable::default() }
        }

        /// Sends SIGTERM. Returns `false` if the group is empty.
        pub(super) fn terminate(&self) -> bool {
            self.group.is_some_and(|group| kill_process_group(group, Signal::TERM).is_ok())
        }

        /// Sends SIGKILL. Returns `false` if the group is empty.
        pub(super) fn kill(&self) -> bool {
            self.group.is_some_and(|group| kill_process_group(group, Signal::KILL).is_ok())
        }

        /// Returns `true` if no member runs, or none that can be signalled. Call it after the leader is reaped.
        pub(super) fn are_gone(&mut self) -> bool {
            let Some(group) = self.group else { return true };
            reap_adopted(group);
            if test_kill_process_group(group).is_err() {
                return true;
            }
            let only_zombies = self.table.has_only_zombies(group.as_raw_pid());
            if only_zombies {
                // Zombies ignore the signal; a process that was started during the search does not escape it.
                self.kill();
                reap_adopted(group);
            }
            only_zombies
        }
    }

    /// Reaps orphans of the group. They are children of this process if it is the init process of a container.
    fn reap_adopted(group: Pid) {
        while let Ok(Some(_)) = waitpgid(group, WaitOptions::NOHANG) {}
    }

    pub(super) fn terminate(leader: &mut Child) {
        if let Some(leader) = leader.id().and_then(pid) {
            // It may have exited a moment ago.
            let _ = kill_process(leader, Signal::TERM);
        }
    }

    /// Never 1: a signal to the group with that id is a signal to all processes.
    fn pid(id: u32) -> Option<Pid> {
        i32::try_from(id).ok().and_then(Pid::from_raw).filter(|pid| !pid.is_init())
    }
}

#[cfg(not(unix))]
mod platform {
    use tokio::process::Child;

    /// There are no process groups: the leader is the only member.
    #[derive(Debug)]
    pub(super) struct GroupMembers;

    impl GroupMembers {
        pub(super) fn of(_: u32) -> Self {
            Self
        }

        pub(super) fn terminate(&self) -> bool {
            false
        }

        pub(super) fn kill(&self) -> bool {
            false
        }

        pub(super) fn are_gone(&mut self) -> bool {
            true
        }
    }

    /// There is no SIGTERM: kills the process.
    pub(super) fn terminate(leader: &mut Child) {
        drop(leader.start_kill());
    }
}
