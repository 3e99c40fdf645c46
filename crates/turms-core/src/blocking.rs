use std::sync::LazyLock;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Runs a computation of up to about a second on a blocking thread, so that it does not block a worker thread. At most as many run at a
/// time as there are processors; more wait.
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
