//! A server over HTTP: `cargo run -p turms-examples --bin clock`, then connect a client to `http://127.0.0.1:8080/mcp`.
#![expect(clippy::disallowed_methods, reason = "the example reads the system clock")]

use std::time::{Duration, SystemTime};

use turms::prelude::*;

/// Returns the Unix time in seconds.
#[tool(read_only)]
async fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Waits, and reports progress.
#[tool]
async fn wait(
    /// number of seconds
    seconds: u32,
    progress: Progress,
) -> String {
    for second in 1..=seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        progress.report(second).total(seconds).await;
    }
    format!("waited {seconds} seconds")
}

#[tokio::main]
async fn main() -> turms::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    Server::new("clock", "1.0.0").tool(now).tool(wait).serve_http(address).await
}
