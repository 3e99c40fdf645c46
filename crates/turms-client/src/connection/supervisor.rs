use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use turms_core::{CloseInfo, ConnectError, OutgoingRequest, Payload, PeerError};
use turms_proto::method::{Method as _, NotificationMethod};
use turms_proto::session::{ConnectionStatus, RequestOptions};
use turms_proto::types::{Discover, EmptyParams, Ping, RootsListChangedNotification};
use turms_proto::{Ability, MethodName, Notification};

use super::open::open;
use super::state::{Connected, ConnectionState, ServerShared};
use super::stream_health::watch_inbound;
use crate::event::{ConnectionEvent, Event};
use crate::layer::cache::Changed;
use crate::reconnect::HealthCheck;
use crate::subscription;

/// Minimum duration of a connection that counts as working. After it, the backoff starts again from its first delay.
pub(crate) const MIN_UPTIME: Duration = Duration::from_secs(10);

/// The task that owns the connection to one server: connects, monitors, reconnects and restores its state. It publishes
/// the state. It ends on shutdown, or when the connection is lost and is not reconnected.
pub(crate) struct Supervisor {
    shared: Arc<ServerShared>,
    generation: u64,
    /// Number of reconnect attempts since a connection last worked.
    attempts: u32,
    roots: Option<watch::Receiver<u64>>,
}

impl Supervisor {
    /// Starts the task. The receiver gets the result of the first connection; an error is final. Until the deadline,
    /// the first connection is retried with the same backoff as later ones.
    pub(crate) fn spawn(
        shared: &Arc<ServerShared>,
        deadline: Option<Instant>,
    ) -> oneshot::Receiver<Result<(), ConnectError>> {
        let (first, connected) = oneshot::channel();
        let roots = shared.incoming.handlers.shared_roots().map(|roots| roots.changes());
        let supervisor = Self { shared: shared.clone(), generation: 0, attempts: 0, roots };
        shared.tasks.spawn(supervisor.run(first, deadline));
        connected
    }

    async fn run(mut self, first: oneshot::Sender<Result<(), ConnectError>>, deadline: Option<Instant>) {
        let mut connected = match self.connect(deadline).await {
            None => return self.shut_down(),
            Some(Err(error)) => {
                self.end(Some(error.clone()));
                let _ = first.send(Err(error));
                return;
            }
            Some(Ok(connected)) => connected,
        };
        self.publish_ready(&connected);
        let _ = first.send(Ok(()));
        // Lets the caller subscribe to events before the first is sent.
        tokio::task::yield_now().await;
        loop {
            let Some(reason) = self.watch(&connected).await else {
                self.shut_down();
                return connected.control.close().await;
            };
            let reconnects = self.lost(&connected, &reason);
            // The end of a session is usually noticed by a call, which waits for the next one.
            let is_background = !reason.renewable;
            drop(connected);
            if !reconnects {
                self.report(ConnectionEvent::Closed);
                return self.shut_down();
            }
            connected = match self.reconnect(ConnectError::Lost(reason), is_background).await {
                Some(connected) => connected,
                None => return,
            };
            self.publish_ready(&connected);
        }
    }

    /// Opens the first connection; `None` on shutdown. An error that a retry cannot fix is final.
    async fn connect(&mut self, deadline: Option<Instant>) -> Option<Result<Arc<Connected>, ConnectError>> {
        loop {
            let error = match self.open(false).await? {
                Ok(connected) => return Some(Ok(connected)),
                Err(error) => error,
            };
            let repeats = self.shared.reconnects() && self.shared.connector.is_repeatable() && error.is_transient();
            // The failed attempt was attempt 1.
            self.attempts = self.attempts.max(1) + 1;
            let delay = self.delay(self.attempts).filter(|_| repeats);
            let pauses = self.shared.pauses.total();
            let is_late = |delay| deadline.is_some_and(|deadline| Instant::now() + delay > deadline + pauses);
            let Some(delay) = delay.filter(|delay| !is_late(*delay)) else { return Some(Err(error)) };
            self.report(ConnectionEvent::ConnectFailed(error));
            self.wait(delay).await?;
        }
    }

