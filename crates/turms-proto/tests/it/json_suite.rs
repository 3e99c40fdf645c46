//! The public JSONTestSuite, parsed as a value and as part of a message.

use std::fs;

use turms_proto::RawJson;
use turms_proto::jsonrpc::Envelopes;
use turms_testkit::public_suite;

/// Cases that the standard leaves open and that are accepted: numbers of any size and unpaired surrogates are kept as
/// written until their value is needed.
const ACCEPTED: [&str; 20] = [
    "number_double_huge_neg_exp",
    "number_huge_exp",
    "number_neg_int_huge_exp",
    "number_pos_double_huge_exp",
    "number_real_neg_overflow",
    "number_real_pos_overflow",
    "number_real_underflow",
    "number_too_big_neg_int",
    "number_too_big_pos_int",
    "number_very_big_negative_int",
    "object_key_lone_2nd_surrogate",
    "string_1st_surrogate_but_2nd_missing",
    "string_1st_valid_surrogate_2nd_invalid",
    "string_incomplete_surrogate_and_escape_valid",
    "string_incomplete_surrogate_pair",
    "string_incomplete_surrogates_escape_valid",
    "string_invalid_lonely_surrogate",
    "string_invalid_surrogate",
    "string_inverted_surrogates_U+1D11E",
    "string_lone_second_surrogate",
];

/// Cases that the standard leaves open and that are rejected: invalid UTF-8, a byte order mark, and nesting deeper
/// than 127 levels.
const REFUSED: [&str; 15] = [
    "string_UTF-16LE_with_BOM",
    "string_UTF-8_invalid_sequence",
    "string_UTF8_surrogate_U+D800",
    "string_invalid_utf-8",
    "string_iso_latin_1",
    "string_lone_utf8_continuation_byte",
    "string_not_in_unicode_range",
    "string_overlong_sequence_2_bytes",
    "string_overlong_sequence_6_bytes",
    "string_overlong_sequence_6_bytes_null",
    "string_truncated-utf-8",
    "string_utf16BE_no_BOM",
    "string_utf16LE_no_BOM",
    "structure_500_nested_arrays",
    "structure_UTF-8_BOM_empty_object",
];

fn is_value(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| RawJson::parse(text.to_owned()).is_ok())
}

fn is_param(bytes: &[u8]) -> bool {
    let message = [br#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":"#, bytes, b"}}"].concat();
    Envelopes::decode(&message, 10).is_ok()
}

#[test]
fn the_public_suite_passes() {
    let Some(suite) = public_suite("json-parsing") else { return };
    let (mut valid, mut invalid, mut open) = (0, 0, 0);
    let mut problems = Vec::new();
    for entry in fs::read_dir(suite).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(name) = name.strip_suffix(".json") else { continue };
        let bytes = fs::read(&path).unwrap();
        let expected = match name.split_at(2) {
            ("y_", _) => {
                valid += 1;
                true
            }
            ("n_", _) => {
                invalid += 1;
                false
            }
            ("i_", rest) => {
                open += 1;
                if !ACCEPTED.contains(&rest) && !REFUSED.contains(&rest) {
                    problems.push(format!("{name} is not listed"));
                }
                ACCEPTED.contains(&rest)
            }
            _ => panic!("{name}"),
        };
        if is_value(&bytes) != expected {
            problems.push(format!("{name} as a value: {}", !expected));
        }
        if is_param(&bytes) != expected {
            problems.push(format!("{name} as a parameter: {}", !expected));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert_eq!((valid, invalid, open), (95, 188, ACCEPTED.len() + REFUSED.len()));
}
