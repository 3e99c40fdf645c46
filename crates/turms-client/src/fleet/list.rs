//! The lists of many servers as one.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::join_all;
use turms_core::Payload;
use turms_proto::types::{
    ListPrompts, ListPromptsResult, ListResourceTemplates, ListResourceTemplatesResult, ListResources,
    ListResourcesResult, ListTools, ListToolsResult, PaginatedParams, Prompt, Resource, ResourceTemplate, Tool,
};
use turms_proto::{ErrorCode, ErrorObject};

use super::known::Kind;
use super::many::Many;
use super::roster::Seat;
use crate::call::error::{CallError, CallErrorKind, UnsupportedCause};
use crate::client::{Client, look_at_tools};
use crate::job::{Job, Performed, Whole};
use crate::options::{CallOptions, Timeout};
use crate::page::{self, List};

/// A list of which many servers have parts.
pub(super) trait Shared: List {
    const KIND: Kind;
    fn name(item: &mut Self::Item) -> &mut String;
    fn whole(items: Vec<Self::Item>) -> Self::Result;
    fn look(_: &Client, _: &mut Self::Result) {}
}

impl Shared for ListTools {
    const KIND: Kind = Kind::Tools;

    fn name(tool: &mut Tool) -> &mut String {
        &mut tool.name
    }

    fn whole(tools: Vec<Tool>) -> ListToolsResult {
        ListToolsResult::new(tools)
    }

    fn look(client: &Client, page: &mut ListToolsResult) {
        look_at_tools(client, page);
    }
}

impl Shared for ListPrompts {
    const KIND: Kind = Kind::Prompts;

    fn name(prompt: &mut Prompt) -> &mut String {
        &mut prompt.name
    }

    fn whole(prompts: Vec<Prompt>) -> ListPromptsResult {
        ListPromptsResult::new(prompts)
    }
}

impl Shared for ListResources {
    const KIND: Kind = Kind::Resources;

    fn name(resource: &mut Resource) -> &mut String {
        &mut resource.uri
    }

    fn whole(resources: Vec<Resource>) -> ListResourcesResult {
        ListResourcesResult::new(resources)
    }
}

impl Shared for ListResourceTemplates {
    const KIND: Kind = Kind::Templates;

    fn name(template: &mut ResourceTemplate) -> &mut String {
        &mut template.uri_template
    }

    fn whole(templates: Vec<ResourceTemplate>) -> ListResourceTemplatesResult {
        ListResourceTemplatesResult::new(templates)
    }
}

impl Many {
    /// The whole list, in one page. A server that fails is left out, unless all do.
    pub(super) async fn list<L: Shared>(&self, job: Job) -> Result<Performed, CallError>
    where
        L::Result: Whole + Clone,
    {
        let params: PaginatedParams = super::many::params_of(&job)?;
        if params.cursor.is_some() {
            let error = ErrorObject::invalid_params("cursor: there is only one page");
            return Err(CallError::server(L::NAME, error));
        }
        let asked = self.roster.lock().askable(L::KIND).now();
        let absent = asked.absent.into_iter().map(|(name, why)| (name, CallError::not_sent(L::NAME, why)));
        let mut failures: Vec<_> = absent.collect();
        let mut succeeded = asked.idle;
        let mut items = Vec::new();
        let mut seen = HashSet::new();
        for (seat, listed) in self.list_at::<L>(asked.seats, job.options.clone()).await {
            match listed {
                Ok(listed) => {
                    succeeded += 1;
                    for mut item in listed {
                        if L::KIND.is_prefixed() {
                            L::name(&mut item).insert_str(0, &seat.prefix);
                        }
                        if seen.insert(L::name(&mut item).clone()) {
                            items.push(item);
                        }
                    }
                }
                Err(error) => failures.push((seat.name.to_string(), error)),
            }
        }
        if succeeded == 0 && !failures.is_empty() {
            return Err(CallError::of_servers(L::NAME, failures));
        }
        super::many::finish(&job, Payload::new(L::whole(items)))
    }

    /// Looks anew at what some servers have. Who could not be asked comes back.
    pub(super) async fn refresh(&self, kind: Kind, seats: Vec<Seat>, timeout: Timeout) -> Vec<(String, CallError)> {
        match kind {
            Kind::Tools => self.refresh_one::<ListTools>(seats, timeout).await,
            Kind::Prompts => self.refresh_one::<ListPrompts>(seats, timeout).await,
            Kind::Resources => self.refresh_one::<ListResources>(seats, timeout).await,
            Kind::Templates => self.refresh_one::<ListResourceTemplates>(seats, timeout).await,
        }
    }

    async fn refresh_one<L: Shared>(&self, seats: Vec<Seat>, timeout: Timeout) -> Vec<(String, CallError)>
    where
        L::Result: Whole + Clone,
    {
        let timeout = match timeout {
            // Whoever has all the time for a call need not wait for ever for a server that the call may not concern.
            Timeout::Never => Timeout::Usual,
            timeout => timeout,
        };
        let options = CallOptions::within(timeout).with(|it| it.bypass_cache = true);
        let listed = self.list_at::<L>(seats, options).await;
        listed.into_iter().filter_map(|(seat, listed)| Some((seat.name.to_string(), listed.err()?))).collect()
    }

    /// The lists of some servers, as they have them; what they have is known from then on.
    async fn list_at<L: Shared>(
        &self,
        seats: Vec<Seat>,
        options: CallOptions,
    ) -> Vec<(Seat, Result<Vec<L::Item>, CallError>)>
    where
        L::Result: Whole + Clone,
    {
        let asking = seats.into_iter().map(|mut seat| {
            let options = options.clone();
            // Nobody holds on to what is about to be replaced, so that it need not be copied then.
            seat.known = Arc::default();
            async move {
                let listed = page::all::<L>(seat.client.clone(), options, L::look).await;
                (seat, listed.or_else(nothing_there))
            }
        });
        let mut all = join_all(asking).await;
        for (seat, listed) in &mut all {
            match listed {
                Ok(items) => {
                    let names = items.iter_mut().map(|item| L::name(item).clone()).collect();
                    self.roster.lock().learn(seat.placed, |known| known.learn(L::KIND, names));
                }
                Err(error) => {
                    tracing::warn!(target: "turms::client", server = ?seat.name, %error, "the server is left out");
                    self.roster.lock().learn(seat.placed, |known| known.fail(L::KIND, error.clone()));
                }
            }
        }
        all
    }
}

/// A server that has resources need not have templates of them, and then may not know the method.
fn nothing_there<T>(error: CallError) -> Result<Vec<T>, CallError> {
    let unknown = error.error_response().is_some_and(|error| error.code == ErrorCode::METHOD_NOT_FOUND);
    let none = unknown || matches!(error.kind(), CallErrorKind::Unsupported(UnsupportedCause::Revision { .. }));
    if none { Ok(Vec::new()) } else { Err(error) }
}
