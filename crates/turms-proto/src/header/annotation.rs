//! Collection of the `x-mcp-header` annotations in the input schema of a tool.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::param::{ParamHeader, ParamType};

/// Maximum nesting depth of a schema. The default limit of `serde_json` is not higher.
pub const MAX_SCHEMA_DEPTH: usize = 128;

/// Error for an invalid `x-mcp-header` annotation in the input schema of a tool.
///
/// An HTTP client omits the whole tool from its list and logs a warning with this message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderAnnotationError {
    /// The annotation is not a valid header name.
    #[error("{place:?} is not a non-empty string of letters, digits and any of \"!#$%&'*+-.^_`|~\"")]
    NotToken {
        /// A JSON pointer to the annotation.
        place: String,
    },
    /// Two annotations have the same header name.
    #[error("{place:?} names the same header as {first:?}, since case does not count")]
    Duplicate {
        /// A JSON pointer to the annotation.
        place: String,
        /// A JSON pointer to the first annotation.
        first: String,
    },
    /// The property has a type that cannot be mirrored in a header.
    #[error("{place:?} is on a property whose type is not exactly \"string\", \"integer\" or \"boolean\"")]
    Type {
        /// A JSON pointer to the annotation.
        place: String,
    },
    /// The annotation is not on a property, or not on one that is reached through `properties` alone.
    #[error("{place:?} is not on a property that can be reached from the root through \"properties\" alone")]
    Unreachable {
        /// A JSON pointer to the annotation.
        place: String,
    },
    /// The schema is nested too deeply.
    #[error("the schema is nested more than {MAX_SCHEMA_DEPTH} levels deep at {place:?}")]
    TooDeep {
        /// A JSON pointer to the first value beyond the limit.
        place: String,
    },
}

/// Returns all annotations of a schema, in schema order.
pub(super) fn collect(schema: &Value) -> Result<Vec<ParamHeader>, HeaderAnnotationError> {
    let mut search = Search::default();
    search.schema(schema, Reach::Root)?;
    Ok(search.found)
}

#[derive(Default)]
struct Search<'s> {
    /// Path from the root to the current value.
    path: Vec<Cow<'s, str>>,
    found: Vec<ParamHeader>,
    /// JSON pointers of the annotations, by lower-case header name.
    places: HashMap<String, String>,
}

/// Relation of a schema to the root.
#[derive(Clone, Copy)]
enum Reach {
    Root,
    /// Reached through `properties` alone: every second element of the path is a property name.
    Property,
    Elsewhere,
}

impl<'s> Search<'s> {
    /// Searches a schema, a list of schemas, or the value of an unknown keyword, which could be either.
    fn schema(&mut self, schema: &'s Value, reach: Reach) -> Result<(), HeaderAnnotationError> {
        match schema {
            Value::Object(keywords) => keywords.iter().try_for_each(|(keyword, value)| {
                self.within(keyword.into(), |search| search.keyword(keywords, keyword, value, reach))
            }),
            Value::Array(schemas) => schemas.iter().enumerate().try_for_each(|(i, schema)| {
                self.within(i.to_string().into(), |search| search.schema(schema, Reach::Elsewhere))
            }),
            _ => Ok(()),
        }
    }

    fn keyword(
        &mut self,
        owner: &Map<String, Value>,
        keyword: &str,
        value: &'s Value,
        reach: Reach,
    ) -> Result<(), HeaderAnnotationError> {
        match (keyword, reach) {
            ("x-mcp-header", _) => self.annotation(owner, value, reach),
            ("properties", Reach::Root | Reach::Property) => self.members(value, Reach::Property),
            ("properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies", _) => {
                self.members(value, Reach::Elsewhere)
            }
            // The values of these keywords are data, in which "x-mcp-header" is an ordinary member.
            ("const" | "enum" | "default" | "examples", _) => Ok(()),
            _ => self.schema(value, Reach::Elsewhere),
        }
    }

