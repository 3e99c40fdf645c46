//! Validation of arguments that are sent as strings: prompt arguments and URI template variables.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use turms_proto::{Object, RawJson};

use crate::handler::{CallParts, Input, Rejection};
use crate::schema::{Schema, SchemaError};

/// Validates string arguments before a handler runs, against the schema of the type it takes.
#[derive(Debug)]
pub(crate) struct TextArguments {
    schema: Schema,
    /// Arguments that are not strings in the handler's type, such as numbers and booleans. Decoding parses them from
    /// strings.
    non_strings: BTreeSet<String>,
}

impl TextArguments {
    /// Compiles the schema of a handler's type. Returns `None` if decoding enforces the whole schema.
    ///
    /// # Errors
    /// If the schema has an invalid constraint.
    pub(crate) fn of_type(schema: &Value) -> Result<Option<Self>, SchemaError> {
        let properties = schema["properties"].as_object().into_iter().flatten();
        let non_strings = properties.filter(|(_, property)| !admits_text(property, schema, 0));
        let non_strings = non_strings.map(|(name, _)| name.clone()).collect();
        let schema = Schema::of_type(schema)?;
        Ok((!schema.is_enforced_by_decoding()).then_some(Self { schema, non_strings }))
    }

    /// Validates the arguments of a call.
    ///
    /// # Errors
    /// If the arguments violate the schema.
    pub(crate) async fn check(&self, call: &CallParts) -> Result<(), Rejection> {
        let Input::Texts(texts) = &call.input else { return Ok(()) };
        let max_steps = call.context.server().max_validation_steps();
        Ok(self.schema.check(&self.typed(texts).into(), "arguments", max_steps).await?)
    }

    /// Returns the arguments with the types of the schema. A string that cannot be converted stays a string.
    fn typed(&self, texts: &BTreeMap<String, String>) -> Object {
        let typed = |(name, text): (&String, &String)| {
            let parsed = self.non_strings.contains(name).then(|| parse_non_string(text.trim())).flatten();
            (name.clone(), parsed.unwrap_or_else(|| RawJson::string(text)))
        };
        texts.iter().map(typed).collect()
    }
}

/// Converts a string to the non-string value it represents: JSON, or a number in Rust's syntax, which unlike JSON
/// allows a leading plus sign or zero.
fn parse_non_string(text: &str) -> Option<RawJson> {
    if let Ok(value) = RawJson::parse(text.to_owned()) {
        return Some(value).filter(|value| !value.as_str().starts_with('"'));
    }
    let number = text.parse::<u64>().map(Value::from).or_else(|_| text.parse::<i64>().map(Value::from));
    // A number that is not finite becomes `null` here and is filtered out.
    let number = number.or_else(|_| text.parse::<f64>().map(Value::from)).ok().filter(Value::is_number);
    number.map(RawJson::from)
}

/// Returns `true` if a string may be valid under a schema.
fn admits_text(schema: &Value, root: &Value, depth: usize) -> bool {
    /// Maximum depth of references. Deeper references belong to a recursive schema.
    const MAX_DEPTH: usize = 16;
    let Value::Object(members) = schema else { return true };
    let admits = |schema: &Value| depth >= MAX_DEPTH || admits_text(schema, root, depth + 1);
    members.iter().all(|(keyword, value)| match (keyword.as_str(), value) {
        ("type", Value::Array(types)) => types.iter().any(|name| name == "string"),
        ("type", name) => name == "string",
        ("const", value) => value.is_string(),
        ("enum", Value::Array(values)) => values.iter().any(Value::is_string),
        ("anyOf" | "oneOf", Value::Array(schemas)) => schemas.iter().any(admits),
        ("allOf", Value::Array(schemas)) => schemas.iter().all(admits),
        ("$ref", Value::String(reference)) => {
            reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer)).is_none_or(admits)
        }
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_what_the_schema_describes() {
        let schema = json!({
            "type": "object",
            "properties": {
                "text": { "type": "string", "minLength": 1 },
                "any": true,
                "number": { "type": ["integer", "null"], "maximum": 5 },
                "flag": { "anyOf": [{ "$ref": "#/$defs/flag" }, { "type": "null" }] },
                "either": { "anyOf": [{ "type": "integer" }, { "type": "string" }] },
                "endless": { "$ref": "#/properties/endless" },
            },
            "$defs": { "flag": { "type": "boolean" } },
        });
        let non_strings = ["flag", "number"].map(str::to_owned).into();
        let arguments = TextArguments { schema: Schema::empty(), non_strings };
        let properties = schema["properties"].as_object().unwrap();
        let found = properties.iter().filter(|(_, property)| !admits_text(property, &schema, 0));
        assert_eq!(found.map(|(name, _)| name.clone()).collect::<BTreeSet<_>>(), arguments.non_strings);
        for (name, text, typed) in [
            ("text", "1", r#"{"text":"1"}"#),
            ("any", "true", r#"{"any":"true"}"#),
            ("number", " 1 ", r#"{"number":1}"#),
            ("number", "1x", r#"{"number":"1x"}"#),
            ("number", "+01", r#"{"number":1}"#),
            ("number", ".5", r#"{"number":0.5}"#),
            ("number", "inf", r#"{"number":"inf"}"#),
            ("number", "\"1\"", r#"{"number":"\"1\""}"#),
            ("flag", "true", r#"{"flag":true}"#),
            ("unknown", "1", r#"{"unknown":"1"}"#),
        ] {
            let texts = BTreeMap::from([(name.to_owned(), text.to_owned())]);
            assert_eq!(arguments.typed(&texts).as_str(), typed);
        }
    }
}
