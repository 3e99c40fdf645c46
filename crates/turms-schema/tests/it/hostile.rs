//! Schemas, patterns and values that are designed to be slow, and harmless ones that look similar. Each row has a
//! number of steps that suffices, or one that does not.

use std::thread;

use serde_json::{Map, Value, json};
use turms_proto::RawJson;
use turms_schema::{DEFAULT_MAX_VALIDATION_STEPS, Trust, ValidationError, Validator};

const INLINE: u64 = DEFAULT_MAX_VALIDATION_STEPS;
const LARGE: u64 = INLINE * Validator::LARGE_FACTOR;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Valid,
    Invalid,
    /// Rejected because the number of steps is exceeded.
    TooExpensive,
}

fn verdict(schema: &Value, value: &RawJson, max_steps: u64) -> Verdict {
    let validator = Validator::of_value(schema, Trust::Foreign).unwrap_or_else(|error| panic!("{error}"));
    match validator.check_within(value, max_steps) {
        Ok(_) => Verdict::Valid,
        Err(ValidationError::Invalid(_)) => Verdict::Invalid,
        Err(_) => Verdict::TooExpensive,
    }
}

fn text(piece: &str, bytes: usize) -> RawJson {
    RawJson::parse(format!("\"{}\"", piece.repeat(bytes / piece.len()))).unwrap()
}

fn list(count: usize, item: impl Fn(usize) -> String) -> RawJson {
    RawJson::parse(format!("[{}]", (0..count).map(item).collect::<Vec<_>>().join(","))).unwrap()
}

fn nested(depth: usize) -> RawJson {
    RawJson::parse("{\"a\":".repeat(depth) + "1" + &"}".repeat(depth)).unwrap()
}

/// Size of a large body, in bytes.
const BODY: usize = 4_000_000;

#[test]
fn patterns_on_a_text_of_4_mb() {
    for (pattern, piece, steps, expected) in [
        ("^(a+)+$", "a", 2_000_000, Verdict::Valid),
        ("^(a+)+$", "ab", 2_000_000, Verdict::Invalid),
        ("[a-z]{3,20}[0-9]", "a", 2_000_000, Verdict::Invalid),
        ("a[ab]{900}$", "a", INLINE, Verdict::Valid),
        ("a.{300}b.{300}c.{300}$", "a", INLINE, Verdict::Invalid),
        ("^.{1,500}$", "a", INLINE, Verdict::Invalid),
        ("(?:a?b?){500}[^ab]{3}x|(?:[ab]{1,400}){1,3}c$", "ab", LARGE, Verdict::TooExpensive),
        ("(?:a?b?){500}[^ab]{3}x|(?:[ab]{1,400}){1,3}c$", "a", LARGE, Verdict::TooExpensive),
    ] {
        assert_eq!(verdict(&json!({ "pattern": pattern }), &text(piece, BODY), steps), expected, "{pattern} {piece}");
    }
    // Random sequences of `a` and `b`, which lead to different states.
    let bits = (0..BODY).scan(1_u64, |state, _| {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some(if *state >> 63 == 0 { 'a' } else { 'b' })
    });
    let bits = RawJson::string(&bits.collect::<String>());
    assert_eq!(verdict(&json!({ "pattern": "(a|b)*a(a|b){60}c$" }), &bits, LARGE), Verdict::TooExpensive);
    for (piece, expected) in [("a", Verdict::Valid), ("[a-z]|", Verdict::Valid), ("(", Verdict::Invalid)] {
        assert_eq!(verdict(&json!({ "format": "regex" }), &text(piece, BODY), INLINE), expected, "{piece}");
    }
    assert_eq!(verdict(&json!({ "format": "regex" }), &text("(?<a>b)", BODY), LARGE), Verdict::TooExpensive);
}

#[test]
fn references_that_double() {
    let doubling = |levels: usize| {
        let mut defs = Map::new();
        for level in 0..levels {
            let next = json!({ "$ref": format!("#/$defs/d{}", level + 1) });
            defs.insert(format!("d{level}"), json!({ "allOf": [next, next] }));
        }
        defs.insert(format!("d{levels}"), json!({ "type": "string" }));
        json!({ "$ref": "#/$defs/d0", "$defs": defs })
    };
    assert!(Validator::of_value(&doubling(30), Trust::Foreign).is_err());
    for keyword in ["anyOf", "oneOf"] {
        // Both branches recurse into the next level, and both fail at the end.
        let branch = json!({ "type": "object", "properties": { "a": { "$ref": "#" } } });
        assert_eq!(verdict(&json!({ keyword: [branch, branch] }), &nested(100), INLINE), Verdict::TooExpensive);
    }
}

#[test]
fn schemas_that_are_too_deep() {
    let mut chain = Map::new();
    for level in 0..100_000 {
        chain.insert(format!("d{level}"), json!({ "$ref": format!("#/$defs/d{}", level + 1) }));
    }
    assert!(Validator::of_value(&json!({ "$ref": "#/$defs/d0", "$defs": chain }), Trust::Foreign).is_err());
    // A value of this depth exceeds the stack of a worker when it is built or dropped.
    let deep = || {
        let schema = (0..10_000).fold(json!({}), |inner, _| Value::Object(Map::from_iter([("not".to_owned(), inner)])));
        thread::scope(|scope| {
            let compile = || Validator::of_value(&schema, Trust::Foreign).is_err();
            let worker = thread::Builder::new().stack_size(2 << 20).spawn_scoped(scope, compile).unwrap();
            assert!(worker.join().unwrap());
        });
    };
    thread::Builder::new().stack_size(64 << 20).spawn(deep).unwrap().join().unwrap();
}

