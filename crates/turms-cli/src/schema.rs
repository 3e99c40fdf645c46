//! Properties of a JSON Schema: their types, allowed values, and conversion from text.

use serde_json::{Map, Value};

/// A property of an object schema.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SchemaProperty<'a> {
    pub(crate) name: &'a str,
    pub(crate) required: bool,
    schema: &'a Value,
    /// The whole schema, for references.
    root: &'a Value,
}

/// Returns the properties of an object schema, in order.
pub(crate) fn properties(root: &Value) -> Vec<SchemaProperty<'_>> {
    let required: Vec<&str> = root["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = root["properties"].as_object().into_iter().flatten();
    let property = |(name, schema)| SchemaProperty { name, required: required.contains(&name), schema, root };
    properties.map(|(name, schema)| (name.as_str(), schema)).map(property).collect()
}

/// Returns the property of this name.
pub(crate) fn property<'a>(root: &'a Value, name: &str) -> Option<SchemaProperty<'a>> {
    properties(root).into_iter().find(|property| property.name == name)
}

impl<'a> SchemaProperty<'a> {
    pub(crate) fn description(&self) -> Option<&'a str> {
        let text = |schema: &'a Value| schema["description"].as_str().or_else(|| schema["title"].as_str());
        text(self.schema).or_else(|| text(self.resolved()))
    }

    pub(crate) fn default(&self) -> Option<&'a Value> {
        self.schema.get("default").or_else(|| self.resolved().get("default")).filter(|value| !value.is_null())
    }

    /// Returns the allowed strings; empty if any is allowed.
    pub(crate) fn choices(&self) -> Vec<&'a str> {
        let schema = self.resolved();
        // A list is entered as its items, so it has their choices.
        let schema = if schema["items"].is_object() { &schema["items"] } else { schema };
        let listed = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let titled = ["oneOf", "anyOf"]
            .into_iter()
            .filter_map(|name| schema[name].as_array())
            .flatten()
            .flat_map(|choice| choice["const"].as_str().into_iter().chain(self.choice_values(choice)));
        listed.chain(titled).collect()
    }

    /// Returns the strings that one alternative allows.
    fn choice_values(&self, choice: &'a Value) -> impl Iterator<Item = &'a str> + use<'a> {
        resolve_refs(choice, self.root)["enum"].as_array().into_iter().flatten().filter_map(Value::as_str)
    }

    pub(crate) fn is_list(&self) -> bool {
        self.types() == ["array"]
    }

    /// Returns a short name of the type: `number`, `"a"|"b"`, `string|integer`.
    pub(crate) fn kind(&self) -> String {
        let choices = self.choices();
        if (1..=6).contains(&choices.len()) && !self.is_list() {
            return choices.iter().map(|choice| format!("{choice:?}")).collect::<Vec<_>>().join("|");
        }
        let types: Vec<&str> = self.types().into_iter().filter(|kind| *kind != "null").collect();
        if types.is_empty() { "any".to_owned() } else { types.join("|") }
    }

    /// Converts text to a value of this type.
    ///
    /// # Errors
    /// A message with the expected type.
    pub(crate) fn parse_value(&self, text: &str) -> Result<Value, String> {
        let types = self.types();
        let choices = self.choices();
        if self.is_list() && !text.trim_start().starts_with('[') {
            return self.parse_list(text, &choices);
        }
        if types == ["string"] || (types.is_empty() && !choices.is_empty()) {
            return one_of(text, &choices).map(Value::from);
        }
        let parsed = serde_json::from_str::<Value>(text).ok();
        match parsed {
            Some(value) if types.is_empty() || types.iter().any(|kind| has_type(&value, kind)) => Ok(value),
            _ if types.is_empty() => Ok(Value::from(text)),
            _ if types.contains(&"string") => one_of(text, &choices).map(Value::from),
            _ => Err(format!("expected {}, found {text:?}", expected(&types))),
        }
    }

    /// Converts a comma-separated list.
    fn parse_list(&self, text: &str, choices: &[&str]) -> Result<Value, String> {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        let item =
            SchemaProperty { name: self.name, required: true, schema: &self.resolved()["items"], root: self.root };
        let value =
            |text| if choices.is_empty() { item.parse_value(text) } else { one_of(text, choices).map(Value::from) };
        items.map(value).collect::<Result<Vec<_>, _>>().map(Value::from)
    }

    fn types(&self) -> Vec<&'a str> {
        let mut remaining = MAX_ALTERNATIVES;
        types_of(self.schema, self.root, &mut remaining)
    }

    fn resolved(&self) -> &'a Value {
        resolve_refs(self.schema, self.root)
    }
}

/// Returns the required properties that are not given.
pub(crate) fn missing<'a>(root: &'a Value, given: &Map<String, Value>) -> Vec<SchemaProperty<'a>> {
    properties(root).into_iter().filter(|property| property.required && !given.contains_key(property.name)).collect()
}

/// Maximum number of references that are followed in a row. Schemas of servers may have cycles.
const MAX_REFS: usize = 8;

