//! Lists, which come in pages.

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

use crate::cache::Key;
use crate::call::error::{CallError, CallErrorKind, DecodeCause};
use crate::client::Client;
use crate::job::{Job, Whole};
use crate::options::{Affinity, CallOptions};

/// How many pages a list may have.
pub(crate) const MOST_PAGES: usize = 10_000;

/// How many items a list may have that is read as a whole.
const MOST_ITEMS: usize = 1_000_000;

/// A method that gives a list in pages.
pub(crate) trait List: Method<Params = PaginatedParams> + 'static {
    type Item: Send + Unpin + 'static;
    fn take(page: &mut Self::Result) -> (Vec<Self::Item>, Option<Cursor>);
    fn ttl(page: &Self::Result) -> i64;
}

macro_rules! list {
    ($($Method:ident: $Result:ident.$items:ident of $Item:ident),+ $(,)?) => {
        $(impl List for $Method {
            type Item = $Item;

            fn take(page: &mut $Result) -> (Vec<$Item>, Option<Cursor>) {
                (std::mem::take(&mut page.$items), page.next_cursor.take())
            }

            fn ttl(page: &$Result) -> i64 {
                page.ttl_ms.unwrap_or_default()
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
);

impl List for ListCoreTasks {
    type Item = CoreTask;

    fn take(page: &mut ListTasksResult) -> (Vec<CoreTask>, Option<Cursor>) {
        (std::mem::take(&mut page.tasks), page.next_cursor.take())
    }

    fn ttl(_: &ListTasksResult) -> i64 {
        0
    }
}

/// One page, from the cache if it may be.
pub(crate) async fn page<L: List>(
    client: Client,
    cursor: Option<Cursor>,
    options: CallOptions,
    look: impl FnOnce(&Client, &mut L::Result),
) -> Result<L::Result, CallError>
where
    L::Result: Whole + Clone,
{
    let key = Key::new::<L>(cursor.as_ref().map_or_else(|| "-".to_owned(), |cursor| format!("={}", cursor.as_str())));
    let cache = client.engine().cache();
    if !options.bypass_cache
        && let Some(page) = cache.and_then(|cache| cache.get(&key))
    {
        return Ok(page);
    }
    let asked = cache.map(|cache| cache.moment());
    let mut params = PaginatedParams::new();
    params.cursor = cursor;
    let performed = client.engine().perform(Job::new::<L>(params, options)).await?;
    let mut page: L::Result = client.taken(L::NAME, performed.payload)?;
    look(&client, &mut page);
    if let (Some(cache), Some(asked)) = (client.engine().cache(), asked) {
        cache.put(key, page.clone(), L::ttl(&page), asked);
    }
    Ok(page)
}

/// All of a list, page after page.
pub(crate) async fn all<L: List>(
    client: Client,
    options: CallOptions,
    look: fn(&Client, &mut L::Result),
) -> Result<Vec<L::Item>, CallError>
where
    L::Result: Whole + Clone,
{
    let mut items = Vec::new();
    let mut turner = Turner::default();
    while let Some(cursor) = turner.next::<L>()? {
        let mut page = page::<L>(client.clone(), cursor, turner.options(options.clone()), look).await?;
        let (more, next) = L::take(&mut page);
        items.extend(more);
        if items.len() > MOST_ITEMS {
            return Err(CallError::answered(L::NAME, CallErrorKind::Decode(DecodeCause::EndlessList(turner.pages))));
        }
        turner.turn(next);
    }
    Ok(items)
}

/// Which page comes next. A server whose pages go in circles is given up.
#[derive(Default)]
struct Turner {
    next: Next,
    pages: usize,
    seen: HashSet<Cursor>,
    /// Whoever gave a cursor knows best what it means.
    near: Affinity,
}

#[derive(Default)]
enum Next {
    #[default]
    First,
    At(Cursor),
    None,
}

impl Turner {
    fn next<L: List>(&mut self) -> Result<Option<Option<Cursor>>, CallError> {
        self.pages += 1;
        if self.pages > MOST_PAGES {
            return Err(CallError::answered(L::NAME, CallErrorKind::Decode(DecodeCause::EndlessList(MOST_PAGES))));
        }
        Ok(match std::mem::replace(&mut self.next, Next::None) {
            Next::First => Some(None),
            Next::At(cursor) if self.seen.insert(cursor.clone()) => Some(Some(cursor)),
            Next::At(_) => {
                return Err(CallError::answered(
                    L::NAME,
                    CallErrorKind::Decode(DecodeCause::EndlessList(self.pages - 1)),
                ));
            }
            Next::None => None,
        })
    }

    fn options(&self, options: CallOptions) -> CallOptions {
        options.with(|it| it.near = Some(self.near.clone()))
    }

    fn turn(&mut self, next: Option<Cursor>) {
        self.next = next.map_or(Next::None, Next::At);
    }
}

/// The items of a list, asked for page by page as they are read.
pub struct Items<T> {
    ready: VecDeque<T>,
    fetch: Box<dyn FnMut() -> Option<Fetch<T>> + Send>,
    fetching: Option<Fetch<T>>,
}

type Fetch<T> = BoxFuture<'static, Result<Fetched<T>, CallError>>;

/// A page, and what fetches the one after it.
struct Fetched<T> {
    items: Vec<T>,
    next: Option<Fetch<T>>,
}

impl<T: Send + Unpin + 'static> Items<T> {
    pub(crate) fn new<L: List<Item = T>>(client: Client, look: fn(&Client, &mut L::Result)) -> Self
    where
        L::Result: Whole + Clone,
    {
        let mut first = Some(client);
        let fetch = move || first.take().map(|client| fetch::<L>(client, Turner::default(), look));
        Self { ready: VecDeque::new(), fetch: Box::new(fetch), fetching: None }
    }

    /// The next item; `None` at the end of the list.
    pub async fn next(&mut self) -> Option<Result<T, CallError>> {
        std::future::poll_fn(|task| self.poll_item(task)).await
    }

    fn poll_item(&mut self, task: &mut Context<'_>) -> Poll<Option<Result<T, CallError>>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(item)));
            }
            let Some(fetching) = self.fetching.as_mut() else {
                match (self.fetch)() {
                    Some(fetch) => self.fetching = Some(fetch),
                    None => return Poll::Ready(None),
                }
                continue;
            };
            match std::task::ready!(fetching.as_mut().poll(task)) {
                Ok(Fetched { items, next }) => {
                    self.ready.extend(items);
                    self.fetching = next;
                }
                Err(error) => {
                    self.fetching = None;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

fn fetch<L: List>(client: Client, mut turner: Turner, look: fn(&Client, &mut L::Result)) -> Fetch<L::Item>
where
    L::Result: Whole + Clone,
{
    Box::pin(async move {
        let Some(cursor) = turner.next::<L>()? else { return Ok(Fetched { items: Vec::new(), next: None }) };
        let mut page = page::<L>(client.clone(), cursor, turner.options(CallOptions::default()), look).await?;
        let (items, next) = L::take(&mut page);
        turner.turn(next);
        let more = matches!(turner.next, Next::At(_));
        Ok(Fetched { items, next: more.then(|| fetch::<L>(client, turner, look)) })
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
