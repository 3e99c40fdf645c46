//! `subscriptions/listen`.

use std::collections::BTreeSet;

use turms_core::{CallResult, InsufficientScopeError, Payload, ServiceError};
use turms_proto::method::{Method as _, NotificationMethod as _};
use turms_proto::revision::tag_subscription;
use turms_proto::types::{
    AcknowledgedParams, Listen, ListenParams, Meta, ServerCapabilities, SubscriptionFilter,
    SubscriptionsAcknowledgedNotification, SubscriptionsListenResult,
};
use turms_proto::{ErrorObject, MethodName, RawJson};

use super::resource::ResourceLookup;
use super::{Router, find_resource, is_hidden};
use crate::context::Context;
use crate::handle::ServerHandle;
use crate::server::Settings;
use crate::session::MAX_SUBSCRIPTIONS;
use crate::subscriptions::{Change, Listening};
use crate::task::{MAX_WATCHED_TASKS, TaskWatch, require_tasks_extension};

impl Router {
    /// Serves a subscription: sends the acknowledgement, then every change, until the client or the server ends it.
    pub(super) async fn listen(self, params: Payload, context: Context) -> CallResult {
        let params: ListenParams = params.take()?;
        let capabilities = self.capabilities();
        let has_lists =
            capabilities.tools.is_some() || capabilities.prompts.is_some() || capabilities.resources.is_some();
        if !has_lists {
            return Err(ServiceError::method_not_found(Listen::NAME));
        }
        let (handle, settings) = (&self.0.handle, &self.0.settings);
        let mut task_ids = params.notifications.task_ids.clone().unwrap_or_default();
        if !handle.has_tasks() {
            task_ids.clear();
        }
        if task_ids.len() > MAX_WATCHED_TASKS {
            let message = format!("at most {MAX_WATCHED_TASKS} tasks can be watched at once");
            return Err(ErrorObject::invalid_params(message).into());
        }
        if params.notifications.resource_subscriptions.as_ref().is_some_and(|uris| uris.len() > MAX_SUBSCRIPTIONS) {
            return Err(too_many_subscriptions().into());
        }
        let mut filter = supported_filter(&params.notifications, &capabilities);
        if let Some(uris) = &mut filter.resource_subscriptions {
            let mut needed = BTreeSet::new();
            uris.retain(|uri| match find_resource(settings, handle, &context, uri) {
                ResourceLookup::Visible(_) => true,
                // Missing resources, too: a client must not be able to distinguish them from hidden ones.
                ResourceLookup::Hidden | ResourceLookup::Absent => settings.visible.is_none(),
                ResourceLookup::Forbidden(missing) => {
                    needed.extend(missing.scopes().iter().cloned());
                    false
                }
            });
            if !needed.is_empty() {
                return Err(InsufficientScopeError::new(needed).into());
            }
        }
        let listening = handle.subscriptions().listen(filter.clone());
        let mut tasks = None;
        if !task_ids.is_empty() {
            require_tasks_extension(&context)?;
            let (watch, watched) = TaskWatch::of(&settings.tasks, &task_ids, &context).await;
            tasks = Some(watch);
            filter.task_ids = Some(watched).filter(|watched| !watched.is_empty());
        }
        send_changes(filter, listening, tasks, context, handle, settings).await
    }
}

pub(super) fn too_many_subscriptions() -> ErrorObject {
    ErrorObject::invalid_params(format!("at most {MAX_SUBSCRIPTIONS} resources can be watched at once"))
}

/// Returns the part of a filter that the server supports.
fn supported_filter(wanted: &SubscriptionFilter, capabilities: &ServerCapabilities) -> SubscriptionFilter {
    let mut filter = SubscriptionFilter::new();
    // The first item of a kind may be added at any time.
    filter.tools_list_changed = wanted.tools_list_changed;
    filter.prompts_list_changed = wanted.prompts_list_changed;
    filter.resources_list_changed = wanted.resources_list_changed;
    if capabilities.resources.is_some() {
        filter.resource_subscriptions.clone_from(&wanted.resource_subscriptions);
    }
    filter
}

async fn send_changes(
    filter: SubscriptionFilter,
    listening: Listening,
    mut tasks: Option<TaskWatch>,
    context: Context,
    handle: &ServerHandle,
    settings: &Settings,
) -> CallResult {
    let id = context.request_id().cloned().unwrap_or_else(|| 0.into());
    let gone = |_| ErrorObject::internal("the client has disconnected");
    let acknowledged = AcknowledgedParams::new(filter);
    let params = RawJson::encode(&acknowledged).map_err(|error| crate::respond::encode_error(&error))?;
    let tagged = |params: Option<&RawJson>, method: MethodName| {
        turms_proto::Notification::raw(method, Some(tag_subscription(params, &id)))
    };
    let acknowledgement = tagged(Some(&params), MethodName::from_static(SubscriptionsAcknowledgedNotification::NAME));
    context.peer().notify_raw(acknowledgement).await.map_err(gone)?;
    let shutdown = handle.shutdown_token();
    loop {
        let notification = tokio::select! {
            biased;
            change = listening.next_change() => match &change {
                Change::Resource(uri) if is_hidden(settings, handle, &context, uri) => None,
                change => change.notification(),
            },
            task = next_of(&mut tasks) => task,
            () = shutdown.begun() => break,
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
    Ok(Payload::new(SubscriptionsListenResult::new().meta(meta)))
}

async fn next_of(tasks: &mut Option<TaskWatch>) -> Option<turms_proto::Notification> {
    match tasks {
        Some(tasks) => tasks.next().await,
        None => std::future::pending().await,
    }
}
