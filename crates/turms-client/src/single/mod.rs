//! The engine for one server: a connection at a time, rounds of questions, retries, and what is made anew after a loss.

mod call;
mod connection;
mod task;

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::{Notify, OnceCell, watch};
use tokio::time::Instant;
use turms_core::{BoxFuture, Channel, ConnectError, Connector, Ended, PeerError};
use turms_proto::method::Method;
use turms_proto::session::{Opened, RequestOptions, Stats, VersionChoice};
use turms_proto::types::{
    ClientCapabilities, Discover, DiscoverResult, EmptyParams, Implementation, Listen, LoggingLevel, Meta, Ping,
    ResourceParams, SetLevel, SetLevelParams, Subscribe, SubscriptionFilter, Unsubscribe,
};
use turms_proto::{Ability, ErrorObject, Notification, ProtocolVersion};

use self::call::read;
use self::connection::supervision;
pub(crate) use self::task::{Running, declares_tasks, declaring_tasks, get_task, gone};
use crate::cache::Cache;
use crate::call::error::{CallError, CallErrorKind, ClosedCause, Delivery, TaskCause, UnsupportedCause};
use crate::ear::Ear;
use crate::event::{ConnectionEvent, Events};
use crate::hearing::Hearing;
use crate::job::{Decoded, Engine, Job, Performed, Subject};
use crate::listen::{self, Managed, Subscription};
use crate::memory::VersionMemory;
use crate::options::CallOptions;
use crate::pending::{PendingCalls, Registered};
use crate::roots::Roots;
use crate::state::{PendingCall, Status};
use crate::supervision::{BreakerSwitch, RetryBudget, Supervision};
use crate::tool::KnownTools;

/// How a client for one server is set up.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) info: Implementation,
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) choice: VersionChoice,
    pub(crate) probe_timeout: Duration,
    pub(crate) max_duration: Option<Duration>,
    pub(crate) handshake_timeout: Duration,
    pub(crate) timeout: Duration,
    pub(crate) max_rounds: usize,
    pub(crate) max_validation_steps: u64,
    pub(crate) caching: bool,
    pub(crate) log_level: Option<LoggingLevel>,
    pub(crate) supervision: Option<Supervision>,
    pub(crate) memory: VersionMemory,
}

/// A client's way to one server.
pub(crate) struct Single {
    /// Ourselves, for tasks that must not keep us alive.
    me: Weak<Self>,
    connector: Arc<dyn Connector>,
    settings: Settings,
    pub(crate) ear: Arc<Ear>,
    link: watch::Sender<Link>,
    /// How many connections there have been.
    generations: AtomicU64,
    /// How many attempts to reconnect were made since a connection last lasted.
    attempts: AtomicU32,
    log_level: Mutex<Option<LoggingLevel>>,
    pub(crate) managed: Managed,
    pending: Arc<PendingCalls>,
    breaker: Option<BreakerSwitch>,
    budget: Option<RetryBudget>,
    /// How many connections are being opened or ended just now.
    moving: watch::Sender<usize>,
    /// Told when the server has answered something while it could not be heard.
    pub(crate) answered: Arc<Notify>,
}

/// How the connection stands.
#[derive(Debug, Clone)]
enum Link {
    Up(Arc<Live>),
    Down,
    Closed(Option<ConnectError>),
}

/// A connection that is open, or was.
pub(crate) struct Live {
    channel: Arc<dyn Channel>,
    opened: Arc<Opened>,
    generation: u64,
    since: Instant,
    /// What every request says for itself, where the revision has no handshake.
    meta: Mutex<Option<Meta>>,
    /// Whether the server has shown that it speaks as we remembered.
    verified: AtomicBool,
    /// Whether it has shown that it does not.
    mistaken: AtomicBool,
    /// Whether it takes batches; found out before the first.
    batches: OnceCell<bool>,
    ended: OnceLock<Ended>,
    pub(crate) hearing: Hearing,
}

/// How long a connection has to last to count as one that works.
pub(crate) const LASTING: Duration = Duration::from_secs(10);

impl Single {
    /// The connection, waiting for another as long as one is being made.
    pub(crate) async fn live(&self, subject: impl Subject, patience: Option<Duration>) -> Result<Arc<Live>, CallError> {
        if let Link::Up(live) = &*self.link.borrow() {
            return Ok(live.clone());
        }
        let mut link = self.link.subscribe();
        let settled = async { link.wait_for(|link| !matches!(link, Link::Down)).await.map(|link| link.clone()) };
        let settled = match patience {
            Some(patience) => tokio::time::timeout(patience, settled).await.unwrap_or(Ok(Link::Down)),
            None => settled.await,
        };
        let kind = match settled {
            Ok(Link::Up(live)) => return Ok(live),
            Ok(Link::Closed(error)) => CallErrorKind::Closed(ClosedCause::NotConnected(error)),
            _ => CallErrorKind::Closed(ClosedCause::NotConnected(None)),
        };
        Err(CallError::not_sent(subject.text(), kind))
    }

