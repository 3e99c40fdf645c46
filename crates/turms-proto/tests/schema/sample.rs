//! Difficult leaf values for schema nodes without structure.

use crate::json::Json;
use crate::random::Rng;

/// Returns any JSON value, as `{}` and unknown members allow.
pub(crate) fn anything(rng: &mut Rng, depth: usize) -> Json {
    match rng.below(if depth == 0 { 7 } else { 9 }) {
        0 => Json::Null,
        1 => Json::Bool(rng.one_in(2)),
        2 => Json::integer(integer(rng)),
        3 => wide_integer(rng),
        4 => number(rng),
        5 | 6 => Json::String(text(rng)),
        7 => {
            let items = 0..rng.below(4);
            Json::Array(items.map(|_| anything(rng, depth - 1)).collect())
        }
        _ => {
            let names = KEYS.iter().skip(rng.below(KEYS.len())).take(rng.below(4));
            let members = names.map(|name| ((*name).to_owned(), anything(rng, depth - 1)));
            Json::Object(members.collect())
        }
    }
}

/// Names for the members of free-form objects. None is a member name of the protocol.
pub(crate) const KEYS: &[&str] = &[
    "x-unknown-1",
    "",
    "com.example/feature",
    "ключ",
    "quote\"and\\slash",
    "with space",
    "line\nbreak",
    "😀",
    "$dollar",
    "__proto__",
];

/// Mostly small integers, sometimes negative or at the limits of 64 bits.
pub(crate) fn integer(rng: &mut Rng) -> i64 {
    match rng.below(16) {
        0..11 => rng.below(100) as i64,
        11 | 12 => -(rng.below(100) as i64),
        13 => (1 << 53) + rng.below(9) as i64,
        14 => i64::from(u32::MAX) + rng.below(9) as i64,
        _ => *rng.pick(&[i64::MAX, i64::MIN, i64::MAX - 1]),
    }
}

/// Integers beyond the precision of JavaScript, and some beyond that of `serde_json`.
fn wide_integer(rng: &mut Rng) -> Json {
    match rng.below(if CARRIES_ANY_NUMBER { 5 } else { 3 }) {
        0 => Json::integer(u64::MAX - rng.below(9) as u64),
        1 => Json::integer(i64::MIN + rng.below(9) as i64),
        2 => Json::integer((1_u64 << 53) + 1 + rng.below(9) as u64),
        3 => Json::Number(format!("-123456789012345678901234567890{}", rng.below(10))),
        _ => Json::Number((*rng.pick(&["1e400", "-2.5E-400", "0.1234567890123456789012"])).into()),
    }
}

/// `true` to generate numbers beyond 64 bits where the schema allows any value. Types that store such values as text
/// pass; rows that use `serde_json::Value` do not.
const CARRIES_ANY_NUMBER: bool = true;

/// Fractions and integers, some of them with a fraction of zero.
///
/// At most 15 digits and small exponents: outside of this binary, `serde_json` is built without `float_roundtrip` and
/// may round longer ones incorrectly.
pub(crate) fn number(rng: &mut Rng) -> Json {
    match rng.below(6) {
        0 => Json::integer(rng.below(1000) as i64 - 200),
        1 => Json::float(rng.below(100) as f64),
        2 => Json::float(rng.below(1_000_000) as f64 / -1000.0),
        3 => Json::float(*rng.pick(&[0.1, -0.0, 1e-7, 1e21, 123_456.789_012_345, 2.5e-10])),
        4 => Json::integer(1_i64 << 53),
        _ => Json::float(rng.below(1000) as f64 / 8.0),
    }
}

/// Returns a number between two bounds, including the bounds, in both formats.
pub(crate) fn number_between(rng: &mut Rng, low: f64, high: f64) -> Json {
    match rng.below(6) {
        0 => whole(low),
        1 => whole(high),
        2 => Json::float(low),
        3 => Json::float(high),
        _ => Json::float(low + (high - low) * (rng.below(1000) as f64 / 1000.0)),
    }
}

fn whole(bound: f64) -> Json {
    Json::integer(bound as i64)
}

