//! The official schemas: their location, their definitions, and validation against them.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fs, thread};

use jsonschema::Validator;
use serde_json::{Map, Value, json};

use crate::merge::merge_all_of;
use crate::sample::is_base64;

const KNOWN_REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// Returns the published schemas, oldest first; `None`, with a message, if they are not available.
pub(crate) fn revisions() -> Option<&'static [Revision]> {
    static REVISIONS: OnceLock<Vec<Revision>> = OnceLock::new();
    let directory = found(schema_directory())?;
    Some(REVISIONS.get_or_init(|| read_revisions(&directory)))
}

/// Returns the official example messages; `None`, with a message, if they are not available.
pub(crate) fn examples() -> Option<Vec<Example>> {
    let directory = found(schema_directory().join("examples"))?;
    let mut examples = Vec::new();
    for revision in entries(&directory) {
        for definition in entries(&revision) {
            for file in entries(&definition) {
                examples.push(Example {
                    revision: stem(&revision),
                    definition: stem(&definition),
                    text: fs::read_to_string(&file).unwrap(),
                    file,
                });
            }
        }
    }
    Some(examples)
}

pub(crate) struct Example {
    pub(crate) revision: String,
    pub(crate) definition: String,
    pub(crate) file: PathBuf,
    pub(crate) text: String,
}

/// The schema document of one revision.
pub(crate) struct Revision {
    name: String,
    dialect: Value,
    /// `definitions` in draft-07 documents, `$defs` in later ones.
    container: &'static str,
    published: Map<String, Value>,
    /// The definitions with every `allOf` merged, as generation and comparison require.
    merged: Map<String, Value>,
    validators: BTreeMap<String, OnceLock<Validator>>,
}

impl Revision {
    pub(crate) fn parse(name: &str, text: &str) -> Self {
        let document: Value = serde_json::from_str(text).unwrap();
        let holds = |container: &&str| document[*container].is_object();
        let container = ["definitions", "$defs"].into_iter().find(holds).unwrap();
        let published = document[container].as_object().unwrap().clone();
        Self::new(name, document["$schema"].clone(), container, published)
    }

    fn new(name: &str, dialect: Value, container: &'static str, published: Map<String, Value>) -> Self {
        Self {
            name: name.to_owned(),
            dialect,
            container,
            merged: merge_all_of(&published),
            validators: published.keys().map(|name| (name.clone(), OnceLock::new())).collect(),
            published,
        }
    }

    /// Returns the same document with a definition `XParams` for the parameters of every message `X`. Only later
    /// revisions name most of them; earlier ones define them inline.
    pub(crate) fn with_params(&self) -> Self {
        let mut published = self.published.clone();
        for (message, node) in &self.published {
            let name = format!("{message}Params");
            if let (Some(params), false) = (params_of(node), published.contains_key(&name)) {
                published.insert(name, self.with_inherited_meta(message, params));
            }
        }
        Self::new(&self.name, self.dialect.clone(), self.container, published)
    }

    /// Until 2025-06-18, inline parameters omit the `_meta` that the message inherits from `Request` or
    /// `Notification`.
    fn with_inherited_meta(&self, message: &str, params: &Value) -> Value {
        let base = ["Request", "Notification"].into_iter().find(|base| message.ends_with(base));
        let inherited = base.and_then(|base| params_of(self.published.get(base)?)?.get("properties")?.get("_meta"));
        let mut params = params.clone();
        if let (Some(Value::Object(own)), Some(meta)) = (params.get_mut("properties"), inherited) {
            own.entry("_meta").or_insert_with(|| meta.clone());
        }
        params
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn definitions(&self) -> impl Iterator<Item = &str> {
        self.published.keys().map(String::as_str)
    }

    pub(crate) fn defines(&self, definition: &str) -> bool {
        self.published.contains_key(definition)
    }

    /// Returns the schema of a definition. Panics if there is none, as for a broken `$ref`.
    pub(crate) fn definition(&self, definition: &str) -> &Value {
        let node = self.merged.get(definition);
        node.unwrap_or_else(|| panic!("{}: no definition {definition:?}", self.name))
    }

    /// Resolves `$ref` recursively.
    pub(crate) fn resolve<'a>(&'a self, mut node: &'a Value) -> &'a Value {
        while let Some(definition) = referenced(node) {
            node = self.definition(definition);
        }
        node
    }

    /// Returns the alternatives of a union, or the schema itself.
    pub(crate) fn branches<'a>(&'a self, node: &'a Value) -> Vec<&'a Value> {
        let node = self.resolve(node);
        alternatives(node).map_or_else(|| vec![node], |branches| branches.iter().collect())
    }

    /// Returns the validation errors of an instance of a definition.
    pub(crate) fn violations(&self, definition: &str, instance: &Value) -> Vec<String> {
        let validator = self.validators[definition].get_or_init(|| self.compile_validator(definition));
        if validator.is_valid(instance) {
            return Vec::new();
        }
        let describe = |error: jsonschema::ValidationError<'_>| {
            format!("not valid at {:?}: {error}", error.instance_path().as_str())
        };
        validator.iter_errors(instance).map(describe).collect()
    }

