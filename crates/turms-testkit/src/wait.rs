//! Waiting for events and conditions, with one timeout for all tests.

use std::time::Duration;

/// Timeout for everything a test waits for (60 s). Long, because the machine may be busy with other tests.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// The delay between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Waits for a future that has to finish.
///
/// # Panics
/// If it has not finished within [`TIMEOUT`]; the message names what was awaited.
pub async fn within<F: IntoFuture>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(TIMEOUT, future.into_future()).await {
        Ok(output) => output,
        Err(_) => panic!("timed out waiting for {what}"),
    }
}

/// Polls a condition that sends no signal when it becomes true.
///
/// # Panics
/// If the condition does not hold within [`TIMEOUT`]; the message names what was awaited.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    within(what, async {
        while !condition().await {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_condition_is_polled_until_it_holds() {
        let mut polls = 0;
        eventually("three polls", async || {
            polls += 1;
            polls == 3
        })
        .await;
        assert_eq!(polls, 3);
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "timed out waiting for a future that never finishes")]
    async fn the_panic_names_what_was_awaited() {
        within("a future that never finishes", std::future::pending::<()>()).await;
    }
}
