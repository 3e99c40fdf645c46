//! Encoding of strings in header values.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::param::ParamType;

/// Encodes a string as a header value.
///
/// Use it for the values of [`NAME`](super::NAME) and of parameter headers. Visible ASCII with inner spaces stays
/// unchanged. Other strings are encoded as `=?base64?…?=`.
///
/// ```
/// use turms_proto::header::encode_value;
///
/// assert_eq!(encode_value("us-west 1"), "us-west 1");
/// assert_eq!(encode_value("Zürich"), "=?base64?WsO8cmljaA==?=");
/// ```
#[must_use]
pub fn encode_value(text: &str) -> Cow<'_, str> {
    let is_visible = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let is_padded = text.starts_with(' ') || text.ends_with(' ');
    let is_marked = text.starts_with(PREFIX) && text.ends_with(SUFFIX);
    if is_visible && !is_padded && !is_marked {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{PREFIX}{}{SUFFIX}", STANDARD.encode(text)))
}

/// Decodes a header value that was encoded as by [`encode_value`].
///
/// Surrounding spaces and tabs are ignored. A value without both markers is returned unchanged.
///
/// ```
/// use turms_proto::header::decode_value;
///
/// assert_eq!(decode_value(" us-west 1 ")?, "us-west 1");
/// assert_eq!(decode_value("=?base64?SGVsbG8=?=")?, "Hello");
/// assert_eq!(decode_value("=?base64?SGVsbG8=")?, "=?base64?SGVsbG8=");
/// # Ok::<(), turms_proto::header::HeaderError>(())
/// ```
///
/// # Errors
///
/// If the text between the markers is not canonical base64 in the standard alphabet, or not UTF-8 when decoded.
pub fn decode_value(value: &str) -> Result<Cow<'_, str>, HeaderError> {
    let value = value.trim_matches([' ', '\t']);
    let Some(encoded) = value.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX)) else {
        return Ok(Cow::Borrowed(value));
    };
    let bytes = STANDARD.decode(encoded).map_err(|_| HeaderError::Base64)?;
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| HeaderError::Utf8)
}

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// Error in encoding or decoding a header value.
///
/// Returned by [`decode_value`] for values of the peer, and by [`ParamHeaders::extract`](super::ParamHeaders::extract)
/// for arguments of the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The text between the markers is not base64.
    #[error("the text between \"=?base64?\" and \"?=\" is not standard base64 with canonical padding")]
    Base64,
    /// The decoded bytes are not UTF-8.
    #[error("the text between \"=?base64?\" and \"?=\" does not decode to UTF-8")]
    Utf8,
    /// An argument does not have the type that the tool's schema declares.
    #[error("argument {place:?} for header {header:?} is not of type {expected}")]
    ArgumentType {
        /// The header that mirrors the argument.
        header: String,
        /// A JSON pointer into the arguments.
        place: String,
        /// The type declared by the schema.
        expected: ParamType,
    },
    /// An integer argument is too large to be represented exactly by every JSON parser.
    #[error("argument {place:?} for header {header:?} is not between -(2^53-1) and 2^53-1")]
    ArgumentRange {
        /// The header that mirrors the argument.
        header: String,
        /// A JSON pointer into the arguments.
        place: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_text_stays_as_it_is() {
        for text in ["", "a", "a b", "~!\"#", "=?base64?", "?=", "=?base64?abc", "abc?=", "x=?base64?YQ==?="] {
            assert_eq!(encode_value(text), text);
            assert_eq!(decode_value(text), Ok(text.into()));
        }
    }

    #[test]
    fn other_text_is_encoded() {
        for (text, value) in [
            (" a", "=?base64?IGE=?="),
            ("a ", "=?base64?YSA=?="),
            (" ", "=?base64?IA==?="),
            ("a\tb", "=?base64?YQli?="),
            ("a\r\nb", "=?base64?YQ0KYg==?="),
            ("\u{7f}", "=?base64?fw==?="),
            ("é", "=?base64?w6k=?="),
            ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
            ("=?base64??=", "=?base64?PT9iYXNlNjQ/Pz0=?="),
            ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
        ] {
            assert_eq!(encode_value(text), value, "{text:?}");
            assert_eq!(decode_value(value), Ok(text.into()), "{text:?}");
        }
    }

    #[test]
    fn whitespace_around_a_value_is_stripped_before_the_markers_are_looked_for() {
        assert_eq!(decode_value("\t a b \t"), Ok("a b".into()));
        assert_eq!(decode_value(" =?base64?IGE=?= "), Ok(" a".into()));
        assert_eq!(decode_value("\u{a0}a"), Ok("\u{a0}a".into()));
    }

    #[test]
    fn a_value_without_both_markers_is_literal() {
        for value in ["SGVsbG8=", "=?base64?SGVsbG8=", "SGVsbG8=?=", "=?base64?=", "=?BASE64?SGVsbG8=?="] {
            assert_eq!(decode_value(value), Ok(value.into()));
        }
        assert_eq!(decode_value("=?base64??="), Ok("".into()));
    }

    #[test]
    fn base64_is_read_strictly() {
        for value in ["SGVsbG8", "SGVsbG8==", "!!!", "SGVs bG8=", " SGVsbG8=", "SGVsbG9=", "SGVsbG8=\n", "_-8=", "="] {
            assert_eq!(decode_value(&format!("=?base64?{value}?=")), Err(HeaderError::Base64), "{value}");
        }
        assert_eq!(decode_value("=?base64?/w==?="), Err(HeaderError::Utf8));
    }
}
