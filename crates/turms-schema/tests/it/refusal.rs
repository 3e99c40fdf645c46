//! Invalid schemas, and schemas that are too expensive.

use serde_json::{Value, json};
use turms_proto::RawJson;
use turms_schema::{Trust, Validator};

use crate::Violations as _;

fn refusal(schema: &Value) -> String {
    let error = Validator::of_value(schema, Trust::Foreign).expect_err(&schema.to_string());
    let words = error.to_string();
    words.strip_prefix("not a usable JSON Schema: ").expect(&words).to_owned()
}

#[test]
fn the_error_of_an_invalid_schema_has_the_path() {
    let types = "one or several of \"array\", \"boolean\", \"integer\", \"null\", \"number\", \"object\", \"string\"";
    for (schema, words) in [
        (json!(5), "should be a schema (an object, true or false), not 5".to_owned()),
        (json!({ "type": 5 }), format!("/type: should be {types}, not 5")),
        (json!({ "type": "text" }), format!("/type: should be {types}, not \"text\"")),
        (json!({ "type": [] }), format!("/type: should be {types}, not []")),
        (json!({ "properties": [] }), "/properties: should be an object, not []".to_owned()),
        (
            json!({ "properties": { "a/b": { "items": 1 } } }),
            "/properties/a~1b/items: should be a schema (an object, true or false), not 1".to_owned(),
        ),
        (
            json!({ "$defs": { "unused": { "minLength": -1 } } }),
            "/$defs/unused/minLength: should be a non-negative integer, not -1".to_owned(),
        ),
        (json!({ "required": "a" }), "/required: should be a list of unique strings, not \"a\"".to_owned()),
        (
            json!({ "required": ["a", "a"] }),
            "/required: should be a list of unique strings, not [\"a\",\"a\"]".to_owned(),
        ),
        (
            json!({ "pattern": "(" }),
            "/pattern: \"(\" is not a valid pattern (regular expression of ECMA-262)".to_owned(),
        ),
        (
            json!({ "patternProperties": { "[": true } }),
            "/patternProperties: \"[\" is not a valid pattern (regular expression of ECMA-262)".to_owned(),
        ),
        (json!({ "allOf": [] }), "/allOf: should be a list of schemas, not []".to_owned()),
        (json!({ "items": [true] }), "/items: should be a schema (an object, true or false), not [true]".to_owned()),
        (json!({ "enum": 1 }), "/enum: should be a list, not 1".to_owned()),
        (json!({ "minimum": "1" }), "/minimum: should be a number, not \"1\"".to_owned()),
        (json!({ "multipleOf": 0 }), "/multipleOf: should be a number above 0, not 0".to_owned()),
        (json!({ "uniqueItems": 1 }), "/uniqueItems: should be true or false, not 1".to_owned()),
        (
            json!({ "dependentRequired": { "a": "b" } }),
            "/dependentRequired: should be lists of unique strings, not {\"a\":\"b\"}".to_owned(),
        ),
        (json!({ "$anchor": "#a" }), "/$anchor: should be a name, not \"#a\"".to_owned()),
        (json!({ "$schema": "http://x.example/y" }), "/$schema: unknown dialect \"http://x.example/y\"".to_owned()),
        (
            json!({ "$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMinimum": true }),
            "/exclusiveMinimum: \"minimum\" is missing, which it is about".to_owned(),
        ),
    ] {
        assert_eq!(refusal(&schema), words, "{schema}");
    }
}

#[test]
fn references_must_resolve_within_the_schema() {
    for (schema, words) in [
        (json!({ "$ref": "#/$defs/a" }), "\"#/$defs/a\" refers to nothing in the schema"),
        (json!({ "items": { "$ref": "#a" } }), "/items: \"#a\" refers to nothing in the schema"),
        (json!({ "$ref": "a.json" }), "\"a.json\" is outside of the schema, and nothing is fetched"),
        (
            json!({ "$ref": "#/$defs", "$defs": { "type": 5 } }),
            "/$defs/type: should be a schema (an object, true or false), not 5",
        ),
        (json!({ "$ref": "#" }), "infinite recursion of references"),
        (
            json!({ "anyOf": [{ "$ref": "#/$defs/a" }], "$defs": { "a": { "not": { "$ref": "#" } } } }),
            "infinite recursion of references",
        ),
    ] {
        assert_eq!(refusal(&schema), words, "{schema}");
    }
}

#[test]
fn an_expensive_value_is_refused_early() {
    // Each level is checked twice by the level above.
    let twice = json!({ "properties": { "a": { "$ref": "#" } } });
    let schema = json!({ "anyOf": [{ "allOf": [twice, false] }, twice] });
    let value = "{\"a\":".repeat(100) + "1" + &"}".repeat(100);
    let violations =
        Validator::of_value(&schema, Trust::Foreign).unwrap().violations(&RawJson::parse(value).unwrap(), "it");
    assert_eq!(violations.len(), 1);
    assert!(violations[0].contains(": is too expensive to validate with \""), "{violations:?}");
}

