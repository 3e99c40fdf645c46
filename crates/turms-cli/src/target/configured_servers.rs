//! The servers that configuration files name.

use std::env;
use std::path::{Path, PathBuf};

use turms::client::{Config, ConfigError, Platform, ServerEntry, Target as Entry, known_places};

use crate::error::{Done, Exit, Failure};
use crate::suggest;

/// All servers of all files, those of the project first.
#[derive(Debug)]
pub(crate) struct Catalogue {
    pub(crate) known: Vec<Known>,
    /// Files that are of no use, and why.
    pub(crate) broken: Vec<ConfigError>,
    /// Where was looked.
    looked: Vec<String>,
}

/// A server by its name.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) name: String,
    /// Whose file it is.
    pub(crate) place: String,
    pub(crate) entry: Result<ServerEntry, turms::client::EntryError>,
}

impl Catalogue {
    /// Reads the files that were named, or those that other clients keep.
    pub(crate) fn read(named: &[PathBuf]) -> Done<Self> {
        let mut catalogue = Self { known: Vec::new(), broken: Vec::new(), looked: Vec::new() };
        for path in named {
            let config = Config::read(path).map_err(|error| Failure::of(Exit::Failure, &error))?;
            catalogue.take(&path.display().to_string(), &config);
        }
        if named.is_empty() {
            catalogue.read_known_places();
        }
        Ok(catalogue)
    }

    fn read_known_places(&mut self) {
        let project = env::current_dir().unwrap_or_default();
        let home = home().unwrap_or_default();
        let settings = env::var_os(if cfg!(windows) { "APPDATA" } else { "XDG_CONFIG_HOME" }).map(PathBuf::from);
        for place in known_places(Platform::CURRENT, &home, &project, settings.as_deref()) {
            match Config::read(&place.path) {
                Ok(config) => self.take_with_project(&place.to_string(), &config.workspace_folder(&project), &project),
                Err(error) if error.is_not_found() || error.is_without_servers() => {}
                Err(error) => self.broken.push(error),
            }
            self.looked.push(place.to_string());
        }
    }

    /// Claude Code keeps servers of single projects in the file of the person; those come first.
    fn take_with_project(&mut self, place: &str, config: &Config, project: &Path) {
        match config.project(project) {
            Some(Ok(of_project)) => self.take(&format!("{place}, this project"), &of_project),
            Some(Err(error)) => self.broken.push(error),
            None => {}
        }
        self.take(place, config);
    }

    fn take(&mut self, place: &str, config: &Config) {
        for (name, entry) in config.servers() {
            self.known.push(Known { name: name.to_owned(), place: place.to_owned(), entry });
        }
    }

    /// The first of this name.
    pub(crate) fn find(mut self, name: &str) -> Done<ServerEntry> {
        match self.known.iter().position(|known| known.name == name) {
            Some(index) => self.known.swap_remove(index).entry.map_err(|error| Failure::of(Exit::Usage, &error)),
            None => Err(self.unknown(name)),
        }
    }

    fn unknown(&self, name: &str) -> Failure {
        let mut failure = Failure::usage(format!("there is no server {name:?} in the configuration files"));
        if let Some(near) = suggest::nearest(name, self.known.iter().map(|known| known.name.as_str())) {
            failure = failure.hint(format!("did you mean {near:?}?"));
        }
        failure = match Path::new(name).exists() || is_program(name) {
            false if is_address(name) => failure.hint(format!("an address begins with its scheme: http://{name}")),
            true => failure.hint(format!("to start a program as the server, put it last: `-- {name}`")),
            false if self.known.is_empty() => {
                failure.hint("none was found; the server comes first: a URL, `demo`, a name out of a --config file, or a program after `--`")
            }
            false => failure.hint("`turms servers` lists those that are there"),
        };
        self.broken.iter().fold(failure, |failure, error| failure.hint(format!("a file was passed over: {error}")))
    }

    /// Where was looked, for those who wonder why nothing was found.
    pub(crate) fn looked(&self) -> &[String] {
        &self.looked
    }
}

impl Known {
    /// Where it is, without secrets.
    pub(crate) fn whereabouts(&self) -> String {
        match &self.entry {
            Ok(ServerEntry { target: Entry::Command { program, args, .. }, .. }) if args.is_empty() => program.clone(),
            Ok(ServerEntry { target: Entry::Command { program, .. }, .. }) => format!("{program} …"),
            Ok(ServerEntry { target: Entry::Url { url, .. }, .. }) => super::without_secrets(url),
            Ok(_) => "not known here".to_owned(),
            Err(error) => format!("cannot be used: {error}"),
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

/// Whether it could be a host, with a port or a path.
fn is_address(name: &str) -> bool {
    let (host, path) = name.split_once('/').map_or((name, None), |(host, path)| (host, Some(path)));
    let port = host.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    port || host == "localhost" || (path.is_some() && host.contains('.') && !host.starts_with('.'))
}

/// Whether there is a program of this name to be started.
pub(crate) fn is_program(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(name).is_file())
}
