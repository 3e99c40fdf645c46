//! Skills: instructions for models, with their files (SEP-2640).

mod builder;
mod folder;
mod index;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use turms_proto::method::Method as _;
use turms_proto::revision::Translate as _;
use turms_proto::types::{
    CacheScope, Cursor, GetSkill, GetSkillParams, GetSkillResult, ListSkills, ListSkillsResult, PaginatedParams,
    ReadDirectory, ReadDirectoryParams, ReadDirectoryResult, SKILLS_EXTENSION, Skill as SkillSpec, SkillResources,
};
use turms_proto::{ErrorObject, Object};

pub use self::builder::Skill;
use self::index::SkillIndex;
use crate::context::Context;
use crate::extension::{ExtensionBuilder, ServerExtension};
use crate::handle::ServerHandle;
use crate::resource::{Resource, ResourceUri};

/// The skills of a server: the protocol extension `io.modelcontextprotocol/skills`.
///
/// ```
/// # mod turms { pub use turms_proto::types; pub use turms_server::*; pub use turms_testing as testing; }
/// use turms::testing::TestClient;
/// use turms::types::{ListSkills, PaginatedParams};
/// use turms::{Server, Skill, Skills};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let refunds = Skill::new("refunds", "Process refunds by company policy.")
///     .instructions("# Refunds\n\nAnswer with the text of examples/email.md.\n")
///     .file("examples/email.md", "Dear customer, ...\n");
/// let server = Server::new("shop", "1.0.0").extension(Skills::new().skill(refunds));
///
/// let client = TestClient::connect(server).await?;
/// let list = client.request::<ListSkills>(PaginatedParams::new()).await?;
/// assert_eq!(list.skills[0].uri, "skill://refunds/SKILL.md");
/// assert_eq!(list.skills[0].files().unwrap().len(), 2);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
///
/// Skills are usually stored in a directory: see [`Skills::directory`]. Clients read their files with `resources/read`.
/// The list of resources contains each `SKILL.md`, but not the other files, of which there may be many.
#[must_use = "skills have no effect unless they are added to a server"]
pub struct Skills {
    folders: Vec<PathBuf>,
    skills: Vec<Skill>,
    index: Arc<ArcSwap<SkillIndex>>,
    style: SkillListStyle,
    directory_read: bool,
    faults: Vec<SkillError>,
    /// The servers with these skills. A server owns only the index, so there is no reference cycle.
    servers: Mutex<Vec<ServerHandle>>,
}

/// Settings for lists.
#[derive(Debug, Clone)]
struct SkillListStyle {
    page_size: usize,
    ttl_ms: i64,
    scope: CacheScope,
}

impl Skills {
    /// Creates an extension without skills.
    pub fn new() -> Self {
        Self {
            folders: Vec::new(),
            skills: Vec::new(),
            index: Arc::default(),
            style: SkillListStyle { page_size: 50, ttl_ms: 0, scope: CacheScope::Private },
            directory_read: true,
            faults: Vec::new(),
            servers: Mutex::default(),
        }
    }

    /// Reads the skills in a directory: every directory below it that has a `SKILL.md`, or the directory itself if it
    /// has one.
    ///
    /// The relative path is the path of the skill in its URIs: `billing/refunds/SKILL.md` is at
    /// `skill://billing/refunds/SKILL.md`. Files with names that begin with a dot are skipped. Links are followed within
    /// the directory only. All files are read into memory at once, so that lists and contents are consistent.
    /// [`Skills::reload`] reads changes.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # use turms_server as turms;
    /// use turms::{Server, Skills};
    ///
    /// Server::new("shop", "1.0.0").extension(Skills::directory("skills")?).serve_stdio().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If a file cannot be read, a link points outside the directory, or a skill is invalid.
    pub fn directory(path: impl AsRef<Path>) -> Result<Self, SkillError> {
        Self::new().add_directory(path)
    }

    /// Adds the skills in another directory.
    ///
    /// # Errors
    /// Same as [`Skills::directory`].
    pub fn add_directory(mut self, path: impl AsRef<Path>) -> Result<Self, SkillError> {
        let path = path.as_ref().to_owned();
        let mut index = SkillIndex::clone(&self.index.load());
        folder::read(&path)?.into_iter().try_for_each(|skill| index.add(skill))?;
        self.index.store(Arc::new(index));
        self.folders.push(path);
        Ok(self)
    }

    /// Adds a skill that is defined in code. Building the server fails if it is invalid.
    pub fn skill(mut self, skill: Skill) -> Self {
        let mut index = SkillIndex::clone(&self.index.load());
        match skill.to_files().and_then(|files| index.add(files)) {
            Ok(()) => {
                self.index.store(Arc::new(index));
                self.skills.push(skill);
            }
            Err(error) => self.faults.push(error),
        }
        self
    }

    /// Disables `resources/directory/read`. Default: enabled.
    pub fn without_directory_read(mut self) -> Self {
        self.directory_read = false;
        self
    }

