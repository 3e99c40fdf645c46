use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use turms_proto_derive::ProtocolObject;

use crate::json::{DecodeError, Object, RawJson};

/// A JSON-RPC error.
///
/// Failures of a tool are results ([`CallToolResult::error`](crate::types::CallToolResult::error)), not errors.
#[doc(alias = "McpError")]
#[doc(alias = "ErrorData")]
#[doc(alias = "JSONRPCError")]
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct ErrorObject {
    /// The error code.
    pub code: ErrorCode,
    /// Human-readable message.
    pub message: String,
    /// Additional data. Its format depends on the code.
    pub data: Option<RawJson>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl ErrorObject {
    /// Creates an error for text that is not JSON.
    pub fn parse_error(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::PARSE_ERROR, message)
    }

    /// Creates an error for JSON that is not a valid request, or not valid in the current state.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID_REQUEST, message)
    }

    /// Creates an error for an unknown method.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(ErrorCode::METHOD_NOT_FOUND, format!("method not found: {method}"))
    }

    /// Creates an error for parameters that do not match the method.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID_PARAMS, message)
    }

    /// Creates an internal error.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INTERNAL_ERROR, message)
    }

    /// Creates an error for a resource that does not exist.
    #[must_use]
    pub fn resource_not_found(uri: &str) -> Self {
        let mut data = Object::new();
        data.insert_raw("uri", &RawJson::string(uri));
        Self::new(ErrorCode::INVALID_PARAMS, format!("resource not found: {uri}")).data(data)
    }

    /// Returns `true` if the error says that a resource does not exist, in the format of any revision.
    #[must_use]
    pub fn is_resource_not_found(&self) -> bool {
        self.code == ErrorCode::RESOURCE_NOT_FOUND
            || self.code == ErrorCode::INVALID_PARAMS
                && self.data.as_ref().and_then(|data| data.member("uri")).is_some()
    }

    /// Decodes the data; `None` if there is none.
    #[must_use]
    pub fn data_as<'de, T: Deserialize<'de>>(&'de self) -> Option<Result<T, DecodeError>> {
        self.data.as_ref().map(RawJson::decode)
    }
}

impl fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for ErrorObject {}

/// Converts a decoding error of parameters. The message names the member, as in `params.name: missing field "name"`.
impl From<DecodeError> for ErrorObject {
    fn from(error: DecodeError) -> Self {
        Self::invalid_params(error.within("params").to_string())
    }
}

/// An error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_structs, reason = "a code is a number and nothing else")]
pub struct ErrorCode(pub i64);

impl ErrorCode {
    /// JSON-RPC: the text is not valid JSON.
    pub const PARSE_ERROR: Self = Self(-32700);
    /// JSON-RPC: not a valid request, or not valid in the current state.
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// JSON-RPC: the method does not exist.
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// JSON-RPC: the parameters are invalid. Since 2026-07-28 also: the resource does not exist.
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// JSON-RPC: an internal error of the responding side.
    pub const INTERNAL_ERROR: Self = Self(-32603);
    /// Until 2025-11-25: the resource does not exist.
    pub const RESOURCE_NOT_FOUND: Self = Self(-32002);
    /// 2025-11-25 only: the user must visit a URL first.
    pub const URL_ELICITATION_REQUIRED: Self = Self(-32042);
    /// Until 2025-11-25: the user rejected a sampling request.
    pub const USER_REJECTED: Self = Self(-1);
    /// Since 2026-07-28: an HTTP header is missing, malformed or contradicts the body.
    pub const HEADER_MISMATCH: Self = Self(-32020);
    /// Since 2026-07-28: the request requires a capability that the client did not declare.
    pub const MISSING_CLIENT_CAPABILITY: Self = Self(-32021);
    /// Since 2026-07-28: the server does not support the revision of the request.
    pub const UNSUPPORTED_VERSION: Self = Self(-32022);
    /// Turms servers: the rate limit is exceeded. `data.retryAfterMs` is the time to wait, in milliseconds.
    pub const RATE_LIMITED: Self = Self(-32050);
    /// Turms servers: the server is overloaded.
    pub const OVERLOADED: Self = Self(-32051);
    /// Turms servers: the call timed out.
    pub const TIMED_OUT: Self = Self(-32052);
    /// Turms servers: a dependency of the server is unavailable.
    pub const UNAVAILABLE: Self = Self(-32053);

