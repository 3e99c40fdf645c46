use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OnceCell, SetOnce, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use turms_core::{CallClock, Channel, ChannelControl, ClockPauses, CloseInfo, ConnectError, Connector, OpenChannel};
use turms_proto::ProtocolVersion;
use turms_proto::revision::Translate as _;
use turms_proto::session::{ConnectionStats, ConnectionStatus, Dialect, Negotiated, VersionChoice};
use turms_proto::types::{ClientCapabilities, DiscoverResult, Implementation, Meta, RequestMeta};

use super::stream_health::StreamHealth;
use crate::call::CallError;
use crate::call::error::Recovery;
use crate::call::options::{CallTimeouts, Options};
use crate::incoming::IncomingHandler;
use crate::reconnect::{Backoff, CircuitBreaker, HealthCheck, RetryPolicy};
use crate::state::ClientStats;
use crate::subscription::{DesiredState, ListenStreams};
use crate::version_cache::VersionCache;

/// The settings of a client for one server.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) info: Implementation,
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) choice: VersionChoice,
    pub(crate) probe_timeout: Duration,
    pub(crate) handshake_timeout: Duration,
    pub(crate) timeouts: CallTimeouts,
    pub(crate) max_input_rounds: usize,
    pub(crate) max_validation_steps: u64,
    pub(crate) caching: bool,
    pub(crate) log_level: Option<turms_proto::types::LoggingLevel>,
    pub(crate) reconnect: Option<Backoff>,
    /// Has an effect only if `reconnect` is set.
    pub(crate) retry: Option<RetryPolicy>,
    pub(crate) health_check: Option<HealthCheck>,
    pub(crate) circuit_breaker: Option<CircuitBreaker>,
    pub(crate) version_cache: VersionCache,
}

/// The state of the connection to one server, published by the [`Supervisor`](super::supervisor::Supervisor).
#[derive(Debug, Clone)]
pub(crate) enum ConnectionState {
    /// Disconnected, connecting or initializing.
    Connecting(ConnectionStatus),
    Ready(Arc<Connected>),
    /// Closed permanently: `None` if this client closed it, otherwise the error.
    Closed(Option<ConnectError>),
}

impl ConnectionState {
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self, Self::Closed(_))
    }

    /// Returns the connection; `None` also if it is marked as lost and the supervisor has not yet reacted.
    pub(crate) fn connected(&self) -> Option<&Arc<Connected>> {
        match self {
            Self::Ready(connected) => Some(connected).filter(|connected| connected.lost.get().is_none()),
            Self::Connecting(_) | Self::Closed(_) => None,
        }
    }
}

/// The state shared by the layers, the supervisor and the tasks of one server. Holding it does not keep the client
/// open: that is done by a drop guard of `shutdown` in the client handles.
pub(crate) struct ServerShared {
    pub(crate) settings: Settings,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) incoming: Arc<IncomingHandler>,
    pub(crate) state: watch::Sender<ConnectionState>,
    pub(crate) desired: DesiredState,
    pub(crate) listen_streams: ListenStreams,
    /// Notified when the server responds while its notification stream is broken.
    pub(crate) responded: Notify,
    /// Pauses the timeouts of calls that wait for the connection, while the authorizer of the connector works.
    pub(crate) pauses: ClockPauses,
    pub(crate) shutdown: CancellationToken,
    /// The sum of the counters of all connections that have ended.
    ended_stats: Mutex<ConnectionStats>,
    /// The tasks of the supervisor and of connections that are being closed.
    pub(crate) tasks: TaskTracker,
}

impl ServerShared {
    pub(crate) fn new(settings: Settings, connector: Arc<dyn Connector>, incoming: Arc<IncomingHandler>) -> Arc<Self> {
        Arc::new(Self {
            desired: DesiredState::new(settings.log_level),
            listen_streams: ListenStreams::default(),
            settings,
            connector,
            incoming,
            state: watch::Sender::new(ConnectionState::Connecting(ConnectionStatus::Connecting)),
            responded: Notify::new(),
            pauses: ClockPauses::new(),
            ended_stats: Mutex::default(),
            shutdown: CancellationToken::new(),
            tasks: TaskTracker::new(),
        })
    }

    /// Returns the current connection, if there is one.
    pub(crate) fn current(&self) -> Option<Arc<Connected>> {
        self.state.borrow().connected().cloned()
    }

