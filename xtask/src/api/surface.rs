//! The items that users of the façade can name.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use rustdoc_types::{Attribute, Id, Impl, Item, ItemEnum, MacroKind, StructKind, Type, VariantKind, Visibility};

use super::rustdoc::{Docs, Key, Target};
use super::signature::{Writer, short};

/// A public item.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) path: String,
    pub(super) kind: &'static str,
    /// The crate that defines it.
    pub(super) krate: String,
    pub(super) signature: String,
    pub(super) docs: String,
    /// Words of `#[doc(alias)]`.
    pub(super) aliases: BTreeSet<String>,
    /// Types and traits of other crates in the signature.
    pub(super) foreign: BTreeSet<String>,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = if self.signature.is_empty() { "" } else { " " };
        write!(f, "{} {}{space}{}", self.path, self.kind, self.signature)
    }
}

/// Returns all public items, sorted. An item with several paths is described at the preferred one; the others are listed as
/// `use` of it.
pub(super) fn entries(docs: &Docs) -> Vec<Entry> {
    let mut surface = Surface { docs, names: HashMap::new(), entries: Vec::new() };
    let visits = surface.name_all();
    for visit in &visits {
        surface.describe(visit);
    }
    surface.implementations();
    let mut entries = surface.entries;
    entries.sort_by_cached_key(ToString::to_string);
    entries.dedup_by_key(|entry| entry.to_string());
    entries
}

struct Surface<'a> {
    docs: &'a Docs,
    /// The preferred path of each item.
    names: HashMap<Key, String>,
    entries: Vec<Entry>,
}

/// A path to an item. Paths are ordered by preference, the preferred one first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Visit {
    /// `true` if the item is imported with `#[doc(no_inline)]`, so that its documentation is elsewhere.
    is_no_inline: bool,
    depth: usize,
    path: String,
    target: Target,
    /// The doc comment of the import.
    docs: Option<String>,
}

