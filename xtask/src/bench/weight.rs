//! Build time and system calls of the server.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use super::cell::Candidate;
use super::figures;
use crate::program;

/// Returns the time to build a package and its dependencies from scratch.
#[expect(clippy::disallowed_methods, reason = "time is what is measured")]
pub(super) fn build_seconds(of: &str) -> Option<f64> {
    let directory = Path::new("target").join("from-nothing");
    let _ = fs::remove_dir_all(&directory);
    let line = format!("cargo build --release {of} --target-dir {}", directory.display());
    let start = Instant::now();
    let built = program::run(&mut program::command(&line));
    let seconds = start.elapsed().as_secs_f64();
    let _ = fs::remove_dir_all(&directory);
    built.ok().map(|()| seconds)
}

/// Returns the number of system calls of our server for one call in a session, with 32 calls at a time. `None` without `strace`.
pub(super) fn system_calls() -> Option<f64> {
    let summary = Path::new("target").join("system-calls");
    let (file, server) = (summary.display(), Candidate::Turms.command("session"));
    // strace writes the summary when the server ends, which `timeout` makes it do.
    let traced = format!("strace -f -c -U calls,name -o {file} timeout --signal TERM 6 {server}");
    let mut load = program::command(&format!("target/release/turms-bench-load session small 32 3 {traced}"));
    load.env("BENCH_TOOLS", "2").env("BENCH_LINGER", "1").stdin(Stdio::null()).stderr(Stdio::null());
    let answered = *figures::read(&String::from_utf8_lossy(&load.output().ok()?.stdout)).get("all_calls")?;
    let text = fs::read_to_string(&summary).ok()?;
    let total = text.lines().find(|line| line.trim_end().ends_with("total"))?;
    let made: f64 = total.split_whitespace().next()?.parse().ok()?;
    Some(made / answered)
}
