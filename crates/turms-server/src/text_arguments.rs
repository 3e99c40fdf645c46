//! The schema of arguments that are all texts: those of prompts, and the variables of URIs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use turms_proto::{Object, RawJson};

use crate::handler::{Call, Input, Rejection};
use crate::schema::{Schema, SchemaError};

/// What is checked before a handler of texts runs: the constraints in the schema of the type that it takes.
#[derive(Debug)]
pub(crate) struct TextArguments {
    schema: Schema,
    /// The arguments that are no texts in the handler's type: numbers and truth values, which decoding reads out of the texts.
    others: BTreeSet<String>,
}

impl TextArguments {
    /// Compiles the schema of a handler's type; nothing if decoding checks all that it demands.
    ///
    /// # Errors
    /// If it cannot be used, because of a constraint that is not valid.
    pub(crate) fn of_type(schema: &Value) -> Result<Option<Self>, SchemaError> {
        let properties = schema["properties"].as_object().into_iter().flatten();
        let others = properties.filter(|(_, property)| !admits_text(property, schema, 0));
        let others = others.map(|(name, _)| name.clone()).collect();
        let schema = Schema::of_type(schema)?;
        Ok((!schema.is_kept_by_decoding()).then_some(Self { schema, others }))
    }

    /// Checks the arguments of a call against the schema.
    ///
    /// # Errors
    /// If they violate it.
    pub(crate) async fn check(&self, call: &Call) -> Result<(), Rejection> {
        let Input::Texts(texts) = &call.input else { return Ok(()) };
        let max_steps = call.context.server().max_validation_steps();
        Ok(self.schema.check(&self.typed(texts).into(), "arguments", max_steps).await?)
    }

    /// The arguments as the schema describes them. What is no text there, and does not say anything else, stays a text.
    fn typed(&self, texts: &BTreeMap<String, String>) -> Object {
        let typed = |(name, text): (&String, &String)| {
            let other = self.others.contains(name).then(|| other_than_text(text.trim())).flatten();
            (name.clone(), other.unwrap_or_else(|| RawJson::string(text)))
        };
        texts.iter().map(typed).collect()
    }
}

/// Returns the value that a text stands for where no text is valid: its JSON, or a number as decoding reads it, which JSON does not
/// allow to begin with a plus sign or a zero.
fn other_than_text(text: &str) -> Option<RawJson> {
    if let Ok(value) = RawJson::parse(text.to_owned()) {
        return Some(value).filter(|value| !value.as_str().starts_with('"'));
    }
    let number = text.parse::<u64>().map(Value::from).or_else(|_| text.parse::<i64>().map(Value::from));
    // A number that is not finite becomes `null` here, and is no number in a schema.
    let number = number.or_else(|_| text.parse::<f64>().map(Value::from)).ok().filter(Value::is_number);
    number.map(RawJson::from)
}

/// Returns `true` if a text may be valid under a schema.
fn admits_text(schema: &Value, root: &Value, depth: usize) -> bool {
    /// Deeper references than this are those of a schema that refers to itself.
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
        let others = ["flag", "number"].map(str::to_owned).into();
        let arguments = TextArguments { schema: Schema::empty(), others };
        let properties = schema["properties"].as_object().unwrap();
        let found = properties.iter().filter(|(_, property)| !admits_text(property, &schema, 0));
        assert_eq!(found.map(|(name, _)| name.clone()).collect::<BTreeSet<_>>(), arguments.others);
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
