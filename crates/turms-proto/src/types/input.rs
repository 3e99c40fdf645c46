//! Questions that end a round of a request (basic/utilities/mrtr, since 2026-07-28).

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

/// A question to the client: a request of the older dialect without its envelope.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum InputRequest {
    /// To the person.
    Elicit(Box<ElicitParams>),
    /// To the model.
    Sample(Box<CreateMessageParams>),
    /// For the roots.
    Roots(EmptyParams),
}

impl InputRequest {
    /// The method of the question.
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
            _ => return Err(D::Error::custom(format_args!("a client cannot be asked {method:?}"))),
        };
        request.map_err(|error| D::Error::custom(error.within("params")))
    }
}

/// Questions by the keys under which the answers are wanted.
pub type InputRequests = IndexMap<String, InputRequest>;

/// Answers by the keys of the questions. What type an answer has, the question says.
pub type InputResponses = Object;

/// A round that ends with questions: the client answers and makes the request again.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct InputRequired {
    /// That it is one.
    #[object(default = ResultType::InputRequired)]
    pub result_type: Option<ResultType>,
    /// The questions; none means "come back later".
    pub input_requests: Option<InputRequests>,
    /// What to send back as it is.
    pub request_state: Option<String>,
    /// Beside the subject.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl InputRequired {
    /// One more question.
    #[must_use]
    pub fn ask(mut self, key: impl Into<String>, request: impl Into<InputRequest>) -> Self {
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
        let round: InputRequired = crate::decode(text).unwrap();
        assert_eq!(round.input_requests.as_ref().unwrap()["roots"].method(), "roots/list");
        assert_eq!(serde_json::to_string(&round).unwrap(), text);
    }

    #[test]
    fn other_questions_are_refused() {
        let error = crate::decode::<InputRequest>(r#"{"method":"tools/call","params":{}}"#).unwrap_err();
        assert_eq!(error.to_string(), "a client cannot be asked \"tools/call\"");
        let error = crate::decode::<InputRequest>(r#"{"method":"sampling/createMessage"}"#).unwrap_err();
        assert_eq!(error.to_string(), "params: missing field \"messages\"");
    }
}
