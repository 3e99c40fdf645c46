use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use turms_core::{BoxFuture, Payload};
use turms_proto::method::Method as _;
use turms_proto::revision::raise_result;
use turms_proto::session::Negotiated;
use turms_proto::types::{
    CallTool, CallToolParams, Complete, CompleteParams, Discover, GetPrompt, GetPromptParams, Implementation,
    ListPrompts, ListResourceTemplates, ListResources, ListTools, LoggingLevel, Outcome, Ping, ReadResource,
    ReadResourceParams, Reference, SetLevel, Unsubscribe,
};
use turms_proto::{DecodeError, Notification, ProtocolVersion};

use super::connectors::Connectors;
use super::events::WithoutNames;
use super::list_cache::ListKind;
use super::member::MemberEntry;
use super::members::{GroupMembers, GroupWatch};
use super::naming::Naming;
use super::routing::{self, Location};
use super::subscriptions;
use crate::backend::Backend;
use crate::builder::ClientBuilder;
use crate::call::error::{CallError, CallErrorKind, NoServerCause, TaskCause};
use crate::call::options::{CallOptions, TaskMode};
use crate::call::request::Params;
use crate::call::{CallOutput, CallRequest, SessionCall};
use crate::client::Client;
use crate::control::{ClientControl, EventInterest};
use crate::event::Events;
use crate::layer::track::PendingCalls;
use crate::members::{Lifetime, best_status, send, total_stats};
use crate::state::ClientStats;
use turms_proto::session::ConnectionStatus;

/// The state shared by the handles and tasks of a group. Holding it does not keep the group open.
pub(super) struct GroupShared {
    pub(super) members: Mutex<GroupMembers>,
    pub(super) naming: Naming,
    pub(super) info: Implementation,
    pub(super) builder: ClientBuilder,
    pub(super) connectors: Connectors,
    pub(super) connect_timeout: Duration,
    pub(super) lifetime: Lifetime,
}

impl GroupShared {
    pub(super) async fn close(&self) {
        let clients = {
            let mut members = self.members.lock();
            members.close();
            members.clients()
        };
        join_all(clients.iter().map(|(_, client)| client.close())).await;
        self.members.lock().drop_watchers();
    }
}

/// The [`Backend`] of [`ClientGroup::as_client`](super::ClientGroup::as_client).
pub(super) struct GroupBackend(pub(super) Arc<GroupShared>);

impl Backend for GroupBackend {
    fn call<'a>(&'a self, call: &'a CallRequest) -> BoxFuture<'a, Result<CallOutput, CallError>> {
        Box::pin(self.0.lifetime.pending.track(call, || self.call_members(call)))
    }

    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), CallError>> {
        Box::pin(async move {
            let method = notification.method.clone();
            let mut clients = self.0.members.lock().clients();
            clients.retain(|(_, client)| client.status() == ConnectionStatus::Ready);
            if clients.is_empty() {
                return Err(CallError::not_connected(method, None));
            }
            let sent = clients.into_iter().map(|(name, client)| {
                let notification = notification.clone();
                async move { (name, client.backend().notify(notification).await) }
            });
            combine(&method, join_all(sent).await, Vec::new())
        })
    }

    fn control(&self) -> &dyn ClientControl {
        self
    }
}

impl ClientControl for GroupBackend {
    fn status(&self) -> ConnectionStatus {
        best_status(self.0.members.lock().entries().map(MemberEntry::status))
    }

    fn server(&self) -> Option<Arc<Negotiated>> {
        (self.status() == ConnectionStatus::Ready).then(|| Arc::new(self.0.negotiated()))
    }

    fn events(&self, _: EventInterest) -> Events {
        Events::merged(WithoutNames(self.0.members.lock().events()))
    }

    fn pending(&self) -> &PendingCalls {
        &self.0.lifetime.pending
    }

    fn stats(&self) -> ClientStats {
        total_stats(self.0.members.lock().clients().iter().map(|(_, client)| client))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.close())
    }
}

impl GroupBackend {
    /// Routes a call to one server or to all.
    async fn call_members(&self, call: &CallRequest) -> Result<CallOutput, CallError> {
        if call.options.one_server {
            return Err(CallError::not_sent(call.target(), CallErrorKind::NoServer(NoServerCause::Several)));
        }
        let mut call = call.clone();
        if call.options.batch.is_some() {
            // The calls of a batch may go to several servers.
            call.options.batch = None;
        }
        // The error names the target as the caller did, with its prefix.
        self.dispatch(&call).await.map_err(|error| error.about(call.target()))
    }

