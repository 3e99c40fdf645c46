//! Subscriptions to changes. Since 2026-07-28, a `subscriptions/listen` request with a filter; before, notifications
//! that the server sends on its own.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use turms_core::{CallClock, CallObserver, OutgoingRequest, Payload};
use turms_proto::method::{Method, NotificationMethod};
use turms_proto::session::RequestOptions;
use turms_proto::types::{
    Listen, ListenParams, LoggingLevel, PromptListChangedNotification, ResourceListChangedNotification,
    ResourceUpdatedNotification, ServerCapabilities, SubscriptionFilter, SubscriptionsAcknowledgedNotification,
    TaskNotification, TaskStatus, ToolListChangedNotification,
};
use turms_proto::{Ability, DecodeError, MethodName, Notification};

use crate::call::error::{CallError, CallErrorKind, DecodeCause};
use crate::call::options::CallOptions;
use crate::connection::stream_health::BrokenStream;
use crate::connection::{Connected, MIN_UPTIME, ServerShared, declare_tasks};
use crate::event::{Event, Events};
use crate::incoming::{IncomingHandler, task_of};
use crate::reconnect::Backoff;

/// A change reported by a [`Subscription`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Change {
    /// The list of tools has changed.
    ToolList,
    /// The list of prompts has changed.
    PromptList,
    /// The list of resources or of resource templates has changed.
    ResourceList,
    /// A resource has changed.
    Resource {
        /// The URI of the resource, or of a sub-resource.
        uri: String,
    },
    /// The status of a task has changed. The whole task is in [`Event::TaskUpdated`].
    Task {
        /// The id of the task.
        id: String,
        /// The status of the task.
        status: TaskStatus,
    },
}

impl Change {
    /// Returns the change of a list that an event reports, if the filter includes it.
    pub(crate) fn of_list(event: &Event, filter: &SubscriptionFilter) -> Option<Self> {
        let (wanted, change) = match event {
            Event::ToolsChanged => (filter.tools_list_changed, Self::ToolList),
            Event::PromptsChanged => (filter.prompts_list_changed, Self::PromptList),
            Event::ResourcesChanged => (filter.resources_list_changed, Self::ResourceList),
            _ => return None,
        };
        (wanted == Some(true)).then_some(change)
    }
}

/// A stream of changes, returned by [`Client::subscribe`](crate::Client::subscribe). Dropping it ends the subscription.
///
/// The client subscribes again after a reconnect. Changes in between are missed: read the lists and resources again
/// after the events [`Lost`](crate::ConnectionEvent::Lost) and [`Connected`](crate::ConnectionEvent::Connected). The
/// buffer holds 1024 unread changes; when it is full, new changes are dropped.
pub struct Subscription {
    changes: mpsc::Receiver<Change>,
    acknowledged: SubscriptionFilter,
    task: AbortOnDropHandle<()>,
}

impl Subscription {
    /// Maximum number of unread changes. When the buffer is full, new changes are dropped.
    pub(crate) const CAPACITY: usize = 1024;

    /// Creates a subscription from the changes that `task` sends.
    pub(crate) fn new(
        changes: mpsc::Receiver<Change>,
        acknowledged: SubscriptionFilter,
        task: AbortOnDropHandle<()>,
    ) -> Self {
        Self { changes, acknowledged, task }
    }

    /// Returns the part of the filter that the server acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> &SubscriptionFilter {
        &self.acknowledged
    }

    /// Returns the next change; `None` after the subscription has ended.
    pub async fn next(&mut self) -> Option<Change> {
        self.changes.recv().await
    }

    /// Returns `true` if `wanted` asks only for resources, and the server acknowledged none of them.
    pub(crate) fn offers_none_of(&self, wanted: &SubscriptionFilter) -> bool {
        let mut others = wanted.clone();
        let resources = others.resource_subscriptions.take();
        let only_resources = resources.is_some_and(|resources| !resources.is_empty()) && is_empty(&others);
        only_resources && self.acknowledged.resource_subscriptions.as_ref().is_none_or(Vec::is_empty)
    }

    /// Returns `true` if the server can still send changes.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.task.is_finished()
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