impl Surface<'_> {
    /// Finds all paths, and chooses one for each item.
    fn name_all(&mut self) -> Vec<Visit> {
        let root = self.docs.root().map(|key| Visit {
            is_no_inline: false,
            depth: 0,
            path: self.docs.definition(key),
            target: Target::Ours(key),
            docs: None,
        });
        let mut queue = BTreeSet::from_iter(root);
        let mut visits = Vec::new();
        while let Some(visit) = queue.pop_first() {
            if let Target::Ours(key) = visit.target
                && !self.names.contains_key(&key)
            {
                self.names.insert(key, visit.path.clone());
                if self.is_module(key) {
                    queue.extend(self.docs.exports(key).into_iter().map(|it| self.visit(&visit, it)));
                }
            }
            visits.push(visit);
        }
        visits
    }

    fn visit(&self, parent: &Visit, (name, target, import): (&str, Target, Option<&Item>)) -> Visit {
        let is_module = matches!(target, Target::Ours(key) if self.is_module(key));
        let is_no_inline = !is_module && import.is_some_and(|item| has_attribute(item, "#[doc(no_inline)]"));
        let path = format!("{}::{name}", parent.path);
        let docs = import.and_then(|item| item.docs.clone());
        Visit { is_no_inline, depth: parent.depth + 1, path, target, docs }
    }

    fn is_module(&self, key: Key) -> bool {
        matches!(self.docs.get(key), Some(Item { inner: ItemEnum::Module(_), .. }))
    }

    fn describe(&mut self, visit: &Visit) {
        let (path, docs) = (visit.path.clone(), visit.docs.clone().unwrap_or_default());
        match &visit.target {
            Target::Ours(key) if self.names.get(key) == Some(&path) => self.item(&path, *key, &docs),
            Target::Ours(key) => {
                let signature = self.names[key].clone();
                self.entries.push(Entry { path, kind: "use", signature, docs, ..Entry::default() });
            }
            // A hidden item of ours is not part of the API.
            Target::Foreign(from) if from.first().is_some_and(|krate| self.docs.is_ours(krate)) => {}
            Target::Foreign(from) => {
                let foreign = BTreeSet::from([format!("{}::{}", from[0], from[from.len() - 1])]);
                let signature = short(from);
                self.entries.push(Entry { path, kind: "use", signature, docs, foreign, ..Entry::default() });
            }
        }
    }

    /// Describes an item, its members, and the public items of its inherent implementations.
    fn item(&mut self, path: &str, key: Key, import_docs: &str) {
        let Some(item) = self.docs.get(key) else { return };
        let mut writer = Writer::new(self.docs, &self.names, key.krate);
        let (kind, mut signature) = kind_and_signature(&mut writer, item);
        if item.attrs.contains(&Attribute::NonExhaustive) {
            signature.push_str(" #[non_exhaustive]");
        }
        if item.deprecation.is_some() {
            signature.push_str(" #[deprecated]");
        }
        let docs = if import_docs.is_empty() { item.docs.as_deref().unwrap_or_default() } else { import_docs };
        let entry = Entry {
            path: path.to_owned(),
            kind,
            krate: self.docs.krate(key),
            signature: signature.trim().to_owned(),
            docs: docs.to_owned(),
            aliases: aliases(item),
            foreign: writer.foreign,
        };
        self.entries.push(entry);
        let members = members(item).into_iter().chain(self.inherent(key, item));
        for member in members.map(|id| Key { id, ..key }).collect::<Vec<_>>() {
            if let Some(name) = self.docs.get(member).and_then(|item| item.name.as_deref()) {
                self.item(&format!("{path}::{name}"), member, "");
            }
        }
    }

    /// Returns the public items of the inherent implementations of a type.
    fn inherent(&self, key: Key, item: &Item) -> Vec<Id> {
        let impls = match &item.inner {
            ItemEnum::Struct(it) => &it.impls,
            ItemEnum::Enum(it) => &it.impls,
            ItemEnum::Union(it) => &it.impls,
            _ => return Vec::new(),
        };
        let impls = impls.iter().filter_map(|id| self.docs.get(Key { id: *id, ..key }));
        let items = impls.filter_map(|item| match &item.inner {
            ItemEnum::Impl(it) if it.trait_.is_none() => Some(&it.items),
            _ => None,
        });
        let is_public =
            |id: &&Id| self.docs.get(Key { id: **id, ..key }).is_some_and(|item| item.visibility == Visibility::Public);
        items.flatten().filter(is_public).copied().collect()
    }

    /// Lists implementations of traits: under the type if it is public, otherwise under the trait. Of the auto traits, only
    /// `Send`, `Sync` and `Unpin` are listed, where they are missing.
    fn implementations(&mut self) {
        let mut found = Vec::new();
        for (key, item) in self.docs.items() {
            let ItemEnum::Impl(it) = &item.inner else { continue };
            let Some(of) = it.trait_.as_ref().filter(|_| it.blanket_impl.is_none()) else { continue };
            let is_missing = it.is_negative && ["Send", "Sync", "Unpin"].contains(&of.path.as_str());
            if (it.is_synthetic && !is_missing) || of.path == "StructuralPartialEq" {
                continue;
            }
            let name = |id| match self.docs.resolve(key.krate, id) {
                Some(Target::Ours(key)) => self.names.get(&key),
                _ => None,
            };
            let is_hidden_trait = match self.docs.resolve(key.krate, of.id) {
                Some(Target::Ours(key)) => !self.names.contains_key(&key),
                Some(Target::Foreign(path)) => self.docs.is_ours(&path[0]),
                None => false,
            };
            let owner = target_of(it).and_then(name).or_else(|| name(of.id));
            let Some(path) = owner.filter(|_| !is_hidden_trait).cloned() else { continue };
            let mut writer = Writer::new(self.docs, &self.names, key.krate);
            let signature = writer.implementation(it, &path);
            found.push(Entry { path, kind: "impl", signature, foreign: writer.foreign, ..Entry::default() });
        }
        self.entries.append(&mut found);
    }
}

