//! Merging the lists of several servers.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::join_all;
use turms_core::Payload;
use turms_proto::types::{
    ListPrompts, ListPromptsResult, ListResourceTemplates, ListResourceTemplatesResult, ListResources,
    ListResourcesResult, ListTools, ListToolsResult, PaginatedParams, Prompt, Resource, ResourceTemplate, Tool,
};
use turms_proto::{ErrorCode, ErrorObject};

use super::backend::{GroupShared, respond};
use super::list_cache::ListKind;
use super::member::MemberRef;
use crate::call::error::{CallError, CallErrorKind, UnsupportedCause};
use crate::call::options::{CallOptions, Timeout};
use crate::call::{CallOutput, CallRequest};
use crate::page::{self, List};

/// A list that the group merges from the lists of its servers.
pub(super) trait MergedList: List {
    const KIND: ListKind;
    fn name(item: &mut Self::Item) -> &mut String;
    fn merged(items: Vec<Self::Item>) -> Self::Result;
}

macro_rules! merged {
    ($($Method:ident: $Result:ident of $Item:ident.$name:ident as $kind:ident),+ $(,)?) => {
        $(impl MergedList for $Method {
            const KIND: ListKind = ListKind::$kind;

            fn name(item: &mut $Item) -> &mut String {
                &mut item.$name
            }

            fn merged(items: Vec<$Item>) -> $Result {
                $Result::new(items)
            }
        })+
    };
}
merged!(
    ListTools: ListToolsResult of Tool.name as Tools,
    ListPrompts: ListPromptsResult of Prompt.name as Prompts,
    ListResources: ListResourcesResult of Resource.uri as Resources,
    ListResourceTemplates: ListResourceTemplatesResult of ResourceTemplate.uri_template as Templates,
);

impl GroupShared {
    /// Returns the merged list in one page. A server that fails is left out; fails only if all servers fail.
    pub(super) async fn list<L: MergedList>(&self, call: &CallRequest) -> Result<CallOutput, CallError> {
        let params: PaginatedParams = call.params_as()?;
        if params.cursor.is_some() {
            let error = ErrorObject::invalid_params("cursor: there is only one page");
            return Err(CallError::server(L::NAME, error));
        }
        let targets = self.members.lock().list_targets(L::KIND).connected_or_all();
        let absent = targets.absent.into_iter().map(|(name, why)| (name, CallError::not_sent(L::NAME, why)));
        let mut failures: Vec<_> = absent.collect();
        let mut succeeded = targets.without_list;
        let mut items = Vec::new();
        let mut seen = HashSet::new();
        for (member, listed) in self.read_lists::<L>(targets.members, &call.options).await {
            match listed {
                Ok(listed) => {
                    succeeded += 1;
                    for mut item in listed {
                        if L::KIND.is_prefixed() {
                            L::name(&mut item).insert_str(0, &member.prefix);
                        }
                        if seen.insert(L::name(&mut item).clone()) {
                            items.push(item);
                        }
                    }
                }
                Err(error) => failures.push((member.name.to_string(), error)),
            }
        }
        if succeeded == 0 && !failures.is_empty() {
            return Err(CallError::of_servers(L::NAME, failures));
        }
        respond(call, Payload::new(L::merged(items)))
    }

    /// Reads the lists of some servers again. Returns the servers that failed, with their errors.
    pub(super) async fn refresh(
        &self,
        kind: ListKind,
        members: Vec<MemberRef>,
        timeout: Timeout,
    ) -> Vec<(String, CallError)> {
        match kind {
            ListKind::Tools => self.refresh_with::<ListTools>(members, timeout).await,
            ListKind::Prompts => self.refresh_with::<ListPrompts>(members, timeout).await,
            ListKind::Resources => self.refresh_with::<ListResources>(members, timeout).await,
            ListKind::Templates => self.refresh_with::<ListResourceTemplates>(members, timeout).await,
        }
    }

    async fn refresh_with<L: MergedList>(&self, members: Vec<MemberRef>, timeout: Timeout) -> Vec<(String, CallError)> {
        let timeout = match timeout {
            // A call without a timeout must not wait forever for the list of a server that may not be its target.
            Timeout::Never => Timeout::Default,
            timeout => timeout,
        };
        let options = CallOptions::with_timeout(timeout).with(|options| options.bypass_cache = true);
        let listed = self.read_lists::<L>(members, &options).await;
        listed.into_iter().filter_map(|(member, listed)| Some((member.name.to_string(), listed.err()?))).collect()
    }

    /// Reads and caches the lists of some servers.
    async fn read_lists<L: MergedList>(
        &self,
        members: Vec<MemberRef>,
        options: &CallOptions,
    ) -> Vec<(MemberRef, Result<Vec<L::Item>, CallError>)> {
        let reads = members.into_iter().map(|mut member| {
            let options = options.clone();
            // Release the old lists, so that `Arc::make_mut` below does not copy them.
            member.lists = Arc::default();
            async move {
                let listed = page::all::<L>(&member.client, options).await;
                (member, listed.or_else(empty_if_unsupported))
            }
        });
        let mut all = join_all(reads).await;
        for (member, listed) in &mut all {
            match listed {
                Ok(items) => {
                    let names = items.iter_mut().map(|item| L::name(item).clone()).collect();
                    self.members.lock().update_lists(member.client_id, |lists| lists.store(L::KIND, names));
                }
                Err(error) => {
                    tracing::warn!(target: "turms::client", server = ?member.name, %error, "the server is left out");
                    self.members.lock().update_lists(member.client_id, |lists| lists.fail(L::KIND, error.clone()));
                }
            }
        }
        all
    }
}

/// Returns an empty list if the server does not know the method. A server with resources may have no templates.
fn empty_if_unsupported<T>(error: CallError) -> Result<Vec<T>, CallError> {
    let unknown = error.error_response().is_some_and(|error| error.code == ErrorCode::METHOD_NOT_FOUND);
    let unsupported = unknown || matches!(error.kind(), CallErrorKind::Unsupported(UnsupportedCause::Revision { .. }));
    if unsupported { Ok(Vec::new()) } else { Err(error) }
}
