//! Tool arguments that are mirrored in headers.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Number, Value};

use super::annotation::{self, HeaderAnnotationError, pointer};
use super::mirror::{HeaderLookup, HeaderMismatch, Mirror};
use super::value::{HeaderError, encode_value};

/// The arguments of a tool that are mirrored in headers.
///
/// Both peers create it once from the input schema of the tool. For every call, a client [extracts](Self::extract) the
/// headers and a server [checks](Self::check) them. Header values end up in logs, so do not annotate secrets.
///
/// ```
/// use serde_json::json;
/// use turms_proto::header::{HeaderLookup, ParamHeaders};
///
/// let schema = json!({
///     "type": "object",
///     "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
/// });
/// let headers = ParamHeaders::from_schema(&schema)?;
///
/// let arguments = json!({"region": "eu"});
/// assert_eq!(headers.extract(&arguments)?, [("Mcp-Param-Region".to_owned(), "eu".to_owned())]);
///
/// assert!(headers.check(&arguments, |_| HeaderLookup::One("eu")).is_ok());
/// assert!(headers.check(&arguments, |_| HeaderLookup::One("us")).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParamHeaders {
    params: Vec<ParamHeader>,
}

impl ParamHeaders {
    /// Collects the `x-mcp-header` annotations of a tool's `inputSchema`.
    ///
    /// # Errors
    ///
    /// If an annotation is invalid: it must be a token that is unique regardless of case, on a property of type
    /// string, integer or boolean that is reached through `properties` alone. Or if the schema is nested more than
    /// [`MAX_SCHEMA_DEPTH`](super::MAX_SCHEMA_DEPTH) levels deep.
    pub fn from_schema(schema: &Value) -> Result<Self, HeaderAnnotationError> {
        annotation::collect(schema).map(|params| Self { params })
    }

    /// Returns the headers that a client sends with a call: names, such as `Mcp-Param-Region`, and encoded values.
    ///
    /// An argument that is null or absent has no header.
    ///
    /// # Errors
    ///
    /// If an argument does not have the declared type, or is an integer outside of ±(2^53−1).
    pub fn extract(&self, arguments: &Value) -> Result<Vec<(String, String)>, HeaderError> {
        let mut headers = Vec::new();
        for param in &self.params {
            if let Some(scalar) = param.scalar(arguments)? {
                headers.push((param.header.clone(), scalar.to_header().into_owned()));
            }
        }
        Ok(headers)
    }

    /// Compares the headers of a call with its arguments, as required of servers.
    ///
    /// `lookup` receives header names in lower case. `Mcp-Param-…` headers that the schema does not declare are ignored.
    ///
    /// # Errors
    ///
    /// If a header is missing, malformed or different, or present although the argument is absent. Or if an argument
    /// cannot be mirrored, for the same reasons as in [`extract`](Self::extract).
    pub fn check<'h>(
        &self,
        arguments: &Value,
        lookup: impl Fn(&str) -> HeaderLookup<'h>,
    ) -> Result<(), HeaderMismatch> {
        self.params.iter().try_for_each(|param| {
            let body = param.scalar(arguments).map_err(HeaderMismatch::Argument)?;
            let place = format!("/params/arguments{}", pointer(&param.path));
            let mirror = Mirror { header: &param.header, place: &place };
            mirror.check(lookup(&param.header.to_ascii_lowercase()), body, |value, body| body.matches_header(value))
        })
    }

    /// Iterates over the mirrored arguments.
    pub fn iter(&self) -> impl Iterator<Item = &ParamHeader> {
        self.params.iter()
    }

    /// Returns `true` if no argument is mirrored in a header.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.params.is_empty()
    }
}

/// An argument that is mirrored in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamHeader {
    header: String,
    path: Vec<String>,
    kind: ParamType,
}

impl ParamHeader {
    pub(super) fn new(name: &str, path: Vec<String>, kind: ParamType) -> Self {
        Self { header: format!("Mcp-Param-{name}"), path, kind }
    }

    /// Returns the full name of the header, such as `Mcp-Param-Region`, in the case of the annotation.
    #[must_use]
    pub fn header(&self) -> &str {
        &self.header
    }

    /// Returns the path of property names to the argument.
    #[must_use]
    pub fn path(&self) -> &[String] {
        &self.path
    }

    /// Returns the declared type of the argument.
    #[must_use]
    pub const fn kind(&self) -> ParamType {
        self.kind
    }

