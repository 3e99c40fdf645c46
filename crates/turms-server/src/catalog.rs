//! The catalog: an immutable snapshot of a server's tools, prompts and resources. Each registration replaces it with a
//! new one.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use foldhash::fast::RandomState;
use indexmap::IndexMap;
use turms_proto::method::Method as _;
use turms_proto::revision::Translate;
use turms_proto::types::{
    CacheScope, Cursor, ListCapability, ListPrompts, ListPromptsResult, ListResourceTemplates,
    ListResourceTemplatesResult, ListResources, ListResourcesResult, ListTools, ListToolsResult, Meta,
    ResourcesCapability, ServerCapabilities,
};
use turms_proto::{Ability, ErrorObject, Object, ProtocolVersion, RawJson};

use crate::prompt::Prompt;
use crate::resource::{Resource, ResourceEntry};
use crate::tool::Tool;
use crate::uri_spelling::normalized;

/// The tools, prompts, resources and resource templates of a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Catalog {
    pub(crate) tools: Table<Tool>,
    pub(crate) prompts: Table<Prompt>,
    pub(crate) resources: Table<Resource>,
    pub(crate) templates: Table<Resource>,
    /// Set once a URI with a percent-encoded character has been registered.
    has_encoded_uris: bool,
    lists: ListPages,
}

/// Items by name, in the order of registration.
#[derive(Debug, Clone)]
pub(crate) struct Table<T> {
    /// `true` if the capability for this kind is declared: there is or was an item, or items may be added. Never reset,
    /// because clients have seen the capability.
    offered: bool,
    /// Hashed with a random seed, because names may come from other servers.
    entries: IndexMap<String, T, RandomState>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { offered: false, entries: IndexMap::default() }
    }
}

impl<T> Table<T> {
    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        self.entries.get(name)
    }

    pub(crate) fn iter(&self) -> indexmap::map::Values<'_, String, T> {
        self.entries.values()
    }

    /// Adds an item. Returns `false` if the name is taken.
    pub(crate) fn add(&mut self, name: &str, entry: &T) -> bool
    where
        T: Clone,
    {
        let is_new = !self.entries.contains_key(name);
        if is_new {
            self.insert(name.to_owned(), entry.clone());
        }
        is_new
    }

    /// Adds an item, replacing the one with the same name.
    pub(crate) fn insert(&mut self, name: String, entry: T) {
        self.offered = true;
        self.entries.insert(name, entry);
    }

    /// Removes the items for which `keep` returns `false`.
    pub(crate) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.entries.retain(|_, entry| keep(entry));
    }

    pub(crate) fn remove(&mut self, name: &str) -> bool {
        self.entries.shift_remove(name).is_some()
    }
}

impl Catalog {
    pub(crate) fn insert_prompt(&mut self, prompt: Prompt) {
        self.prompts.insert(prompt.name().to_owned(), prompt);
    }

    pub(crate) fn insert_resource(&mut self, resource: Resource) {
        let uri = resource.uri().to_owned();
        self.has_encoded_uris |= uri.contains('%');
        match resource.is_template() {
            true => self.templates.insert(uri, resource),
            false => self.resources.insert(normalized(&uri).into_owned(), resource),
        }
    }

    /// Adds a prompt. Returns `false` if the name is taken.
    pub(crate) fn add_prompt(&mut self, prompt: &Prompt) -> bool {
        self.prompts.add(prompt.name(), prompt)
    }

    /// Adds a resource or a template. Returns `false` if the URI is taken.
    pub(crate) fn add_resource(&mut self, resource: &Resource) -> bool {
        self.has_encoded_uris |= resource.uri().contains('%');
        match resource.is_template() {
            true => self.templates.add(resource.uri(), resource),
            false => self.resources.add(&normalized(resource.uri()), resource),
        }
    }

