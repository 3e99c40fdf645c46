use std::sync::Arc;

use turms_proto::method::Method as _;
use turms_proto::types::{
    Discover, EmptyParams, Listen, LoggingLevel, SetLevel, Subscribe, SubscriptionFilter, Unsubscribe,
};
use turms_proto::{Ability, ErrorObject};

use super::CallService;
use crate::call::error::{CallError, CallErrorKind, Delivery, TimeoutCause, UnsupportedCause};
use crate::call::options::CallOptions;
use crate::call::{CallOutput, CallRequest, CallTarget, SessionCall};
use crate::connection::ServerShared;
use crate::subscription::{self, Subscription};

/// Handles the calls that differ between revisions: `ping` or `server/discover`, the log level per session or per
/// request, `resources/subscribe` or a listen stream. This layer is outside of the retries, because it may turn one
/// call into several.
pub(crate) struct SessionCalls<S> {
    inner: Arc<S>,
    shared: Arc<ServerShared>,
}

impl<S> Clone for SessionCalls<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: self.shared.clone() }
    }
}

impl<S: CallService> CallService for SessionCalls<S> {
    async fn call(&self, call: &CallRequest) -> Result<CallOutput, CallError> {
        match SessionCall::of(call)? {
            Some(SessionCall::Ping) => self.ping(call).await,
            Some(SessionCall::SetLogLevel(level)) => self.set_log_level(call, level).await,
            Some(SessionCall::Subscribe(uri)) => self.subscribe(uri, &call.options).await,
            Some(SessionCall::Unsubscribe(uri)) => self.unsubscribe(uri, &call.options).await,
            Some(SessionCall::Listen(filter)) => {
                let subscription = self.within(Listen::NAME, &call.options, self.listen(filter)).await?;
                Ok(CallOutput::subscription(subscription))
            }
            None => self.inner.call(call).await,
        }
    }
}

impl<S: CallService> SessionCalls<S> {
    pub(crate) fn new(inner: Arc<S>, shared: Arc<ServerShared>) -> Self {
        Self { inner, shared }
    }

    async fn ping(&self, call: &CallRequest) -> Result<CallOutput, CallError> {
        let discover = CallRequest::new::<Discover>(EmptyParams::new()).with_options(call.options.clone());
        if self.shared.current().is_none_or(|connected| connected.version().has(Ability::Ping)) {
            match self.inner.call(call).await {
                // The revision was not known before the connection was open, or is another one after a reconnect.
                Err(error) if is_unsupported(&error) => {}
                pong => return pong,
            }
        }
        self.inner.call(&discover).await.map(|_| CallOutput::empty())
    }

    async fn set_log_level(&self, call: &CallRequest, level: LoggingLevel) -> Result<CallOutput, CallError> {
        self.shared.desired.set_log_level(level);
        let connected = self.shared.ready(SetLevel::NAME, Some(self.shared.settings.timeouts.timeout)).await?;
        if connected.version().has(Ability::SessionLogLevel) {
            return self.inner.call(call).await;
        }
        connected.set_metadata(self.shared.request_metadata(connected.negotiated.dialect));
        Ok(CallOutput::empty())
    }

    async fn subscribe(&self, uri: String, options: &CallOptions) -> Result<CallOutput, CallError> {
        let shared = &self.shared;
        let connected = shared.ready(Subscribe::NAME, Some(shared.settings.timeouts.timeout)).await?;
        // A second subscriber waits for the result of the first.
        let _turn = shared.desired.turns.lock().await;
        let watch = shared.desired.watch(&uri);
        if watch.is_first && connected.version().has(Ability::ListenStreams) {
            let renewed = subscription::renew(shared, shared.wait_time(options), false);
            let acknowledged = self.within(Listen::NAME, options, renewed).await?;
            if !acknowledged.contains(&uri) {
                let error = ErrorObject::invalid_params("the server will not tell of changes to it");
                return Err(CallError::server(CallTarget::new::<Listen>(&uri), error));
            }
        } else if watch.is_first {
            let call = SessionCall::Subscribe(uri.clone()).request();
            self.inner.call(&call.with_options(options.clone())).await?;
        }
        watch.keep();
        Ok(CallOutput::empty())
    }

    async fn unsubscribe(&self, uri: String, options: &CallOptions) -> Result<CallOutput, CallError> {
        let shared = &self.shared;
        let connected = shared.ready(Unsubscribe::NAME, Some(shared.settings.timeouts.timeout)).await?;
        let _turn = shared.desired.turns.lock().await;
        if !shared.desired.unwatch(&uri) {
            return Ok(CallOutput::empty());
        }
        if connected.version().has(Ability::ListenStreams) {
            let renewed = subscription::renew(shared, shared.wait_time(options), false);
            self.within(Listen::NAME, options, renewed).await?;
        } else {
            let call = SessionCall::Unsubscribe(uri).request();
            self.inner.call(&call.with_options(options.clone())).await?;
        }
        Ok(CallOutput::empty())
    }

