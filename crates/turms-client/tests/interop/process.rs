//! The table of processes.

use std::fs;
use std::process::Command;

#[derive(Debug)]
pub(crate) struct Process {
    id: u32,
    dead: bool,
    parent: u32,
    group: u32,
    command: String,
}

/// The child of this process whose command line holds `mark`.
pub(crate) fn child_with(mark: &str) -> u32 {
    let ours = |process: &Process| process.parent == std::process::id() && process.command.contains(mark);
    let found: Vec<_> = processes().into_iter().filter(ours).collect();
    let [process] = &*found else { panic!("one child with {mark:?} was expected, not {found:#?}") };
    process.id
}

/// Kills a process as the system does when it is short of memory.
pub(crate) fn kill(id: u32) {
    assert!(Command::new("kill").args(["-9", &id.to_string()]).status().unwrap().success());
}

/// What is left of a group: everybody in it, and whoever watches over it. Of those who have ended, only our own children
/// count: others are reaped by the first process of the system, whenever it likes.
pub(crate) fn left_of(group: u32) -> Vec<Process> {
    let watchdog = format!(" turms-watchdog {group} ");
    let belongs = |process: &Process| process.group == group || process.command.contains(&watchdog);
    let counts = |process: &Process| !process.dead || process.parent == std::process::id();
    processes().into_iter().filter(|process| belongs(process) && counts(process)).collect()
}

fn processes() -> Vec<Process> {
    let ids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    ids.filter_map(process).collect()
}

fn process(id: u32) -> Option<Process> {
    // Any of it may be gone by now. The name, in brackets, may hold anything.
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (state, fields) = stat.rsplit_once(") ")?.1.split_once(' ')?;
    let mut fields = fields.split(' ').map(|field| field.parse().unwrap_or_default());
    let (dead, parent, group) = (state == "Z", fields.next()?, fields.next()?);
    let command = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    Some(Process { id, dead, parent, group, command: String::from_utf8_lossy(&command).replace('\0', " ") })
}