    fn compile_validator(&self, definition: &str) -> Validator {
        let schema = json!({
            "$schema": self.dialect,
            "$ref": format!("#/{}/{definition}", self.container),
            self.container: self.reachable_from(definition),
        });
        let options = jsonschema::options().should_validate_formats(true);
        options.with_format("byte", is_base64).build(&schema).unwrap()
    }

    /// Compiling hundreds of definitions is only fast if each includes just the definitions that it uses.
    fn reachable_from(&self, definition: &str) -> Map<String, Value> {
        let mut reachable = Map::new();
        let mut pending = vec![definition];
        while let Some(name) = pending.pop() {
            if !reachable.contains_key(name) {
                let node = &self.published[name];
                reachable.insert(name.to_owned(), node.clone());
                collect_references(node, &mut pending);
            }
        }
        reachable
    }
}

fn params_of(message: &Value) -> Option<&Value> {
    message.get("properties")?.get("params")
}

/// Returns the definition that a node refers to, in the format of either revision.
pub(crate) fn referenced(node: &Value) -> Option<&str> {
    let reference = node.get("$ref")?.as_str()?;
    let name = reference.strip_prefix("#/definitions/").or_else(|| reference.strip_prefix("#/$defs/"));
    Some(name.unwrap_or_else(|| panic!("a $ref outside the document: {reference}")))
}

pub(crate) fn alternatives(node: &Value) -> Option<&Vec<Value>> {
    node.get("anyOf").or_else(|| node.get("oneOf"))?.as_array()
}

/// Returns the direct subschemas of a schema. Needed because `type`, `items`, `anyOf`, `properties` and others are
/// also names of described members.
pub(crate) fn children(node: &Value) -> impl Iterator<Item = &Value> {
    let single = ["items", "additionalProperties"].into_iter().filter_map(|key| node.get(key));
    let lists = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|key| node.get(key)?.as_array());
    let named = node.get("properties").and_then(Value::as_object);
    single.chain(lists.flatten()).chain(named.into_iter().flat_map(Map::values))
}

fn collect_references<'a>(node: &'a Value, found: &mut Vec<&'a str>) {
    found.extend(referenced(node));
    children(node).for_each(|child| collect_references(child, found));
}

fn read_revisions(directory: &Path) -> Vec<Revision> {
    let files = entries(directory).into_iter().filter(|file| file.is_file());
    let read = |file: PathBuf| Revision::parse(&stem(&file), &fs::read_to_string(file).unwrap());
    let revisions: Vec<_> = files.map(read).collect();
    for known in KNOWN_REVISIONS {
        let present = revisions.iter().any(|revision| revision.name == known);
        assert!(present, "{} has no schema of revision {known}", directory.display());
    }
    revisions
}

fn schema_directory() -> PathBuf {
    let shared = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/schema");
    let named = env::var_os("TURMS_SCHEMA_DIR").filter(|directory| !directory.is_empty());
    named.map_or_else(shared, PathBuf::from)
}

fn found(directory: PathBuf) -> Option<PathBuf> {
    if directory.is_dir() {
        return Some(directory);
    }
    let message = absence(&directory);
    assert!(!is_set("TURMS_REQUIRE_SCHEMA") && !is_set("CI"), "{message}");
    // Not `eprintln!`: the test harness captures it in passing tests.
    io::stderr().lock().write_all(message.as_bytes()).unwrap();
    None
}

fn absence(directory: &Path) -> String {
    let rule = "!".repeat(80);
    let place = directory.display();
    let test = thread::current().name().unwrap_or_default().to_owned();
    format!(
        "\n{rule}\n\
         !!  NOTHING WAS CHECKED: the official MCP schemas are not here.\n\
         !!  test:       {test}\n\
         !!  looked for: {place}\n\
         !!  from:       TURMS_SCHEMA_DIR if set, else ../shared/schema beside the workspace\n\
         !!  The test passes all the same, unless TURMS_REQUIRE_SCHEMA=1 or CI=1 is set.\n\
         {rule}\n\n"
    )
}

fn is_set(variable: &str) -> bool {
    env::var(variable).is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.is_dir() || path.extension().is_some_and(|kind| kind == "json"));
    paths.sort();
    paths
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_str().unwrap().to_owned()
}