/// Opens a subscription at a server of 2026-07-28 with `subscriptions/listen`.
pub(crate) async fn listen(shared: &Arc<ServerShared>, filter: SubscriptionFilter) -> Result<Subscription, CallError> {
    let (sender, changes) = mpsc::channel(Subscription::CAPACITY);
    let incoming = shared.incoming.clone();
    let forward = move |notification: Notification, is_first: bool| {
        match &*notification.method {
            // Changed lists become events only on request: see `request_list_changes`.
            ResourceUpdatedNotification::NAME | TaskNotification::NAME if is_first => {
                incoming.on_notification(notification.clone())
            }
            _ => incoming.forget(&notification),
        }
        if let Some(change) = change_of(&notification) {
            // If the buffer is full, the change is dropped, as documented at `Subscription`.
            let _ = sender.try_send(change);
        }
    };
    let timeout = shared.wait_time(&CallOptions::default());
    let (task, acknowledged) = start(shared, filter, Arc::new(forward), timeout, false).await?;
    Ok(Subscription::new(changes, acknowledged, task))
}

/// Makes a subscription of the filtered events of an older server, which sends changes of lists without a request.
/// `watched` are the subscribed resources; dropping `guard` unsubscribes.
pub(crate) fn filter_events(
    events: Events,
    filter: SubscriptionFilter,
    watched: Vec<String>,
    server: Option<&ServerCapabilities>,
    guard: impl Send + 'static,
) -> Subscription {
    let (sender, changes) = mpsc::channel(Subscription::CAPACITY);
    let mut acknowledged = server.map_or_else(|| filter.clone(), |server| supported(&filter, server));
    // The server has accepted these subscriptions, so its declared capabilities do not matter.
    acknowledged.resource_subscriptions = filter.resource_subscriptions.clone();
    let task = tokio::spawn(async move {
        let _guard = guard;
        forward(events, filter, sender, watched).await;
    });
    Subscription::new(changes, acknowledged, AbortOnDropHandle::new(task))
}

async fn forward(mut events: Events, filter: SubscriptionFilter, sender: mpsc::Sender<Change>, watched: Vec<String>) {
    while let Some(event) = events.next().await {
        let change = match event {
            Event::ResourceUpdated { uri } if watched.iter().any(|wanted| is_within(&uri, wanted)) => {
                Change::Resource { uri }
            }
            Event::TaskUpdated(task) if filter.task_ids.iter().flatten().any(|wanted| *wanted == task.task_id) => {
                Change::Task { id: task.task_id.clone(), status: task.status }
            }
            event => match Change::of_list(&event, &filter) {
                Some(change) => change,
                None => continue,
            },
        };
        let _ = sender.try_send(change);
    }
}

/// Returns `true` if `uri` is `resource` or a sub-resource of it. `memo://1/a` is a sub-resource of `memo://1`;
/// `memo://10` is not.
pub(crate) fn is_within(uri: &str, resource: &str) -> bool {
    let rest = uri.strip_prefix(resource);
    rest.is_some_and(|rest| rest.is_empty() || resource.ends_with('/') || rest.starts_with(['/', '#', '?']))
}

/// The log level and subscriptions to restore on every new connection. Since 2026-07-28, one listen stream serves all
/// of them.
#[derive(Debug, Default)]
pub(crate) struct DesiredState {
    log_level: Mutex<Option<LoggingLevel>>,
    /// `true` once changed lists were requested as events.
    list_changes: AtomicBool,
    /// The subscribed resources, with the number of their subscribers.
    watched: Mutex<BTreeMap<String, usize>>,
    /// Held while a changed count is sent to the server, so that concurrent changes reach the server in order.
    pub(crate) turns: tokio::sync::Mutex<()>,
    /// The task of the listen stream. The lock is held while the stream is replaced, so that concurrent changes do not
    /// interleave.
    stream: tokio::sync::Mutex<Option<AbortOnDropHandle<()>>>,
}

impl DesiredState {
    pub(crate) fn new(log_level: Option<LoggingLevel>) -> Self {
        Self { log_level: Mutex::new(log_level), ..Self::default() }
    }

    pub(crate) fn log_level(&self) -> Option<LoggingLevel> {
        *self.log_level.lock()
    }

    pub(crate) fn set_log_level(&self, level: LoggingLevel) {
        *self.log_level.lock() = Some(level);
    }

    pub(crate) fn watched(&self) -> Vec<String> {
        self.watched.lock().keys().cloned().collect()
    }

    /// Counts one more subscriber of a resource. Dropping the guard without [`keep`](WatchGuard::keep) undoes it.
    pub(crate) fn watch<'a>(&'a self, uri: &'a str) -> WatchGuard<'a> {
        let mut watched = self.watched.lock();
        let count = watched.entry(uri.to_owned()).or_default();
        *count += 1;
        WatchGuard { desired: self, uri, is_first: *count == 1, kept: false }
    }

