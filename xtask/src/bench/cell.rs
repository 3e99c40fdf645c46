//! The candidates and the loads.

/// A kind of load, with the number of tools of the server.
pub(crate) struct Cell {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) payload: &'static str,
    pub(super) width: usize,
    pub(super) tools: &'static str,
    pub(super) who: &'static [Candidate],
}

/// A program that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Candidate {
    Turms,
    Limit,
    Rmcp,
    RmcpPipes,
    /// Turms mounted in an axum application.
    Axum,
    /// Turms served by hyper as a `tower` service.
    Hyper,
    /// Turms behind a token guard, with calls that have a token.
    Guarded,
    /// axum that echoes each body.
    AxumEcho,
    /// hyper that echoes each body.
    HyperEcho,
}

use Candidate::{Axum, AxumEcho, Guarded, Hyper, HyperEcho, Limit, Rmcp, RmcpPipes, Turms};

const HTTP: &[Candidate] = &[Turms, Limit, Rmcp];
const STDIO: &[Candidate] = &[Turms, Limit, Rmcp, RmcpPipes];
const OURS: &[Candidate] = &[Turms];

/// Loads with other toolkits as candidates.
pub(super) const STATELESS: Cell = cell("HTTP 2026-07-28, small, 32 connections", "stateless", "small", 32, "2", HTTP);
pub(super) const SESSION: Cell = cell("HTTP 2025-11-25, small, 32 connections", "session", "small", 32, "2", HTTP);
pub(super) const SINGLE: Cell = cell("HTTP 2026-07-28, small, 1 connection", "stateless", "small", 1, "2", HTTP);
pub(super) const SINGLE_SESSION: Cell = cell("HTTP 2025-11-25, small, 1 connection", "session", "small", 1, "2", HTTP);
pub(super) const LIST: Cell = cell("HTTP, list of 100 tools, 8 connections", "stateless", "list", 8, "100", HTTP);
pub(super) const LARGE: Cell = cell("HTTP, 100 KiB, 8 connections", "stateless", "100k", 8, "2", HTTP);
pub(super) const PIPE: Cell = cell("stdio, small, 64 in flight", "stdio", "small", 64, "2", STDIO);
pub(super) const SINGLE_PIPE: Cell = cell("stdio, small, 1 in flight", "stdio", "small", 1, "2", STDIO);
pub(super) const LIST_PIPE: Cell = cell("stdio, list of 100 tools, 8 in flight", "stdio", "list", 8, "100", STDIO);
pub(super) const LARGE_PIPE: Cell = cell("stdio, 100 KiB, 8 in flight", "stdio", "100k", 8, "2", STDIO);

/// Turms mounted in an application, and the application alone.
pub(super) const MOUNTED: Cell = cell(
    "mounted, HTTP 2026-07-28, small, 32 connections",
    "stateless",
    "small",
    32,
    "2",
    &[Axum, AxumEcho, Hyper, HyperEcho, Rmcp],
);
pub(super) const MOUNTED_SESSION: Cell =
    cell("mounted, HTTP 2025-11-25, small, 32 connections", "session", "small", 32, "2", &[Axum, Hyper, Rmcp]);

/// Turms behind a guard that has verified the token before, and without a guard.
pub(super) const GUARDED: Cell =
    cell("guarded, HTTP 2026-07-28, small, 32 connections", "stateless", "small", 32, "2", &[Turms, Guarded]);
pub(super) const GUARDED_SESSION: Cell =
    cell("guarded, HTTP 2025-11-25, small, 32 connections", "session", "small", 32, "2", &[Turms, Guarded]);

/// Memory of each session.
pub(super) const IDLE: Cell = cell("idle session", "idle", "small", 2000, "2", HTTP);
pub(super) const LISTENING: Cell =
    cell("idle session with an open stream", "listening", "small", 1000, "2", &[Turms, Rmcp]);

/// Turms under different conditions.
pub(super) const FEW_TOOLS: Cell = cell("2 tools, 32 connections", "stateless", "small", 32, "2", OURS);
pub(super) const MANY_TOOLS: Cell = cell("10 000 tools, 32 connections", "stateless", "small", 32, "10000", OURS);
pub(super) const ALONE_IN_SESSION: Cell = cell("one session", "crowd", "small", 1, "2", OURS);
pub(super) const IN_CROWD: Cell = cell("one session among 10 000", "crowd", "small", 10_000, "2", OURS);
pub(super) const BY_JSON: Cell = cell("answered by JSON, 1 connection", "stateless", "small", 1, "progress", OURS);
pub(super) const BY_EVENTS: Cell =
    cell("answered by events, 1 connection", "stateless", "progress", 1, "progress", OURS);
pub(super) const SIZES: [Cell; 4] = [
    cell("1 KiB, 8 connections", "stateless", "1k", 8, "2", OURS),
    cell("10 KiB, 8 connections", "stateless", "10k", 8, "2", OURS),
    cell("100 KiB, 8 connections", "stateless", "100k", 8, "2", OURS),
    cell("1000 KiB, 8 connections", "stateless", "1000k", 8, "2", OURS),
];

/// Clients of the limit server: ours, the HTTP client that it uses, and a bare connection.
const LEAST_CLIENT: Cell = cell("a bare connection", "stateless", "small", 1, "2", &[Limit]);
const SINGLE_POST: Cell = cell("the client of hyper-util", "post", "small", 1, "2", &[Limit]);
pub(super) const POST: Cell = cell("the client of hyper-util, 32 at once", "post", "small", 32, "2", &[Limit]);
pub(super) const SINGLE_CLIENT: Cell = cell("the client of Turms", "client", "small", 1, "2", &[Limit]);
pub(super) const CLIENT: Cell = cell("the client of Turms, 32 at once", "client", "small", 32, "2", &[Limit]);
pub(super) const SESSION_CLIENT: Cell =
    cell("the client of Turms in a session, 32 at once", "client-session", "small", 32, "2", &[Limit]);