    /// The connection if there is one now.
    pub(crate) fn live_now(&self) -> Option<Arc<Live>> {
        match &*self.link.borrow() {
            Link::Up(live) => Some(live.clone()),
            _ => None,
        }
    }

    pub(crate) fn is_supervised(&self) -> bool {
        self.settings.supervision.is_some()
    }

    /// Whether the client is closed for good.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(&*self.link.borrow(), Link::Closed(_))
    }

    /// How long to wait before an attempt to reconnect, counted from 1.
    pub(crate) fn backoff_delay(&self, attempt: u32) -> Option<Duration> {
        match supervision(&self.settings) {
            Some(supervision) => supervision.backoff.delay(attempt),
            // Once, because what was remembered of the server was wrong, or its session had expired.
            None => (attempt == 1).then_some(Duration::ZERO),
        }
    }

    /// How long a call waits.
    pub(crate) fn patience(&self, options: &CallOptions) -> Option<Duration> {
        let options = self.request_options(options);
        [options.timeout, options.max_timeout].into_iter().flatten().min()
    }

    /// The timeouts of one request.
    pub(super) fn request_options(&self, options: &CallOptions) -> RequestOptions {
        options.request_options(self.settings.timeout, self.settings.max_duration)
    }

    pub(crate) fn weak(&self) -> Weak<Self> {
        self.me.clone()
    }

    /// Waits for a connection without keeping the client alive.
    pub(crate) async fn wait_live(me: &Weak<Self>) -> Option<Arc<Live>> {
        let mut link = me.upgrade()?.link.subscribe();
        let settled = link.wait_for(|link| !matches!(link, Link::Down)).await.ok()?;
        match &*settled {
            Link::Up(live) => Some(live.clone()),
            _ => None,
        }
    }
}

