//! JSON-RPC 2.0 as MCP uses it: ids, errors, envelopes and messages.

pub mod encode;
mod envelope;
mod error;
mod id;
mod lines;

use std::borrow::Cow;

use bytes::Bytes;
use bytestring::ByteString;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::envelope::{Envelope, Envelopes, MessageError, MessageErrorKind};
pub use self::error::{ErrorCode, ErrorObject};
pub use self::id::{ProgressToken, RequestId};
pub use self::lines::{LineTooLong, Lines};
use crate::MethodName;
use crate::json::layout::ParamsLayout;
use crate::json::scanner::LineBreaks;
use crate::json::{EncodeError, RawJson, SyntaxError, SyntaxErrorKind, on_one_line};
use crate::method::{Method, NotificationMethod};
use crate::revision::{method_info, unexpected_batch};

/// Default maximum number of messages in a batch.
pub const DEFAULT_BATCH_LIMIT: usize = 100;

/// A JSON-RPC message. The parts of a decoded message share its buffer.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "JSON-RPC has these three")]
pub enum Message {
    /// A request.
    Request(Request),
    /// A notification.
    Notification(Notification),
    /// A response.
    Response(Response),
}

/// A request of any method.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Request {
    /// Id of the request; the response has the same.
    pub id: RequestId,
    /// Name of the method.
    pub method: MethodName,
    /// The parameters, a JSON object.
    pub params: Option<RawJson>,
}

/// A notification of any method.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Notification {
    /// Name of the method.
    pub method: MethodName,
    /// The parameters, a JSON object.
    pub params: Option<RawJson>,
}

/// A response.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Response {
    /// Id of the request; `None` only in errors for a message with an unreadable id.
    pub id: Option<RequestId>,
    /// The result or the error.
    pub outcome: Result<RawJson, ErrorObject>,
}

/// The decoded content of one line or HTTP body: a message or a batch.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "JSON-RPC has these two")]
pub enum Incoming {
    /// One message.
    One(Message),
    /// An array of messages, each valid or invalid on its own. Batches exist only in 2025-03-26.
    Batch(Vec<Result<Message, MessageError>>),
}

impl Incoming {
    /// Decodes one line or HTTP body. The messages share `bytes`.
    ///
    /// # Errors
    /// If the text as a whole is invalid.
    pub fn decode(bytes: impl Into<Bytes>, max_batch: usize) -> Result<Self, MessageError> {
        Self::decode_bytes(bytes.into(), max_batch)
    }

    /// Returns the id of the request, if this is one request.
    #[must_use]
    pub fn request_id(&self) -> Option<&RequestId> {
        match self {
            Self::One(Message::Request(request)) => Some(&request.id),
            _ => None,
        }
    }

    fn decode_bytes(bytes: Bytes, max_batch: usize) -> Result<Self, MessageError> {
        let text = ByteString::try_from(bytes)
            .map_err(|error| SyntaxError { offset: error.valid_up_to(), kind: SyntaxErrorKind::InvalidUtf8 })?;
        let (envelopes, line_breaks, layout) = Envelopes::from_text(&text, max_batch)?;
        let message = |envelope| Message::from_envelope(&text, line_breaks, layout, envelope);
        Ok(match envelopes {
            Envelopes::One(envelope) => Self::One(message(envelope)),
            Envelopes::Batch(messages) => {
                Self::Batch(messages.into_iter().map(|envelope| envelope.map(message)).collect())
            }
        })
    }
}

impl Message {
    /// Decodes one message.
    ///
    /// # Errors
    /// If the text is not a valid message, or is a batch.
    pub fn decode(bytes: impl Into<Bytes>) -> Result<Self, MessageError> {
        match Incoming::decode(bytes, usize::MAX)? {
            Incoming::One(message) => Ok(message),
            Incoming::Batch(_) => {
                Err(MessageError { id: None, kind: MessageErrorKind::Unreadable, error: Box::new(unexpected_batch()) })
            }
        }
    }

