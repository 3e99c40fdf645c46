//! The engine for many servers: each call goes to the server that it is for, or to all.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use turms_core::{BoxFuture, Payload};
use turms_proto::method::Method;
use turms_proto::revision::{Translate, raise_result};
use turms_proto::session::{Opened, Stats};
use turms_proto::types::{
    CallTool, CallToolParams, Complete, CompleteParams, Discover, EmptyResult, GetPrompt, GetPromptParams,
    Implementation, ListPrompts, ListResourceTemplates, ListResources, ListTools, Listen, LoggingLevel, Ping,
    ReadResource, ReadResourceParams, Reference, ResourceParams, SetLevel, SetLevelParams, Subscribe,
    SubscriptionFilter, ToolResult, Unsubscribe,
};
use turms_proto::{DecodeError, Notification, ProtocolVersion};

use super::connector::Connectors;
use super::event::Nameless;
use super::known::Kind;
use super::naming::Naming;
use super::roster::Roster;
use super::route::{self, Home};
use super::{face, listen};
use crate::builder::ClientBuilder;
use crate::cache::Cache;
use crate::call::error::{CallError, CallErrorKind, ClosedCause, DecodeCause, NoServerCause, TaskCause};
use crate::client::{Client, check_output, read_resource};
use crate::event::Events;
use crate::job::{Decoded, Engine, Job, Params, Performed};
use crate::listen::Subscription;
use crate::options::CallOptions;
use crate::pending::PendingCalls;
use crate::roots::Roots;
use crate::state::{PendingCall, Status};
use crate::task::learn_whether_task;
use crate::tool::KnownTools;

/// A client's way to many servers.
pub(crate) struct Many {
    /// Ourselves, for tasks that must not keep us alive.
    me: Weak<Self>,
    pub(super) roster: Mutex<Roster>,
    pub(super) naming: Naming,
    pub(super) info: Implementation,
    pub(super) builder: ClientBuilder,
    pub(super) connectors: Connectors,
    pub(super) connect_timeout: Duration,
    pending: PendingCalls,
}

/// How a fleet is set up.
pub(super) struct Settings {
    pub(super) builder: ClientBuilder,
    pub(super) info: Implementation,
    pub(super) naming: Naming,
    pub(super) connectors: Connectors,
    pub(super) connect_timeout: Duration,
}