    async fn listen(&self, filter: SubscriptionFilter) -> Result<Subscription, CallError> {
        let options = CallOptions::default();
        let connected = self.shared.ready(Listen::NAME, self.shared.wait_time(&options)).await?;
        if connected.version().has(Ability::ListenStreams) {
            return subscription::listen(&self.shared, filter).await;
        }
        // Older servers send changes of lists without a request, and changes of a resource after `resources/subscribe`.
        let events = self.shared.incoming.events.subscribe();
        let mut watched = Watched { session: self.clone(), uris: Vec::new() };
        for uri in filter.resource_subscriptions.iter().flatten() {
            self.subscribe(uri.clone(), &options).await?;
            watched.uris.push(uri.clone());
        }
        let server = connected.server().map(|server| &server.capabilities);
        Ok(subscription::filter_events(events, filter, watched.uris.clone(), server, watched))
    }

    /// Applies the timeout and the cancellation of the options to work that consists of several requests.
    async fn within<T>(
        &self,
        target: &str,
        options: &CallOptions,
        work: impl Future<Output = Result<T, CallError>> + Send,
    ) -> Result<T, CallError> {
        let token = options.cancellation.clone().unwrap_or_default();
        if token.is_cancelled() {
            return Err(CallError::not_sent(target, CallErrorKind::Cancelled));
        }
        let error = |kind| Err(CallError::new(target, kind, Delivery::Unknown));
        let limited = async {
            match self.shared.settings.timeouts.request(options).timeout {
                Some(timeout) => tokio::time::timeout(timeout, work)
                    .await
                    .unwrap_or_else(|_| error(CallErrorKind::Timeout(TimeoutCause::Response(timeout)))),
                None => work.await,
            }
        };
        tokio::select! {
            biased;
            () = token.cancelled() => error(CallErrorKind::Cancelled),
            outcome = limited => outcome,
        }
    }
}

fn is_unsupported(error: &CallError) -> bool {
    matches!(error.kind(), CallErrorKind::Unsupported(UnsupportedCause::Revision { .. }))
}

/// Resource subscriptions at an older server. Dropping it unsubscribes.
struct Watched<S: CallService> {
    session: SessionCalls<S>,
    uris: Vec<String>,
}

impl<S: CallService> Drop for Watched<S> {
    fn drop(&mut self) {
        let (uris, session) = (std::mem::take(&mut self.uris), self.session.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current()
            && !uris.is_empty()
        {
            runtime.spawn(async move {
                for uri in uris {
                    // Best effort: a lost connection has no subscriptions.
                    let _ = session.unsubscribe(uri, &CallOptions::default()).await;
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use turms_proto::ProtocolVersion;

    use super::*;
    use crate::connection::tests::shared;
    use crate::layer::scripted::Scripted;

    async fn session(inner: Scripted, version: ProtocolVersion) -> SessionCalls<Scripted> {
        let shared = shared(|builder| builder.protocol_versions(crate::VersionChoice::Only(version))).await;
        SessionCalls::new(Arc::new(inner), shared)
    }

    fn done(_: &CallRequest) -> Result<CallOutput, CallError> {
        Ok(CallOutput::empty())
    }

    #[tokio::test]
    async fn a_ping_is_a_discovery_where_there_is_no_ping() {
        for (version, method) in [(ProtocolVersion::LATEST, "server/discover"), (ProtocolVersion::V2025_11_25, "ping")]
        {
            let session = session(Scripted::default().then(done), version).await;
            session.call(&SessionCall::Ping.request()).await.unwrap();
            assert_eq!(session.inner.targets(), [method]);
        }
    }

    #[tokio::test]
    async fn the_log_level_is_set_per_request_or_per_session() {
        let call = || SessionCall::SetLogLevel(LoggingLevel::Error).request();
        let session_of = |version| session(Scripted::default().then(done), version);
        let stateless = session_of(ProtocolVersion::LATEST).await;
        stateless.call(&call()).await.unwrap();
        assert!(stateless.inner.targets().is_empty());
        let metadata = stateless.shared.current().unwrap().metadata().unwrap();
        assert!(metadata.as_str().contains("\"error\""), "{}", metadata.as_str());
        let older = session_of(ProtocolVersion::V2025_11_25).await;
        older.call(&call()).await.unwrap();
        assert_eq!(older.inner.targets(), ["logging/setLevel"]);
        assert_eq!(older.shared.desired.log_level(), Some(LoggingLevel::Error));
    }

    #[tokio::test]
    async fn subscriptions_are_counted_per_uri() {
        let session = session(Scripted::default().then(done).then(done), ProtocolVersion::V2025_11_25).await;
        let subscribe = || SessionCall::Subscribe("a://b".to_owned()).request();
        let unsubscribe = || SessionCall::Unsubscribe("a://b".to_owned()).request();
        session.call(&subscribe()).await.unwrap();
        session.call(&subscribe()).await.unwrap();
        session.call(&unsubscribe()).await.unwrap();
        assert_eq!(session.inner.targets(), ["resources/subscribe \"a://b\""]);
        session.call(&unsubscribe()).await.unwrap();
        assert_eq!(session.inner.targets().len(), 2);
    }
}
