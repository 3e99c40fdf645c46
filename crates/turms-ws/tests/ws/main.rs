//! WebSocket over real sockets: with the client of this toolkit, by hand frame by frame, and against others' implementations.
//!
//! The suite of behaviour of `turms-client` runs over WebSocket as well; here is what only this transport has.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod conversation;
mod fixture;
mod frames;
mod life;
mod peers;
mod refusal;
mod tls;

use std::time::Duration;

/// How long anything may take that is bound to happen. The machine may be busy with other tests.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for what is bound to happen.
async fn soon<T>(what: &str, happens: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, happens).await {
        Ok(happened) => happened,
        Err(_) => panic!("in vain: {what}"),
    }
}
