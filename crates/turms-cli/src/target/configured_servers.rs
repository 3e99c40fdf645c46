//! The servers in configuration files.

use std::env;
use std::path::{Path, PathBuf};

use turms::client::{ConfigError, McpConfig, Platform, ServerEntry, ServerTarget as Entry, known_config_files};

use crate::error::{CliError, CliResult, ExitStatus};
use crate::suggest;

/// The servers of all configuration files, those of the project first.
#[derive(Debug)]
pub(crate) struct ConfiguredServers {
    pub(crate) servers: Vec<ConfiguredServer>,
    /// Errors of files that cannot be used.
    pub(crate) errors: Vec<ConfigError>,
    /// The files that were searched.
    searched: Vec<String>,
}

/// A server in a configuration file.
#[derive(Debug)]
pub(crate) struct ConfiguredServer {
    pub(crate) name: String,
    /// The file: its application and path.
    pub(crate) file: String,
    pub(crate) entry: Result<ServerEntry, turms::client::EntryError>,
}

impl ConfiguredServers {
    /// Reads these files, or those of other clients if there are none.
    pub(crate) fn read(paths: &[PathBuf]) -> CliResult<Self> {
        let mut servers = Self { servers: Vec::new(), errors: Vec::new(), searched: Vec::new() };
        for path in paths {
            let config = McpConfig::read(path).map_err(|error| CliError::of(ExitStatus::Failure, &error))?;
            servers.add(&path.display().to_string(), &config);
        }
        if paths.is_empty() {
            servers.read_known_files();
        }
        Ok(servers)
    }

    fn read_known_files(&mut self) {
        let project = env::current_dir().unwrap_or_default();
        let home = home().unwrap_or_default();
        let settings = env::var_os(if cfg!(windows) { "APPDATA" } else { "XDG_CONFIG_HOME" }).map(PathBuf::from);
        for place in known_config_files(Platform::CURRENT, &home, &project, settings.as_deref()) {
            match McpConfig::read(&place.path) {
                Ok(config) => self.add_with_project(&place.to_string(), &config.workspace_folder(&project), &project),
                Err(error) if error.is_not_found() || error.is_without_servers() => {}
                Err(error) => self.errors.push(error),
            }
            self.searched.push(place.to_string());
        }
    }

    /// Adds the servers of a file. Claude Code stores servers of single projects in the file of the user; those come first.
    fn add_with_project(&mut self, file: &str, config: &McpConfig, project: &Path) {
        match config.project(project) {
            Some(Ok(of_project)) => self.add(&format!("{file}, this project"), &of_project),
            Some(Err(error)) => self.errors.push(error),
            None => {}
        }
        self.add(file, config);
    }

    fn add(&mut self, file: &str, config: &McpConfig) {
        for (name, entry) in config.servers() {
            self.servers.push(ConfiguredServer { name: name.to_owned(), file: file.to_owned(), entry });
        }
    }

    /// Returns the first server of this name.
    pub(crate) fn find(mut self, name: &str) -> CliResult<ServerEntry> {
        match self.servers.iter().position(|server| server.name == name) {
            Some(index) => {
                self.servers.swap_remove(index).entry.map_err(|error| CliError::of(ExitStatus::Usage, &error))
            }
            None => Err(self.unknown(name)),
        }
    }

    fn unknown(&self, name: &str) -> CliError {
        let mut failure = CliError::usage(format!("no server {name:?} in the configuration files"));
        if let Some(closest) = suggest::closest(name, self.servers.iter().map(|server| server.name.as_str())) {
            failure = failure.hint(format!("did you mean {closest:?}?"));
        }
        failure = match Path::new(name).exists() || is_program(name) {
            false if is_address(name) => failure.hint(format!("a URL begins with its scheme: http://{name}")),
            true => failure.hint(format!("to start a program as the server, put it last, after `--`: `-- {name}`")),
            false if self.servers.is_empty() => failure
                .hint("no configuration file has servers; TARGET is a URL, `demo`, or a name from a --config file"),
            false => failure.hint("`turms servers` lists the servers"),
        };
        self.errors
            .iter()
            .fold(failure, |failure, error| failure.hint(format!("skipped a configuration file: {error}")))
    }

    /// Returns the files that were searched.
    pub(crate) fn searched(&self) -> &[String] {
        &self.searched
    }
}

impl ConfiguredServer {
    /// Returns the program or the URL, without secrets.
    pub(crate) fn target(&self) -> String {
        match &self.entry {
            Ok(ServerEntry { target: Entry::Command { program, args, .. }, .. }) if args.is_empty() => program.clone(),
            Ok(ServerEntry { target: Entry::Command { program, .. }, .. }) => format!("{program} …"),
            Ok(ServerEntry { target: Entry::Url { url, .. }, .. }) => super::without_secrets(url),
            Ok(_) => "unknown kind".to_owned(),
            Err(error) => format!("invalid: {error}"),
        }
    }

    pub(crate) fn is_enabled(&self) -> bool {
        match &self.entry {
            Ok(entry) => entry.enabled,
            Err(error) => !error.is_disabled(),
        }
    }
}

fn home() -> Option<PathBuf> {
    env::var_os(if cfg!(windows) { "USERPROFILE" } else { "HOME" }).map(PathBuf::from)
}

/// Returns `true` if the name looks like a host with a port or a path.
fn is_address(name: &str) -> bool {
    let (host, path) = name.split_once('/').map_or((name, None), |(host, path)| (host, Some(path)));
    let port = host.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    port || host == "localhost" || (path.is_some() && host.contains('.') && !host.starts_with('.'))
}

/// Returns `true` if `PATH` has a program of this name.
pub(crate) fn is_program(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(name).is_file())
}
