//! An index of all targets of references in a schema. The types of keywords are checked while it is built.

use std::collections::HashMap;

use serde_json::Value;

use crate::keyword::{Draft, Shape, shape_of};
use crate::pattern::is_valid;
use crate::reference::{Pointer, resolve, tokens};
use crate::validator::SchemaError;

/// The resources and anchors of a document.
#[derive(Debug)]
pub(crate) struct RefIndex<'a> {
    resources: Vec<Resource<'a>>,
    by_uri: HashMap<String, ResourceId>,
    /// The resource that each schema belongs to.
    places: HashMap<*const Value, ResourceId>,
    /// Total length of all identifiers. A relative identifier counts with the length of its base.
    uri_bytes: usize,
    /// `true` to check the syntax of patterns. Compiling them does so anyway.
    checks_patterns: bool,
}

pub(crate) type ResourceId = u32;

/// A schema with an identifier, and its subschemas without one.
#[derive(Debug)]
pub(crate) struct Resource<'a> {
    pub(crate) draft: Draft,
    pub(crate) root: LocatedSchema<'a>,
    uri: String,
    anchors: HashMap<&'a str, LocatedSchema<'a>>,
    pub(crate) dynamic_anchors: HashMap<&'a str, LocatedSchema<'a>>,
    /// `true` if `$recursiveRef` may be redirected here.
    pub(crate) is_recursive: bool,
}

/// A schema in the document.
#[derive(Debug, Clone)]
pub(crate) struct LocatedSchema<'a> {
    pub(crate) value: &'a Value,
    pub(crate) resource: ResourceId,
    /// JSON pointer of the schema, for errors.
    pub(crate) pointer: Pointer<'a>,
}

/// Maximum nesting depth of schemas.
const MAX_NESTING: usize = 400;

/// Maximum total length of all identifiers in a schema.
const MAX_URI_BYTES: usize = 4 << 20;

impl<'a> RefIndex<'a> {
    /// Builds the index of a document.
    ///
    /// # Errors
    /// If a keyword has a value of the wrong type.
    pub(crate) fn new(document: &'a Value) -> Result<Self, SchemaError> {
        let mut index = Self::empty(false);
        let draft = draft_of(document)?.unwrap_or(Draft::Of2020);
        let root = LocatedSchema { value: document, resource: 0, pointer: Pointer::default() };
        index.begin_resource(root.clone(), String::new(), draft);
        index.visit_all(root)?;
        Ok(index)
    }

    /// Returns `true` if the value is a valid schema in this dialect.
    pub(crate) fn is_schema(value: &Value, draft: Draft) -> bool {
        let mut index = RefIndex::empty(true);
        let root = LocatedSchema { value, resource: 0, pointer: Pointer::default() };
        index.begin_resource(root.clone(), String::new(), draft);
        index.visit_all(root).is_ok()
    }

    fn empty(checks_patterns: bool) -> Self {
        Self { resources: Vec::new(), by_uri: HashMap::new(), places: HashMap::new(), uri_bytes: 0, checks_patterns }
    }

