//! Challenges of `WWW-Authenticate` (RFC 9110, section 11.6.1).

use std::fmt::{self, Write as _};

use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, HeaderValue};

/// A challenge of `WWW-Authenticate`: a scheme with parameters or a token.
///
/// ```
/// use http::HeaderValue;
/// # mod turms { pub use turms_http as http; }
/// use turms::http::Challenge;
///
/// let value = HeaderValue::from_static(r#"Bearer error="invalid_token", scope="a b", Basic realm="x""#);
/// let challenges = Challenge::parse_all([&value]);
/// assert!(challenges[0].is_scheme("bearer"));
/// assert_eq!(challenges[0].get("scope"), Some("a b"));
///
/// let challenge = Challenge::new("Bearer").parameter("error", "invalid_token");
/// assert_eq!(challenge.to_string(), r#"Bearer error="invalid_token""#);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Challenge {
    /// The scheme, such as `Bearer`.
    pub scheme: String,
    /// The token of schemes without parameters, such as `Negotiate`.
    pub token68: Option<String>,
    /// The parameters, in order.
    pub parameters: Vec<(String, String)>,
}

impl Challenge {
    /// Creates a challenge without parameters.
    #[must_use]
    pub fn new(scheme: impl Into<String>) -> Self {
        Self { scheme: scheme.into(), token68: None, parameters: Vec::new() }
    }

    /// Adds a parameter.
    #[must_use]
    pub fn parameter(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.parameters.push((name.into(), value.into()));
        self
    }

    /// Parses the challenges of several header values, in order. Invalid parts are skipped.
    #[must_use]
    pub fn parse_all<'a>(values: impl IntoIterator<Item = &'a HeaderValue>) -> Vec<Self> {
        let mut challenges = Vec::new();
        for value in values {
            // Several lines are one list (RFC 9110, section 5.3), so that a line may begin with parameters of the last challenge.
            Parser { rest: value.as_bytes() }.parse(&mut challenges);
        }
        challenges
    }

    /// Parses the challenges of all `WWW-Authenticate` headers.
    #[must_use]
    pub fn of_headers(headers: &HeaderMap) -> Vec<Self> {
        Self::parse_all(headers.get_all(WWW_AUTHENTICATE))
    }

    /// Returns the first parameter of this name. Names are not case-sensitive.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns `true` if it has this scheme. Schemes are not case-sensitive.
    #[must_use]
    pub fn is_scheme(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }

    /// Returns the header value. Values of parameters are quoted. Characters that are invalid in a header are omitted from names, and
    /// are spaces in values.
    #[must_use]
    pub fn to_header_value(&self) -> HeaderValue {
        // All invalid characters are omitted or replaced, so this does not fail.
        HeaderValue::from_bytes(self.to_string().as_bytes()).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}

/// Writes the header value, as [`to_header_value`](Challenge::to_header_value).
impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_filtered(f, &self.scheme, is_token)?;
        if let Some(token) = &self.token68 {
            f.write_char(' ')?;
            write_filtered(f, token, is_token68)?;
        }
        for (index, (name, value)) in self.parameters.iter().enumerate() {
            f.write_str(if index == 0 && self.token68.is_none() { " " } else { ", " })?;
            write_filtered(f, name, is_token)?;
            f.write_str("=\"")?;
            for char in value.chars() {
                match char {
                    '"' | '\\' => write!(f, "\\{char}")?,
                    char if char.is_ascii_control() && char != '\t' => f.write_char(' ')?,
                    char => f.write_char(char)?,
                }
            }
            f.write_char('"')?;
        }
        Ok(())
    }
}

fn write_filtered(f: &mut fmt::Formatter<'_>, text: &str, is_valid: fn(u8) -> bool) -> fmt::Result {
    text.bytes().filter(|byte| is_valid(*byte)).try_for_each(|byte| f.write_char(char::from(byte)))
}

/// Parses one header value.
struct Parser<'a> {
    rest: &'a [u8],
}

