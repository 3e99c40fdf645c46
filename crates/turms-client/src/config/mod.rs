//! Configuration files with servers: `mcpServers` in most clients, `servers` in VS Code.

mod comment;
mod entry;
mod env_file;
mod error;
mod file;
mod known_files;
#[cfg(test)]
mod tests;
mod variable;

use std::fmt;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use turms_proto::RawJson;

use self::entry::Reader;
pub use self::entry::{ServerEntry, ServerTarget};
pub use self::error::{ConfigError, ConfigErrorKind, EntryError, EntryErrorKind};
pub use self::known_files::{ConfigApp, ConfigFile, ConfigScope, Platform, known_config_files};
use self::variable::Variables;

/// Maximum size of a file. The limit is large, because Claude Code stores its servers in a file with other data that
/// grows.
const MAX_FILE: usize = 64 << 20;

/// The possible paths of the servers in a file. The first that exists is used.
const GROUPS: [&[&str]; 4] = [&["mcpServers"], &["servers"], &["mcp", "servers"], &["mcp.servers"]];

/// The servers of a configuration file, in the order of the file.
///
/// Supports the files of Claude Desktop, Claude Code, Cursor, Windsurf, Cline and VS Code: the servers are under
/// `mcpServers`, `servers`, or VS Code's setting `mcp.servers`. Comments (`//` and `/* */`), trailing commas and a byte
/// order mark are accepted. Unknown members are kept in [`ServerEntry::extra`].
///
/// Entries are read on demand, so an invalid entry does not affect the others.
///
/// # Variables
///
/// `${…}` is replaced in `command`, `args`, `cwd`, `envFile`, `url`, and in the values of `env` and `headers`:
///
/// | written | means |
/// |---|---|
/// | `${NAME}`, `${env:NAME}` | the environment variable; an error if it is not set |
/// | `${NAME:-text}` | the environment variable, or `text` if it is not set; an empty variable counts as set |
/// | `${userHome}` | the home directory |
/// | `${workspaceFolder}`, `${workspaceFolderBasename}` | see [`McpConfig::workspace_folder`] |
/// | `${pathSeparator}`, `${/}` | `/`, or `\` on Windows |
/// | `$${` | the characters `${` |
///
/// The value of a variable is not expanded again. `${input:…}` requires user input and is an error here.
///
/// # Secrets
///
/// `Debug` and errors do not show the values of environment variables, headers, arguments or unknown members, only
/// their names. `Debug` shows only the host of a URL. Programs and directories are shown, so do not put secrets there.
#[derive(Clone)]
pub struct McpConfig {
    file: Option<PathBuf>,
    servers: IndexMap<String, RawJson>,
    /// The servers of each project directory, in the file of Claude Code.
    projects: Option<RawJson>,
    variables: Variables,
}

