//! Listening to changes: one lasting request with a filter since 2026-07-28, notifications that come unasked before.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytestring::ByteString;
use futures_core::Stream;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use turms_core::{Outgoing, Payload, Update};
use turms_proto::method::{Method, Notification as NotificationMethod};
use turms_proto::session::RequestOptions;
use turms_proto::types::{
    Acknowledged, Listen, ListenParams, PromptListChanged, ResourceListChanged, ResourceUpdated, ServerCapabilities,
    SubscriptionFilter, TaskChanged, TaskStatus, ToolListChanged,
};
use turms_proto::{Ability, Notification};

use crate::call::error::{CallError, CallErrorKind, ClosedCause, DecodeCause, Delivery, TimeoutCause};
use crate::ear::{Ear, task_of};
use crate::event::{Event, Events};
use crate::hearing::Deaf;
use crate::job::Engine as _;
use crate::options::CallOptions;
use crate::single::{LASTING, Live, Single, declaring_tasks};
use crate::supervision::Backoff;

/// Something that has changed at the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources, or of their templates.
    Resources,
    /// A resource.
    Resource {
        /// Which; may lie within what is watched.
        uri: String,
    },
    /// A task. All that the server tells of it comes as an [event](Event::TaskChanged).
    Task {
        /// Which.
        id: String,
        /// How it stands now.
        status: TaskStatus,
    },
}

/// Changes, as they happen. Dropping it tells the server that nobody listens any more.
///
/// A client that is supervised listens again after a loss. What changed in between is not told, so look anew then: the events
/// of the client say [`Lost`](crate::ConnectionEvent::Lost) and, when it listens again,
/// [`Connected`](crate::ConnectionEvent::Connected).
pub struct Subscription {
    changes: mpsc::Receiver<Change>,
    acknowledged: SubscriptionFilter,
    task: Task,
}

/// A task that ends with its owner.
#[derive(Debug)]
pub(crate) struct Task(pub(crate) JoinHandle<()>);

impl Task {
    /// Ends it, and waits until it has ended.
    pub(crate) async fn end(mut self) {
        self.0.abort();
        let _ = (&mut self.0).await;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Subscription {
    /// How many changes may be left unread; more are left out.
    pub(crate) const CAPACITY: usize = 1024;

    /// Changes that a task gathers.
    pub(crate) fn new(changes: mpsc::Receiver<Change>, acknowledged: SubscriptionFilter, task: JoinHandle<()>) -> Self {
        Self { changes, acknowledged, task: Task(task) }
    }

    /// What the server said it will tell of what it was asked to.
    #[must_use]
    pub fn acknowledged(&self) -> &SubscriptionFilter {
        &self.acknowledged
    }

    /// The next change; `None` when there will be no more.
    pub async fn next(&mut self) -> Option<Change> {
        self.changes.recv().await
    }

    /// Whether the server can still tell something.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.task.0.is_finished()
    }
}

impl Stream for Subscription {
    type Item = Change;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Change>> {
        self.changes.poll_recv(task)
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("acknowledged", &self.acknowledged).finish_non_exhaustive()
    }
}

/// Listens on its own account.
pub(crate) async fn listen(single: &Single, filter: SubscriptionFilter) -> Result<Subscription, CallError> {
    let patience = single.patience(&CallOptions::default());
    let live = single.live(Listen::NAME, patience).await?;
    let (sender, changes) = mpsc::channel(Subscription::CAPACITY);
    if !live.version().has(Ability::ListenStreams) {
        return listen_to_older(single, &live, filter, sender, changes).await;
    }
    let ear = single.ear.clone();
    let tell = move |notification: Notification| {
        ear.forget(&notification);
        if &*notification.method == TaskChanged::NAME {
            ear.hear(notification.clone());
        }
        if let Some(change) = change_of(&notification) {
            // Whoever does not read in time has to look anew anyway.
            let _ = sender.try_send(change);
        }
    };
    let (task, acknowledged) = start(single, filter, Arc::new(tell), patience).await?;
    Ok(Subscription { changes, acknowledged, task })
}

/// Older servers tell of lists unasked, and of resources after a request for each.
async fn listen_to_older(
    single: &Single,
    live: &Live,
    filter: SubscriptionFilter,
    sender: mpsc::Sender<Change>,
    changes: mpsc::Receiver<Change>,
) -> Result<Subscription, CallError> {
    let events = single.events();
    let mut watched = Watched { single: single.weak(), uris: Vec::new() };
    for uri in filter.resource_subscriptions.iter().flatten() {
        single.subscribe(uri.clone(), CallOptions::default()).await?;
        watched.uris.push(uri.clone());
    }
    let acknowledged = match live.server() {
        Some(server) => honoured(&filter, &server.capabilities),
        None => filter.clone(),
    };
    let task = Task(tokio::spawn(forward(events, filter, sender, watched)));
    Ok(Subscription { changes, acknowledged, task })
}

async fn forward(mut events: Events, filter: SubscriptionFilter, sender: mpsc::Sender<Change>, watched: Watched) {
    let within = |uri: &str, wanted: &String| is_within(uri, wanted);
    while let Some(event) = events.next().await {
        let change = match event {
            Event::ToolsChanged if filter.tools_list_changed == Some(true) => Change::Tools,
            Event::PromptsChanged if filter.prompts_list_changed == Some(true) => Change::Prompts,
            Event::ResourcesChanged if filter.resources_list_changed == Some(true) => Change::Resources,
            Event::ResourceUpdated { uri } if watched.uris.iter().any(|wanted| within(&uri, wanted)) => {
                Change::Resource { uri }
            }
            Event::TaskChanged(task) if filter.task_ids.iter().flatten().any(|wanted| *wanted == task.task_id) => {
                Change::Task { id: task.task_id.clone(), status: task.status }
            }
            _ => continue,
        };
        let _ = sender.try_send(change);
    }
}

/// Whether what has changed is a resource or a part of it; `memo://10` is no part of `memo://1`.
pub(crate) fn is_within(uri: &str, whole: &str) -> bool {
    let rest = uri.strip_prefix(whole);
    rest.is_some_and(|rest| rest.is_empty() || whole.ends_with('/') || rest.starts_with(['/', '#', '?']))
}

/// Resources that are watched until this is dropped.
struct Watched {
    single: Weak<Single>,
    uris: Vec<String>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        let uris = std::mem::take(&mut self.uris);
        let single = self.single.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current()
            && !uris.is_empty()
        {
            runtime.spawn(async move {
                for uri in uris {
                    let Some(single) = single.upgrade() else { return };
                    // A connection that is gone watches nothing.
                    let _ = single.unsubscribe(uri, CallOptions::default()).await;
                }
            });
        }
    }
}

