//! Running futures in a thread of a model.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Runs a future in a thread of a model. Each poll gets a new waker, as if the future had moved to another task, and
/// only the waker of the last poll wakes the thread. This finds code that keeps an old waker.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let thread = Arc::new(Thread { woken: loom::sync::Notify::new(), polls: AtomicUsize::new(0) });
    loop {
        let poll = thread.polls.fetch_add(1, Ordering::Relaxed) + 1;
        let waker = Waker::from(Arc::new(PollWaker { thread: thread.clone(), poll }));
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        drop(waker);
        thread.woken.wait();
    }
}

struct Thread {
    woken: loom::sync::Notify,
    polls: AtomicUsize,
}

struct PollWaker {
    thread: Arc<Thread>,
    poll: usize,
}

impl Wake for PollWaker {
    fn wake(self: Arc<Self>) {
        if self.thread.polls.load(Ordering::Relaxed) == self.poll {
            self.thread.woken.notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;
    use crate::{Mutex, model, spawn};

    #[derive(Default)]
    struct Flag {
        is_set: bool,
        waker: Option<Waker>,
    }

    /// Waits for a flag that another thread sets. Stores the waker of the first poll if `keeps_first`, else that of the
    /// last.
    fn wait_for_flag(keeps_first: bool) {
        model(move || {
            let flag = Arc::new(Mutex::new(Flag::default()));
            let set = spawn({
                let flag = flag.clone();
                move || {
                    let waker = {
                        let mut flag = flag.lock();
                        flag.is_set = true;
                        flag.waker.take()
                    };
                    waker.into_iter().for_each(Waker::wake);
                }
            });
            let mut polls = 0;
            block_on(poll_fn(|task| {
                polls += 1;
                let mut flag = flag.lock();
                if flag.is_set {
                    return Poll::Ready(());
                }
                if polls == 1 {
                    // Cause a spurious second poll.
                    task.waker().wake_by_ref();
                }
                if !keeps_first || flag.waker.is_none() {
                    flag.waker = Some(task.waker().clone());
                }
                Poll::Pending
            }));
            set.join();
        });
    }

    #[test]
    fn a_future_that_keeps_the_last_waker_is_woken() {
        wait_for_flag(false);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn a_future_that_keeps_the_first_waker_deadlocks() {
        wait_for_flag(true);
    }
}
