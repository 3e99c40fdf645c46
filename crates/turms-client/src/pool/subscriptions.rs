//! Watched resources and subscriptions of a pool. Each is held by one member, and moves to another when that member is
//! lost.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;
use turms_proto::types::SubscriptionFilter;

use super::attempts::Attempts;
use super::member::PoolMember;
use super::shared::PoolShared;
use crate::call::error::{CallError, Delivery};
use crate::call::options::CallOptions;
use crate::call::{CallOutput, CallRequest, SessionCall};
use crate::members::send;
use crate::reconnect::Backoff;
use crate::subscription::{Change, Subscription};

/// Timeout for unsubscribing from the previous member after a move.
const UNSUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// A watched resource, and the task that moves it between members.
pub(super) struct Watch {
    state: watch::Receiver<WatchState>,
    task: AbortOnDropHandle<()>,
}

/// The state of a [`Watch`].
#[derive(Clone)]
enum WatchState {
    Starting,
    /// The member is subscribed to the resource.
    Subscribed(Weak<PoolMember>),
    /// The member was lost, and no other member is subscribed yet.
    Moving,
    Failed(CallError),
}

pub(super) async fn subscribe(pool: &Arc<PoolShared>, uri: String, options: &CallOptions) -> Result<(), CallError> {
    loop {
        let (mut state, is_new) = get_or_start_watch(pool, &uri, options);
        let _guard = is_new.then(|| StartGuard { pool, uri: &uri, state: state.clone() });
        let settled = state.wait_for(|state| !matches!(state, WatchState::Starting)).await.map(|state| state.clone());
        match settled {
            Ok(WatchState::Failed(error)) => return Err(error),
            Ok(_) => return Ok(()),
            // The call that started the watch was dropped: start again.
            Err(_) => remove_watch(pool, &uri, &state),
        }
    }
}

pub(super) async fn unsubscribe(pool: &PoolShared, uri: String, options: &CallOptions) -> Result<(), CallError> {
    let watch = pool.watched.lock().remove(&uri);
    let Some(Watch { state, task }) = watch else { return Ok(()) };
    // The task may be moving the watch. It must not subscribe to another member after this.
    task.abort();
    let _ = task.await;
    let at = match &*state.borrow() {
        WatchState::Subscribed(member) => member.upgrade(),
        WatchState::Starting | WatchState::Moving | WatchState::Failed(_) => None,
    };
    match at {
        Some(member) => unsubscribe_at(&member, &uri, options).await,
        None => Ok(()),
    }
}

async fn unsubscribe_at(member: &PoolMember, uri: &str, options: &CallOptions) -> Result<(), CallError> {
    send(&member.client, SessionCall::Unsubscribe(uri.to_owned()), options).await
}

/// Returns the watch of a resource, and `true` if it is new.
fn get_or_start_watch(pool: &Arc<PoolShared>, uri: &str, options: &CallOptions) -> (watch::Receiver<WatchState>, bool) {
    let mut watched = pool.watched.lock();
    if let Some(watch) = watched.get(uri) {
        return (watch.state.clone(), false);
    }
    let (sender, state) = watch::channel(WatchState::Starting);
    let task = pool.lifetime.spawn(run_watch(pool.clone(), uri.to_owned(), options.clone(), sender));
    watched.insert(uri.to_owned(), Watch { state: state.clone(), task });
    (state, true)
}

/// Removes the watch of a resource, unless it was replaced by another.
fn remove_watch(pool: &PoolShared, uri: &str, state: &watch::Receiver<WatchState>) {
    let mut watched = pool.watched.lock();
    if watched.get(uri).is_some_and(|watch| watch.state.same_channel(state)) {
        watched.remove(uri);
    }
}

/// Removes a new watch when it has failed, or when the call that started it is dropped.
struct StartGuard<'a> {
    pool: &'a PoolShared,
    uri: &'a str,
    state: watch::Receiver<WatchState>,
}

impl Drop for StartGuard<'_> {
    fn drop(&mut self) {
        let started = matches!(*self.state.borrow(), WatchState::Subscribed(_) | WatchState::Moving);
        if !started {
            remove_watch(self.pool, self.uri, &self.state);
        }
    }
}