    /// Counts one subscriber less. Returns `true` if it was the last.
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

    fn filter(&self, capabilities: Option<&ServerCapabilities>) -> SubscriptionFilter {
        let mut filter = SubscriptionFilter::new();
        if self.list_changes.load(Ordering::Relaxed) {
            let all = SubscriptionFilter::new()
                .tools_list_changed(true)
                .prompts_list_changed(true)
                .resources_list_changed(true);
            // Ask for all lists if the server supports one of them: the first item of another kind may be added at any
            // time. A server that supports none does not know the method.
            let notifies = capabilities.is_none_or(|capabilities| !is_empty(&supported(&all, capabilities)));
            filter = if notifies { all } else { filter };
        }
        filter.resource_subscriptions = Some(self.watched()).filter(|watched| !watched.is_empty());
        filter
    }
}

/// Requests changed lists as events. Since 2026-07-28, a server sends them only on request.
pub(crate) fn request_list_changes(shared: &Arc<ServerShared>) {
    let first = !shared.desired.list_changes.swap(true, Ordering::Relaxed);
    let listens = shared.current().is_some_and(|connected| connected.version().has(Ability::ListenStreams));
    if first && listens {
        let shared = shared.clone();
        tokio::spawn(async move { try_renew(&shared).await });
    } else if !first {
        // The stream may have failed the first time.
        resume(shared);
    }
}

/// Opens the listen stream on a new connection, unless its task is still running and opens it itself.
pub(crate) fn resume(shared: &Arc<ServerShared>) {
    let wanted = !is_empty(&shared.desired.filter(None));
    let listens = shared.current().is_some_and(|connected| connected.version().has(Ability::ListenStreams));
    if wanted && listens {
        let shared = shared.clone();
        tokio::spawn(async move {
            let stream = shared.desired.stream.lock().await;
            let is_running = stream.as_ref().is_some_and(|task| !task.is_finished());
            drop(stream);
            if !is_running {
                try_renew(&shared).await;
            }
        });
    }
}

async fn try_renew(shared: &Arc<ServerShared>) {
    if let Err(error) = renew(shared, shared.wait_time(&CallOptions::default()), true).await {
        tracing::debug!(target: "turms::client", %error, "the server does not notify of changes");
    }
}

/// Opens a listen stream with the current filter, then closes the previous one. Returns the acknowledged resources.
pub(crate) async fn renew(
    shared: &Arc<ServerShared>,
    timeout: Option<Duration>,
    is_background: bool,
) -> Result<Vec<String>, CallError> {
    let mut stream = shared.desired.stream.lock().await;
    let connected = shared.ready(Listen::NAME, timeout).await?;
    let filter = shared.desired.filter(connected.server().map(|server| &server.capabilities));
    if is_empty(&filter) {
        *stream = None;
        return Ok(Vec::new());
    }
    let incoming = shared.incoming.clone();
    let forward = Arc::new(move |notification, is_first| match is_first {
        true => incoming.on_notification(notification),
        false => incoming.forget(&notification),
    });
    let (task, acknowledged) = start(shared, filter, forward, timeout, is_background).await?;
    *stream = Some(task);
    Ok(acknowledged.resource_subscriptions.unwrap_or_default())
}

/// One subscriber of a resource. Dropping it without [`keep`](Self::keep) removes it from the count.
pub(crate) struct WatchGuard<'a> {
    desired: &'a DesiredState,
    uri: &'a str,
    pub(crate) is_first: bool,
    kept: bool,
}

impl WatchGuard<'_> {
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for WatchGuard<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.desired.unwatch(self.uri);
        }
    }
}

