use std::borrow::Cow;

use crate::json::layout::ParamsLayout;
use crate::json::scanner::{LineBreaks, Scanner};
use crate::json::string::{is_plain, unescape};
use crate::json::{SyntaxError, SyntaxErrorKind, decode};
use crate::jsonrpc::{ErrorCode, ErrorObject, RequestId};

/// A classified message that borrows from the received text. `params` and `result` are not decoded.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "JSON-RPC has these four and no more")]
pub enum Envelope<'a> {
    /// A request.
    Request {
        /// Id of the request.
        id: RequestId,
        /// Name of the method.
        method: Cow<'a, str>,
        /// The parameters, as the text of a JSON object.
        params: Option<&'a str>,
    },
    /// A notification.
    Notification {
        /// Name of the method.
        method: Cow<'a, str>,
        /// The parameters, as the text of a JSON object.
        params: Option<&'a str>,
    },
    /// A response with a result.
    Success {
        /// Id of the request.
        id: RequestId,
        /// The result, as the text of any JSON value, including `null`.
        result: &'a str,
    },
    /// A response with an error.
    Failure {
        /// Id of the request; `None` if the peer could not read it.
        id: Option<RequestId>,
        /// The error.
        error: ErrorObject,
    },
}

/// The messages in one received text.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "JSON-RPC has these two")]
pub enum Envelopes<'a> {
    /// One message.
    One(Envelope<'a>),
    /// A JSON array of messages, each valid or invalid on its own. Batches exist only in 2025-03-26.
    Batch(Vec<Result<Envelope<'a>, MessageError>>),
}

/// Error for text that is not a valid JSON-RPC message of MCP.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct MessageError {
    /// The id, if it could be read.
    pub id: Option<RequestId>,
    /// Kind of the message, as far as it could be determined.
    pub kind: MessageErrorKind,
    /// The error to respond with, if the message requires a response.
    pub error: Box<ErrorObject>,
}

/// Kind of an invalid message, as far as it could be determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageErrorKind {
    /// Not JSON, not an object, or an object without `method`, `result` and `error`.
    Unreadable,
    /// A request.
    Request,
    /// A notification. It must not receive a response.
    Notification,
    /// A response. It must not receive a response.
    Response,
}

impl MessageError {
    /// Returns `true` if an error response must be sent.
    #[must_use]
    pub fn expects_response(&self) -> bool {
        matches!(self.kind, MessageErrorKind::Unreadable | MessageErrorKind::Request)
    }

    fn unreadable(error: ErrorObject) -> Self {
        Self { id: None, kind: MessageErrorKind::Unreadable, error: Box::new(error) }
    }
}

impl From<SyntaxError> for MessageError {
    fn from(error: SyntaxError) -> Self {
        Self::unreadable(ErrorObject::parse_error(format!("not valid JSON: {error}")))
    }
}

impl<'a> Envelopes<'a> {
    /// Decodes JSON in one pass. Nothing is copied except escaped method names and string ids.
    ///
    /// `max_batch` is the maximum number of messages in an array.
    ///
    /// # Errors
    /// If the text as a whole is invalid. Invalid messages in an array are reported individually.
    pub fn decode(bytes: &'a [u8], max_batch: usize) -> Result<Self, MessageError> {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| SyntaxError { offset: error.valid_up_to(), kind: SyntaxErrorKind::InvalidUtf8 })?;
        Self::from_text(text, max_batch).map(|(envelopes, _, _)| envelopes)
    }

    /// Also returns the line breaks of the text, and the layout of the parameters of a single message.
    #[inline]
    pub(crate) fn from_text(text: &'a str, max_batch: usize) -> Result<(Self, LineBreaks, ParamsLayout), MessageError> {
        let mut scanner = Scanner::new(text);
        scanner.skip_space();
        let (envelopes, layout) = if scanner.peek() == Some(b'[') {
            (Self::Batch(batch(&mut scanner, max_batch)?), ParamsLayout::NONE)
        } else {
            let (envelope, layout) = one(&mut scanner)?;
            (Self::One(envelope), layout)
        };
        Ok((envelopes, scanner.line_breaks(), layout))
    }
}

