//! The lower limit of the cost of a call: a server with only `hyper` and `serde_json`. `turms-bench-limit stdio`, or
//! `turms-bench-limit http PORT`. It makes the checks that the protocol requires, and has no limits, no timeouts, no
//! schemas, no notifications and only built-in handlers.
//!
//! `turms-bench-limit hyper PORT` and `turms-bench-limit axum PORT` send each body back: the cost of HTTP alone,
//! without JSON.

mod answer;
mod echo;
mod http;
mod stdio;

use std::io;

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let mode = args.next();
    let port = args.next().and_then(|port| port.parse().ok()).unwrap_or(8080);
    match mode.as_deref() {
        Some("http") => http::serve(port),
        Some("hyper") => echo::serve_hyper(port),
        Some("axum") => echo::serve_axum(port),
        _ => stdio::serve(),
    }
}
