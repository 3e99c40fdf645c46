use std::fmt;
use std::sync::Arc;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Id of a request: an integer or a string. The integer `7` and the string `"7"` are different ids.
///
/// ```
/// # mod turms { pub use turms_proto as jsonrpc; }
/// use turms::jsonrpc::RequestId;
///
/// assert_eq!(RequestId::from(7).to_string(), "7");
/// assert_eq!(RequestId::from("7").to_string(), "\"7\"");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "JSON-RPC has these two kinds and MCP forbids the third, null")]
pub enum RequestId {
    /// An integer.
    Number(i64),
    /// A string.
    String(Arc<str>),
}

/// Token for progress notifications of a request; an integer or a string, like an id.
pub type ProgressToken = RequestId;

impl RequestId {
    /// Parses an id from a JSON value; `None` for values that MCP does not allow as ids: null, fractions, exponents,
    /// integers beyond 64 bits, other types, and strings with unpaired surrogates.
    pub(crate) fn from_json(text: &str) -> Option<Self> {
        if !text.starts_with('"') {
            return text.parse().ok().filter(|_| text != "-0").map(Self::Number);
        }
        let inside = text.get(1..text.len() - 1)?;
        if inside.contains('\\') {
            return super::super::json::string::unescape(inside).map(|text| Self::String(text.into()));
        }
        Some(Self::String(inside.into()))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::String(text) => write!(f, "{text:?}"),
        }
    }
}

impl From<i64> for RequestId {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<i32> for RequestId {
    fn from(number: i32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u32> for RequestId {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<&str> for RequestId {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for RequestId {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::String(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IdVisitor;

        impl Visitor<'_> for IdVisitor {
            type Value = RequestId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an integer")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<RequestId, E> {
                Ok(RequestId::Number(number))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<RequestId, E> {
                i64::try_from(number).map(RequestId::Number).map_err(|_| E::custom("the integer is beyond 64 bits"))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<RequestId, E> {
                Ok(RequestId::String(text.into()))
            }
        }

        deserializer.deserialize_any(IdVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_integers_and_strings_are_ids() {
        assert_eq!(RequestId::from_json("-5"), Some(RequestId::Number(-5)));
        assert_eq!(RequestId::from_json("\"-5\""), Some(RequestId::from("-5")));
        assert_eq!(RequestId::from_json(r#""\u0061""#), Some(RequestId::from("a")));
        assert_eq!(RequestId::from_json("9223372036854775807"), Some(RequestId::Number(i64::MAX)));
        for text in ["null", "1.5", "1.0", "1e3", "-0", "9223372036854775808", "true", "{}", r#""\ud800""#] {
            assert_eq!(RequestId::from_json(text), None, "{text}");
        }
    }
}