    pub(crate) fn resource(&self, id: ResourceId) -> &Resource<'a> {
        &self.resources[id as usize]
    }

    pub(crate) fn resources(&self) -> impl Iterator<Item = (ResourceId, &Resource<'a>)> {
        (0..).zip(&self.resources)
    }

    /// Creates a subschema.
    pub(crate) fn locate(
        &self,
        value: &'a Value,
        parent: &LocatedSchema<'a>,
        pointer: Pointer<'a>,
    ) -> LocatedSchema<'a> {
        let resource = self.places.get(&std::ptr::from_ref(value)).copied().unwrap_or(parent.resource);
        LocatedSchema { value, resource, pointer }
    }

    /// Returns the target of a reference in a schema.
    ///
    /// # Errors
    /// If the document has no such target.
    pub(crate) fn target(
        &mut self,
        reference: &str,
        from: &LocatedSchema<'a>,
    ) -> Result<LocatedSchema<'a>, SchemaError> {
        let (uri, fragment) = resolve(&self.resource(from.resource).uri, reference);
        let outside = || {
            SchemaError::at(&from.pointer, format!("{reference:?} is outside of the schema, and nothing is fetched"))
        };
        let nothing = || SchemaError::at(&from.pointer, format!("{reference:?} refers to nothing in the schema"));
        let id = *self.by_uri.get(uri.trim_end_matches('#')).ok_or_else(outside)?;
        if !fragment.is_empty() && !fragment.starts_with('/') {
            return self.resource(id).anchors.get(&*fragment).cloned().ok_or_else(nothing);
        }
        let mut located = self.resource(id).root.clone();
        for name in tokens(&fragment) {
            let value = match located.value {
                Value::Object(members) => members.get(&name),
                Value::Array(items) => name.parse().ok().and_then(|index: usize| items.get(index)),
                _ => None,
            };
            let pointer = located.pointer.join(name);
            located = self.locate(value.ok_or_else(nothing)?, &located, pointer);
        }
        // A location that no keyword leads to is not indexed yet.
        if !self.places.contains_key(&std::ptr::from_ref(located.value)) {
            self.visit_all(located.clone())?;
        }
        Ok(self.locate(located.value, &located, located.pointer.clone()))
    }

    /// Returns the anchor in a reference, if there is one.
    pub(crate) fn anchor_of(reference: &str) -> Option<&str> {
        let fragment = reference.split_once('#')?.1;
        (!fragment.is_empty() && !fragment.starts_with('/')).then_some(fragment)
    }

    fn begin_resource(&mut self, mut root: LocatedSchema<'a>, uri: String, draft: Draft) -> ResourceId {
        let id = ResourceId::try_from(self.resources.len()).unwrap_or(ResourceId::MAX);
        root.resource = id;
        self.by_uri.entry(uri.clone()).or_insert(id);
        let (anchors, dynamic_anchors) = (HashMap::new(), HashMap::new());
        self.resources.push(Resource { draft, root, uri, anchors, dynamic_anchors, is_recursive: false });
        id
    }

    fn visit_all(&mut self, first: LocatedSchema<'a>) -> Result<(), SchemaError> {
        let mut open = vec![(first, 0)];
        while let Some((located, depth)) = open.pop() {
            if depth > MAX_NESTING {
                return Err(SchemaError::too_large());
            }
            self.visit(located, |located| open.push((located, depth + 1)))?;
        }
        Ok(())
    }

    fn visit(
        &mut self,
        mut located: LocatedSchema<'a>,
        mut open: impl FnMut(LocatedSchema<'a>),
    ) -> Result<(), SchemaError> {
        let Value::Object(members) = located.value else {
            self.places.insert(located.value, located.resource);
            return match located.value {
                Value::Bool(_) => Ok(()),
                value => {
                    let shown = super::explain::shortened(&value.to_string()).into_owned();
                    let problem = format!("should be a schema (an object, true or false), not {shown}");
                    Err(SchemaError::at(&located.pointer, problem))
                }
            };
        };
        self.name(&mut located)?;
        self.places.insert(located.value, located.resource);
        let draft = self.resource(located.resource).draft;
        for (keyword, value) in members {
            let Some(shape) = shape_of(draft, keyword) else { continue };
            let pointer = located.pointer.join(keyword);
            if let Some(problem) = shape.problem(value) {
                return Err(SchemaError::at(&pointer, problem));
            }
            let patterns = match (shape, value) {
                (Shape::Pattern, Value::String(pattern)) => vec![pattern],
                (Shape::PatternMap, Value::Object(members)) => members.keys().collect(),
                _ => Vec::new(),
            };
            if self.checks_patterns && !patterns.iter().all(|pattern| is_valid(pattern)) {
                return Err(SchemaError::at(&pointer, "is not a valid regular expression"));
            }
            let bound = keyword.strip_prefix("exclusive").map(str::to_lowercase);
            if let Some(bound) = bound.filter(|bound| draft == Draft::Four && !members.contains_key(bound)) {
                return Err(SchemaError::at(&pointer, format!("{bound:?} is missing, which it is about")));
            }
            let child = |value: &'a Value, pointer| LocatedSchema { value, resource: located.resource, pointer };
            match (shape, value) {
                (Shape::Schema | Shape::SchemaOrSchemas, Value::Object(_) | Value::Bool(_)) => {
                    open(child(value, pointer))
                }
                (Shape::Schemas | Shape::SchemaOrSchemas, Value::Array(items)) => {
                    for (index, item) in items.iter().enumerate() {
                        open(child(item, pointer.join(index.to_string())));
                    }
                }
                (Shape::SchemaMap | Shape::PatternMap | Shape::Dependencies, Value::Object(members)) => {
                    for (name, schema) in members {
                        if shape != Shape::Dependencies || !schema.is_array() {
                            open(child(schema, pointer.join(name)));
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds the identifier and anchors of a schema to the index.
    fn name(&mut self, located: &mut LocatedSchema<'a>) -> Result<(), SchemaError> {
        let member = |name: &str| located.value.get(name).and_then(Value::as_str);
        let mut draft = self.resource(located.resource).draft;
        if let Some(other) = draft_of(located.value).map_err(|error| error.within(&located.pointer.to_string()))? {
            draft = other;
        }
        let stands_alone = draft.reference_stands_alone() && member("$ref").is_some();
        let id = member(draft.id()).filter(|_| !stands_alone);
        if let Some(id) = id {
            let (uri, fragment) = resolve(&self.resource(located.resource).uri, id);
            if located.pointer.is_root() || !id.starts_with('#') {
                self.uri_bytes += uri.len();
                if self.uri_bytes > MAX_URI_BYTES {
                    return Err(SchemaError::too_large());
                }
                located.resource = self.begin_resource(located.clone(), uri, draft);
            }
            if let Some(anchor) = id.split_once('#').map(|(_, anchor)| anchor).filter(|anchor| !anchor.is_empty()) {
                if !draft.reference_stands_alone() {
                    let problem = format!("{fragment:?} should be an anchor of its own");
                    return Err(SchemaError::at(located.pointer.join(draft.id()), problem));
                }
                self.resources[located.resource as usize].anchors.insert(anchor, located.clone());
            }
        }
        let anchor = member("$anchor").filter(|_| draft >= Draft::Of2019);
        let dynamic = member("$dynamicAnchor").filter(|_| draft >= Draft::Of2020);
        let resource = &mut self.resources[located.resource as usize];
        for name in anchor.into_iter().chain(dynamic) {
            resource.anchors.insert(name, located.clone());
        }
        if let Some(name) = dynamic {
            resource.dynamic_anchors.insert(name, located.clone());
        }
        if draft == Draft::Of2019 && std::ptr::eq(resource.root.value, located.value) {
            resource.is_recursive = located.value.get("$recursiveAnchor") == Some(&Value::Bool(true));
        }
        Ok(())
    }
}

/// Returns the dialect that a schema declares.
fn draft_of(schema: &Value) -> Result<Option<Draft>, SchemaError> {
    let Some(Value::String(uri)) = schema.get("$schema") else { return Ok(None) };
    let unknown = || SchemaError::at("/$schema", format!("unknown dialect {uri:?}"));
    Draft::of_uri(uri).map(Some).ok_or_else(unknown)
}
