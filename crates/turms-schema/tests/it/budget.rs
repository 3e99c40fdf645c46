//! The limits on the work and the memory of one validation. Work is counted in steps, not in time.

use serde_json::{Map, Value, json};
use turms_proto::RawJson;
use turms_schema::{DEFAULT_MAX_VALIDATION_STEPS, Trust, Validator};

use crate::Violations as _;

/// A pattern that compiles to a large automaton.
const HOSTILE: &str = "(?:a?b?){500}[^ab]{3}x|(?:[ab]{1,400}){1,3}c$";

/// Size of a large body, in bytes.
const LARGE: usize = 4_000_000;

fn violations(schema: &Value, value: &RawJson, max_steps: u64) -> Vec<String> {
    Validator::of_value(schema, Trust::Foreign).expect("a schema").violations_within(value, "it", max_steps)
}

fn string(text: &str, times: usize) -> RawJson {
    RawJson::parse(format!("\"{}\"", text.repeat(times))).expect("JSON")
}

fn list(item: &str, count: usize) -> RawJson {
    RawJson::parse(format!("[{}]", vec![item; count].join(","))).expect("JSON")
}

fn members(count: usize, of_index: impl Fn(usize) -> String) -> RawJson {
    let members: Vec<String> = (0..count).map(|index| format!("\"{}\":1", of_index(index))).collect();
    RawJson::parse(format!("{{{}}}", members.join(","))).expect("JSON")
}

#[test]
fn too_much_work_is_refused_with_its_path_and_keyword() {
    let named = |count: usize| (0..count).map(|index| format!("n{index}")).collect::<Vec<_>>();
    let doubled = json!({ "properties": { "a": { "$ref": "#" } } });
    let deep = RawJson::parse("{\"a\":".repeat(100) + "1" + &"}".repeat(100)).unwrap();
    let constants: Vec<Value> = (0..100).map(|last| json!((0..50_000).chain([last]).collect::<Vec<_>>())).collect();
    for (keyword, schema, value) in [
        ("pattern", json!({ "pattern": HOSTILE }), &string("ab", LARGE / 2)),
        ("format", json!({ "format": "regex" }), &string("(?<a>b)", LARGE / 7)),
        (
            "enum",
            json!({ "items": { "enum": (2..1000).chain([1]).map(|it| json!([it])).collect::<Vec<_>>() } }),
            &list("[1]", 100_000),
        ),
        ("const", json!({ "anyOf": constants.iter().map(|list| json!({ "const": list })).collect::<Vec<_>>() }), &{
            let list: Vec<Value> = (0..50_000).chain([-1]).map(Value::from).collect();
            RawJson::from(Value::from(list))
        }),
        ("uniqueItems", json!({ "uniqueItems": true }), &{
            let item: Vec<String> = (0..900_000).map(|index| index.to_string()).collect();
            RawJson::parse(format!("[{}]", item.join(","))).unwrap()
        }),
        ("required", json!({ "required": named(500) }), &members(100_000, |index| format!("n{}", index % 600))),
        (
            "patternProperties",
            json!({ "patternProperties": { HOSTILE: true } }),
            &members(2_000, |index| {
                format!("{:b}", 3_u128.wrapping_pow(81 + index as u32)).replace('0', "a").replace('1', "b")
            }),
        ),
        ("multipleOf", json!({ "multipleOf": 3 }), &RawJson::parse("3".repeat(25_000_000)).unwrap()),
        (
            "$ref",
            json!({ "$ref": "http://json-schema.org/draft-07/schema#" }),
            &RawJson::parse(format!("{{\"enum\":[{}1]}}", "1,".repeat(200_000))).unwrap(),
        ),
        (
            "unevaluatedProperties|properties",
            json!({ "anyOf": vec![json!({ "properties": { "a": true } }); 100], "unevaluatedProperties": true }),
            &members(100_000, |index| format!("n{index}")),
        ),
        ("properties|allOf|anyOf", json!({ "anyOf": [{ "allOf": [doubled, false] }, doubled] }), &deep),
    ] {
        let violations = violations(&schema, value, DEFAULT_MAX_VALIDATION_STEPS);
        let shown: String = schema.to_string().chars().take(60).collect();
        let [only] = &*violations else { panic!("{shown}: {violations:?}") };
        assert!(only.starts_with("it"), "{shown}: {only}");
        let is_named = |keyword: &str| {
            only.ends_with(&format!(": is too expensive to validate with \"{keyword}\", see `max_validation_steps`"))
        };
        assert!(keyword.split('|').any(is_named), "{shown}: {only}");
    }
}

