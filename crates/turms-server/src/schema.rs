//! JSON Schemas: made from types, compiled once, checked before a handler runs.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;
use turms_proto::{Object, RawJson};
pub use turms_schema::SchemaError;
use turms_schema::{Trust, Validator, shortened};

/// A schema that was compiled when its tool was registered.
#[derive(Debug)]
pub(crate) struct Schema {
    object: Object,
    check: Check,
}

#[derive(Debug)]
enum Check {
    /// Decoding into the handler's type demands all that the schema does.
    ByDecoding,
    /// There may be no members at all.
    Empty,
    Compiled(Validator),
}

impl Schema {
    /// Compiles a schema that somebody wrote.
    ///
    /// # Errors
    /// When it is not one, or refers to something outside itself: nothing is ever fetched.
    pub(crate) fn compile(object: Object) -> Result<Self, SchemaError> {
        let validator = Validator::new(&object, Trust::Own)?;
        Ok(Self { object, check: Check::Compiled(validator) })
    }

    /// Compiles a schema that was made from the type a handler decodes.
    pub(crate) fn of_type(value: &Value) -> Result<Self, SchemaError> {
        let object = object_of(value);
        if is_enforced_by_decoding(value) {
            return Ok(Self { object, check: Check::ByDecoding });
        }
        Ok(Self { object, check: Check::Compiled(Validator::of_value(value, Trust::Own)?) })
    }

    /// The schema of what takes nothing.
    pub(crate) fn empty() -> Self {
        let object = object_of(&serde_json::json!({ "type": "object", "additionalProperties": false }));
        Self { object, check: Check::Empty }
    }

    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    /// Whether there is nothing to hold a value against beyond decoding it.
    pub(crate) fn is_kept_by_decoding(&self) -> bool {
        matches!(self.check, Check::ByDecoding)
    }

    /// What is wrong with a value, in words that a person or a model can act on; empty if nothing is.
    pub(crate) fn violations(&self, value: &RawJson, root: &str, max_steps: u64) -> Vec<String> {
        match &self.check {
            Check::ByDecoding => Vec::new(),
            Check::Empty => unexpected_members(value, root),
            Check::Compiled(validator) => validator.violations_within(value, root, max_steps),
        }
    }
}

fn unexpected_members(value: &RawJson, root: &str) -> Vec<String> {
    let members = value.as_object().unwrap_or_default();
    let complaint = |name: &str| format!("{root}: unexpected field {:?}, nothing is taken here", shortened(name));
    members.iter().take(Validator::MAX_VIOLATIONS).map(|(name, _)| complaint(&name)).collect()
}

/// The schema of a type, without what only documents would want.
pub(crate) fn of<T: JsonSchema + ?Sized>() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    strip(generator.into_root_schema_for::<T>())
}

/// As [`of`], with every definition in its place, as forms need it.
pub(crate) fn inlined<T: JsonSchema + ?Sized>() -> Value {
    let generator = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true).into_generator();
    strip(generator.into_root_schema_for::<T>())
}

fn strip(schema: schemars::Schema) -> Value {
    let mut value = Value::from(schema);
    if let Value::Object(members) = &mut value {
        members.remove("$schema");
        members.remove("title");
    }
    value
}

pub(crate) fn object_of(value: &Value) -> Object {
    match value {
        Value::Object(members) => members.clone().into(),
        _ => Object::new(),
    }
}

/// Whether the schema says no more than serde checks anyway: an object of plain members.
fn is_enforced_by_decoding(schema: &Value) -> bool {
    let Value::Object(members) = schema else { return false };
    members.iter().all(|(name, value)| match name.as_str() {
        "type" => value == "object",
        "description" | "required" => true,
        "properties" => value.as_object().is_some_and(|properties| properties.values().all(is_plain)),
        _ => false,
    })
}

fn is_plain(property: &Value) -> bool {
    let Value::Object(members) = property else { return false };
    let format = members.get("format").and_then(Value::as_str);
    members.iter().all(|(name, value)| match name.as_str() {
        "type" => is_plain_type(value),
        "description" | "title" | "default" => true,
        "format" => format.is_some_and(is_number_format),
        // The bounds of Rust's own types, which serde checks.
        "minimum" => format.is_some_and(|format| format.starts_with("uint")) && *value == 0,
        _ => false,
    })
}

/// A type that serde checks, or one that may also be null.
fn is_plain_type(value: &Value) -> bool {
    let plain = |name: &Value| matches!(name.as_str(), Some("string" | "boolean" | "number" | "integer" | "null"));
    match value {
        Value::Array(names) => names.iter().all(plain),
        name => plain(name),
    }
}