#[inline]
fn one<'a>(scanner: &mut Scanner<'a>) -> Result<(Envelope<'a>, ParamsLayout), MessageError> {
    let mut fields = Fields::default();
    let is_object = fields.scan(scanner)?;
    scanner.finish()?;
    if !is_object {
        return Err(not_an_object());
    }
    Ok((fields.classify()?, fields.layout))
}

fn batch<'a>(scanner: &mut Scanner<'a>, limit: usize) -> Result<Vec<Result<Envelope<'a>, MessageError>>, MessageError> {
    // Check the whole array first: an incomplete batch is invalid as a whole.
    let mut elements = Vec::new();
    scanner.enter_array();
    while let Some(element) = scanner.next_element(elements.is_empty(), 1)? {
        if elements.len() == limit {
            let message = format!("a batch may hold at most {limit} messages");
            return Err(MessageError::unreadable(ErrorObject::invalid_request(message)));
        }
        elements.push(element);
    }
    scanner.finish()?;
    if elements.is_empty() {
        return Err(MessageError::unreadable(ErrorObject::invalid_request("a batch must not be empty")));
    }
    Ok(elements.into_iter().map(|element| one(&mut Scanner::new(element)).map(|(envelope, _)| envelope)).collect())
}

fn not_an_object() -> MessageError {
    MessageError::unreadable(ErrorObject::invalid_request("a message must be a JSON object"))
}

/// The members of a message, as text.
#[derive(Default)]
struct Fields<'a> {
    jsonrpc: Option<&'a str>,
    id: Option<&'a str>,
    method: Option<&'a str>,
    params: Option<&'a str>,
    result: Option<&'a str>,
    error: Option<&'a str>,
    duplicate: Option<&'static str>,
    /// Layout of `params`.
    layout: ParamsLayout,
}

impl<'a> Fields<'a> {
    /// Returns `false` if the value is not an object.
    fn scan(&mut self, scanner: &mut Scanner<'a>) -> Result<bool, SyntaxError> {
        if scanner.peek() != Some(b'{') {
            scanner.skip_value(0)?;
            return Ok(false);
        }
        scanner.each_member_with_layout("params", |key, value, layout| match key.plain() {
            Some(name) => self.fill(name, value, layout),
            None => self.fill(&key.name(), value, layout),
        })?;
        Ok(true)
    }

    #[inline]
    fn fill(&mut self, name: &str, value: &'a str, layout: ParamsLayout) {
        let (name, slot) = match name {
            "jsonrpc" => ("jsonrpc", &mut self.jsonrpc),
            "id" => ("id", &mut self.id),
            "method" => ("method", &mut self.method),
            "params" => {
                self.layout = layout;
                ("params", &mut self.params)
            }
            "result" => ("result", &mut self.result),
            "error" => ("error", &mut self.error),
            _ => return,
        };
        // With duplicate members, another parser could see a different message and bypass checks.
        if slot.replace(value).is_some() {
            self.duplicate = Some(name);
        }
    }

