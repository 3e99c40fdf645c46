//! Paginated lists.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use turms_core::BoxFuture;
use turms_proto::method::Method;
use turms_proto::types::{
    CoreTask, Cursor, ListCoreTasks, ListPrompts, ListPromptsResult, ListResourceTemplates,
    ListResourceTemplatesResult, ListResources, ListResourcesResult, ListSkills, ListSkillsResult, ListTasksResult,
    ListTools, ListToolsResult, PaginatedParams, Prompt, Resource, ResourceTemplate, Skill, Tool,
};

use crate::call::error::{CallError, CallErrorKind, DecodeCause};
use crate::call::options::Affinity;
use crate::call::{Call, CallOptions, CallRequest};
use crate::client::Client;
use crate::layer::CallService;

/// Maximum number of pages of a list.
pub(crate) const MAX_PAGES: usize = 10_000;

/// Maximum number of items of a list that is read as a whole.
const MAX_ITEMS: usize = 1_000_000;

/// A method that returns a list in pages.
pub(crate) trait List: Method<Params = PaginatedParams> + 'static {
    type Item: Send + Unpin + 'static;
    fn take(page: Self::Result) -> (Vec<Self::Item>, Option<Cursor>);
}

macro_rules! list {
    ($($Method:ident: $Result:ident.$items:ident of $Item:ident),+ $(,)?) => {
        $(impl List for $Method {
            type Item = $Item;

            fn take(page: $Result) -> (Vec<$Item>, Option<Cursor>) {
                (page.$items, page.next_cursor)
            }
        })+
    };
}
list!(
    ListTools: ListToolsResult.tools of Tool,
    ListResources: ListResourcesResult.resources of Resource,
    ListResourceTemplates: ListResourceTemplatesResult.resource_templates of ResourceTemplate,
    ListPrompts: ListPromptsResult.prompts of Prompt,
    ListSkills: ListSkillsResult.skills of Skill,
    ListCoreTasks: ListTasksResult.tasks of CoreTask,
);

/// The request for one page.
pub(crate) fn request<L: List>(cursor: Option<Cursor>) -> CallRequest {
    let mut params = PaginatedParams::new();
    params.cursor = cursor;
    CallRequest::new::<L>(params)
}

/// The call for one page.
pub(crate) fn page<L: List>(client: &Client, cursor: Option<Cursor>) -> Call<L::Result> {
    Call::new(client, Ok(request::<L>(cursor)), |call, output| output.take(call))
}

/// The call for a whole list.
pub(crate) fn list<L: List>(client: &Client) -> Call<Vec<L::Item>> {
    Call::steps(client, |client, options| async move { all::<L>(&client, options).await })
}

/// Reads all pages of a list.
pub(crate) async fn all<L: List>(service: &impl CallService, options: CallOptions) -> Result<Vec<L::Item>, CallError> {
    let mut pages = Pages::new(options);
    let mut items = Vec::new();
    while let Some(page) = pages.next::<L>(service).await? {
        items.extend(page);
        if items.len() > MAX_ITEMS {
            return Err(pages.endless::<L>());
        }
    }
    Ok(items)
}

/// The position in a list.
struct Pages {
    options: CallOptions,
    next: Option<Option<Cursor>>,
    read: usize,
    seen: HashSet<Cursor>,
}

impl Pages {
    fn new(options: CallOptions) -> Self {
        // A cursor is valid only at the server that returned it.
        let options = options.with(|options| options.affinity = Some(Affinity::default()));
        Self { options, next: Some(None), read: 0, seen: HashSet::new() }
    }

    /// Returns the items of the next page; `None` after the last.
    async fn next<L: List>(&mut self, service: &impl CallService) -> Result<Option<Vec<L::Item>>, CallError> {
        let Some(cursor) = self.next.take() else { return Ok(None) };
        let repeated = cursor.as_ref().is_some_and(|cursor| !self.seen.insert(cursor.clone()));
        if repeated || self.read == MAX_PAGES {
            return Err(self.endless::<L>());
        }
        let call = request::<L>(cursor).with_options(self.options.clone());
        let (items, next) = L::take(service.call(&call).await?.take(&call)?);
        self.read += 1;
        self.next = next.map(Some);
        Ok(Some(items))
    }

    fn endless<L: List>(&self) -> CallError {
        CallError::answered(L::NAME, CallErrorKind::Decode(DecodeCause::EndlessList(self.read)))
    }
}

/// A stream of the items of a list, read page by page.
pub struct Items<T> {
    ready: VecDeque<T>,
    fetch: Option<Fetch<T>>,
}

type Fetch<T> = BoxFuture<'static, Result<Fetched<T>, CallError>>;

/// The items of one page, and the request for the next page.
struct Fetched<T> {
    items: Vec<T>,
    next: Option<Fetch<T>>,
}

impl<T: Send + Unpin + 'static> Items<T> {
    pub(crate) fn new<L: List<Item = T>>(client: &Client) -> Self {
        Self { ready: VecDeque::new(), fetch: Some(fetch::<L>(client.clone(), Pages::new(CallOptions::default()))) }
    }

    /// Returns the next item; `None` at the end of the list.
    pub async fn next(&mut self) -> Option<Result<T, CallError>> {
        std::future::poll_fn(|task| self.poll_item(task)).await
    }

    fn poll_item(&mut self, task: &mut Context<'_>) -> Poll<Option<Result<T, CallError>>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(item)));
            }
            let Some(fetch) = &mut self.fetch else { return Poll::Ready(None) };
            let fetched = std::task::ready!(fetch.as_mut().poll(task));
            self.fetch = None;
            match fetched {
                Ok(Fetched { items, next }) => {
                    self.ready.extend(items);
                    self.fetch = next;
                }
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}

fn fetch<L: List>(client: Client, mut pages: Pages) -> Fetch<L::Item> {
    Box::pin(async move {
        let items = pages.next::<L>(&client).await?.unwrap_or_default();
        let next = pages.next.is_some().then(|| fetch::<L>(client, pages));
        Ok(Fetched { items, next })
    })
}

impl<T: Send + Unpin + 'static> Stream for Items<T> {
    type Item = Result<T, CallError>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_item(task)
    }
}

impl<T> fmt::Debug for Items<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Items").field("ready", &self.ready.len()).finish_non_exhaustive()
    }
}