/// Returns the part of a filter that the server declares to support.
fn supported(wanted: &SubscriptionFilter, server: &ServerCapabilities) -> SubscriptionFilter {
    let mut filter = wanted.clone();
    let declares = |declared: Option<bool>| declared == Some(true);
    let tools = server.tools.as_ref().is_some_and(|tools| declares(tools.list_changed));
    let prompts = server.prompts.as_ref().is_some_and(|prompts| declares(prompts.list_changed));
    let resources = server.resources.as_ref().is_some_and(|resources| declares(resources.list_changed));
    let watches = server.resources.as_ref().is_some_and(|resources| declares(resources.subscribe));
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

/// Receives the notifications of a listen stream, and `true` unless an older stream receives the same one.
type Forward = Arc<dyn Fn(Notification, bool) + Send + Sync>;

/// The open listen streams of a client, with the filter that the server has acknowledged for each. A server sends a change on every stream
/// with a matching filter; the oldest of them publishes the event.
#[derive(Debug, Default)]
pub(crate) struct ListenStreams(Mutex<ListenTable>);

#[derive(Debug, Default)]
struct ListenTable {
    last: u64,
    open: BTreeMap<u64, SubscriptionFilter>,
}

impl ListenStreams {
    /// Returns a number for a new stream. It is not open before the server acknowledges it.
    fn next_number(&self) -> u64 {
        let mut table = self.0.lock();
        table.last += 1;
        table.last
    }

    fn is_first(&self, number: u64, notification: &Notification) -> bool {
        if !matches!(&*notification.method, ResourceUpdatedNotification::NAME | TaskNotification::NAME) {
            return true;
        }
        !self.0.lock().open.range(..number).any(|(_, filter)| is_wanted(filter, notification))
    }
}

/// Removes a stream from the open ones on drop.
struct OpenStream<'a> {
    streams: &'a ListenStreams,
    number: u64,
}

impl Drop for OpenStream<'_> {
    fn drop(&mut self) {
        self.streams.0.lock().open.remove(&self.number);
    }
}

/// Spawns the task of a listen stream, which opens the stream again after every loss. Waits for the acknowledgement, up
/// to the timeout.
async fn start(
    shared: &Arc<ServerShared>,
    filter: SubscriptionFilter,
    forward: Forward,
    timeout: Option<Duration>,
    is_background: bool,
) -> Result<(AbortOnDropHandle<()>, SubscriptionFilter), CallError> {
    let (acknowledge, acknowledged) = oneshot::channel();
    let shutdown = shared.shutdown.clone();
    let clock = CallClock::new(timeout, None);
    let first = FirstListen { acknowledge, clock: clock.clone(), is_background };
    let listening = run_stream(shared.clone(), filter, forward, first);
    let task = tokio::spawn(async move { _ = shutdown.run_until_cancelled_owned(listening).await });
    let task = AbortOnDropHandle::new(task);
    let acknowledged = clock.run(acknowledged).await.map_err(|error| CallError::of_peer(Listen::NAME, error))?;
    match acknowledged {
        Ok(acknowledged) => acknowledged.map(|filter| (task, filter)),
        Err(_) => Err(CallError::not_connected(Listen::NAME, None)),
    }
}

/// The first stream of a subscription, which is waited for.
struct FirstListen {
    acknowledge: Acknowledge,
    /// The clock of the acknowledgement.
    clock: CallClock,
    is_background: bool,
}

type Acknowledge = oneshot::Sender<Result<SubscriptionFilter, CallError>>;

/// The actions to run when the server acknowledges the filter.
#[derive(Default)]
struct OnAcknowledged {
    acknowledge: Option<Acknowledge>,
    /// The handler with the caches to clear, because changes were missed since the last stream.
    stale: Option<Arc<IncomingHandler>>,
    broken: Option<BrokenStream>,
    /// `true` if the server has acknowledged the filter.
    done: bool,
}

impl OnAcknowledged {
    fn run(self, filter: SubscriptionFilter) {
        if let Some(incoming) = self.stale {
            incoming.forget_all();
        }
        if let Some(acknowledge) = self.acknowledge {
            let _ = acknowledge.send(Ok(filter));
        }
        self.broken.into_iter().for_each(BrokenStream::restored);
    }
}