    /// Searches a map of schemas. A name has no meaning, even if it equals a keyword.
    fn members(&mut self, members: &'s Value, reach: Reach) -> Result<(), HeaderAnnotationError> {
        let Value::Object(members) = members else {
            return self.schema(members, Reach::Elsewhere);
        };
        members.iter().try_for_each(|(name, schema)| self.within(name.into(), |search| search.schema(schema, reach)))
    }

    fn annotation(
        &mut self,
        owner: &Map<String, Value>,
        annotation: &Value,
        reach: Reach,
    ) -> Result<(), HeaderAnnotationError> {
        let place = pointer(&self.path);
        if !matches!(reach, Reach::Property) {
            return Err(HeaderAnnotationError::Unreachable { place });
        }
        let Some(name) = annotation.as_str().filter(|name| is_token(name)) else {
            return Err(HeaderAnnotationError::NotToken { place });
        };
        let Some(kind) = owner.get("type").and_then(Value::as_str).and_then(ParamType::from_schema) else {
            return Err(HeaderAnnotationError::Type { place });
        };
        if let Some(first) = self.places.insert(name.to_ascii_lowercase(), place.clone()) {
            return Err(HeaderAnnotationError::Duplicate { place, first });
        }
        let property = self.path.iter().skip(1).step_by(2).map(|key| key.clone().into_owned());
        self.found.push(ParamHeader::new(name, property.collect(), kind));
        Ok(())
    }

    fn within(
        &mut self,
        key: Cow<'s, str>,
        look: impl FnOnce(&mut Self) -> Result<(), HeaderAnnotationError>,
    ) -> Result<(), HeaderAnnotationError> {
        self.path.push(key);
        if self.path.len() > MAX_SCHEMA_DEPTH {
            return Err(HeaderAnnotationError::TooDeep { place: pointer(&self.path) });
        }
        look(self)?;
        self.path.pop();
        Ok(())
    }
}

/// Formats a JSON pointer (RFC 6901).
pub(super) fn pointer(path: &[impl AsRef<str>]) -> String {
    path.iter().map(|key| format!("/{}", key.as_ref().replace('~', "~0").replace('/', "~1"))).collect()
}

