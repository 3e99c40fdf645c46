//! Decoding accepts the same input as `serde_json`, and reports the same paths as `serde_path_to_error`.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use turms_proto::types::{CallToolResult, Content, EmptyParams, Tool};
use turms_proto::{DecodeErrorKind, RawJson};

#[derive(Debug, PartialEq, Deserialize)]
struct Plain {
    a: i32,
    b: Option<String>,
    #[serde(default)]
    c: Vec<Choice>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Strict {
    a: Option<u8>,
    b: Option<Box<Self>>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
enum Choice {
    A,
    B(u8),
    C { a: bool },
    D(u8, String),
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Either {
    Number(f64),
    List(Vec<Self>),
    Plain(Plain),
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "a")]
enum Tagged {
    A { b: Newtype },
    B(BTreeMap<String, Value>),
}

#[derive(Debug, PartialEq, Deserialize)]
struct Newtype(Option<f32>);

#[derive(Debug, PartialEq, Deserialize)]
struct Flat {
    a: Option<Value>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Unit;

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..300).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        select(vec![0.5, -1.5, -0.0, 1e20]).prop_map(Value::from),
        select(vec!["", "a", "A", "B", "ä\n\"", "1"]).prop_map(Value::from),
    ];
    let name = select(vec!["a", "b", "c", "A", "B", "C", "D", "1", "-2", "true", "x\ty"]);
    scalar.prop_recursive(3, 16, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(name.clone().prop_map(str::to_owned), inner, 0..4)
                .prop_map(|map| Value::from(Map::from_iter(map))),
        ]
    })
}

/// Decodes a text with `serde_json`, with the path of the error.
fn expected<T: DeserializeOwned>(text: &str) -> Result<T, (String, String)> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = if error.path().iter().len() == 0 { String::new() } else { error.path().to_string() };
        let problem = error.inner().to_string();
        let end = problem.rfind(" at line ").unwrap_or(problem.len());
        (path, problem[..end].replace('`', "\""))
    })?;
    deserializer.end().map_err(|_| (String::new(), "trailing characters".to_owned()))?;
    Ok(value)
}

fn check<T: DeserializeOwned + PartialEq + std::fmt::Debug>(text: &str) {
    let found = turms_proto::decode::<T>(text).map_err(|error| (error.path().to_owned(), error.problem().to_owned()));
    assert_eq!(found, expected(text), "{text} as {}", std::any::type_name::<T>());
}

fn check_value<T: DeserializeOwned + PartialEq + std::fmt::Debug>(text: &str) {
    assert_eq!(turms_proto::decode::<T>(text).ok(), expected(text).ok(), "{text} as {}", std::any::type_name::<T>());
}

fn check_all(text: &str) {
    check::<Value>(text);
    check::<Plain>(text);
    check::<Strict>(text);
    check::<Choice>(text);
    check::<Vec<Choice>>(text);
    check::<Either>(text);
    check::<Tagged>(text);
    check::<Newtype>(text);
    check::<Flat>(text);
    check::<Unit>(text);
    check::<(u8, String)>(text);
    check::<Option<[i64; 2]>>(text);
    // For these, `serde_json` reports fewer details.
    check_value::<BTreeMap<i8, u64>>(text);
    check_value::<BTreeMap<bool, Value>>(text);
    check_value::<BTreeMap<Option<Choice>, Value>>(text);
    check_value::<BTreeMap<char, f64>>(text);
    check_value::<u128>(text);
    check_value::<i128>(text);
    check::<String>(text);
    check::<char>(text);
    check::<()>(text);
    check::<RawJson>(text);
    check::<Vec<RawJson>>(text);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn values_are_decoded_as_serde_json_decodes_them(value in value()) {
        check_all(&value.to_string());
        check_all(&format!(" {value:#} "));
    }
}

#[test]
fn edge_cases_are_decoded_as_serde_json_decodes_them() {
    for text in [
        "-0",
        "1e400",
        "-1e400",
        "18446744073709551616",
        "-9223372036854775809",
        "1.0",
        "256",
        r#""\ud800""#,
        r#""\u00e4""#,
        r#""\"\\\/\b\f\n\r\t\ud83d\ude00x""#,
        r#""\ud83d\u0041""#,
        r#""\ud83dx""#,
        r#"{"a":1,"a":2}"#,
        r#"{"a":"\ud800"}"#,
        r#"{"\u0061":1}"#,
        "[1,2,3]",
        r#"[1,"a"]"#,
        r#"{"A":null}"#,
        r#"{"B":300}"#,
        r#"{"C":{"a":1}}"#,
        r#"{"C":[true]}"#,
        r#"{"D":[1]}"#,
        r#"{"D":[1,"x",2]}"#,
        r#"{"a":"A","b":"x"}"#,
        r#""B""#,
        r#"{"01":1}"#,
        r#"{"1.5":1}"#,
        r#"{"300":1}"#,
        r#"{"a":0.1,"b":2.5e-3}"#,
    ] {
        check_all(text);
    }
    let number = json!(0.1 + 0.2).to_string();
    check::<f64>(&number);
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename = "$ref")]
struct Odd(String);

#[derive(Debug, PartialEq, Deserialize)]
struct Borrowed<'a> {
    #[serde(borrow)]
    bytes: &'a [u8],
}