/// What the event stream of a client needs to hear: one listen request for all of it.
#[derive(Debug, Default)]
pub(crate) struct Managed {
    /// Whether somebody wants to hear of lists.
    lists: AtomicBool,
    /// Which resources are watched, and by how many.
    watched: Mutex<BTreeMap<String, usize>>,
    /// Held while one more or one less is told to the server, so that what is counted and what it knows stay the same.
    pub(crate) turns: tokio::sync::Mutex<()>,
    /// Held while the request is made anew, so that two changes of what is wanted come one after the other.
    current: tokio::sync::Mutex<Option<Task>>,
}

impl Managed {
    /// Somebody takes the event stream: a server of 2026-07-28 tells of its lists only when asked to.
    pub(crate) fn hear_lists(single: Arc<Single>) {
        let new = !single.managed.lists.swap(true, Ordering::Relaxed);
        let listens = single.live_now().is_some_and(|live| live.version().has(Ability::ListenStreams));
        if new && listens {
            tokio::spawn(async move { single.managed.try_renew(&single).await });
        } else if !new {
            // It may have failed before.
            Self::resume(single);
        }
    }

    /// There is another connection. Who listens already goes on by itself; who could not so far can now.
    pub(crate) fn resume(single: Arc<Single>) {
        let wanted = single.managed.filter(None) != SubscriptionFilter::new();
        let listens = single.live_now().is_some_and(|live| live.version().has(Ability::ListenStreams));
        if wanted && listens {
            tokio::spawn(async move {
                let current = single.managed.current.lock().await;
                let goes_on = current.as_ref().is_some_and(|task| !task.0.is_finished());
                drop(current);
                if !goes_on {
                    single.managed.try_renew(&single).await;
                }
            });
        }
    }

    /// The resources that are watched.
    pub(crate) fn watched(&self) -> Vec<String> {
        self.watched.lock().keys().cloned().collect()
    }

    /// Counts one more who watches a resource, until what comes back is dropped without being kept.
    pub(crate) fn watch<'a>(&'a self, uri: &'a str) -> Watching<'a> {
        let mut watched = self.watched.lock();
        let count = watched.entry(uri.to_owned()).or_default();
        *count += 1;
        Watching { managed: self, uri, first: *count == 1, kept: false }
    }

