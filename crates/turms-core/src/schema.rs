//! JSON Schemas, compiled once. Nothing is ever fetched: a schema has to be complete in itself.

use std::collections::HashMap;

use serde_json::Value;
use turms_proto::{Object, RawJson};

/// A JSON Schema that values can be held against. The dialect is what `$schema` says, 2020-12 without.
#[derive(Debug)]
pub struct Validator(Box<jsonschema::Validator>);

/// A schema that no validator can be made of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a usable JSON Schema: {0}")]
pub struct SchemaError(String);

impl Validator {
    /// Nobody mends more than a few faults at once.
    const MOST_VIOLATIONS: usize = 8;

    /// Compiles a schema.
    ///
    /// # Errors
    /// When it is not one, or refers to something outside itself.
    pub fn new(schema: &Object) -> Result<Self, SchemaError> {
        let value: Value = schema.decode().map_err(|error| SchemaError(error.to_string()))?;
        Self::of_value(&value)
    }

    /// As [`Validator::new`], of a schema that is at hand as a value.
    ///
    /// # Errors
    /// When it is not a schema, or refers to something outside itself.
    pub fn of_value(schema: &Value) -> Result<Self, SchemaError> {
        let weight = Weighing::new(schema).weigh(schema, 0)?;
        if weight > Weighing::HEAVIEST {
            return Err(too_heavy());
        }
        let validator = jsonschema::options().should_validate_formats(true).build(schema);
        validator.map(|validator| Self(Box::new(validator))).map_err(|error| SchemaError(error.to_string()))
    }

    /// What is wrong with a value, in words that a person or a model can act on; empty if nothing is. `root` is what to call
    /// the value as a whole.
    #[must_use]
    pub fn violations(&self, value: &RawJson, root: &str) -> Vec<String> {
        let value: Value = match value.decode() {
            Ok(value) => value,
            Err(error) => return vec![error.within(root).to_string()],
        };
        if self.0.is_valid(&value) {
            return Vec::new();
        }
        self.0.iter_errors(&value).take(Self::MOST_VIOLATIONS).map(|error| describe(&error, root)).collect()
    }
}

/// Finds out how much work a schema can make. Validating follows every reference anew, so that a few lines that refer to each
/// other can stand for more work than there is time, or for more depth than there is stack.
struct Weighing<'a> {
    root: &'a Value,
    /// Places by their `$anchor` or `$dynamicAnchor`, and by `$id`.
    named: HashMap<&'a str, &'a Value>,
    /// What is known: `None` while it is being found out, which a schema that holds itself comes back to.
    known: HashMap<*const Value, Option<u64>>,
}

impl<'a> Weighing<'a> {
    /// With every reference followed, in subschemas.
    const HEAVIEST: u64 = 200_000;

    /// With every reference followed, in levels.
    const DEEPEST: usize = 512;

    fn new(root: &'a Value) -> Self {
        let mut named = HashMap::new();
        let mut open = vec![root];
        while let Some(value) = open.pop() {
            match value {
                Value::Object(members) => {
                    for key in ["$anchor", "$dynamicAnchor", "$id", "id"] {
                        if let Some(Value::String(name)) = members.get(key) {
                            named.insert(name.trim_start_matches('#'), value);
                        }
                    }
                    open.extend(members.values());
                }
                Value::Array(items) => open.extend(items),
                _ => {}
            }
        }
        Self { root, named, known: HashMap::new() }
    }

