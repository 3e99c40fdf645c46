use std::sync::LazyLock;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Runs work that takes up to about a second of computing on a thread of its own, so that it does not block a worker thread.
/// At most as many pieces of such work run at a time as there are processors; more of them wait.
///
/// Returns `None` if the work panicked, or if the runtime shut down first.
///
/// # Panics
/// Outside of a runtime.
pub async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    static PERMITS: LazyLock<Semaphore> =
        LazyLock::new(|| Semaphore::new(available_parallelism().map_or(1, usize::from)));
    let permit = PERMITS.acquire().await.ok()?;
    let working = spawn_blocking(move || {
        let _permit = permit;
        work()
    });
    working.await.ok()
}