pub(super) const SINGLE_RMCP_CLIENT: Cell =
    cell("the client of rmcp in a session", "other-client-session", "small", 1, "2", &[Limit]);
pub(super) const RMCP_CLIENT: Cell =
    cell("the client of rmcp in a session, 32 at once", "other-client-session", "small", 32, "2", &[Limit]);

pub(super) const BESIDE_OTHERS: [&Cell; 10] =
    [&STATELESS, &SESSION, &SINGLE, &SINGLE_SESSION, &LIST, &LARGE, &PIPE, &SINGLE_PIPE, &LIST_PIPE, &LARGE_PIPE];
pub(super) const MOUNTED_CELLS: [&Cell; 2] = [&MOUNTED, &MOUNTED_SESSION];
pub(super) const GUARDED_CELLS: [&Cell; 2] = [&GUARDED, &GUARDED_SESSION];
pub(super) const MEMORY: [&Cell; 2] = [&IDLE, &LISTENING];
pub(super) const OWN: [&Cell; 10] = [
    &FEW_TOOLS,
    &MANY_TOOLS,
    &ALONE_IN_SESSION,
    &IN_CROWD,
    &BY_JSON,
    &BY_EVENTS,
    &SIZES[0],
    &SIZES[1],
    &SIZES[2],
    &SIZES[3],
];

/// Client and server in one process.
pub(super) const INSIDE: Cell =
    cell("the client of Turms in the process of the server", "inside", "small", 1, "2", OURS);

pub(super) const CLIENTS: [&Cell; 8] =
    [&LEAST_CLIENT, &SINGLE_POST, &SINGLE_CLIENT, &SINGLE_RMCP_CLIENT, &POST, &CLIENT, &SESSION_CLIENT, &RMCP_CLIENT];

/// Returns all cells.
pub(super) fn all() -> impl Iterator<Item = &'static Cell> {
    BESIDE_OTHERS
        .into_iter()
        .chain(MOUNTED_CELLS)
        .chain(GUARDED_CELLS)
        .chain(MEMORY)
        .chain(OWN)
        .chain(CLIENTS)
        .chain([&INSIDE])
}

const fn cell(
    name: &'static str,
    kind: &'static str,
    payload: &'static str,
    width: usize,
    tools: &'static str,
    who: &'static [Candidate],
) -> Cell {
    Cell { name, kind, payload, width, tools, who }
}

pub(super) const OUR_SERVER: &str = "target/release/turms-bench-server";
const LIMIT_SERVER: &str = "target/release/turms-bench-limit";
const MOUNTED_SERVER: &str = "target/release/turms-bench-mounted";
const GUARDED_SERVER: &str = "target/release/turms-bench-guarded";
pub(super) const LOAD: &str = "target/release/turms-bench-load";
pub(super) const RMCP_SERVER: &str = "benches/rmcp/target/release/turms-bench-rmcp";
pub(super) const OTHER_CLIENT: &str = "benches/rmcp/target/release/turms-bench-rmcp-client";

impl Cell {
    /// Returns `true` if the cell measures the client of Turms, which is part of the load generator. Earlier commits support one call at
    /// a time.
    pub(super) fn measures_client(&self) -> bool {
        matches!((self.kind, self.width), ("client" | "inside", 1))
    }

    /// Returns the name of the figure for the cost of a call or a session.
    pub(super) fn cost(&self) -> &'static str {
        match self.kind {
            "idle" | "listening" => "bytes",
            _ if self.measures_client() => "p50_ns",
            _ => "cpu_ns",
        }
    }
}

impl Candidate {
    /// Returns the program with its arguments.
    pub(super) fn command(self, kind: &str) -> String {
        let (program, way) = match (self, kind) {
            (Self::Turms, "stdio") => (OUR_SERVER, "stdio"),
            (Self::Turms, _) => (OUR_SERVER, "http {port}"),
            (Self::Limit, "stdio") => (LIMIT_SERVER, "stdio"),
            (Self::Limit, _) => (LIMIT_SERVER, "http {port}"),
            (Self::Axum, _) => (MOUNTED_SERVER, "axum {port}"),
            (Self::Hyper, _) => (MOUNTED_SERVER, "hyper {port}"),
            (Self::Guarded, _) => (GUARDED_SERVER, "http {port}"),
            (Self::AxumEcho, _) => (LIMIT_SERVER, "axum {port}"),
            (Self::HyperEcho, _) => (LIMIT_SERVER, "hyper {port}"),
            (Self::RmcpPipes, _) => (RMCP_SERVER, "pipes"),
            (Self::Rmcp, "stdio") => (RMCP_SERVER, "stdio"),
            (Self::Rmcp, "stateless") => (RMCP_SERVER, "http {port}"),
            (Self::Rmcp, _) => (RMCP_SERVER, "sessions {port}"),
        };
        format!("{program} {way}")
    }

    /// The command that prints the environment of its load and its server, if they need one.
    pub(super) fn environment(self) -> Option<String> {
        (self == Self::Guarded).then(|| format!("{GUARDED_SERVER} token"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_cell_has_a_name_of_its_own() {
        let names: Vec<_> = all().map(|cell| cell.name).collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    }

    #[test]
    fn pipes_are_for_stdio() {
        assert!(all().all(|cell| !cell.who.contains(&RmcpPipes) || cell.kind == "stdio"));
    }
}
