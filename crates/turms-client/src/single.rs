//! The engine for one server: a connection at a time, rounds of questions, retries, and what is made anew after a loss.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use bytestring::ByteString;
use tokio::sync::{Notify, OnceCell, watch};
use tokio::time::Instant;
use turms_core::{
    BoxFuture, Channel, ConnectError, Connector, Ended, Established, Outgoing, Payload, PeerError, Update, Updates,
    join_all,
};
use turms_proto::method::{Method, Notification as NotificationMethod};
use turms_proto::revision::{Translate as _, method_info, raise_url_elicitation};
use turms_proto::session::{ClientOptions, Dialect, Opened, RequestError, RequestOptions, Stats, VersionChoice};
use turms_proto::types::{
    CallTool, ClientCapabilities, Discover, DiscoverResult, EmptyParams, Implementation, InputRequired, Listen,
    LoggingLevel, Meta, Ping, RequestMeta, ResourceParams, RootsListChanged, SetLevel, SetLevelParams, Subscribe,
    SubscriptionFilter, Unsubscribe,
};
use turms_proto::{Ability, ErrorObject, Notification, Object, ProtocolVersion, RawJson};

use crate::cache::{Cache, Changed};
use crate::ear::Ear;
use crate::error::{CallError, CallErrorKind, Delivery};
use crate::event::{BreakerState, ConnectionEvent, Event, Events};
use crate::hearing::{Deaf, Hearing};
use crate::job::{CallOptions, Decoded, Engine, Job, Performed, Subject};
use crate::listen::{self, Managed, Subscription};
use crate::memory::VersionMemory;
use crate::pending::PendingCalls;
use crate::roots::Roots;
use crate::state::{PendingCall, Status};
use crate::supervision::{Admission, BreakerSwitch, RetryBudget, Supervision};
use crate::tool::KnownTools;

/// How a client for one server is set up.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) info: Implementation,
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) choice: VersionChoice,
    pub(crate) probe_timeout: Duration,
    pub(crate) handshake_timeout: Duration,
    pub(crate) timeout: Duration,
    pub(crate) max_rounds: usize,
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
    pending: PendingCalls,
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

/// How long to wait for news of how a server ended, once its connection has.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How many questions one round may ask.
const MOST_QUESTIONS: usize = 64;

/// How long a restored subscription or log level may take.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(10);

impl Single {
    /// Connects for the first time.
    pub(crate) async fn connect(
        connector: Arc<dyn Connector>,
        settings: Settings,
        ear: Ear,
    ) -> Result<Arc<Self>, ConnectError> {
        let single = Arc::new_cyclic(|me| Self {
            me: me.clone(),
            connector,
            ear: Arc::new(ear),
            link: watch::Sender::new(Link::Down),
            generations: AtomicU64::new(0),
            attempts: AtomicU32::new(0),
            log_level: Mutex::new(settings.log_level),
            managed: Managed::default(),
            pending: PendingCalls::default(),
            breaker: supervision(&settings).and_then(|it| it.breaker.clone()).map(BreakerSwitch::new),
            budget: supervision(&settings).and_then(|it| it.retry.clone()).map(RetryBudget::new),
            moving: watch::Sender::new(0),
            answered: Arc::default(),
            settings,
        });
        let live = single.open_again().await?;
        single.up(live);
        single.tell_roots();
        Ok(single)
    }

    /// Opens a connection that has what the one before had.
    async fn open_again(&self) -> Result<Arc<Live>, ConnectError> {
        let live = self.open().await?;
        self.restore(&live).await;
        Ok(live)
    }

    /// Tries no more, unless the client was closed meanwhile.
    fn give_up(&self, why: ConnectError) {
        let gave_up = self.link.send_if_modified(|link| {
            let down = matches!(link, Link::Down);
            if down {
                *link = Link::Closed(Some(why));
            }
            down
        });
        if gave_up {
            self.ear.events.connection(ConnectionEvent::GaveUp);
        }
    }