    /// Waits before the next attempt; `None` on shutdown.
    async fn wait(&self, delay: Duration) -> Option<()> {
        self.shared.set_connecting(ConnectionStatus::Disconnected);
        self.report(ConnectionEvent::Reconnecting { attempt: self.attempts, delay });
        self.shared.shutdown.run_until_cancelled(tokio::time::sleep(delay)).await
    }

    /// Opens the next connection; `None` on shutdown.
    async fn open(&mut self, is_background: bool) -> Option<Result<Arc<Connected>, ConnectError>> {
        self.generation += 1;
        self.shared.set_connecting(ConnectionStatus::Connecting);
        // The server of the new connection gets the current roots, so earlier changes need no notification.
        self.roots.iter_mut().for_each(watch::Receiver::mark_unchanged);
        let shutdown = self.shared.shutdown.clone();
        let opened = shutdown.run_until_cancelled(open(&self.shared, self.generation, is_background)).await?;
        if opened.is_err() {
            self.generation -= 1;
        }
        Some(opened)
    }

    fn publish_ready(&mut self, connected: &Arc<Connected>) {
        let (version, generation) = (connected.version(), connected.generation);
        self.shared.state.send_replace(ConnectionState::Ready(connected.clone()));
        self.report(ConnectionEvent::Connected { version, generation });
        subscription::resume(&self.shared);
    }

    /// Monitors a connection until it is lost; `None` on shutdown.
    async fn watch(&mut self, connected: &Arc<Connected>) -> Option<CloseInfo> {
        let check = self.shared.settings.health_check.as_ref();
        tokio::select! {
            biased;
            () = self.shared.shutdown.cancelled() => None,
            reason = connected.lost.wait() => Some(reason.clone()),
            reason = connected.control.closed() => Some(reason),
            reason = check_health(&self.shared, connected, check) => Some(reason),
            () = notify_roots(self.roots.as_mut(), connected) => None,
            () = watch_inbound(&self.shared, connected) => None,
        }
    }

    /// Publishes the loss of a connection. Returns `true` if the client reconnects.
    fn lost(&mut self, connected: &Connected, reason: &CloseInfo) -> bool {
        let _ = connected.lost.set(reason.clone());
        if !connected.is_verified() {
            // The revision came from the cache and was never confirmed, so it may be the reason.
            connected.set_wrong_version();
            self.shared.forget_version();
        }
        // An expired session is replaced by a new one (basic/transports of 2025-11-25, "Session Management").
        let needed = reason.renewable || connected.has_wrong_version();
        let reconnects = (self.shared.reconnects() || needed) && self.shared.connector.is_repeatable();
        let next = match reconnects {
            true => ConnectionState::Connecting(ConnectionStatus::Disconnected),
            false => ConnectionState::Closed(Some(ConnectError::Lost(reason.clone()))),
        };
        self.shared.end_connection(connected, next);
        tracing::debug!(target: "turms::client", %reason, "the connection was lost");
        self.shared.incoming.cache.invalidate(Changed::Everything);
        if !connected.streams.is_reported() {
            self.report(ConnectionEvent::Lost(reason.clone()));
        }
        let control = connected.control.clone();
        self.shared.tasks.spawn(async move { control.close().await });
        if connected.since.elapsed() >= MIN_UPTIME {
            self.attempts = 0;
        }
        reconnects
    }