    /// Returns the connection. Waits while the supervisor is connecting, up to the timeout.
    pub(crate) async fn ready(
        &self,
        target: impl fmt::Display + Send,
        timeout: Option<Duration>,
    ) -> Result<Arc<Connected>, CallError> {
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| state.is_closed() || state.connected().is_some());
        let cause = match self.wait_connecting(timeout, settled).await {
            Some(Ok(state)) => match &*state {
                ConnectionState::Ready(connected) => return Ok(connected.clone()),
                ConnectionState::Closed(error) => error.clone(),
                ConnectionState::Connecting(_) => None,
            },
            _ => None,
        };
        Err(CallError::not_connected(target, cause).with_recovery(Recovery::DoNotRetry))
    }

    /// Runs a future that waits for the connection. Returns `None` after the timeout, which is paused while the authorizer
    /// of the connector works.
    pub(crate) async fn wait_connecting<F: Future>(&self, timeout: Option<Duration>, work: F) -> Option<F::Output> {
        let clock = CallClock::new(timeout, None);
        clock.run(self.pauses.follow(std::slice::from_ref(&clock), work)).await.ok()
    }

    /// Publishes the progress of connecting.
    pub(super) fn set_connecting(&self, status: ConnectionStatus) {
        self.state.send_if_modified(|state| match state {
            ConnectionState::Connecting(current) if *current != status => {
                *current = status;
                true
            }
            _ => false,
        });
    }

    pub(crate) fn stats(&self) -> ClientStats {
        let mut lifetime = *self.ended_stats.lock();
        let state = self.state.borrow();
        let connection = match &*state {
            ConnectionState::Ready(connected) => connected.control.stats(),
            _ => ConnectionStats::default(),
        };
        lifetime += connection;
        ClientStats { connection, lifetime }
    }

    /// Publishes that the client is closed, unless it is closed already.
    pub(crate) fn publish_closed(&self, error: Option<ConnectError>) {
        self.state.send_if_modified(|state| {
            if state.is_closed() {
                return false;
            }
            if let ConnectionState::Ready(connected) = state {
                *self.ended_stats.lock() += connected.control.stats();
            }
            *state = ConnectionState::Closed(error);
            true
        });
    }

    /// Adds the counters of a connection that has ended, and replaces the state.
    pub(super) fn end_connection(&self, connected: &Connected, state: ConnectionState) {
        *self.ended_stats.lock() += connected.control.stats();
        self.state.send_replace(state);
    }

    pub(crate) fn reconnects(&self) -> bool {
        self.settings.reconnect.is_some()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.borrow().is_closed()
    }

    /// Returns the timeout for waits other than for a response, such as for a connection.
    pub(crate) fn wait_time(&self, options: &Options) -> Option<Duration> {
        self.settings.timeouts.wait(options)
    }

    /// Marks a connection as lost, and waits until the supervisor has replaced the state, so that a retry does not use
    /// it.
    pub(crate) async fn mark_lost(&self, connected: &Connected, reason: CloseInfo) {
        let _ = connected.lost.set(reason);
        let is_other = |state: &ConnectionState| match state {
            ConnectionState::Ready(current) => current.generation != connected.generation,
            ConnectionState::Connecting(_) | ConnectionState::Closed(_) => true,
        };
        let _ = self.state.subscribe().wait_for(is_other).await;
    }

    /// Removes the cached protocol revision of the server, because it was wrong.
    pub(crate) fn forget_version(&self) {
        if let Some(server) = self.connector.identity() {
            self.settings.version_cache.forget(&server);
        }
    }

    /// Returns the metadata that every request has since 2026-07-28; `None` in revisions with a handshake.
    pub(crate) fn request_metadata(&self, dialect: Dialect) -> Option<Meta> {
        let Dialect::Stateless(version) = dialect else { return None };
        let mut capabilities = self.settings.capabilities.clone();
        capabilities.lower(version);
        let mut meta = RequestMeta::new()
            .protocol_version(version.as_str())
            .client_capabilities(capabilities)
            .client_info(self.settings.info.clone());
        meta.log_level = self.desired.log_level();
        Some(Meta::from(&meta))
    }
}

/// An open connection.
pub(crate) struct Connected {
    pub(crate) channel: Arc<dyn Channel>,
    pub(crate) control: Arc<dyn ChannelControl>,
    pub(crate) negotiated: Arc<Negotiated>,
    /// The number of the connection, starting at 1.
    pub(crate) generation: u64,
    pub(crate) since: Instant,
    /// The metadata of every request; `None` in revisions with a handshake.
    metadata: Mutex<Option<Meta>>,
    /// `true` once the server has confirmed the cached protocol revision.
    verified: AtomicBool,
    /// `true` if the server has rejected the cached protocol revision.
    wrong_version: AtomicBool,
    /// `true` if the server accepts batches. Determined before the first batch.
    pub(super) batches: OnceCell<bool>,
    /// The reason of the loss. Set by the call or the supervisor that notices it first.
    pub(crate) lost: SetOnce<CloseInfo>,
    pub(crate) streams: StreamHealth,
}

impl Connected {
    pub(super) fn new(
        OpenChannel { channel, control, .. }: OpenChannel,
        negotiated: Arc<Negotiated>,
        generation: u64,
        verified: bool,
        metadata: Option<Meta>,
    ) -> Self {
        Self {
            channel,
            control,
            negotiated,
            generation,
            since: Instant::now(),
            metadata: Mutex::new(metadata),
            verified: AtomicBool::new(verified),
            wrong_version: AtomicBool::new(false),
            batches: OnceCell::new(),
            lost: SetOnce::new(),
            streams: StreamHealth::default(),
        }
    }

    pub(crate) fn version(&self) -> ProtocolVersion {
        self.negotiated.dialect.version()
    }

    pub(crate) fn server(&self) -> Option<&DiscoverResult> {
        self.negotiated.server.as_ref()
    }

    pub(crate) fn metadata(&self) -> Option<Meta> {
        self.metadata.lock().clone()
    }

    pub(crate) fn set_metadata(&self, metadata: Option<Meta>) {
        *self.metadata.lock() = metadata;
    }

    pub(super) fn is_verified(&self) -> bool {
        self.verified.load(Ordering::Relaxed)
    }

    pub(super) fn set_verified(&self) {
        self.verified.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_wrong_version(&self) -> bool {
        self.wrong_version.load(Ordering::Relaxed)
    }

    pub(super) fn set_wrong_version(&self) {
        self.wrong_version.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for Connected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connected").field("generation", &self.generation).finish_non_exhaustive()
    }
}