    /// Appends the message to a buffer.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Request(request) => request.encode(out),
            Self::Notification(notification) => notification.encode(out),
            Self::Response(response) => response.encode(out),
        }
    }

    fn from_envelope(text: &ByteString, line_breaks: LineBreaks, layout: ParamsLayout, envelope: Envelope<'_>) -> Self {
        let raw = |part: &str| RawJson::trusted(on_one_line(text.slice_ref(part), line_breaks));
        // Joining lines keeps the length of the text, so the offsets in the layout stay valid.
        let params_of = |part: &str| RawJson::with_layout(on_one_line(text.slice_ref(part), line_breaks), layout);
        let name = |method: Cow<'_, str>| match method {
            // The static name of a known method does not keep the buffer alive and is cheap to clone.
            Cow::Borrowed(method) => match method_info(method) {
                Some(known) => MethodName::from_static(known.name),
                None => MethodName::shared(text.slice_ref(method)),
            },
            Cow::Owned(method) => method.into(),
        };
        match envelope {
            Envelope::Request { id, method, params } => {
                Self::Request(Request { id, method: name(method), params: params.map(params_of) })
            }
            Envelope::Notification { method, params } => {
                Self::Notification(Notification { method: name(method), params: params.map(params_of) })
            }
            Envelope::Success { id, result } => Self::Response(Response { id: Some(id), outcome: Ok(raw(result)) }),
            Envelope::Failure { id, error } => Self::Response(Response { id, outcome: Err(error) }),
        }
    }
}

impl Request {
    /// Creates a request of any method, also of one unknown to this crate.
    pub fn raw(id: impl Into<RequestId>, method: impl Into<MethodName>, params: Option<RawJson>) -> Self {
        Self { id: id.into(), method: method.into(), params }
    }

    /// Creates a request of a known method.
    ///
    /// # Errors
    /// If the parameters cannot be encoded as JSON.
    pub fn new<M: Method>(id: impl Into<RequestId>, params: &M::Params) -> Result<Self, EncodeError> {
        Ok(Self::raw(id, MethodName::from_static(M::NAME), Some(RawJson::encode(params)?)))
    }

    /// Decodes the parameters.
    ///
    /// # Errors
    /// -32602 with the name of the member, if they are invalid.
    pub fn params<M: Method>(&self) -> Result<M::Params, ErrorObject> {
        decode_params(self.params.as_ref())
    }

    /// Copies the method and parameters, so that they do not keep the buffer of the received message alive.
    pub fn detach(&mut self) {
        detach(&mut self.method, &mut self.params);
    }

    /// Appends the request to a buffer.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode::raw_call(out, Some(&self.id), &self.method, self.params.as_ref().map(RawJson::as_str));
    }
}

impl Notification {
    /// Creates a notification of any method, also of one unknown to this crate.
    pub fn raw(method: impl Into<MethodName>, params: Option<RawJson>) -> Self {
        Self { method: method.into(), params }
    }

    /// Creates a notification of a known method.
    ///
    /// # Errors
    /// If the parameters cannot be encoded as JSON.
    pub fn new<N: NotificationMethod>(params: &N::Params) -> Result<Self, EncodeError> {
        Ok(Self::raw(MethodName::from_static(N::NAME), Some(RawJson::encode(params)?)))
    }

    /// Decodes the parameters.
    ///
    /// # Errors
    /// -32602 with the name of the member, if they are invalid.
    pub fn params<N: NotificationMethod>(&self) -> Result<N::Params, ErrorObject> {
        decode_params(self.params.as_ref())
    }

    /// Copies the method and parameters, so that they do not keep the buffer of the received message alive.
    pub fn detach(&mut self) {
        detach(&mut self.method, &mut self.params);
    }

    /// Appends the notification to a buffer.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode::raw_call(out, None, &self.method, self.params.as_ref().map(RawJson::as_str));
    }
}

impl Response {
    /// Creates the response to the request `id`.
    pub fn new(id: impl Into<RequestId>, outcome: Result<RawJson, ErrorObject>) -> Self {
        Self { id: Some(id.into()), outcome }
    }

