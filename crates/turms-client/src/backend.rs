use std::sync::Arc;

use turms_core::BoxFuture;
use turms_proto::Notification;
use turms_proto::method::Method as _;
use turms_proto::session::Negotiated;
use turms_proto::types::{
    CallTool, ListPrompts, ListResourceTemplates, ListResources, ListSkills, ListTools, Listen, Ping, ReadResource,
    SetLevel, Subscribe, Unsubscribe,
};

use crate::call::options::TaskMode;
use crate::call::{CallError, CallOutput, CallRequest};
use crate::connection::{ConnectionState, ServerConnection, ServerShared};
use crate::control::{ClientControl, EventInterest};
use crate::event::{ConnectionEvent, Events};
use crate::layer::CallService;
use crate::layer::breaker::Breaker;
use crate::layer::cache::Cache;
use crate::layer::input::InputRounds;
use crate::layer::retry::Retry;
use crate::layer::session::SessionCalls;
use crate::layer::task::Tasks;
use crate::layer::track::{PendingCalls, Track};
use crate::layer::validate::ValidateOutput;
use crate::state::ClientStats;
use crate::subscription;
use crate::task::TaskOwner;
use turms_proto::session::ConnectionStatus;

/// The receiver of a client's calls: one server, a pool, or a group.
pub(crate) trait Backend: Send + Sync + 'static {
    fn call<'a>(&'a self, call: &'a CallRequest) -> BoxFuture<'a, Result<CallOutput, CallError>>;
    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), CallError>>;
    fn control(&self) -> &dyn ClientControl;
}

/// The layers of every call, outermost first.
type ServerStack = Track<Tasks<Retry<Breaker<InputRounds<ServerConnection>>>>>;

/// The backend of a client of one server. Clones share the same connection.
#[derive(Clone)]
pub(crate) struct ServerBackend(Arc<ServerLayers>);

struct ServerLayers {
    shared: Arc<ServerShared>,
    pending: Arc<PendingCalls>,
    stack: Arc<ServerStack>,
    lists: Arc<Cache<Arc<ServerStack>>>,
    tools: ValidateOutput<Arc<ServerStack>, Arc<Cache<Arc<ServerStack>>>>,
    session: SessionCalls<ServerStack>,
}

impl ServerBackend {
    /// Assembles the layers.
    pub(crate) fn new(shared: Arc<ServerShared>) -> Self {
        let (settings, incoming) = (&shared.settings, &shared.incoming);
        let (events, tools) = (incoming.events.clone(), incoming.tools.clone());
        let (breaker, retry) = (settings.circuit_breaker.clone(), settings.retry.clone());
        let policy = retry.zip(settings.reconnect.clone());
        let pending = Arc::<PendingCalls>::default();
        let state = || shared.state.subscribe();

        let connection = ServerConnection::new(shared.clone());
        let input = InputRounds::new(connection, shared.clone());
        let breaker = Breaker::new(input, breaker, events.clone());
        let retry = Retry::new(breaker, policy, settings.timeouts, tools.clone(), events, state());
        let tasks = Tasks::new(retry, shared.clone());
        let stack = Arc::new(Track::new(tasks, pending.clone()));

        let responses = settings.caching.then(|| incoming.cache.clone());
        let lists = Arc::new(Cache::new(stack.clone(), responses, tools.clone(), state()));
        let tools = ValidateOutput::new(stack.clone(), lists.clone(), tools, state());
        let session = SessionCalls::new(stack.clone(), shared.clone());
        Self(Arc::new(ServerLayers { shared, pending, stack, lists, tools, session }))
    }
}

impl Backend for ServerBackend {
    fn call<'a>(&'a self, call: &'a CallRequest) -> BoxFuture<'a, Result<CallOutput, CallError>> {
        Box::pin(async move {
            let wants_task = matches!(call.options.task, TaskMode::Return);
            let output = match &*call.method {
                _ if call.is_raw() => self.0.stack.call(call).await,
                CallTool::NAME => self.0.tools.call(call).await,
                ListTools::NAME
                | ListResources::NAME
                | ListResourceTemplates::NAME
                | ListPrompts::NAME
                | ListSkills::NAME
                | ReadResource::NAME => self.0.lists.call(call).await,
                Ping::NAME | SetLevel::NAME | Subscribe::NAME | Unsubscribe::NAME | Listen::NAME => {
                    Box::pin(self.0.session.call(call)).await
                }
                _ => self.0.stack.call(call).await,
            };
            let mut output = output?;
            output.task = wants_task.then(|| Box::new(TaskOwner::new(self.clone())));
            Ok(output)
        })
    }

    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), CallError>> {
        Box::pin(async move {
            let (shared, method) = (&self.0.shared, notification.method.clone());
            let connected = shared.ready(&method, Some(shared.settings.timeouts.timeout)).await?;
            connected.channel.notify(notification).await.map_err(|error| CallError::of_peer(&method, error))
        })
    }

    fn control(&self) -> &dyn ClientControl {
        self
    }
}

impl ClientControl for ServerBackend {
    fn status(&self) -> ConnectionStatus {
        match &*self.0.shared.state.borrow() {
            ConnectionState::Ready(connected) if connected.streams.is_unreachable() => ConnectionStatus::Disconnected,
            ConnectionState::Ready(_) => ConnectionStatus::Ready,
            ConnectionState::Connecting(status) => *status,
            ConnectionState::Closed(_) => ConnectionStatus::Closed,
        }
    }

    fn server(&self) -> Option<Arc<Negotiated>> {
        self.0.shared.current().map(|connected| connected.negotiated.clone())
    }

    fn events(&self, interest: EventInterest) -> Events {
        let events = self.0.shared.incoming.events.subscribe();
        if interest == EventInterest::AskServer && tokio::runtime::Handle::try_current().is_ok() {
            subscription::request_list_changes(&self.0.shared);
        }
        events
    }

    fn pending(&self) -> &PendingCalls {
        &self.0.pending
    }

    fn stats(&self) -> ClientStats {
        self.0.shared.stats()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let shared = &self.0.shared;
            // Publish the state before the event, so that receivers of the event see it.
            shared.publish_closed(None);
            shared.incoming.events.connection(ConnectionEvent::Closed);
            shared.incoming.events.close();
            shared.shutdown.cancel();
            shared.tasks.close();
            shared.tasks.wait().await;
        })
    }
}

#[cfg(test)]
mod tests {
    use turms_proto::types::CallToolParams;

    use super::*;
    use crate::connection::tests::shared;

    /// Rare branches are boxed, so that they do not enlarge the future of every call.
    #[tokio::test]
    async fn the_future_of_a_call_is_small() {
        let backend = ServerBackend::new(shared(|builder| builder).await);
        let call = CallRequest::multi_round::<CallTool, _>(CallToolParams::new("add"));
        let size = size_of_val(&backend.0.tools.call(&call));
        assert!(size <= 2048, "{size}");
    }
}
