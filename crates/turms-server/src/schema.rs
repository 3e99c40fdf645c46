//! JSON Schemas: generated from types, compiled at registration, checked before a handler runs.

use std::sync::Arc;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;
use turms_core::__internal::run_blocking;
use turms_proto::{Object, RawJson};
pub(crate) use turms_schema::SchemaError;
use turms_schema::{Trust, Validator, shortened};

/// A schema that is compiled when its tool is registered.
#[derive(Debug)]
pub(crate) struct Schema {
    object: Object,
    check: Check,
}

#[derive(Debug)]
enum Check {
    /// Decoding to the handler's type enforces the whole schema.
    ByDecoding,
    /// No members are allowed.
    Empty,
    Compiled(Arc<Validator>),
}

impl Schema {
    /// Compiles a handwritten schema.
    ///
    /// # Errors
    /// If it is not a valid JSON Schema, or has external references, which are never fetched.
    pub(crate) fn compile(object: Object) -> Result<Self, SchemaError> {
        let validator = Validator::new(&object, Trust::Own)?;
        Ok(Self { object, check: Check::Compiled(Arc::new(validator)) })
    }

    /// Compiles a schema that is generated from the type of a handler's arguments.
    pub(crate) fn of_type(value: &Value) -> Result<Self, SchemaError> {
        let object = object_of(value);
        if decoding_enforces(value) {
            return Ok(Self { object, check: Check::ByDecoding });
        }
        let validator = Validator::of_value(value, Trust::Own)?;
        Ok(Self { object, check: Check::Compiled(Arc::new(validator)) })
    }

    /// Returns the schema for a handler without arguments.
    pub(crate) fn empty() -> Self {
        let object = object_of(&serde_json::json!({ "type": "object", "additionalProperties": false }));
        Self { object, check: Check::Empty }
    }

    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    /// Returns `true` if decoding enforces the whole schema.
    pub(crate) fn is_enforced_by_decoding(&self) -> bool {
        matches!(self.check, Check::ByDecoding)
    }

    /// Validates a value, which is called `root` in messages. A large value is validated on a separate thread and may
    /// take more steps.
    ///
    /// # Errors
    /// If the value violates the schema, or is too expensive to validate.
    pub(crate) async fn check(&self, value: &RawJson, root: &'static str, max_steps: u64) -> Result<(), Violations> {
        let validator = match &self.check {
            Check::ByDecoding => return Ok(()),
            Check::Empty => return without_members(value, root),
            Check::Compiled(validator) => validator,
        };
        let length = value.as_str().len();
        let max_steps = Validator::steps_for(length, max_steps);
        let check = move |validator: &Validator, value: &RawJson| match validator.check_within(value, max_steps) {
            Ok(_) => Ok(()),
            Err(error) => Err(Violations(error.messages(root).join("; "))),
        };
        if length <= Validator::MAX_INLINE_BYTES {
            return check(validator, value);
        }
        let (validator, value) = (validator.clone(), value.clone());
        let unfinished = || Err(Violations(format!("{root}: the validation was not finished")));
        // Boxed, so that calls with small arguments need no memory for it.
        Box::pin(run_blocking(move || check(&validator, &value))).await.unwrap_or_else(unfinished)
    }
}

/// The violations of a schema, as a message for users and models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violations(pub(crate) String);

fn without_members(value: &RawJson, root: &str) -> Result<(), Violations> {
    let members = value.as_object().unwrap_or_default();
    if members.is_empty() {
        return Ok(());
    }
    let message = |name: &str| format!("{root}: unexpected field {:?}, nothing is taken here", shortened(name));
    let messages = members.iter().take(Validator::MAX_VIOLATIONS).map(|(name, _)| message(&name));
    Err(Violations(messages.collect::<Vec<_>>().join("; ")))
}

/// Generates the schema of a type, without `$schema` and `title`.
pub(crate) fn of<T: JsonSchema + ?Sized>() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    strip(generator.into_root_schema_for::<T>())
}

/// Same as [`of`], with all definitions inlined, as forms require.
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

/// Returns `true` if serde enforces the whole schema: an object of plain members.
fn decoding_enforces(schema: &Value) -> bool {
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
        // The bounds of Rust's integer types, which serde checks.
        "minimum" => format.is_some_and(|format| format.starts_with("uint")) && *value == 0,
        _ => false,
    })
}

/// Returns `true` for types that serde checks, including nullable ones.
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
    use futures_util::FutureExt as _;
    use turms_schema::DEFAULT_MAX_VALIDATION_STEPS;

    use super::*;

    fn violations(schema: &Schema, value: &RawJson) -> String {
        let checked = schema.check(value, "arguments", DEFAULT_MAX_VALIDATION_STEPS).now_or_never().unwrap();
        checked.map_or_else(|violations| violations.0, |()| String::new())
    }

    fn schema(text: &str) -> Schema {
        Schema::compile(Object::parse(text.to_owned()).unwrap()).unwrap()
    }

    #[test]
    fn a_violation_names_the_place_and_the_rule() {
        let schema = schema(
            r#"{"type":"object","properties":{"items":{"type":"array","items":{"type":"integer","minimum":1}}}}"#,
        );
        let value = RawJson::parse(r#"{"items":[1,0]}"#).unwrap();
        assert_eq!(violations(&schema, &value), "arguments.items[1]: 0 is less than the minimum of 1");
        assert_eq!(violations(&schema, &RawJson::parse(r#"{"items":[1]}"#).unwrap()), "");
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
        assert_eq!(violations(&schema, &good.clone().into()), "");
        for (place, wrong, complaint) in [
            ("colour", "blue", "arguments.colour: "),
            ("word", "ABC", "arguments.word: \"ABC\" does not match \"^[a-z]+$\""),
            ("when", "yesterday", "arguments.when: \"yesterday\" is not a \"date-time\""),
            ("day", "28.7.2026", "arguments.day: \"28.7.2026\" is not a \"date\""),
            ("mail", "nobody", "arguments.mail: \"nobody\" is not a \"email\""),
        ] {
            let mut bad = good.clone();
            bad[place] = wrong.into();
            let violations = violations(&schema, &bad.into());
            assert!(violations.starts_with(complaint) && !violations.contains("; "), "{violations:?}");
        }
        let mut bad = good;
        bad["inner"]["code"] = "a".into();
        let violations = violations(&schema, &bad.into());
        assert_eq!(violations, "arguments.inner.code: \"a\" is shorter than 2 characters");
    }

    #[tokio::test]
    async fn large_values_are_checked_off_the_worker_thread() {
        let schema = schema(r#"{"properties":{"a":{"pattern":"^a*$"},"b":{"type":"null"}}}"#);
        let value =
            |length, b: &str| RawJson::parse(format!("{{\"a\":\"{}\",\"b\":{b}}}", "a".repeat(length))).unwrap();
        for (length, is_large) in [(1000, false), (100_000, true)] {
            for (b, expected) in [("null", Ok(())), ("1", Err("arguments.b: 1 is not of type \"null\""))] {
                let value = value(length, b);
                let checking = schema.check(&value, "arguments", DEFAULT_MAX_VALIDATION_STEPS);
                // A large value may already be checked when its future is first polled, but not by this thread.
                let checked = if is_large { checking.await } else { checking.now_or_never().unwrap() };
                assert_eq!(checked, expected.map_err(|words: &str| Violations(words.to_owned())));
            }
        }
        // They may take more steps there.
        let checked = schema.check(&value(100_000, "null"), "arguments", 10_000).await;
        assert_eq!(checked, Ok(()));
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
