//! The server as a process, and what it uses.

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
    /// Starts it, on the first processor where `taskset` is there; the load is expected on another.
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

    /// Waits until it listens.
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

    /// Waits until it ends, if it does by itself or is told to.
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

    /// What it has used of the processor so far, in nanoseconds: all its threads.
    pub(crate) fn cpu(&self) -> u64 {
        cpu_of(&self.id.to_string())
    }

    /// How much memory it has in use, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id)).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
        kib.unwrap_or_default() * 1024
    }
}

/// CPU time of all threads of a process so far, in nanoseconds.
pub(crate) fn cpu_of(process: &str) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let used = tasks.filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok());
    used.filter_map(|used| used.split(' ').next()?.parse::<u64>().ok()).sum()
}
