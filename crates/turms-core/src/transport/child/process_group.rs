use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::process::Child;
use tokio::sync::watch;

use self::platform::Members;
use super::exit::ChildExit;
use super::pipe::Output;
use super::watchdog::Watchdog;

/// A process that was started, its leader, and the processes that it has started in turn.
///
/// A lock, since the last handle may be dropped anywhere and kills then and there. Signals are sent and processes reaped only
/// while it is held: the number of a process is its own until it is reaped, and the number of a group until it is empty;
/// after that, both may be given to somebody else.
///
/// process-wrap 10 does not replace this: its `wait` returns while processes of the group that are not children of ours are
/// still running, and its `start_kill` signals the number of the group after the group has ended (both tried).
#[derive(Debug)]
pub(super) struct Group {
    id: u32,
    processes: Mutex<Processes>,
    state: watch::Sender<State>,
    output: Arc<Output>,
}

#[derive(Debug)]
struct Processes {
    leader: Child,
    /// How the leader has ended, once it is reaped.
    exit: Option<ChildExit>,
    members: Members,
    /// Nothing is left, or nothing that could be ended: no more signals.
    gone: bool,
    watchdog: Option<Watchdog>,
}

/// What everybody may know.
#[derive(Debug, Default)]
pub(super) struct State {
    /// How the leader has ended.
    pub(super) exit: Option<ChildExit>,
    /// Nothing of the group is left.
    pub(super) gone: bool,
}

impl Group {
    pub(super) fn new(id: u32, leader: Child, watchdog: Option<Watchdog>, output: Arc<Output>) -> Self {
        let processes = Processes { leader, exit: None, members: Members::of(id), gone: false, watchdog };
        Self { id, processes: Mutex::new(processes), state: watch::Sender::default(), output }
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }

    pub(super) fn state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Waits until the leader has ended, and reaps it. There may be others left.
    pub(super) async fn leader_exits(&self) -> ChildExit {
        poll_fn(|task| self.processes.lock().poll_leader(task)).await
    }

    /// Whether everybody knows how the leader has ended.
    pub(super) fn is_announced(&self) -> bool {
        self.state.borrow().exit.is_some()
    }

    /// Tells everybody how the leader has ended.
    pub(super) fn announce(&self, exit: ChildExit) {
        self.state.send_if_modified(|state| state.exit.replace(exit) != Some(exit));
    }

    /// Reaps what has ended. True once nothing is left.
    pub(super) fn settle(&self) -> bool {
        let mut processes = self.processes.lock();
        if !processes.settle() {
            return false;
        }
        let exit = processes.exit;
        drop(processes);
        self.close(exit);
        true
    }

    /// Asks all to leave.
    pub(super) fn terminate(&self) {
        self.processes.lock().signal(Members::terminate, platform::terminate);
    }

    /// Ends all.
    pub(super) fn kill(&self) {
        self.processes.lock().signal(Members::kill, |leader| drop(leader.start_kill()));
    }

    /// Counts the group as gone: all were killed, and more cannot be done.
    pub(super) fn give_up(&self) {
        let (exit, watchdog) = {
            let mut processes = self.processes.lock();
            processes.gone = true;
            (processes.exit, processes.watchdog.take())
        };
        watchdog.into_iter().for_each(Watchdog::leave_now);
        self.close(exit);
    }

    /// Kills all at once and sees to it that nothing is left, without the help of a runtime: there may be none, or none that
    /// still runs.
    pub(super) fn abandon(self: &Arc<Self>) {
        if self.state.borrow().gone {
            return;
        }
        self.kill();
        if self.settle() {
            return;
        }
        let group = Arc::clone(self);
        let reaper =
            std::thread::Builder::new().name("turms-reaper".to_owned()).spawn(move || group.settle_patiently());
        if let Err(error) = reaper {
            tracing::warn!(target: "turms::child", pid = self.id, %error, "cannot wait for a child process that was killed");
        }
    }

