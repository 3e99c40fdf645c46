//! Bounds on the figures.

use super::cell::{
    ALONE_IN_SESSION, BY_EVENTS, BY_JSON, CLIENT, Candidate, Cell, FEW_TOOLS, GUARDED_CELLS, IDLE, IN_CROWD, INSIDE,
    LARGE, LARGE_PIPE, LIST, LIST_PIPE, LISTENING, MANY_TOOLS, MOUNTED, PIPE, POST, RMCP_CLIENT, SESSION,
    SESSION_CLIENT, SINGLE, SINGLE_CLIENT, SINGLE_PIPE, SINGLE_RMCP_CLIENT, SIZES, STATELESS,
};
use super::figures::{Measured, Place};
use super::weight;

/// A figure with its bound.
pub(super) struct Demand {
    pub(super) what: String,
    pub(super) is: Option<f64>,
    pub(super) bound: Bound,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

use Bound::{AtLeast, AtMost};
use Candidate::{Axum, Guarded, Limit, Rmcp, RmcpPipes, Turms};

impl Demand {
    /// Returns whether the bound holds; `None` if the figure was not measured.
    pub(super) fn is_met(&self) -> Option<bool> {
        self.is.map(|is| match self.bound {
            AtLeast(bound) => is >= bound,
            AtMost(bound) => is <= bound,
        })
    }
}

/// Returns all bounds with the measured figures.
pub(super) fn all(measured: &Measured) -> Vec<Demand> {
    let mut all = Vec::new();
    let mut demand = |what: String, is, bound| all.push(Demand { what, is, bound });
    let place = |cell, who, figure| Place { cell, who, figure };
    let cost = |cell, who| place(cell, who, "cpu_ns");
    let times = |cell, who| measured.ratio(cost(cell, who), cost(cell, Turms));

    let beside: [(&Cell, Candidate, f64); 13] = [
        (&STATELESS, Rmcp, 3.0),
        (&STATELESS, Limit, 0.85),
        (&SESSION, Rmcp, 3.5),
        (&SINGLE, Rmcp, 1.9),
        (&LIST, Rmcp, 6.5),
        (&LIST, Limit, 0.9),
        (&LARGE, Rmcp, 1.5),
        (&PIPE, RmcpPipes, 5.0),
        (&PIPE, Rmcp, 35.0),
        (&SINGLE_PIPE, RmcpPipes, 1.5),
        (&LIST_PIPE, Rmcp, 6.5),
        (&LIST_PIPE, Limit, 0.9),
        (&LARGE_PIPE, RmcpPipes, 1.2),
    ];
    for (cell, who, least) in beside {
        let label = match who {
            Limit => "processor time of the limit / ours",
            RmcpPipes => "processor time of rmcp with pipes / ours",
            _ => "processor time of rmcp / ours",
        };
        demand(format!("{}: {label}", cell.name), times(cell, who), AtLeast(least));
    }

    let mounted = measured.ratio(cost(&MOUNTED, Rmcp), cost(&MOUNTED, Axum));
    demand(format!("{}: processor time of rmcp / ours", MOUNTED.name), mounted, AtLeast(2.3));

    for cell in GUARDED_CELLS {
        let ratio = measured.ratio(cost(cell, Guarded), cost(cell, Turms));
        demand(format!("{}: processor time / without the guard", cell.name), ratio, AtMost(1.3));
    }

    let p50 = |cell, who| place(cell, who, "p50_ns");
    demand(
        format!("{}: p50 / rmcp's", SINGLE.name),
        measured.ratio(p50(&SINGLE, Turms), p50(&SINGLE, Rmcp)),
        AtMost(0.65),
    );
    for cell in [&STATELESS, &SESSION, &SINGLE] {
        let p99 = |who| place(cell, who, "p99_ns");
        demand(format!("{}: p99 / the limit's", cell.name), measured.ratio(p99(Turms), p99(Limit)), AtMost(1.3));
    }
    let p50_of = |one, other| measured.ratio(p50(one, Turms), p50(other, Turms));
    demand("p50 of an answer by events / by JSON".to_owned(), p50_of(&BY_EVENTS, &BY_JSON), AtMost(1.2));

    let kib = |cell| measured.median(place(cell, Turms, "bytes")).map(|bytes| bytes / 1024.0);
    demand("an idle session, KiB resident".to_owned(), kib(&IDLE), AtMost(1.0));
    demand("an idle session with an open stream, KiB resident".to_owned(), kib(&LISTENING), AtMost(71.0 / 5.0));

    let against = |one, other| measured.ratio(cost(one, Turms), cost(other, Turms));
    demand("cost with 10 000 tools / with 2".to_owned(), against(&MANY_TOOLS, &FEW_TOOLS), AtMost(1.15));
    demand("cost among 10 000 sessions / alone".to_owned(), against(&IN_CROWD, &ALONE_IN_SESSION), AtMost(1.15));
    let (late, early) = (place(&STATELESS, Turms, "late_ns"), place(&STATELESS, Turms, "early_ns"));
    demand("cost in the second half of a run / in the first".to_owned(), measured.ratio(late, early), AtMost(1.1));
    let [_, ten, hundred, thousand] = &SIZES;
    demand("cost of 100 KiB / ten times that of 10 KiB".to_owned(), tenth(against(hundred, ten)), AtMost(1.15));
    demand("cost of 1000 KiB / ten times that of 100 KiB".to_owned(), tenth(against(thousand, hundred)), AtMost(1.15));

    let client = |cell| measured.ratio(place(cell, Limit, "client_ns"), place(&POST, Limit, "client_ns"));
    for (cell, most) in [(&CLIENT, 1.5), (&SESSION_CLIENT, 1.65)] {
        demand(format!("{}: processor time / that of hyper-util's", cell.name), client(cell), AtMost(most));
    }

    let of_rmcp = |ours, theirs| measured.ratio(place(ours, Limit, "client_ns"), place(theirs, Limit, "client_ns"));
    for (ours, theirs) in [(&SESSION_CLIENT, &RMCP_CLIENT), (&SINGLE_CLIENT, &SINGLE_RMCP_CLIENT)] {
        demand(format!("{}: processor time / that of rmcp's", ours.name), of_rmcp(ours, theirs), AtMost(1.0 / 3.0));
    }

    let inside = measured.median(p50(&INSIDE, Turms)).map(|ns| ns / 1000.0);
    demand("a call in the process of the server, us".to_owned(), inside, AtMost(1.0));

    demand("system calls for a call in a session".to_owned(), weight::system_calls(), AtMost(2.1));
    let [ours, theirs] =
        ["-p turms-bench-server", "--manifest-path benches/rmcp/Cargo.toml"].map(weight::build_seconds);
    let builds = ours.zip(theirs).map(|(ours, theirs)| ours / theirs);
    demand("time to build the server from nothing / rmcp's".to_owned(), builds, AtMost(1.0));
    all
}

fn tenth(ratio: Option<f64>) -> Option<f64> {
    ratio.map(|ratio| ratio / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demand_is_met_or_not_or_not_measured() {
        let demand = |is, bound| Demand { what: String::new(), is, bound }.is_met();
        assert_eq!(demand(Some(3.0), AtLeast(3.0)), Some(true));
        assert_eq!(demand(Some(2.9), AtLeast(3.0)), Some(false));
        assert_eq!(demand(Some(1.3), AtMost(1.2)), Some(false));
        assert_eq!(demand(None, AtMost(1.2)), None);
    }
}