    fn classify(&self) -> Result<Envelope<'a>, MessageError> {
        if let Some(name) = self.duplicate {
            return Err(self.invalid(format!("member \"{name}\" appears twice")));
        }
        if self.jsonrpc != Some("\"2.0\"") && self.jsonrpc.and_then(string).as_deref() != Some("2.0") {
            return Err(self.invalid("member \"jsonrpc\" must be \"2.0\""));
        }
        match (self.method, self.result, self.error) {
            (Some(method), None, None) => self.call(method),
            (None, Some(result), None) => self.success(result),
            (None, None, Some(error)) => self.failure(error),
            (None, None, None) => Err(self.invalid("neither \"method\" nor \"result\" nor \"error\"")),
            (None, Some(_), Some(_)) => Err(self.invalid("\"result\" and \"error\" together")),
            (Some(_), ..) => Err(self.invalid("\"method\" together with \"result\" or \"error\"")),
        }
    }

    fn call(&self, method: &'a str) -> Result<Envelope<'a>, MessageError> {
        let Some(method) = string(method) else {
            return Err(self.invalid("member \"method\" must be a string"));
        };
        let params = match self.params {
            None | Some("null") => None,
            Some(params) if params.starts_with('{') => Some(params),
            Some(_) => {
                let mut invalid = self.invalid("member \"params\" must be an object");
                invalid.error.code = ErrorCode::INVALID_PARAMS;
                return Err(invalid);
            }
        };
        match self.id {
            None => Ok(Envelope::Notification { method, params }),
            Some(id) => match RequestId::from_json(id) {
                Some(id) => Ok(Envelope::Request { id, method, params }),
                None => Err(self.invalid("member \"id\" must be a string or an integer of 64 bits")),
            },
        }
    }

    fn success(&self, result: &'a str) -> Result<Envelope<'a>, MessageError> {
        match self.id.and_then(RequestId::from_json) {
            Some(id) => Ok(Envelope::Success { id, result }),
            None => Err(self.invalid("a response needs the id of its request")),
        }
    }

    fn failure(&self, error: &'a str) -> Result<Envelope<'a>, MessageError> {
        let id = match self.id {
            None | Some("null") => None,
            Some(id) => match RequestId::from_json(id) {
                Some(id) => Some(id),
                None => return Err(self.invalid("a response needs the id of its request")),
            },
        };
        match decode(error) {
            Ok(error) => Ok(Envelope::Failure { id, error }),
            Err(problem) => Err(self.invalid(problem.within("error").to_string())),
        }
    }

    fn invalid(&self, message: impl Into<String>) -> MessageError {
        let kind = match (self.method, self.result.or(self.error), self.id) {
            (Some(_), _, Some(_)) => MessageErrorKind::Request,
            (Some(_), _, None) => MessageErrorKind::Notification,
            (None, Some(_), _) => MessageErrorKind::Response,
            (None, None, _) => MessageErrorKind::Unreadable,
        };
        // With duplicate ids, it is unknown which one is meant.
        let id = if self.duplicate == Some("id") { None } else { self.id.and_then(RequestId::from_json) };
        MessageError { id, kind, error: Box::new(ErrorObject::invalid_request(message)) }
    }
}

/// Decodes a JSON string; `None` for other values and for unpaired surrogates.
fn string(value: &str) -> Option<Cow<'_, str>> {
    let inside = value.strip_prefix('"')?.strip_suffix('"')?;
    if is_plain(inside.as_bytes()) { Some(Cow::Borrowed(inside)) } else { unescape(inside).map(Cow::Owned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_one(text: &str) -> Result<Envelope<'_>, MessageError> {
        match Envelopes::decode(text.as_bytes(), 8)? {
            Envelopes::One(envelope) => Ok(envelope),
            Envelopes::Batch(_) => panic!("a batch: {text}"),
        }
    }

    fn refused(text: &str) -> (i64, MessageErrorKind, Option<RequestId>) {
        let invalid = decode_one(text).expect_err(text);
        (invalid.error.code.0, invalid.kind, invalid.id)
    }

    #[test]
    fn members_come_in_any_order_and_params_stay_text() {
        let text = r#" {"params" : {"a": 1e400} , "method":"tools\/call","id":"x","jsonrpc":"2.0","future":[]} "#;
        assert_eq!(
            decode_one(text).unwrap(),
            Envelope::Request { id: "x".into(), method: "tools/call".into(), params: Some(r#"{"a": 1e400}"#) }
        );
    }

    #[test]
    fn a_null_result_is_a_result_and_null_params_are_none() {
        let text = r#"{"jsonrpc":"2.0","id":1,"result":null}"#;
        assert_eq!(decode_one(text).unwrap(), Envelope::Success { id: 1.into(), result: "null" });
        let text = r#"{"jsonrpc":"2.0","method":"m","params":null}"#;
        assert_eq!(decode_one(text).unwrap(), Envelope::Notification { method: "m".into(), params: None });
    }

    #[test]
    fn an_error_may_lack_its_id() {
        for text in [
            r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"?"}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}"#,
        ] {
            let error = ErrorObject::parse_error("?");
            assert_eq!(decode_one(text).unwrap(), Envelope::Failure { id: None, error });
        }
    }

    #[test]
    fn what_is_not_json_is_a_parse_error() {
        for text in ["", "{", "{]", "nonsense", r#"{"jsonrpc":"2.0"} x"#, "[1", &"[".repeat(200)] {
            assert_eq!(refused(text), (-32700, MessageErrorKind::Unreadable, None), "{text}");
        }
        let invalid = Envelopes::decode(b"{\"a\":\"\xff\"}", 8).unwrap_err();
        assert_eq!(invalid.error.message, "not valid JSON: invalid UTF-8 at byte 6");
    }

    #[test]
    fn what_is_json_but_no_message_is_an_invalid_request_that_keeps_its_id() {
        use MessageErrorKind::*;
        for (text, kind, id) in [
            ("7", Unreadable, None),
            ("\"text\"", Unreadable, None),
            ("{}", Unreadable, None),
            (r#"{"jsonrpc":"2.0","id":4}"#, Unreadable, Some(4)),
            (r#"{"id":1,"method":"m"}"#, Request, Some(1)),
            (r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, Request, Some(1)),
            (r#"{"jsonrpc":2.0,"id":1,"method":"m"}"#, Request, Some(1)),
            (r#"{"jsonrpc":"2.0","method":5,"id":1}"#, Request, Some(1)),
            (r#"{"jsonrpc":"2.0","method":"\ud800","id":1}"#, Request, Some(1)),
            (r#"{"jsonrpc":"2.0","method":"m","id":null}"#, Request, None),
            (r#"{"jsonrpc":"2.0","method":"m","id":1.5}"#, Request, None),
            (r#"{"jsonrpc":"2.0","method":"m","id":92233720368547758080}"#, Request, None),
            (r#"{"jsonrpc":"2.0","method":"m","id":1,"id":2}"#, Request, None),
            (r#"{"jsonrpc":"2.0","method":"m","method":"n","id":1}"#, Request, Some(1)),
            (r#"{"jsonrpc":"2.0","method":"m","\u006dethod":"n"}"#, Notification, None),
            (r#"{"jsonrpc":"2.0","method":"m","result":1,"id":1}"#, Request, Some(1)),
            (r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":""}}"#, Response, Some(1)),
            (r#"{"jsonrpc":"2.0","id":null,"result":1}"#, Response, None),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}"#, Response, Some(1)),
        ] {
            assert_eq!(refused(text), (-32600, kind, id.map(RequestId::Number)), "{text}");
        }
    }

    #[test]
    fn params_must_be_an_object() {
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}"#;
        assert_eq!(refused(text), (-32602, MessageErrorKind::Request, Some(1.into())));
        let text = r#"{"jsonrpc":"2.0","method":"m","params":"x"}"#;
        assert!(!decode_one(text).unwrap_err().expects_response());
    }

    #[test]
    fn a_batch_judges_each_message_on_its_own() {
        let text = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}, 5, {"jsonrpc":"2.0","method":"n"}]"#;
        let Envelopes::Batch(messages) = Envelopes::decode(text.as_bytes(), 3).unwrap() else { panic!() };
        assert!(matches!(messages[0], Ok(Envelope::Request { .. })));
        assert_eq!(messages[1].as_ref().unwrap_err().error.code, ErrorCode::INVALID_REQUEST);
        assert!(matches!(messages[2], Ok(Envelope::Notification { .. })));
        let too_long = Envelopes::decode(text.as_bytes(), 2).unwrap_err();
        assert_eq!(too_long.error.message, "a batch may hold at most 2 messages");
        assert_eq!(Envelopes::decode(b"[]", 8).unwrap_err().error.message, "a batch must not be empty");
    }
}