    fn settle_patiently(&self) {
        const MOST_PAUSES: usize = 100;
        for pause in pauses().take(MOST_PAUSES) {
            if self.settle() {
                return;
            }
            std::thread::sleep(pause);
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

/// How long to wait before looking again for what does not tell when it ends.
pub(super) fn pauses() -> impl Iterator<Item = Duration> {
    const LONGEST: Duration = Duration::from_millis(32);
    std::iter::successors(Some(Duration::from_millis(1)), |pause| Some((*pause * 2).min(LONGEST)))
}

impl Processes {
    fn poll_leader(&mut self, task: &mut Context<'_>) -> Poll<ChildExit> {
        if let Some(exit) = self.exit {
            return Poll::Ready(exit);
        }
        let waited = ready!(pin!(self.leader.wait()).poll(task));
        Poll::Ready(self.reaped(waited.ok().map(ChildExit::from)))
    }

    /// The leader may have been reaped by somebody who reaps everything, which is an error to us.
    fn reaped(&mut self, exit: Option<ChildExit>) -> ChildExit {
        let exit = *self.exit.insert(exit.unwrap_or(ChildExit::Unknown));
        self.look();
        exit
    }

    /// While the leader is not reaped, its number is that of the group; right after is the time to see whether others hold it.
    fn look(&mut self) {
        self.gone = self.gone || (self.exit.is_some() && self.members.are_gone());
    }

    fn settle(&mut self) -> bool {
        if self.exit.is_none() {
            match self.leader.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => _ = self.reaped(Some(status.into())),
                Err(_) => _ = self.reaped(None),
            }
        }
        self.look();
        if self.gone && self.watchdog.as_mut().is_some_and(Watchdog::leave) {
            self.watchdog = None;
        }
        self.gone && self.watchdog.is_none()
    }

    fn signal(&mut self, members: impl Fn(&Members) -> bool, leader: impl Fn(&mut Child)) {
        if self.gone || members(&self.members) {
            return;
        }
        // Nobody is in the group. The leader itself may have joined another.
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

    use super::super::process_table::Census;

    /// Those who are in the group of this number.
    #[derive(Debug)]
    pub(super) struct Members {
        group: Option<Pid>,
        census: Census,
    }

    impl Members {
        pub(super) fn of(leader: u32) -> Self {
            Self { group: pid(leader), census: Census::default() }
        }

        /// Whether anybody was reached.
        pub(super) fn terminate(&self) -> bool {
            self.group.is_some_and(|group| kill_process_group(group, Signal::TERM).is_ok())
        }

        /// Whether anybody was reached.
        pub(super) fn kill(&self) -> bool {
            self.group.is_some_and(|group| kill_process_group(group, Signal::KILL).is_ok())
        }

        /// Whether nobody lives, or nobody whom we could reach. To be asked when the leader is reaped.
        pub(super) fn are_gone(&mut self) -> bool {
            let Some(group) = self.group else { return true };
            reap_adopted(group);
            if test_kill_process_group(group).is_err() {
                return true;
            }
            let dead = self.census.finds_only_dead(group.as_raw_pid());
            if dead {
                // The dead do not mind, and who was born while we looked does not escape.
                self.kill();
                reap_adopted(group);
            }
            dead
        }
    }

    /// If we are the first process of a container, those whose parent has ended are now our children, and nobody else reaps
    /// them.
    fn reap_adopted(group: Pid) {
        while let Ok(Some(_)) = waitpgid(group, WaitOptions::NOHANG) {}
    }

    pub(super) fn terminate(leader: &mut Child) {
        if let Some(leader) = leader.id().and_then(pid) {
            // It may have ended a moment ago.
            let _ = kill_process(leader, Signal::TERM);
        }
    }

    /// Never 1: to signal the group of that number is to signal everybody.
    fn pid(id: u32) -> Option<Pid> {
        i32::try_from(id).ok().and_then(Pid::from_raw).filter(|pid| !pid.is_init())
    }
}

#[cfg(not(unix))]
mod platform {
    use tokio::process::Child;

    /// There are no groups: the leader is alone.
    #[derive(Debug)]
    pub(super) struct Members;

    impl Members {
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

    /// There is no way to ask.
    pub(super) fn terminate(leader: &mut Child) {
        drop(leader.start_kill());
    }
}
