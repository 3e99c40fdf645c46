//! What a call costs when there is nothing but `hyper` and `serde_json`: `turms-bench-limit stdio`, or
//! `turms-bench-limit http PORT`. It checks what the protocol wants to be checked, and has no other comfort: no limits, no
//! timeouts, no schemas, no notifications, and one handler that is known beforehand.

mod answer;
mod http;
mod stdio;

use std::io;

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("http") => http::serve(args.next().and_then(|port| port.parse().ok()).unwrap_or(8080)),
        _ => stdio::serve(),
    }
}