    async fn dispatch(&self, call: &CallRequest) -> Result<CallOutput, CallError> {
        let (shared, options) = (&self.0, &call.options);
        match SessionCall::of(call)? {
            Some(SessionCall::Ping) => self.ping(options).await?,
            Some(SessionCall::SetLogLevel(level)) => self.set_log_level(level, options).await?,
            Some(SessionCall::Subscribe(uri)) => self.subscribe(uri, options).await?,
            Some(SessionCall::Unsubscribe(uri)) => self.unsubscribe(uri, options).await?,
            Some(SessionCall::Listen(filter)) if !call.is_raw() => {
                return subscriptions::listen(shared, filter, options).await.map(CallOutput::subscription);
            }
            Some(SessionCall::Listen(_)) | None => return self.dispatch_by_name(call).await,
        }
        Ok(CallOutput::empty())
    }

    async fn dispatch_by_name(&self, call: &CallRequest) -> Result<CallOutput, CallError> {
        let shared = &self.0;
        match &*call.method {
            ListTools::NAME => shared.list::<ListTools>(call).await,
            ListPrompts::NAME => shared.list::<ListPrompts>(call).await,
            ListResources::NAME => shared.list::<ListResources>(call).await,
            ListResourceTemplates::NAME => shared.list::<ListResourceTemplates>(call).await,
            CallTool::NAME => self.call_named::<CallToolParams>(call, ListKind::Tools, |params| &mut params.name).await,
            GetPrompt::NAME => {
                self.call_named::<GetPromptParams>(call, ListKind::Prompts, |params| &mut params.name).await
            }
            ReadResource::NAME => self.read(call).await,
            Complete::NAME => self.complete(call).await,
            Discover::NAME => respond(call, Payload::new(shared.describe())),
            _ => Err(CallError::not_sent(call.target(), CallErrorKind::NoServer(NoServerCause::Several))),
        }
    }

    /// Calls a tool or gets a prompt: finds the server, and replaces the name by the name without the prefix.
    async fn call_named<P>(
        &self,
        call: &CallRequest,
        kind: ListKind,
        name: fn(&mut P) -> &mut String,
    ) -> Result<CallOutput, CallError>
    where
        P: Params + serde::de::DeserializeOwned + 'static,
    {
        let mut params: P = call.params_as()?;
        let (client, own) = self.0.owner(kind, name(&mut params), call.options.timeout).await?;
        *name(&mut params) = own;
        forward(&client, call, params).await
    }

    async fn read(&self, call: &CallRequest) -> Result<CallOutput, CallError> {
        let params: ReadResourceParams = call.params_as()?;
        let location = self.0.locate_resource(&params.uri, call.options.timeout).await?;
        let params = &params;
        routing::try_each(&params.uri, location, |client| async move { forward(&client, call, params.clone()).await })
            .await
    }

    async fn complete(&self, call: &CallRequest) -> Result<CallOutput, CallError> {
        let mut params: CompleteParams = call.params_as()?;
        let uri = match &mut params.reference {
            Reference::Prompt(prompt) => {
                let (client, own) = self.0.owner(ListKind::Prompts, &prompt.name, call.options.timeout).await?;
                prompt.name = own;
                return forward(&client, call, params).await;
            }
            Reference::Resource(resource) => resource.uri.clone(),
            _ => return Err(CallError::not_sent(call.target(), CallErrorKind::NoServer(NoServerCause::Several))),
        };
        let location = self.0.locate_template(&uri, call.options.timeout).await?;
        let params = &params;
        routing::try_each(&uri, location, |client| async move { forward(&client, call, params.clone()).await }).await
    }

    async fn ping(&self, options: &CallOptions) -> Result<(), CallError> {
        let (clients, absent) = {
            let members = self.0.members.lock();
            (members.clients(), members.absent())
        };
        let absent = absent.into_iter().map(|(name, kind)| (name, CallError::not_sent(Ping::NAME, kind))).collect();
        combine(Ping::NAME, send_to(clients, &SessionCall::Ping, options).await, absent)
    }

