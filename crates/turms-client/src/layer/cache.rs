use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::Instant;
use turms_core::Payload;
use turms_proto::method::Method as _;
use turms_proto::revision::Translate;
use turms_proto::types::{
    ListPrompts, ListPromptsResult, ListResourceTemplates, ListResourceTemplatesResult, ListResources,
    ListResourcesResult, ListSkills, ListSkillsResult, ListTools, ListToolsResult, Outcome, ReadResource,
    ReadResourceResult,
};
use turms_proto::{Ability, MethodName};

use super::CallService;
use crate::call::{CallError, CallOutput, CallRequest};
use crate::connection::ConnectionState;
use crate::tool_index::{ToolIndex, remove_invalid};

/// Caches the responses to lists and reads, as the server allows (server/utilities/caching, since 2026-07-28). This
/// layer is outside of the tracking of pending calls, because a cached response needs no call. It also updates the tool
/// index from lists of tools.
pub(crate) struct Cache<S> {
    inner: S,
    /// The cache; `None` if caching is disabled.
    responses: Option<Arc<ResponseCache>>,
    tools: Arc<ToolIndex>,
    state: watch::Receiver<ConnectionState>,
}

impl<S> Cache<S> {
    pub(crate) fn new(
        inner: S,
        responses: Option<Arc<ResponseCache>>,
        tools: Arc<ToolIndex>,
        state: watch::Receiver<ConnectionState>,
    ) -> Self {
        Self { inner, responses, tools, state }
    }

    fn learn_tools(&self, call: &CallRequest, page: &mut ListToolsResult) {
        let mirrors = |state: &ConnectionState| {
            state.connected().is_some_and(|connected| connected.version().has(Ability::HeaderMirroring))
        };
        if mirrors(&self.state.borrow()) {
            remove_invalid(&mut page.tools);
        }
        call.tools(&self.tools).learn(&page.tools);
    }
}

impl<S: CallService> Cache<S> {
    async fn cached<R: Cacheable>(
        &self,
        call: &CallRequest,
        learn: impl FnOnce(&Self, &CallRequest, &mut R) + Send,
    ) -> Result<CallOutput, CallError> {
        let key = Key::of(call);
        if let Some(responses) = self.responses.as_ref().filter(|_| !call.options.bypass_cache)
            && let Some(result) = responses.get::<R>(&key)
        {
            return Ok(CallOutput::complete(Payload::shared(result)));
        }
        let sent = self.responses.as_ref().map(|responses| responses.moment());
        let mut output = self.inner.call(call).await?;
        let Outcome::Complete(payload) = &mut output.outcome else { return Ok(output) };
        let Some(result) = payload.get_mut::<R>() else { return Ok(output) };
        learn(self, call, result);
        if let (Some(responses), Some(sent), false) = (&self.responses, sent, output.took_input) {
            responses.put(key, result, sent);
        }
        Ok(output)
    }
}

impl<S: CallService> CallService for Cache<S> {
    async fn call(&self, call: &CallRequest) -> Result<CallOutput, CallError> {
        match &*call.method {
            ListTools::NAME => self.cached::<ListToolsResult>(call, Self::learn_tools).await,
            ListResources::NAME => self.cached::<ListResourcesResult>(call, |_, _, _| {}).await,
            ListResourceTemplates::NAME => self.cached::<ListResourceTemplatesResult>(call, |_, _, _| {}).await,
            ListPrompts::NAME => self.cached::<ListPromptsResult>(call, |_, _, _| {}).await,
            ListSkills::NAME => self.cached::<ListSkillsResult>(call, |_, _, _| {}).await,
            ReadResource::NAME => self.cached::<ReadResourceResult>(call, |_, _, _| {}).await,
            _ => self.inner.call(call).await,
        }
    }
}

/// A result with a time to live.
trait Cacheable: Serialize + DeserializeOwned + Translate + Clone + Send + Sync + 'static {
    fn ttl_ms(&self) -> Option<i64>;
}