    /// Opens a connection, asking no more than is not known already.
    async fn open(&self) -> Result<Arc<Live>, ConnectError> {
        let identity = self.connector.identity();
        let ours = self.settings.choice.versions();
        let known = identity.as_deref().and_then(|server| self.settings.memory.recall(server));
        let known = known.filter(|known| ours.contains(&known.dialect.version()));
        let established = match &known {
            Some(known) => match self.reach(Some(known.dialect)).await {
                // Who cannot be reached has not shown that it is not as remembered.
                Err(error @ (ConnectError::Unreachable { .. } | ConnectError::Rejected { .. })) => Err(error),
                // What was remembered may not be so any more.
                Err(_) if self.connector.is_repeatable() => {
                    identity.as_deref().inspect(|server| self.settings.memory.forget(server));
                    self.reach_unknown().await
                }
                reached => reached,
            },
            None => self.reach_unknown().await,
        }?;
        let Established { channel, opened, .. } = established;
        // What was found out just now needs no second look; a service in this process need not even tell of itself.
        let verified = opened.server.is_some() || known.is_none();
        let remembered = known.filter(|known| known.dialect == opened.dialect).and_then(|known| known.server);
        let opened = match (&opened.server, remembered) {
            (None, Some(server)) => Arc::new(Opened::new(opened.dialect, Some(server))),
            _ => opened,
        };
        // What this client was told to speak says nothing of what the server would speak to others.
        let unbound =
            self.settings.choice == VersionChoice::Auto || opened.dialect.version() == ProtocolVersion::LATEST;
        if let Some(server) = identity.filter(|_| unbound) {
            self.settings.memory.remember(&server, &opened);
        }
        let generation = self.generations.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Arc::new(Live {
            meta: Mutex::new(self.request_meta(opened.dialect)),
            channel,
            opened,
            generation,
            since: Instant::now(),
            verified: AtomicBool::new(verified),
            mistaken: AtomicBool::new(false),
            batches: OnceCell::new(),
            ended: OnceLock::new(),
            hearing: Hearing::default(),
        }))
    }

    /// Some old servers die of a question they do not know: they are started again and not asked it.
    async fn reach_unknown(&self) -> Result<Established, ConnectError> {
        let has = |ability| self.settings.choice.versions().iter().any(|version| version.has(ability));
        let may_fall_back = has(Ability::Stateless) && has(Ability::Handshake) && self.connector.is_repeatable();
        match self.reach(None).await {
            Err(ConnectError::Ended(ended)) if may_fall_back => {
                tracing::debug!(target: "turms::client", %ended, "the server ended when it was probed; starting it again");
                self.reach(Some(Dialect::Handshake(ProtocolVersion::LATEST_WITH_HANDSHAKE))).await
            }
            reached => reached,
        }
    }

    async fn reach(&self, known: Option<Dialect>) -> Result<Established, ConnectError> {
        let settings = &self.settings;
        let mut options = ClientOptions::new(settings.info.clone(), settings.capabilities.clone())
            .choice(settings.choice)
            .probe_timeout(settings.probe_timeout);
        options.handshake_timeout = settings.handshake_timeout;
        options.known = known;
        self.connector.connect(options, self.ear.clone()).await
    }

    fn request_meta(&self, dialect: Dialect) -> Option<Meta> {
        let Dialect::Stateless(version) = dialect else { return None };
        let mut capabilities = self.settings.capabilities.clone();
        capabilities.lower(version);
        let mut meta = RequestMeta::new()
            .protocol_version(version.as_str())
            .client_capabilities(capabilities)
            .client_info(self.settings.info.clone());
        meta.log_level = *lock(&self.log_level);
        Some(Meta::from(&meta))
    }

    fn up(&self, live: Arc<Live>) {
        let (version, generation) = (live.version(), live.generation);
        let watcher = watch_connection(self.me.clone(), live.clone(), self.link.subscribe());
        let opened = self.link.send_if_modified(|link| {
            let open = !matches!(link, Link::Closed(_));
            if open {
                *link = Link::Up(live.clone());
            }
            open
        });
        if !opened {
            // The client was closed while it reconnected.
            return self.send_away(&live);
        }
        tokio::spawn(watcher);
        self.ear.events.connection(ConnectionEvent::Connected { version, generation });
        if let Some(check) = supervision(&self.settings).and_then(|it| it.health_check.clone()) {
            tokio::spawn(watch_health(self.me.clone(), live, check));
        }
        self.me.upgrade().into_iter().for_each(Managed::resume);
    }

    /// A connection has ended without our doing.
    fn lost(&self, live: &Live, ended: Ended) {
        let _ = live.ended.set(ended.clone());
        if !live.verified.load(Ordering::Relaxed) {
            // It was only remembered how to speak to it, and that may be what it died of.
            live.mistaken.store(true, Ordering::Relaxed);
            if let Some(server) = self.connector.identity() {
                self.settings.memory.forget(&server);
            }
        }
        // A session that has expired is begun anew, whoever wants it (basic/transports of 2025-11-25, "Session Management").
        let anew = ended.renewable || live.mistaken.load(Ordering::Relaxed);
        let wanted = self.settings.supervision.is_some() || anew;
        let supervised = wanted && self.connector.is_repeatable();
        let current = self.link.send_if_modified(|link| match link {
            Link::Up(up) if up.generation == live.generation => {
                *link = if supervised { Link::Down } else { Link::Closed(Some(ConnectError::Lost(ended.clone()))) };
                true
            }
            _ => false,
        });
        if !current {
            return;
        }
        tracing::debug!(target: "turms::client", %ended, "the connection was lost");
        self.send_away(live);
        self.ear.cache.invalidate(Changed::Everything);
        if !live.hearing.is_told_lost() {
            self.ear.events.connection(ConnectionEvent::Lost(ended.clone()));
        }
        if live.since.elapsed() >= LASTING {
            self.attempts.store(0, Ordering::Relaxed);
        }
        if supervised {
            tokio::spawn(reconnect(self.me.clone(), ConnectError::Lost(ended)));
        } else {
            self.ear.events.connection(ConnectionEvent::Closed);
            self.ear.events.close();
        }
    }

    /// The server has answered: whoever waits for it to come back need not wait any longer.
    fn note_answer(&self, live: &Live) {
        if live.hearing.is_told_lost() {
            live.hearing.answered();
            self.answered.notify_waiters();
            self.hear_again(live);
        }
    }

    /// Says that a server is back which was said to be lost, if all can hear it that could not.
    pub(crate) fn hear_again(&self, live: &Live) {
        let current = self.live_now().is_some_and(|now| now.generation == live.generation);
        if current && live.hearing.is_back() {
            // What changed meanwhile was not told.
            self.ear.forget_all();
            let (version, generation) = (live.version(), live.generation);
            self.ear.events.connection(ConnectionEvent::Connected { version, generation });
        }
    }

    /// Gives up a connection that does not answer.
    fn abandon(&self, live: &Live, why: &str) {
        self.lost(live, Ended::new().how(why));
    }

    /// Ends a connection, and whatever is at the other end of it. Whoever closes the client waits for that.
    fn send_away(&self, live: &Live) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (channel, moving) = (live.channel.clone(), Moving::new(&self.moving));
            runtime.spawn(async move {
                channel.close().await;
                drop(moving);
            });
        }
    }

    /// Ends everything; the connection that was open until now, if one was.
    fn end(&self) -> Option<Arc<Live>> {
        match self.link.send_replace(Link::Closed(None)) {
            Link::Up(live) => Some(live),
            _ => None,
        }
    }

    /// Makes anew what a lost connection had: the log level, the watched resources. Listening makes itself anew.
    async fn restore(&self, live: &Arc<Live>) {
        self.ear.forget_all();
        let version = live.version();
        let level = *lock(&self.log_level);
        let logs = live.server().is_none_or(|server| server.capabilities.logging.is_some());
        if let Some(level) = level.filter(|_| logs && version.has(Ability::SessionLogLevel)) {
            self.restore_one::<SetLevel>(live, SetLevelParams::new(level)).await;
        }
        if !version.has(Ability::ListenStreams) {
            // A server may be of another revision than it was.
            let watched = self.managed.watched().into_iter();
            join_all(watched.map(|uri| self.restore_one::<Subscribe>(live, ResourceParams::new(uri))).collect()).await;
        }
    }

    async fn restore_one<M: Method>(&self, live: &Live, params: M::Params) {
        let options = RequestOptions::default().timeout(RESTORE_TIMEOUT);
        let request = Outgoing::new(ByteString::from_static(M::NAME), Payload::new(params)).options(options);
        if let Err(error) = live.channel.request(request).await {
            tracing::warn!(target: "turms::client", method = M::NAME, %error, "could not be restored after reconnecting");
        }
    }

    /// Tells the server when the roots change, where its revision has a way to.
    fn tell_roots(&self) {
        let Some(roots) = self.ear.answers.shared_roots() else { return };
        let (mut changes, me) = (roots.changes(), self.me.clone());
        let mut link = self.link.subscribe();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    changed = changes.changed() => if changed.is_err() { return },
                    () = closed(&mut link) => return,
                }
                let Some(single) = me.upgrade() else { return };
                let live = match &*single.link.borrow() {
                    Link::Up(live) if live.version().has(Ability::RootsListChanged) => live.clone(),
                    _ => continue,
                };
                drop(single);
                let told = Notification::raw(ByteString::from_static(RootsListChanged::NAME), None);
                let _ = live.channel.notify(told).await;
            }
        });
    }

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
            Ok(Link::Closed(error)) => CallErrorKind::NotConnected(error),
            _ => CallErrorKind::NotConnected(None),
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
        options.timeout.options(self.settings.timeout).timeout
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

    /// Makes a call, again if it was lost and that is safe.
    async fn attempt(&self, job: &Job) -> Result<Performed, CallError> {
        // As the tools are known now: another connection forgets them.
        let safe = job.is_safe_to_repeat(Some(&self.ear.tools));
        // How a call ended that may have run. Whatever becomes of it later, it may have.
        let mut lost: Option<CallError> = None;
        let (mut attempt, mut renewed) = (0, false);
        let deadline = self.patience(&job.options).and_then(|patience| Instant::now().checked_add(patience));
        if let Some(budget) = &self.budget {
            budget.earn();
        }
        loop {
            let (outcome, next) = match self.try_once(job).await {
                Ok(tried) => tried,
                Err(unsent) => return Err(lost.unwrap_or(unsent)),
            };
            let Err(error) = outcome else { return outcome };
            if next == Next::Anew || next == Next::Renewed && !renewed {
                renewed = next == Next::Renewed;
                continue;
            }
            attempt += 1;
            let error = if error.may_have_run() { lost.insert(error).clone() } else { error };
            if error.is_unsent() && self.comes_back(attempt, deadline).await {
                tracing::debug!(target: "turms::client", %error, attempt, "nobody was there; trying again");
                self.ear.events.publish(&Event::Retrying { subject: job.subject().into(), attempt });
                continue;
            }
            if error.is_unsent() || !self.may_repeat(&error, safe, attempt) {
                return Err(if error.delivery() == Delivery::NotSent { lost.unwrap_or(error) } else { error });
            }
            tracing::debug!(target: "turms::client", %error, attempt, "trying again");
            self.ear.events.publish(&Event::Retrying { subject: job.subject().into(), attempt });
            // No connection is waited for that has not ended.
            if error.is_unreachable() {
                tokio::time::sleep(self.backoff_delay(attempt + 1).unwrap_or_default()).await;
            }
        }
    }

    /// Waits for a server that was not there to take a call. As where there is a connection to be made anew, that takes as long
    /// as the call may, and nothing of what is saved up for calls that were lost; false if it is not to be waited for.
    async fn comes_back(&self, attempt: u32, deadline: Option<Instant>) -> bool {
        if self.budget.is_none() || self.is_closed() {
            return false;
        }
        // Of a server that is back, a call must not be the last to know.
        const LONGEST: Duration = Duration::from_secs(3);
        let Some(delay) = self.backoff_delay(attempt + 1).map(|delay| delay.min(LONGEST)) else { return false };
        if deadline.is_some_and(|deadline| Instant::now() + delay >= deadline) {
            return false;
        }
        let mut link = self.link.subscribe();
        tokio::select! {
            () = tokio::time::sleep(delay) => true,
            () = closed(&mut link) => false,
        }
    }

    /// Makes a call on whatever connection there is. The outer error is one of not having come so far.
    async fn try_once(&self, job: &Job) -> Result<(Result<Performed, CallError>, Next), CallError> {
        let trial = self.admit(job)?;
        let live = match self.live(job, self.patience(&job.options)).await {
            Ok(live) => live,
            Err(error) => {
                trial.end(Some(&error));
                return Err(error);
            }
        };
        let outcome = self.rounds(&live, job).await;
        trial.end(outcome.as_ref().err());
        // It was spoken to in the wrong revision and did not understand. The next connection is not opened by memory.
        let misunderstood = outcome.as_ref().is_err_and(|error| error.server_error().is_some());
        let expired = live.ended.get().is_some_and(|ended| ended.renewable);
        let unsent = outcome.as_ref().is_err_and(|error| error.delivery() == Delivery::NotSent);
        let next = match (misunderstood && live.mistaken.load(Ordering::Relaxed), unsent && expired) {
            (true, _) => Next::Anew,
            (false, true) => Next::Renewed,
            (false, false) => Next::Perhaps,
        };
        Ok((outcome, next))
    }

    fn may_repeat(&self, error: &CallError, safe: bool, attempt: u32) -> bool {
        if !error.is_disconnected() || self.is_closed() {
            return false;
        }
        let safe = safe || !error.may_have_run();
        safe && self.budget.as_ref().is_some_and(|budget| budget.spend(attempt))
    }

    fn admit(&self, job: &Job) -> Result<Trial<'_>, CallError> {
        let Some(breaker) = &self.breaker else { return Ok(Trial { single: self, undecided: false }) };
        let admission = breaker.admit();
        match admission {
            Admission::Go => {}
            Admission::Try => self.ear.events.publish(&Event::Breaker(BreakerState::HalfOpen)),
            Admission::Wait(rest) => {
                return Err(CallError::not_sent(job.subject(), CallErrorKind::BreakerOpen(rest)));
            }
        }
        Ok(Trial { single: self, undecided: admission == Admission::Try })
    }

    /// Makes a call on one connection, answering what the server asks in between.
    async fn rounds(&self, live: &Arc<Live>, job: &Job) -> Result<Performed, CallError> {
        let most = self.settings.max_rounds;
        let too_many = || CallError::answered(job.subject(), CallErrorKind::TooManyRounds(most));
        let visits = live.version().has(Ability::ElicitationIds) && self.ear.answers.visits_pages();
        let mut params = job.params.payload();
        for round in 0..=most {
            // That a page was visited may be told together with the error that wants it.
            let events = visits.then(|| self.ear.events.subscribe());
            params = match self.exchange(live, job, params).await {
                Ok(Decoded::Complete(payload)) => return Ok(Performed { payload, answered: round > 0 }),
                Ok(Decoded::Task) => {
                    return Err(CallError::answered(job.subject(), CallErrorKind::UnexpectedTask));
                }
                // Nobody is asked for what would not be sent any more.
                Ok(Decoded::Input(_)) if round == most => return Err(too_many()),
                Ok(Decoded::Input(required)) => self.answer(job, *required, round).await?,
                Err(error) => {
                    let error = if round > 0 { error.begun() } else { error };
                    self.visit_pages(job, error, events.filter(|_| round < most)).await?;
                    job.params.payload()
                }
            };
        }
        Err(too_many())
    }

    /// Answers everything that a round asks, and makes of it the parameters of the next.
    async fn answer(&self, job: &Job, required: InputRequired, round: usize) -> Result<Payload, CallError> {
        let questions = required.input_requests.unwrap_or_default();
        if questions.len() > MOST_QUESTIONS {
            let reason = format!("{} more at once, where {MOST_QUESTIONS} are answered", questions.len() - 1);
            let method = questions.values().next().map(|question| question.method()).unwrap_or_default().to_owned();
            return Err(CallError::answered(job.subject(), CallErrorKind::Question { method, reason }));
        }
        if questions.is_empty() {
            // "Come back later" means later.
            let pause = Duration::from_millis(50).saturating_mul(1 << round.min(6));
            tokio::time::sleep(pause).await;
        }
        let answers = questions.into_iter().map(|(key, question)| {
            let answering = self.ear.answers.clone();
            async move { (key, answering.answer(question).await) }
        });
        let mut responses = Object::new();
        for (key, answer) in join_all(answers.collect()).await {
            let answer = answer.map_err(|none| {
                let kind = CallErrorKind::Question { method: none.method().into(), reason: none.reason() };
                CallError::answered(job.subject(), kind)
            })?;
            responses.insert_raw(&key, &answer);
        }
        let unwritable = |error: turms_proto::EncodeError| {
            CallError::not_sent(job.subject(), CallErrorKind::Unwritable(error.to_string()))
        };
        let mut params = job.params.object().map_err(unwritable)?;
        params.insert_raw("inputResponses", &responses.into());
        match required.request_state {
            Some(state) => params.insert_raw("requestState", &RawJson::string(&state)),
            None => {
                params.remove("requestState");
            }
        }
        Ok(Payload::raw(params.into()))
    }

    /// A server of 2025-11-25 may want pages to be visited before it does what it is asked. Any other error stays one.
    async fn visit_pages(&self, job: &Job, error: CallError, events: Option<Events>) -> Result<(), CallError> {
        let required = error.server_error().and_then(raise_url_elicitation);
        let (Some(required), Some(mut events)) = (required, events) else { return Err(error) };
        let mut pages = required.input_requests.unwrap_or_default();
        for (_, page) in &mut pages {
            let question = page.clone();
            let answer = self.ear.answers.answer(question).await.map_err(|_| error.clone())?;
            let accepted = answer.member("action").is_some_and(|action| action.as_str() == "\"accept\"");
            if !accepted {
                return Err(error);
            }
        }
        let all_visited = async {
            while !pages.is_empty() {
                let visited = events.find(|event| match event {
                    Event::ElicitationComplete { id } => Some(id),
                    _ => None,
                });
                match visited.await {
                    Some(id) => pages.shift_remove(&id),
                    None => return false,
                };
            }
            true
        };
        let visited = match self.patience(&job.options) {
            Some(patience) => tokio::time::timeout(patience, all_visited).await.unwrap_or(false),
            None => all_visited.await,
        };
        if visited { Ok(()) } else { Err(error) }
    }

    /// One request and its answer.
    async fn exchange(&self, live: &Arc<Live>, job: &Job, params: Payload) -> Result<Decoded, CallError> {
        let request = self.outgoing(live, job, params)?;
        let answer = live.channel.request(request).await;
        match answer.map_err(|error| CallError::of_peer(job.subject(), error)) {
            Ok(payload) => {
                self.note_answer(live);
                self.look_twice(live, &payload).await;
                read(live, job, payload)
            }
            Err(error) => {
                if error.delivery() == Delivery::Answered {
                    self.note_answer(live);
                }
                Err(self.judge(live, job, error).await)
            }
        }
    }

    /// The revision was only remembered: an answer shows whether it is still the right one. Some older servers answer even
    /// without a handshake, but they do not say what kind of result it is.
    async fn look_twice(&self, live: &Arc<Live>, answer: &Payload) {
        if live.verified.load(Ordering::Relaxed) {
            return;
        }
        let kind = !live.version().has(Ability::ResultType);
        if kind || answer.as_raw().is_none_or(|raw| raw.member("resultType").is_some()) {
            live.verified.store(true, Ordering::Relaxed);
        } else {
            self.verify(live).await;
        }
    }

    /// What a failure on one connection means.
    async fn judge(&self, live: &Arc<Live>, job: &Job, error: CallError) -> CallError {
        if error.is_disconnected() && !error.is_unreachable() {
            let ended = tokio::time::timeout(LAST_WORDS, live.channel.closed()).await.unwrap_or_default();
            // Whoever tries again must not find this connection, even if nobody else has noticed yet.
            self.lost(live, ended.clone());
            return error.with_end(|| live.ended.get().cloned().unwrap_or(ended));
        }
        let invalid = matches!(error.kind(), CallErrorKind::Invalid(_));
        let doubtful = error.server_error().is_some() || error.is_timeout() || invalid;
        if doubtful && !live.verified.load(Ordering::Relaxed) && &*job.method != Discover::NAME {
            self.verify(live).await;
        }
        error
    }

    /// The revision was only remembered, and the first call has failed: see whether it is still the right one.
    async fn verify(&self, live: &Arc<Live>) {
        let options = RequestOptions::default().timeout(self.settings.probe_timeout);
        let probe = Outgoing::new(ByteString::from_static(Discover::NAME), Payload::new(EmptyParams::new()));
        let probe = probe.meta(lock(&live.meta).clone()).options(options);
        let answer = live.channel.request(probe).await;
        // Trouble on the way says nothing about what the server speaks. Silence does so on a pipe, but not over HTTP.
        let says_nothing = match &answer {
            Err(PeerError::Unreachable { .. } | PeerError::Unauthorized(_)) => true,
            Err(PeerError::Request(RequestError::TimedOut(_))) => !live.channel.is_ordered(),
            _ => false,
        };
        if says_nothing {
            return;
        }
        if answer.ok().and_then(|found| found.take::<DiscoverResult>().ok()).is_none() {
            if let Some(server) = self.connector.identity() {
                self.settings.memory.forget(&server);
            }
            live.mistaken.store(true, Ordering::Relaxed);
            self.abandon(live, "does not speak the revision that it did before");
        }
        live.verified.store(true, Ordering::Relaxed);
    }

    fn outgoing(&self, live: &Arc<Live>, job: &Job, mut params: Payload) -> Result<Outgoing, CallError> {
        let version = live.version();
        if method_info(&job.method).is_some_and(|method| !method.is_defined_in(version)) {
            let what = job.method.to_string();
            return Err(CallError::not_sent(job.subject(), CallErrorKind::NotInRevision { what, version }));
        }
        if !version.has(Ability::Stateless) {
            params
                .lower_params(&job.method, version)
                .map_err(|error| CallError::not_sent(job.subject(), CallErrorKind::Unwritable(error.to_string())))?;
        }
        let mut meta = lock(&live.meta).clone();
        if let Some(own) = &job.options.meta {
            meta.get_or_insert_default().extend(own);
        }
        let mut options = job.options.timeout.options(self.settings.timeout);
        let wanted = self.ear.on_progress.is_some() && &*job.method == CallTool::NAME;
        let updates = (job.options.on_progress.is_some() || wanted).then(|| self.progress_updates(job));
        options.progress = updates.is_some();
        Ok(Outgoing::new(job.method.clone(), params).meta(meta).options(options).updates(updates))
    }

    fn progress_updates(&self, job: &Job) -> Updates {
        let (ear, own) = (self.ear.clone(), job.options.on_progress.clone());
        Arc::new(move |update| {
            if let Update::Progress(params) = update {
                if let Some(heard) = &own {
                    heard(&params);
                }
                ear.hear_progress(params);
            }
        })
    }

    /// Whether a server takes batches. Where the revision has them, every server must; but those on the official SDKs drop
    /// them without a word. So a batch of pings is followed by a ping, and if that is answered first, the batch was dropped.
    async fn takes_batches(&self, live: &Live) -> bool {
        if !live.version().has(Ability::Batching) {
            return false;
        }
        let options = RequestOptions::default().timeout(self.settings.timeout);
        let ping =
            || Outgoing::new(ByteString::from_static(Ping::NAME), Payload::new(EmptyParams::new())).options(options);
        let find_out = async || {
            if !live.channel.is_ordered() {
                return live.channel.batch(vec![ping(), ping()]).await.iter().all(Result::is_ok);
            }
            tokio::select! {
                biased;
                answers = live.channel.batch(vec![ping(), ping()]) => answers.iter().all(Result::is_ok),
                _ = live.channel.request(ping()) => false,
            }
        };
        *live.batches.get_or_init(find_out).await
    }

    async fn tell(&self, notification: Notification) -> Result<(), CallError> {
        let subject = notification.method.to_string();
        let live = self.live(subject.as_str(), Some(self.settings.timeout)).await?;
        live.channel.notify(notification).await.map_err(|error| CallError::of_peer(subject, error))
    }

    /// Does something that is more than one request, for as long as its options allow.
    async fn within<T>(
        &self,
        subject: &str,
        options: &CallOptions,
        work: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let cancel = options.cancel.clone().unwrap_or_default();
        if cancel.is_cancelled() {
            return Err(CallError::not_sent(subject, CallErrorKind::Cancelled));
        }
        let given_up = |kind| Err(CallError::new(subject, kind, Delivery::Unknown));
        let patience = options.timeout.options(self.settings.timeout).timeout;
        let patiently = async {
            match patience {
                Some(patience) => tokio::time::timeout(patience, work)
                    .await
                    .unwrap_or_else(|_| given_up(CallErrorKind::TimedOut(patience))),
                None => work.await,
            }
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => given_up(CallErrorKind::Cancelled),
            outcome = patiently => outcome,
        }
    }
}