/// Maximum number of alternatives that are searched for the types of a property. They may contain each other by references, so a small
/// schema can have any number of them.
const MAX_ALTERNATIVES: usize = 256;

/// Returns the types that a schema or its alternatives name. `remaining` is the number of schemas that may still be searched.
fn types_of<'a>(schema: &'a Value, root: &'a Value, remaining: &mut usize) -> Vec<&'a str> {
    let Some(fewer) = remaining.checked_sub(1) else { return Vec::new() };
    *remaining = fewer;
    let schema = resolve_refs(schema, root);
    let mut types: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ if schema.get("const").is_some_and(Value::is_string) => vec!["string"],
        _ => Vec::new(),
    };
    if types.is_empty() {
        let alternatives = ["anyOf", "oneOf"].into_iter().filter_map(|name| schema[name].as_array()).flatten();
        types = alternatives.flat_map(|schema| types_of(schema, root, remaining)).collect();
        types.dedup();
    }
    types
}

/// Resolves references within the schema.
fn resolve_refs<'a>(mut schema: &'a Value, root: &'a Value) -> &'a Value {
    for _ in 0..MAX_REFS {
        let target = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
        match target.and_then(|pointer| root.pointer(pointer)) {
            Some(found) => schema = found,
            None => break,
        }
    }
    schema
}

fn one_of<'t>(text: &'t str, choices: &[&str]) -> Result<&'t str, String> {
    if choices.is_empty() || choices.contains(&text) {
        return Ok(text);
    }
    let choices: Vec<String> = choices.iter().map(|choice| format!("{choice:?}")).collect();
    Err(format!("expected one of {}, found {text:?}", choices.join(", ")))
}

fn has_type(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

fn expected(types: &[&str]) -> String {
    let word = |kind: &&str| match *kind {
        "null" => "null",
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        "array" => "a list",
        "object" => "a JSON object",
        _ => "text",
    };
    // `null` is not mentioned: the property can be omitted.
    let named = types.iter().filter(|kind| **kind != "null" || types.len() == 1);
    named.map(word).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(schema: &Value, text: &str) -> Result<Value, String> {
        let root = json!({ "properties": { "it": schema }, "$defs": { "colour": { "enum": ["red", "blue"] } } });
        property(&root, "it").unwrap().parse_value(text)
    }

    #[test]
    fn text_is_converted_by_the_schema() {
        for (schema, text, meaning) in [
            (json!({ "type": "string" }), "1", json!("1")),
            (json!({ "type": "number" }), "1.5", json!(1.5)),
            (json!({ "type": "integer" }), "2", json!(2)),
            (json!({ "type": "boolean" }), "true", json!(true)),
            (json!({ "type": ["string", "null"] }), "null", json!(null)),
            (json!({ "type": ["string", "null"] }), "text", json!("text")),
            (json!({ "anyOf": [{ "type": "integer" }, { "type": "null" }] }), "3", json!(3)),
            (json!({ "type": "object" }), r#"{"a":1}"#, json!({ "a": 1 })),
            (json!({ "type": "array", "items": { "type": "integer" } }), "1, 2", json!([1, 2])),
            (json!({ "type": "array" }), "[1,\"b\"]", json!([1, "b"])),
            (json!({ "$ref": "#/$defs/colour" }), "red", json!("red")),
            (json!({}), "1", json!(1)),
            (json!(true), "one", json!("one")),
        ] {
            assert_eq!(value(&schema, text), Ok(meaning), "{schema} {text}");
        }
    }

    #[test]
    fn errors_name_the_expected_type() {
        assert_eq!(value(&json!({ "type": "number" }), "x").unwrap_err(), "expected a number, found \"x\"");
        assert_eq!(value(&json!({ "type": "integer" }), "1.5").unwrap_err(), "expected a whole number, found \"1.5\"");
        let error = value(&json!({ "type": ["integer", "null"] }), "x").unwrap_err();
        assert_eq!(error, "expected a whole number, found \"x\"");
        let error = value(&json!({ "$ref": "#/$defs/colour" }), "green").unwrap_err();
        assert_eq!(error, "expected one of \"red\", \"blue\", found \"green\"");
    }

    #[test]
    fn a_cyclic_schema_accepts_anything() {
        let many = vec![json!({ "$ref": "#/properties/many" }); 50];
        let root = json!({
            "properties": {
                "it": { "$ref": "#/properties/it" },
                "all": { "anyOf": [{ "$ref": "#/properties/all" }] },
                "many": { "anyOf": many },
            }
        });
        for property in properties(&root) {
            assert_eq!(property.kind(), "any");
            assert_eq!(property.parse_value("x"), Ok(json!("x")));
        }
    }

    #[test]
    fn required_properties_that_are_not_given_are_missing() {
        let root = json!({ "properties": { "a": {}, "b": {}, "c": {} }, "required": ["a", "b"] });
        let given = Map::from_iter([("a".to_owned(), json!(1))]);
        let names: Vec<_> = missing(&root, &given).into_iter().map(|property| property.name).collect();
        assert_eq!(names, ["b"]);
        assert_eq!(properties(&json!("none")).len(), 0);
    }
}