impl Many {
    pub(super) fn new(settings: Settings, roster: Roster) -> Arc<Self> {
        let Settings { builder, info, naming, connectors, connect_timeout } = settings;
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            roster: Mutex::new(roster),
            naming,
            info,
            builder,
            connectors,
            connect_timeout,
            pending: PendingCalls::default(),
        })
    }

    pub(super) fn weak(&self) -> Weak<Self> {
        self.me.clone()
    }

    /// Makes a call, and sees to it that whoever asked finds their own words in an error.
    async fn make(&self, job: Job, checks: Checks) -> Result<Performed, CallError> {
        let (subject, cancel) = (job.subject(), job.options.cancel.clone());
        let outcome = self.pending.track(subject.clone(), cancel, self.dispatch(job, checks)).await;
        outcome.map_err(|error| error.about(subject))
    }

    async fn dispatch(&self, job: Job, checks: Checks) -> Result<Performed, CallError> {
        match &*job.method {
            ListTools::NAME => self.list::<ListTools>(job).await,
            ListPrompts::NAME => self.list::<ListPrompts>(job).await,
            ListResources::NAME => self.list::<ListResources>(job).await,
            ListResourceTemplates::NAME => self.list::<ListResourceTemplates>(job).await,
            CallTool::NAME => self.call_named::<CallToolParams>(job, Kind::Tools, checks).await,
            GetPrompt::NAME => self.call_named::<GetPromptParams>(job, Kind::Prompts, checks).await,
            ReadResource::NAME => self.read(job).await,
            Complete::NAME => self.complete(job).await,
            Discover::NAME => finish(&job, Payload::new(self.describe())),
            Ping::NAME => {
                self.ping_all(job.options.clone()).await?;
                finish(&job, Payload::new(EmptyResult::new()))
            }
            SetLevel::NAME => {
                let params: SetLevelParams = params_of(&job)?;
                self.log_from(params.level, job.options.clone()).await?;
                finish(&job, Payload::new(EmptyResult::new()))
            }
            Subscribe::NAME => {
                let params: ResourceParams = params_of(&job)?;
                self.watch(params.uri, job.options.clone()).await?;
                finish(&job, Payload::new(EmptyResult::new()))
            }
            Unsubscribe::NAME => {
                let params: ResourceParams = params_of(&job)?;
                self.unwatch(params.uri, job.options.clone()).await?;
                finish(&job, Payload::new(EmptyResult::new()))
            }
            _ => Err(CallError::not_sent(job.subject(), CallErrorKind::NoServer(NoServerCause::Several))),
        }
    }

    /// Calls a tool or gets a prompt at the server that has it, by the name that it has there.
    async fn call_named<P: Addressed>(&self, job: Job, kind: Kind, checks: Checks) -> Result<Performed, CallError> {
        let mut params: P = params_of(&job)?;
        let (client, own) = self.owner(kind, params.name(), job.options.timeout).await?;
        params.name().clone_from(&own);
        if job.options.task.wanted {
            learn_whether_task(&client, &own, &job.options).await;
        }
        let mut performed = forward(&client, &job, params, Some(own.clone())).await?;
        if let Some(keeper) = &mut performed.keeper {
            keeper.tool.get_or_insert_with(|| (client.clone(), own.clone()));
        }
        if checks == Checks::Output
            && let Some(result) = performed.payload.get_mut::<ToolResult>()
        {
            check_output(&client, &own, result, job.options.clone()).await?;
        }
        Ok(performed)
    }

    async fn read(&self, job: Job) -> Result<Performed, CallError> {
        let params: ReadResourceParams = params_of(&job)?;
        let uri = params.uri.clone();
        let (job, params) = (&job, &params);
        self.at_resource(&uri, job.options.timeout, |seat| async move {
            if matches!(job.params, Params::Raw(_)) {
                return forward(&seat.client, job, params.clone(), Some(params.uri.clone())).await;
            }
            // Through the server's own client, which may have what it read before.
            let result = read_resource(seat.client, params.uri.clone(), job.options.clone()).await?;
            finish(job, Payload::new(result))
        })
        .await
    }

    async fn complete(&self, job: Job) -> Result<Performed, CallError> {
        let mut params: CompleteParams = params_of(&job)?;
        if let Reference::Prompt(prompt) = &mut params.reference {
            let (client, own) = self.owner(Kind::Prompts, &prompt.name, job.options.timeout).await?;
            prompt.name = own;
            return forward(&client, &job, params, None).await;
        }
        let Reference::Resource(resource) = &params.reference else {
            return Err(CallError::not_sent(job.subject(), CallErrorKind::NoServer(NoServerCause::Several)));
        };
        let (uri, job, params) = (resource.uri.clone(), &job, &params);
        self.at_reference(&uri, job.options.timeout, |seat| async move {
            forward(&seat.client, job, params.clone(), None).await
        })
        .await
    }

    async fn ping_all(&self, options: CallOptions) -> Result<(), CallError> {
        let (clients, absent) = {
            let roster = self.roster.lock();
            (roster.clients(), roster.absent())
        };
        let absent = absent.into_iter().map(|(name, why)| (name, CallError::not_sent(Ping::NAME, why)));
        let pings = clients.into_iter().map(|(name, client)| {
            let options = options.clone();
            async move { (name.to_string(), client.engine().ping(options).await) }
        });
        all_of(Ping::NAME, join_all(pings).await, absent.collect())
    }

    async fn log_from(&self, level: LoggingLevel, options: CallOptions) -> Result<(), CallError> {
        let clients = {
            let mut roster = self.roster.lock();
            roster.log_level = Some(level);
            roster.clients()
        };
        let told = clients.into_iter().filter_map(|(name, client)| {
            let logs = client.server_capabilities().is_none_or(|capabilities| capabilities.logging.is_some());
            let status = client.status();
            let options = options.clone();
            (logs && status != Status::Closed).then_some(async move {
                let told = client.engine().set_log_level(level, options);
                if status == Status::Connected {
                    return (name.to_string(), told.await);
                }
                // Its client takes note at once and tells the server when it is there again; nobody waits for that.
                let _ = tokio::time::timeout(Duration::ZERO, told).await;
                (name.to_string(), Ok(()))
            })
        });
        all_of(SetLevel::NAME, join_all(told).await, Vec::new())
    }

    /// Watches a resource where it is. A server of 2026-07-28 need not know what it is asked to tell of, so one that agrees
    /// may still not have it: what nobody is known to have is watched at all that agree.
    async fn watch(&self, uri: String, options: CallOptions) -> Result<(), CallError> {
        let seats = match self.home_of_resource(&uri, options.timeout).await? {
            Home::At(seat) => vec![seat],
            Home::Ask(seats) => seats,
        };
        let watching = seats.into_iter().map(|seat| {
            let (uri, options) = (uri.clone(), options.clone());
            async move { (seat.name, seat.client.engine().subscribe(uri, options).await) }
        });
        let (mut servers, mut failed) = (Vec::new(), None);
        for (name, outcome) in join_all(watching).await {
            match outcome {
                Ok(()) => servers.push(name),
                Err(error) => failed = Some(route::telling(failed, error)),
            }
        }
        match failed {
            Some(error) if servers.is_empty() => Err(error),
            _ => {
                self.roster.lock().watched.insert(uri, servers);
                Ok(())
            }
        }
    }

    async fn unwatch(&self, uri: String, options: CallOptions) -> Result<(), CallError> {
        let clients: Vec<_> = {
            let mut roster = self.roster.lock();
            let servers = roster.watched.remove(&uri).unwrap_or_default().into_iter();
            let client = |server: Arc<str>| Some((server.clone(), roster.get(&server)?.client().cloned()?));
            servers.filter_map(client).collect()
        };
        let ending = clients.into_iter().map(|(name, client)| {
            let (uri, options) = (uri.clone(), options.clone());
            async move { (name.to_string(), client.engine().unsubscribe(uri, options).await) }
        });
        all_of(Unsubscribe::NAME, join_all(ending).await, Vec::new())
    }

    async fn tell_all(&self, notification: Notification) -> Result<(), CallError> {
        let subject = notification.method.to_string();
        let mut clients = self.roster.lock().clients();
        clients.retain(|(_, client)| client.status() == Status::Connected);
        if clients.is_empty() {
            return Err(CallError::not_sent(subject, CallErrorKind::Closed(ClosedCause::NotConnected(None))));
        }
        let told = clients.into_iter().map(|(name, client)| {
            let notification = notification.clone();
            async move { (name.to_string(), client.engine().notify(notification).await) }
        });
        let told = join_all(told).await;
        all_of(&subject, told, Vec::new())
    }
}

