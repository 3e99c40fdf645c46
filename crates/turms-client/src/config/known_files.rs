use std::fmt;
use std::path::{Path, PathBuf};

/// Returns the paths of the configuration files of other clients: first those of the project, then those of the user.
///
/// The files need not exist. `config` is the directory for settings, if the environment sets one: `%APPDATA%` on
/// Windows, `$XDG_CONFIG_HOME` on Linux. Without it, the default directory in `home` is used. On macOS it is ignored.
///
/// ```
/// use std::path::Path;
/// # mod turms { pub use turms_client as client; }
/// use turms::client::{Platform, known_config_files};
///
/// let files = known_config_files(Platform::Linux, Path::new("/home/ann"), Path::new("/src/turms"), None);
/// assert_eq!(files[0].to_string(), "Claude Code, project: /src/turms/.mcp.json");
/// ```
#[must_use]
pub fn known_config_files(platform: Platform, home: &Path, project: &Path, config: Option<&Path>) -> Vec<ConfigFile> {
    let settings = match (platform, config) {
        (Platform::MacOs, _) => home.join("Library").join("Application Support"),
        (Platform::Windows | Platform::Linux, Some(config)) => config.to_owned(),
        (Platform::Windows, None) => home.join("AppData").join("Roaming"),
        (Platform::Linux, None) => home.join(".config"),
    };
    let of_project = |source, path: PathBuf| ConfigFile { source, scope: ConfigScope::Project, path };
    let of_user = |source, path: PathBuf| ConfigFile { source, scope: ConfigScope::User, path };
    vec![
        of_project(ConfigApp::ClaudeCode, project.join(".mcp.json")),
        of_project(ConfigApp::Cursor, project.join(".cursor").join("mcp.json")),
        of_project(ConfigApp::VsCode, project.join(".vscode").join("mcp.json")),
        of_user(ConfigApp::ClaudeCode, home.join(".claude.json")),
        of_user(ConfigApp::ClaudeDesktop, settings.join("Claude").join("claude_desktop_config.json")),
        of_user(ConfigApp::Cursor, home.join(".cursor").join("mcp.json")),
        of_user(ConfigApp::VsCode, settings.join("Code").join("User").join("mcp.json")),
    ]
}

/// A configuration file of another client.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigFile {
    /// The client that the file belongs to.
    pub source: ConfigApp,
    /// The scope of the file.
    pub scope: ConfigScope,
    /// The file.
    pub path: PathBuf,
}

impl fmt::Display for ConfigFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}: {}", self.source, self.scope, self.path.display())
    }
}

/// A client that keeps a configuration of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConfigApp {
    /// Claude Code. The file of the user also has servers for single projects; see
    /// [`McpConfig::project`](crate::McpConfig::project).
    ClaudeCode,
    /// Claude Desktop.
    ClaudeDesktop,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    VsCode,
}

impl fmt::Display for ConfigApp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Cursor => "Cursor",
            Self::VsCode => "VS Code",
        })
    }
}

/// The scope of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a file belongs to a project or to a user")]
pub enum ConfigScope {
    /// The file is shared by all users of the project.
    Project,
    /// The file belongs to one user and applies to all projects.
    User,
}

impl fmt::Display for ConfigScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Project => "project",
            Self::User => "user",
        })
    }
}

/// An operating system, which decides about the directory for settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Platform {
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
    /// Linux and every other Unix.
    Linux,
}

impl Platform {
    /// The platform that this program was built for.
    pub const CURRENT: Self = if cfg!(target_os = "macos") {
        Self::MacOs
    } else if cfg!(windows) {
        Self::Windows
    } else {
        Self::Linux
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(platform: Platform, config: Option<&str>) -> Vec<String> {
        known_config_files(platform, Path::new("/home/ann"), Path::new("/src"), config.map(Path::new))
            .into_iter()
            .map(|file| file.path.display().to_string().replace('\\', "/"))
            .collect()
    }

    #[test]
    fn the_files_of_the_project_come_first() {
        assert_eq!(
            paths(Platform::Linux, None),
            [
                "/src/.mcp.json",
                "/src/.cursor/mcp.json",
                "/src/.vscode/mcp.json",
                "/home/ann/.claude.json",
                "/home/ann/.config/Claude/claude_desktop_config.json",
                "/home/ann/.cursor/mcp.json",
                "/home/ann/.config/Code/User/mcp.json",
            ]
        );
    }

    #[test]
    fn every_platform_has_its_own_folder_for_settings() {
        let desktop = |platform, config| paths(platform, config).swap_remove(4);
        let file = "Claude/claude_desktop_config.json";
        assert_eq!(desktop(Platform::MacOs, Some("/x")), format!("/home/ann/Library/Application Support/{file}"));
        assert_eq!(desktop(Platform::Windows, None), format!("/home/ann/AppData/Roaming/{file}"));
        assert_eq!(desktop(Platform::Windows, Some("D:/Roaming")), format!("D:/Roaming/{file}"));
        assert_eq!(desktop(Platform::Linux, Some("/etc/xdg")), format!("/etc/xdg/{file}"));
    }
}
