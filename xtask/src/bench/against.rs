//! Comparison of this work tree with another commit.
//!
//! Both are measured one after the other under each load, in alternating order. Ratios are taken within a round, so that other work of
//! the machine affects both.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::cell::{self, Candidate, Cell, LOAD, OUR_SERVER};
use super::{BenchError, figures, measure, report};
use crate::args::Against;
use crate::program::{self, RunError};

/// Lengths of the two runs whose instructions are compared, in seconds. The difference excludes start and end.
const COUNTED_SECONDS: [f64; 2] = [2.0, 6.0];

/// Measures both builds and prints the ratios.
pub(super) fn run(rounds: usize, against: &Against) -> Result<(), BenchError> {
    let other = build(&against.commit)?;
    let here = Build::here();
    let mut rows: Vec<_> = cells().map(Row::new).collect();
    for round in 1..=rounds {
        for row in &mut rows {
            eprintln!("round {round} of {rounds}: {}", row.cell.name);
            row.measure(&here, &other, round)?;
        }
    }
    println!("{}", table(&rows, rounds, &against.commit));
    if against.instructions {
        count_instructions(&here, &other)?;
    }
    Ok(())
}

/// Returns the loads that measure our server or client.
fn cells() -> impl Iterator<Item = &'static Cell> {
    let is_ours = |cell: &&Cell| cell.who.contains(&Candidate::Turms) || cell.measures_client();
    // Without its guard, such a load is one of the others.
    cell::all().filter(is_ours).filter(|cell| !cell.who.contains(&Candidate::Guarded))
}

/// Programs built from one commit.
struct Build {
    server: String,
    load: String,
}

impl Build {
    fn here() -> Self {
        Self { server: OUR_SERVER.to_owned(), load: LOAD.to_owned() }
    }

    /// Returns the load generator for a cell: that of this work tree, unless the cell measures the client in it.
    fn load(&self, cell: &Cell) -> &str {
        if cell.measures_client() { &self.load } else { LOAD }
    }

    /// Returns the server for a cell, with its arguments.
    fn server(&self, cell: &Cell) -> String {
        let who = if cell.who.contains(&Candidate::Turms) { Candidate::Turms } else { Candidate::Limit };
        who.command(cell.kind).replace(OUR_SERVER, &self.server)
    }
}

/// Checks out the commit below `target/`, and builds it there with its own target folder.
fn build(commit: &str) -> Result<Build, BenchError> {
    let hash = report::output(&format!("git rev-parse --verify --quiet {commit}^{{commit}}"));
    if hash.is_empty() {
        return Err(BenchError::UnknownCommit(commit.to_owned()));
    }
    let folder = Path::new("target").join("against");
    let (source, target) = (folder.join(&hash), folder.join("target"));
    if !source.join("Cargo.toml").exists() {
        fs::create_dir_all(&folder).map_err(BenchError::Results)?;
        program::run(&mut program::command(&format!("git clone --shared --no-checkout . {}", source.display())))?;
        program::run(&mut program::command(&format!("git -C {} checkout --detach {hash}", source.display())))?;
    }
    for package in ["turms-bench-server", "turms-bench-load"] {
        let (manifest, target) = (source.join("Cargo.toml"), target.display());
        let line =
            format!("cargo build --release -p {package} --manifest-path {} --target-dir {target}", manifest.display());
        program::run(&mut program::command(&line))?;
    }
    let program = |name: &str| -> Result<String, BenchError> {
        // The build of the next commit overwrites the original.
        let copy = folder.join(format!("{name}-{hash}"));
        fs::copy(target.join("release").join(name), &copy).map_err(BenchError::Results)?;
        Ok(copy.display().to_string())
    };
    Ok(Build { server: program("turms-bench-server")?, load: program("turms-bench-load")? })
}

/// One load, with the costs of both builds in each round.
struct Row {
    cell: &'static Cell,
    pairs: Vec<Pair>,
}

#[derive(Debug, Clone, Copy)]
struct Pair {
    here: f64,
    other: f64,
}

impl Row {
    fn new(cell: &'static Cell) -> Self {
        Self { cell, pairs: Vec::new() }
    }

    fn measure(&mut self, here: &Build, other: &Build, round: usize) -> Result<(), BenchError> {
        let cost = |build: &Build| -> Result<f64, BenchError> {
            let figures = measure(self.cell, build.load(self.cell), &build.server(self.cell), &[])?;
            figures.get(self.cell.cost()).copied().ok_or(BenchError::NoFigure(self.cell.name))
        };
        let pair = if round.is_multiple_of(2) {
            let other = cost(other)?;
            Pair { here: cost(here)?, other }
        } else {
            Pair { here: cost(here)?, other: cost(other)? }
        };
        self.pairs.push(pair);
        Ok(())
    }

    /// Returns the ratios of all rounds, sorted.
    fn ratios(&self) -> Vec<f64> {
        let mut ratios: Vec<_> = self.pairs.iter().map(|pair| pair.here / pair.other.max(1.0)).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    }
}