/// Strings with a meaning in the protocol, for members that the schema declares as plain strings. Decoders branch on
/// some of them, so they must occur, also where they are meaningless.
pub(crate) fn vocabulary(member: &str) -> Option<&'static [&'static str]> {
    match member {
        "resultType" => Some(&["complete", "input_required"]),
        "protocolVersion" | "io.modelcontextprotocol/protocolVersion" => {
            Some(&["2024-11-05", "2025-06-18", "2026-07-28", "DRAFT-2026-v1"])
        }
        "method" => Some(&["tools/call", "notifications/progress", "ping", "x-vendor/method"]),
        "stopReason" => Some(&["endTurn", "stopSequence", "maxTokens", "toolUse"]),
        "mimeType" => Some(&["text/plain", "image/png", "text/html;profile=mcp-app"]),
        "lastModified" | "createdAt" | "lastUpdatedAt" => Some(&["2025-01-12T15:00:58Z"]),
        "$schema" => Some(&["https://json-schema.org/draft/2020-12/schema"]),
        _ => None,
    }
}

pub(crate) fn text(rng: &mut Rng) -> String {
    match rng.below(24) {
        0 => "long ".repeat(40 + rng.below(20)),
        1..3 => format!("{}{}", rng.pick(TEXTS), rng.pick(TEXTS)),
        3..9 => format!("text-{}", rng.below(1000)),
        _ => (*rng.pick(TEXTS)).to_owned(),
    }
}

const TEXTS: &[&str] = &[
    "",
    " ",
    "a",
    "hello, world",
    "null",
    "true",
    "42",
    "2.0",
    "{\"not\":\"an object\"}",
    "naïve café",
    "日本語テキスト",
    "👩‍👩‍👧‍👦 🏳️‍🌈",
    "e\u{301} is not é",
    "שלום مرحبا",
    "quote \" backslash \\ slash /",
    "line\nfeed\r\ntab\t",
    "\u{8}\u{c}\u{0}\u{1f}\u{7f}",
    "\u{2028}\u{2029}\u{feff}\u{fffd}",
    "\u{10ffff}\u{e000}",
    "</script><!--",
];

/// Returns a string of the given `format`. Panics for an unknown format, which would be untested otherwise.
pub(crate) fn formatted(rng: &mut Rng, format: &str) -> String {
    let choices = match format {
        "byte" => return base64(rng),
        "uri" => URIS,
        "uri-template" => URI_TEMPLATES,
        "date-time" => &["2025-01-12T15:00:58Z", "1990-12-31T23:59:59.25+01:00"],
        "date" => &["2025-01-12", "2024-02-29"],
        "email" => &["someone@example.com", "a.b+c@sub.example.org"],
        other => panic!("the generator cannot write strings of format {other:?}"),
    };
    (*rng.pick(choices)).to_owned()
}

/// Valid URIs that a normalizing parser would change: case, dots, ports, missing slashes.
const URIS: &[&str] = &[
    "https://example.com",
    "https://example.com/a/b?c=d&e=%20#f",
    "HTTPS://EXAMPLE.com:443/%7euser/../x/./y",
    "file:///home/user/r%C3%A9sum%C3%A9.txt",
    "file:///C:/Users/x%20y",
    "file://host/share",
    "urn:isbn:0451450523",
    "custom+scheme://host:8080/path;v=1",
    "data:image/png;base64,iVBORw0KGgo=",
    "http://[2001:db8::1]:80/",
    "git://user@host/repo.git",
    "note:",
    "a:b",
];

const URI_TEMPLATES: &[&str] = &[
    "",
    "plain",
    "file:///{path}",
    "file:///{+path}{#fragment}",
    "weather://{city}/{day:3}{?units,lang*}",
    "{/segments*}{;p}{&q}",
    "x:%20{a.b}",
];

/// Standard alphabet with padding and zeroed spare bits, so that decoding is lossless.
fn base64(rng: &mut Rng) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    let bytes: Vec<u8> = (0..rng.below(12)).map(|_| rng.next() as u8).collect();
    for chunk in bytes.chunks(3) {
        let group = (0..3).fold(0_u32, |group, at| group << 8 | u32::from(chunk.get(at).copied().unwrap_or_default()));
        for sextet in 0..4 {
            let index = (group >> (18 - 6 * sextet)) & 63;
            let padding = sextet > chunk.len();
            text.push(if padding { '=' } else { ALPHABET[index as usize].into() });
        }
    }
    text
}

/// Returns `true` if `text` is base64 as [`formatted`] writes it; `jsonschema` does not check `byte`.
pub(crate) fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    text.len().is_multiple_of(4) && text.len() - digits.len() <= 2 && digits.bytes().all(legal)
}
