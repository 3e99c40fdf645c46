//! A channel to a service in this process, without encoding.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll, Waker};

use futures_util::future::join_all;
use tokio::sync::watch;
use turms_proto::method::{Method, NotificationMethod};
use turms_proto::revision::{discover_of_initialize, initialize_of_meta, newest_common};
use turms_proto::session::{ConnectionStats, Dialect, Negotiated, OpenError, RelatedRequest, RequestOptions};
use turms_proto::types::{
    Discover, DiscoverResult, EmptyParams, Initialize, InitializeResult, InitializedNotification, Meta, RequestMeta,
    key,
};
use turms_proto::{Ability, MethodName, Notification, ProtocolVersion, RawJson, RequestId};

use crate::channel::{
    Channel, ChannelControl, CloseInfo, ConnectContext, ConnectError, Connector, ObservedCall, OpenChannel,
    OutgoingRequest,
};
use crate::clock::CallClock;
use crate::context::CallContext;
use crate::counters::Counters;
use crate::dispatch::{Dispatch, dispatch, dispatch_in_process, dispatch_notification, notification_guard};
use crate::panic_guard::PanicGuard;
use crate::payload::Payload;
use crate::peer::{BoxFuture, Peer, PeerError, PeerTransport};
use crate::service::{CallResult, NotifyFuture, Request, Service};
use crate::service_error::ServiceError;
use crate::session::{CloseReason, SessionHandle};

/// Connects a client to a service in this process.
///
/// They use the newest common revision. In 2026-07-28 a call is a function call, and nothing is encoded as JSON.
pub struct LocalConnector {
    service: Arc<dyn Service>,
}

impl LocalConnector {
    /// Creates a connector to a service.
    pub fn new(service: impl Service) -> Self {
        Self { service: Arc::new(service) }
    }
}

impl fmt::Debug for LocalConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalConnector").finish_non_exhaustive()
    }
}

impl Connector for LocalConnector {
    fn connect(&self, cx: ConnectContext) -> BoxFuture<'_, Result<OpenChannel, ConnectError>> {
        Box::pin(async move {
            cx.initializing();
            let ConnectContext { client, incoming: service, .. } = cx;
            let newest = Dialect::Stateless(ProtocolVersion::LATEST);
            let channel = LocalChannel::new(&self.service, service.clone(), newest);
            let meta = RequestMeta::new()
                .protocol_version(ProtocolVersion::LATEST.as_str())
                .client_capabilities(client.capabilities)
                .client_info(client.info);
            let server = channel.discover(&meta).await;
            let version = common_version(server.as_ref(), &client.choice.versions())?;
            if version.has(Ability::Stateless) {
                return Ok(OpenChannel::of(Arc::new(channel), Arc::new(Negotiated::new(newest, server))));
            }
            let dialect = Dialect::Handshake(version);
            let channel = LocalChannel::new(&self.service, service, dialect);
            let server = channel.initialize(&meta).await?;
            Ok(OpenChannel::of(Arc::new(channel), Arc::new(Negotiated::new(dialect, Some(server)))))
        })
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn identity(&self) -> Option<String> {
        None
    }
}

/// Returns the newest common revision. A service without `server/discover` is assumed to support all revisions.
fn common_version(server: Option<&DiscoverResult>, ours: &[ProtocolVersion]) -> Result<ProtocolVersion, OpenError> {
    let theirs = server.map(|server| server.supported_versions.as_slice());
    let common = match theirs {
        Some(theirs) => newest_common(theirs.iter().map(String::as_str), ours),
        None => ours.last().copied(),
    };
    common.ok_or_else(|| OpenError::NoCommonVersion {
        theirs: theirs.unwrap_or_default().to_vec(),
        ours: ours.iter().map(ToString::to_string).collect(),
    })
}

/// A channel to a service in this process.
struct LocalChannel {
    service: Arc<dyn Service>,
    /// The session, in revisions with a handshake.
    session: Option<Arc<SessionHandle>>,
    client: LocalClient,
    /// The client, for calls without a receiver of updates.
    peer: Peer,
    state: Arc<LocalState>,
}

/// The state of the channel.
struct LocalState {
    counters: Counters,
    open: watch::Sender<bool>,
    /// As `open`, to look at without a lock.
    closed: AtomicBool,
}

impl LocalChannel {
    fn new(service: &Arc<dyn Service>, client: Arc<dyn Service>, dialect: Dialect) -> Self {
        let (counters, open, closed) = (Counters::default(), watch::Sender::new(true), AtomicBool::new(false));
        let state = Arc::new(LocalState { counters, open, closed });
        let client = LocalClient { service: client, dialect, observer: None, state: state.clone() };
        let peer = Peer::new(client.clone());
        let session = matches!(dialect, Dialect::Handshake(_)).then(|| SessionHandle::new(peer.clone()));
        Self { service: service.clone(), session, client, peer, state }
    }

