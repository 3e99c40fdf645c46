//! The figures as a table.

use std::fmt::Write as _;
use std::fs;

use super::{Candidate, Cell, Rounds, stripped_size};
use crate::program;

/// Everything that was measured, with the machine and the commit.
pub(super) fn write(measured: &[(&Cell, Rounds)], rounds: usize) -> String {
    let mut text = format!(
        "# Results\n\n\
         Written by `cargo xtask bench`: medians of {rounds} interleaved rounds, ratios taken within a round. \"x\" says how \
         many times as much a call costs there; \"of limit\" how much of what is possible without any toolkit is left.\n\n\
         - commit: {}\n- machine: {}\n\n",
        output("git rev-parse HEAD"),
        machine(),
    );
    text.push_str("| work | processor time per call, us | limit | rmcp | rmcp with pipes | x rmcp | x rmcp with pipes | of limit | p50, us | of rmcp's | p99, of limit's |\n");
    text.push_str("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for (cell, all) in measured.iter().filter(|(_, all)| has(all, "cpu_ns")) {
        let cost = |candidate| median(values(all, candidate, "cpu_ns")).map(|ns| ns / 1000.0);
        let times = |candidate| ratio(all, candidate, Candidate::Turms, "cpu_ns");
        let columns = [
            cost(Candidate::Turms),
            cost(Candidate::Limit),
            cost(Candidate::Rmcp),
            cost(Candidate::RmcpPipes),
            times(Candidate::Rmcp),
            times(Candidate::RmcpPipes),
            times(Candidate::Limit),
            median(values(all, Candidate::Turms, "p50_ns")).map(|ns| ns / 1000.0),
            ratio(all, Candidate::Turms, Candidate::Rmcp, "p50_ns"),
            ratio(all, Candidate::Turms, Candidate::Limit, "p99_ns"),
        ];
        row(&mut text, cell.name, &columns);
    }
    text.push_str("\n| memory | KiB each | limit | rmcp | of rmcp's |\n|---|---:|---:|---:|---:|\n");
    for (cell, all) in measured.iter().filter(|(_, all)| has(all, "bytes")) {
        let size = |candidate| median(values(all, candidate, "bytes")).map(|bytes| bytes / 1024.0);
        let part = ratio(all, Candidate::Turms, Candidate::Rmcp, "bytes");
        row(&mut text, cell.name, &[size(Candidate::Turms), size(Candidate::Limit), size(Candidate::Rmcp), part]);
    }
    let sizes =
        ["target/release/turms-bench-server", "benches/rmcp/target/release/turms-bench-rmcp"].map(stripped_size);
    if let [Some(ours), Some(theirs)] = sizes {
        let part = ours as f64 / theirs as f64;
        let _ = writeln!(text, "\nStripped, the server has {ours} bytes, that of rmcp {theirs}: {part:.2} of it.");
    }
    text
}

fn row(text: &mut String, name: &str, columns: &[Option<f64>]) {
    let _ = write!(text, "| {name} |");
    for column in columns {
        let _ = match column {
            Some(value) => write!(text, " {value:.2} |"),
            None => write!(text, " |"),
        };
    }
    text.push('\n');
}

fn has(all: &Rounds, figure: &str) -> bool {
    all.iter().any(|round| round.values().any(|figures| figures.contains_key(figure)))
}

fn values(all: &Rounds, candidate: Candidate, figure: &str) -> Vec<f64> {
    all.iter().filter_map(|round| round.get(&candidate)?.get(figure).copied()).collect()
}

/// The median of what one has in every round, divided by what the other has.
fn ratio(all: &Rounds, one: Candidate, other: Candidate, figure: &str) -> Option<f64> {
    let pairs = all.iter().filter_map(|round| Some((round.get(&one)?.get(figure)?, round.get(&other)?.get(figure)?)));
    median(pairs.map(|(one, other)| one / other.max(1.0)).collect())
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn machine() -> String {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let (model, count) = (model.map_or("unknown", |(_, model)| model), std::thread::available_parallelism());
    format!("{model}, {} processors, {}", count.map_or(1, usize::from), output("uname -sr"))
}

fn output(line: &str) -> String {
    let output = program::command(line).output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn ratios_are_taken_within_a_round() {
        let round = |ours: f64, theirs: f64| {
            let of = |value| BTreeMap::from([("cpu_ns".to_owned(), value)]);
            BTreeMap::from([(Candidate::Turms, of(ours)), (Candidate::Rmcp, of(theirs))])
        };
        let all = vec![round(10.0, 30.0), round(100.0, 400.0), round(10.0, 50.0)];
        assert_eq!(ratio(&all, Candidate::Rmcp, Candidate::Turms, "cpu_ns"), Some(4.0));
        assert_eq!(ratio(&all, Candidate::Limit, Candidate::Turms, "cpu_ns"), None);
    }
}
