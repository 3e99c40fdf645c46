use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use turms_proto_derive::ProtocolObject;

use crate::json::{DecodeError, Object, RawJson};

/// Why a request could not be handled, as it goes over the wire.
///
/// A tool that ran and failed is a result ([`ToolResult::error`](crate::types::ToolResult::error)), not this.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct ErrorObject {
    /// What kind of error.
    pub code: ErrorCode,
    /// What went wrong, for people.
    pub message: String,
    /// What a program may want to know; its shape belongs to the code.
    pub data: Option<RawJson>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl ErrorObject {
    /// The text was not JSON.
    pub fn parse_error(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::PARSE_ERROR, message)
    }

    /// The JSON was not a request that may be made now.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID_REQUEST, message)
    }

    /// Nobody here answers `method`.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(ErrorCode::METHOD_NOT_FOUND, format!("method not found: {method}"))
    }

    /// The parameters do not fit the method.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID_PARAMS, message)
    }

    /// The fault is on this side.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INTERNAL_ERROR, message)
    }

    /// There is no resource at `uri`.
    #[must_use]
    pub fn resource_not_found(uri: &str) -> Self {
        let mut data = Object::new();
        data.insert_raw("uri", &RawJson::string(uri));
        Self::new(ErrorCode::INVALID_PARAMS, format!("resource not found: {uri}")).data(data)
    }

    /// Whether this says that a resource does not exist, in the words of any revision.
    #[must_use]
    pub fn is_resource_not_found(&self) -> bool {
        self.code == ErrorCode::RESOURCE_NOT_FOUND
            || self.code == ErrorCode::INVALID_PARAMS
                && self.data.as_ref().and_then(|data| data.member("uri")).is_some()
    }

    /// The data decoded into a type, if there is any.
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

/// Parameters that do not decode: the error names the member, as in `params.name: missing field "name"`.
impl From<DecodeError> for ErrorObject {
    fn from(error: DecodeError) -> Self {
        Self::invalid_params(error.within("params").to_string())
    }
}

/// The number that says what kind of error it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_structs, reason = "a code is a number and nothing else")]
pub struct ErrorCode(pub i64);

impl ErrorCode {
    /// JSON-RPC: the text was not JSON.
    pub const PARSE_ERROR: Self = Self(-32700);
    /// JSON-RPC: not a request, or not one that may be made now.
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// JSON-RPC: nobody answers this method.
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// JSON-RPC: the parameters do not fit; since 2026-07-28 also a resource that does not exist.
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// JSON-RPC: the fault is on the answering side.
    pub const INTERNAL_ERROR: Self = Self(-32603);
    /// Until 2025-11-25: there is no such resource.
    pub const RESOURCE_NOT_FOUND: Self = Self(-32002);
    /// 2025-11-25 only: the user has to visit a URL first.
    pub const URL_ELICITATION_REQUIRED: Self = Self(-32042);
    /// Until 2025-11-25: the user refused a sampling request.
    pub const USER_REJECTED: Self = Self(-1);
    /// Since 2026-07-28: an HTTP header is missing, malformed or contradicts the body.
    pub const HEADER_MISMATCH: Self = Self(-32020);
    /// Since 2026-07-28: the request needs a capability that its client did not declare.
    pub const MISSING_CLIENT_CAPABILITY: Self = Self(-32021);
    /// Since 2026-07-28: the request is of a revision that the server does not speak.
    pub const UNSUPPORTED_VERSION: Self = Self(-32022);
    /// Servers of Turms: the caller calls too often. `data.retryAfterMs` is the time to wait.
    pub const RATE_LIMITED: Self = Self(-32050);
    /// Servers of Turms: the server has too much to do.
    pub const OVERLOADED: Self = Self(-32051);
    /// Servers of Turms: the call took too long.
    pub const TIMED_OUT: Self = Self(-32052);
    /// Servers of Turms: something that the server depends on cannot be reached.
    pub const UNAVAILABLE: Self = Self(-32053);

    /// Every code that JSON-RPC, a revision of MCP or Turms gives a meaning, with its name.
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

    /// The name of a code that has a meaning.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        Self::NAMED.iter().find(|(code, _)| *code == self).map(|(_, name)| *name)
    }

    /// Whether the code is one of JSON-RPC's own.
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

    /// Whether the same request, sent again unchanged, may fare better: only if the fault was the answering side's. Codes
    /// that the specification gives no meaning get none here either.
    #[must_use]
    pub fn is_retriable(self) -> bool {
        self == Self::INTERNAL_ERROR
    }

    /// Whether only a server of 2026-07-28 or later answers with this code, which tells a probing client whom it talks to.
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