impl<'a> Parser<'a> {
    fn parse(&mut self, challenges: &mut Vec<Challenge>) {
        loop {
            self.take_while(|byte| is_space(byte) || byte == b',');
            if self.rest.is_empty() {
                return;
            }
            let name = self.take_while(is_token);
            if name.is_empty() {
                self.skip_to_comma();
                continue;
            }
            let has_space = !self.take_while(is_space).is_empty();
            if self.rest.first() == Some(&b'=') {
                self.rest = &self.rest[1..];
                let value = self.value();
                // Parameters before the first scheme belong to no challenge.
                if let Some(challenge) = challenges.last_mut() {
                    challenge.parameters.push((text(name), value));
                }
            } else if has_space || matches!(self.rest.first(), None | Some(b',')) {
                challenges.push(Challenge { scheme: text(name), token68: self.token68(), parameters: Vec::new() });
            } else {
                self.skip_to_comma();
            }
        }
    }

    /// Takes a token68 if it is all that follows up to the next comma.
    fn token68(&mut self) -> Option<String> {
        let before = self.rest;
        let token = self.take_while(is_token68_start);
        if !token.is_empty() {
            let padding = self.take_while(|byte| byte == b'=');
            let whole = &before[..token.len() + padding.len()];
            self.take_while(is_space);
            // A single word may as well be the next scheme, but a list has commas between them.
            if matches!(self.rest.first(), None | Some(b',')) {
                return Some(text(whole));
            }
        }
        self.rest = before;
        None
    }

    /// Takes the value of a parameter: a token or a quoted string. Other unquoted values, such as URLs, are accepted.
    fn value(&mut self) -> String {
        self.take_while(is_space);
        match self.rest.strip_prefix(b"\"") {
            Some(quoted) => {
                self.rest = quoted;
                self.quoted()
            }
            None => text(self.take_while(|byte| !is_space(byte) && byte != b',')),
        }
    }

    /// Takes a quoted string after its first quote. One that does not end is the rest of the line.
    fn quoted(&mut self) -> String {
        let mut value = Vec::new();
        while let Some((&byte, rest)) = self.rest.split_first() {
            self.rest = rest;
            match byte {
                b'"' => break,
                b'\\' => {
                    if let Some((&escaped, rest)) = self.rest.split_first() {
                        value.push(escaped);
                        self.rest = rest;
                    }
                }
                byte => value.push(byte),
            }
        }
        text(&value)
    }

    /// Skips an invalid part up to the next comma that is not in a quoted string.
    fn skip_to_comma(&mut self) {
        while let Some((&byte, rest)) = self.rest.split_first() {
            match byte {
                b',' => return,
                b'"' => {
                    self.rest = rest;
                    self.quoted();
                }
                _ => self.rest = rest,
            }
        }
    }

