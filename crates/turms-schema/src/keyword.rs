//! Keywords of JSON Schema: their dialects and types.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// A dialect of JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Draft {
    Four,
    Six,
    Seven,
    Of2019,
    Of2020,
}

impl Draft {
    /// Returns the dialect that `$schema` names.
    pub(crate) fn of_uri(uri: &str) -> Option<Self> {
        let name = uri.trim_end_matches('#');
        let name = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://"))?;
        Some(match name.strip_prefix("json-schema.org/")? {
            "draft-04/schema" => Self::Four,
            "draft-06/schema" => Self::Six,
            "draft-07/schema" => Self::Seven,
            "draft/2019-09/schema" => Self::Of2019,
            "draft/2020-12/schema" | "schema" => Self::Of2020,
            _ => return None,
        })
    }

    /// Returns the keyword for identifiers.
    pub(crate) fn id(self) -> &'static str {
        if self == Self::Four { "id" } else { "$id" }
    }

    /// Returns `true` if a reference replaces its whole schema.
    pub(crate) fn reference_stands_alone(self) -> bool {
        self < Self::Of2019
    }
}

/// Type of the value of a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Schema,
    Schemas,
    /// Schemas by name.
    SchemaMap,
    /// Schemas by pattern.
    PatternMap,
    SchemaOrSchemas,
    /// Schemas or lists of names, by name.
    Dependencies,
    NamesByName,
    Names,
    Type,
    Text,
    Pattern,
    Flag,
    Number,
    Positive,
    Count,
    List,
    Anchor,
    Any,
}

/// Returns the type of a keyword in a dialect; `None` if the dialect does not define it.
pub(crate) fn shape_of(draft: Draft, keyword: &str) -> Option<Shape> {
    use Draft::{Four, Of2019, Of2020, Seven, Six};
    let (since, until, shape) = match keyword {
        "properties" | "definitions" => (Four, Of2020, Shape::SchemaMap),
        "$defs" | "dependentSchemas" => (Of2019, Of2020, Shape::SchemaMap),
        "patternProperties" => (Four, Of2020, Shape::PatternMap),
        "additionalProperties" | "not" => (Four, Of2020, Shape::Schema),
        "additionalItems" => (Four, Of2019, Shape::Schema),
        "contains" | "propertyNames" => (Six, Of2020, Shape::Schema),
        "if" | "then" | "else" => (Seven, Of2020, Shape::Schema),
        "unevaluatedItems" | "unevaluatedProperties" | "contentSchema" => (Of2019, Of2020, Shape::Schema),
        "items" if draft < Of2020 => (Four, Of2019, Shape::SchemaOrSchemas),
        "items" => (Of2020, Of2020, Shape::Schema),
        "allOf" | "anyOf" | "oneOf" => (Four, Of2020, Shape::Schemas),
        "prefixItems" => (Of2020, Of2020, Shape::Schemas),
        "dependencies" => (Four, Of2020, Shape::Dependencies),
        "dependentRequired" => (Of2019, Of2020, Shape::NamesByName),
        "required" => (Four, Of2020, Shape::Names),
        "type" => (Four, Of2020, Shape::Type),
        "$schema" | "$ref" | "title" | "description" | "format" => (Four, Of2020, Shape::Text),
        "id" => (Four, Four, Shape::Text),
        "$id" => (Six, Of2020, Shape::Text),
        "$comment" => (Seven, Of2020, Shape::Text),
        "contentEncoding" | "contentMediaType" => (Six, Of2020, Shape::Text),
        "$recursiveRef" => (Of2019, Of2019, Shape::Text),
        "$dynamicRef" => (Of2020, Of2020, Shape::Text),
        "$anchor" => (Of2019, Of2020, Shape::Anchor),
        "$dynamicAnchor" => (Of2020, Of2020, Shape::Anchor),
        "$recursiveAnchor" => (Of2019, Of2019, Shape::Flag),
        "pattern" => (Four, Of2020, Shape::Pattern),
        "uniqueItems" => (Four, Of2020, Shape::Flag),
        "readOnly" | "writeOnly" => (Seven, Of2020, Shape::Flag),
        "deprecated" => (Of2019, Of2020, Shape::Flag),
        "exclusiveMinimum" | "exclusiveMaximum" if draft == Four => (Four, Four, Shape::Flag),
        "minimum" | "maximum" => (Four, Of2020, Shape::Number),
        "exclusiveMinimum" | "exclusiveMaximum" => (Six, Of2020, Shape::Number),
        "multipleOf" => (Four, Of2020, Shape::Positive),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            (Four, Of2020, Shape::Count)
        }
        "minContains" | "maxContains" => (Of2019, Of2020, Shape::Count),
        "enum" => (Four, Of2020, Shape::List),
        "examples" => (Six, Of2020, Shape::List),
        "const" => (Six, Of2020, Shape::Any),
        _ => return None,
    };
    (since..=until).contains(&draft).then_some(shape)
}

impl Shape {
    /// Returns the problem of a value that does not have this type. Nested schemas are not checked.
    pub(crate) fn problem(self, value: &Value) -> Option<String> {
        let expected = match self {
            Self::Schema if !is_schema(value) => "a schema (an object, true or false)",
            Self::Schemas if value.as_array().is_none_or(Vec::is_empty) => "a list of schemas",
            Self::SchemaOrSchemas if !is_schema(value) && !value.is_array() => "a schema or a list of schemas",
            Self::SchemaMap | Self::PatternMap | Self::Dependencies | Self::NamesByName if !value.is_object() => {
                "an object"
            }
            Self::NamesByName if !members(value).all(|(_, names)| are_names(names)) => "lists of unique strings",
            Self::Dependencies if !members(value).all(|(_, value)| is_schema(value) || are_names(value)) => {
                "schemas or lists of unique strings"
            }
            Self::Names if !are_names(value) => "a list of unique strings",
            Self::Type if !is_type(value) => {
                "one or several of \"array\", \"boolean\", \"integer\", \"null\", \"number\", \"object\", \"string\""
            }
            Self::Text | Self::Pattern if !value.is_string() => "a string",
            Self::Flag if !value.is_boolean() => "true or false",
            Self::Number if !value.is_number() => "a number",
            Self::Positive if !value.as_f64().is_some_and(|number| number > 0.0) => "a number above 0",
            Self::Count if count(value).is_none() => "a non-negative integer",
            Self::List if !value.is_array() => "a list",
            Self::Anchor if !value.as_str().is_some_and(is_anchor) => "a name",
            _ => return None,
        };
        Some(format!("should be {expected}, not {}", super::explain::shortened(&value.to_string())))
    }
}

fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

fn are_names(value: &Value) -> bool {
    let Value::Array(list) = value else { return false };
    let names: HashSet<&str> = list.iter().filter_map(Value::as_str).collect();
    names.len() == list.len()
}

fn is_type(value: &Value) -> bool {
    let is_one = |value: &Value| {
        let types = ["array", "boolean", "integer", "null", "number", "object", "string"];
        value.as_str().is_some_and(|name| types.contains(&name))
    };
    match value {
        Value::Array(types) => !types.is_empty() && types.iter().all(is_one) && are_names(value),
        value => is_one(value),
    }
}

fn is_anchor(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

/// Returns a non-negative integer, which may be written as `2.0`. Larger values saturate.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was looked at before")]
pub(crate) fn count(value: &Value) -> Option<u64> {
    match value.as_u64() {
        Some(count) => Some(count),
        None => value.as_f64().filter(|float| *float >= 0.0 && float.fract() == 0.0).map(|float| float as u64),
    }
}