macro_rules! cacheable {
    ($($Result:ty),+ $(,)?) => {
        $(impl Cacheable for $Result {
            fn ttl_ms(&self) -> Option<i64> {
                self.ttl_ms
            }
        })+
    };
}
cacheable!(
    ListToolsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListPromptsResult,
    ListSkillsResult,
    ReadResourceResult,
);

/// The cached responses of one server, each for its time to live. A client belongs to one user, so responses with
/// private cache scope are cached, too.
#[derive(Debug, Default)]
pub(crate) struct ResponseCache {
    entries: Mutex<HashMap<Key, Entry>>,
    /// Number of changes at the server. A response is not cached if this number has changed since the request was sent.
    changes: AtomicU64,
}

/// The key of a cached response: the method, and the URI or the parameters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    method: MethodName,
    params: String,
}

impl Key {
    fn of(call: &CallRequest) -> Self {
        let params = match call.name() {
            Some(uri) => uri.to_owned(),
            None => call.params.object().map(|params| params.as_str().to_owned()).unwrap_or_default(),
        };
        Self { method: call.method.clone(), params }
    }
}

#[derive(Debug)]
struct Entry {
    value: Arc<dyn Any + Send + Sync>,
    until: Instant,
}

/// A change at the server, which invalidates cached responses.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Changed<'a> {
    Tools,
    Prompts,
    Resources,
    Resource(&'a str),
    Everything,
}

impl Changed<'_> {
    fn affects(&self, key: &Key) -> bool {
        match self {
            Self::Tools => &*key.method == ListTools::NAME,
            Self::Prompts => &*key.method == ListPrompts::NAME,
            // Skills are resources, too.
            Self::Resources => {
                [ListResources::NAME, ListResourceTemplates::NAME, ListSkills::NAME].contains(&&*key.method)
            }
            // The changed resource may be a sub-resource of the cached one.
            Self::Resource(uri) => {
                &*key.method == ReadResource::NAME && crate::subscription::is_within(uri, &key.params)
            }
            Self::Everything => true,
        }
    }
}

/// The value of the change counter at one point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Moment(u64);

impl ResponseCache {
    /// Maximum number of responses.
    const CAPACITY: usize = 1024;

    /// Maximum time to live, even if the server allows more.
    const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);

    fn get<R: Cacheable>(&self, key: &Key) -> Option<Arc<R>> {
        let entries = self.entries.lock();
        let entry = entries.get(key).filter(|entry| entry.until > Instant::now())?;
        entry.value.clone().downcast().ok()
    }

    fn moment(&self) -> Moment {
        Moment(self.changes.load(Ordering::Acquire))
    }

    /// Caches the response to a request, unless something has changed since it was sent.
    fn put<R: Cacheable>(&self, key: Key, result: &R, sent: Moment) {
        let ttl = result.ttl_ms().and_then(|ttl| u64::try_from(ttl).ok());
        let Some(ttl) = ttl.filter(|ttl| *ttl > 0) else { return };
        let now = Instant::now();
        let mut entries = self.entries.lock();
        if self.moment() != sent {
            return;
        }
        if entries.len() >= Self::CAPACITY {
            entries.retain(|_, entry| entry.until > now);
        }
        if entries.len() >= Self::CAPACITY
            && let Some(first) = entries.iter().min_by_key(|(_, entry)| entry.until).map(|(key, _)| key.clone())
        {
            entries.remove(&first);
        }
        let until = now + Duration::from_millis(ttl).min(Self::MAX_TTL);
        entries.insert(key, Entry { value: Arc::new(result.clone()), until });
    }

    pub(crate) fn invalidate(&self, changed: Changed<'_>) {
        let mut entries = self.entries.lock();
        self.changes.fetch_add(1, Ordering::Release);
        entries.retain(|key, _| !changed.affects(key));
    }
}

#[cfg(test)]
mod tests {
    use turms_proto::types::{PaginatedParams, ReadResourceParams, ResourceContents, Tool};

    use super::*;
    use crate::layer::scripted::Scripted;

    fn read(uri: &str) -> CallRequest {
        CallRequest::multi_round::<ReadResource, _>(ReadResourceParams::new(uri))
    }

