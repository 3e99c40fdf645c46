//! Held against servers that others wrote: two that are published, and one on each version of the official SDKs.
//!
//! They are real processes, reached over standard input and output or over HTTP. `peers/README.md` says what each of them offers and where they differ; `cargo xtask peers`
//! installs them.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod conversation;
mod everything;
mod filesystem;
mod http;
mod life;
mod peer;
#[cfg(target_os = "linux")]
mod process;
mod revision;

use std::time::Duration;

/// How long anything may take that is bound to happen. The machine may be busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for what is bound to happen.
async fn soon<T>(what: &str, happens: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, happens).await {
        Ok(happened) => happened,
        Err(_) => panic!("in vain: {what}"),
    }
}

/// Waits until something holds that nobody tells of.
async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    soon(what, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}
