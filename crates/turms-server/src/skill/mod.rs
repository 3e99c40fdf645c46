//! Skills: instructions for models, with the files that belong to them (SEP-2640).

mod draft;
mod folder;
mod shelf;

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

pub use self::draft::Skill;
use self::shelf::Shelf;
use crate::context::Context;
use crate::extension::{ExtensionScope, ServerExtension};
use crate::handle::ServerHandle;
use crate::resource::{Resource, Uri};

/// The skills of a server, as the extension `io.modelcontextprotocol/skills` of the protocol.
///
/// ```
/// use turms_server::testing::TestClient;
/// use turms_server::{Server, Skill, Skills};
/// use turms_proto::ProtocolVersion;
/// use turms_proto::types::{ListSkills, PaginatedParams};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let refunds = Skill::new("refunds", "Process refunds as the company wants it.")
///     .instructions("# Refunds\n\nAnswer with the text of examples/email.md.\n")
///     .file("examples/email.md", "Dear customer, ...\n");
/// let server = Server::new("shop", "1.0.0").extension(Skills::new().skill(refunds)).build()?;
///
/// let client = TestClient::connect(&server, ProtocolVersion::LATEST).await;
/// let list = client.request::<ListSkills>(&PaginatedParams::new()).await?;
/// assert_eq!(list.skills[0].uri, "skill://refunds/SKILL.md");
/// assert_eq!(list.skills[0].files().unwrap().len(), 2);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
///
/// Skills usually lie in a directory: see [`Skills::directory`]. Their files are read with `resources/read` like any other; each
/// `SKILL.md` is in the list of resources, the files beside it are not, for there may be many.
#[must_use = "skills are served by the server that they are given to"]
pub struct Skills {
    folders: Vec<PathBuf>,
    drafts: Vec<Skill>,
    shelf: Arc<ArcSwap<Shelf>>,
    style: Style,
    directory_read: bool,
    faults: Vec<SkillError>,
    /// The servers that have them. What a server holds on to is the shelf alone, so the two do not keep each other alive.
    servers: Mutex<Vec<ServerHandle>>,
}

/// How lists are written.
#[derive(Debug, Clone)]
struct Style {
    page_size: usize,
    ttl_ms: i64,
    scope: CacheScope,
}

impl Skills {
    /// None yet.
    pub fn new() -> Self {
        Self {
            folders: Vec::new(),
            drafts: Vec::new(),
            shelf: Arc::default(),
            style: Style { page_size: 50, ttl_ms: 0, scope: CacheScope::Private },
            directory_read: true,
            faults: Vec::new(),
            servers: Mutex::default(),
        }
    }

    /// The skills in a directory: every directory below it that has a `SKILL.md`, or the directory itself if it has one.
    ///
    /// The path from there is the skill's path in its URIs, so `billing/refunds/SKILL.md` is
    /// `skill://billing/refunds/SKILL.md`. Files whose names begin with a dot are left out. Links are followed, but not out of
    /// the directory. Everything is read into memory at once, so that what is listed and what is read always fit each other;
    /// what changes on the disk is seen by [`Skills::reload`].
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use turms_server::{Server, Skills};
    ///
    /// Server::new("shop", "1.0.0").extension(Skills::directory("skills")?).serve_stdio().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When something cannot be read, leads out of the directory, or is not a skill as the specification wants it.
    pub fn directory(path: impl AsRef<Path>) -> Result<Self, SkillError> {
        Self::new().and_directory(path)
    }

    /// The skills in one more directory.
    ///
    /// # Errors
    /// As [`Skills::directory`].
    pub fn and_directory(mut self, path: impl AsRef<Path>) -> Result<Self, SkillError> {
        let path = path.as_ref().to_owned();
        let mut shelf = Shelf::clone(&self.shelf.load());
        folder::read(&path)?.into_iter().try_for_each(|skill| shelf.add(skill))?;
        self.shelf.store(Arc::new(shelf));
        self.folders.push(path);
        Ok(self)
    }