impl Engine for Single {
    fn perform(&self, job: Job) -> BoxFuture<'_, Result<Performed, CallError>> {
        Box::pin(async move {
            let cancel = job.options.cancel.clone();
            self.pending.track(&job, cancel, self.attempt(&job)).await
        })
    }

    fn perform_all(&self, jobs: Vec<Job>) -> BoxFuture<'_, Vec<Result<Performed, CallError>>> {
        Box::pin(async move {
            let live = match self.live_now() {
                Some(live) if jobs.len() > 1 && self.takes_batches(&live).await => live,
                _ => return join_all(jobs.into_iter().map(|job| self.perform(job)).collect()).await,
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
            let given_up = registered.iter().map(|call| Box::pin(call.cancel.cancelled())).collect();
            let answers = tokio::select! {
                biased;
                // They travel together: the server is told when all of them are given up.
                _ = join_all(given_up) => Vec::new(),
                answers = live.channel.batch(requests) => answers,
            };
            let mut answers = answers.into_iter();
            let outcomes = outcomes.into_iter().zip(jobs.iter().zip(&registered)).map(|(outcome, (job, call))| {
                outcome.unwrap_or_else(|| {
                    let answer = answers.next().unwrap_or(Err(PeerError::Closed));
                    if call.cancel.is_cancelled() {
                        let (kind, delivery) = (CallErrorKind::Cancelled, Delivery::Unknown);
                        return Err(CallError::new(job.subject(), kind, delivery));
                    }
                    match read(&live, job, answer.map_err(|error| CallError::of_peer(job.subject(), error))?)? {
                        Decoded::Complete(payload) => Ok(Performed { payload, answered: false }),
                        _ => Err(CallError::answered(job.subject(), CallErrorKind::UnexpectedTask)),
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
                    Err(error) if matches!(error.kind(), CallErrorKind::NotInRevision { .. }) => {}
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
            *lock(&self.log_level) = Some(level);
            let live = self.live(SetLevel::NAME, Some(self.settings.timeout)).await?;
            if live.version().has(Ability::SessionLogLevel) {
                self.perform(Job::new::<SetLevel>(SetLevelParams::new(level), options)).await?;
            } else {
                *lock(&live.meta) = self.request_meta(live.opened.dialect);
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
        lock(&self.meta).clone()
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("generation", &self.generation).finish_non_exhaustive()
    }
}

/// A connection that is being opened or ended, until this is dropped.
struct Moving(watch::Sender<usize>);

impl Moving {
    fn new(moving: &watch::Sender<usize>) -> Self {
        moving.send_modify(|moving| *moving += 1);
        Self(moving.clone())
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.0.send_modify(|moving| *moving -= 1);
    }
}

/// What may become of a call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// It has not even been understood: once more, as if nothing had happened.
    Anew,
    /// It came too late for its session, and there is another: once more, but not again and again.
    Renewed,
    /// Once more if that is safe.
    Perhaps,
}

/// A call that the breaker wants to hear of.
struct Trial<'a> {
    single: &'a Single,
    undecided: bool,
}

impl Trial<'_> {
    fn end(mut self, error: Option<&CallError>) {
        self.undecided = false;
        let Some(breaker) = &self.single.breaker else { return };
        let failed = error.is_some_and(|error| error.is_disconnected() || error.is_timeout());
        if let Some(state) = breaker.note(!failed) {
            self.single.ear.events.publish(&Event::Breaker(state));
        }
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        if let Some(breaker) = self.single.breaker.as_ref().filter(|_| self.undecided) {
            breaker.try_again();
        }
    }
}

fn read(live: &Live, job: &Job, payload: Payload) -> Result<Decoded, CallError> {
    let invalid = |error| CallError::answered(job.subject(), CallErrorKind::Invalid(error));
    (job.decode)(payload, live.version()).map_err(invalid)
}

fn supervision(settings: &Settings) -> Option<&Supervision> {
    settings.supervision.as_ref()
}

async fn closed(link: &mut watch::Receiver<Link>) {
    let _ = link.wait_for(|link| matches!(link, Link::Closed(_))).await;
}

/// Sees the end of a connection.
async fn watch_connection(me: Weak<Single>, live: Arc<Live>, mut link: watch::Receiver<Link>) {
    let watched = async {
        // How long it cannot be heard is seen here, where it is the channel that hears; where it is a request, by whoever
        // makes that.
        loop {
            let why = live.channel.unheard().await;
            let deaf = me.upgrade().map(|single| Deaf::new(&single, &live, &CallError::of_peer(Listen::NAME, why)));
            live.channel.heard().await;
            deaf.into_iter().for_each(Deaf::end);
        }
    };
    let ended = tokio::select! {
        ended = live.channel.closed() => ended,
        () = closed(&mut link) => return,
        () = watched => return,
    };
    if let Some(single) = me.upgrade() {
        single.lost(&live, ended);
    }
}

/// Opens another connection in place of a lost one; `last` is why there is none.
async fn reconnect(me: Weak<Single>, mut last: ConnectError) {
    loop {
        let Some(single) = me.upgrade() else { return };
        let attempt = single.attempts.fetch_add(1, Ordering::Relaxed) + 1;
        let Some(delay) = single.backoff_delay(attempt) else {
            return single.give_up(last);
        };
        single.ear.events.connection(ConnectionEvent::Reconnecting { attempt, delay });
        let mut link = single.link.subscribe();
        drop(single);
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = closed(&mut link) => return,
        }
        let Some(single) = me.upgrade() else { return };
        let _moving = Moving::new(&single.moving);
        let opened = tokio::select! {
            biased;
            () = closed(&mut link) => return,
            opened = single.open_again() => opened,
        };
        match opened {
            Ok(live) => return single.up(live),
            Err(error) => {
                tracing::debug!(target: "turms::client", %error, attempt, "could not reconnect");
                last = error.clone();
                single.ear.events.connection(ConnectionEvent::ConnectFailed(error));
            }
        }
    }
}

/// Asks a server now and then whether it is there.
async fn watch_health(me: Weak<Single>, live: Arc<Live>, check: crate::HealthCheck) {
    let mut failures = 0;
    loop {
        tokio::select! {
            () = tokio::time::sleep(check.every) => {}
            _ = live.channel.closed() => return,
        }
        let options = RequestOptions::default().timeout(check.timeout);
        let method = if live.version().has(Ability::Ping) { Ping::NAME } else { Discover::NAME };
        let probe = Outgoing::new(ByteString::from_static(method), Payload::new(EmptyParams::new()));
        let answered = live.channel.request(probe.meta(live.meta()).options(options)).await;
        let Some(single) = me.upgrade() else { return };
        match answered {
            Err(PeerError::Request(RequestError::TimedOut(_)) | PeerError::Unreachable { .. }) => {
                failures += 1;
                single.ear.events.publish(&Event::Unhealthy { failures });
                if failures >= check.failures {
                    return single.abandon(&live, "did not answer its health checks");
                }
            }
            // Whoever watches the connection says how it ended.
            Err(PeerError::Closed | PeerError::Session(_) | PeerError::Request(RequestError::Closed)) => return,
            // An error is an answer, too.
            Ok(_) | Err(_) => {
                if std::mem::take(&mut failures) > 0 {
                    single.ear.events.publish(&Event::Healthy);
                }
            }
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