    fn context(&self, peer: Peer) -> CallContext {
        let cx = CallContext::new(self.client.dialect, peer);
        match &self.session {
            Some(session) => cx.with_session(session.clone()),
            None => cx,
        }
    }

    async fn send(&self, mut request: OutgoingRequest) -> Result<Payload, PeerError> {
        if !self.state.is_open() {
            return Err(PeerError::Closed);
        }
        let observer = request.take_observer();
        let OutgoingRequest { method, params, mut meta, wants_progress, clock, cancellation, .. } = request;
        let counted = self.state.counters.request(clock);
        let id = i64::try_from(counted.number()).unwrap_or(i64::MAX);
        if wants_progress {
            meta.get_or_insert_default().insert_raw(key::PROGRESS_TOKEN, &RawJson::number(id));
        }
        let peer = match observer {
            Some(_) => Peer::new(LocalClient { observer, ..self.client.clone() }),
            None => self.peer.clone(),
        };
        let mut cx = self.context(peer).with_meta(meta).with_id(RequestId::Number(id));
        cx.cancellation = cancellation;
        let dispatch = if self.session.is_some() { dispatch } else { dispatch_in_process };
        let call = dispatch(&*self.service, Request::raw(method, params), cx);
        let result = self.state.until_closed(call).await;
        counted.finish(result.and_then(|result| result.map_err(to_peer_error)))
    }

    async fn initialize(&self, meta: &RequestMeta) -> Result<DiscoverResult, OpenError> {
        let params = initialize_of_meta(meta, self.client.dialect.version());
        let response = self.send(OutgoingRequest::new(Initialize::NAME, Payload::new(params))).await;
        let response = response.map_err(|error| match error {
            PeerError::ErrorResponse(error) => OpenError::Refused(error),
            other => OpenError::Invalid(other.to_string()),
        })?;
        let result: InitializeResult = response.take().map_err(|error| OpenError::Invalid(error.to_string()))?;
        self.send_notification(Notification::raw(MethodName::from_static(InitializedNotification::NAME), None)).await;
        Ok(discover_of_initialize(result))
    }

    /// Sends `server/discover`. A service need not be a server that supports it.
    async fn discover(&self, meta: &RequestMeta) -> Option<DiscoverResult> {
        let request = OutgoingRequest::new(Discover::NAME, Payload::new(EmptyParams::new())).meta(Meta::from(meta));
        self.send(request).await.ok()?.take().ok()
    }

    async fn send_notification(&self, notification: Notification) {
        let cx = self.context(self.peer.clone());
        self.state.counters.notification_sent();
        dispatch_notification(&*self.service, notification, cx).await;
    }
}

impl LocalState {
    fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Acquire)
    }

    /// Waits for a call until the channel is closed.
    async fn until_closed(&self, mut call: Dispatch) -> Result<CallResult, PeerError> {
        // Many calls finish when they are first polled, and need not watch the channel.
        if let Poll::Ready(outcome) = std::future::poll_fn(|task| Poll::Ready(Pin::new(&mut call).poll(task))).await {
            return Ok(outcome);
        }
        let mut open = self.open.subscribe();
        tokio::select! {
            biased;
            outcome = &mut call => Ok(outcome),
            _ = open.wait_for(|open| !open) => Err(PeerError::ClosedBeforeResponse),
        }
    }
}

fn to_peer_error(error: ServiceError) -> PeerError {
    PeerError::ErrorResponse(Box::new(error.into_object()))
}

impl fmt::Debug for LocalChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalChannel").field("dialect", &self.client.dialect).finish_non_exhaustive()
    }
}

impl Channel for LocalChannel {
    fn call(&self, request: OutgoingRequest) -> BoxFuture<'_, Result<Payload, PeerError>> {
        Box::pin(self.send(request))
    }

    fn call_batch(&self, requests: Vec<OutgoingRequest>) -> BoxFuture<'_, Vec<Result<Payload, PeerError>>> {
        Box::pin(join_all(requests.into_iter().map(|request| async move {
            let clock = request.clock.clone();
            clock.run(self.send(request)).await?
        })))
    }

    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        Box::pin(async move {
            if !self.state.is_open() {
                return Err(PeerError::Closed);
            }
            self.send_notification(notification).await;
            Ok(())
        })
    }
}

impl ChannelControl for LocalChannel {
    fn stats(&self) -> ConnectionStats {
        self.state.counters.stats()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.state.closed.store(true, Ordering::Release);
        self.state.open.send_replace(false);
        if let Some(session) = &self.session {
            session.close(CloseReason::Client);
        }
        Box::pin(std::future::ready(()))
    }

    fn closed(&self) -> BoxFuture<'_, CloseInfo> {
        let mut open = self.state.open.subscribe();
        Box::pin(async move {
            let _ = open.wait_for(|open| !open).await;
            CloseInfo::new()
        })
    }
}

/// The client, as the peer of the service.
#[derive(Clone)]
struct LocalClient {
    service: Arc<dyn Service>,
    dialect: Dialect,
    observer: Option<ObservedCall>,
    /// The state of the channel: nothing is delivered after it is closed.
    state: Arc<LocalState>,
}