    fn weigh(&mut self, value: &'a Value, depth: usize) -> Result<u64, SchemaError> {
        if depth > Self::DEEPEST {
            return Err(too_heavy());
        }
        let place: *const Value = value;
        match self.known.get(&place) {
            Some(Some(weight)) => return Ok(*weight),
            // How often a schema that holds itself is followed, the value decides that is held against it.
            Some(None) => return Ok(1),
            None => {}
        }
        self.known.insert(place, None);
        let mut weight: u64 = 1;
        match value {
            Value::Object(members) => {
                for (key, member) in members {
                    let target = match (key.as_str(), member) {
                        ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(target)) => self.target(target),
                        // Definitions weigh something where they are used.
                        ("$defs" | "definitions", _) => None,
                        _ => Some(member),
                    };
                    if let Some(part) = target {
                        weight = weight.saturating_add(self.weigh(part, depth + 1)?);
                    }
                }
            }
            Value::Array(items) => {
                for item in items {
                    weight = weight.saturating_add(self.weigh(item, depth + 1)?);
                }
            }
            _ => {}
        }
        self.known.insert(place, Some(weight));
        Ok(weight)
    }

    fn target(&self, reference: &str) -> Option<&'a Value> {
        let fragment = reference.rsplit_once('#').map_or("", |(_, fragment)| fragment);
        if fragment.is_empty() && reference.starts_with('#') {
            return Some(self.root);
        }
        let pointed = fragment.starts_with('/').then(|| self.root.pointer(fragment)).flatten();
        pointed.or_else(|| self.named.get(fragment).copied()).or_else(|| self.named.get(reference).copied())
    }
}

fn too_heavy() -> SchemaError {
    SchemaError("what it refers to makes it too large or too deep".to_owned())
}

fn describe(error: &jsonschema::ValidationError<'_>, root: &str) -> String {
    let mut place = root.to_owned();
    for segment in error.instance_path().as_str().split('/').skip(1) {
        let segment = segment.replace("~1", "/").replace("~0", "~");
        match segment.parse::<usize>() {
            Ok(index) => place.push_str(&format!("[{index}]")),
            Err(_) => {
                place.push('.');
                place.push_str(&segment);
            }
        }
    }
    format!("{place}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validator(text: &'static str) -> Result<Validator, SchemaError> {
        Validator::new(&Object::parse(text).unwrap())
    }

    #[test]
    fn the_dialect_is_what_the_schema_says() {
        // In draft 7 `items` may be a list; since 2020-12 that is `prefixItems`.
        let old = r#"{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}]}"#;
        let violations = validator(old).unwrap().violations(&RawJson::parse("[1]").unwrap(), "list");
        assert_eq!(violations, ["list[0]: 1 is not of type \"string\""]);
        let new = r#"{"prefixItems":[{"type":"string"}]}"#;
        assert_eq!(validator(new).unwrap().violations(&RawJson::parse("[1]").unwrap(), "list").len(), 1);
    }

    #[test]
    fn a_schema_that_stands_for_endless_work_is_refused() {
        let doubling = |last: &str| {
            let mut defs = serde_json::Map::new();
            for level in 0..40 {
                let next = serde_json::json!({ "$ref": format!("#/$defs/d{}", level + 1) });
                defs.insert(format!("d{level}"), serde_json::json!({ "allOf": [next, next] }));
            }
            defs.insert("d40".into(), serde_json::json!({ "type": last }));
            serde_json::json!({ "$ref": "#/$defs/d0", "$defs": defs })
        };
        let error = Validator::of_value(&doubling("string")).unwrap_err();
        assert_eq!(error.to_string(), "not a usable JSON Schema: what it refers to makes it too large or too deep");
        let mut chain = serde_json::Map::new();
        for level in 0..100_000 {
            chain.insert(format!("d{level}"), serde_json::json!({ "$ref": format!("#/$defs/d{}", level + 1) }));
        }
        assert!(Validator::of_value(&serde_json::json!({ "$ref": "#/$defs/d0", "$defs": chain })).is_err());
    }

    #[test]
    fn a_schema_that_holds_itself_is_as_good_as_any() {
        let tree = validator(
            r##"{"$defs":{"tree":{"type":"object","properties":{"sons":{"type":"array","items":{"$ref":"#/$defs/tree"}}}}},"$ref":"#/$defs/tree"}"##,
        );
        let tree = tree.unwrap();
        assert!(tree.violations(&RawJson::parse(r#"{"sons":[{"sons":[]}]}"#).unwrap(), "tree").is_empty());
        assert_eq!(tree.violations(&RawJson::parse(r#"{"sons":[1]}"#).unwrap(), "tree").len(), 1);
    }

    #[test]
    fn nothing_is_fetched() {
        assert!(validator(r#"{"$ref":"https://example.com/schema.json"}"#).is_err());
        assert!(validator(r#"{"$ref":"file:///etc/passwd"}"#).is_err());
    }
}
