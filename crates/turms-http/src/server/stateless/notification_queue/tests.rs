//! Tests of the queue under every order in which its reader and senders can take the lock.

use std::sync::Arc;
use std::task::Wake;

use turms_loom::{block_on, model, spawn};

use super::*;

fn notification(params: &str) -> Notification {
    Notification::raw(MethodName::from_static("notifications/x"), Some(RawJson::string(params)))
}

/// Creates a full queue.
fn full_queue() -> Arc<NotificationQueue> {
    let queue = Arc::new(NotificationQueue::default());
    assert!(queue.try_notify(notification(&"x".repeat(NotificationQueue::LIMIT))));
    assert!(!queue.try_notify(notification("too many")));
    queue
}

fn spawn_sender(queue: &Arc<NotificationQueue>) -> turms_loom::JoinHandle<Result<(), PeerError>> {
    let queue = queue.clone();
    spawn(move || block_on(queue.notify(notification("sent"))))
}

/// Reads this number of events.
async fn read(queue: &NotificationQueue, count: usize) {
    let mut events = 0;
    while events < count {
        let read = poll_fn(|task| queue.poll_events(task)).await;
        events += read.windows(2).filter(|end| end == b"\n\n").count();
    }
    assert_eq!(events, count);
}

#[test]
fn a_reader_is_woken_in_the_task_that_polled_last() {
    model(|| {
        let queue = Arc::new(NotificationQueue::default());
        // The future of a request waits first, and then the body of its response.
        let _ = queue.poll_not_empty(&mut TaskContext::from_waker(Waker::noop()));
        let sender = spawn_sender(&queue);
        block_on(poll_fn(|task| queue.poll_not_empty(task)));
        block_on(read(&queue, 1));
        sender.join().unwrap();
    });
}

#[test]
fn all_senders_are_woken_when_a_full_queue_is_read() {
    model(|| {
        let queue = full_queue();
        let senders = [spawn_sender(&queue), spawn_sender(&queue)];
        block_on(read(&queue, 3));
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

#[test]
fn a_waiting_sender_is_woken_when_the_queue_closes() {
    model(|| {
        let queue = full_queue();
        let sender = spawn_sender(&queue);
        queue.close();
        assert_eq!(sender.join().unwrap_err().to_string(), PeerError::Closed.to_string());
    });
}

/// A waker that locks the queue. It deadlocks if it is woken under the lock.
struct Inline(Arc<NotificationQueue>);

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        let _ = self.0.poll_not_empty(&mut TaskContext::from_waker(Waker::noop()));
    }
}

fn inline(queue: &Arc<NotificationQueue>) -> Waker {
    Waker::from(Arc::new(Inline(queue.clone())))
}

#[test]
fn a_reader_is_woken_without_the_lock() {
    model(|| {
        let queue = Arc::new(NotificationQueue::default());
        assert!(queue.poll_not_empty(&mut TaskContext::from_waker(&inline(&queue))).is_pending());
        assert!(queue.try_notify(notification("")));
    });
}

#[test]
fn senders_are_woken_without_the_lock() {
    for change in [|queue: &NotificationQueue| block_on(read(queue, 1)), NotificationQueue::close] {
        model(move || {
            let queue = full_queue();
            let mut sender = queue.notify(notification(""));
            assert!(sender.as_mut().poll(&mut TaskContext::from_waker(&inline(&queue))).is_pending());
            change(&queue);
        });
    }
}
