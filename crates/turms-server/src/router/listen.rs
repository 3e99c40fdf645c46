//! Requests that last: `subscriptions/listen`.

use std::sync::Arc;

use bytestring::ByteString;
use turms_core::{Outcome as CallOutcome, Payload, Ready, ResponseFuture, ServiceError};
use turms_proto::method::{Method as _, Notification as _};
use turms_proto::revision::tag_subscription;
use turms_proto::types::{
    Acknowledged, AcknowledgedParams, Listen, ListenParams, ListenResult, Meta, ServerCapabilities, SubscriptionFilter,
};
use turms_proto::{ErrorObject, RawJson};

use super::{Bare, hides};
use crate::context::Context;
use crate::handle::ServerHandle;
use crate::hub::{Change, Listening};
use crate::server::Settings;
use crate::session::MAX_SUBSCRIPTIONS;
use crate::task::{MOST_WATCHED, TaskChanges};

impl Bare {
    /// A request that lasts: first what will be told, then every change of it, until either side has had enough.
    pub(super) fn listen(&self, params: Payload, context: Context) -> Result<ResponseFuture, ServiceError> {
        let params: ListenParams = params.take()?;
        let capabilities = self.capabilities();
        let tells = capabilities.tools.is_some() || capabilities.prompts.is_some() || capabilities.resources.is_some();
        if !tells {
            return Err(ErrorObject::method_not_found(Listen::NAME).into());
        }
        let mut task_ids = params.notifications.task_ids.clone().unwrap_or_default();
        if !self.handle.has_tasks() {
            task_ids.clear();
        }
        if task_ids.len() > MOST_WATCHED {
            let most = MOST_WATCHED;
            return Err(ErrorObject::invalid_params(format!("at most {most} tasks can be watched at once")).into());
        }
        if params.notifications.resource_subscriptions.as_ref().is_some_and(|uris| uris.len() > MAX_SUBSCRIPTIONS) {
            return Err(too_many_subscriptions().into());
        }
        let mut filter = honoured(&params.notifications, &capabilities);
        if let (Some(uris), Some(ways), Some(_)) =
            (&mut filter.resource_subscriptions, self.resource_ways(&context), &self.settings.visible)
        {
            // Also without those that do not exist: the two must not be told apart.
            let catalog = self.handle.catalog();
            uris.retain(|uri| (ways.find)(&self.settings, &catalog, &context, uri).is_shown());
        }
        let listening = self.handle.hub().listen(filter.clone());
        let handle = self.handle.clone();
        let settings = self.settings.clone();
        Ok(Ready::later(async move {
            let mut filter = filter;
            let mut changes = None;
            if let Some(ways) = handle.task_ways() {
                let (watch, watched) = (ways.watch)(&settings.tasks, &task_ids, &context).await?;
                changes = Some(watch);
                filter.task_ids = Some(watched).filter(|watched| !watched.is_empty());
            }
            tell_changes(filter, listening, changes, context, handle, settings).await
        }))
    }
}

pub(super) fn too_many_subscriptions() -> ErrorObject {
    ErrorObject::invalid_params(format!("at most {MAX_SUBSCRIPTIONS} resources can be watched at once"))
}

/// What of a filter the server can honour.
fn honoured(wanted: &SubscriptionFilter, capabilities: &ServerCapabilities) -> SubscriptionFilter {
    let mut filter = SubscriptionFilter::new();
    // The first of a kind may be added at any time.
    filter.tools_list_changed = wanted.tools_list_changed;
    filter.prompts_list_changed = wanted.prompts_list_changed;
    filter.resources_list_changed = wanted.resources_list_changed;
    if capabilities.resources.is_some() {
        filter.resource_subscriptions.clone_from(&wanted.resource_subscriptions);
    }
    filter
}

async fn tell_changes(
    filter: SubscriptionFilter,
    listening: Listening,
    mut tasks: Option<Box<dyn TaskChanges>>,
    context: Context,
    handle: ServerHandle,
    settings: Arc<Settings>,
) -> CallOutcome {
    let id = context.request_id().cloned().unwrap_or_else(|| 0.into());
    let gone = |_| ErrorObject::internal("the client has gone");
    let acknowledged = AcknowledgedParams::new(filter);
    let params = RawJson::encode(&acknowledged).map_err(|error| crate::respond::unwritable(&error))?;
    let tagged = |params: Option<&RawJson>, method: ByteString| {
        turms_proto::Notification::raw(method, Some(tag_subscription(params, &id)))
    };
    let acknowledgement = tagged(Some(&params), ByteString::from_static(Acknowledged::NAME));
    context.peer().notify_raw(acknowledgement).await.map_err(gone)?;
    let mut ending = handle.hub().ending();
    loop {
        let notification = tokio::select! {
            biased;
            change = listening.next_change() => match &change {
                Change::Resource(uri) if hides(&settings, &handle, &context, uri) => None,
                change => change.notification(),
            },
            task = next_of(&mut tasks) => task,
            _ = ending.wait_for(|ending| *ending) => break,
        };
        let Some(notification) = notification else { continue };
        let told = tagged(notification.params.as_ref(), notification.method);
        context.peer().notify_raw(told).await.map_err(gone)?;
    }
    let mut meta = Meta::new();
    let tag = tag_subscription(None, &id);
    if let Some(tag) = tag.member("_meta").and_then(|meta| meta.as_object()) {
        meta = tag.into();
    }
    Ok(Payload::new(ListenResult::new().meta(meta)))
}

async fn next_of(tasks: &mut Option<Box<dyn TaskChanges>>) -> Option<turms_proto::Notification> {
    match tasks {
        Some(tasks) => tasks.next().await,
        None => std::future::pending().await,
    }
}
