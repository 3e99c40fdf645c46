//! What a JSON Schema says about one value: what to call its type, which values there are, and what typed text means.

use serde_json::{Map, Value};

/// One property of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Property<'a> {
    pub(crate) name: &'a str,
    pub(crate) required: bool,
    schema: &'a Value,
    /// The whole, which references point into.
    root: &'a Value,
}

/// The properties of an object, as they stand in its schema.
pub(crate) fn properties(root: &Value) -> Vec<Property<'_>> {
    let required: Vec<&str> = root["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = root["properties"].as_object().into_iter().flatten();
    let property = |(name, schema)| Property { name, required: required.contains(&name), schema, root };
    properties.map(|(name, schema)| (name.as_str(), schema)).map(property).collect()
}

/// The property of this name, if the schema has it.
pub(crate) fn property<'a>(root: &'a Value, name: &str) -> Option<Property<'a>> {
    properties(root).into_iter().find(|property| property.name == name)
}

impl<'a> Property<'a> {
    pub(crate) fn description(&self) -> Option<&'a str> {
        let own = |schema: &'a Value| schema["description"].as_str().or_else(|| schema["title"].as_str());
        own(self.schema).or_else(|| own(self.resolved()))
    }

    pub(crate) fn default(&self) -> Option<&'a Value> {
        self.schema.get("default").or_else(|| self.resolved().get("default")).filter(|value| !value.is_null())
    }

    /// The texts that it may be, if there are only so many.
    pub(crate) fn choices(&self) -> Vec<&'a str> {
        let schema = self.resolved();
        // Lists of choices are typed as their items.
        let schema = if schema["items"].is_object() { &schema["items"] } else { schema };
        let listed = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let titled = ["oneOf", "anyOf"]
            .into_iter()
            .filter_map(|name| schema[name].as_array())
            .flatten()
            .flat_map(|choice| choice["const"].as_str().into_iter().chain(self.named(choice)));
        listed.chain(titled).collect()
    }

    /// The texts of one alternative.
    fn named(&self, choice: &'a Value) -> impl Iterator<Item = &'a str> + use<'a> {
        follow(choice, self.root)["enum"].as_array().into_iter().flatten().filter_map(Value::as_str)
    }

    pub(crate) fn is_list(&self) -> bool {
        self.types() == ["array"]
    }

    /// Its type in a word or two: `number`, `"a"|"b"`, `string|null`.
    pub(crate) fn kind(&self) -> String {
        let choices = self.choices();
        if (1..=6).contains(&choices.len()) && !self.is_list() {
            return choices.iter().map(|choice| format!("{choice:?}")).collect::<Vec<_>>().join("|");
        }
        let types: Vec<&str> = self.types().into_iter().filter(|kind| *kind != "null").collect();
        if types.is_empty() { "any".to_owned() } else { types.join("|") }
    }

    /// What typed text means as a value of this type.
    ///
    /// # Errors
    /// What was expected, in words.
    pub(crate) fn value_of(&self, text: &str) -> Result<Value, String> {
        let types = self.types();
        let choices = self.choices();
        if self.is_list() && !text.trim_start().starts_with('[') {
            return self.list_of(text, &choices);
        }
        if types == ["string"] || (types.is_empty() && !choices.is_empty()) {
            return one_of(text, &choices).map(Value::from);
        }
        let parsed = serde_json::from_str::<Value>(text).ok();
        match parsed {
            Some(value) if types.is_empty() || types.iter().any(|kind| is_of(&value, kind)) => Ok(value),
            _ if types.is_empty() => Ok(Value::from(text)),
            _ if types.contains(&"string") => one_of(text, &choices).map(Value::from),
            _ => Err(format!("expected {}, found {text:?}", expected(&types))),
        }
    }

    /// Lists of texts are typed with commas between them.
    fn list_of(&self, text: &str, choices: &[&str]) -> Result<Value, String> {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        let item = Property { name: self.name, required: true, schema: &self.resolved()["items"], root: self.root };
        let value =
            |text| if choices.is_empty() { item.value_of(text) } else { one_of(text, choices).map(Value::from) };
        items.map(value).collect::<Result<Vec<_>, _>>().map(Value::from)
    }

    fn types(&self) -> Vec<&'a str> {
        types_of(self.schema, self.root, 0)
    }

    fn resolved(&self) -> &'a Value {
        follow(self.schema, self.root)
    }
}

/// What is not given, but has to be.
pub(crate) fn missing<'a>(root: &'a Value, given: &Map<String, Value>) -> Vec<Property<'a>> {
    properties(root).into_iter().filter(|property| property.required && !given.contains_key(property.name)).collect()
}

/// How deep references and alternatives are followed. Schemas come from servers, and may go in circles.
const DEPTH: usize = 8;

fn types_of<'a>(schema: &'a Value, root: &'a Value, depth: usize) -> Vec<&'a str> {
    let schema = follow(schema, root);
    let mut types: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ if schema.get("const").is_some_and(Value::is_string) => vec!["string"],
        _ => Vec::new(),
    };
    if types.is_empty() && depth < DEPTH {
        let alternatives = ["anyOf", "oneOf"].into_iter().filter_map(|name| schema[name].as_array()).flatten();
        types = alternatives.flat_map(|schema| types_of(schema, root, depth + 1)).collect();
        types.dedup();
    }
    types
}

/// Where references within the schema lead.
fn follow<'a>(mut schema: &'a Value, root: &'a Value) -> &'a Value {
    for _ in 0..DEPTH {
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

fn is_of(value: &Value, kind: &str) -> bool {
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
    // What may be null may be left out, which is what people do.
    let told = types.iter().filter(|kind| **kind != "null" || types.len() == 1);
    told.map(word).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(schema: &Value, text: &str) -> Result<Value, String> {
        let root = json!({ "properties": { "it": schema }, "$defs": { "colour": { "enum": ["red", "blue"] } } });
        property(&root, "it").unwrap().value_of(text)
    }

    #[test]
    fn typed_text_means_what_the_schema_says() {
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
    fn what_does_not_fit_says_what_would() {
        assert_eq!(value(&json!({ "type": "number" }), "x").unwrap_err(), "expected a number, found \"x\"");
        assert_eq!(value(&json!({ "type": "integer" }), "1.5").unwrap_err(), "expected a whole number, found \"1.5\"");
        let error = value(&json!({ "type": ["integer", "null"] }), "x").unwrap_err();
        assert_eq!(error, "expected a whole number, found \"x\"");
        let error = value(&json!({ "$ref": "#/$defs/colour" }), "green").unwrap_err();
        assert_eq!(error, "expected one of \"red\", \"blue\", found \"green\"");
    }

    #[test]
    fn a_schema_in_circles_is_left_alone() {
        let root = json!({
            "properties": { "it": { "$ref": "#/properties/it" }, "all": { "anyOf": [{ "$ref": "#/properties/all" }] } }
        });
        for property in properties(&root) {
            assert_eq!(property.kind(), "any");
            assert_eq!(property.value_of("x"), Ok(json!("x")));
        }
    }

    #[test]
    fn what_is_missing_is_what_is_required_and_not_given() {
        let root = json!({ "properties": { "a": {}, "b": {}, "c": {} }, "required": ["a", "b"] });
        let given = Map::from_iter([("a".to_owned(), json!(1))]);
        let names: Vec<_> = missing(&root, &given).into_iter().map(|property| property.name).collect();
        assert_eq!(names, ["b"]);
        assert_eq!(properties(&json!("none")).len(), 0);
    }
}
