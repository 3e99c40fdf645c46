//! Opening connections, losing them, and making everything anew.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytestring::ByteString;
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::{OnceCell, watch};
use tokio::time::Instant;
use turms_core::{ConnectError, Connector, Ended, Established, Outgoing, Payload, PeerError};
use turms_proto::method::{Method, Notification as NotificationMethod};
use turms_proto::revision::{Translate as _, newest_common};
use turms_proto::session::{ClientOptions, Dialect, Opened, RequestError, RequestOptions, VersionChoice};
use turms_proto::types::{
    Discover, EmptyParams, Listen, Meta, Ping, RequestMeta, ResourceParams, RootsListChanged, SetLevel, SetLevelParams,
    Subscribe,
};
use turms_proto::{Ability, Notification, ProtocolVersion};

use super::{LASTING, Link, Live, Settings, Single};
use crate::cache::Changed;
use crate::call::error::CallError;
use crate::ear::Ear;
use crate::event::{ConnectionEvent, Event};
use crate::hearing::{Deaf, Hearing};
use crate::listen::Managed;
use crate::supervision::{BreakerSwitch, RetryBudget, Supervision};

/// How long to wait for news of how a server ended, once its connection has.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(500);

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
            pending: Arc::default(),
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
        // What a server tells of itself may differ by caller: without a handshake it is asked, unless everyone may reuse the answer.
        let known = known.filter(|known| known.server.is_some() || known.dialect.version().has(Ability::Handshake));
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
        let unbound = self.settings.choice == VersionChoice::Auto || opened.dialect.version().is_latest();
        // Nor does a revision that it speaks only because it started too slowly for the probe.
        let theirs = opened.server.iter().flat_map(|server| &server.supported_versions).map(String::as_str);
        let newest = newest_common(theirs, &ours).is_none_or(|newest| newest == opened.dialect.version());
        if let Some(server) = identity.filter(|_| unbound && newest && verified) {
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

    pub(super) fn request_meta(&self, dialect: Dialect) -> Option<Meta> {
        let Dialect::Stateless(version) = dialect else { return None };
        let mut capabilities = self.settings.capabilities.clone();
        capabilities.lower(version);
        let mut meta = RequestMeta::new()
            .protocol_version(version.as_str())
            .client_capabilities(capabilities)
            .client_info(self.settings.info.clone());
        meta.log_level = *self.log_level.lock();
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
    pub(super) fn lost(&self, live: &Live, ended: Ended) {
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
    pub(super) fn note_answer(&self, live: &Live) {
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
    pub(super) fn abandon(&self, live: &Live, why: &str) {
        self.lost(live, Ended::new().how(why));
    }

    /// Ends a connection, and whatever is at the other end of it. Whoever closes the client waits for that.
    pub(super) fn send_away(&self, live: &Live) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (channel, moving) = (live.channel.clone(), Moving::new(&self.moving));
            runtime.spawn(async move {
                channel.close().await;
                drop(moving);
            });
        }
    }

    /// Ends everything; the connection that was open until now, if one was.
    pub(super) fn end(&self) -> Option<Arc<Live>> {
        match self.link.send_replace(Link::Closed(None)) {
            Link::Up(live) => Some(live),
            _ => None,
        }
    }

    /// Makes anew what a lost connection had: the log level, the watched resources. Listening makes itself anew.
    async fn restore(&self, live: &Arc<Live>) {
        self.ear.forget_all();
        let version = live.version();
        let level = *self.log_level.lock();
        let logs = live.server().is_none_or(|server| server.capabilities.logging.is_some());
        if let Some(level) = level.filter(|_| logs && version.has(Ability::SessionLogLevel)) {
            self.restore_one::<SetLevel>(live, SetLevelParams::new(level)).await;
        }
        if !version.has(Ability::ListenStreams) {
            // A server may be of another revision than it was.
            let watched = self.managed.watched().into_iter();
            join_all(watched.map(|uri| self.restore_one::<Subscribe>(live, ResourceParams::new(uri)))).await;
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

pub(super) fn supervision(settings: &Settings) -> Option<&Supervision> {
    settings.supervision.as_ref()
}

pub(super) async fn closed(link: &mut watch::Receiver<Link>) {
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