impl McpConfig {
    /// Parses the text of a configuration file.
    ///
    /// ```
    /// # mod turms { pub use turms_client as client; }
    /// use turms::client::{McpConfig, ServerTarget};
    ///
    /// let config = McpConfig::parse(
    ///     r#"{
    ///         // The comma after an entry may stay when the last one is taken out.
    ///         "mcpServers": {
    ///             "files": { "command": "npx", "args": ["-y", "server-files", "${FOLDER:-/tmp}"] },
    ///             "search": { "url": "https://example.com/mcp", "headers": { "X-Key": "${SEARCH_KEY}" } },
    ///         },
    ///     }"#,
    /// )?
    /// .variables(|name| (name == "FOLDER").then(|| "/srv".to_owned()));
    ///
    /// let files = config.server("files").unwrap()?;
    /// let ServerTarget::Command { program, args, .. } = files.target else { panic!("not a command") };
    /// assert_eq!(program, "npx");
    /// assert_eq!(args, ["-y", "server-files", "/srv"]);
    ///
    /// let error = config.server("search").unwrap().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     r#"server "search": headers.X-Key: the environment has no variable "SEARCH_KEY""#
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the text is not JSON or has no servers. An invalid entry is an error of that entry only.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        Self::from_text(None, text).map_err(|kind| ConfigError::new(None, kind))
    }

    /// Reads a configuration file. This blocks on the file system.
    ///
    /// # Errors
    /// Returns the errors of [`McpConfig::parse`], and an error if the file cannot be read, is larger than 64 MiB or is
    /// not UTF-8.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        file::read(path, MAX_FILE)
            .map_err(ConfigErrorKind::Read)
            .and_then(|text| Self::from_text(Some(path), &text))
            .map_err(|kind| ConfigError::new(Some(path), kind))
    }

    /// Sets the lookup of variables. Default: the environment of this process.
    ///
    /// The home folder is looked up the same way: `HOME`, or `USERPROFILE` on Windows.
    #[must_use]
    pub fn variables(mut self, lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.variables.replace_lookup(lookup);
        self
    }

    /// Sets the value of `${workspaceFolder}`. A relative `envFile` is also resolved against it.
    #[must_use]
    pub fn workspace_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.variables.workspace = Some(folder.into());
        self
    }

    /// Returns the servers for one project, if the file has any: Claude Code's `~/.claude.json` has them under
    /// `projects`, by the path of the directory. The directory becomes the workspace folder.
    ///
    /// # Errors
    /// Returns an error if the project's entry is not an object of servers.
    #[must_use]
    pub fn project(&self, folder: impl AsRef<Path>) -> Option<Result<Self, ConfigError>> {
        let folder = folder.as_ref();
        let wanted = project_key(folder.to_str()?);
        let projects = self.projects.as_ref()?.as_object()?;
        let (key, project) = projects.iter().find(|(key, _)| project_key(key) == wanted)?;
        let group = project.member("mcpServers").filter(|group| !group.is_null())?;
        let of_project = |servers| Self { servers, projects: None, ..self.clone() }.workspace_folder(folder);
        let result = servers_of(&group, || format!("projects[{key:?}].mcpServers"));
        Some(result.map(of_project).map_err(|kind| ConfigError::new(self.file.as_deref(), kind)))
    }

    /// Returns the names of the servers.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.servers.keys().map(String::as_str)
    }

    /// Returns the server with this name.
    ///
    /// This may read the file that the entry names as `envFile`.
    ///
    /// # Errors
    /// Returns an error if the entry is invalid or one of its variables is not set.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<Result<ServerEntry, EntryError>> {
        let (name, entry) = self.servers.get_key_value(name)?;
        Some(self.resolve(name, entry))
    }

    /// Returns all servers. An invalid entry does not affect the others.
    pub fn servers(&self) -> impl ExactSizeIterator<Item = (&str, Result<ServerEntry, EntryError>)> {
        self.servers.iter().map(|(name, entry)| (name.as_str(), self.resolve(name, entry)))
    }

    fn resolve(&self, name: &str, entry: &RawJson) -> Result<ServerEntry, EntryError> {
        let base = self.variables.workspace.as_deref().or_else(|| self.file.as_deref().and_then(Path::parent));
        Reader::read(entry, &self.variables, base).map_err(|fault| EntryError::new(self.file.as_deref(), name, fault))
    }

    fn from_text(file: Option<&Path>, text: &str) -> Result<Self, ConfigErrorKind> {
        let root = parse_json(text)?;
        if !root.is_object() {
            return Err(ConfigErrorKind::not_an_object(String::new(), &root));
        }
        let projects = root.member("projects").filter(RawJson::is_object);
        let servers = match find_group(&root) {
            Some((path, group)) => servers_of(&group, || path.join("."))?,
            None if projects.is_some() => IndexMap::new(),
            None => return Err(ConfigErrorKind::NoServers),
        };
        Ok(Self { file: file.map(Path::to_owned), servers, projects, variables: Variables::of_process() })
    }
}

impl fmt::Debug for McpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Entries are shown by name only: any of their members may hold a secret.
        f.debug_struct("McpConfig")
            .field("file", &self.file)
            .field("servers", &self.servers.keys())
            .field("workspace_folder", &self.variables.workspace)
            .finish_non_exhaustive()
    }
}

/// Parses JSON with comments and trailing commas. Errors have positions in `text`.
fn parse_json(text: &str) -> Result<RawJson, ConfigErrorKind> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let plain = comment::blank(text).map_err(|unclosed| {
        let (line, column) = position(text, unclosed.offset);
        ConfigErrorKind::UnclosedComment { line, column }
    })?;
    RawJson::parse(plain).map_err(|error| {
        let (line, column) = position(text, error.offset);
        ConfigErrorKind::Syntax { line, column, problem: error.kind }
    })
}

/// Returns the line and column of a byte offset, both starting at 1. Columns are counted in characters.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

fn find_group(root: &RawJson) -> Option<(&'static [&'static str], RawJson)> {
    GROUPS.into_iter().find_map(|path| {
        let found = path.iter().try_fold(root.clone(), |value, name| value.member(name))?;
        (!found.is_null()).then_some((path, found))
    })
}

fn servers_of(group: &RawJson, path: impl FnOnce() -> String) -> Result<IndexMap<String, RawJson>, ConfigErrorKind> {
    let Some(group) = group.as_object() else { return Err(ConfigErrorKind::not_an_object(path(), group)) };
    Ok(group.iter().map(|(name, entry)| (name.into_owned(), entry)).collect())
}

/// Returns the key of a project. On Windows, Claude Code writes the paths of projects with forward slashes.
fn project_key(path: &str) -> String {
    let path = path.replace('\\', "/");
    path.trim_end_matches('/').to_owned()
}