    /// Opens another connection with backoff; `None` on shutdown, or after the last attempt failed. `error` is the
    /// reason of the reconnect.
    async fn reconnect(&mut self, mut error: ConnectError, is_background: bool) -> Option<Arc<Connected>> {
        loop {
            self.attempts += 1;
            let attempt = self.attempts;
            // Without other credentials, another attempt would fail as well.
            let is_final = matches!(error, ConnectError::Unauthorized { .. }) && !error.is_transient();
            let Some(delay) = self.delay(attempt).filter(|_| !is_final) else {
                self.end(Some(error));
                self.report(ConnectionEvent::ReconnectFailed);
                return None;
            };
            let opened = match self.wait(delay).await {
                Some(()) => self.open(is_background).await,
                None => None,
            };
            match opened {
                None => {
                    self.shut_down();
                    return None;
                }
                Some(Ok(connected)) => return Some(connected),
                Some(Err(failure)) => {
                    tracing::debug!(target: "turms::client", error = %failure, attempt, "could not reconnect");
                    self.report(ConnectionEvent::ConnectFailed(failure.clone()));
                    error = failure;
                }
            }
        }
    }

    /// Returns the delay before an attempt, counted from 1; `None` if there are no more attempts.
    fn delay(&self, attempt: u32) -> Option<Duration> {
        match &self.shared.settings.reconnect {
            Some(backoff) => backoff.delay(attempt),
            // Without `reconnect`, one attempt is made for an expired session or a wrong revision.
            None => (attempt == 1).then_some(Duration::ZERO),
        }
    }

    fn report(&self, event: ConnectionEvent) {
        self.shared.incoming.events.connection(event);
    }

    /// Publishes that the client is closed, and ends the event streams.
    fn shut_down(&self) {
        self.end(None);
        self.shared.incoming.events.close();
    }

    /// Publishes that the client is closed, unless it is closed already.
    fn end(&self, error: Option<ConnectError>) {
        self.shared.publish_closed(error);
    }
}

/// Runs also if the runtime drops the task, so that no call waits forever for the connection.
impl Drop for Supervisor {
    fn drop(&mut self) {
        self.end(None);
        self.shared.shutdown.cancel();
    }
}

/// Sends pings. Returns the reason to close the connection when too many have failed; never without health checks.
async fn check_health(shared: &ServerShared, connected: &Connected, check: Option<&HealthCheck>) -> CloseInfo {
    let Some(check) = check else { return std::future::pending().await };
    let mut failures = 0;
    loop {
        tokio::time::sleep(check.interval).await;
        let options = RequestOptions::default().timeout(check.timeout);
        let method = if connected.version().has(Ability::Ping) { Ping::NAME } else { Discover::NAME };
        let probe = OutgoingRequest::new(MethodName::from_static(method), Payload::new(EmptyParams::new()));
        match connected.channel.call_in_time(probe.meta(connected.metadata()).options(options).background()).await {
            Err(PeerError::TimedOut(_) | PeerError::Unreachable { .. }) => {
                failures += 1;
                shared.incoming.events.publish(&Event::Unhealthy { failures });
                if failures >= check.max_failures {
                    return CloseInfo::new().how("did not respond to health checks");
                }
            }
            // The connection closed: the channel reports the reason.
            Err(PeerError::Closed | PeerError::ClosedBeforeResponse) => {
                return std::future::pending().await;
            }
            // An error response also shows that the server is alive.
            Ok(_) | Err(_) => {
                if std::mem::take(&mut failures) > 0 {
                    shared.incoming.events.publish(&Event::Healthy);
                }
            }
        }
    }
}

/// Notifies the server of changed roots, in revisions that have this notification. Never returns.
async fn notify_roots(roots: Option<&mut watch::Receiver<u64>>, connected: &Connected) {
    let Some(roots) = roots.filter(|_| connected.version().has(Ability::RootsListChanged)) else {
        return std::future::pending().await;
    };
    while roots.changed().await.is_ok() {
        let changed = Notification::raw(MethodName::from_static(RootsListChangedNotification::NAME), None);
        let _ = connected.channel.notify(changed).await;
    }
    std::future::pending().await
}
