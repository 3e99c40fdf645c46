//! The server over real sockets, seen from outside: what it answers byte for byte, how streams are taken up again, what
//! hostile clients can do to it, and what the clients of other SDKs make of it.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]
#![allow(clippy::needless_pass_by_value, reason = "messages are written where they are sent")]

mod calls;
mod chaos;
mod dialog;
mod fixture;
mod framing;
mod held;
mod hostile;
#[cfg(feature = "http2")]
mod http2;
mod in_process;
mod interop;
mod limits;
mod listener;
mod malformed;
mod mounted;
mod pipelining;
mod raw;
mod resume;
mod sessions;
mod stores;
mod tasks;
#[cfg(feature = "tls")]
mod tls;
mod wire;

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
async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    soon(what, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}