    /// All codes defined by JSON-RPC, MCP or Turms, with their names.
    pub const NAMED: [(Self, &'static str); 15] = [
        (Self::PARSE_ERROR, "parse error"),
        (Self::INVALID_REQUEST, "invalid request"),
        (Self::METHOD_NOT_FOUND, "method not found"),
        (Self::INVALID_PARAMS, "invalid params"),
        (Self::INTERNAL_ERROR, "internal error"),
        (Self::RESOURCE_NOT_FOUND, "resource not found"),
        (Self::URL_ELICITATION_REQUIRED, "URL elicitation required"),
        (Self::USER_REJECTED, "user rejected"),
        (Self::HEADER_MISMATCH, "header mismatch"),
        (Self::MISSING_CLIENT_CAPABILITY, "missing client capability"),
        (Self::UNSUPPORTED_VERSION, "unsupported protocol version"),
        (Self::RATE_LIMITED, "rate limited"),
        (Self::OVERLOADED, "overloaded"),
        (Self::TIMED_OUT, "timed out"),
        (Self::UNAVAILABLE, "unavailable"),
    ];

    /// Returns the name of the code; `None` if it is not defined.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        Self::NAMED.iter().find(|(code, _)| *code == self).map(|(_, name)| *name)
    }

    /// Returns `true` if JSON-RPC defines the code.
    #[must_use]
    pub fn is_standard(self) -> bool {
        matches!(
            self,
            Self::PARSE_ERROR
                | Self::INVALID_REQUEST
                | Self::METHOD_NOT_FOUND
                | Self::INVALID_PARAMS
                | Self::INTERNAL_ERROR
        )
    }

    /// Returns `true` if the same request may succeed when it is sent again, which is so only for internal errors.
    /// Codes that the specification does not define return `false`.
    #[must_use]
    pub fn is_retriable(self) -> bool {
        self == Self::INTERNAL_ERROR
    }

    /// Returns `true` if only servers of 2026-07-28 or later send this code. Clients that probe for the revision rely
    /// on it.
    #[must_use]
    pub fn is_modern(self) -> bool {
        matches!(self, Self::HEADER_MISMATCH | Self::MISSING_CLIENT_CAPABILITY | Self::UNSUPPORTED_VERSION)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{} {name}", self.0),
            None => self.0.fmt(f),
        }
    }
}

impl From<i64> for ErrorCode {
    fn from(code: i64) -> Self {
        Self(code)
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.0)
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        i64::deserialize(deserializer).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names_and_kinds() {
        assert_eq!(ErrorCode::INVALID_PARAMS.to_string(), "-32602 invalid params");
        assert_eq!(ErrorCode(17).to_string(), "17");
        assert!(ErrorCode::PARSE_ERROR.is_standard() && !ErrorCode::HEADER_MISMATCH.is_standard());
        assert!(ErrorCode::INTERNAL_ERROR.is_retriable() && !ErrorCode(-32000).is_retriable());
        assert!(!ErrorCode::RESOURCE_NOT_FOUND.is_retriable() && !ErrorCode::INVALID_PARAMS.is_retriable());
    }

    #[test]
    fn a_missing_resource_is_recognised_in_both_dialects() {
        let error = ErrorObject::resource_not_found("file:///x");
        assert_eq!(error.data.as_ref().unwrap().as_str(), r#"{"uri":"file:///x"}"#);
        assert!(error.is_resource_not_found());
        assert!(ErrorObject::new(ErrorCode::RESOURCE_NOT_FOUND, "gone").is_resource_not_found());
        assert!(!ErrorObject::invalid_params("no name").is_resource_not_found());
    }
}
