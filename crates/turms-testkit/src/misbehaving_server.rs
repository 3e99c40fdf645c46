//! Misbehaving servers as child processes, and checks that none of their processes is left running.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use turms_core::transport::ChildCommand;

use crate::eventually;
use crate::process::left_of;

/// A command that starts misbehaving servers, and the file in which they write their process ids.
#[derive(Debug)]
pub struct MisbehavingServer {
    /// The command that starts the server.
    pub command: ChildCommand,
    id_file: PathBuf,
}

impl MisbehavingServer {
    /// Creates a server. `modes` is a comma-separated list with the mode of each start; `era` is `old` or `new`.
    pub fn new(modes: &str, era: &str) -> Self {
        let program =
            std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("examples/misbehaving_server");
        assert!(program.exists(), "build it first: cargo build -p turms-client --examples");
        let id_file = std::env::temp_dir().join(format!("turms-misbehaving-{:016x}", fastrand::u64(..)));
        let command = ChildCommand::new(program).args([modes, era]).arg(&id_file).on_stderr(|_| {});
        Self { command, id_file }
    }

    /// Sets the timeouts for the exit of the process.
    pub fn with_time_to_leave(mut self, time: Duration) -> Self {
        self.command = self.command.clone().exit_timeout(time).kill_timeout(time);
        self
    }

    /// Returns the ids of the started processes, in order.
    pub fn started(&self) -> Vec<u32> {
        let ids = fs::read_to_string(&self.id_file).unwrap_or_default();
        ids.lines().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
    }

    /// Waits until all started processes and their groups have exited.
    pub async fn all_gone(&self) {
        for id in self.started() {
            eventually("the exit of its processes", async || left_of(id).is_empty()).await;
        }
    }

    /// Asserts that all started processes and their groups have exited.
    #[track_caller]
    pub fn assert_gone(&self) {
        let left: Vec<_> = self.started().into_iter().flat_map(left_of).collect();
        assert!(left.is_empty(), "{left:#?}");
    }
}

impl Drop for MisbehavingServer {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.id_file);
    }
}