    /// Returns the value to mirror; `None` if the argument is null or absent.
    fn scalar<'v>(&self, arguments: &'v Value) -> Result<Option<Scalar<'v>>, HeaderError> {
        let value = self.path.iter().try_fold(arguments, |value, key| value.get(key));
        match (self.kind, value) {
            (_, None | Some(Value::Null)) => Ok(None),
            (ParamType::String, Some(Value::String(text))) => Ok(Some(Scalar::String(text))),
            (ParamType::Boolean, Some(Value::Bool(flag))) => Ok(Some(Scalar::Boolean(*flag))),
            (ParamType::Integer, Some(Value::Number(number))) => {
                let whole = integral(number).ok_or_else(|| self.wrong_type())?;
                let integer = to_safe_integer(whole).ok_or_else(|| self.out_of_range())?;
                Ok(Some(Scalar::Integer(integer)))
            }
            _ => Err(self.wrong_type()),
        }
    }

    fn wrong_type(&self) -> HeaderError {
        HeaderError::ArgumentType { header: self.header.clone(), place: pointer(&self.path), expected: self.kind }
    }

    fn out_of_range(&self) -> HeaderError {
        HeaderError::ArgumentRange { header: self.header.clone(), place: pointer(&self.path) }
    }
}

/// Type of an argument that is mirrored in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParamType {
    /// A string.
    String,
    /// An integer within ±(2^53−1).
    Integer,
    /// `true` or `false`.
    Boolean,
}

impl ParamType {
    /// Returns the type with this name in JSON Schema.
    pub(super) fn from_schema(name: &str) -> Option<Self> {
        match name {
            "string" => Some(Self::String),
            "integer" => Some(Self::Integer),
            "boolean" => Some(Self::Boolean),
            _ => None,
        }
    }
}

impl fmt::Display for ParamType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Boolean => "boolean",
        })
    }
}

/// A value that a header can mirror.
enum Scalar<'v> {
    String(&'v str),
    Integer(i64),
    Boolean(bool),
}

impl<'v> Scalar<'v> {
    fn to_header(&self) -> Cow<'v, str> {
        match *self {
            Self::String(text) => encode_value(text),
            Self::Integer(integer) => integer.to_string().into(),
            Self::Boolean(flag) => flag.to_string().into(),
        }
    }

    /// Returns `true` if the decoded header value equals this value.
    fn matches_header(&self, text: &str) -> bool {
        match *self {
            Self::String(own) => text == own,
            Self::Integer(own) => parse_integer(text) == Some(own),
            Self::Boolean(own) => text == if own { "true" } else { "false" },
        }
    }
}

/// Parses an integer as JSON does, including `42.0` and `4.2e1`, but without surrounding white space.
fn parse_integer(text: &str) -> Option<i64> {
    let is_bare = !text.starts_with(|c: char| c.is_whitespace()) && !text.ends_with(|c: char| c.is_whitespace());
    let number: Number = serde_json::from_str(text).ok().filter(|_| is_bare)?;
    to_safe_integer(integral(&number)?)
}

/// Returns the number as an integer; `None` if it has a fraction. A number outside the range of `i128` becomes its
/// minimum or maximum, which [`to_safe_integer`] rejects.
fn integral(number: &Number) -> Option<i128> {
    let integer = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    integer.or_else(|| number.as_f64().filter(|float| float.fract() == 0.0).map(|float| float as i128))
}