#[test]
fn the_error_for_too_much_work_has_the_path() {
    let schema = json!({ "properties": { "list": { "items": { "properties": { "text": { "pattern": HOSTILE } } } } } });
    let value = RawJson::from(json!({ "list": [{ "text": "abc" }, { "text": "ab".repeat(LARGE / 2) }] }));
    let words = "it.list[1].text: is too expensive to validate with \"pattern\", see `max_validation_steps`";
    assert_eq!(violations(&schema, &value, DEFAULT_MAX_VALIDATION_STEPS), [words]);
}

/// Exhausting the budget is neither a violation nor a success.
#[test]
fn an_unfinished_validation_has_no_other_result() {
    let text = string("ab", 10_000);
    let pattern = json!({ "pattern": HOSTILE });
    for schema in [
        json!({ "not": pattern }),
        json!({ "anyOf": [pattern, true] }),
        json!({ "oneOf": [pattern, true] }),
        json!({ "if": pattern, "then": false }),
        pattern,
    ] {
        let words = "it: is too expensive to validate with \"pattern\", see `max_validation_steps`";
        assert_eq!(violations(&schema, &text, 100_000), [words], "{schema}");
    }
}

#[test]
fn the_number_of_steps_is_a_setting() {
    let (schema, text) = (json!({ "pattern": "^[a-z]{3,20}[0-9]$" }), string("a", 20));
    let is_too_expensive = |max_steps| violations(&schema, &text, max_steps)[0].contains("too expensive");
    assert!(is_too_expensive(100) && !is_too_expensive(100_000));
    let (schema, text) = (json!({ "pattern": HOSTILE }), string("ab", 2_600));
    assert!(violations(&schema, &text, DEFAULT_MAX_VALIDATION_STEPS)[0].contains("too expensive"));
    assert!(violations(&schema, &text, 20 * DEFAULT_MAX_VALIDATION_STEPS)[0].contains("does not match"));
}

/// The cost does not depend on the number of rules and of compared values.
#[test]
fn a_long_number_is_parsed_once() {
    let number = RawJson::parse("1".repeat(LARGE)).unwrap();
    let candidates: Vec<u64> = (0..1000).collect();
    let schema = json!({ "type": "integer", "minimum": 0, "maximum": 5, "enum": candidates, "const": 7 });
    let violations = violations(&schema, &number, 2 * LARGE as u64);
    assert!(
        !violations.is_empty() && violations.iter().all(|words| !words.contains("too expensive")),
        "{violations:?}"
    );
}

#[test]
fn ordinary_values_take_a_part_of_the_steps() {
    let row = r#"{"id":123,"name":"some name","email":"a@b.example","tags":["a","b"],"active":true,"score":1.5}"#;
    let rows = json!({ "type": "array", "items": {
        "type": "object", "required": ["id", "name"], "additionalProperties": false,
        "properties": {
            "id": { "type": "integer", "minimum": 0 },
            "name": { "type": "string", "minLength": 1, "maxLength": 100 },
            "email": { "type": "string", "format": "email" },
            "tags": { "type": "array", "items": { "type": "string", "pattern": "^[a-z]+$" }, "uniqueItems": true },
            "active": { "type": "boolean" },
            "score": { "type": "number" },
        },
    } });
    let words = "hello world, ";
    for (schema, value, max_steps) in [
        (&rows, list(row, 100), 100_000),
        (&rows, list(row, (1 << 20) / row.len()), DEFAULT_MAX_VALIDATION_STEPS / 3),
        (&rows, list(row, LARGE / row.len()), DEFAULT_MAX_VALIDATION_STEPS),
        (&json!({ "items": { "type": "number" } }), list("0.123456", LARGE / 9), DEFAULT_MAX_VALIDATION_STEPS),
        (&json!({ "items": { "type": "integer" } }), list("1", (1 << 20) / 2), DEFAULT_MAX_VALIDATION_STEPS),
        (&json!({ "type": "string", "maxLength": 200_000 }), string(words, (100 << 10) / words.len()), 100_000),
        (
            &json!({ "pattern": "^[\\w ,]+$" }),
            string(words, (100 << 10) / words.len()),
            DEFAULT_MAX_VALIDATION_STEPS / 4,
        ),
        (&json!({ "pattern": "[a-z]{3,20}[0-9]|a$" }), string("a", 100 << 10), DEFAULT_MAX_VALIDATION_STEPS),
        (&json!({ "type": "string", "minLength": 1 }), string("a", LARGE), DEFAULT_MAX_VALIDATION_STEPS / 10),
        (&json!({ "format": "uri" }), string("a:b", LARGE / 3), DEFAULT_MAX_VALIDATION_STEPS),
        (&json!({ "format": "regex" }), string("[a-z]+|", 10_000), DEFAULT_MAX_VALIDATION_STEPS / 3),
    ] {
        let shown: String = schema.to_string().chars().take(60).collect();
        assert_eq!(violations(schema, &value, max_steps), [""; 0], "{shown}");
    }
}

