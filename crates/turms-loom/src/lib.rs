//! Locks that loom schedules, for unit tests.
//!
//! A crate imports its locks from its own module `sync`. That module re-exports `parking_lot` and the standard library,
//! and in unit tests the types of this crate. They behave the same, except inside of [`model`]: there a test runs once
//! for each order in which its threads can take the locks, with a bound on preemptions, and fails on a deadlock.

mod block_on;
mod lock;

use std::cell::Cell;

pub use crate::block_on::block_on;
pub use crate::lock::{Mutex, MutexGuard, OnceLock};

/// Stack size of a thread, in words. The default of loom, 4096, is too small for unoptimised code.
const STACK_SIZE: usize = 64 * 1024;

/// Maximum number of preemptions in one execution, unless `LOOM_MAX_PREEMPTIONS` is set. Two find almost all bugs; with
/// three, a model of three threads takes ten times as long.
const MAX_PREEMPTIONS: usize = 2;

thread_local! {
    // Loom runs all threads of a model on the thread of its test.
    static IS_MODEL: Cell<bool> = const { Cell::new(false) };
}

/// Runs a test once for each order in which its threads can take their shared locks, with at most two preemptions. The
/// test must create its locks inside the closure. It starts further threads with [`spawn`].
///
/// # Panics
/// Panics if the test panics or deadlocks in one of these orders.
pub fn model(test: impl Fn() + Clone + Send + Sync + 'static) {
    let _model = InModel::enter();
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(MAX_PREEMPTIONS);
    model.check(move || spawn(test.clone()).join());
}

/// Starts a thread of a model.
pub fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let thread = loom::thread::Builder::new().stack_size(STACK_SIZE).spawn(work);
    JoinHandle(thread.expect("a thread of a model is a coroutine"))
}

/// The handle of a thread of a model.
#[derive(Debug)]
pub struct JoinHandle<T>(loom::thread::JoinHandle<T>);

impl<T> JoinHandle<T> {
    /// Waits for the thread, and returns its result.
    ///
    /// # Panics
    /// Panics if the thread has panicked.
    #[expect(clippy::must_use_candidate, reason = "most threads return nothing")]
    pub fn join(self) -> T {
        self.0.join().expect("a panic of a thread ends the model")
    }
}

fn is_model() -> bool {
    IS_MODEL.get()
}

/// Marks this thread as running a model, until it is dropped.
struct InModel;

impl InModel {
    fn enter() -> Self {
        IS_MODEL.set(true);
        Self
    }
}

impl Drop for InModel {
    fn drop(&mut self) {
        IS_MODEL.set(false);
    }
}