/// Returns `true` if the text is a token (RFC 9110 §5.6.2).
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(schema: &Value) -> HeaderAnnotationError {
        collect(schema).unwrap_err()
    }

    fn property(schema: &Value) -> Value {
        json!({"type": "object", "properties": {"a": schema}})
    }

    #[test]
    fn annotations_are_found_on_nested_properties() {
        let schema = json!({
            "type": "object",
            "properties": {
                "region": {"type": "string", "x-mcp-header": "Region"},
                "plain": {"type": "array", "items": {"type": "string"}},
                "deep": {"type": "object", "properties": {
                    "properties": {"type": "integer", "x-mcp-header": "Count"},
                    "flag": {"type": "boolean", "x-mcp-header": "X!#$%&'*+-.^_`|~9"},
                }},
            },
        });
        let found = collect(&schema).unwrap();
        let mut shown: Vec<_> = found.iter().map(|p| (p.header(), p.path().join("/"), p.kind())).collect();
        shown.sort_by(|a, b| a.1.cmp(&b.1));
        assert_eq!(
            shown,
            [
                ("Mcp-Param-X!#$%&'*+-.^_`|~9", "deep/flag".to_owned(), ParamType::Boolean),
                ("Mcp-Param-Count", "deep/properties".to_owned(), ParamType::Integer),
                ("Mcp-Param-Region", "region".to_owned(), ParamType::String),
            ]
        );
    }

    #[test]
    fn a_schema_without_annotations_has_no_headers() {
        for schema in
            [json!({}), json!(true), json!(null), json!({"type": "object", "properties": {"a": {"type": "null"}}})]
        {
            assert_eq!(collect(&schema), Ok(Vec::new()));
        }
    }

    #[test]
    fn properties_and_data_of_that_name_are_no_annotations() {
        for schema in [
            json!({"properties": {"x-mcp-header": {"type": "string"}}}),
            json!({"$defs": {"x-mcp-header": {"type": "string"}}}),
            property(&json!({"enum": [{"x-mcp-header": "A"}], "default": {"x-mcp-header": "A"}})),
            property(&json!({"const": {"x-mcp-header": "A"}, "examples": [{"x-mcp-header": "A"}]})),
        ] {
            assert_eq!(collect(&schema), Ok(Vec::new()), "{schema}");
        }
    }

    #[test]
    fn names_must_be_tokens() {
        for name in
            [json!(""), json!("a b"), json!("a:"), json!("é"), json!("a\r\n"), json!("a/b"), json!(1), json!(null)]
        {
            let schema = property(&json!({"type": "string", "x-mcp-header": name}));
            let place = "/properties/a/x-mcp-header".to_owned();
            assert_eq!(error(&schema), HeaderAnnotationError::NotToken { place }, "{name}");
        }
    }

    #[test]
    fn names_must_differ_in_more_than_case() {
        let schema = json!({"properties": {
            "a": {"type": "string", "x-mcp-header": "Region"},
            "b": {"properties": {"c": {"type": "string", "x-mcp-header": "REGION"}}},
        }});
        assert_eq!(
            error(&schema).to_string(),
            "\"/properties/b/properties/c/x-mcp-header\" names the same header as \
             \"/properties/a/x-mcp-header\", since case does not count"
        );
    }

    #[test]
    fn types_must_be_exactly_one_of_three() {
        for kind in [
            json!("number"),
            json!("object"),
            json!("array"),
            json!("null"),
            json!(["string"]),
            json!(["string", "null"]),
            json!(null),
        ] {
            let schema = property(&json!({"type": kind, "x-mcp-header": "A"}));
            assert!(matches!(error(&schema), HeaderAnnotationError::Type { .. }), "{kind}");
        }
        assert!(matches!(error(&property(&json!({"x-mcp-header": "A"}))), HeaderAnnotationError::Type { .. }));
    }

    #[test]
    fn annotations_must_be_reachable_through_properties() {
        let annotated = json!({"type": "string", "x-mcp-header": "A"});
        for schema in [
            annotated.clone(),
            json!({"items": annotated}),
            json!({"prefixItems": [annotated]}),
            json!({"oneOf": [{"properties": {"a": annotated}}]}),
            json!({"anyOf": [annotated]}),
            json!({"allOf": [{"properties": {"a": annotated}}]}),
            json!({"not": {"properties": {"a": annotated}}}),
            json!({"if": {"properties": {"a": annotated}}}),
            json!({"then": {"properties": {"a": annotated}}}),
            json!({"else": {"properties": {"a": annotated}}}),
            json!({"$defs": {"a": annotated}}),
            json!({"definitions": {"a": {"properties": {"b": annotated}}}}),
            json!({"patternProperties": {"^a": annotated}}),
            json!({"additionalProperties": annotated}),
            json!({"dependentSchemas": {"a": {"properties": {"b": annotated}}}}),
            json!({"unknown": {"properties": {"a": annotated}}}),
            json!({"properties": [annotated]}),
            property(&json!({"type": "array", "items": {"properties": {"b": annotated}}})),
            property(&json!({"type": "string", "x-other": {"x-mcp-header": "A"}})),
        ] {
            assert!(matches!(error(&schema), HeaderAnnotationError::Unreachable { .. }), "{schema}");
        }
    }

    #[test]
    fn places_are_json_pointers() {
        let schema = json!({"properties": {"a/b~": {"anyOf": [{"x-mcp-header": "A"}]}}});
        let place = "/properties/a~1b~0/anyOf/0/x-mcp-header".to_owned();
        assert_eq!(error(&schema), HeaderAnnotationError::Unreachable { place });
    }

    #[test]
    fn a_schema_without_a_bottom_is_refused() {
        let mut schema = json!({"type": "string", "x-mcp-header": "A"});
        for i in 0..300 {
            schema = if i % 2 == 0 { property(&schema) } else { json!([schema]) };
        }
        assert!(matches!(error(&schema), HeaderAnnotationError::TooDeep { .. }));
        let mut schema = json!({"type": "string", "x-mcp-header": "A"});
        for _ in 0..60 {
            schema = property(&schema);
        }
        assert_eq!(collect(&schema).unwrap()[0].path().len(), 60);
    }
}
