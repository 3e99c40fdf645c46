//! JSON Schemas, compiled once. Nothing is ever fetched: a schema has to be complete in itself.

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
        self.0.iter_errors(&value).take(Self::MOST_VIOLATIONS).map(|error| describe(&error, root)).collect()
    }
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
    fn nothing_is_fetched() {
        assert!(validator(r#"{"$ref":"https://example.com/schema.json"}"#).is_err());
        assert!(validator(r#"{"$ref":"file:///etc/passwd"}"#).is_err());
    }
}
