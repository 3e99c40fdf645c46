//! The cost of a call, compared with rmcp and with a server without a toolkit.
//!
//! Rounds are interleaved and ratios are taken within a round, so that other work of the machine affects all candidates.

mod against;
mod cell;
mod demand;
mod figures;
mod report;
mod weight;

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Stdio;

use self::cell::Cell;
use self::figures::{Figures, Measured};
use crate::args::BenchOptions;
use crate::program::{self, RunError};

const RESULTS: &str = "benches/RESULTS.md";

/// Length of each run, in seconds.
const TIME: f64 = 1.5;

/// Builds and measures all candidates; prints the table and writes it to a file.
pub(crate) fn run(options: &BenchOptions) -> Result<(), BenchError> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    env::set_current_dir(root).map_err(BenchError::Results)?;
    let rounds = options.rounds;
    build()?;
    if let Some(against) = &options.against {
        return against::run(rounds, against);
    }
    build_rmcp()?;
    let mut measured = Measured::default();
    for round in 1..=rounds {
        for cell in cell::all() {
            eprintln!("round {round} of {rounds}: {}", cell.name);
            let mut all = BTreeMap::new();
            for candidate in cell.who {
                let environment = candidate.environment().map(|command| environment(&command)).transpose()?;
                let command = candidate.command(cell.kind);
                all.insert(*candidate, measure(cell, cell::LOAD, &command, &environment.unwrap_or_default())?);
            }
            measured.add(cell, all);
        }
    }
    let report = report::write(&measured, rounds);
    println!("{report}");
    fs::write(RESULTS, report).map_err(BenchError::Results)
}

/// Builds the packages one after the other. Built together, they would unify their features.
fn build() -> Result<(), BenchError> {
    let mounted = "turms-bench-server --features mounted --bin turms-bench-mounted";
    let guarded = "turms-bench-server --features guarded --bin turms-bench-guarded";
    let server = "turms-bench-server --bin turms-bench-server";
    for package in [server, mounted, guarded, "turms-bench-load", "turms-bench-limit"] {
        program::run(&mut program::command(&format!("cargo build --release -p {package}")))?;
    }
    Ok(())
}

fn build_rmcp() -> Result<(), BenchError> {
    let rmcp = "cargo build --release --manifest-path benches/rmcp/Cargo.toml --target-dir benches/rmcp/target";
    program::run(&mut program::command(rmcp))?;
    // Separately from the server, which has fewer features.
    Ok(program::run(&mut program::command(&format!("{rmcp} --features client --bin turms-bench-rmcp-client")))?)
}

/// Runs a load. With `taskset`, it runs on the second processor and the server on the first.
fn measure(cell: &Cell, load: &str, command: &str, environment: &[(String, String)]) -> Result<Figures, BenchError> {
    let pinned = if program::works("taskset", "-c 1 true") { "taskset -c 1 " } else { "" };
    let Cell { kind, payload, width, tools, .. } = cell;
    let line = format!("{pinned}{load} {kind} {payload} {width} {TIME} {command}");
    let mut load = program::command(&line);
    load.env("BENCH_TOOLS", tools)
        .env("BENCH_CLIENT", cell::OTHER_CLIENT)
        .envs(environment.iter().cloned())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let output = load.output().map_err(|source| RunError::NotStarted { line: line.clone(), source })?;
    if !output.status.success() {
        return Err(RunError::Failed { line, status: output.status }.into());
    }
    Ok(figures::read(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads the environment that a program prints, as lines of the form `NAME=value`.
fn environment(command: &str) -> Result<Vec<(String, String)>, BenchError> {
    let line = command.to_owned();
    let output = program::command(command).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|source| RunError::NotStarted { line: line.clone(), source })?;
    if !output.status.success() {
        return Err(RunError::Failed { line, status: output.status }.into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(text.lines().filter_map(pair).collect())
}

/// Error of a benchmark.
#[derive(Debug)]
pub(crate) enum BenchError {
    Run(RunError),
    UnknownCommit(String),
    NoFigure(&'static str),
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
            Self::UnknownCommit(commit) => write!(f, "{commit:?} is not a commit of this repository"),
            Self::NoFigure(cell) => write!(f, "the load {cell:?} gave no figure"),
            Self::Results(_) => write!(f, "cannot write the results"),
        }
    }
}

impl Error for BenchError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Run(error) => error.source(),
            Self::UnknownCommit(_) | Self::NoFigure(_) => None,
            Self::Results(source) => Some(source),
        }
    }
}