fn kind_and_signature(writer: &mut Writer<'_>, item: &Item) -> (&'static str, String) {
    match &item.inner {
        ItemEnum::Module(_) => ("mod", String::new()),
        ItemEnum::Struct(it) => {
            let rest = match &it.kind {
                StructKind::Plain { has_stripped_fields: true, .. } => " { .. }",
                StructKind::Tuple(fields) if fields.iter().any(Option::is_none) => " (..)",
                _ => "",
            };
            let parameters = writer.parameters(&it.generics.params);
            ("struct", format!("{parameters}{}{rest}", writer.wheres(&it.generics)))
        }
        ItemEnum::Union(it) => ("union", writer.parameters(&it.generics.params)),
        ItemEnum::StructField(ty) => ("field", writer.ty(ty)),
        ItemEnum::Enum(it) => {
            let parameters = writer.parameters(&it.generics.params);
            ("enum", format!("{parameters}{}", writer.wheres(&it.generics)))
        }
        ItemEnum::Variant(_) => ("variant", String::new()),
        // Only the required methods of traits have no body.
        ItemEnum::Function(it) => ("fn", format!("{}{}", writer.function(it), if it.has_body { "" } else { ";" })),
        ItemEnum::Trait(it) => {
            let parameters = writer.parameters(&it.generics.params);
            let bounds = writer.bounded(&it.bounds);
            ("trait", format!("{parameters}{bounds}{}", writer.wheres(&it.generics)))
        }
        ItemEnum::TypeAlias(it) => {
            let parameters = writer.parameters(&it.generics.params);
            ("type", format!("{parameters} = {}", writer.ty(&it.type_)))
        }
        ItemEnum::Constant { type_, .. } => ("const", writer.ty(type_)),
        ItemEnum::AssocConst { type_, value } => {
            ("const", format!("{}{}", writer.ty(type_), if value.is_some() { " = .." } else { "" }))
        }
        ItemEnum::AssocType { generics, bounds, type_ } => {
            let parameters = writer.parameters(&generics.params);
            let default = type_.as_ref().map(|ty| format!(" = {}", writer.ty(ty))).unwrap_or_default();
            ("type", format!("{parameters}{}{default}", writer.bounded(bounds)))
        }
        ItemEnum::Static(it) => ("static", writer.ty(&it.type_)),
        ItemEnum::ProcMacro(it) => match it.kind {
            MacroKind::Bang => ("macro", String::new()),
            MacroKind::Attr => ("attribute", String::new()),
            MacroKind::Derive => ("derive", String::new()),
        },
        ItemEnum::Macro(_) => ("macro", String::new()),
        _ => ("other", String::new()),
    }
}

/// Returns the fields, variants or trait items of an item.
fn members(item: &Item) -> Vec<Id> {
    match &item.inner {
        ItemEnum::Struct(it) => match &it.kind {
            StructKind::Unit => Vec::new(),
            StructKind::Tuple(fields) => fields.iter().flatten().copied().collect(),
            StructKind::Plain { fields, .. } => fields.clone(),
        },
        ItemEnum::Union(it) => it.fields.clone(),
        ItemEnum::Enum(it) => it.variants.clone(),
        ItemEnum::Variant(it) => match &it.kind {
            VariantKind::Plain => Vec::new(),
            VariantKind::Tuple(fields) => fields.iter().flatten().copied().collect(),
            VariantKind::Struct { fields, .. } => fields.clone(),
        },
        ItemEnum::Trait(it) => it.items.clone(),
        _ => Vec::new(),
    }
}

/// Returns the type that an implementation is for. For `&T`, it is `T`.
fn target_of(item: &Impl) -> Option<Id> {
    let mut ty = &item.for_;
    while let Type::BorrowedRef { type_, .. } = ty {
        ty = type_;
    }
    match ty {
        Type::ResolvedPath(path) => Some(path.id),
        _ => None,
    }
}

fn has_attribute(item: &Item, text: &str) -> bool {
    item.attrs.iter().any(|it| matches!(it, Attribute::Other(it) if it == text))
}

