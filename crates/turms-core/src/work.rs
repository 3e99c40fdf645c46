use tokio::task::JoinHandle;

use crate::peer::BoxFuture;

/// Begins work that nobody waits for, or that may be given up.
///
/// `tokio::spawn` does the same, but its code is there twice for every kind of future that it is given: some 8 KB in a program.
/// This is for work that is begun seldom enough to be boxed.
///
/// # Panics
/// Outside of a runtime.
#[expect(clippy::must_use_candidate, reason = "what was begun goes on whether anybody holds it or not")]
pub fn spawn(work: BoxFuture<'static, ()>) -> JoinHandle<()> {
    tokio::spawn(work)
}
