//! The index of a server's skills, by URI.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Map, Value};
use turms_proto::Object;
use turms_proto::skill::{digest, parse_header};
use turms_proto::types::{
    DIRECTORY_MIME_TYPE, Resource, ResourceContents, Skill, SkillFile, SkillResources, is_skill_name,
};

use super::SkillError;

/// Maximum length of a skill's description, in characters.
const MAX_DESCRIPTION: usize = 1024;

/// The files of a skill.
pub(super) struct SkillFiles {
    /// The location for error messages.
    pub(super) place: String,
    /// The path of the skill; its last part is its name.
    pub(super) path: Vec<String>,
    /// The files, by their path within the skill.
    pub(super) files: BTreeMap<Vec<String>, Arc<[u8]>>,
}

/// An index of skills, files and directories.
#[derive(Debug, Clone, Default)]
pub(super) struct SkillIndex {
    skills: BTreeMap<String, Skill>,
    files: BTreeMap<String, IndexedFile>,
    /// The URIs of the entries of a directory.
    directories: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Debug, Clone)]
struct IndexedFile {
    contents: Arc<[u8]>,
    digest: String,
}

impl SkillIndex {
    /// Adds a skill.
    pub(super) fn add(&mut self, skill: SkillFiles) -> Result<(), SkillError> {
        let SkillFiles { place, path, files } = skill;
        let wrong = |problem: String| SkillError::new(&place, problem);
        check_path(&path).map_err(wrong)?;
        for file in files.keys() {
            check_path(file).map_err(|problem| wrong(format!("{}: {problem}", file.join("/"))))?;
        }
        let manifest = files.get(["SKILL.md"].map(str::to_owned).as_slice());
        let text = manifest.map(|contents| std::str::from_utf8(contents));
        let text = text.ok_or_else(|| wrong("there is no SKILL.md".to_owned()))?;
        let text = text.map_err(|_| wrong("it is not UTF-8".to_owned()))?;
        let header = parse_header(text).map_err(|error| wrong(error.to_string()))?;
        check_header(&header, path.last()).map_err(wrong)?;

        let root = format!("skill://{}", encoded(&path));
        let mut listed = Vec::new();
        for (file, contents) in files {
            let uri = format!("{root}/{}", encoded(&file));
            let digest = digest(&contents);
            listed.push(SkillFile::new(&*uri, &*digest, i64::try_from(contents.len()).unwrap_or(i64::MAX)));
            self.add_file(&uri, IndexedFile { contents, digest })
                .map_err(|problem| SkillError::new(&place, problem))?;
        }
        let frontmatter = Object::encode(&header).map_err(|error| SkillError::new(&place, error))?;
        let skill = Skill::new(format!("{root}/SKILL.md"), frontmatter).resources(SkillResources::Files(listed));
        skill.check().map_err(|problem| SkillError::new(&place, problem))?;
        match self.skills.insert(skill.uri.clone(), skill) {
            None => Ok(()),
            Some(other) => Err(SkillError::new(&place, format_args!("there is another skill at {}", other.uri))),
        }
    }

    /// Adds a file. A file may belong to a skill and to a nested one, but each URI has one file.
    fn add_file(&mut self, uri: &str, file: IndexedFile) -> Result<(), String> {
        if self.directories.contains_key(uri) {
            return Err(format!("{uri} is a file and a directory"));
        }
        let mut child = uri.to_owned();
        while let Some((parent, _)) = child.rsplit_once('/').filter(|(parent, _)| !parent.ends_with('/')) {
            if self.files.contains_key(parent) {
                return Err(format!("{parent} is a file and a directory"));
            }
            let parent = parent.to_owned();
            self.directories.entry(parent.clone()).or_default().insert(child);
            child = parent;
        }
        if self.files.get(uri).is_some_and(|other| other.digest != file.digest) {
            return Err(format!("there are two files at {uri}"));
        }
        self.files.insert(uri.to_owned(), file);
        Ok(())
    }

    pub(super) fn skill(&self, uri: &str) -> Option<&Skill> {
        self.skills.get(uri)
    }

    /// Returns all skills, ordered by URI.
    pub(super) fn manifests(&self) -> impl Iterator<Item = &Skill> {
        self.skills.values()
    }

    pub(super) fn directory(&self, uri: &str) -> Option<&BTreeSet<String>> {
        self.directories.get(uri)
    }

    /// Returns `true` if a file or a directory is visible to a caller. `sees` decides about manifests. Any other file
    /// is visible with the innermost skill that contains it, a directory with any file in it.
    pub(super) fn is_shown(&self, uri: &str, sees: &dyn Fn(&str) -> bool) -> bool {
        if self.directories.contains_key(uri) {
            let start = format!("{uri}/");
            let within = self.files.range(start.clone()..).map(|(file, _)| file);
            return within.take_while(|file| file.starts_with(&start)).any(|file| self.is_shown(file, sees));
        }
        if self.skills.contains_key(uri) {
            return sees(uri);
        }
        let mut folder = uri;
        while let Some((parent, _)) = folder.rsplit_once('/') {
            let manifest = format!("{parent}/SKILL.md");
            if self.skills.contains_key(&manifest) {
                return sees(&manifest);
            }
            folder = parent;
        }
        false
    }

