//! Every keyword in every dialect that defines it: valid values, and the messages for invalid ones.

use serde_json::{Value, json};
use turms_proto::RawJson;
use turms_schema::{DEFAULT_MAX_VALIDATION_STEPS, Trust, Validator};

use crate::Violations as _;

const DRAFT_4: &str = "http://json-schema.org/draft-04/schema#";
const DRAFT_6: &str = "http://json-schema.org/draft-06/schema#";
const DRAFT_7: &str = "http://json-schema.org/draft-07/schema#";
const OF_2019: &str = "https://json-schema.org/draft/2019-09/schema";

fn violations(schema: &Value, value: &str) -> Vec<String> {
    let validator = Validator::of_value(schema, Trust::Foreign).unwrap_or_else(|error| panic!("{schema}: {error}"));
    validator.violations(&RawJson::parse(value.to_owned()).expect("valid JSON"), "it")
}

type Valid<'a> = &'a [&'a str];
type Invalid<'a> = &'a [(&'a str, &'a str)];

/// Schemas, valid texts, and invalid texts with their messages.
fn check(cases: &[(Value, Valid<'_>, Invalid<'_>)]) {
    for (schema, valid, invalid) in cases {
        for text in *valid {
            assert_eq!(violations(schema, text), [""; 0], "{schema} {text}");
        }
        for (text, words) in *invalid {
            assert_eq!(violations(schema, text), [*words], "{schema} {text}");
        }
    }
}

#[test]
fn rules_for_any_value() {
    check(&[
        (json!(true), &["1"], &[]),
        (json!(false), &[], &[("1", "it: False schema does not allow 1")]),
        (json!({ "type": "integer" }), &["1", "1.0", "-0", "1e3"], &[("1.5", "it: 1.5 is not of type \"integer\"")]),
        (
            json!({ "type": ["string", "null"] }),
            &["\"\"", "null"],
            &[("[]", "it: [] is not of types \"null\", \"string\"")],
        ),
        (json!({ "const": { "a": [1] } }), &["{\"a\": [1.0]}"], &[("{}", "it: {\"a\":[1]} was expected")]),
        (
            json!({ "enum": ["red", "green", null] }),
            &["\"red\"", "\"gr\\u0065en\"", "null"],
            &[("\"blue\"", "it: \"blue\" is not one of \"red\", \"green\" or null")],
        ),
    ]);
}

#[test]
fn rules_for_numbers() {
    check(&[
        (json!({ "minimum": 1.5 }), &["1.5", "\"a\""], &[("1", "it: 1 is less than the minimum of 1.5")]),
        (json!({ "maximum": 5 }), &["5.0"], &[("5.1", "it: 5.1 is greater than the maximum of 5")]),
        (json!({ "exclusiveMinimum": 1 }), &["1.1"], &[("1.0", "it: 1.0 is less than or equal to the minimum of 1")]),
        (
            json!({ "exclusiveMaximum": 18_446_744_073_709_551_615_u64 }),
            &["18446744073709551614"],
            &[(
                "18446744073709551615",
                "it: 18446744073709551615 is greater than or equal to the maximum of 18446744073709551615",
            )],
        ),
        (json!({ "multipleOf": 0.01 }), &["4.35", "0"], &[("4.355", "it: 4.355 is not a multiple of 0.01")]),
    ]);
}

#[test]
fn rules_for_texts() {
    check(&[
        (json!({ "minLength": 2 }), &["\"ab\"", "1"], &[("\"😀\"", "it: \"😀\" is shorter than 2 characters")]),
        (json!({ "maxLength": 1 }), &["\"😀\""], &[("\"ab\"", "it: \"ab\" is longer than 1 character")]),
        (json!({ "pattern": "^a" }), &["\"ab\"", "1"], &[("\"b\"", "it: \"b\" does not match \"^a\"")]),
        (
            json!({ "format": "date" }),
            &["\"2026-07-28\"", "1"],
            &[("\"28.7.2026\"", "it: \"28.7.2026\" is not a \"date\"")],
        ),
        (json!({ "format": "unheard-of", "contentEncoding": "base64" }), &["\"%\""], &[]),
        (
            json!({ "$schema": DRAFT_7, "contentEncoding": "base64" }),
            &["\"YQ==\""],
            &[("\"%\"", "it: \"%\" is not base64")],
        ),
        // Unsupported patterns are not enforced.
        (json!({ "pattern": "^(?!a)" }), &["\"a\""], &[]),
    ]);
}

#[test]
fn rules_for_arrays() {
    let unexpected = "it: Additional items are not allowed (2, 3 were unexpected)";
    check(&[
        (json!({ "minItems": 1 }), &["[1]", "{}"], &[("[]", "it: [] has less than 1 item")]),
        (json!({ "maxItems": 2 }), &["[1,2]"], &[("[1,2,3]", "it: [1,2,3] has more than 2 items")]),
        (json!({ "uniqueItems": true }), &["[1,\"1\"]"], &[("[1,1.0]", "it: [1,1.0] has non-unique elements")]),
        (json!({ "items": { "type": "null" } }), &["[]", "[null]"], &[("[1]", "it[0]: 1 is not of type \"null\"")]),
        (
            json!({ "prefixItems": [{ "type": "string" }], "items": false }),
            &["[\"a\"]", "[]"],
            &[("[\"a\",2,3]", unexpected), ("[1]", "it[0]: 1 is not of type \"string\"")],
        ),
        (
            json!({ "$schema": DRAFT_7, "items": [{ "type": "string" }], "additionalItems": false }),
            &["[\"a\"]"],
            &[("[\"a\",2,3]", unexpected)],
        ),
        (json!({ "$schema": DRAFT_7, "prefixItems": [false], "additionalItems": false }), &["[1]"], &[]),
        (
            json!({ "contains": { "const": 1 } }),
            &["[0,1]"],
            &[("[0]", "it: None of [0] are valid under the given schema")],
        ),
        (
            json!({ "contains": { "const": 1 }, "minContains": 2, "maxContains": 3 }),
            &["[1,1]", "[1,1,1]"],
            &[
                ("[1]", "it: [1] contains 1 matching item; at least 2 required"),
                ("[1,1,1,1]", "it: [1,1,1,1] contains 4 matching items; at most 3 allowed"),
            ],
        ),
        (json!({ "contains": false, "minContains": 0 }), &["[]", "[1]"], &[]),
    ]);
}

#[test]
fn rules_for_objects() {
    check(&[
        (json!({ "required": ["a"] }), &["{\"a\":null}", "[]"], &[("{}", "it: \"a\" is a required property")]),
        (json!({ "minProperties": 1 }), &["{\"a\":1}"], &[("{}", "it: {} has less than 1 property")]),
        (
            json!({ "maxProperties": 1 }),
            &["{\"a\":1,\"a\":2}"],
            &[("{\"a\":1,\"b\":2}", "it: {\"a\":1,\"b\":2} has more than 1 property")],
        ),
        (
            json!({ "properties": { "a b": { "type": "null" } } }),
            &["{}", "{\"a b\":null}"],
            &[("{\"a\\u0020b\":1}", "it.a b: 1 is not of type \"null\"")],
        ),
        (
            json!({ "properties": { "a": true }, "patternProperties": { "^x": { "type": "null" } }, "additionalProperties": false }),
            &["{\"a\":1,\"x1\":null}"],
            &[
                ("{\"x1\":1}", "it.x1: 1 is not of type \"null\""),
                ("{\"b\":1,\"c\":2}", "it: Additional properties are not allowed ('b', 'c' were unexpected)"),
            ],
        ),
        (
            json!({ "additionalProperties": { "type": "null" } }),
            &["{\"a\":null}"],
            &[("{\"a\":1}", "it.a: 1 is not of type \"null\"")],
        ),
        // The members of an unsupported pattern are unknown, so none is unexpected.
        (json!({ "patternProperties": { "^(?!a)": false }, "additionalProperties": false }), &["{\"a\":1}"], &[]),
        (
            json!({ "propertyNames": { "maxLength": 2 } }),
            &["{\"ab\":1}"],
            &[("{\"abc\":1}", "it: \"abc\" is longer than 2 characters")],
        ),
        (
            json!({ "dependentRequired": { "a": ["b"] } }),
            &["{}", "{\"a\":1,\"b\":2}"],
            &[("{\"a\":1}", "it: \"b\" is a required property")],
        ),
        (
            json!({ "dependentSchemas": { "a": { "required": ["b"] } } }),
            &["{}"],
            &[("{\"a\":1}", "it: \"b\" is a required property")],
        ),
        (
            json!({ "$schema": DRAFT_4, "dependencies": { "a": ["b"], "c": { "required": ["d"] } } }),
            &["{}"],
            &[("{\"a\":1}", "it: \"b\" is a required property"), ("{\"c\":1}", "it: \"d\" is a required property")],
        ),
    ]);
}

#[test]
fn rules_that_combine_schemas() {
    check(&[
        (
            json!({ "allOf": [{ "minimum": 1 }, { "maximum": 2 }] }),
            &["1"],
            &[("3", "it: 3 is greater than the maximum of 2")],
        ),
        (
            json!({ "anyOf": [{ "type": "integer" }, { "minimum": 1 }] }),
            &["0", "1.5"],
            &[("0.5", "it: 0.5 is not valid under any of the schemas listed in the 'anyOf' keyword")],
        ),
        (
            json!({ "anyOf": [{ "type": "null" }, { "minimum": 1 }] }),
            &["null", "1"],
            &[("0", "it: 0 is less than the minimum of 1")],
        ),
        (
            json!({ "anyOf": [{ "$ref": "#/$defs/tone" }, { "type": "null" }], "$defs": { "tone": { "enum": ["kind"] } } }),
            &["null", "\"kind\""],
            &[("\"rude\"", "it: \"rude\" is not one of \"kind\"")],
        ),
        (
            json!({ "oneOf": [{ "maximum": 1 }, { "minimum": 1 }] }),
            &["0", "2"],
            &[("1", "it: 1 is valid under more than one of the schemas listed in the 'oneOf' keyword")],
        ),
        (
            json!({ "oneOf": [{ "maximum": 1 }] }),
            &["0"],
            &[("2", "it: 2 is not valid under any of the schemas listed in the 'oneOf' keyword")],
        ),
        (json!({ "not": { "const": 1 } }), &["2"], &[("1", "it: {\"const\":1} is not allowed for 1")]),
        (
            json!({ "if": { "minimum": 0 }, "then": { "multipleOf": 2 }, "else": { "multipleOf": 3 } }),
            &["4", "-3"],
            &[("3", "it: 3 is not a multiple of 2"), ("-4", "it: -4 is not a multiple of 3")],
        ),
    ]);
}

#[test]
fn rules_for_unevaluated_members_and_items() {
    let members = json!({
        "$defs": { "a": { "properties": { "a": true } } },
        "$ref": "#/$defs/a",
        "anyOf": [{ "properties": { "b": { "const": 1 } }, "required": ["b"] }, true],
        "if": { "required": ["c"] }, "then": { "patternProperties": { "^c": true } },
        "unevaluatedProperties": false,
    });
    let items = json!({
        "allOf": [{ "prefixItems": [true] }], "contains": { "const": 7 }, "minContains": 0, "unevaluatedItems": { "type": "null" },
    });
    check(&[
        (
            members,
            &["{\"a\":1,\"b\":1,\"c\":1,\"cc\":1}"],
            &[
                ("{\"b\":2}", "it: Unevaluated properties are not allowed ('b' was unexpected)"),
                ("{\"cc\":1}", "it: Unevaluated properties are not allowed ('cc' was unexpected)"),
            ],
        ),
        (items, &["[1,7,null,7]"], &[("[1,2]", "it[1]: 2 is not of type \"null\"")]),
    ]);
}

#[test]
fn references_resolve_to_every_kind_of_name() {
    let complaint: &[(&str, &str)] = &[("1", "it: 1 is not of type \"null\"")];
    let nothing = json!({ "type": "null" });
    check(&[
        (json!({ "$ref": "#/$defs/a~1b%25", "$defs": { "a/b%": nothing } }), &["null"], complaint),
        (json!({ "$ref": "#x", "$defs": { "y": { "$anchor": "x", "type": "null" } } }), &["null"], complaint),
        (
            json!({ "$id": "http://a.example/b/c", "$ref": "../d", "$defs": { "y": { "$id": "/d", "type": "null" } } }),
            &["null"],
            complaint,
        ),
        (
            json!({ "$schema": DRAFT_6, "$ref": "#x", "definitions": { "y": { "$id": "#x", "type": "null" } } }),
            &["null"],
            complaint,
        ),
        (
            json!({ "$schema": DRAFT_4, "$ref": "y", "definitions": { "y": { "id": "y", "type": "null" } } }),
            &["null"],
            complaint,
        ),
        // Before 2019-09, keywords next to a reference were ignored.
        (
            json!({ "$schema": DRAFT_7, "$ref": "#/definitions/a", "type": "null", "definitions": { "a": true } }),
            &["1"],
            &[],
        ),
        (
            json!({ "$schema": OF_2019, "$ref": "#/$defs/a", "type": "null", "$defs": { "a": true } }),
            &["null"],
            complaint,
        ),
        (
            json!({ "$ref": "http://json-schema.org/draft-07/schema#" }),
            &["{\"type\":\"string\"}", "true"],
            &[("{\"type\":5}", "it: {\"type\":5} is not a JSON Schema")],
        ),
    ]);
}

#[test]
fn dynamic_references_resolve_to_the_outermost_anchor() {
    let tree = json!({
        "$id": "strict", "$dynamicAnchor": "node", "$ref": "tree", "unevaluatedProperties": false,
        "$defs": { "tree": {
            "$id": "tree", "$dynamicAnchor": "node",
            "properties": { "value": true, "sons": { "items": { "$dynamicRef": "#node" } } },
        } },
    });
    let complaint = "it.sons[0]: Unevaluated properties are not allowed ('valeu' was unexpected)";
    let recursive = json!({
        "$schema": OF_2019, "$id": "strict", "$recursiveAnchor": true, "$ref": "tree", "unevaluatedProperties": false,
        "$defs": { "tree": {
            "$id": "tree", "$recursiveAnchor": true,
            "properties": { "value": true, "sons": { "items": { "$recursiveRef": "#" } } },
        } },
    });
    for schema in [tree, recursive] {
        check(&[(schema, &["{\"sons\":[{\"value\":1}]}"], &[("{\"sons\":[{\"valeu\":1}]}", complaint)])]);
    }
}

#[test]
fn each_dialect_has_its_own_keywords() {
    check(&[
        (
            json!({ "$schema": DRAFT_4, "minimum": 1, "exclusiveMinimum": true }),
            &["2"],
            &[("1", "it: 1 is less than or equal to the minimum of 1")],
        ),
        (json!({ "$schema": DRAFT_4, "type": "integer" }), &["1"], &[("1.0", "it: 1.0 is not of type \"integer\"")]),
        (
            json!({ "$schema": DRAFT_4, "const": 1, "contains": false, "propertyNames": false }),
            &["2", "{\"a\":1}"],
            &[],
        ),
        (json!({ "$schema": DRAFT_6, "if": true, "then": false }), &["1"], &[]),
        (
            json!({ "$schema": DRAFT_7, "dependentRequired": { "a": ["b"] }, "unevaluatedProperties": false }),
            &["{\"a\":1}"],
            &[],
        ),
        (json!({ "$schema": DRAFT_7, "format": "uuid" }), &["\"x\""], &[]),
    ]);
}

#[test]
fn all_violations_are_listed_up_to_a_limit() {
    let schema = json!({ "properties": { "a": { "type": "null", "minimum": 5 } }, "required": ["b"] });
    let complaints = [
        "it: \"b\" is a required property",
        "it.a: 1 is not of type \"null\"",
        "it.a: 1 is less than the minimum of 5",
    ];
    assert_eq!(violations(&schema, "{\"a\":1}"), complaints);
    let many = violations(&json!({ "items": { "type": "null" } }), &format!("[{}1]", "1,".repeat(99)));
    assert_eq!((many.len(), many[7].as_str()), (8, "it[7]: 1 is not of type \"null\""));
    let long = violations(&json!({ "type": "null" }), &format!("\"{}\"", "ä".repeat(10_000)));
    assert!(long[0].len() < 300 && long[0].ends_with("… is not of type \"null\""), "{long:?}");
    let schema = json!({ "additionalProperties": { "type": "null" } });
    let long = violations(&schema, &format!("{{\"{}\":1}}", "x".repeat(10_000)));
    assert!(long[0].len() < 300 && long[0].ends_with("x…: 1 is not of type \"null\""), "{long:?}");
}

#[test]
fn integers_beyond_64_bits_are_validated() {
    let schema = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    for (schema, value) in [
        (schema(r#"{"const":12345678901234567890123}"#), "12345678901234567890123"),
        (schema(r#"{"enum":[-12345678901234567890123]}"#), "-12345678901234567890123"),
        (schema(r#"{"maximum":100000000000000000000000}"#), "100000000000000000000000"),
        (schema(r#"{"minimum":-100000000000000000000000}"#), "-100000000000000000000000"),
        (schema(r#"{"maximum":18446744073709551615}"#), "18446744073709551615"),
    ] {
        assert_eq!(violations(&schema, value), [""; 0], "{schema} {value}");
    }
    assert_eq!(violations(&json!({ "maximum": u64::MAX }), "18446744073709551616").len(), 1);
    assert!(
        violations(&json!({ "uniqueItems": true }), "[12345678901234567890123,12345678901234567890124]").is_empty()
    );
}

#[test]
fn each_duplicate_member_is_validated() {
    let schema = json!({ "properties": { "a": { "type": "null" } } });
    assert_eq!(violations(&schema, "{\"a\":1,\"a\":null}"), ["it.a: 1 is not of type \"null\""]);
    assert_eq!(violations(&schema, "{\"a\":null,\"a\":1}"), ["it.a: 1 is not of type \"null\""]);
}

#[test]
fn formats_may_be_annotations() {
    let check = |schema: &Value, value: &Value| {
        let validator = Validator::of_value(schema, Trust::Foreign).expect("a schema").formats_as_annotations();
        match validator.check_within(&RawJson::from(value.clone()), DEFAULT_MAX_VALIDATION_STEPS) {
            Ok(warnings) => (Vec::new(), warnings.iter().map(|warning| format!("it{warning}")).collect()),
            Err(error) => (error.messages("it"), Vec::new()),
        }
    };
    let date = json!({ "format": "date" });
    let words = "it: \"x\" is not a \"date\"";
    for schema in [&date, &json!({ "anyOf": [{ "type": "null", "allOf": [date] }, date] })] {
        assert_eq!(check(schema, &json!("x")), (Vec::new(), vec![words.to_owned()]));
    }
    // Formats are not reported for schemas that do not apply, and for values that are invalid for another reason.
    for (schema, is_valid) in [
        (json!({ "anyOf": [{ "allOf": [date, false] }, true] }), true),
        (json!({ "not": { "allOf": [date, false] } }), true),
        (json!({ "allOf": [date, { "type": "null" }] }), false),
    ] {
        let (violations, warnings) = check(&schema, &json!("x"));
        assert_eq!((violations.is_empty(), warnings), (is_valid, Vec::new()), "{schema}");
    }
    let mut draft_7 = date.clone();
    draft_7["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    assert_eq!(check(&draft_7, &json!("x")).0, [words]);
    assert_eq!(violations(&date, "\"x\""), [words]);
}
