//! The configuration files that name servers: `mcpServers`, as most clients write it, and VS Code's `servers`.

mod comment;
mod entry;
mod env_file;
mod error;
mod file;
mod place;
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
pub use self::place::{ConfigApp, ConfigFile, ConfigScope, Platform, known_config_files};
use self::variable::Variables;

/// Maximum size of a file. Claude Code keeps its servers in one file with much else, and that file grows.
const MAX_FILE: usize = 64 << 20;

/// The paths of the servers in a file; the first that exists counts.
const GROUPS: [&[&str]; 4] = [&["mcpServers"], &["servers"], &["mcp", "servers"], &["mcp.servers"]];

/// The servers that a configuration file names, in the order of the file.
///
/// The files of Claude Desktop, Claude Code, Cursor, Windsurf, Cline and VS Code are understood: servers stand under
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
/// | `${NAME}`, `${env:NAME}` | the environment's variable; if there is none, the entry is an error |
/// | `${NAME:-text}` | the variable, or `text` if there is none; one that is set but empty counts as set |
/// | `${userHome}` | the home folder |
/// | `${workspaceFolder}`, `${workspaceFolderBasename}` | see [`McpConfig::workspace_folder`] |
/// | `${pathSeparator}`, `${/}` | `/`, or `\` on Windows |
/// | `$${` | the characters `${` |
///
/// The value of a variable is not expanded again. `${input:…}` requires user input and is an error here.
///
/// # Secrets
///
/// Neither `Debug` nor an error shows the values of environment, headers, arguments or unknown members;
/// only their names. Of an address `Debug` shows the host. Programs and folders are shown, so they are no place for
/// secrets.
#[derive(Clone)]
pub struct McpConfig {
    file: Option<PathBuf>,
    servers: IndexMap<String, RawJson>,
    /// Claude Code keeps further servers for each project folder.
    projects: Option<RawJson>,
    variables: Variables,
}

impl McpConfig {
    /// Parses the text of a configuration file.
    ///
    /// ```
    /// use turms_client::{McpConfig, ServerTarget};
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
    /// When the text is not JSON or names no servers. What is wrong within an entry is an error of that entry.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        Self::from_text(None, text).map_err(|kind| ConfigError::new(None, kind))
    }

    /// Reads a configuration file. This blocks on the file system.
    ///
    /// # Errors
    /// As [`McpConfig::parse`], and when the file cannot be read, is larger than 64 MiB or is not UTF-8.
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

    /// Sets what `${workspaceFolder}` stands for. A relative `envFile` is looked for there, too.
    #[must_use]
    pub fn workspace_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.variables.workspace = Some(folder.into());
        self
    }

    /// The servers that the file keeps for one project only, if it does: Claude Code's `~/.claude.json` has them under
    /// `projects`, by the path of the folder. The folder becomes the workspace folder.
    ///
    /// # Errors
    /// When what stands there is not an object of servers.
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
    /// When the entry is wrong or one of its variables is not set.
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

/// JSON with comments and trailing commas; positions are those of `text`.
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

/// The line and column of a byte, both from 1; columns are counted in characters.
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

/// On Windows, Claude Code writes the paths of projects with forward slashes.
fn project_key(path: &str) -> String {
    let path = path.replace('\\', "/");
    path.trim_end_matches('/').to_owned()
}