    /// A skill from memory. One that is not as the specification wants it keeps the server from being built.
    pub fn skill(mut self, skill: Skill) -> Self {
        let mut shelf = Shelf::clone(&self.shelf.load());
        match skill.written().and_then(|written| shelf.add(written)) {
            Ok(()) => {
                self.shelf.store(Arc::new(shelf));
                self.drafts.push(skill);
            }
            Err(error) => self.faults.push(error),
        }
        self
    }

    /// Does not answer `resources/directory/read`.
    pub fn without_directory_read(mut self) -> Self {
        self.directory_read = false;
        self
    }

    /// How many skills or files a page of a list holds; 50 unless told otherwise.
    pub fn page_size(mut self, size: usize) -> Self {
        self.style.page_size = size.max(1);
        self
    }

    /// For how long and by whom lists of skills may be reused.
    pub fn cache(mut self, ttl: Duration, scope: CacheScope) -> Self {
        self.style.ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        self.style.scope = scope;
        self
    }

    /// Reads the directories again, and tells whoever listens what has changed. Keep an `Arc` of the skills for that; the server
    /// takes one, too. It waits for the disk, so call it where waiting is allowed, such as in `tokio::task::spawn_blocking`.
    ///
    /// # Errors
    /// As [`Skills::directory`]. What was there before stays then.
    pub fn reload(&self) -> Result<(), SkillError> {
        // Held from the beginning, so that of two at a time the one that has read last is the one that is shown.
        let servers = self.servers.lock();
        let next = Arc::new(self.read()?);
        let last = self.shelf.swap(next.clone());
        for server in &*servers {
            for gone in last.manifests().filter(|skill| next.skill(&skill.uri).is_none()) {
                server.remove_resource(&gone.uri);
            }
            for skill in next.manifests().filter(|skill| last.skill(&skill.uri) != Some(skill)) {
                let manifest = manifest(&self.shelf, &next, &skill.uri);
                server.replace_resource(manifest).map_err(|error| SkillError::new(&skill.uri, error))?;
            }
            next.changed_since(&last).for_each(|uri| server.resource_updated(uri));
        }
        Ok(())
    }

    fn read(&self) -> Result<Shelf, SkillError> {
        let mut shelf = Shelf::default();
        for folder in &self.folders {
            folder::read(folder)?.into_iter().try_for_each(|skill| shelf.add(skill))?;
        }
        self.drafts.iter().try_for_each(|draft| shelf.add(draft.written()?))?;
        Ok(shelf)
    }
}

impl Default for Skills {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Skills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uris: Vec<_> = self.shelf.load().manifests().map(|skill| skill.uri.clone()).collect();
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

    /// The extension lets its methods be called by whoever has seen its declaration.
    fn add_to(self: Arc<Self>, mut scope: ExtensionScope) -> ExtensionScope {
        // Held to the end, so that nothing is read anew before the server has what there is now.
        let mut servers = self.servers.lock();
        servers.push(scope.own_handle());
        for fault in &self.faults {
            scope = scope.fault(fault);
        }
        let (shelf, style) = (self.shelf.clone(), self.style.clone());
        scope = scope.method_for_all(ListSkills::NAME, move |params: PaginatedParams, context: Context| {
            std::future::ready(list(&shelf.load(), &style, &params, &context))
        });
        let (shelf, style) = (self.shelf.clone(), self.style.clone());
        scope = scope.method_for_all(GetSkill::NAME, move |params: GetSkillParams, context: Context| {
            std::future::ready(get(&shelf.load(), &style, &params, &context))
        });
        if self.directory_read {
            let (shelf, size) = (self.shelf.clone(), self.style.page_size);
            scope = scope.method_for_all(ReadDirectory::NAME, move |params: ReadDirectoryParams, context: Context| {
                std::future::ready(read_directory(&shelf.load(), size, &params, &context))
            });
        }
        let now = self.shelf.load_full();
        for skill in now.manifests() {
            scope = scope.resource(manifest(&self.shelf, &now, &skill.uri));
        }
        let shelf = self.shelf.clone();
        let files = Resource::builder("skill://{+path}").name("skill-files").description("A file of a skill.");
        let files_shelf = self.shelf.clone();
        let files = files.shown_if(move |uri, context| is_shown(&files_shelf.load(), uri, context));
        scope.resource(files.handler_sync(move |uri: Uri| shelf.load().contents(&uri.0)))
    }
}

