//! Measurements of this process, and the process table. Linux only: both are read from `/proc`.

use std::fs;

use tokio::sync::{Mutex, MutexGuard};

/// Waits until no other test of this binary holds the guard. Tests that measure the process take it first.
pub async fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().await
}

/// Same as [`alone`], for use before a runtime is built: the open files of a waiting runtime would count for the running test.
pub fn alone_before_runtime() -> MutexGuard<'static, ()> {
    ALONE.blocking_lock()
}

static ALONE: Mutex<()> = Mutex::const_new(());

/// Returns the resident memory of this process, in bytes.
pub fn memory() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Returns the number of files and sockets this process has open.
pub fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Returns the number of children of this process, with those that have exited and are not reaped.
pub fn children() -> usize {
    processes().into_iter().filter(|process| process.parent == std::process::id()).count()
}

/// An entry of the process table.
#[derive(Debug)]
pub struct Process {
    /// The process id.
    pub id: u32,
    /// `true` if it has exited and is not reaped.
    pub is_zombie: bool,
    /// The id of its parent.
    pub parent: u32,
    /// The id of its process group.
    pub group: u32,
    /// The program and its arguments, separated by spaces.
    pub command: String,
}

/// Reads the process table.
pub fn processes() -> Vec<Process> {
    let ids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    ids.filter_map(process).collect()
}

/// Returns the entry of a process, if it exists.
pub fn process(id: u32) -> Option<Process> {
    // The process may exit between the reads. Its name, in parentheses, may contain any character.
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (state, fields) = stat.rsplit_once(") ")?.1.split_once(' ')?;
    let mut fields = fields.split(' ').map(|field| field.parse().unwrap_or_default());
    let (is_zombie, parent, group) = (state == "Z", fields.next()?, fields.next()?);
    let command = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    Some(Process { id, is_zombie, parent, group, command: String::from_utf8_lossy(&command).replace('\0', " ") })
}

/// Returns the processes that are left of a child process: itself, its process group and the watchdog of the group. Zombies count only
/// if they are children of this process: init reaps the others, at any later time.
pub fn left_of(id: u32) -> Vec<Process> {
    let belongs = |process: &Process| process.id == id || process.group == id || is_watchdog(process, id);
    let counts = |process: &Process| !process.is_zombie || process.parent == std::process::id();
    processes().into_iter().filter(|process| belongs(process) && counts(process)).collect()
}

/// Returns the watchdog of a process group.
pub fn watchdog_of(group: u32) -> Option<Process> {
    left_of(group).into_iter().find(|process| is_watchdog(process, group))
}

fn is_watchdog(process: &Process, group: u32) -> bool {
    process.command.contains(&format!(" turms-watchdog {group} "))
}

/// Asserts that no process is left of a child process; see [`left_of`].
///
/// # Panics
/// If a process is left; the message lists it.
#[track_caller]
pub fn assert_gone(id: u32) {
    let left = left_of(id);
    assert!(left.is_empty(), "{left:#?}");
}