/// Returns the integer if it is in the range that every JSON parser represents exactly.
fn to_safe_integer(integer: i128) -> Option<i64> {
    const MAX_SAFE: i128 = (1 << 53) - 1;
    i64::try_from(integer).ok().filter(|_| (-MAX_SAFE..=MAX_SAFE).contains(&integer))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn headers() -> ParamHeaders {
        let schema = json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "page": {"type": "object", "properties": {"count": {"type": "integer", "x-mcp-header": "Count"}}},
            "dry": {"type": "boolean", "x-mcp-header": "Dry-Run"},
        }});
        ParamHeaders::from_schema(&schema).unwrap()
    }

    /// Returns the extracted headers as `name: value`, sorted.
    fn extracted(arguments: &Value) -> Vec<String> {
        let headers = headers().extract(arguments).unwrap();
        let mut lines: Vec<_> = headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        lines.sort();
        lines
    }

    /// Checks `arguments` against headers given by lower-case name.
    fn check(arguments: &Value, sent: &[(&str, &str)]) -> Result<(), HeaderMismatch> {
        headers().check(arguments, |name| sent.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).into())
    }

    #[test]
    fn present_arguments_become_headers() {
        let arguments = json!({"region": "Zürich", "page": {"count": -7}, "dry": true, "other": 1});
        assert_eq!(
            extracted(&arguments),
            ["Mcp-Param-Count: -7", "Mcp-Param-Dry-Run: true", "Mcp-Param-Region: =?base64?WsO8cmljaA==?="]
        );
        assert_eq!(extracted(&json!({"region": "", "dry": false})), ["Mcp-Param-Dry-Run: false", "Mcp-Param-Region: "]);
    }

    #[test]
    fn null_and_absent_arguments_have_no_header() {
        for arguments in [
            json!(null),
            json!({}),
            json!({"region": null, "page": null, "dry": null}),
            json!({"page": {}}),
            json!({"page": {"count": null}}),
            json!({"page": 1}),
            json!([1]),
        ] {
            assert_eq!(extracted(&arguments), [""; 0], "{arguments}");
            assert_eq!(check(&arguments, &[]), Ok(()));
        }
    }

    #[test]
    fn integers_are_written_in_decimal_and_must_be_safe() {
        let count = |number: Value| json!({"page": {"count": number}});
        for (number, text) in [
            (json!(9_007_199_254_740_991_i64), "9007199254740991"),
            (json!(-9_007_199_254_740_991_i64), "-9007199254740991"),
            (json!(42.0), "42"),
            (json!(1e3), "1000"),
            (json!(-0.0), "0"),
        ] {
            assert_eq!(extracted(&count(number)), [format!("Mcp-Param-Count: {text}")]);
        }
        for number in [json!(9_007_199_254_740_992_i64), json!(i64::MIN), json!(u64::MAX), json!(1e300), json!(-1e300)]
        {
            let error = headers().extract(&count(number)).unwrap_err();
            assert_eq!(
                error.to_string(),
                "argument \"/page/count\" for header \"Mcp-Param-Count\" is not between -(2^53-1) and 2^53-1"
            );
        }
        assert!(matches!(headers().extract(&count(json!(1.5))), Err(HeaderError::ArgumentType { .. })));
    }

    #[test]
    fn arguments_of_another_type_are_refused_on_both_sides() {
        for arguments in [
            json!({"region": 1}),
            json!({"region": ["a"]}),
            json!({"region": {}}),
            json!({"dry": "true"}),
            json!({"page": {"count": "1"}}),
        ] {
            let error = headers().extract(&arguments).unwrap_err();
            assert!(matches!(error, HeaderError::ArgumentType { .. }), "{arguments}");
            assert_eq!(check(&arguments, &[]), Err(HeaderMismatch::Argument(error)));
        }
    }

    #[test]
    fn what_is_extracted_passes_the_check() {
        for arguments in [
            json!({"region": " a ", "page": {"count": 42}, "dry": false}),
            json!({"region": ""}),
            json!({"region": "=?base64?YQ==?="}),
            json!({}),
        ] {
            let sent = headers().extract(&arguments).unwrap();
            let lower: Vec<_> = sent.iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
            let sent: Vec<_> = lower.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            assert_eq!(check(&arguments, &sent), Ok(()), "{arguments}");
        }
    }

    #[test]
    fn strings_are_compared_decoded_and_with_regard_to_case() {
        let arguments = json!({"region": "Hello"});
        for value in ["Hello", " Hello\t", "=?base64?SGVsbG8=?="] {
            assert_eq!(check(&arguments, &[("mcp-param-region", value)]), Ok(()), "{value}");
        }
        for value in ["hello", "", "SGVsbG8=", "=?base64?SGVsbG8=", "=?base64?SGVsbG8?=", "=?base64?!!!?="] {
            assert!(check(&arguments, &[("mcp-param-region", value)]).is_err(), "{value}");
        }
    }

    #[test]
    fn integers_are_compared_as_numbers() {
        for body in [json!(42), json!(42.0)] {
            let arguments = json!({"page": {"count": body}});
            for value in ["42", "42.0", "4.2e1", " 42 ", "=?base64?NDI=?="] {
                assert_eq!(check(&arguments, &[("mcp-param-count", value)]), Ok(()), "{value}");
            }
            let huge = "9".repeat(10_000);
            // The last one is " 42".
            for value in ["43", "42.5", "+42", "042", "0x2a", "", "4 2", "\"42\"", "1e999999", &huge, "=?base64?IDQy?="]
            {
                assert!(check(&arguments, &[("mcp-param-count", value)]).is_err(), "{value}");
            }
        }
    }

    #[test]
    fn booleans_are_written_in_lower_case() {
        assert_eq!(check(&json!({"dry": true}), &[("mcp-param-dry-run", "true")]), Ok(()));
        for value in ["True", "1", "false", ""] {
            assert!(check(&json!({"dry": true}), &[("mcp-param-dry-run", value)]).is_err());
        }
    }

    #[test]
    fn missing_and_unexpected_headers_are_mismatches() {
        assert_eq!(
            check(&json!({"region": ""}), &[]).unwrap_err().to_string(),
            "header \"Mcp-Param-Region\" is missing; it must repeat what the request body says at \
             \"/params/arguments/region\""
        );
        assert_eq!(
            check(&json!({"region": null}), &[("mcp-param-region", "")]).unwrap_err().to_string(),
            "header \"Mcp-Param-Region\" must not be sent; the request body has nothing at \
             \"/params/arguments/region\""
        );
    }

    #[test]
    fn malformed_headers_are_mismatches_and_unknown_ones_are_ignored() {
        let arguments = json!({"region": "eu"});
        for found in [HeaderLookup::Repeated, HeaderLookup::NotText] {
            assert!(headers().check(&arguments, |_| found).is_err());
        }
        assert_eq!(check(&arguments, &[("mcp-param-region", "eu"), ("mcp-param-other", "x")]), Ok(()));
    }

    #[test]
    fn mismatches_do_not_repeat_the_body() {
        let error = check(&json!({"region": "hidden"}), &[("mcp-param-region", "shown")]).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(shown.contains("shown") && !shown.contains("hidden"), "{shown}");
    }
}
