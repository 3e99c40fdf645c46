//! What lasts longer than a call: resources that are watched, and listening. It is with one member, and moves when that goes.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use turms_proto::method::Method as _;
use turms_proto::types::{Listen, Subscribe, SubscriptionFilter};

use super::member::Member;
use super::shared::{Shared, Tour};
use crate::call::error::{CallError, Delivery};
use crate::client::Client;
use crate::listen::{Change, Subscription, Task};
use crate::options::CallOptions;
use crate::supervision::Backoff;

/// How long to try to tell a member that it need not watch any more.
const FAREWELL: Duration = Duration::from_secs(5);

/// A resource that is watched for as long as this is there. Its task alone decides where.
pub(super) struct Watch {
    standing: watch::Receiver<Standing>,
    task: Task,
}

/// Where a resource is watched.
#[derive(Clone)]
enum Standing {
    Beginning,
    At(Weak<Member>),
    /// The member has gone, and no other watches it yet.
    Nowhere,
    Failed(CallError),
}

pub(super) async fn subscribe(pool: &Shared, uri: String, options: CallOptions) -> Result<(), CallError> {
    loop {
        let (mut standing, began) = watch_of(pool, &uri, &options);
        let _given_up = began.then(|| GivenUp { pool, uri: &uri, standing: standing.clone() });
        let settled = standing.wait_for(|standing| !matches!(standing, Standing::Beginning)).await.map(|it| it.clone());
        match settled {
            Ok(Standing::Failed(error)) => return Err(error),
            Ok(_) => return Ok(()),
            // Whoever began it has given up: begin anew.
            Err(_) => forget(pool, &uri, &standing),
        }
    }
}

pub(super) async fn unsubscribe(pool: &Shared, uri: String, options: CallOptions) -> Result<(), CallError> {
    let watch = pool.watched.lock().remove(&uri);
    let Some(Watch { standing, task }) = watch else { return Ok(()) };
    // It may be moving, and must not begin to watch elsewhere when it has been looked for.
    task.end().await;
    let at = match &*standing.borrow() {
        Standing::At(member) => member.upgrade(),
        Standing::Beginning | Standing::Nowhere | Standing::Failed(_) => None,
    };
    match at {
        Some(member) => member.client.engine().unsubscribe(uri, options).await,
        None => Ok(()),
    }
}

/// The watch of a resource, and whether it is new.
fn watch_of(pool: &Shared, uri: &str, options: &CallOptions) -> (watch::Receiver<Standing>, bool) {
    let mut watched = pool.watched.lock();
    if let Some(watch) = watched.get(uri) {
        return (watch.standing.clone(), false);
    }
    let (sender, standing) = watch::channel(Standing::Beginning);
    let watching = keep_watching(pool.me.clone(), uri.to_owned(), options.clone(), sender, pool.changes.subscribe());
    let watch = Watch { standing: standing.clone(), task: Task(pool.runtime.spawn(watching)) };
    watched.insert(uri.to_owned(), watch);
    (standing, true)
}

/// Takes a watch out, if it is this one.
fn forget(pool: &Shared, uri: &str, standing: &watch::Receiver<Standing>) {
    let mut watched = pool.watched.lock();
    if watched.get(uri).is_some_and(|watch| watch.standing.same_channel(standing)) {
        watched.remove(uri);
    }
}

/// Takes out what was begun when it has failed, or when whoever began it does not wait for it.
struct GivenUp<'a> {
    pool: &'a Shared,
    uri: &'a str,
    standing: watch::Receiver<Standing>,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        let stands = matches!(*self.standing.borrow(), Standing::At(_) | Standing::Nowhere);
        if !stands {
            forget(self.pool, self.uri, &self.standing);
        }
    }
}

async fn keep_watching(
    pool: Weak<Shared>,
    uri: String,
    options: CallOptions,
    standing: watch::Sender<Standing>,
    mut changes: watch::Receiver<()>,
) {
    let mut member = match watch_somewhere(&pool, &uri, options).await {
        Ok(member) => member,
        Err(error) => {
            standing.send_replace(Standing::Failed(error));
            return;
        }
    };
    loop {
        standing.send_replace(Standing::At(Arc::downgrade(&member)));
        if !is_lost(&pool, &member, &mut changes).await {
            return;
        }
        standing.send_replace(Standing::Nowhere);
        let mut pause = Pause::default();
        let next = loop {
            match watch_somewhere(&pool, &uri, CallOptions::default()).await {
                Ok(member) => break member,
                Err(error) => tracing::warn!(target: "turms::client", uri, %error, "nobody watches the resource now"),
            }
            if !pause.wait(&pool, &mut changes).await {
                return;
            }
        };
        standing.send_replace(Standing::At(Arc::downgrade(&next)));
        let old = std::mem::replace(&mut member, next);
        let farewell = old.client.engine().unsubscribe(uri.clone(), CallOptions::default());
        // One that is gone, or hangs, will not mind.
        let _ = tokio::time::timeout(FAREWELL, farewell).await;
    }
}