    /// Sets the number of skills or files per page of a list. Default: 50.
    pub fn page_size(mut self, size: usize) -> Self {
        self.style.page_size = size.max(1);
        self
    }

    /// Sets the time to live and the scope with which clients may cache lists of skills. Default: zero and private.
    pub fn cache(mut self, ttl: Duration, scope: CacheScope) -> Self {
        self.style.ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        self.style.scope = scope;
        self
    }

    /// Reads the directories again and notifies clients of changes. Keep an `Arc` of the skills for this; a server
    /// accepts an `Arc` as well. Blocks on file I/O: call it in `tokio::task::spawn_blocking`.
    ///
    /// # Errors
    /// Same as [`Skills::directory`]. The previous skills stay in use then.
    pub fn reload(&self) -> Result<(), SkillError> {
        // Locked from the start: of two concurrent reloads, the one that reads last is the one that is served.
        let servers = self.servers.lock();
        let next = Arc::new(self.read()?);
        let last = self.index.swap(next.clone());
        for server in &*servers {
            for gone in last.manifests().filter(|skill| next.skill(&skill.uri).is_none()) {
                server.remove_resource(&gone.uri);
            }
            for skill in next.manifests().filter(|skill| last.skill(&skill.uri) != Some(skill)) {
                let manifest = manifest(&self.index, &next, &skill.uri);
                server.replace_resource(manifest).map_err(|error| SkillError::new(&skill.uri, error))?;
            }
            next.changed_since(&last).for_each(|uri| server.notify_resource_updated(uri));
        }
        Ok(())
    }

    fn read(&self) -> Result<SkillIndex, SkillError> {
        let mut index = SkillIndex::default();
        for folder in &self.folders {
            folder::read(folder)?.into_iter().try_for_each(|skill| index.add(skill))?;
        }
        self.skills.iter().try_for_each(|skill| index.add(skill.to_files()?))?;
        Ok(index)
    }
}

impl Default for Skills {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Skills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uris: Vec<_> = self.index.load().manifests().map(|skill| skill.uri.clone()).collect();
        f.debug_struct("Skills").field("skills", &uris).finish_non_exhaustive()
    }
}

impl ServerExtension for Skills {
    fn id(&self) -> &str {
        SKILLS_EXTENSION
    }

    fn settings(&self) -> Object {
        let mut settings = Object::new();
        if self.directory_read {
            settings.insert_raw("directoryRead", &serde_json::Value::Bool(true).into());
        }
        settings
    }

    /// The specification allows every client to call the methods of the extension.
    fn register(self: Arc<Self>, mut scope: ExtensionBuilder) -> ExtensionBuilder {
        // Locked until the end, so that no reload runs before the server has the current skills.
        let mut servers = self.servers.lock();
        servers.push(scope.own_handle());
        for fault in &self.faults {
            scope = scope.error(fault);
        }
        let (index, style) = (self.index.clone(), self.style.clone());
        scope = scope.method_for_any_client(ListSkills::NAME, move |params: PaginatedParams, context: Context| {
            std::future::ready(list(&index.load(), &style, &params, &context))
        });
        let (index, style) = (self.index.clone(), self.style.clone());
        scope = scope.method_for_any_client(GetSkill::NAME, move |params: GetSkillParams, context: Context| {
            std::future::ready(get(&index.load(), &style, &params, &context))
        });
        if self.directory_read {
            let (index, size) = (self.index.clone(), self.style.page_size);
            scope = scope.method_for_any_client(
                ReadDirectory::NAME,
                move |params: ReadDirectoryParams, context: Context| {
                    std::future::ready(read_directory(&index.load(), size, &params, &context))
                },
            );
        }
        let now = self.index.load_full();
        for skill in now.manifests() {
            scope = scope.resource(manifest(&self.index, &now, &skill.uri));
        }
        let index = self.index.clone();
        let files = Resource::builder("skill://{+path}").name("skill-files").description("A file of a skill.");
        let files_index = self.index.clone();
        let files = files.shown_if(move |uri, context| is_shown(&files_index.load(), uri, context));
        scope.resource(files.handler_sync(move |uri: ResourceUri| index.load().contents(&uri.0)))
    }
}

/// Returns `true` if the caller may see a file or a directory, according to the visibility of the manifests
/// ([`Server::visible`](crate::Server::visible)).
fn is_shown(index: &SkillIndex, uri: &str, context: &Context) -> bool {
    !context.has_visibility_filter() || index.is_shown(uri, &|manifest| context.can_see_resource(manifest))
}

/// Returns a skill as a caller sees it: without the files of hidden nested skills.
fn visible_skill(index: &SkillIndex, skill: &SkillSpec, context: &Context) -> SkillSpec {
    let mut skill = skill.clone();
    if let (true, Some(SkillResources::Files(files))) = (context.has_visibility_filter(), &mut skill.resources) {
        files.retain(|file| is_shown(index, &file.uri, context));
    }
    skill
}

