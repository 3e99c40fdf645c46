//! A skill from memory.

use std::collections::BTreeMap;

use serde::Serialize;
use turms_proto::RawJson;

use super::SkillError;
use super::shelf::Written;

/// A skill that is written in the program: see [`Skills`](crate::Skills).
#[derive(Debug, Clone)]
#[must_use = "a skill is served when it is given to Skills"]
pub struct Skill {
    name: String,
    /// Where it stands, before its name.
    path: Option<String>,
    header: Vec<(String, Result<RawJson, String>)>,
    instructions: String,
    files: BTreeMap<String, Vec<u8>>,
}

impl Skill {
    /// A skill of this name, which is at `skill://<name>/SKILL.md`, and what it is for.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        let name = name.into();
        let header = vec![
            ("name".to_owned(), Ok(RawJson::string(&name))),
            ("description".to_owned(), Ok(RawJson::string(&description.into()))),
        ];
        Self { name, path: None, header, instructions: String::new(), files: BTreeMap::new() }
    }

    /// Puts it below a path, such as `acme/billing`: its `SKILL.md` is at `skill://acme/billing/<name>/SKILL.md` then.
    pub fn below(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// What the model is told: the text of its `SKILL.md` below the header.
    pub fn instructions(mut self, markdown: impl Into<String>) -> Self {
        self.instructions = markdown.into();
        self
    }

    /// One more member of its header, such as `license`.
    pub fn field(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        self.header.push((name.into(), RawJson::encode(&value).map_err(|error| error.to_string())));
        self
    }

    /// A file that belongs to it, at a path such as `references/FORMS.md`.
    pub fn file(mut self, path: impl Into<String>, contents: impl Into<Vec<u8>>) -> Self {
        self.files.insert(path.into(), contents.into());
        self
    }

    /// The skill as files.
    pub(super) fn written(&self) -> Result<Written, SkillError> {
        let place = format!("skill {:?}", self.name);
        let mut text = String::from("---\n");
        for (name, value) in &self.header {
            let value = value.as_ref().map_err(|problem| {
                SkillError::new(&place, format_args!("{name:?} cannot be written as JSON: {problem}"))
            })?;
            // JSON is YAML.
            let name = RawJson::string(name);
            text.extend([name.as_str(), ": ", value.as_str(), "\n"]);
        }
        text.extend(["---\n", &self.instructions]);
        let mut path: Vec<String> = self.path.iter().flat_map(|path| path.split('/')).map(str::to_owned).collect();
        path.push(self.name.clone());
        let mut files = BTreeMap::new();
        for (path, contents) in &self.files {
            files.insert(path.split('/').map(str::to_owned).collect(), contents.as_slice().into());
        }
        if files.insert(vec!["SKILL.md".to_owned()], text.into_bytes().into()).is_some() {
            return Err(SkillError::new(place, "its SKILL.md is made of its header and its instructions"));
        }
        Ok(Written { place, path, files })
    }
}
