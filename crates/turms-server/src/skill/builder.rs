//! Skills that are defined in code.

use std::collections::BTreeMap;

use serde::Serialize;
use turms_proto::RawJson;

use super::SkillError;
use super::index::SkillFiles;

/// A skill that is defined in code: see [`Skills`](crate::Skills).
#[derive(Debug, Clone)]
#[must_use = "a skill has no effect unless it is added to Skills"]
pub struct Skill {
    name: String,
    path_prefix: Option<String>,
    /// The fields of the front matter. An error of encoding is kept until the skill is added to a server.
    front_matter: Vec<(String, Result<RawJson, String>)>,
    instructions: String,
    files: BTreeMap<String, Vec<u8>>,
}

impl Skill {
    /// Creates a skill at `skill://<name>/SKILL.md`.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        let name = name.into();
        let front_matter = vec![
            ("name".to_owned(), Ok(RawJson::string(&name))),
            ("description".to_owned(), Ok(RawJson::string(&description.into()))),
        ];
        Self { name, path_prefix: None, front_matter, instructions: String::new(), files: BTreeMap::new() }
    }

    /// Sets a path prefix, such as `acme/billing`: the `SKILL.md` is then at `skill://acme/billing/<name>/SKILL.md`.
    pub fn path_prefix(mut self, path: impl Into<String>) -> Self {
        self.path_prefix = Some(path.into());
        self
    }

    /// Sets the instructions for the model: the text of `SKILL.md` after the front matter.
    pub fn instructions(mut self, markdown: impl Into<String>) -> Self {
        self.instructions = markdown.into();
        self
    }

    /// Adds a field to the front matter, such as `license`.
    pub fn field(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        self.front_matter.push((name.into(), RawJson::encode(&value).map_err(|error| error.to_string())));
        self
    }

    /// Adds a file at a relative path, such as `references/FORMS.md`.
    pub fn file(mut self, path: impl Into<String>, contents: impl Into<Vec<u8>>) -> Self {
        self.files.insert(path.into(), contents.into());
        self
    }

    /// Returns the skill as files.
    pub(super) fn to_files(&self) -> Result<SkillFiles, SkillError> {
        let place = format!("skill {:?}", self.name);
        let mut text = String::from("---\n");
        for (name, value) in &self.front_matter {
            let value = value.as_ref().map_err(|problem| {
                SkillError::new(&place, format_args!("{name:?} cannot be written as JSON: {problem}"))
            })?;
            // JSON is valid YAML.
            let name = RawJson::string(name);
            text.extend([name.as_str(), ": ", value.as_str(), "\n"]);
        }
        text.extend(["---\n", &self.instructions]);
        let prefix = self.path_prefix.iter().flat_map(|prefix| prefix.split('/'));
        let mut path: Vec<String> = prefix.map(str::to_owned).collect();
        path.push(self.name.clone());
        let mut files = BTreeMap::new();
        for (path, contents) in &self.files {
            files.insert(path.split('/').map(str::to_owned).collect(), contents.as_slice().into());
        }
        if files.insert(vec!["SKILL.md".to_owned()], text.into_bytes().into()).is_some() {
            let problem =
                "SKILL.md cannot be added as a file: it is generated from the front matter and the instructions";
            return Err(SkillError::new(place, problem));
        }
        Ok(SkillFiles { place, path, files })
    }
}