/// Returns `true` if the caller may see a file or a directory, by what [`Server::visible`](crate::Server::visible) says of the
/// manifests.
fn is_shown(shelf: &Shelf, uri: &str, context: &Context) -> bool {
    !context.is_view_filtered() || shelf.is_shown(uri, &|manifest| context.sees_listed(manifest))
}

/// A skill as a caller sees it: without the files of hidden skills within.
fn seen(shelf: &Shelf, skill: &SkillSpec, context: &Context) -> SkillSpec {
    let mut skill = skill.clone();
    if let (true, Some(SkillResources::Files(files))) = (context.is_view_filtered(), &mut skill.resources) {
        files.retain(|file| is_shown(shelf, &file.uri, context));
    }
    skill
}

/// The scope of a list: what differs from caller to caller is not public.
fn scope_for(style: &Style, context: &Context) -> CacheScope {
    if context.is_view_filtered() { CacheScope::Private } else { style.scope.clone() }
}

/// The `SKILL.md` of a skill, as a resource that is listed.
fn manifest(shelf: &Arc<ArcSwap<Shelf>>, now: &Shelf, uri: &str) -> Resource {
    let about = now.about(uri);
    let mut builder = Resource::builder(uri).name(about.name);
    if let Some(description) = about.description {
        builder = builder.description(description);
    }
    if let Some(mime_type) = about.mime_type {
        builder = builder.mime_type(mime_type);
    }
    builder = builder.size(about.size.and_then(|size| u64::try_from(size).ok()).unwrap_or_default());
    let shelf = shelf.clone();
    builder.handler_sync(move |uri: Uri| shelf.load().contents(&uri.0))
}

fn list(
    shelf: &Shelf,
    style: &Style,
    params: &PaginatedParams,
    context: &Context,
) -> Result<ListSkillsResult, ErrorObject> {
    let shown = shelf.manifests().filter(|skill| is_shown(shelf, &skill.uri, context));
    let (skills, next) = page(shown, params.cursor.as_ref(), style.page_size, |skill| &skill.uri)?;
    let skills: Vec<_> = skills.into_iter().map(|skill| seen(shelf, skill, context)).collect();
    let mut result = ListSkillsResult::new(skills);
    result.next_cursor = next;
    (result.ttl_ms, result.cache_scope) = (Some(style.ttl_ms), Some(scope_for(style, context)));
    result.lower(context.version());
    Ok(result)
}

fn get(
    shelf: &Shelf,
    style: &Style,
    params: &GetSkillParams,
    context: &Context,
) -> Result<GetSkillResult, ErrorObject> {
    let skill = shelf.skill(&params.uri).filter(|skill| is_shown(shelf, &skill.uri, context));
    let skill = skill.ok_or_else(|| ErrorObject::invalid_params(format!("unknown skill: {:?}", params.uri)))?;
    let mut result = GetSkillResult::new(seen(shelf, skill, context));
    (result.ttl_ms, result.cache_scope) = (Some(style.ttl_ms), Some(scope_for(style, context)));
    result.lower(context.version());
    Ok(result)
}

fn read_directory(
    shelf: &Shelf,
    page_size: usize,
    params: &ReadDirectoryParams,
    context: &Context,
) -> Result<ReadDirectoryResult, ErrorObject> {
    let children = shelf.directory(&params.uri).filter(|_| is_shown(shelf, &params.uri, context));
    let children = children.ok_or_else(|| ErrorObject::invalid_params(format!("not a directory: {:?}", params.uri)))?;
    let shown = children.iter().filter(|uri| is_shown(shelf, uri, context));
    let (children, next) = page(shown, params.cursor.as_ref(), page_size, |uri| uri)?;
    let resources: Vec<_> = children.into_iter().map(|uri| shelf.about(uri)).collect();
    let mut result = ReadDirectoryResult::new(resources);
    result.next_cursor = next;
    result.lower(context.version());
    Ok(result)
}

/// A page of what is in order. A cursor is what the page before ended with, so it keeps its meaning when things come and go.
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

/// Why something is not a skill that can be served.
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

    /// Which file, directory or skill.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// What is wrong with it.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }
}
