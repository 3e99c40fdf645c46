//! rustdoc's JSON output for the façade and the crates behind it.

use std::collections::HashMap;
use std::error::Error;
use std::fs;

use rustdoc_types::{Crate, FORMAT_VERSION, Id, Item, ItemEnum, ItemKind, Use};
use serde::Deserialize;

use crate::dependencies;
use crate::program;
use crate::sources;

/// The crate that users depend on.
const FACADE: &str = "turms";
/// A target folder of its own: in the usual one, `RUSTC_BOOTSTRAP` would cause build scripts to run again, now and in the
/// next build.
const TARGET: &str = "target/api";

/// The crates, the façade first, with references between them resolved.
pub(super) struct Docs {
    crates: Vec<Crate>,
    definitions: HashMap<(Vec<String>, ItemKind), Key>,
}

/// An item of one of the crates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) krate: usize,
    pub(super) id: Id,
}

/// The item that an id or an import refers to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    /// An item of one of the crates, with documentation.
    Ours(Key),
    /// The path of an item of another crate, or of a hidden item of ours.
    Foreign(Vec<String>),
}

impl Docs {
    /// Runs rustdoc with all features of the façade.
    pub(super) fn build() -> Result<Self, Box<dyn Error>> {
        let packages = dependencies::closure_of(FACADE)?;
        let features: Vec<_> = dependencies::features_of(FACADE).iter().map(|it| format!("{FACADE}/{it}")).collect();
        let line = "cargo doc --quiet --locked --no-deps --lib --no-default-features --target-dir";
        let mut cargo = program::command(line);
        cargo.args([TARGET, "--features", &features.join(",")]).current_dir(sources::root());
        cargo.args(packages.iter().flat_map(|package| ["-p", package]));
        cargo
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTDOCFLAGS", "-Z unstable-options --output-format json --cap-lints allow");
        program::run(&mut cargo)?;
        let folder = sources::root().join(TARGET).join("doc");
        let file = |package: &String| folder.join(package.replace('-', "_")).with_extension("json");
        let read = |package| parse(&fs::read_to_string(file(package))?);
        Ok(Self::new(packages.iter().map(read).collect::<Result<_, _>>()?))
    }

    pub(super) fn new(crates: Vec<Crate>) -> Self {
        let mut definitions = HashMap::new();
        for (krate, data) in crates.iter().enumerate() {
            let ours = data.paths.iter().filter(|(id, path)| path.crate_id == 0 && data.index.contains_key(id));
            definitions.extend(ours.map(|(id, path)| ((path.path.clone(), path.kind), Key { krate, id: *id })));
        }
        Self { crates, definitions }
    }

    /// Returns the root module of the façade.
    pub(super) fn root(&self) -> Option<Key> {
        self.crates.first().map(|data| Key { krate: 0, id: data.root })
    }

    pub(super) fn get(&self, key: Key) -> Option<&Item> {
        self.crates[key.krate].index.get(&key.id)
    }

    /// Iterates over all items of all crates, whether they can be reached or not.
    pub(super) fn items(&self) -> impl Iterator<Item = (Key, &Item)> {
        let all = self.crates.iter().enumerate();
        let all = all.flat_map(|(krate, data)| data.index.values().map(move |item| (krate, item)));
        all.filter(|(_, item)| item.crate_id == 0).map(|(krate, item)| (Key { krate, id: item.id }, item))
    }

    /// Returns the item that an id of one crate refers to; `None` if rustdoc's output does not name it.
    pub(super) fn resolve(&self, krate: usize, id: Id) -> Option<Target> {
        let key = Key { krate, id };
        if self.get(key).is_some_and(|item| item.crate_id == 0) {
            return Some(Target::Ours(key));
        }
        let summary = self.crates[krate].paths.get(&id)?;
        let definition = self.definitions.get(&(summary.path.clone(), summary.kind));
        Some(definition.map_or_else(|| Target::Foreign(summary.path.clone()), |key| Target::Ours(*key)))
    }

    /// Returns the path at which an item is defined, which may be private.
    pub(super) fn definition(&self, key: Key) -> String {
        self.crates[key.krate].paths.get(&key.id).map(|it| it.path.join("::")).unwrap_or_default()
    }

    /// Returns the name of the crate that defines an item.
    pub(super) fn krate(&self, key: Key) -> String {
        let data = &self.crates[key.krate];
        data.index.get(&data.root).and_then(|item| item.name.clone()).unwrap_or_default()
    }

    /// Returns `true` for the name of one of the crates.
    pub(super) fn is_ours(&self, krate: &str) -> bool {
        self.crates.iter().any(|data| data.index.get(&data.root).is_some_and(|it| it.name.as_deref() == Some(krate)))
    }

    /// Returns the public items of a module, or the variants of an enum, by name. An item that is exported by a `use` comes
    /// with it. Glob imports are expanded.
    pub(super) fn exports(&self, module: Key) -> Vec<(&str, Target, Option<&Item>)> {
        let children = match self.get(module).map(|item| &item.inner) {
            Some(ItemEnum::Module(module)) => &module.items,
            Some(ItemEnum::Enum(parent)) => &parent.variants,
            _ => return Vec::new(),
        };
        let mut exports = Vec::new();
        for key in children.iter().map(|id| Key { id: *id, ..module }) {
            let Some(item) = self.get(key) else { continue };
            match (&item.inner, &item.name) {
                (ItemEnum::Use(Use { name, id: Some(id), is_glob, .. }), _) => match self.resolve(module.krate, *id) {
                    Some(Target::Ours(source)) if *is_glob => exports.extend(self.exports(source)),
                    Some(target) => exports.push((name, target, Some(item))),
                    None => {}
                },
                (_, Some(name)) => exports.push((name, Target::Ours(key), None)),
                _ => {}
            }
        }
        exports
    }
}

fn parse(json: &str) -> Result<Crate, Box<dyn Error>> {
    #[derive(Deserialize)]
    struct Format {
        format_version: u32,
    }
    match serde_json::from_str(json)? {
        Format { format_version: FORMAT_VERSION } => Ok(serde_json::from_str(json)?),
        Format { format_version } => Err(format!(
            "this Rust writes format {format_version} of rustdoc's JSON, and format {FORMAT_VERSION} is expected: \
             change the version of rustdoc-types in Cargo.toml to 0.{format_version}"
        )
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_format_is_reported_with_the_version_that_reads_it() {
        let error = parse(r#"{"format_version": 1, "root": "0:0"}"#).unwrap_err().to_string();
        assert!(error.starts_with("this Rust writes format 1 of") && error.ends_with("to 0.1"), "{error}");
    }
}