/// Opens a listen stream, and opens it again whenever it ends.
async fn run_stream(
    shared: Arc<ServerShared>,
    filter: SubscriptionFilter,
    forward: Forward,
    FirstListen { acknowledge, mut clock, mut is_background }: FirstListen,
) {
    let mut waiting = OnAcknowledged { acknowledge: Some(acknowledge), ..OnAcknowledged::default() };
    let number = shared.listen_streams.next_number();
    let mut attempt = 0;
    loop {
        // If the client is closed, dropping the sender reports it to `start`.
        let Ok(connected) = shared.ready(Listen::NAME, None).await else { return };
        let state = Arc::new(Mutex::new(waiting));
        let since = Instant::now();
        let ended = {
            let _open = OpenStream { streams: &shared.listen_streams, number };
            let attempt = ListenAttempt { number, clock, is_background };
            listen_once(&shared, attempt, &connected, &filter, &forward, state.clone()).await
        };
        (clock, is_background) = (CallClock::new(None, None), true);
        let OnAcknowledged { acknowledge, broken, done, .. } = std::mem::take(&mut *state.lock());
        if let Some(acknowledge) = acknowledge {
            let error = ended.err().unwrap_or_else(|| invalid("it was never acknowledged"));
            let _ = acknowledge.send(Err(error));
            return;
        }
        if !shared.reconnects() {
            return;
        }
        attempt = if since.elapsed() < MIN_UPTIME { attempt + 1 } else { 1 };
        // A lost connection is reported by the supervisor of the connection, not as a broken stream.
        let lost = matches!(&ended, Err(error) if error.is_disconnected() && !error.is_transport());
        let ended_cleanly = ended.is_ok();
        let unauthorized = matches!(&ended, Err(error) if matches!(error.kind(), CallErrorKind::Unauthorized(_)));
        let broken = broken.filter(|broken| broken.is_of(&connected));
        let broken = match ended {
            Err(error) if !done && !lost => broken.or_else(|| Some(BrokenStream::new(&shared, &connected, &error))),
            _ => broken,
        };
        waiting = OnAcknowledged { stale: Some(shared.incoming.clone()), broken, ..OnAcknowledged::default() };
        drop(connected);
        if unauthorized {
            // Other credentials are unlikely before another call succeeds.
            let _ = tokio::time::timeout(UNAUTHORIZED_DELAY, shared.responded.notified()).await;
        }
        // A broken stream is opened again immediately. If the server ended it cleanly, wait at least one delay.
        pause(if ended_cleanly { attempt + 1 } else { attempt }, &shared.responded).await;
    }
}

/// Maximum delay before a stream with rejected credentials is opened again.
const UNAUTHORIZED_DELAY: Duration = Duration::from_secs(60);

fn invalid(problem: impl fmt::Display) -> CallError {
    let cause = DecodeCause::Invalid(DecodeError::custom(problem));
    CallError::answered(Listen::NAME, CallErrorKind::Decode(cause))
}

/// Waits before the stream is opened again. Returns early when the server responds to another call. At most 3 s,
/// because changes are missed meanwhile.
async fn pause(attempt: u32, responded: &Notify) {
    const MIN_DELAY: Duration = Duration::from_millis(100);
    let backoff = Backoff::new().initial_delay(MIN_DELAY).max_delay(Duration::from_secs(3));
    let delay = backoff.delay(attempt).unwrap_or_default();
    let next_response = responded.notified();
    // The minimum delay applies always: a server that responds to calls but rejects streams must not get one attempt
    // per call.
    tokio::time::sleep(delay.min(MIN_DELAY)).await;
    let _ = tokio::time::timeout(delay.saturating_sub(MIN_DELAY), next_response).await;
}

/// One attempt to open a listen stream.
struct ListenAttempt {
    /// Number of the stream.
    number: u64,
    /// The clock of the acknowledgement.
    clock: CallClock,
    is_background: bool,
}

async fn listen_once(
    shared: &Arc<ServerShared>,
    ListenAttempt { number, clock, is_background }: ListenAttempt,
    connected: &Connected,
    filter: &SubscriptionFilter,
    forward: &Forward,
    waiting: Arc<Mutex<OnAcknowledged>>,
) -> Result<(), CallError> {
    let (refuse, mut refused) = mpsc::channel(1);
    let (shared, wanted, forward) = (shared.clone(), filter.clone(), forward.clone());
    let observer = ListenObserver { shared, number, wanted, forward, refuse, waiting };
    let params = Payload::new(ListenParams::new(filter.clone()));
    let meta = match filter.task_ids {
        Some(_) => connected.metadata().map(declare_tasks),
        None => connected.metadata(),
    };
    let mut request = OutgoingRequest::new(MethodName::from_static(Listen::NAME), params)
        .meta(meta)
        .options(RequestOptions::default().without_timeout())
        .observer(Some(Arc::new(observer) as Arc<dyn CallObserver>));
    // Only the acknowledgement has a timeout. The channel stops its clock while an authorizer works.
    (request.clock, request.is_background) = (clock, is_background);
    tokio::select! {
        biased;
        Some(excess) = refused.recv() => {
            Err(invalid(format_args!("it acknowledges {excess}, which the filter does not ask for")))
        }
        ended = connected.channel.call(request) => {
            ended.map(drop).map_err(|error| CallError::of_peer(Listen::NAME, error))
        }
    }
}

