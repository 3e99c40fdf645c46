//! Tables of the figures.

use std::fmt::Write as _;
use std::fs;

use super::cell::{self, Candidate, Cell};
use super::demand::{self, Bound, Demand};
use super::figures::{Measured, Place};
use crate::program;

use Candidate::{Axum, AxumEcho, Guarded, Hyper, HyperEcho, Limit, Rmcp, RmcpPipes, Turms};

/// Returns the report with all figures, the machine and the commit.
pub(super) fn write(measured: &Measured, rounds: usize) -> String {
    let mut text = format!(
        "# Results\n\n\
         Written by `cargo xtask bench`: medians of {rounds} interleaved rounds, ratios taken within a round. \"x\" is the \
         cost there divided by ours; \"of limit\" is the cost of a server without a toolkit divided by ours.\n\n\
         - commit: {}\n- machine: {}\n\n",
        output("git rev-parse HEAD"),
        machine(),
    );
    text.push_str("| work | processor time per call, us | limit | rmcp | rmcp with pipes | x rmcp | x rmcp with pipes | of limit | p50, us | of rmcp's | p99, of limit's |\n");
    text.push_str("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for cell in cell::BESIDE_OTHERS {
        let place = |who, figure| Place { cell, who, figure };
        let micros = |who, figure| measured.median(place(who, figure)).map(|ns| ns / 1000.0);
        let cost = |who| micros(who, "cpu_ns");
        let times = |who| measured.ratio(place(who, "cpu_ns"), place(Turms, "cpu_ns"));
        let columns = [
            cost(Turms),
            cost(Limit),
            cost(Rmcp),
            cost(RmcpPipes),
            times(Rmcp),
            times(RmcpPipes),
            times(Limit),
            micros(Turms, "p50_ns"),
            measured.ratio(place(Turms, "p50_ns"), place(Rmcp, "p50_ns")),
            measured.ratio(place(Turms, "p99_ns"), place(Limit, "p99_ns")),
        ];
        row(&mut text, cell.name, &columns);
    }
    mounted(&mut text, measured);
    guarded(&mut text, measured);
    text.push_str("\n| memory | KiB each | limit | rmcp | of rmcp's |\n|---|---:|---:|---:|---:|\n");
    for cell in cell::MEMORY {
        let place = |who| Place { cell, who, figure: "bytes" };
        let size = |who| measured.median(place(who)).map(|bytes| bytes / 1024.0);
        let part = measured.ratio(place(Turms), place(Rmcp));
        row(&mut text, cell.name, &[size(Turms), size(Limit), size(Rmcp), part]);
    }
    text.push_str("\n| ours, HTTP | processor time per call, us | p50, us | p99, us |\n|---|---:|---:|---:|\n");
    one_each(&mut text, measured, &cell::OWN, Turms, ["cpu_ns", "p50_ns", "p99_ns"]);
    text.push_str(
        "\n| clients of the limit server | processor time per call, us | p50, us | p99, us |\n|---|---:|---:|---:|\n",
    );
    one_each(&mut text, measured, &cell::CLIENTS, Limit, ["client_ns", "p50_ns", "p99_ns"]);
    text.push_str("\n| demand | is | bound | met |\n|---|---:|---:|---|\n");
    for demand in demand::all(measured) {
        demanded(&mut text, &demand);
    }
    text
}

/// Writes the rows of servers mounted in an application. Our share is the cost less that of an application that echoes bodies.
fn mounted(text: &mut String, measured: &Measured) {
    text.push_str(
        "\n| mounted | in axum, us | axum echo | our share | x rmcp | in hyper, us | hyper echo | our share |\n",
    );
    text.push_str("|---|---:|---:|---:|---:|---:|---:|---:|\n");
    for cell in cell::MOUNTED_CELLS {
        let place = |who| Place { cell, who, figure: "cpu_ns" };
        let cost = |who| measured.median(place(who)).map(|ns| ns / 1000.0);
        let share = |who, echo| measured.ratio(place(echo), place(who)).map(|rest| 1.0 - rest);
        let columns = [
            cost(Axum),
            cost(AxumEcho),
            share(Axum, AxumEcho),
            measured.ratio(place(Rmcp), place(Axum)),
            cost(Hyper),
            cost(HyperEcho),
            share(Hyper, HyperEcho),
        ];
        row(text, cell.name, &columns);
    }
}

/// Writes the table of Turms behind a guard that has the token in its cache.
fn guarded(text: &mut String, measured: &Measured) {
    text.push_str("\n| guarded | processor time per call, us | without the guard | ratio |\n|---|---:|---:|---:|\n");
    for cell in cell::GUARDED_CELLS {
        let place = |who| Place { cell, who, figure: "cpu_ns" };
        let cost = |who| measured.median(place(who)).map(|ns| ns / 1000.0);
        row(text, cell.name, &[cost(Guarded), cost(Turms), measured.ratio(place(Guarded), place(Turms))]);
    }
}

fn demanded(text: &mut String, demand: &Demand) {
    let bound = match demand.bound {
        Bound::AtLeast(bound) => format!("at least {bound}"),
        Bound::AtMost(bound) => format!("at most {bound}"),
    };
    let is = demand.is.map(|is| format!("{is:.2}")).unwrap_or_default();
    let met = match demand.is_met() {
        Some(true) => "yes",
        Some(false) => "**no**",
        None => "not measured",
    };
    let _ = writeln!(text, "| {} | {is} | {bound} | {met} |", demand.what);
}

/// Writes a row for each cell, in microseconds.
fn one_each<const N: usize>(
    text: &mut String,
    measured: &Measured,
    cells: &[&Cell],
    who: Candidate,
    figures: [&'static str; N],
) {
    for cell in cells {
        let columns = figures.map(|figure| measured.median(Place { cell, who, figure }).map(|ns| ns / 1000.0));
        row(text, cell.name, &columns);
    }
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

pub(super) fn machine() -> String {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let (model, count) = (model.map_or("unknown", |(_, model)| model), std::thread::available_parallelism());
    format!("{model}, {} processors, {}", count.map_or(1, usize::from), output("uname -sr"))
}

pub(super) fn output(line: &str) -> String {
    let output = program::command(line).output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