    /// Counts one less; whether it was the last.
    pub(crate) fn unwatch(&self, uri: &str) -> bool {
        let mut watched = self.watched.lock();
        match watched.get_mut(uri) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            Some(_) => watched.remove(uri).is_some(),
            None => false,
        }
    }

    async fn try_renew(&self, single: &Single) {
        if let Err(error) = self.renew(single, single.patience(&CallOptions::default())).await {
            tracing::debug!(target: "turms::client", %error, "the server does not tell of changes");
        }
    }

    /// Listens to what is wanted now, and only then stops listening to what was wanted before.
    /// What comes back are the resources of which the server will tell.
    pub(crate) async fn renew(&self, single: &Single, patience: Option<Duration>) -> Result<Vec<String>, CallError> {
        let mut current = self.current.lock().await;
        let live = single.live(Listen::NAME, patience).await?;
        let filter = self.filter(live.server().map(|server| &server.capabilities));
        if is_empty(&filter) {
            *current = None;
            return Ok(Vec::new());
        }
        let ear = single.ear.clone();
        let (task, acknowledged) = start(single, filter, Arc::new(move |told| ear.hear(told)), patience).await?;
        *current = Some(task);
        Ok(acknowledged.resource_subscriptions.unwrap_or_default())
    }

    fn filter(&self, capabilities: Option<&ServerCapabilities>) -> SubscriptionFilter {
        let mut filter = SubscriptionFilter::new();
        if self.lists.load(Ordering::Relaxed) {
            let all = SubscriptionFilter::new()
                .tools_list_changed(true)
                .prompts_list_changed(true)
                .resources_list_changed(true);
            // A server that tells of one list may come to have another: the first of a kind can be added at any time. A server that
            // tells of none does not know the method.
            let tells = capabilities.is_none_or(|capabilities| !is_empty(&honoured(&all, capabilities)));
            filter = if tells { all } else { filter };
        }
        filter.resource_subscriptions = Some(self.watched()).filter(|watched| !watched.is_empty());
        filter
    }
}

/// Somebody who begins to watch a resource. Dropped before it is kept, it was given up.
pub(crate) struct Watching<'a> {
    managed: &'a Managed,
    uri: &'a str,
    /// Whether nobody did before.
    pub(crate) first: bool,
    kept: bool,
}

impl Watching<'_> {
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.managed.unwatch(self.uri);
        }
    }
}

/// What of a filter a server can honour by what it declares.
fn honoured(wanted: &SubscriptionFilter, server: &ServerCapabilities) -> SubscriptionFilter {
    let mut filter = wanted.clone();
    let tells = |declared: Option<bool>| declared == Some(true);
    let tools = server.tools.as_ref().is_some_and(|tools| tells(tools.list_changed));
    let prompts = server.prompts.as_ref().is_some_and(|prompts| tells(prompts.list_changed));
    let resources = server.resources.as_ref().is_some_and(|resources| tells(resources.list_changed));
    let watches = server.resources.as_ref().is_some_and(|resources| tells(resources.subscribe));
    filter.tools_list_changed.take_if(|_| !tools);
    filter.prompts_list_changed.take_if(|_| !prompts);
    filter.resources_list_changed.take_if(|_| !resources);
    filter.resource_subscriptions.take_if(|_| !watches);
    filter.task_ids.take_if(|_| server.tasks.is_none());
    filter
}

fn is_empty(filter: &SubscriptionFilter) -> bool {
    *filter == SubscriptionFilter::new()
}

type Tell = Arc<dyn Fn(Notification) + Send + Sync>;

/// Listens in a task of its own, again after every loss; waits until the server has said what it will tell, but not for
/// ever: whoever waits keeps the client alive.
async fn start(
    single: &Single,
    filter: SubscriptionFilter,
    tell: Tell,
    patience: Option<Duration>,
) -> Result<(Task, SubscriptionFilter), CallError> {
    let (acknowledge, acknowledged) = oneshot::channel();
    let task = Task(tokio::spawn(keep_listening(single.weak(), filter, tell, acknowledge)));
    let acknowledged = match patience {
        Some(patience) => tokio::time::timeout(patience, acknowledged).await.map_err(|_| {
            CallError::new(Listen::NAME, CallErrorKind::Timeout(TimeoutCause::Response(patience)), Delivery::Unknown)
        })?,
        None => acknowledged.await,
    };
    match acknowledged {
        Ok(acknowledged) => acknowledged.map(|filter| (task, filter)),
        Err(_) => Err(CallError::not_sent(Listen::NAME, CallErrorKind::Closed(ClosedCause::NotConnected(None)))),
    }
}