    fn take_while(&mut self, matches: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.rest.iter().position(|byte| !matches(*byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Returns `true` for a character of a token (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns `true` for a character of a token68, without padding (RFC 9110, section 11.2).
fn is_token68_start(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte)
}

fn is_token68(byte: u8) -> bool {
    is_token68_start(byte) || byte == b'='
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(lines: &[&str]) -> Vec<Challenge> {
        let lines: Vec<_> = lines.iter().map(|line| HeaderValue::from_bytes(line.as_bytes()).unwrap()).collect();
        Challenge::parse_all(&lines)
    }

    fn bearer() -> Challenge {
        Challenge::new("Bearer")
    }

    fn token(scheme: &str, token: &str) -> Challenge {
        Challenge { token68: Some(token.to_owned()), ..Challenge::new(scheme) }
    }

    #[test]
    fn challenges_are_parsed() {
        let basic = || Challenge::new("Basic").parameter("realm", "x");
        let cases: &[(&[&str], Vec<Challenge>)] = &[
            (&[], vec![]),
            (&["", " , ,"], vec![]),
            (&["Bearer"], vec![bearer()]),
            (&["Bearer, Basic realm=x"], vec![bearer(), basic()]),
            (&["Bearer", "Basic realm=x"], vec![bearer(), basic()]),
            (
                &["Negotiate, Basic realm=\"x\",, DPoP algs=\"ES256 PS256\""],
                vec![Challenge::new("Negotiate"), basic(), Challenge::new("DPoP").parameter("algs", "ES256 PS256")],
            ),
            (&["Negotiate abc+/9==, Basic realm=x"], vec![token("Negotiate", "abc+/9=="), basic()]),
            (&["Negotiate oRM="], vec![token("Negotiate", "oRM=")]),
            (&["Bearer a = \"1\" ,\tb\t= 2"], vec![bearer().parameter("a", "1").parameter("b", "2")]),
            // A quoted string is data, whatever it contains.
            (
                &[r#"Bearer realm="x, error=\"y\"", error="z""#],
                vec![bearer().parameter("realm", r#"x, error="y""#).parameter("error", "z")],
            ),
            (&[r#"Bearer realm="a\\", b="c""#], vec![bearer().parameter("realm", r"a\").parameter("b", "c")]),
            (&[r#"Bearer realm="""#], vec![bearer().parameter("realm", "")]),
            // Commas are missing.
            (&[r#"Bearer realm="a" error="b""#], vec![bearer().parameter("realm", "a").parameter("error", "b")]),
            // A line continues the list of the line before.
            (&["Bearer realm=a", "error=b"], vec![bearer().parameter("realm", "a").parameter("error", "b")]),
            // Not a token, but common.
            (
                &["Bearer resource_metadata=https://a.b/c?d=e, f=g"],
                vec![bearer().parameter("resource_metadata", "https://a.b/c?d=e").parameter("f", "g")],
            ),
            // Invalid parts are skipped.
            (&["error=x, Bearer realm=a"], vec![bearer().parameter("realm", "a")]),
            (&[r#""Basic realm=1", Bearer realm=a"#], vec![bearer().parameter("realm", "a")]),
            (&[r#"Basic"realm=1, x=2", Bearer realm=a"#], vec![bearer().parameter("realm", "a")]),
            (
                &[r#"Bearer realm="never ends, error=x"#, "Basic realm=x"],
                vec![bearer().parameter("realm", "never ends, error=x"), basic()],
            ),
            (&[r#"Bearer realm="\"#], vec![bearer().parameter("realm", "")]),
            (&["Bearer =, Basic realm=x"], vec![basic()]),
            (&["Bearer realm=ü, error=\"ö\""], vec![bearer().parameter("realm", "ü").parameter("error", "ö")]),
        ];
        for (lines, expected) in cases {
            assert_eq!(&parse(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn names_are_not_case_sensitive_and_the_first_parameter_wins() {
        let challenge = &parse(&["bEARER Error=a, error=b"])[0];
        assert!(challenge.is_scheme("Bearer") && !challenge.is_scheme("Bear"));
        assert_eq!((challenge.get("ERROR"), challenge.get("err")), (Some("a"), None));
    }

    #[test]
    fn values_are_quoted_and_escaped() {
        let written = bearer().parameter("error", r#"a "b" \c"#).parameter("scope", "x y").to_header_value();
        assert_eq!(written, r#"Bearer error="a \"b\" \\c", scope="x y""#);
        assert_eq!(token("Negotiate", "ab==").to_string(), "Negotiate ab==");
        // Nothing can end the line or begin another challenge.
        let written = Challenge::new("Be\r\narer, x").parameter("a\" b", "c\r\nd").to_header_value();
        assert_eq!(written, "Bearerx ab=\"c  d\"");
    }

    fn challenges() -> impl Strategy<Value = Vec<Challenge>> {
        let name = "[a-zA-Z][a-zA-Z0-9!#$%&'*+.^_`|~-]{0,8}";
        let parameters = prop::collection::vec((name, "[^\\x00-\\x08\\x0a-\\x1f\\x7f]{0,12}"), 1..4);
        let with_parameters =
            (name, parameters).prop_map(|(scheme, parameters)| Challenge { scheme, token68: None, parameters });
        let with_token = (name, "[a-zA-Z0-9._~+/-]{1,12}={0,2}").prop_map(|(scheme, value)| token(&scheme, &value));
        let plain = name.prop_map(Challenge::new);
        prop::collection::vec(prop_oneof![with_parameters, with_token, plain], 0..5)
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..3)) {
            let lines: Vec<_> = lines.iter().filter_map(|line| HeaderValue::from_bytes(line).ok()).collect();
            let challenges = Challenge::parse_all(&lines);
            let written: Vec<_> = challenges.iter().map(Challenge::to_header_value).collect();
            prop_assert_eq!(Challenge::parse_all(&written), challenges);
        }

        #[test]
        fn written_challenges_are_read_again(challenges in challenges(), in_one_line: bool) {
            let texts: Vec<_> = challenges.iter().map(ToString::to_string).collect();
            let lines = if in_one_line { vec![texts.join(", ")] } else { texts };
            let lines: Vec<_> = lines.iter().map(|line| HeaderValue::from_bytes(line.as_bytes()).unwrap()).collect();
            prop_assert_eq!(Challenge::parse_all(&lines), challenges);
        }
    }
}