async fn watch_somewhere(pool: &Weak<Shared>, uri: &str, options: CallOptions) -> Result<Arc<Member>, CallError> {
    let subject = format!("{} {uri:?}", Subscribe::NAME);
    let (member, ()) = somewhere(pool, &subject, |client| {
        let (uri, options) = (uri.to_owned(), options.clone());
        async move { client.engine().subscribe(uri, options).await }
    })
    .await?;
    Ok(member)
}

/// Listens on its own account, to one member after the other.
pub(super) async fn listen(
    pool: &Shared,
    filter: SubscriptionFilter,
    options: CallOptions,
) -> Result<Subscription, CallError> {
    let (member, heard) = listen_somewhere(&pool.me, &filter, &options).await?;
    let acknowledged = heard.acknowledged().clone();
    let (sender, changes) = mpsc::channel(Subscription::CAPACITY);
    let listening = Listening { member, heard, filter, sender };
    let task = pool.runtime.spawn(listening.keep_on(pool.me.clone(), pool.changes.subscribe()));
    Ok(Subscription::new(changes, acknowledged, task))
}

async fn listen_somewhere(
    pool: &Weak<Shared>,
    filter: &SubscriptionFilter,
    options: &CallOptions,
) -> Result<(Arc<Member>, Subscription), CallError> {
    somewhere(pool, Listen::NAME, |client| {
        let (filter, options) = (filter.clone(), options.clone());
        async move { client.engine().listen(filter, options).await }
    })
    .await
}

struct Listening {
    member: Arc<Member>,
    heard: Subscription,
    filter: SubscriptionFilter,
    sender: mpsc::Sender<Change>,
}

impl Listening {
    async fn keep_on(mut self, pool: Weak<Shared>, mut changes: watch::Receiver<()>) {
        let mut pause = Pause::default();
        loop {
            tokio::select! {
                change = self.heard.next() => if let Some(change) = change {
                    pause = Pause::default();
                    // Whoever does not read in time has to look anew anyway.
                    let _ = self.sender.try_send(change);
                    continue;
                },
                lost = is_lost(&pool, &self.member, &mut changes) => if !lost {
                    return;
                },
            }
            (self.member, self.heard) = loop {
                // A server may end every listening at once; that must not keep us busy.
                if !pause.wait(&pool, &mut changes).await {
                    return;
                }
                match listen_somewhere(&pool, &self.filter, &CallOptions::default()).await {
                    Ok(found) => break found,
                    Err(error) if error.delivery() == Delivery::Answered => return,
                    Err(error) => tracing::debug!(target: "turms::client", %error, "nobody listens now"),
                }
            };
        }
    }
}

/// Longer each time, but over as soon as something has changed in the pool.
#[derive(Default)]
struct Pause {
    backoff: Backoff,
    attempt: u32,
}

impl Pause {
    /// False if the pool is gone.
    async fn wait(&mut self, pool: &Weak<Shared>, changes: &mut watch::Receiver<()>) -> bool {
        self.attempt = self.attempt.saturating_add(1);
        let delay = self.backoff.delay(self.attempt).unwrap_or_default();
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            _ = changes.changed() => {}
        }
        is_open(pool)
    }
}

fn is_open(pool: &Weak<Shared>) -> bool {
    pool.upgrade().is_some_and(|pool| !pool.is_closed())
}

/// Waits until a member is no good any more; false if that is because the pool is gone.
async fn is_lost(pool: &Weak<Shared>, member: &Member, changes: &mut watch::Receiver<()>) -> bool {
    loop {
        changes.borrow_and_update();
        if !is_open(pool) {
            return false;
        }
        if pool.upgrade().is_some_and(|pool| pool.has_lost(member)) {
            return true;
        }
        // If the pool is gone, the next look says so.
        let _ = changes.changed().await;
    }
}

/// Asks one member after the other, until one does it. Does not keep the pool alive meanwhile.
async fn somewhere<T, F>(
    pool: &Weak<Shared>,
    subject: &str,
    mut ask: impl FnMut(Client) -> F,
) -> Result<(Arc<Member>, T), CallError>
where
    F: Future<Output = Result<T, CallError>>,
{
    let mut tour = Tour::default();
    loop {
        let Some(turn) = pool.upgrade().and_then(|pool| tour.next(&pool, None)) else { return Err(tour.end(subject)) };
        turn.count(1);
        let outcome = ask(turn.member().client.clone()).await;
        turn.note(&outcome);
        match outcome {
            Ok(done) => return Ok((turn.member().clone(), done)),
            // To watch twice does no harm.
            Err(error) => tour.failed(error, || true)?,
        }
    }
}
