//! Servers that misbehave, as real processes, and what is left of them.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use turms_client::ChildCommand;
use turms_testkit::process::left_of;

/// Longer than anything here may take: whoever waits so long waits in vain.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// One way to misbehave, and the diary of the processes that do.
pub(crate) struct Odd {
    pub(crate) command: ChildCommand,
    diary: PathBuf,
}

impl Odd {
    /// In these ways, parted by commas, from one start to the next; `era` is `old` or `new`.
    pub(crate) fn new(modes: &str, era: &str) -> Self {
        let program = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("examples/odd_server");
        assert!(program.exists(), "build it first: cargo build -p turms-client --examples");
        let diary = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("odd-{:016x}", fastrand::u64(..)));
        let command = ChildCommand::new(program).args([modes, era]).arg(&diary).on_stderr(|_| {});
        Self { command, diary }
    }

    /// With less time to leave.
    pub(crate) fn with_time_to_leave(mut self, time: Duration) -> Self {
        self.command = self.command.clone().exit_timeout(time).term_timeout(time);
        self
    }

    /// Everybody who was started, in order.
    pub(crate) fn started(&self) -> Vec<u32> {
        let diary = fs::read_to_string(&self.diary).unwrap_or_default();
        diary.lines().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
    }

    /// Waits until nobody is left who was started, nor anybody whom they started.
    pub(crate) async fn all_gone(&self) {
        for number in self.started() {
            eventually("nothing is left", || left_of(number).is_empty()).await;
        }
    }

    #[track_caller]
    pub(crate) fn assert_gone(&self) {
        let left: Vec<_> = self.started().into_iter().flat_map(left_of).collect();
        assert!(left.is_empty(), "{left:#?}");
    }
}

impl Drop for Odd {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.diary);
    }
}

pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// What comes of it within the time that anything may take.
pub(crate) async fn in_time<F: IntoFuture>(future: F) -> F::Output {
    timeout(PATIENCE, future.into_future()).await.expect("in time")
}