impl LocalClient {
    fn context(&self, params: Option<&RawJson>) -> CallContext {
        let mut cx = CallContext::new(self.dialect, Peer::disconnected()).with_meta(Meta::of_params(params));
        if let Some(observer) = &self.observer {
            cx.insert_extension(observer.clone());
        }
        cx
    }

    /// Starts the client's handler of a notification.
    fn handle(&self, notification: Notification) -> PanicGuard<NotifyFuture> {
        let cx = self.context(notification.params.as_ref());
        notification_guard(&*self.service, notification, cx)
    }

    /// Delivers progress and notifications of subscriptions to the observer of the call; returns all others.
    fn observe(&self, notification: Notification) -> Option<Notification> {
        let Some(observer) = &self.observer else { return Some(notification) };
        match RelatedRequest::of(&notification) {
            Some(RelatedRequest::Progress(params)) => {
                observer.progress(&params);
                None
            }
            Some(RelatedRequest::Subscription(_)) => observer.notification(notification).err(),
            _ => Some(notification),
        }
    }
}

impl PeerTransport for LocalClient {
    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        Box::pin(async move {
            if !self.state.is_open() {
                return Err(PeerError::Closed);
            }
            if let Some(notification) = self.observe(notification) {
                let _ = self.handle(notification).await;
            }
            Ok(())
        })
    }

    fn try_notify(&self, notification: Notification) -> bool {
        if !self.state.is_open() {
            return false;
        }
        let Some(notification) = self.observe(notification) else { return true };
        let mut handler = self.handle(notification);
        // In place if it can be, so that it is handled before the response of the call that sends it. There is no task to wake: a
        // handler that is not ready is polled again in its own task, or dropped.
        if Pin::new(&mut handler).poll(&mut TaskContext::from_waker(Waker::noop())).is_ready() {
            return true;
        }
        // Outside of a runtime no task can be spawned.
        let runtime = tokio::runtime::Handle::try_current();
        runtime.map(|runtime| runtime.spawn(handler)).is_ok()
    }

    fn request(
        &self,
        method: MethodName,
        params: Option<RawJson>,
        options: RequestOptions,
    ) -> BoxFuture<'_, Result<RawJson, PeerError>> {
        Box::pin(async move {
            if !self.state.is_open() {
                return Err(PeerError::Closed);
            }
            let cx = self.context(params.as_ref());
            let params = params.map_or_else(Payload::default, Payload::json);
            let call = dispatch(&*self.service, Request::raw(method, params), cx);
            match CallClock::from(options).run(self.state.until_closed(call)).await?? {
                Ok(payload) => Ok(payload.into_raw()?),
                Err(error) => Err(to_peer_error(error)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use super::*;
    use crate::service::ResponseFuture;

    /// A client that never responds, and counts notifications.
    #[derive(Default)]
    struct SilentClient(AtomicUsize);

    impl Service for SilentClient {
        fn call(&self, _: Request, _: CallContext) -> ResponseFuture {
            Box::pin(std::future::pending())
        }

        fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
            self.0.fetch_add(1, Ordering::SeqCst);
            Box::pin(async {})
        }
    }

    fn channel() -> (LocalChannel, Arc<SilentClient>) {
        let client = Arc::<SilentClient>::default();
        let server: Arc<dyn Service> = Arc::<SilentClient>::default();
        (LocalChannel::new(&server, client.clone(), Dialect::Stateless(ProtocolVersion::LATEST)), client)
    }

    fn notification() -> Notification {
        Notification::raw(MethodName::from_static("notifications/test"), None)
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_to_the_client_ends_at_its_maximum_timeout() {
        let (channel, _) = channel();
        let limit = Duration::from_secs(1);
        let options = RequestOptions::default().timeout(None).max_timeout(limit);
        let error = channel.peer.request_raw("test", None, options).await.unwrap_err();
        assert!(matches!(error, PeerError::MaxDuration(reached) if reached == limit), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_delivered_to_the_client_of_a_closed_channel() {
        let (channel, client) = channel();
        channel.peer.notify_raw(notification()).await.unwrap();
        assert!(channel.peer.try_notify_raw(notification()));
        let options = RequestOptions::default().without_timeout();
        let pending = channel.peer.request_raw("test", None, options);
        let close = async {
            tokio::task::yield_now().await;
            channel.close().await;
        };
        let (pending, ()) = tokio::join!(pending, close);
        assert!(matches!(pending, Err(PeerError::ClosedBeforeResponse)), "{pending:?}");
        assert!(matches!(channel.peer.notify_raw(notification()).await, Err(PeerError::Closed)));
        assert!(!channel.peer.try_notify_raw(notification()));
        let later = channel.peer.request_raw("test", None, options).await;
        assert!(matches!(later, Err(PeerError::Closed)), "{later:?}");
        assert_eq!(client.0.load(Ordering::SeqCst), 2);
    }
}