/// Whether the output of a tool is held against its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checks {
    Output,
    Nothing,
}

impl Engine for Many {
    fn perform(&self, job: Job) -> BoxFuture<'_, Result<Performed, CallError>> {
        Box::pin(self.make(job, Checks::Output))
    }

    fn perform_all(&self, jobs: Vec<Job>) -> BoxFuture<'_, Vec<Result<Performed, CallError>>> {
        Box::pin(join_all(jobs.into_iter().map(|job| self.make(job, Checks::Nothing))))
    }

    fn ping(&self, options: CallOptions) -> BoxFuture<'_, Result<(), CallError>> {
        let cancel = options.cancel.clone();
        Box::pin(self.pending.track(Ping::NAME.to_owned(), cancel, self.ping_all(options)))
    }

    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), CallError>> {
        Box::pin(self.tell_all(notification))
    }

    fn set_log_level(&self, level: LoggingLevel, options: CallOptions) -> BoxFuture<'_, Result<(), CallError>> {
        let cancel = options.cancel.clone();
        Box::pin(self.pending.track(SetLevel::NAME.to_owned(), cancel, self.log_from(level, options)))
    }

    fn subscribe(&self, uri: String, options: CallOptions) -> BoxFuture<'_, Result<(), CallError>> {
        let (subject, cancel) = (format!("{} {uri:?}", Subscribe::NAME), options.cancel.clone());
        Box::pin(async move {
            let watched = self.pending.track(subject.clone(), cancel, self.watch(uri, options)).await;
            watched.map_err(|error| error.about(subject))
        })
    }

    fn unsubscribe(&self, uri: String, options: CallOptions) -> BoxFuture<'_, Result<(), CallError>> {
        let (subject, cancel) = (format!("{} {uri:?}", Unsubscribe::NAME), options.cancel.clone());
        Box::pin(self.pending.track(subject, cancel, self.unwatch(uri, options)))
    }

    fn listen(
        &self,
        filter: SubscriptionFilter,
        options: CallOptions,
    ) -> BoxFuture<'_, Result<Subscription, CallError>> {
        let cancel = options.cancel.clone();
        Box::pin(self.pending.track(Listen::NAME.to_owned(), cancel, listen::listen(self, filter, options)))
    }

    fn events(&self) -> Events {
        Events::merged(Nameless(self.roster.lock().events()))
    }

    #[cfg(feature = "skills")]
    fn is_one_server(&self) -> bool {
        false
    }

    /// As well as the server that stands best.
    fn status(&self) -> Status {
        let roster = self.roster.lock();
        let is = |status| roster.slots().any(|slot| slot.status() == status);
        [Status::Connected, Status::Reconnecting].into_iter().find(|status| is(*status)).unwrap_or(Status::Closed)
    }

    fn opened(&self) -> Option<Arc<Opened>> {
        (self.status() == Status::Connected).then(|| Arc::new(self.described()))
    }

    fn stats(&self) -> Stats {
        let clients = self.roster.lock().clients();
        face::sum(clients.iter().map(|(_, client)| client.stats()))
    }

    fn pending(&self) -> Vec<PendingCall> {
        self.pending.list()
    }

    fn cancel(&self, key: u64) -> bool {
        self.pending.cancel(key)
    }

    fn roots(&self) -> Option<&Roots> {
        self.builder.shared_roots()
    }

    /// Each server's client has its own.
    fn cache(&self) -> Option<&Cache> {
        None
    }

    /// Each server's client knows its own.
    fn tools(&self) -> Option<&KnownTools> {
        None
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let clients = {
                let mut roster = self.roster.lock();
                roster.close();
                roster.clients()
            };
            join_all(clients.iter().map(|(_, client)| client.close())).await;
            self.roster.lock().let_watchers_go();
        })
    }
}