/// An earlier version doubled the number of checks with every level.
#[test]
fn unevaluated_members_of_a_deep_value() {
    let recursive = json!({ "properties": { "a": { "$ref": "#" } } });
    for schema in [
        json!({ "anyOf": [recursive], "unevaluatedProperties": false }),
        json!({ "oneOf": [recursive, false], "unevaluatedProperties": false }),
        json!({ "if": recursive, "unevaluatedProperties": false }),
        json!({ "allOf": [{ "$ref": "#/$defs/x" }], "unevaluatedProperties": false, "$defs": { "x": recursive } }),
        json!({ "$dynamicAnchor": "a", "anyOf": [{ "properties": { "a": { "$dynamicRef": "#a" } } }], "unevaluatedProperties": false }),
    ] {
        assert_eq!(verdict(&schema, &nested(120), 100_000), Verdict::Valid, "{schema}");
        let value = RawJson::parse(nested(120).as_str().replace('1', "{\"b\":1}")).unwrap();
        assert_eq!(verdict(&schema, &value, INLINE), Verdict::Invalid, "{schema}");
    }
    let items = json!({ "contains": { "$ref": "#" }, "unevaluatedItems": false });
    let value = RawJson::parse("[".repeat(100) + "1" + &"]".repeat(100)).unwrap();
    assert_eq!(verdict(&items, &value, 100_000), Verdict::Valid);
}

/// Large values are accepted, unless validating them is expensive.
#[test]
fn harmless_values_that_are_large() {
    let words: Vec<String> = (0..300).map(|index| format!("word-{index}")).collect();
    let numbers: Vec<u32> = (0..100_000).collect();
    let members: Vec<String> = (0..200_000).map(|index| format!("\"n{index}\":1")).collect();
    let members = RawJson::parse(format!("{{{}}}", members.join(","))).unwrap();
    let pixel = json!({ "items": { "items": { "type": "integer", "minimum": 0, "maximum": 255 }, "minItems": 3 } });
    for (name, schema, value, steps) in [
        (
            "enum of texts",
            json!({ "items": { "enum": words } }),
            list(60_000, |it| format!("\"word-{}\"", it % 300)),
            3_000_000,
        ),
        ("enum of numbers", json!({ "items": { "enum": numbers } }), list(10_000, |it| it.to_string()), 1_000_000),
        ("unique items", json!({ "uniqueItems": true }), list(200_000, |it| it.to_string()), INLINE),
        ("members", json!({ "additionalProperties": { "type": "integer" } }), members, INLINE),
        ("base64", json!({ "pattern": "^[A-Za-z0-9+/]*={0,2}$" }), text("QUJD", 1 << 20), 1_000_000),
        ("numbers", json!({ "items": { "type": "number" } }), list(800_000, |it| it.to_string()), INLINE),
        ("pixels", pixel, list(160_000, |it| format!("[{},0,255]", it % 256)), INLINE),
        ("type of a text", json!({ "type": "string", "maxLength": BODY }), text("\\n", BODY), 500_000),
    ] {
        assert_eq!(verdict(&schema, &value, steps), Verdict::Valid, "{name}");
    }
}

/// 20 000 patterns took 6 s and 2.2 GB in an earlier version.
#[test]
fn patterns_are_bounded_together() {
    let patterns: Map<String, Value> =
        (0..20_000).map(|index| (format!("^[a-z]{{1,9}}-[0-9]{{2,5}}-{index}$"), json!(true))).collect();
    let counted = allocation_counter::measure(|| {
        let error = Validator::of_value(&json!({ "patternProperties": patterns }), Trust::Foreign).unwrap_err();
        let words = "not a usable JSON Schema: /patternProperties: the patterns of the schema are too large in total";
        assert_eq!(error.to_string(), words);
    });
    assert!(counted.bytes_max < 150_000_000, "{} bytes", counted.bytes_max);
}

#[test]
fn unsupported_patterns_are_errors_or_ignored_depending_on_trust() {
    for (pattern, reason) in [
        ("^(?!a)b", "look-around ((?=…), (?!…), (?<=…), (?<!…))"),
        ("(a)\\1", "a back-reference"),
        ("(?:a{999}){999}", "too large"),
    ] {
        let schema = json!({ "properties": { "x": { "pattern": pattern } } });
        let error = Validator::of_value(&schema, Trust::Own).unwrap_err();
        let words = format!(
            "not a usable JSON Schema: /properties/x/pattern: the pattern \"{pattern}\" cannot be enforced: {reason}"
        );
        assert_eq!(error.to_string(), words);
        assert_eq!(verdict(&schema, &RawJson::parse("{\"x\":\"\"}").unwrap(), INLINE), Verdict::Valid);
    }
}

/// Strings are unescaped only when a rule needs them, so an unpaired surrogate matters only there.
#[test]
fn strings_with_unpaired_surrogates() {
    let value = RawJson::parse(r#"{"a":"\ud800"}"#).unwrap();
    assert_eq!(verdict(&json!({ "properties": { "a": { "type": "string" } } }), &value, INLINE), Verdict::Valid);
    for rule in [
        json!({ "pattern": "a" }),
        json!({ "not": { "pattern": "a" } }),
        json!({ "enum": ["a"] }),
        json!({ "minLength": 1 }),
    ] {
        let schema = json!({ "properties": { "a": rule } });
        let error = Validator::of_value(&schema, Trust::Own).unwrap().check(&value).unwrap_err();
        assert_eq!(error.messages("it"), ["it.a: a string with an unpaired surrogate"], "{schema}");
    }
}
