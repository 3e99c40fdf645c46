//! The fuzz target for header values.

use serde_json::Value;
use turms_proto::header::{
    HeaderLookup, ParamHeaders, check_method, check_name, check_version, decode_value, encode_value,
};

/// Fuzz target for header values. Checks that any text round-trips through a header value, and that a server accepts
/// the headers that a client derives from arguments.
pub fn header_value(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    assert_round_trip(&text);
    if let Ok(decoded) = decode_value(&text) {
        assert_round_trip(&decoded);
    }
    checks_do_not_panic(&text);
    let (schema, arguments) = text.split_once('\n').unwrap_or((&text, "{}"));
    if let Ok(schema) = serde_json::from_str(schema) {
        let arguments = serde_json::from_str(arguments).unwrap_or_default();
        assert_accepted(&schema, &arguments);
    }
}

fn assert_round_trip(text: &str) {
    let encoded = encode_value(text);
    assert!(is_header_text(&encoded), "{encoded:?}");
    assert_eq!(decode_value(&encoded).as_deref(), Ok(text));
    let name = HeaderLookup::One(&encoded);
    assert_eq!(check_name(name, "tools/call", Some(text)), Ok(()));
}

fn is_header_text(value: &str) -> bool {
    value.trim_matches(' ') == value && value.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

fn checks_do_not_panic(text: &str) {
    for found in [HeaderLookup::One(text), HeaderLookup::Absent, HeaderLookup::Repeated, HeaderLookup::NotText] {
        let results = [
            check_version(found, "2026-07-28"),
            check_method(found, "tools/call"),
            check_name(found, "tools/call", None),
            check_name(found, text, Some("name")),
        ];
        // The message of a mismatch contains the input.
        for mismatch in results.into_iter().filter_map(Result::err) {
            assert!(!mismatch.to_string().is_empty());
        }
    }
}

/// Checks that a server accepts the headers that a client derives from arguments, given the input schema of a tool.
fn assert_accepted(schema: &Value, arguments: &Value) {
    let headers = match ParamHeaders::from_schema(schema) {
        Ok(headers) => headers,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let Ok(sent) = headers.extract(arguments) else {
        assert!(headers.check(arguments, |_| HeaderLookup::Absent).is_err());
        return;
    };
    assert!(sent.iter().all(|(_, value)| is_header_text(value)), "{sent:?}");
    let received = |name: &str| {
        let found = sent.iter().find(|(sent, _)| sent.eq_ignore_ascii_case(name));
        HeaderLookup::from(found.map(|(_, value)| value.as_str()))
    };
    assert_eq!(headers.check(arguments, received), Ok(()), "{sent:?}");
}