/// Parameters that say by a name what they are for.
trait Addressed: Serialize + DeserializeOwned + Translate + Clone + Send + Sync + 'static {
    fn name(&mut self) -> &mut String;
}

impl Addressed for CallToolParams {
    fn name(&mut self) -> &mut String {
        &mut self.name
    }
}

impl Addressed for GetPromptParams {
    fn name(&mut self) -> &mut String {
        &mut self.name
    }
}

pub(super) fn params_of<P: DeserializeOwned + 'static>(job: &Job) -> Result<P, CallError> {
    job.params.payload().take().map_err(|error| {
        let problem = format!("params: {error}");
        CallError::not_sent(job.subject(), CallErrorKind::Encode(problem))
    })
}

/// Makes a call at one server. What comes back is in the words of the newest revision, which is what the fleet speaks.
async fn forward<P>(client: &Client, job: &Job, params: P, name: Option<String>) -> Result<Performed, CallError>
where
    P: Serialize + Translate + Clone + Send + Sync + 'static,
{
    let theirs = Job {
        method: job.method.clone(),
        params: Params::Typed(Arc::new(params)),
        name: name.map(Into::into),
        options: job.options.clone(),
        decode: job.decode,
    };
    let performed = client.engine().perform(theirs).await?;
    if matches!(job.params, Params::Typed(_)) {
        return Ok(performed);
    }
    let invalid = |error| CallError::answered(job.subject(), CallErrorKind::Decode(DecodeCause::Invalid(error)));
    let raw = performed.payload.into_raw().map_err(|error| invalid(DecodeError::custom(error)))?;
    let version = client.protocol_version().unwrap_or(ProtocolVersion::LATEST);
    let raised = raise_result(&job.method, &raw, version).map_err(invalid)?;
    Ok(Performed { payload: Payload::json(raised), ..performed })
}

/// What a server would have answered, as the caller reads answers.
pub(super) fn finish(job: &Job, answer: Payload) -> Result<Performed, CallError> {
    let error = |kind| CallError::answered(job.subject(), kind);
    match (job.decode)(answer, ProtocolVersion::LATEST) {
        Ok(Decoded::Complete(payload)) => Ok(Performed::new(payload)),
        Ok(Decoded::Input(_) | Decoded::Task(_)) => Err(error(CallErrorKind::Task(TaskCause::Unexpected))),
        Err(problem) => Err(error(CallErrorKind::Decode(DecodeCause::Invalid(problem)))),
    }
}

/// Whether all did what they all had to.
fn all_of(
    subject: &str,
    outcomes: Vec<(String, Result<(), CallError>)>,
    mut failures: Vec<(String, CallError)>,
) -> Result<(), CallError> {
    failures.extend(outcomes.into_iter().filter_map(|(name, outcome)| Some((name, outcome.err()?))));
    if failures.is_empty() { Ok(()) } else { Err(CallError::of_servers(subject, failures)) }
}