    /// Returns the contents of a file.
    pub(super) fn contents(&self, uri: &str) -> Option<ResourceContents> {
        let contents = &self.files.get(uri)?.contents;
        let read = match std::str::from_utf8(contents) {
            Ok(text) => ResourceContents::from_text(uri, text),
            Err(_) => ResourceContents::from_bytes(uri, contents),
        };
        Some(read.mime_type(mime_type(uri, contents)))
    }

    /// Returns the description of a file or a directory for lists.
    pub(super) fn about(&self, uri: &str) -> Resource {
        let name = decoded(uri.rsplit('/').next().unwrap_or_default());
        let Some(file) = self.files.get(uri) else {
            return Resource::new(uri, name).mime_type(DIRECTORY_MIME_TYPE);
        };
        let size = i64::try_from(file.contents.len()).unwrap_or(i64::MAX);
        let mut about = Resource::new(uri, name).mime_type(mime_type(uri, &file.contents)).size(size);
        if let Some(skill) = self.skills.get(uri) {
            about.name = skill.name().unwrap_or(about.name);
            about.description = skill.description();
        }
        about
    }

    /// Returns the URIs of the files that were changed or removed since `last`.
    pub(super) fn changed_since<'a>(&'a self, last: &'a Self) -> impl Iterator<Item = &'a str> {
        last.files.iter().filter_map(|(uri, file)| {
            let same = self.files.get(uri).is_some_and(|now| now.digest == file.digest);
            (!same).then_some(uri.as_str())
        })
    }
}

fn check_path(path: &[String]) -> Result<(), String> {
    match path.iter().find(|part| matches!(part.as_str(), "" | "." | "..") || part.contains(['\\', '\0'])) {
        None => Ok(()),
        Some(part) => Err(format!("{part:?} cannot be a part of its path")),
    }
}

fn check_header(header: &Map<String, Value>, directory: Option<&String>) -> Result<(), String> {
    let text = |member: &str| match header.get(member) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text),
        Some(_) => Err(format!("{member} has to be a string that is not empty")),
        None => Err(format!("the front matter has no {member}")),
    };
    let (name, description) = (text("name")?, text("description")?);
    if !is_skill_name(name) {
        let rule = "1 to 64 lowercase letters, digits and single hyphens, none of them at an end";
        return Err(format!("{name:?} is not a name for a skill: {rule}"));
    }
    if Some(name) != directory {
        let directory = directory.map(String::as_str).unwrap_or_default();
        return Err(format!("the skill is called {name:?} and its directory {directory:?}; they have to be the same"));
    }
    if description.chars().count() > MAX_DESCRIPTION {
        return Err(format!("description has more than {MAX_DESCRIPTION} characters"));
    }
    let reserved = |key: &&String| key.starts_with("io.modelcontextprotocol/");
    match header.get("metadata").and_then(Value::as_object).and_then(|metadata| metadata.keys().find(reserved)) {
        Some(key) => Err(format!("metadata: {key:?} is reserved for the protocol")),
        None => Ok(()),
    }
}

/// The characters that are percent-encoded in a path segment.
const NOT_IN_SEGMENT: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes a path for a URI.
fn encoded(path: &[String]) -> String {
    let segments: Vec<_> = path.iter().map(|part| utf8_percent_encode(part, &NOT_IN_SEGMENT).to_string()).collect();
    segments.join("/")
}

/// Decodes a path segment of a generated URI.
fn decoded(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}

/// Returns the MIME type by file extension, or else `text/plain` for valid UTF-8.
fn mime_type(uri: &str, contents: &[u8]) -> &'static str {
    let extension = uri.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map(|(_, extension)| extension);
    match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("md" | "markdown") => "text/markdown",
        Some("html" | "htm") => "text/html",
        Some("css") => "text/css",
        Some("csv") => "text/csv",
        Some("js" | "mjs") => "text/javascript",
        Some("py") => "text/x-python",
        Some("sh") => "application/x-sh",
        Some("json") => "application/json",
        Some("yaml" | "yml") => "application/yaml",
        Some("toml") => "application/toml",
        Some("xml") => "application/xml",
        Some("pdf") => "application/pdf",
        Some("zip") => "application/zip",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("gif") => "image/gif",
        Some("webp") => "image/webp",
        _ if std::str::from_utf8(contents).is_ok() => "text/plain",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_their_way_into_a_uri_and_back() {
        for name in ["a b.md", "ä%41.md", "100%.txt", "plain-_.~md"] {
            assert_eq!(decoded(&encoded(&[name.to_owned()])), name);
        }
        assert_eq!(encoded(&["a b".to_owned(), "c".to_owned()]), "a%20b/c");
    }
}
