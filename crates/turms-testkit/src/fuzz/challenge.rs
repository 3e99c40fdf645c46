//! The fuzz target for `WWW-Authenticate`.

use http::HeaderValue;
use turms_http::Challenge;

/// Fuzz target for `WWW-Authenticate`. Each line of the input is a header. Checks that challenges round-trip through one header each,
/// and through one header together.
pub fn challenge(data: &[u8]) {
    let lines: Vec<_> =
        data.split(|byte| *byte == b'\n').filter_map(|line| HeaderValue::from_bytes(line).ok()).collect();
    let challenges = Challenge::parse_all(&lines);
    let written: Vec<_> = challenges.iter().map(Challenge::to_header_value).collect();
    assert_eq!(Challenge::parse_all(&written), challenges);
    let line = challenges.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let line = HeaderValue::from_bytes(line.as_bytes()).expect("challenges are valid in a header");
    assert_eq!(Challenge::parse_all([&line]), challenges);
}