#[test]
fn bytes_may_be_borrowed() {
    let found: Borrowed<'_> = turms_proto::decode(r#"{"bytes":"ab"}"#).unwrap();
    assert_eq!(found, Borrowed { bytes: b"ab" });
    assert!(turms_proto::decode::<Borrowed<'_>>(r#"{"bytes":"a\n"}"#).is_err());
}

#[test]
fn types_may_have_names_that_no_type_of_rust_has() {
    check::<Odd>(r#""a\"b""#);
}

#[test]
fn names_that_are_not_strings_are_refused() {
    for text in [r#"{"\ud800":1}"#, r#"{"a":{"\udc00":1}}"#, r#"{"a":1,"\ud83d\u0041":2}"#, r#"{"\ud800x":null}"#] {
        check_value::<Value>(text);
        check_value::<BTreeMap<String, Value>>(text);
        check_value::<Plain>(text);
        check_value::<Choice>(text);
        let error = turms_proto::decode::<Value>(text).unwrap_err();
        assert!(error.problem().contains("surrogate") || error.problem().contains("hex escape"), "{error}");
    }
}

#[test]
fn quoted_text_in_an_error_is_complete() {
    check::<u8>(r#""an error at line 5 of the file""#);
    check::<Choice>(r#""x at line 1""#);
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(try_from = "String")]
    struct Inner(u8);
    impl TryFrom<String> for Inner {
        type Error = serde_json::Error;
        fn try_from(text: String) -> Result<Self, Self::Error> {
            serde_json::from_str(&text).map(Inner)
        }
    }
    check::<Inner>(r#""[""#);
}

#[test]
fn invalid_json_is_an_error() {
    for text in ["", "{", "[1,]", "nul", "1 2", "\"a", "{\"a\" 1}", "{\"a\":1}}"] {
        let found = turms_proto::decode::<Value>(text).unwrap_err();
        assert_eq!(found.path(), "", "{text}");
        let expected = serde_json::from_str::<Value>(text).unwrap_err().to_string().replace('`', "\"");
        assert!(expected.starts_with(found.problem()), "{text}: {found} {expected}");
    }
    let deep = "[".repeat(130) + &"]".repeat(130);
    assert!(turms_proto::decode::<Value>(&deep).unwrap_err().problem().contains("recursion limit"));
}

const TOOL: &str = r#"{"name":"a","inputSchema":{"type":"object"},"later":1e400}"#;

#[derive(Debug, Deserialize)]
struct Holder {
    tools: Vec<Tool>,
    other: Option<Content>,
}

#[test]
fn a_protocol_type_inside_another_type_keeps_unknown_members_as_they_came() {
    let text = format!(r#"{{"tools":[{TOOL}, {TOOL} ],"other":null}}"#);
    let holders: [Holder; 2] = [turms_proto::decode(&text).unwrap(), serde_json::from_str(&text).unwrap()];
    for holder in holders {
        assert_eq!(holder.tools.len(), 2);
        assert!(holder.other.is_none());
        assert_eq!(holder.tools[1].extra.as_str(), r#"{"later":1e400}"#);
    }
}

#[test]
fn a_protocol_type_may_be_flattened_or_decoded_from_a_value() {
    #[derive(Deserialize)]
    struct Flat {
        #[serde(flatten)]
        block: Content,
    }
    for text in [r#"{"text":"a","type":"text"}"#, r#"{"type":"text","text":"a","_meta":{"b":1},"c":[2]}"#] {
        let flat: Flat = serde_json::from_str(text).unwrap();
        assert_eq!(flat.block.as_text(), Some("a"));
        let Content::Text(block) = flat.block else { panic!("{text}") };
        assert_eq!(block.meta.is_some(), block.extra.contains("c"));
    }
    let value = json!({ "content": [{ "type": "text", "text": "a" }] });
    assert_eq!(serde_json::from_value::<CallToolResult>(value).unwrap().text(), "a");
}

#[test]
fn the_path_leads_through_protocol_types() {
    let text = r#"{"tools":[{"name":"a","inputSchema":{},"icons":[{"src":1}]}],"other":null}"#;
    let error = turms_proto::decode::<Holder>(text).unwrap_err();
    assert_eq!(error.path(), "tools[0].icons[0].src");
    assert_eq!(error.problem(), "invalid type: integer \"1\", expected a string");
    assert_eq!(error.kind(), DecodeErrorKind::Shape);
    let error = turms_proto::decode::<Vec<Content>>(r#"[{"text":1,"type":"text"}]"#).unwrap_err();
    assert_eq!(error.to_string(), "[0]: text: invalid type: integer \"1\", expected a string");
}

#[test]
fn depth_is_limited_where_values_are_skipped_and_where_a_type_comes_late() {
    let deep = format!(r#"{{"later":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    let error = turms_proto::decode::<EmptyParams>(&deep).unwrap_err();
    assert_eq!((error.kind(), error.problem()), (DecodeErrorKind::Depth, "recursion limit exceeded"));
    let late = r#"{"content":["#.repeat(100_000) + &r#"],"toolUseId":"","type":"tool_result"}"#.repeat(100_000);
    assert!(serde_json::from_str::<Content>(&late).is_err());
}