    /// Adds all items of another catalog, replacing those with the same name.
    pub(crate) fn merge(&mut self, other: &Self) {
        other.tools.iter().for_each(|tool| self.tools.insert(tool.name().to_owned(), tool.clone()));
        other.prompts.iter().for_each(|prompt| self.insert_prompt(prompt.clone()));
        let resources = other.resources.iter().chain(other.templates.iter());
        resources.for_each(|resource| self.insert_resource(resource.clone()));
    }

    pub(crate) fn remove_resource(&mut self, uri: &str) -> bool {
        self.resources.remove(&normalized(uri)) || self.templates.remove(uri)
    }

    /// Returns the resource with this URI, regardless of percent-encoding.
    pub(crate) fn resource(&self, uri: &str) -> Option<&Resource> {
        self.resources.get(&normalized(uri))
    }

    /// Returns the resource at a URI, or the matching resource template with its variables.
    ///
    /// A resource is found by every spelling of its URI. Otherwise a template could serve the URI of a hidden resource.
    pub(crate) fn resource_at(&self, uri: &str) -> Option<(&Resource, BTreeMap<String, String>)> {
        let normal = normalized(uri);
        match self.resources.get(&normal) {
            Some(resource) => Some((resource, BTreeMap::new())),
            None => self.template_at(uri),
        }
    }

    /// Returns the template that matches a URI, or the resource that is indistinguishable from the URI for the
    /// template.
    fn template_at(&self, uri: &str) -> Option<(&Resource, BTreeMap<String, String>)> {
        let (template, variables) =
            self.templates.iter().find_map(|template| Some((template, template.variables(uri)?)))?;
        // Without percent-encoding, a template takes two URIs for the same only by their parameters: these may have
        // another order, and empty ones may lack the `=`.
        if !self.has_encoded_uris && !uri.contains(['%', '?', ';', '&']) {
            return Some((template, variables));
        }
        let is_same = |resource: &&Resource| template.variables(resource.uri()).as_ref() == Some(&variables);
        match self.resources.iter().find(is_same) {
            Some(resource) => Some((resource, BTreeMap::new())),
            None => Some((template, variables)),
        }
    }

    /// Returns a copy without the cached list pages.
    pub(crate) fn changed(&self) -> Self {
        Self { lists: ListPages::default(), ..self.clone() }
    }

    /// Returns the capabilities that follow from the registered items.
    pub(crate) fn capabilities(&self) -> ServerCapabilities {
        let mut capabilities = ServerCapabilities::new().logging(Object::new());
        if self.offers(CatalogList::Tools) {
            capabilities.tools = Some(ListCapability::new().list_changed(true));
        }
        if self.offers(CatalogList::Prompts) {
            capabilities.prompts = Some(ListCapability::new().list_changed(true));
        }
        if self.offers(CatalogList::Resources) {
            capabilities.resources = Some(ResourcesCapability::new().list_changed(true).subscribe(true));
        }
        let completes = self.prompts.iter().any(Prompt::completes)
            || self.resources.iter().chain(self.templates.iter()).any(Resource::completes);
        if completes {
            capabilities.completions = Some(Object::new());
        }
        capabilities
    }

    /// Returns `true` if a kind of items is declared. The methods of other kinds are not found.
    pub(crate) fn offers(&self, kind: CatalogList) -> bool {
        match kind {
            CatalogList::Tools => self.tools.offered,
            CatalogList::Prompts => self.prompts.offered,
            CatalogList::Resources | CatalogList::Templates => self.resources.offered || self.templates.offered,
        }
    }

    pub(crate) fn offers_all(&self) -> bool {
        self.tools.offered && self.prompts.offered && self.resources.offered
    }

    /// Declares every kind of items, because items may be added.
    pub(crate) fn offer_all(&mut self) {
        (self.tools.offered, self.prompts.offered, self.resources.offered) = (true, true, true);
    }

