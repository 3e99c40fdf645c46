//! `resources/read`, `resources/subscribe` and `resources/unsubscribe`.

use std::pin::pin;
use std::sync::Arc;

use turms_core::{CallResult, InsufficientScopeError, Payload, Peer, ServiceError};
use turms_proto::ErrorObject;
use turms_proto::method::Method as _;
use turms_proto::types::{EmptyResult, ReadResource, ReadResourceParams, ResourceParams, Subscribe};

use super::listen::too_many_subscriptions;
use super::{RoundRequest, Router, find_in_catalogs, respond};
use crate::catalog::CatalogList;
use crate::context::Context;
use crate::handle::ServerHandle;
use crate::input::run_round;
use crate::resource::Resource;
use crate::server::{Component, Settings};
use crate::session::Subscriber;

/// The result of looking up a URI for a caller.
#[derive(Debug)]
pub(crate) enum ResourceLookup {
    /// A resource that the caller may read.
    Visible(Resource),
    /// A resource that the caller sees and does not have the scopes for.
    Forbidden(InsufficientScopeError),
    /// A resource that is hidden from the caller.
    Hidden,
    /// No resource.
    Absent,
}

/// Looks up the resource at a URI for a caller. All methods with a URI use this.
pub(crate) fn find_resource(
    settings: &Settings,
    server: &ServerHandle,
    context: &Context,
    uri: &str,
) -> ResourceLookup {
    let found = find_in_catalogs(&server.catalog(), context, |catalog| {
        catalog.resource_at(uri).map(|(resource, _)| resource.clone())
    });
    match found {
        None => ResourceLookup::Absent,
        Some(resource) if !resource.is_shown(uri, context) => ResourceLookup::Hidden,
        Some(resource) => match settings.check_item(Component::Resource(&resource), context) {
            Ok(true) => ResourceLookup::Visible(resource),
            Ok(false) => ResourceLookup::Hidden,
            Err(missing) => ResourceLookup::Forbidden(missing),
        },
    }
}

/// Returns `true` if there is a resource at the URI that the caller may not read. Updates of a removed resource may be
/// sent.
pub(crate) fn is_hidden(settings: &Settings, server: &ServerHandle, context: &Context, uri: &str) -> bool {
    matches!(find_resource(settings, server, context, uri), ResourceLookup::Hidden | ResourceLookup::Forbidden(_))
}

impl Router {
    pub(super) async fn read_resource(self, params: Payload, context: Context) -> CallResult {
        self.require_kind(CatalogList::Resources, ReadResource::NAME, &context)?;
        let params: ReadResourceParams = params.take()?;
        let resource = self.find_visible_resource(&params.uri, &context)?;
        let server = self.result_meta(&context);
        let round = RoundRequest {
            method: ReadResource::NAME,
            target: &params.uri,
            arguments: None,
            state: params.request_state.as_deref(),
            responses: params.input_responses.as_ref(),
        };
        let context = self.with_rounds(context, &round, server.as_ref());
        let rounds = context.rounds().cloned();
        let end = run_round(pin!(resource.read(params, context)), rounds.as_deref()).await;
        respond(end, server, |result| &mut result.meta)
    }

    fn find_visible_resource(&self, uri: &str, context: &Context) -> Result<Resource, ServiceError> {
        match find_resource(&self.0.settings, &self.0.handle, context, uri) {
            ResourceLookup::Visible(resource) => Ok(resource),
            ResourceLookup::Forbidden(missing) => Err(missing.into()),
            ResourceLookup::Hidden | ResourceLookup::Absent => Err(ErrorObject::resource_not_found(uri).into()),
        }
    }

    pub(super) fn subscribe(&self, params: Payload, context: &Context) -> CallResult {
        self.require_kind(CatalogList::Resources, Subscribe::NAME, context)?;
        let params: ResourceParams = params.take()?;
        self.find_visible_resource(&params.uri, context)?;
        let Some(session) = context.session() else { return Ok(Payload::new(EmptyResult::new())) };
        // Keeps neither the session, which owns the subscription, nor the peer of this request.
        let own = || context.call().clone().with_peer(Peer::disconnected()).without_session();
        let subscriber = Subscriber {
            context: self.0.settings.visible.is_some().then(|| Arc::new(own())),
            principal: context.principal().cloned(),
        };
        if self.0.handle.subscriptions().subscribe(session.core(), params.uri, subscriber) {
            Ok(Payload::new(EmptyResult::new()))
        } else {
            Err(too_many_subscriptions().into())
        }
    }

    pub(super) fn unsubscribe(&self, params: Payload, context: &Context) -> CallResult {
        let params: ResourceParams = params.take()?;
        if let Some(session) = context.session() {
            self.0.handle.subscriptions().unsubscribe(session.core(), &params.uri);
        }
        Ok(Payload::new(EmptyResult::new()))
    }
}