    fn contents(ttl_ms: i64) -> ReadResourceResult {
        let mut result = ReadResourceResult::new([ResourceContents::from_text("a://b", "text")]);
        result.ttl_ms = Some(ttl_ms);
        result
    }

    fn respond(ttl_ms: i64) -> impl FnOnce(&CallRequest) -> Result<CallOutput, CallError> + Send + 'static {
        move |_| Ok(CallOutput::complete(Payload::new(contents(ttl_ms))))
    }

    fn cache(inner: Scripted) -> Cache<Scripted> {
        let state = watch::Sender::new(ConnectionState::Connecting(turms_proto::session::ConnectionStatus::Connecting))
            .subscribe();
        Cache::new(inner, Some(Arc::default()), Arc::new(ToolIndex::new(1)), state)
    }

    fn sent(cache: &Cache<Scripted>) -> usize {
        cache.inner.calls.lock().len()
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_is_kept_as_long_as_the_server_says() {
        let cache = cache(Scripted::default().then(respond(1000)).then(respond(0)).then(respond(-5)).then(respond(1)));
        cache.call(&read("a")).await.unwrap();
        let kept: ReadResourceResult = cache.call(&read("a")).await.unwrap().take(&read("a")).unwrap();
        assert_eq!((kept, sent(&cache)), (contents(1000), 1));
        tokio::time::advance(Duration::from_millis(1000)).await;
        for expected in 2..=4 {
            cache.call(&read("a")).await.unwrap();
            assert_eq!(sent(&cache), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_makes_stale_what_it_touches_and_what_was_on_its_way() {
        let cache = cache(Scripted::default().then(respond(1000)).then(respond(1000)).then(respond(1000)));
        let responses = cache.responses.clone().unwrap();
        cache.call(&read("a")).await.unwrap();
        cache.call(&read("b")).await.unwrap();
        responses.invalidate(Changed::Resource("a"));
        cache.call(&read("b")).await.unwrap();
        assert_eq!(sent(&cache), 2);
        let before = responses.moment();
        responses.invalidate(Changed::Tools);
        responses.put(Key::of(&read("c")), &contents(1000), before);
        assert!(responses.get::<ReadResourceResult>(&Key::of(&read("c"))).is_none());
        cache.call(&read("a")).await.unwrap();
        assert_eq!(sent(&cache), 3);
    }

    #[tokio::test]
    async fn a_response_that_took_input_is_not_kept_and_a_call_may_bypass_the_cache() {
        let asked = |_: &CallRequest| {
            let output = CallOutput::complete(Payload::new(contents(1000)));
            Ok(CallOutput { took_input: true, ..output })
        };
        let cache = cache(Scripted::default().then(asked).then(respond(1000)).then(respond(1000)));
        for _ in 0..3 {
            cache.call(&read("a")).await.unwrap();
        }
        assert_eq!(sent(&cache), 2);
        let mut bypassing = read("a");
        bypassing.options.bypass_cache = true;
        cache.call(&bypassing).await.unwrap();
        assert_eq!(sent(&cache), 3);
    }

    #[tokio::test]
    async fn tools_are_learnt_from_their_lists() {
        let tools = |_: &CallRequest| Ok(CallOutput::complete(Payload::new(ListToolsResult::new([Tool::new("add")]))));
        let cache = cache(Scripted::default().then(tools));
        cache.call(&CallRequest::new::<ListTools>(PaginatedParams::new())).await.unwrap();
        assert!(cache.tools.get("add").is_some());
    }

    #[test]
    fn the_number_of_responses_is_limited() {
        let cache = ResponseCache::default();
        for number in 0..2 * ResponseCache::CAPACITY {
            cache.put(Key::of(&read(&number.to_string())), &contents(60_000 + number as i64), cache.moment());
        }
        assert_eq!(cache.entries.lock().len(), ResponseCache::CAPACITY);
        let last = (2 * ResponseCache::CAPACITY - 1).to_string();
        assert!(cache.get::<ReadResourceResult>(&Key::of(&read(&last))).is_some());
    }
}