    /// Returns a page of a list. Pages are encoded once per revision and cached until the catalog changes.
    pub(crate) fn page(
        &self,
        kind: CatalogList,
        cursor: Option<&Cursor>,
        version: ProtocolVersion,
        style: &ListStyle,
    ) -> Result<RawJson, ErrorObject> {
        let pages = self.lists.pages(kind, version).get_or_init(|| self.write(kind, version, style));
        find_page(pages, cursor).cloned()
    }

    pub(crate) fn write(&self, kind: CatalogList, version: ProtocolVersion, style: &ListStyle) -> Vec<RawJson> {
        match kind {
            CatalogList::Tools => {
                let specs: Vec<_> = self.tools.iter().map(|tool| tool.definition().clone()).collect();
                write_pages(&specs, version, style, ListToolsResult::new)
            }
            CatalogList::Prompts => {
                let specs: Vec<_> = self.prompts.iter().map(|prompt| prompt.definition().clone()).collect();
                write_pages(&specs, version, style, ListPromptsResult::new)
            }
            CatalogList::Resources => {
                let specs = self.resources.iter().filter_map(|resource| match resource.definition() {
                    ResourceEntry::Resource(spec) => Some(spec.clone()),
                    ResourceEntry::Template(..) => None,
                });
                write_pages(&specs.collect::<Vec<_>>(), version, style, ListResourcesResult::new)
            }
            CatalogList::Templates => {
                let specs = self.templates.iter().filter_map(|resource| match resource.definition() {
                    ResourceEntry::Template(spec, _) => Some(spec.clone()),
                    ResourceEntry::Resource(_) => None,
                });
                write_pages(&specs.collect::<Vec<_>>(), version, style, ListResourceTemplatesResult::new)
            }
        }
    }
}

/// The kind of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CatalogList {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl CatalogList {
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Tools => ListTools::NAME,
            Self::Prompts => ListPrompts::NAME,
            Self::Resources => ListResources::NAME,
            Self::Templates => ListResourceTemplates::NAME,
        }
    }

    pub(crate) fn of_method(method: &str) -> Option<Self> {
        match method {
            ListTools::NAME => Some(Self::Tools),
            ListPrompts::NAME => Some(Self::Prompts),
            ListResources::NAME => Some(Self::Resources),
            ListResourceTemplates::NAME => Some(Self::Templates),
            _ => None,
        }
    }
}

/// Settings for encoding lists.
#[derive(Debug, Clone)]
pub(crate) struct ListStyle {
    pub(crate) page_size: usize,
    pub(crate) ttl_ms: i64,
    pub(crate) scope: CacheScope,
    pub(crate) server_meta: Meta,
}

/// A list result with a cursor for the next page.
pub(crate) trait Paged: Translate + serde::Serialize {
    fn finish(&mut self, style: &ListStyle, next: Option<Cursor>);
    fn drop_empty_meta(&mut self);
}

macro_rules! paged {
    ($($Result:ident),+) => {$(
        impl Paged for $Result {
            fn finish(&mut self, style: &ListStyle, next: Option<Cursor>) {
                self.ttl_ms = Some(style.ttl_ms);
                self.cache_scope = Some(style.scope.clone());
                self.meta = Some(style.server_meta.clone());
                self.next_cursor = next;
            }

            fn drop_empty_meta(&mut self) {
                self.meta.take_if(|meta| meta.is_empty());
            }
        }
    )+};
}

paged!(ListToolsResult, ListPromptsResult, ListResourcesResult, ListResourceTemplatesResult);

pub(crate) fn write_pages<S: Clone, R: Paged>(
    specs: &[S],
    version: ProtocolVersion,
    style: &ListStyle,
    result: impl Fn(Vec<S>) -> R,
) -> Vec<RawJson> {
    let size = style.page_size.max(1);
    let count = specs.len().div_ceil(size).max(1);
    (0..count)
        .map(|index| {
            let page: Vec<S> = specs.iter().skip(index * size).take(size).cloned().collect();
            let mut result = result(page);
            result.finish(style, (index + 1 < count).then(|| cursor_of(index + 1)));
            result.lower(version);
            result.drop_empty_meta();
            RawJson::encode(&result).unwrap_or_default()
        })
        .collect()
}