/// Subscribes one member to a resource, and another when that member is lost.
async fn run_watch(pool: Arc<PoolShared>, uri: String, options: CallOptions, state: watch::Sender<WatchState>) {
    let mut changes = pool.changes.subscribe();
    let mut member = match watch_on_any_member(&pool, &uri, options).await {
        Ok(member) => member,
        Err(error) => {
            state.send_replace(WatchState::Failed(error));
            return;
        }
    };
    state.send_replace(WatchState::Subscribed(Arc::downgrade(&member)));
    while until_lost(&pool, &member, &mut changes).await {
        state.send_replace(WatchState::Moving);
        let mut pause = Pause::default();
        let next = loop {
            match watch_on_any_member(&pool, &uri, CallOptions::default()).await {
                Ok(member) => break member,
                Err(error) => tracing::warn!(target: "turms::client", uri, %error, "the resource is not watched"),
            }
            if !pause.wait(&pool, &mut changes).await {
                return;
            }
        };
        state.send_replace(WatchState::Subscribed(Arc::downgrade(&next)));
        let old = std::mem::replace(&mut member, next);
        // Best effort: the old member may be closed or may not respond.
        let options = CallOptions::default();
        let _ = tokio::time::timeout(UNSUBSCRIBE_TIMEOUT, unsubscribe_at(&old, &uri, &options)).await;
    }
}

async fn watch_on_any_member(pool: &PoolShared, uri: &str, options: CallOptions) -> Result<Arc<PoolMember>, CallError> {
    let call = SessionCall::Subscribe(uri.to_owned()).request().with_options(options);
    call_any_member(pool, call).await.map(|(member, _)| member)
}

/// Opens a subscription with one member. It moves to another when that member is lost.
pub(super) async fn listen(
    pool: &Arc<PoolShared>,
    filter: SubscriptionFilter,
    options: &CallOptions,
) -> Result<Subscription, CallError> {
    let (member, stream) = listen_on_any_member(pool, &filter, options).await?;
    let acknowledged = stream.acknowledged().clone();
    let (sender, changes) = mpsc::channel(Subscription::CAPACITY);
    let moving = MovingSubscription { member, stream, filter, sender };
    let task = pool.lifetime.spawn(moving.run(pool.clone()));
    Ok(Subscription::new(changes, acknowledged, task))
}

async fn listen_on_any_member(
    pool: &PoolShared,
    filter: &SubscriptionFilter,
    options: &CallOptions,
) -> Result<(Arc<PoolMember>, Subscription), CallError> {
    let call = SessionCall::Listen(filter.clone()).request().with_options(options.clone());
    let (member, output) = call_any_member(pool, call).await?;
    Ok((member, output.into_subscription()?))
}

/// A subscription that moves between members.
struct MovingSubscription {
    member: Arc<PoolMember>,
    stream: Subscription,
    filter: SubscriptionFilter,
    sender: mpsc::Sender<Change>,
}

impl MovingSubscription {
    async fn run(mut self, pool: Arc<PoolShared>) {
        let mut changes = pool.changes.subscribe();
        let mut pause = Pause::default();
        loop {
            tokio::select! {
                change = self.stream.next() => if let Some(change) = change {
                    pause = Pause::default();
                    // If the buffer is full, the change is dropped, as documented at `Subscription`.
                    let _ = self.sender.try_send(change);
                    continue;
                },
                lost = until_lost(&pool, &self.member, &mut changes) => if !lost {
                    return;
                },
            }
            (self.member, self.stream) = loop {
                // Wait first: a server may end each new stream immediately.
                if !pause.wait(&pool, &mut changes).await {
                    return;
                }
                match listen_on_any_member(&pool, &self.filter, &CallOptions::default()).await {
                    Ok(found) => break found,
                    Err(error) if error.delivery() == Delivery::Answered => return,
                    Err(error) => tracing::debug!(target: "turms::client", %error, "no member has the subscription"),
                }
            };
        }
    }
}

/// Exponential backoff that ends early when the pool changes.
#[derive(Default)]
struct Pause {
    backoff: Backoff,
    attempt: u32,
}

impl Pause {
    /// Waits for the next delay. Returns `false` if the pool is closed.
    async fn wait(&mut self, pool: &PoolShared, changes: &mut watch::Receiver<()>) -> bool {
        self.attempt = self.attempt.saturating_add(1);
        let delay = self.backoff.delay(self.attempt).unwrap_or_default();
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            _ = changes.changed() => {}
        }
        !pool.is_closed()
    }
}

/// Waits until a member is lost. Returns `false` if the pool is closed.
async fn until_lost(pool: &PoolShared, member: &PoolMember, changes: &mut watch::Receiver<()>) -> bool {
    loop {
        changes.borrow_and_update();
        if pool.is_closed() {
            return false;
        }
        if pool.has_lost(member) {
            return true;
        }
        let _ = changes.changed().await;
    }
}

/// Sends a call to one member after the other until one accepts it. Only for idempotent calls.
async fn call_any_member(pool: &PoolShared, call: CallRequest) -> Result<(Arc<PoolMember>, CallOutput), CallError> {
    let mut attempts = Attempts::default();
    loop {
        let Some(guard) = attempts.next(pool, None) else { return Err(attempts.error(call.target())) };
        match guard.call(&call).await {
            Ok(output) => return Ok((guard.member().clone(), output)),
            Err(error) => attempts.failed(error, || true)?,
        }
    }
}