type Acknowledge = oneshot::Sender<Result<SubscriptionFilter, CallError>>;

/// What is to be done when the server says that it will tell.
#[derive(Default)]
struct Waiting {
    acknowledge: Option<Acknowledge>,
    /// Whoever has to forget what may have changed since somebody last listened.
    stale: Option<Arc<Ear>>,
    deaf: Option<Deaf>,
    acknowledged: bool,
}

impl Waiting {
    fn end(self, filter: SubscriptionFilter) {
        if let Some(ear) = self.stale {
            ear.forget_all();
        }
        if let Some(acknowledge) = self.acknowledge {
            let _ = acknowledge.send(Ok(filter));
        }
        self.deaf.into_iter().for_each(Deaf::end);
    }
}

async fn keep_listening(single: Weak<Single>, filter: SubscriptionFilter, tell: Tell, acknowledge: Acknowledge) {
    let mut waiting = Waiting { acknowledge: Some(acknowledge), ..Waiting::default() };
    let mut attempt = 0;
    loop {
        // If there is none, dropping the sender says so.
        let Some(live) = Single::wait_live(&single).await else { return };
        let shared = Arc::new(Mutex::new(waiting));
        let since = Instant::now();
        let ended = listen_once(&live, &filter, &tell, shared.clone()).await;
        let Waiting { acknowledge, deaf, acknowledged, .. } = std::mem::take(&mut *shared.lock());
        if let Some(acknowledge) = acknowledge {
            let unanswered = || {
                CallErrorKind::Decode(DecodeCause::Invalid(turms_proto::DecodeError::custom(
                    "it was never acknowledged",
                )))
            };
            let error = ended.err().unwrap_or_else(|| CallError::answered(Listen::NAME, unanswered()));
            return refuse(Some(acknowledge), error);
        }
        attempt = if since.elapsed() < LASTING { attempt + 1 } else { 1 };
        let Some(alive) = single.upgrade().filter(|single| single.is_supervised()) else { return };
        // That there is no connection any more is for whoever watches that to say.
        let cut = matches!(&ended, Err(error) if error.is_disconnected() && !error.is_unreachable());
        let ended_well = ended.is_ok();
        let deaf = deaf.filter(|deaf| deaf.is_about(&live));
        let deaf = match ended {
            Err(error) if !acknowledged && !cut => deaf.or_else(|| Some(Deaf::new(&alive, &live, &error))),
            _ => deaf,
        };
        waiting = Waiting { stale: Some(alive.ear.clone()), deaf, ..Waiting::default() };
        let answered = alive.answered.clone();
        drop((alive, live));
        // A stream that broke is opened again at once; a server that ended it well may have reasons to.
        pause(if ended_well { attempt + 1 } else { attempt }, &answered).await;
    }
}

/// Waits before listening is tried again, but not once the server has answered something else. The longest is not long,
/// because no changes are heard meanwhile.
async fn pause(attempt: u32, answered: &Notify) {
    const SHORTEST: Duration = Duration::from_millis(100);
    let backoff = Backoff::new().first(SHORTEST).longest(Duration::from_secs(3));
    let delay = backoff.delay(attempt).unwrap_or_default();
    let back = answered.notified();
    // A server that answers but does not let anybody listen is not asked to with every call.
    tokio::time::sleep(delay.min(SHORTEST)).await;
    let _ = tokio::time::timeout(delay.saturating_sub(SHORTEST), back).await;
}

fn refuse(acknowledge: Option<Acknowledge>, error: CallError) {
    if let Some(acknowledge) = acknowledge {
        let _ = acknowledge.send(Err(error));
    }
}