#[test]
fn depth_is_limited_before_the_stack_overflows() {
    let mut within = json!({ "properties": { "a": { "$ref": "#" } } });
    for _ in 0..100 {
        within = json!({ "allOf": [within] });
    }
    let value = "{\"a\":".repeat(100) + "1" + &"}".repeat(100);
    let check =
        move || Validator::of_value(&within, Trust::Foreign).unwrap().violations(&RawJson::parse(value).unwrap(), "it");
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(check).unwrap();
    assert_eq!(thread.join().unwrap(), ["it: the references of the schema are nested too deeply"]);
}

/// The cost of a schema does not include these chains: each continues in the previous one, through a schema whose cost
/// was being computed when it was found.
#[test]
fn the_length_of_a_chain_of_schemas_is_limited() {
    const CHAINS: usize = 40;
    const LINKS: usize = 200;
    let reference = |name: String| json!({ "$ref": format!("#/$defs/{name}") });
    let (mut defs, mut tops) = (serde_json::Map::new(), serde_json::Map::new());
    for chain in 0..CHAINS {
        for link in 0..LINKS {
            defs.insert(format!("c{chain}-{link}"), reference(format!("c{chain}-{}", link + 1)));
        }
        let before = if chain == 0 { json!({ "type": "string" }) } else { reference(format!("e{}", chain - 1)) };
        defs.insert(format!("c{chain}-{LINKS}"), before);
        defs.insert(format!("e{chain}"), reference(format!("c{chain}-0")));
        defs[&format!("c{chain}-0")]["properties"] = json!({ "e": reference(format!("e{chain}")) });
        tops.insert(format!("{chain:03}"), reference(format!("c{chain}-0")));
    }
    let last = reference(format!("c{}-0", CHAINS - 1));
    let schema = json!({ "properties": tops, "allOf": [last], "$defs": defs });
    let compile = move || Validator::of_value(&schema, Trust::Foreign).map(|_| ()).map_err(|error| error.to_string());
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(compile).unwrap();
    let words = "not a usable JSON Schema: its references make it too large or too deep";
    assert_eq!(thread.join().unwrap(), Err(words.to_owned()));
}

/// A repeated rule that scans the value is expensive too.
#[test]
fn endlessly_repeated_rules_are_too_expensive() {
    let list = Value::from_iter(0..1000);
    let members: serde_json::Map<String, Value> = (0..1000).map(|index| (format!("x{index}"), json!([]))).collect();
    let (members, few) = (json!(members), json!({ "a": 1 }));
    let text = json!(format!("/{}", "ä".repeat(1 << 12)));
    for (rule, value) in [
        (json!({ "uniqueItems": true }), &list),
        (json!({ "const": list }), &list),
        (json!({ "prefixItems": [true] }), &list),
        (json!({ "properties": { "a": true } }), &members),
        (json!({ "minProperties": 1 }), &members),
        (json!({ "dependentRequired": members }), &few),
        (json!({ "format": "json-pointer" }), &text),
        (json!({ "maxLength": (1 << 12) + 1 }), &text),
    ] {
        let mut defs = serde_json::Map::from_iter([("d0".to_owned(), rule.clone())]);
        for level in 0..14 {
            let below = json!({ "$ref": format!("#/$defs/d{level}") });
            defs.insert(format!("d{}", level + 1), json!({ "allOf": [{ "anyOf": [below, true] }, below] }));
        }
        let schema = json!({ "$ref": "#/$defs/d14", "$defs": defs });
        let validator = Validator::of_value(&schema, Trust::Foreign).unwrap();
        let violations = validator.violations_within(&RawJson::from(value.clone()), "it", 5_000_000);
        let rule: String = rule.to_string().chars().take(50).collect();
        assert_eq!(violations.len(), 1, "{rule}: {violations:?}");
        assert!(violations[0].starts_with("it: is too expensive to validate with \""), "{rule}: {violations:?}");
    }
}

#[test]
fn long_names_above_many_others_use_no_memory() {
    let inner: serde_json::Map<String, Value> = (0..2000).map(|index| (format!("{index}"), json!({}))).collect();
    let schema = json!({ "properties": { ("x".repeat(100_000)): { "properties": inner } } });
    let counted = allocation_counter::measure(|| drop(Validator::of_value(&schema, Trust::Foreign).unwrap()));
    assert!(counted.bytes_max < 10_000_000, "{} bytes", counted.bytes_max);
}

#[test]
fn a_value_may_be_as_deep_as_a_message() {
    let schema =
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "items": { "$ref": "#/$defs/a" }, "type": "array" } } });
    let value = "[".repeat(127) + &"]".repeat(127);
    assert!(
        Validator::of_value(&schema, Trust::Foreign)
            .unwrap()
            .violations(&RawJson::parse(value).unwrap(), "it")
            .is_empty()
    );
    let mut deeper = json!(1);
    for _ in 0..128 {
        deeper = json!([deeper]);
    }
    let violations = Validator::of_value(&schema, Trust::Foreign).unwrap().violations(&RawJson::from(deeper), "it");
    assert_eq!(violations, ["it: nested deeper than 127 levels"]);
}