impl Engine for Single {
    fn perform(&self, job: Job) -> BoxFuture<'_, Result<Performed, CallError>> {
        Box::pin(async move {
            let cancel = job.options.cancel.clone();
            // Pinned here, so that there is room for it only once.
            let call = pin!(self.complete(&job));
            self.pending.track(&job, cancel, call).await
        })
    }

    fn perform_all(&self, jobs: Vec<Job>) -> BoxFuture<'_, Vec<Result<Performed, CallError>>> {
        Box::pin(async move {
            let live = match self.live_now() {
                Some(live) if jobs.len() > 1 && self.takes_batches(&live).await => live,
                _ => return join_all(jobs.into_iter().map(|job| self.perform(job))).await,
            };
            let mut outcomes: Vec<Option<Result<Performed, CallError>>> = Vec::new();
            let mut requests = Vec::new();
            for job in &jobs {
                match self.outgoing(&live, job, job.params.payload()) {
                    Ok(request) => {
                        requests.push(request);
                        outcomes.push(None);
                    }
                    Err(error) => outcomes.push(Some(Err(error))),
                }
            }
            let register = |job: &Job| self.pending.register(job, job.options.cancel.clone());
            let registered: Vec<_> = jobs.iter().map(register).collect();
            let cancels: Vec<_> = registered.iter().map(Registered::cancel).collect();
            let given_up = cancels.iter().map(|cancel| cancel.cancelled());
            let answers = tokio::select! {
                biased;
                // They travel together: the server is told when all of them are given up.
                _ = join_all(given_up) => Vec::new(),
                answers = live.channel.batch(requests) => answers,
            };
            let mut answers = answers.into_iter();
            let outcomes = outcomes.into_iter().zip(jobs.iter().zip(&cancels)).map(|(outcome, (job, cancel))| {
                outcome.unwrap_or_else(|| {
                    let answer = answers.next().unwrap_or(Err(PeerError::Closed));
                    if cancel.is_cancelled() {
                        let (kind, delivery) = (CallErrorKind::Cancelled, Delivery::Unknown);
                        return Err(CallError::new(job.subject(), kind, delivery));
                    }
                    match read(&live, job, answer.map_err(|error| CallError::of_peer(job.subject(), error))?)? {
                        Decoded::Complete(payload) => Ok(Performed::new(payload)),
                        _ => Err(CallError::answered(job.subject(), CallErrorKind::Task(TaskCause::Unexpected))),
                    }
                })
            });
            let mut outcomes: Vec<_> = outcomes.collect();
            for (outcome, job) in outcomes.iter_mut().zip(&jobs) {
                if let Err(error) = outcome {
                    *error = self.judge(&live, job, error.clone()).await;
                }
            }
            outcomes
        })
    }

    fn ping(&self, options: CallOptions) -> BoxFuture<'_, Result<(), CallError>> {
        Box::pin(async move {
            let pings = self.live_now().is_none_or(|live| live.version().has(Ability::Ping));
            if pings {
                let pinged = self.perform(Job::new::<Ping>(EmptyParams::new(), options.clone())).await;
                // While there is no connection, nobody knows of which revision the next will be.
                match pinged {
                    Err(error)
                        if matches!(error.kind(), CallErrorKind::Unsupported(UnsupportedCause::Revision { .. })) => {}
                    pinged => return pinged.map(drop),
                }
            }
            self.perform(Job::new::<Discover>(EmptyParams::new(), options)).await.map(drop)
        })
    }

    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), CallError>> {
        Box::pin(self.tell(notification))
    }

    fn set_log_level(&self, level: LoggingLevel, options: CallOptions) -> BoxFuture<'_, Result<(), CallError>> {
        Box::pin(async move {
            *self.log_level.lock() = Some(level);
            let live = self.live(SetLevel::NAME, Some(self.settings.timeout)).await?;
            if live.version().has(Ability::SessionLogLevel) {
                self.perform(Job::new::<SetLevel>(SetLevelParams::new(level), options)).await?;
            } else {
                *live.meta.lock() = self.request_meta(live.opened.dialect);
            }
            Ok(())
        })
    }

    fn subscribe(&self, uri: String, options: CallOptions) -> BoxFuture<'_, Result<(), CallError>> {
        Box::pin(async move {
            let live = self.live(Subscribe::NAME, Some(self.settings.timeout)).await?;
            // Whoever comes second learns what came of the first.
            let _turn = self.managed.turns.lock().await;
            let watching = self.managed.watch(&uri);
            if watching.first && live.version().has(Ability::ListenStreams) {
                let renewed = self.managed.renew(self, self.patience(&options));
                let told = self.within(Listen::NAME, &options, renewed).await?;
                if !told.contains(&uri) {
                    let error = ErrorObject::invalid_params("the server will not tell of changes to it");
                    return Err(CallError::server(format!("{} {uri:?}", Listen::NAME), error));
                }
            } else if watching.first {
                let mut job = Job::new::<Subscribe>(ResourceParams::new(&uri), options);
                job.name = Some(uri.as_str().into());
                self.perform(job).await?;
            }
            watching.keep();
            Ok(())
        })
    }

    fn unsubscribe(&self, uri: String, options: CallOptions) -> BoxFuture<'_, Result<(), CallError>> {
        Box::pin(async move {
            let live = self.live(Unsubscribe::NAME, Some(self.settings.timeout)).await?;
            let _turn = self.managed.turns.lock().await;
            if !self.managed.unwatch(&uri) {
                return Ok(());
            }
            if live.version().has(Ability::ListenStreams) {
                self.within(Listen::NAME, &options, self.managed.renew(self, self.patience(&options))).await?;
            } else {
                let mut job = Job::new::<Unsubscribe>(ResourceParams::new(&uri), options);
                job.name = Some(uri.into());
                self.perform(job).await?;
            }
            Ok(())
        })
    }

    fn listen(
        &self,
        filter: SubscriptionFilter,
        options: CallOptions,
    ) -> BoxFuture<'_, Result<Subscription, CallError>> {
        Box::pin(async move { self.within(Listen::NAME, &options, listen::listen(self, filter)).await })
    }

    fn events(&self) -> Events {
        let events = self.ear.events.subscribe();
        if let Some(me) = self.me.upgrade()
            && tokio::runtime::Handle::try_current().is_ok()
        {
            Managed::hear_lists(me);
        }
        events
    }

    fn overhear(&self) -> Events {
        self.ear.events.subscribe()
    }

    fn status(&self) -> Status {
        match &*self.link.borrow() {
            Link::Up(live) if live.hearing.is_gone() => Status::Reconnecting,
            Link::Up(_) => Status::Connected,
            Link::Down => Status::Reconnecting,
            Link::Closed(_) => Status::Closed,
        }
    }

    fn opened(&self) -> Option<Arc<Opened>> {
        self.live_now().map(|live| live.opened.clone())
    }

    fn stats(&self) -> Stats {
        self.live_now().map(|live| live.channel.stats()).unwrap_or_default()
    }

    fn pending(&self) -> Vec<PendingCall> {
        self.pending.list()
    }

    fn cancel(&self, key: u64) -> bool {
        self.pending.cancel(key)
    }

    fn roots(&self) -> Option<&Roots> {
        self.ear.answers.shared_roots()
    }

    fn cache(&self) -> Option<&Cache> {
        self.settings.caching.then_some(&*self.ear.cache)
    }

    fn tools(&self) -> Option<&KnownTools> {
        Some(&self.ear.tools)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if !matches!(&*self.link.borrow(), Link::Closed(None)) {
                self.ear.events.connection(ConnectionEvent::Closed);
            }
            self.let_go();
            let _ = self.moving.subscribe().wait_for(|moving| *moving == 0).await;
        })
    }

    fn let_go(&self) {
        self.ear.events.close();
        if let Some(live) = self.end() {
            self.send_away(&live);
        }
    }
}

impl Drop for Single {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl fmt::Debug for Single {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Single").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Live {
    pub(crate) fn version(&self) -> ProtocolVersion {
        self.opened.dialect.version()
    }

    pub(crate) fn server(&self) -> Option<&DiscoverResult> {
        self.opened.server.as_ref()
    }

    pub(crate) fn channel(&self) -> &Arc<dyn Channel> {
        &self.channel
    }

    pub(crate) fn meta(&self) -> Option<Meta> {
        self.meta.lock().clone()
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("generation", &self.generation).finish_non_exhaustive()
    }
}