fn table(rows: &[Row], rounds: usize, commit: &str) -> String {
    let mut text = format!(
        "\nThis work tree beside {commit}: medians of {rounds} interleaved rounds, ratios taken within a round.\n\
         {}\n\n| work | figure | here | {commit} | ratio | lowest | highest |\n|---|---|---:|---:|---:|---:|---:|\n",
        report::machine(),
    );
    for row in rows {
        let ratios = row.ratios();
        let median = |side: fn(&Pair) -> f64| figures::median(row.pairs.iter().map(side).collect());
        let columns = [
            median(|pair| pair.here),
            median(|pair| pair.other),
            figures::median(ratios.clone()),
            ratios.first().copied(),
            ratios.last().copied(),
        ];
        let _ = write!(text, "| {} | {} |", row.cell.name, row.cell.cost());
        for (place, value) in columns.into_iter().enumerate() {
            let digits = if place < 2 { 0 } else { 3 };
            let _ = write!(text, " {:.digits$} |", value.unwrap_or(f64::NAN));
        }
        text.push('\n');
    }
    text
}

/// Counts the instructions of each load. Prints each row at once, because it takes minutes.
fn count_instructions(here: &Build, other: &Build) -> Result<(), BenchError> {
    println!("\n| work | instructions per call, here | there | ratio |\n|---|---:|---:|---:|");
    for cell in cell::BESIDE_OTHERS.into_iter().chain([&cell::BY_EVENTS, &cell::CLIENT, &cell::INSIDE]) {
        let (here, other) = (instructions(cell, here)?, instructions(cell, other)?);
        println!("| {} | {here:.0} | {other:.0} | {:.3} |", cell.name, here / other.max(1.0));
    }
    Ok(())
}

/// Returns the instructions of one call: the difference of two runs.
fn instructions(cell: &Cell, build: &Build) -> Result<f64, BenchError> {
    let [short, long] = COUNTED_SECONDS;
    let ((less, few), (more, many)) = (counted(cell, build, short)?, counted(cell, build, long)?);
    if many <= few {
        return Err(BenchError::NoFigure(cell.name));
    }
    Ok((more - less) / (many - few))
}

/// Returns the instructions and calls of one run under valgrind.
fn counted(cell: &Cell, build: &Build, seconds: f64) -> Result<(f64, f64), BenchError> {
    let file = PathBuf::from("target").join("against").join("callgrind.out");
    let _ = fs::remove_file(&file);
    let valgrind = format!("valgrind -q --tool=callgrind --callgrind-out-file={} ", file.display());
    let (load, server) = (build.load(cell), build.server(cell));
    let Cell { kind, payload, width, tools, .. } = cell;
    let line = if cell.measures_client() {
        format!("{valgrind}{load} {kind} {payload} {width} {seconds} {server}")
    } else {
        format!("{load} {kind} {payload} {width} {seconds} {valgrind}{server}")
    };
    let mut command = program::command(&line);
    command.env("BENCH_TOOLS", tools).env("BENCH_TERMINATE", "1");
    let output = command.output().map_err(|source| RunError::NotStarted { line: line.clone(), source })?;
    if !output.status.success() {
        return Err(RunError::Failed { line, status: output.status }.into());
    }
    let figures = figures::read(&String::from_utf8_lossy(&output.stdout));
    let calls = figures.get("all_calls").or_else(|| figures.get("calls")).copied();
    let total = total(&fs::read_to_string(&file).unwrap_or_default());
    total.zip(calls).ok_or(BenchError::NoFigure(cell.name))
}

/// Returns the total that callgrind writes at the end.
fn total(output: &str) -> Option<f64> {
    let totals =
        output.lines().filter_map(|line| line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: ")));
    totals.filter_map(|count| count.trim().parse().ok()).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_the_median_ratio_and_its_spread() {
        let mut row = Row::new(&cell::STATELESS);
        row.pairs =
            vec![Pair { here: 10.0, other: 20.0 }, Pair { here: 30.0, other: 20.0 }, Pair { here: 22.0, other: 20.0 }];
        let text = table(&[row], 3, "640c08b");
        let line = text.lines().last().unwrap_or_default();
        assert_eq!(line, format!("| {} | cpu_ns | 22 | 20 | 1.100 | 0.500 | 1.500 |", cell::STATELESS.name));
    }

    #[test]
    fn a_server_of_another_commit_is_started_the_same_way() {
        let build = Build { server: "there/server".to_owned(), load: "there/load".to_owned() };
        assert_eq!(build.server(&cell::STATELESS), "there/server http {port}");
        assert_eq!(build.load(&cell::STATELESS), LOAD);
        assert_eq!(build.load(&cell::SINGLE_CLIENT), "there/load");
    }

    #[test]
    fn the_total_of_callgrind_is_found() {
        assert_eq!(total("events: Ir\nsummary: 12\n\ntotals: 34\n"), Some(34.0));
        assert_eq!(total("events: Ir\n"), None);
    }
}