/// Returns the cache scope of a list. A list that differs between callers is private.
fn scope_for(style: &SkillListStyle, context: &Context) -> CacheScope {
    if context.has_visibility_filter() { CacheScope::Private } else { style.scope.clone() }
}

/// Creates the listed resource for the `SKILL.md` of a skill.
fn manifest(index: &Arc<ArcSwap<SkillIndex>>, now: &SkillIndex, uri: &str) -> Resource {
    let about = now.about(uri);
    let mut builder = Resource::builder(uri).name(about.name);
    if let Some(description) = about.description {
        builder = builder.description(description);
    }
    if let Some(mime_type) = about.mime_type {
        builder = builder.mime_type(mime_type);
    }
    builder = builder.size(about.size.and_then(|size| u64::try_from(size).ok()).unwrap_or_default());
    let index = index.clone();
    builder.handler_sync(move |uri: ResourceUri| index.load().contents(&uri.0))
}

fn list(
    index: &SkillIndex,
    style: &SkillListStyle,
    params: &PaginatedParams,
    context: &Context,
) -> Result<ListSkillsResult, ErrorObject> {
    let shown = index.manifests().filter(|skill| is_shown(index, &skill.uri, context));
    let (skills, next) = page(shown, params.cursor.as_ref(), style.page_size, |skill| &skill.uri)?;
    let skills: Vec<_> = skills.into_iter().map(|skill| visible_skill(index, skill, context)).collect();
    let mut result = ListSkillsResult::new(skills);
    result.next_cursor = next;
    (result.ttl_ms, result.cache_scope) = (Some(style.ttl_ms), Some(scope_for(style, context)));
    result.lower(context.protocol_version());
    Ok(result)
}

fn get(
    index: &SkillIndex,
    style: &SkillListStyle,
    params: &GetSkillParams,
    context: &Context,
) -> Result<GetSkillResult, ErrorObject> {
    let skill = index.skill(&params.uri).filter(|skill| is_shown(index, &skill.uri, context));
    let skill = skill.ok_or_else(|| ErrorObject::invalid_params(format!("unknown skill: {:?}", params.uri)))?;
    let mut result = GetSkillResult::new(visible_skill(index, skill, context));
    (result.ttl_ms, result.cache_scope) = (Some(style.ttl_ms), Some(scope_for(style, context)));
    result.lower(context.protocol_version());
    Ok(result)
}

fn read_directory(
    index: &SkillIndex,
    page_size: usize,
    params: &ReadDirectoryParams,
    context: &Context,
) -> Result<ReadDirectoryResult, ErrorObject> {
    let children = index.directory(&params.uri).filter(|_| is_shown(index, &params.uri, context));
    let children = children.ok_or_else(|| ErrorObject::invalid_params(format!("not a directory: {:?}", params.uri)))?;
    let shown = children.iter().filter(|uri| is_shown(index, uri, context));
    let (children, next) = page(shown, params.cursor.as_ref(), page_size, |uri| uri)?;
    let resources: Vec<_> = children.into_iter().map(|uri| index.about(uri)).collect();
    let mut result = ReadDirectoryResult::new(resources);
    result.next_cursor = next;
    result.lower(context.protocol_version());
    Ok(result)
}

/// Returns a page of sorted items. A cursor is the key of the last item of the previous page, so it stays valid when
/// items are added or removed.
fn page<'a, T>(
    items: impl Iterator<Item = &'a T>,
    cursor: Option<&Cursor>,
    size: usize,
    key: impl Fn(&'a T) -> &'a str,
) -> Result<(Vec<&'a T>, Option<Cursor>), ErrorObject> {
    let after = cursor.map(|cursor| {
        let bytes = URL_SAFE_NO_PAD.decode(cursor.as_str()).ok();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).filter(|text| !text.is_empty());
        text.ok_or_else(|| ErrorObject::invalid_params(format!("unknown cursor: {:?}", cursor.as_str())))
    });
    let after = after.transpose()?;
    let is_left = |item: &&'a T| after.as_deref().is_none_or(|after| key(item) > after);
    let mut left = items.filter(is_left).peekable();
    let page: Vec<_> = left.by_ref().take(size).collect();
    let next = left.peek().and_then(|_| page.last()).map(|last| URL_SAFE_NO_PAD.encode(key(last)).into());
    Ok((page, next))
}

/// Error for an invalid skill.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct SkillError {
    place: String,
    problem: String,
}

impl SkillError {
    fn new(place: impl fmt::Display, problem: impl fmt::Display) -> Self {
        Self { place: place.to_string(), problem: problem.to_string() }
    }

    /// Returns the file, directory or skill.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns the reason.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, count, when};

        let it = Skills::new();
        let is_uncached = it.style.ttl_ms == 0 && it.style.scope == CacheScope::Private;
        let code = [
            ("Skills::without_directory_read", when(it.directory_read, "enabled")),
            ("Skills::page_size", count(it.style.page_size)),
            ("Skills::cache", when(is_uncached, "zero and private")),
        ];
        assert_documented(include_str!("mod.rs"), &code);
    }
}
