//! Resources: how they are read, listed and subscribed to.

use std::collections::BTreeMap;
use std::sync::Arc;

use turms_core::{Payload, Peer, ResponseFuture, ServiceError};
use turms_proto::method::Method as _;
use turms_proto::types::{
    EmptyResult, ListResourceTemplatesResult, ListResourcesResult, ReadResource, ReadResourceParams,
    ReadResourceResult, ResourceParams,
};
use turms_proto::{ErrorObject, ProtocolVersion, RawJson};

use super::listen::too_many_subscriptions;
use super::{Bare, RoundParts, Way, answer, find, now};
use crate::catalog::{Catalog, ListKind, ListStyle, write_pages};
use crate::context::Context;
use crate::handler::{Call, Input};
use crate::input;
use crate::resource::{Resource, Spec, Uri};
use crate::server::{Item, Settings};

/// What is done with resources. Only what registers one names it, so that a program without any has none of it in it.
pub(crate) static WAYS: ResourceWays = ResourceWays {
    read: Bare::read_resource,
    subscribe: Bare::subscribe,
    complete: Bare::complete,
    has: |catalog, uri| catalog.resource_at(uri).is_some(),
    find: find_resource,
    list,
    list_templates,
};

/// See [`WAYS`].
#[derive(Debug)]
pub(crate) struct ResourceWays {
    pub(super) read: Way,
    pub(super) subscribe: Way,
    pub(super) complete: Way,
    /// Whether there is anything at a URI.
    pub(crate) has: fn(&Catalog, &str) -> bool,
    /// Finds what a caller sees at a URI.
    pub(crate) find: fn(&Settings, &Catalog, &Context, &str) -> Found,
    /// Writes the pages of the list.
    pub(crate) list: fn(&Catalog, ProtocolVersion, &ListStyle) -> Vec<RawJson>,
    /// Writes the pages of the list of templates.
    pub(crate) list_templates: fn(&Catalog, ProtocolVersion, &ListStyle) -> Vec<RawJson>,
}

/// What a caller sees at a URI.
#[derive(Debug)]
pub(crate) enum Found {
    /// A resource, with the variables in its URI.
    Shown(Resource, BTreeMap<String, String>),
    /// A resource that the caller must not learn of.
    Hidden,
    /// Nothing.
    Absent,
}

impl Found {
    pub(crate) fn is_shown(&self) -> bool {
        matches!(self, Self::Shown(..))
    }

    pub(crate) fn is_hidden(&self) -> bool {
        matches!(self, Self::Hidden)
    }
}

/// Decides which resource a caller sees at a URI, for everything that takes one.
fn find_resource(settings: &Settings, catalog: &Catalog, context: &Context, uri: &str) -> Found {
    let found = find(catalog, context, |catalog| {
        catalog.resource_at(uri).map(|(resource, variables)| (resource.clone(), variables))
    });
    match found {
        None => Found::Absent,
        Some((resource, variables)) => {
            let is_shown = settings.shows(Item::Resource(&resource), context) && resource.is_shown(uri, context);
            if is_shown { Found::Shown(resource, variables) } else { Found::Hidden }
        }
    }
}

fn list(catalog: &Catalog, version: ProtocolVersion, style: &ListStyle) -> Vec<RawJson> {
    let specs = catalog.resources.iter().filter_map(|resource| match resource.spec() {
        Spec::One(spec) => Some(spec.clone()),
        Spec::Family(..) => None,
    });
    write_pages(&specs.collect::<Vec<_>>(), version, style, ListResourcesResult::new)
}

fn list_templates(catalog: &Catalog, version: ProtocolVersion, style: &ListStyle) -> Vec<RawJson> {
    let specs = catalog.templates.iter().filter_map(|resource| match resource.spec() {
        Spec::Family(spec, _) => Some(spec.clone()),
        Spec::One(_) => None,
    });
    write_pages(&specs.collect::<Vec<_>>(), version, style, ListResourceTemplatesResult::new)
}

impl Bare {
    fn read_resource(&self, params: Payload, mut context: Context) -> Result<ResponseFuture, ServiceError> {
        let params: ReadResourceParams = params.take()?;
        let catalog = self.handle.catalog();
        let Found::Shown(resource, variables) = find_resource(&self.settings, &catalog, &context, &params.uri) else {
            if !catalog.offers(ListKind::Resources) {
                return Err(ErrorObject::method_not_found(ReadResource::NAME).into());
            }
            return Err(ErrorObject::resource_not_found(&params.uri).into());
        };
        let meta = self.result_meta(&context);
        let parts = RoundParts {
            method: ReadResource::NAME,
            subject: &params.uri,
            arguments: None,
            state: params.request_state.as_deref(),
            responses: params.input_responses.as_ref(),
        };
        let rounds = self.rounds(&context, &parts, meta.as_ref());
        context.put(Uri(params.uri.clone()));
        context.set_rounds(rounds.clone());
        let call = Call { context, input: Input::Texts(variables) };
        Ok(input::run(resource.read(params.uri, call), rounds, move |outcome| {
            answer(outcome, meta, |result: &mut ReadResourceResult| &mut result.meta)
        }))
    }

    #[expect(clippy::needless_pass_by_value, reason = "one of several ways")]
    fn subscribe(&self, params: Payload, context: Context) -> Result<ResponseFuture, ServiceError> {
        let params: ResourceParams = params.take()?;
        let catalog = self.handle.catalog();
        if !find_resource(&self.settings, &catalog, &context, &params.uri).is_shown() {
            return Err(ErrorObject::resource_not_found(&params.uri).into());
        }
        // Without the session, which will hold it, and without the peer of this one request.
        let subscriber = || context.call().clone().with_peer(Peer::nobody()).with_session(Arc::new(()));
        let subscriber = self.settings.visible.is_some().then(|| Arc::new(subscriber()));
        match context.session() {
            Some(session) if !session.subscribe(params.uri, subscriber) => Err(too_many_subscriptions().into()),
            _ => Ok(now(EmptyResult::new())),
        }
    }
}
