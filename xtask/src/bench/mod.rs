//! What a call costs, beside rmcp and beside no toolkit at all.
//!
//! Rounds are interleaved, so that what else the machine does meets everybody alike, and ratios are taken within a round.

mod report;

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::program::{self, RunError};

const RESULTS: &str = "benches/RESULTS.md";

/// One kind of load, and how many tools the server has under it.
pub(crate) struct Cell {
    name: &'static str,
    kind: &'static str,
    payload: &'static str,
    width: usize,
    tools: usize,
}

const CELLS: [Cell; 15] = [
    cell("HTTP 2026-07-28, small, 32 connections", "stateless", "small", 32, 2),
    cell("HTTP 2026-07-28, small, 32 connections, 10 000 tools", "stateless", "small", 32, 10_000),
    cell("HTTP 2025-11-25, small, 32 connections", "session", "small", 32, 2),
    cell("HTTP 2026-07-28, small, 1 connection", "stateless", "small", 1, 2),
    cell("HTTP 2025-11-25, small, 1 connection", "session", "small", 1, 2),
    cell("HTTP 2026-07-28, list of 100 tools, 8 connections", "stateless", "list", 8, 100),
    cell("HTTP 2025-11-25, list of 100 tools, 8 connections", "session", "list", 8, 100),
    cell("HTTP 2026-07-28, 100 KiB, 8 connections", "stateless", "large", 8, 2),
    cell("HTTP 2025-11-25, 100 KiB, 8 connections", "session", "large", 8, 2),
    cell("stdio, small, 64 in flight", "stdio", "small", 64, 2),
    cell("stdio, small, 1 in flight", "stdio", "small", 1, 2),
    cell("stdio, list of 100 tools, 8 in flight", "stdio", "list", 8, 100),
    cell("stdio, 100 KiB, 8 in flight", "stdio", "large", 8, 2),
    cell("idle session", "idle", "small", 2000, 2),
    cell("idle session with an open stream", "listening", "small", 1000, 2),
];

const fn cell(name: &'static str, kind: &'static str, payload: &'static str, width: usize, tools: usize) -> Cell {
    Cell { name, kind, payload, width, tools }
}

/// Who takes part, and how each is started for a kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Candidate {
    Turms,
    Limit,
    Rmcp,
    RmcpPipes,
}

impl Candidate {
    const ALL: [Self; 4] = [Self::Turms, Self::Limit, Self::Rmcp, Self::RmcpPipes];

    /// The program and its arguments; `None` if it takes no part.
    fn command(self, kind: &str) -> Option<String> {
        let ours = "target/release";
        let rmcp = "benches/rmcp/target/release/turms-bench-rmcp";
        Some(match (self, kind) {
            (Self::RmcpPipes, "stdio") => format!("{rmcp} pipes"),
            (Self::RmcpPipes, _) | (Self::Limit, "listening") => return None,
            (Self::Turms, "stdio") => format!("{ours}/turms-bench-server stdio"),
            (Self::Turms, _) => format!("{ours}/turms-bench-server http {{port}}"),
            (Self::Limit, "stdio") => format!("{ours}/turms-bench-limit stdio"),
            (Self::Limit, _) => format!("{ours}/turms-bench-limit http {{port}}"),
            (Self::Rmcp, "stdio") => format!("{rmcp} stdio"),
            (Self::Rmcp, "stateless") => format!("{rmcp} http {{port}}"),
            (Self::Rmcp, _) => format!("{rmcp} sessions {{port}}"),
        })
    }
}

/// What was measured in one run, by name.
pub(crate) type Figures = BTreeMap<String, f64>;

/// What was measured of one cell: in every round, of everybody.
pub(crate) type Rounds = Vec<BTreeMap<Candidate, Figures>>;

/// Builds everybody, puts the loads on them, prints the table and writes it down.
pub(crate) fn run(rounds: usize) -> Result<(), BenchError> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    env::set_current_dir(root).map_err(BenchError::Results)?;
    build()?;
    let mut measured = Vec::new();
    for cell in &CELLS {
        let mut all = Rounds::new();
        for round in 1..=rounds {
            eprintln!("{}: round {round} of {rounds}", cell.name);
            let mut figures = BTreeMap::new();
            for candidate in Candidate::ALL {
                if let Some(command) = candidate.command(cell.kind) {
                    figures.insert(candidate, measure(cell, &command)?);
                }
            }
            all.push(figures);
        }
        measured.push((cell, all));
    }
    let report = report::write(&measured, rounds);
    println!("{report}");
    fs::write(RESULTS, report).map_err(BenchError::Results)
}

/// One after the other: built together, they would share features that they do not have alone.
fn build() -> Result<(), BenchError> {
    for package in ["turms-bench-load", "turms-bench-server", "turms-bench-limit"] {
        program::run(&mut program::command(&format!("cargo build --release -p {package}")))?;
    }
    let rmcp = "cargo build --release --manifest-path benches/rmcp/Cargo.toml --target-dir benches/rmcp/target";
    Ok(program::run(&mut program::command(rmcp))?)
}

/// The load on the second processor, where there is a way to say so; the server goes to the first.
fn measure(cell: &Cell, command: &str) -> Result<Figures, BenchError> {
    let pinned = if program::works("taskset", "-c 1 true") { "taskset -c 1 " } else { "" };
    let Cell { kind, payload, width, tools, .. } = cell;
    let line = format!("{pinned}target/release/turms-bench-load {kind} {payload} {width} 1.5 {command}");
    let mut load = program::command(&line);
    load.env("BENCH_TOOLS", tools.to_string()).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = load.output().map_err(|source| RunError::NotStarted { line: line.clone(), source })?;
    if !output.status.success() {
        return Err(RunError::Failed { line, status: output.status }.into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().filter_map(figure).collect())
}

fn figure(word: &str) -> Option<(String, f64)> {
    let (name, value) = word.split_once('=')?;
    Some((name.to_owned(), value.parse().ok()?))
}

/// How large a program is without what only debuggers read.
fn stripped_size(program: &str) -> Option<u64> {
    let copy = Path::new("target").join("stripped");
    let strip = Command::new("strip").arg("-o").arg(&copy).arg(program).status();
    strip.ok().filter(|status| status.success())?;
    let size = fs::metadata(&copy).ok()?.len();
    // Whether it is left there does not matter.
    let _ = fs::remove_file(&copy);
    Some(size)
}

/// Why there are no figures.
#[derive(Debug)]
pub(crate) enum BenchError {
    Run(RunError),
    Results(io::Error),
}

impl From<RunError> for BenchError {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(error) => error.fmt(f),
            Self::Results(_) => write!(f, "cannot write {RESULTS}"),
        }
    }
}

impl Error for BenchError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Run(error) => error.source(),
            Self::Results(source) => Some(source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_by_name() {
        assert_eq!(figure("cpu_ns=12"), Some(("cpu_ns".to_owned(), 12.0)));
        assert_eq!(figure("cpu_ns"), None);
    }

    #[test]
    fn everybody_takes_part_in_what_they_can() {
        for cell in &CELLS {
            assert!(Candidate::Turms.command(cell.kind).is_some() && Candidate::Rmcp.command(cell.kind).is_some());
            assert_eq!(Candidate::RmcpPipes.command(cell.kind).is_some(), cell.kind == "stdio");
        }
    }
}
