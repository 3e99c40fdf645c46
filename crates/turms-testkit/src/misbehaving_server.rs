//! Servers that misbehave, as real processes, and what is left of them.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use turms_core::transport::ChildCommand;

use crate::eventually;
use crate::process::left_of;

/// One way to misbehave, and the diary of the processes that do.
#[derive(Debug)]
pub struct MisbehavingServer {
    /// The command that starts it.
    pub command: ChildCommand,
    diary: PathBuf,
}

impl MisbehavingServer {
    /// In these ways, parted by commas, from one start to the next; `era` is `old` or `new`.
    pub fn new(modes: &str, era: &str) -> Self {
        let program =
            std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("examples/misbehaving_server");
        assert!(program.exists(), "build it first: cargo build -p turms-client --examples");
        let diary = std::env::temp_dir().join(format!("turms-misbehaving-{:016x}", fastrand::u64(..)));
        let command = ChildCommand::new(program).args([modes, era]).arg(&diary).on_stderr(|_| {});
        Self { command, diary }
    }

    /// With less time to leave.
    pub fn with_time_to_leave(mut self, time: Duration) -> Self {
        self.command = self.command.clone().exit_timeout(time).term_timeout(time);
        self
    }

    /// Everybody who was started, in order.
    pub fn started(&self) -> Vec<u32> {
        let diary = fs::read_to_string(&self.diary).unwrap_or_default();
        diary.lines().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
    }

    /// Waits until nobody is left who was started, nor anybody whom they started.
    pub async fn all_gone(&self) {
        for number in self.started() {
            eventually("the end of its processes", async || left_of(number).is_empty()).await;
        }
    }

    /// Asserts that nothing is left of the processes that were started.
    #[track_caller]
    pub fn assert_gone(&self) {
        let left: Vec<_> = self.started().into_iter().flat_map(left_of).collect();
        assert!(left.is_empty(), "{left:#?}");
    }
}

impl Drop for MisbehavingServer {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.diary);
    }
}
