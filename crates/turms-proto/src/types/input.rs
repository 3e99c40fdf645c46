//! Multi round-trip requests (basic/utilities/mrtr, since 2026-07-28).

use indexmap::IndexMap;
use serde::de::Error as _;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use turms_proto_derive::ProtocolObject;

use crate::json::{Object, RawJson};
use crate::method::Method;
use crate::types::{
    CreateMessage, CreateMessageParams, Elicit, ElicitParams, EmptyParams, ListRoots, Meta, ResultType,
};

/// A request for input from the client. It has the parameters of the older server-to-client request, without the
/// envelope.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum InputRequest {
    /// Elicitation from the user.
    Elicit(Box<ElicitParams>),
    /// Sampling from the model.
    Sample(Box<CreateMessageParams>),
    /// The client's roots.
    Roots(EmptyParams),
}

impl InputRequest {
    /// Returns the method name of the request.
    #[must_use]
    pub fn method(&self) -> &'static str {
        match self {
            Self::Elicit(_) => Elicit::NAME,
            Self::Sample(_) => CreateMessage::NAME,
            Self::Roots(_) => ListRoots::NAME,
        }
    }
}

impl From<ElicitParams> for InputRequest {
    fn from(params: ElicitParams) -> Self {
        Self::Elicit(Box::new(params))
    }
}

impl From<CreateMessageParams> for InputRequest {
    fn from(params: CreateMessageParams) -> Self {
        Self::Sample(Box::new(params))
    }
}

impl Serialize for InputRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("method", self.method())?;
        match self {
            Self::Elicit(params) => map.serialize_entry("params", params)?,
            Self::Sample(params) => map.serialize_entry("params", params)?,
            Self::Roots(params) if *params == EmptyParams::new() => {}
            Self::Roots(params) => map.serialize_entry("params", params)?,
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for InputRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Object::deserialize(deserializer)?;
        let method: String = match value.get_as("method") {
            Some(method) => method.map_err(D::Error::custom)?,
            None => return Err(D::Error::missing_field("method")),
        };
        let params = value.get("params").unwrap_or_else(|| RawJson::from(Object::new()));
        let request = match method.as_str() {
            Elicit::NAME => params.decode().map(|params| Self::Elicit(Box::new(params))),
            CreateMessage::NAME => params.decode().map(|params| Self::Sample(Box::new(params))),
            ListRoots::NAME => params.decode().map(Self::Roots),
            _ => return Err(D::Error::custom(format_args!("unsupported input request {method:?}"))),
        };
        request.map_err(|error| D::Error::custom(error.within("params")))
    }
}

/// Input requests by key. The responses have the same keys.
pub type InputRequests = IndexMap<String, InputRequest>;

/// Responses by the keys of their input requests. The type of a response follows from its request.
pub type InputResponses = Object;

/// A result that asks for input. The client retries the request with the responses.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct InputRequiredResult {
    /// Type of the result. Default: [`ResultType::InputRequired`].
    #[object(default = ResultType::InputRequired)]
    pub result_type: Option<ResultType>,
    /// The input requests. If absent, the client retries later without input.
    pub input_requests: Option<InputRequests>,
    /// Opaque state that the client returns unchanged.
    pub request_state: Option<String>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl InputRequiredResult {
    /// Adds an input request.
    #[must_use]
    pub fn with_request(mut self, key: impl Into<String>, request: impl Into<InputRequest>) -> Self {
        self.input_requests.get_or_insert_default().insert(key.into(), request.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_read_by_their_method() {
        let text = r#"{"resultType":"input_required","inputRequests":{"roots":{"method":"roots/list"},"who":{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://a.example"}}},"requestState":"s"}"#;
        let round: InputRequiredResult = crate::decode(text).unwrap();
        assert_eq!(round.input_requests.as_ref().unwrap()["roots"].method(), "roots/list");
        assert_eq!(serde_json::to_string(&round).unwrap(), text);
    }

    #[test]
    fn other_questions_are_refused() {
        let error = crate::decode::<InputRequest>(r#"{"method":"tools/call","params":{}}"#).unwrap_err();
        assert_eq!(error.to_string(), "unsupported input request \"tools/call\"");
        let error = crate::decode::<InputRequest>(r#"{"method":"sampling/createMessage"}"#).unwrap_err();
        assert_eq!(error.to_string(), "params: missing field \"messages\"");
    }

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, when};

        let it = InputRequiredResult::new();
        let code = [(
            "InputRequiredResult::result_type",
            when(it.result_type == Some(ResultType::InputRequired), "[`ResultType::InputRequired`]"),
        )];
        assert_documented(include_str!("input.rs"), &code);
    }
}