fn is_number_format(format: &str) -> bool {
    matches!(format, "double" | "float" | "int32" | "int64" | "int" | "uint32" | "uint64" | "uint")
}

#[cfg(test)]
mod tests {
    use turms_schema::DEFAULT_MAX_VALIDATION_STEPS;

    use super::*;

    fn schema(text: &str) -> Schema {
        Schema::compile(Object::parse(text.to_owned()).unwrap()).unwrap()
    }

    #[test]
    fn a_violation_names_the_place_and_the_rule() {
        let schema = schema(
            r#"{"type":"object","properties":{"items":{"type":"array","items":{"type":"integer","minimum":1}}}}"#,
        );
        let value = RawJson::parse(r#"{"items":[1,0]}"#).unwrap();
        assert_eq!(
            schema.violations(&value, "arguments", DEFAULT_MAX_VALIDATION_STEPS),
            ["arguments.items[1]: 0 is less than the minimum of 1"]
        );
        assert!(
            schema
                .violations(&RawJson::parse(r#"{"items":[1]}"#).unwrap(), "arguments", DEFAULT_MAX_VALIDATION_STEPS)
                .is_empty()
        );
    }

    #[test]
    fn rules_of_every_kind_are_checked_and_named() {
        #[derive(JsonSchema)]
        #[serde(rename_all = "lowercase")]
        #[allow(dead_code, reason = "only its schema is looked at")]
        enum Colour {
            Red,
            Green,
        }
        #[derive(JsonSchema)]
        #[allow(dead_code, reason = "only its schema is looked at")]
        struct Inner {
            #[schemars(length(min = 2, max = 3))]
            code: String,
        }
        #[derive(JsonSchema)]
        #[allow(dead_code, reason = "only its schema is looked at")]
        struct Everything {
            colour: Colour,
            inner: Inner,
            #[schemars(regex(pattern = "^[a-z]+$"))]
            word: String,
            #[schemars(extend("format" = "date-time"))]
            when: String,
            #[schemars(extend("format" = "date"))]
            day: String,
            #[schemars(email)]
            mail: String,
        }
        let schema = Schema::of_type(&of::<Everything>()).unwrap();
        let good = serde_json::json!({
            "colour": "red", "inner": { "code": "ab" }, "word": "abc",
            "when": "2026-07-28T10:00:00Z", "day": "2026-07-28", "mail": "a@b.example",
        });
        assert!(schema.violations(&good.clone().into(), "arguments", DEFAULT_MAX_VALIDATION_STEPS).is_empty());
        for (place, wrong, complaint) in [
            ("colour", "blue", "arguments.colour: "),
            ("word", "ABC", "arguments.word: \"ABC\" does not match \"^[a-z]+$\""),
            ("when", "yesterday", "arguments.when: \"yesterday\" is not a \"date-time\""),
            ("day", "28.7.2026", "arguments.day: \"28.7.2026\" is not a \"date\""),
            ("mail", "nobody", "arguments.mail: \"nobody\" is not a \"email\""),
        ] {
            let mut bad = good.clone();
            bad[place] = wrong.into();
            let violations = schema.violations(&bad.into(), "arguments", DEFAULT_MAX_VALIDATION_STEPS);
            assert!(violations.len() == 1 && violations[0].starts_with(complaint), "{violations:?}");
        }
        let mut bad = good;
        bad["inner"]["code"] = "a".into();
        let violations = schema.violations(&bad.into(), "arguments", DEFAULT_MAX_VALIDATION_STEPS);
        assert_eq!(violations, ["arguments.inner.code: \"a\" is shorter than 2 characters"]);
    }

    #[test]
    fn nothing_is_fetched() {
        let remote = Object::parse(r#"{"$ref":"https://example.com/schema.json"}"#).unwrap();
        assert!(Schema::compile(remote).is_err());
    }

    #[test]
    fn plain_members_need_no_second_check() {
        #[derive(JsonSchema)]
        #[allow(dead_code, reason = "only its schema is looked at")]
        struct Plain {
            /// the first
            a: f64,
            b: String,
            c: Option<bool>,
            d: u32,
            e: Option<i64>,
        }
        #[derive(JsonSchema)]
        #[allow(dead_code, reason = "only its schema is looked at")]
        struct Bounded {
            #[schemars(range(min = 1))]
            a: u8,
        }
        assert!(matches!(Schema::of_type(&of::<Plain>()).unwrap().check, Check::ByDecoding));
        assert!(matches!(Schema::of_type(&of::<Bounded>()).unwrap().check, Check::Compiled(_)));
    }
}