fn aliases(item: &Item) -> BTreeSet<String> {
    let attributes = item.attrs.iter().filter_map(|it| match it {
        Attribute::Other(text) => text.strip_prefix("#[doc(alias"),
        _ => None,
    });
    attributes.flat_map(|text| text.split('"').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use rustdoc_types::Crate;
    use serde_json::{Value, json};

    use super::*;

    fn item(id: u32, name: &str, inner: &Value) -> (String, Value) {
        let item = json!({
            "id": id, "crate_id": 0, "name": name, "span": null, "visibility": "public", "docs": null, "links": {},
            "attrs": [], "deprecation": null, "inner": inner,
        });
        (id.to_string(), item)
    }

    fn import(id: u32, name: &str, target: u32, attribute: &str) -> (String, Value) {
        let mut item = item(id, "", &json!({"use": {"source": "", "name": name, "id": target, "is_glob": false}}));
        item.1["attrs"] = json!([{"other": attribute}]);
        item
    }

    fn module(items: &[u32]) -> Value {
        json!({"module": {"is_crate": false, "items": items, "is_stripped": false}})
    }

    /// Creates a crate of `items`, the first of which is its root, with `paths`: id, number of the crate, path, kind.
    fn described(items: Vec<(String, Value)>, paths: &[(u32, u32, &str, &str)]) -> Crate {
        let path = |(id, krate, path, kind): &(u32, u32, &str, &str)| {
            let path: Vec<_> = path.split("::").collect();
            (id.to_string(), json!({"crate_id": krate, "path": path, "kind": kind}))
        };
        let paths: serde_json::Map<_, _> = paths.iter().map(path).collect();
        let root = items[0].1["id"].clone();
        let index: serde_json::Map<_, _> = items.into_iter().collect();
        let target = json!({"triple": "", "target_features": []});
        let described = json!({
            "root": root, "crate_version": null, "includes_private": false, "index": index, "paths": paths,
            "external_crates": {}, "target": target, "format_version": rustdoc_types::FORMAT_VERSION,
        });
        serde_json::from_value(described).unwrap()
    }

    /// Creates a façade that exports a type of another crate twice, and a hidden one.
    fn docs() -> Docs {
        let generics = json!({"params": [], "where_predicates": []});
        let facade = described(
            vec![
                item(0, "front", &module(&[1, 2, 5])),
                import(1, "Thing", 9, ""),
                item(2, "a", &module(&[3, 4])),
                import(3, "Thing", 9, "#[doc(no_inline)]"),
                import(4, "HeaderMap", 8, ""),
                import(5, "Hidden", 7, ""),
            ],
            &[
                (0, 0, "front", "module"),
                (7, 1, "back::Hidden", "struct"),
                (8, 2, "http::header::HeaderMap", "struct"),
                (9, 1, "back::private::Thing", "struct"),
            ],
        );
        let method = json!({"function": {
            "sig": {
                "inputs": [["self", {"borrowed_ref": {"lifetime": null, "is_mutable": false, "type": {"generic": "Self"}}}]],
                "output": {"resolved_path": {"path": "HeaderMap", "id": 7, "args": null}}, "is_c_variadic": false,
            },
            "generics": generics, "has_body": true,
            "header": {"is_const": false, "is_unsafe": false, "is_async": true, "abi": "Rust"},
        }});
        let implementation = |of: Value, items: &[u32]| {
            json!({"impl": {
                "is_unsafe": false, "generics": generics, "provided_trait_methods": [], "trait": of, "items": items,
                "for": {"resolved_path": {"path": "Thing", "id": 1, "args": null}}, "is_negative": false,
                "is_synthetic": false, "blanket_impl": null,
            }})
        };
        let thing = json!({"struct": {
            "kind": {"plain": {"fields": [5], "has_stripped_fields": true}}, "generics": generics, "impls": [2, 4],
        }});
        let back = described(
            vec![
                item(0, "back", &module(&[])),
                item(1, "Thing", &thing),
                item(2, "", &implementation(Value::Null, &[3])),
                item(3, "headers", &method),
                item(4, "", &implementation(json!({"path": "Clone", "id": 8, "args": null}), &[])),
                item(5, "count", &json!({"struct_field": {"primitive": "u32"}})),
            ],
            &[
                (0, 0, "back", "module"),
                (1, 0, "back::private::Thing", "struct"),
                (7, 3, "http::header::HeaderMap", "struct"),
                (8, 4, "core::clone::Clone", "trait"),
            ],
        );
        Docs::new(vec![facade, back])
    }

    #[test]
    fn an_item_is_described_at_its_preferred_path_with_its_members() {
        let lines: Vec<_> = entries(&docs()).iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "front mod",
                "front::Thing impl Clone",
                "front::Thing struct { .. }",
                "front::Thing::count field u32",
                "front::Thing::headers fn async (&self) -> http::HeaderMap",
                "front::a mod",
                "front::a::HeaderMap use http::HeaderMap",
                "front::a::Thing use front::Thing",
            ]
        );
    }
}
