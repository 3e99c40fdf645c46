//! The server process, its CPU time and its memory.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

use crate::Result;

pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) port: u16,
    id: u32,
}

impl Server {
    /// Starts the server, pinned to CPU 0 if `taskset` is installed. Run the load on another CPU.
    pub(crate) fn start(program: &[String]) -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let is_pinned = std::process::Command::new("taskset").arg("-V").stdout(Stdio::null()).status().is_ok();
        let mut words = program.iter().map(|word| word.replace("{port}", &port.to_string()));
        let name = words.next().ok_or("no program was named")?;
        let mut command = Command::new(if is_pinned { "taskset" } else { &name });
        if is_pinned {
            command.args(["-c", "0", &name]);
        }
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let child = command.spawn()?;
        let id = child.id().ok_or("the server has ended at once")?;
        Ok(Self { child, port, id })
    }

    /// Connects to the server, and retries until it listens.
    pub(crate) fn connect(&self) -> Result<TcpStream> {
        let mut tries = 0;
        loop {
            match TcpStream::connect(("127.0.0.1", self.port)) {
                Ok(stream) => return Ok(stream),
                Err(error) if tries == 1000 => return Err(error.into()),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
            tries += 1;
        }
    }

    /// Waits for the exit of the server if `BENCH_TERMINATE` or `BENCH_LINGER` is set. See the crate documentation.
    pub(crate) async fn end(&mut self) -> Result<()> {
        if std::env::var_os("BENCH_TERMINATE").is_some() {
            drop(self.child.stdin.take());
            Command::new("kill").args(["-TERM", &self.id.to_string()]).status().await?;
            tokio::time::timeout(Duration::from_secs(30), self.child.wait()).await??;
        }
        if std::env::var_os("BENCH_LINGER").is_some() {
            tokio::time::timeout(Duration::from_secs(30), self.child.wait()).await??;
        }
        Ok(())
    }

    /// Returns the CPU time of all threads of the server, in nanoseconds.
    pub(crate) fn cpu(&self) -> u64 {
        cpu_of(&self.id.to_string())
    }

    /// Returns the resident memory of the server, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id)).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
        kib.unwrap_or_default() * 1024
    }
}

/// Returns the CPU time of all threads of a process, in nanoseconds.
pub(crate) fn cpu_of(process: &str) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let used = tasks.filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok());
    used.filter_map(|used| used.split(' ').next()?.parse::<u64>().ok()).sum()
}