fn cursor_of(page: usize) -> Cursor {
    URL_SAFE_NO_PAD.encode(format!("page {page}")).into()
}

fn find_page<'a>(pages: &'a [RawJson], cursor: Option<&Cursor>) -> Result<&'a RawJson, ErrorObject> {
    let index = match cursor {
        None => Some(0),
        Some(cursor) => page_of(cursor),
    };
    let page = index.and_then(|index| pages.get(index));
    page.ok_or_else(|| ErrorObject::invalid_params("params.cursor is not a cursor of this list"))
}

fn page_of(cursor: &Cursor) -> Option<usize> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor.as_str()).ok()?).ok()?;
    text.strip_prefix("page ")?.parse().ok().filter(|page| *page > 0)
}

/// Cached list pages, by kind and revision.
#[derive(Debug, Default)]
struct ListPages([[OnceLock<Vec<RawJson>>; ProtocolVersion::ALL.len()]; 4]);

impl ListPages {
    fn pages(&self, kind: CatalogList, version: ProtocolVersion) -> &OnceLock<Vec<RawJson>> {
        let place = ProtocolVersion::ALL.iter().position(|other| *other == version).unwrap_or_default();
        &self.0[kind as usize][place]
    }
}

/// Starts with an empty cache, because the copy is about to be changed.
impl Clone for ListPages {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Returns the `_meta` for results in a revision, if it has any.
pub(crate) fn meta_for(version: ProtocolVersion, server_meta: &Meta) -> Option<Meta> {
    version.has(Ability::Stateless).then(|| server_meta.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(page_size: usize) -> ListStyle {
        ListStyle { page_size, ttl_ms: 0, scope: CacheScope::Private, server_meta: Meta::new() }
    }

    fn catalog(names: &[&str]) -> Catalog {
        let mut catalog = Catalog::default();
        for name in names {
            catalog.tools.insert((*name).to_owned(), Tool::builder(*name).handler_sync(|| ""));
        }
        catalog
    }

    #[test]
    fn pages_follow_each_other_and_a_bad_cursor_is_an_error() {
        let catalog = catalog(&["a", "b", "c"]);
        let style = style(2);
        let page = |cursor: Option<&Cursor>| catalog.page(CatalogList::Tools, cursor, ProtocolVersion::LATEST, &style);
        let first: ListToolsResult = page(None).unwrap().decode().unwrap();
        let second: ListToolsResult = page(first.next_cursor.as_ref()).unwrap().decode().unwrap();
        let names: Vec<_> = first.tools.iter().chain(&second.tools).map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(second.next_cursor, None);
        for bad in ["", "x", "cGFnZSA5OQ", "cGFnZSAw"] {
            assert_eq!(page(Some(&bad.into())).unwrap_err().code.0, -32602, "{bad}");
        }
    }

    #[test]
    fn removing_keeps_the_order_and_replacing_the_place() {
        let mut catalog = catalog(&["a", "b", "c"]);
        assert!(catalog.tools.remove("a") && !catalog.tools.remove("a"));
        catalog.tools.insert("b".into(), Tool::builder("b").title("B").handler_sync(|| ""));
        let names: Vec<_> = catalog.tools.iter().map(Tool::name).collect();
        assert_eq!(names, ["b", "c"]);
        assert_eq!(catalog.tools.get("b").unwrap().definition().display_name(), "B");
        assert!(catalog.tools.get("c").is_some());
    }

    #[test]
    fn capabilities_follow_from_what_is_there() {
        let capabilities = catalog(&["a"]).capabilities();
        assert!(capabilities.tools.is_some() && capabilities.prompts.is_none() && capabilities.resources.is_none());
    }
}