    /// Creates an error response to a message with an unreadable id.
    #[must_use]
    pub fn without_id(error: ErrorObject) -> Self {
        Self { id: None, outcome: Err(error) }
    }

    /// Appends the response to a buffer.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match (&self.id, &self.outcome) {
            (Some(id), Ok(result)) => encode::raw_success(out, id, result.as_str()),
            (id, Err(error)) => encode::failure(out, id.as_ref(), error),
            // Neither decoding nor a constructor creates this, but the fields are public.
            (None, Ok(_)) => {
                encode::failure(out, None, &ErrorObject::internal("a result without the id of its request"))
            }
        }
    }
}

fn detach(method: &mut MethodName, params: &mut Option<RawJson>) {
    // The names of known methods are static.
    if method_info(method).is_none() {
        *method = MethodName::from(method.as_str());
    }
    if let Some(params) = params {
        *params = params.detached();
    }
}

/// Decodes parameters. Absent parameters are decoded as an empty object, so that errors name the missing member.
fn decode_params<T: for<'de> Deserialize<'de>>(params: Option<&RawJson>) -> Result<T, ErrorObject> {
    let text = params.map_or("{}", RawJson::as_str);
    Ok(crate::json::decode_checked(text)?)
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = Vec::new();
        self.encode(&mut out);
        let text = String::from_utf8(out).map_err(serde::ser::Error::custom)?;
        RawJson::trusted(text.into()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = RawJson::deserialize(deserializer)?;
        Self::decode(text.as_str().to_owned()).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_message_share_its_buffer() {
        let bytes = Bytes::from(r#"{"jsonrpc":"2.0","id":1,"method":"tools/shout","params":{"name":"a"}}"#);
        let within = bytes.as_ptr_range();
        let Message::Request(request) = Message::decode(bytes.clone()).unwrap() else { panic!() };
        assert!(within.contains(&request.method.as_ptr()));
        assert!(within.contains(&request.params.as_ref().unwrap().as_str().as_ptr()));
        let mut out = Vec::new();
        request.encode(&mut out);
        assert_eq!(out, bytes);
    }

    #[test]
    fn members_are_found_whatever_the_layout_records() {
        let long = "x".repeat(100);
        for params in [
            format!(r#"{{"name":"a","arguments":{{"text":"{long}"}},"_meta":{{"a":1}}}}"#),
            format!(r#"{{"_meta":{{"a":"{long}"}},"name":"a","name":"b"}}"#),
            format!(r#"{{"\u005fmeta" : 1 ,"{long}":"{long}{long}","a":"{long}"}}"#),
            format!("{{\"_meta\":\n1,\n\"_meta\":[\n\"{long}\"\n],\"name\":2}}"),
            r#"{"name":1}"#.to_owned(),
            "{}".to_owned(),
        ] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{params}}}"#);
            let Message::Request(request) = Message::decode(text).unwrap() else { panic!() };
            let (with_layout, plain) = (request.params.unwrap(), RawJson::parse(params).unwrap());
            assert_eq!(with_layout, plain);
            assert_eq!(with_layout.meta(), plain.member("_meta"));
            let names = ["_meta", "name", "arguments", "a", long.as_str()];
            assert_eq!(with_layout.members(names), plain.members(names), "{plain}");
        }
    }

    #[test]
    fn a_message_over_many_lines_is_written_on_one() {
        let text = "{\"jsonrpc\":\"2.0\",\n\"method\":\"m\",\"params\":{\r\n\"a\":1}}";
        let mut out = Vec::new();
        Message::decode(text).unwrap().encode(&mut out);
        assert_eq!(out, br#"{"jsonrpc":"2.0","method":"m","params":{  "a":1}}"#);
    }

    #[test]
    fn a_batch_is_not_a_single_message() {
        let error = *Message::decode(r#"[{"jsonrpc":"2.0","method":"m"}]"#).unwrap_err().error;
        assert_eq!(error.code, ErrorCode::INVALID_REQUEST);
    }
}
