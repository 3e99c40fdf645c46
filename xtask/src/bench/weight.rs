//! What the server weighs beside its speed: its size, its crates, how long it takes to build, its system calls.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use super::cell::Candidate;
use super::figures;
use crate::program;

/// How large a program is without what only debuggers read.
pub(super) fn stripped_size(program: &str) -> Option<f64> {
    let copy = Path::new("target").join("stripped");
    let strip = program::command(&format!("strip -o {} {program}", copy.display())).status();
    strip.ok().filter(|status| status.success())?;
    let size = fs::metadata(&copy).ok()?.len();
    // Whether it is left there does not matter.
    let _ = fs::remove_file(&copy);
    Some(size as f64)
}

/// How long it takes to build a package with all that it needs, from nothing.
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

/// How many crates a package is made of, itself not counted.
pub(super) fn crates(of: &str) -> Option<f64> {
    let output = program::command(&format!("cargo tree {of} -e normal --prefix none")).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|text| !text.is_empty())?;
    let names: BTreeSet<_> = text.lines().map(|line| line.split(" (").next().unwrap_or(line)).collect();
    Some(names.len() as f64 - 1.0)
}

/// How many system calls our server makes for one call in a session, among 32 of them; nothing without `strace`.
pub(super) fn system_calls() -> Option<f64> {
    let summary = Path::new("target").join("system-calls");
    let (file, server) = (summary.display(), Candidate::Turms.command("session"));
    // The summary is written when the server has ended, which it does when it is told to.
    let traced = format!("strace -f -c -U calls,name -o {file} timeout --signal TERM 6 {server}");
    let mut load = program::command(&format!("target/release/turms-bench-load session small 32 3 {traced}"));
    load.env("BENCH_TOOLS", "2").env("BENCH_LINGER", "1").stdin(Stdio::null()).stderr(Stdio::null());
    let answered = *figures::read(&String::from_utf8_lossy(&load.output().ok()?.stdout)).get("all_calls")?;
    let text = fs::read_to_string(&summary).ok()?;
    let total = text.lines().find(|line| line.trim_end().ends_with("total"))?;
    let made: f64 = total.split_whitespace().next()?.parse().ok()?;
    Some(made / answered)
}
