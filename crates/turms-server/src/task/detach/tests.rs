//! Tests of the detach point under every order in which a call and its handler can take the lock.

use std::future::pending;
use std::pin::pin;
use std::task::{Context as TaskContext, Wake};

use tokio::sync::Semaphore;
use turms_core::store::{MemoryTaskStore, TaskRecord};
use turms_core::{CallContext, Peer};
use turms_loom::{JoinHandle, block_on, model, spawn};
use turms_proto::ProtocolVersion;
use turms_proto::session::Dialect;
use turms_proto::types::{Task, TaskStatus};

use super::*;
use crate::{Context, Server};

fn running_task() -> Arc<RunningTask> {
    let server = Server::new("s", "1").build().unwrap();
    let call = CallContext::new(Dialect::Stateless(ProtocolVersion::LATEST), Peer::disconnected());
    let context = Context::new(call, server.handle().clone(), None);
    let record = TaskRecord::new(Task::new("t", TaskStatus::Working, "", "", None), "");
    let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    Arc::new(RunningTask::new(record, None, Arc::new(MemoryTaskStore::new(1, 1)), &context, permit))
}

/// Waits for the task in another thread, as a handler does with part of its work.
fn spawn_handler(point: &Arc<DetachPoint>) -> JoinHandle<()> {
    let point = point.clone();
    spawn(move || {
        block_on(point.detach());
        assert!(point.task().is_some());
    })
}

#[test]
fn a_call_and_its_handler_are_woken_in_the_tasks_that_polled_last() {
    let task = running_task();
    model(move || {
        let point = Arc::new(DetachPoint::default());
        let _ = point.is_requested(Waker::noop());
        let handler = spawn_handler(&point);
        let reached = block_on(run_until_detached(Box::pin(pending()), None, &point));
        assert!(matches!(reached, HandlerProgress::Detached(_)));
        point.set_task(task.clone());
        handler.join();
    });
}

#[test]
fn all_that_wait_for_a_task_are_woken_whenever_it_is_set() {
    let task = running_task();
    model(move || {
        let point = Arc::new(DetachPoint::default());
        let handlers = [spawn_handler(&point), spawn_handler(&point)];
        point.set_task(task.clone());
        handlers.into_iter().for_each(JoinHandle::join);
    });
}

/// A waker that uses the detach point at once.
struct Inline(Arc<DetachPoint>);

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        let _ = self.0.is_requested(Waker::noop());
    }
}

#[test]
fn a_call_and_its_handler_are_woken_without_the_lock() {
    let task = running_task();
    model(move || {
        let point = Arc::new(DetachPoint::default());
        let waker = Waker::from(Arc::new(Inline(point.clone())));
        assert!(!point.is_requested(&waker));
        assert!(pin!(point.detach()).poll(&mut TaskContext::from_waker(&waker)).is_pending());
        point.set_task(task.clone());
    });
}