/// Receives the acknowledgement and the notifications of a subscription.
struct ListenObserver {
    shared: Arc<ServerShared>,
    /// The number of the stream.
    number: u64,
    wanted: SubscriptionFilter,
    forward: Forward,
    /// Receives the part of the acknowledgement that the filter does not ask for.
    refuse: mpsc::Sender<String>,
    waiting: Arc<Mutex<OnAcknowledged>>,
}

impl CallObserver for ListenObserver {
    fn notification(&self, notification: Notification) -> Result<(), Notification> {
        if &*notification.method == SubscriptionsAcknowledgedNotification::NAME {
            self.acknowledged(&notification);
        } else if is_wanted(&self.wanted, &notification) {
            let is_first = self.shared.listen_streams.is_first(self.number, &notification);
            (self.forward)(notification, is_first);
        } else {
            let method = &*notification.method;
            tracing::debug!(target: "turms::client", method, "a notification outside the filter is dropped");
        }
        Ok(())
    }
}

impl ListenObserver {
    fn acknowledged(&self, notification: &Notification) {
        let Ok(params) = notification.params::<SubscriptionsAcknowledgedNotification>() else { return };
        if let Some(excess) = excess(&params.notifications, &self.wanted) {
            let _ = self.refuse.try_send(excess);
            return;
        }
        self.shared.listen_streams.0.lock().open.insert(self.number, params.notifications.clone());
        // Runs outside the lock.
        let done = OnAcknowledged { done: true, ..OnAcknowledged::default() };
        let waiting = std::mem::replace(&mut *self.waiting.lock(), done);
        waiting.run(params.notifications);
    }
}

/// Returns `true` if the filter asks for this notification, or filters do not apply to its method.
fn is_wanted(filter: &SubscriptionFilter, notification: &Notification) -> bool {
    match &*notification.method {
        ToolListChangedNotification::NAME => filter.tools_list_changed == Some(true),
        PromptListChangedNotification::NAME => filter.prompts_list_changed == Some(true),
        ResourceListChangedNotification::NAME => filter.resources_list_changed == Some(true),
        ResourceUpdatedNotification::NAME => {
            notification.params::<ResourceUpdatedNotification>().is_ok_and(|updated| {
                filter.resource_subscriptions.iter().flatten().any(|wanted| is_within(&updated.uri, wanted))
            })
        }
        TaskNotification::NAME => task_of(notification)
            .is_some_and(|task| filter.task_ids.iter().flatten().any(|wanted| *wanted == task.task_id)),
        _ => true,
    }
}

/// Returns a part of the acknowledgement that the filter does not ask for, if there is one.
fn excess(acknowledged: &SubscriptionFilter, filter: &SubscriptionFilter) -> Option<String> {
    let lists = [
        ("toolsListChanged", acknowledged.tools_list_changed, filter.tools_list_changed),
        ("promptsListChanged", acknowledged.prompts_list_changed, filter.prompts_list_changed),
        ("resourcesListChanged", acknowledged.resources_list_changed, filter.resources_list_changed),
    ];
    if let Some((name, ..)) =
        lists.iter().find(|(_, acknowledged, wanted)| *acknowledged == Some(true) && *wanted != Some(true))
    {
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
        ToolListChangedNotification::NAME => Change::ToolList,
        PromptListChangedNotification::NAME => Change::PromptList,
        ResourceListChangedNotification::NAME => Change::ResourceList,
        ResourceUpdatedNotification::NAME => {
            Change::Resource { uri: notification.params::<ResourceUpdatedNotification>().ok()?.uri }
        }
        TaskNotification::NAME => {
            let task = task_of(notification)?;
            Change::Task { id: task.task_id, status: task.status }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_outside_the_filter_are_dropped() {
        let filter = SubscriptionFilter::new().tools_list_changed(true).prompts_list_changed(false);
        assert_eq!(Change::of_list(&Event::ToolsChanged, &filter), Some(Change::ToolList));
        assert_eq!(Change::of_list(&Event::PromptsChanged, &filter), None);
        assert_eq!(Change::of_list(&Event::ResourcesChanged, &filter), None);
        assert_eq!(Change::of_list(&Event::Healthy, &filter), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_pause_ends_early_when_the_server_responds() {
        let (responded, begun) = (Notify::new(), Instant::now());
        pause(1, &responded).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        pause(20, &responded).await;
        assert!((1500..=3005).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
        let begun = Instant::now();
        tokio::join!(pause(20, &responded), async {
            tokio::task::yield_now().await;
            responded.notify_waiters();
        });
        assert!(begun.elapsed() <= Duration::from_millis(101), "{:?}", begun.elapsed());
    }
}