#[test]
fn memory_is_bounded_for_values_of_any_size() {
    let draft = json!({ "$ref": "http://json-schema.org/draft-07/schema#" });
    let relative = "{\"$id\":\"a\"},".repeat(10_000);
    let names: Vec<String> = (0..300_000).map(|index| format!("n{index}")).collect();
    for (schema, text, most) in [
        (json!({ "format": "regex" }), format!("\"{}\"", "a|".repeat(LARGE / 2)), 1_000_000),
        (json!({ "format": "regex" }), format!("\"{}\"", "(a)".repeat(80_000)), 30_000_000),
        (json!({ "items": true }), format!("[{}1]", "1,".repeat(2 * LARGE)), 160_000_000),
        (json!({ "uniqueItems": true }), format!("[{}1]", "[],".repeat(200_000)), 60_000_000),
        (
            json!({ "additionalProperties": false }),
            format!("{{{}}}", names.iter().map(|name| format!("\"{name}\":1")).collect::<Vec<_>>().join(",")),
            60_000_000,
        ),
        (draft.clone(), format!("{{\"enum\":[{}1]}}", "1,".repeat(100_000)), 30_000_000),
        (draft, format!("{{\"$id\":\"http://{}/\",\"allOf\":[{relative}true]}}", "x".repeat(100_000)), 30_000_000),
    ] {
        let (validator, value) = (Validator::of_value(&schema, Trust::Foreign).unwrap(), RawJson::parse(text).unwrap());
        let counted = allocation_counter::measure(|| drop(validator.violations(&value, "it")));
        assert!(counted.bytes_max < most, "{schema}: {} bytes", counted.bytes_max);
    }
}

/// Building the error messages costs steps too.
#[test]
fn error_messages_are_bounded() {
    let names: Vec<String> = (0..100_000).map(|index| format!("x{index}")).collect();
    let value = members(100_000, |index| format!("n{index}"));
    let missing = violations(&json!({ "required": names }), &value, DEFAULT_MAX_VALIDATION_STEPS);
    assert_eq!(missing.len(), 8);
    assert_eq!(missing[0], "it: \"x0\" is a required property");
    let properties: Map<String, Value> = names.iter().map(|name| (name.clone(), json!(true))).collect();
    let schema = json!({ "properties": properties, "additionalProperties": false });
    let unexpected = violations(&schema, &value, DEFAULT_MAX_VALIDATION_STEPS);
    assert!(unexpected.len() == 1 && unexpected[0].len() < 300, "{unexpected:?}");
    // The steps suffice to validate, but not to build the error message.
    let words = ["it: is not valid; it would take too many steps to find the violations"];
    assert_eq!(violations(&json!({ "format": "uri" }), &string("a", 1000), 7000), words);
}

/// Paths are computed only for the final warnings.
#[test]
fn formats_that_are_not_asserted_have_no_message() {
    let schema = json!({ "items": { "not": { "allOf": [{ "format": "ipv4" }, false] } } });
    let validator = Validator::of_value(&schema, Trust::Foreign).unwrap().formats_as_annotations();
    let value = RawJson::parse(format!("[{}\"x\"]", "\"x\",".repeat(20_000))).unwrap();
    let counted = allocation_counter::measure(|| {
        let warnings = validator.check_within(&value, DEFAULT_MAX_VALIDATION_STEPS).unwrap();
        assert!(warnings.is_empty());
    });
    assert!(counted.count_total < 1_000, "{} allocations", counted.count_total);
}

#[test]
fn long_names_take_more_steps_to_compare() {
    let (name, other) = ("a".repeat(1_000_000), format!("{}b", "a".repeat(999_999)));
    let value = RawJson::parse(format!("{{\"{other}\":1}}")).unwrap();
    let checked = |keyword: &str, rule: Value| {
        let schema = json!({ "$defs": { "a": { keyword: rule } }, "allOf": vec![json!({ "not": { "not": { "$ref": "#/$defs/a" } } }); 500] });
        violations(&schema, &value, DEFAULT_MAX_VALIDATION_STEPS)
    };
    let mut properties = Map::new();
    properties.insert(name, json!(false));
    for (keyword, rule) in [("required", json!([other])), ("properties", Value::Object(properties))] {
        let words = format!("it: is too expensive to validate with {keyword:?}, see `max_validation_steps`");
        assert_eq!(checked(keyword, rule), [words]);
    }
}