    async fn set_log_level(&self, level: LoggingLevel, options: &CallOptions) -> Result<(), CallError> {
        let clients = {
            let mut members = self.0.members.lock();
            members.log_level = Some(level);
            members.clients()
        };
        let set = clients.into_iter().filter_map(|(name, client)| {
            let logs = client.server_capabilities().is_none_or(|capabilities| capabilities.logging.is_some());
            let status = client.status();
            (logs && status != ConnectionStatus::Closed).then_some(async move {
                let set = send(&client, SessionCall::SetLogLevel(level), options);
                if status == ConnectionStatus::Ready {
                    return (name, set.await);
                }
                // The client stores the level and sets it after the reconnect. Do not wait for that.
                let _ = tokio::time::timeout(Duration::ZERO, set).await;
                (name, Ok(()))
            })
        });
        combine(SetLevel::NAME, join_all(set).await, Vec::new())
    }

    /// Subscribes to a resource at its server. If the server is not known, subscribes at all servers that accept: since
    /// 2026-07-28 a server may accept a subscription to a resource that it does not have.
    async fn subscribe(&self, uri: String, options: &CallOptions) -> Result<(), CallError> {
        let members = match self.0.locate_resource(&uri, options.timeout).await? {
            Location::At(member) => vec![*member],
            Location::AnyOf(members) => members,
        };
        let clients = members.into_iter().map(|member| (member.name, member.client));
        let (mut servers, mut failed) = (Vec::new(), None);
        for (name, outcome) in send_to(clients, &SessionCall::Subscribe(uri.clone()), options).await {
            match outcome {
                Ok(()) => servers.push(name),
                Err(error) => failed = Some(routing::more_specific(failed, error)),
            }
        }
        if let (Some(error), true) = (failed, servers.is_empty()) {
            return Err(error);
        }
        self.0.members.lock().watches.push(GroupWatch { uri, servers });
        Ok(())
    }

    async fn unsubscribe(&self, uri: String, options: &CallOptions) -> Result<(), CallError> {
        let clients: Vec<_> = {
            let mut members = self.0.members.lock();
            let Some(at) = members.watches.iter().position(|watch| watch.uri == uri) else { return Ok(()) };
            let servers = members.watches.remove(at).servers.into_iter();
            let client = |server: Arc<str>| Some((server.clone(), members.get(&server)?.client().cloned()?));
            servers.filter_map(client).collect()
        };
        combine(Unsubscribe::NAME, send_to(clients, &SessionCall::Unsubscribe(uri), options).await, Vec::new())
    }
}

/// Sends a call with changed parameters to one server. Raw results are converted to the newest revision, as reported by
/// the group.
async fn forward<P: Params + 'static>(client: &Client, call: &CallRequest, params: P) -> Result<CallOutput, CallError> {
    let own = call.with_params(params);
    let mut output = client.backend().call(&own).await?;
    if let (Some(owner), TaskMode::Return) = (&mut output.task, &call.options.task) {
        owner.set_call(own);
    }
    if call.is_raw()
        && let Outcome::Complete(payload) = output.outcome
    {
        let raw = payload.into_raw().map_err(|error| call.invalid(DecodeError::custom(error)))?;
        let version = client.protocol_version().unwrap_or(ProtocolVersion::LATEST);
        let raised = raise_result(&call.method, &raw, version).map_err(|error| call.invalid(error))?;
        output.outcome = Outcome::Complete(Payload::json(raised));
    }
    Ok(output)
}

/// Decodes a response that the group itself made, as the caller decodes the responses of servers.
pub(super) fn respond(call: &CallRequest, payload: Payload) -> Result<CallOutput, CallError> {
    match (call.decode)(payload, ProtocolVersion::LATEST) {
        Ok(Outcome::Complete(payload)) => Ok(CallOutput::complete(payload)),
        Ok(_) => Err(CallError::answered(call.target(), CallErrorKind::Task(TaskCause::Unexpected))),
        Err(problem) => Err(call.invalid(problem)),
    }
}

/// The outcome of a call for each server.
type Outcomes = Vec<(Arc<str>, Result<(), CallError>)>;

/// Sends a call to several servers concurrently.
async fn send_to(
    clients: impl IntoIterator<Item = (Arc<str>, Client)>,
    call: &SessionCall,
    options: &CallOptions,
) -> Outcomes {
    let sent = |(name, client): (Arc<str>, Client)| async move { (name, send(&client, call.clone(), options).await) };
    join_all(clients.into_iter().map(sent)).await
}

/// Returns one error that names all servers that failed.
fn combine(target: &str, outcomes: Outcomes, mut failures: Vec<(String, CallError)>) -> Result<(), CallError> {
    failures.extend(outcomes.into_iter().filter_map(|(name, outcome)| Some((name.to_string(), outcome.err()?))));
    if failures.is_empty() { Ok(()) } else { Err(CallError::of_servers(target, failures)) }
}