async fn listen_once(
    live: &Live,
    filter: &SubscriptionFilter,
    tell: &Tell,
    waiting: Arc<Mutex<Waiting>>,
) -> Result<(), CallError> {
    let (tell, wanted) = (tell.clone(), filter.clone());
    let (refuse, mut refused) = mpsc::channel(1);
    let updates = Arc::new(move |update: Update| {
        let Update::Told(notification) = update else { return };
        if &*notification.method != Acknowledged::NAME {
            if is_wanted(&wanted, &notification) {
                tell(notification);
            } else {
                let method = &*notification.method;
                tracing::debug!(target: "turms::client", method, "a notification outside the filter is dropped");
            }
            return;
        }
        if let Ok(params) = notification.params::<Acknowledged>() {
            if let Some(excess) = excess(&params.notifications, &wanted) {
                let _ = refuse.try_send(excess);
                return;
            }
            // What follows is not done under the lock.
            let waiting = std::mem::replace(&mut *waiting.lock(), Waiting { acknowledged: true, ..Waiting::default() });
            waiting.end(params.notifications);
        }
    });
    let params = Payload::new(ListenParams::new(filter.clone()));
    let meta = match filter.task_ids {
        Some(_) => live.meta().map(declaring_tasks),
        None => live.meta(),
    };
    let request = Outgoing::new(ByteString::from_static(Listen::NAME), params)
        .meta(meta)
        .options(RequestOptions::default().for_ever())
        .updates(updates as turms_core::Updates);
    tokio::select! {
        biased;
        Some(excess) = refused.recv() => {
            let problem = format!("it acknowledges {excess}, which the filter does not ask for");
            Err(CallError::answered(Listen::NAME, CallErrorKind::Decode(DecodeCause::Invalid(turms_proto::DecodeError::custom(problem)))))
        }
        ended = live.channel().request(request) => {
            ended.map(drop).map_err(|error| CallError::of_peer(Listen::NAME, error))
        }
    }
}

/// Returns `true` if the filter asks for this notification. Those that no filter is about are not judged.
fn is_wanted(filter: &SubscriptionFilter, notification: &Notification) -> bool {
    match &*notification.method {
        ToolListChanged::NAME => filter.tools_list_changed == Some(true),
        PromptListChanged::NAME => filter.prompts_list_changed == Some(true),
        ResourceListChanged::NAME => filter.resources_list_changed == Some(true),
        ResourceUpdated::NAME => notification.params::<ResourceUpdated>().is_ok_and(|told| {
            filter.resource_subscriptions.iter().flatten().any(|wanted| is_within(&told.uri, wanted))
        }),
        TaskChanged::NAME => task_of(notification)
            .is_some_and(|task| filter.task_ids.iter().flatten().any(|wanted| *wanted == task.task_id)),
        _ => true,
    }
}

/// A part of an acknowledgement that the filter does not ask for.
fn excess(acknowledged: &SubscriptionFilter, filter: &SubscriptionFilter) -> Option<String> {
    let lists = [
        ("toolsListChanged", acknowledged.tools_list_changed, filter.tools_list_changed),
        ("promptsListChanged", acknowledged.prompts_list_changed, filter.prompts_list_changed),
        ("resourcesListChanged", acknowledged.resources_list_changed, filter.resources_list_changed),
    ];
    if let Some((name, ..)) = lists.iter().find(|(_, told, wanted)| *told == Some(true) && *wanted != Some(true)) {
        return Some((*name).to_owned());
    }
    let asked = |uri: &str| filter.resource_subscriptions.iter().flatten().any(|wanted| is_within(uri, wanted));
    if let Some(uri) = acknowledged.resource_subscriptions.iter().flatten().find(|uri| !asked(uri)) {
        return Some(format!("the resource {uri:?}"));
    }
    let tasks = filter.task_ids.as_deref().unwrap_or_default();
    let task = acknowledged.task_ids.iter().flatten().find(|id| !tasks.contains(id));
    task.map(|id| format!("the task {id:?}"))
}

fn change_of(notification: &Notification) -> Option<Change> {
    Some(match &*notification.method {
        ToolListChanged::NAME => Change::Tools,
        PromptListChanged::NAME => Change::Prompts,
        ResourceListChanged::NAME => Change::Resources,
        ResourceUpdated::NAME => Change::Resource { uri: notification.params::<ResourceUpdated>().ok()?.uri },
        TaskChanged::NAME => {
            let task = task_of(notification)?;
            Change::Task { id: task.task_id, status: task.status }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nobody_is_deaf_for_long_and_not_at_all_once_the_server_has_answered() {
        let (answered, begun) = (Notify::new(), Instant::now());
        pause(1, &answered).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        pause(20, &answered).await;
        assert!((1500..=3005).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
        let begun = Instant::now();
        tokio::join!(pause(20, &answered), async {
            tokio::task::yield_now().await;
            answered.notify_waiters();
        });
        assert!(begun.elapsed() <= Duration::from_millis(101), "{:?}", begun.elapsed());
    }
}
