//! Property tests of header values and mirrored arguments.

use proptest::prelude::*;
use serde_json::{Value, json};
use turms_proto::header::{HeaderLookup, ParamHeaders, decode_value, encode_value};

proptest! {
    #[test]
    fn any_text_survives_as_a_header(text in text()) {
        let value = encode_value(&text);
        prop_assert_eq!(decode_value(&value).unwrap(), text.as_str());
    }

    #[test]
    fn an_encoded_value_is_visible_text_without_surrounding_whitespace(text in text()) {
        let value = encode_value(&text);
        prop_assert!(value.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{value:?}");
        prop_assert_eq!(value.trim(), value.as_ref());
    }

    #[test]
    fn whitespace_on_the_way_changes_nothing(text in text(), before in "[ \t]{0,3}", after in "[ \t]{0,3}") {
        let value = format!("{before}{}{after}", encode_value(&text));
        prop_assert_eq!(decode_value(&value).unwrap(), text);
    }

    #[test]
    fn no_header_makes_decoding_panic(value in text()) {
        let _ = decode_value(&value);
        let _ = decode_value(&format!("=?base64?{value}?="));
    }

    #[test]
    fn a_server_accepts_the_headers_that_a_client_extracts(arguments in arguments()) {
        let headers = headers();
        let sent = headers.extract(&arguments).unwrap();
        let lookup = |name: &str| {
            sent.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str()).into()
        };
        prop_assert_eq!(headers.check(&arguments, lookup), Ok(()));
    }

    #[test]
    fn a_server_accepts_only_the_encoded_string_argument(one in text(), other in text()) {
        let headers = headers();
        let arguments = json!({"region": one});
        let sent = encode_value(&other);
        let lookup = |name: &str| match name {
            "mcp-param-region" => HeaderLookup::One(&sent),
            _ => HeaderLookup::Absent,
        };
        prop_assert_eq!(headers.check(&arguments, lookup).is_ok(), one == other);
    }

    #[test]
    fn no_schema_and_arguments_make_extraction_panic(schema in schema(), arguments in schema()) {
        if let Ok(headers) = ParamHeaders::from_schema(&schema) {
            let _ = headers.extract(&arguments);
            let _ = headers.check(&arguments, |_| HeaderLookup::One("1"));
        }
    }
}

/// Text that is likely to need encoding, or to look encoded.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("=?base64?".to_owned()),
        Just("?=".to_owned()),
        Just("YQ==".to_owned()),
        "[ -~]{0,3}",
        "[ \t\r\n]{1,2}",
        any::<char>().prop_map(String::from),
    ];
    prop_oneof![proptest::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat()), any::<String>()]
}

fn headers() -> ParamHeaders {
    let schema = json!({"properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "nested": {"properties": {"flag": {"type": "boolean", "x-mcp-header": "Flag"}}},
    }});
    ParamHeaders::from_schema(&schema).expect("the annotations are valid")
}

fn arguments() -> impl Strategy<Value = Value> {
    const MAX_SAFE: i64 = (1 << 53) - 1;
    let region = proptest::option::of(text());
    let count = proptest::option::of(prop_oneof![-3_i64..3, -MAX_SAFE..=MAX_SAFE]);
    let flag = proptest::option::of(any::<bool>());
    (region, count, flag)
        .prop_map(|(region, count, flag)| json!({"region": region, "count": count, "nested": {"flag": flag}}))
}

/// JSON made of schema keywords, valid or not.
fn schema() -> impl Strategy<Value = Value> {
    let word = proptest::sample::select(vec![
        "type",
        "properties",
        "items",
        "anyOf",
        "x-mcp-header",
        "a",
        "b",
        "string",
        "integer",
        "$defs",
        "enum",
    ]);
    let leaf = prop_oneof![
        word.clone().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 5, move |inner| {
        let member = (word.clone().prop_map(ToOwned::to_owned), inner.clone());
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(Value::from),
            proptest::collection::vec(member, 0..5).prop_map(|members| members.into_iter().collect()),
        ]
    })
}
