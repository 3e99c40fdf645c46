//! Answers of every kind.

use http::header::{ALLOW, HeaderValue};
use http::{Response, StatusCode};
use turms_proto::jsonrpc::encode;
use turms_proto::{ErrorCode, ErrorObject, RequestId};

use super::body::{EventSource, HttpBody};

pub(super) type Answer = Response<HttpBody>;

pub(super) fn json(status: StatusCode, body: Vec<u8>) -> Answer {
    let mut answer = Response::new(HttpBody::json(body));
    *answer.status_mut() = status;
    answer
}

pub(super) fn events(source: impl EventSource + 'static) -> Answer {
    Response::new(HttpBody::events(source))
}

pub(super) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(HttpBody::empty());
    *answer.status_mut() = status;
    answer
}

/// A refusal, with the id of what it refuses if that could be read.
pub(super) fn error(status: StatusCode, id: Option<&RequestId>, error: &ErrorObject) -> Answer {
    if status.is_client_error() || status.is_server_error() {
        let id = id.map(tracing::field::display);
        tracing::debug!(
            status = status.as_u16(),
            id,
            code = error.code.0,
            reason = error.message,
            "a request is refused"
        );
    }
    let mut body = Vec::new();
    encode::failure(&mut body, id, error);
    json(status, body)
}

/// A refusal of what is wrong with the request as such.
pub(super) fn refuse(status: StatusCode, message: impl Into<String>) -> Answer {
    error(status, None, &ErrorObject::invalid_request(message))
}

/// A refusal for want of room.
pub(super) fn overloaded(status: StatusCode, id: Option<&RequestId>, message: impl Into<String>) -> Answer {
    let mut answer = error(status, id, &ErrorObject::internal(message));
    answer.headers_mut().insert(http::header::RETRY_AFTER, HeaderValue::from_static("5"));
    answer
}

pub(super) fn method_not_allowed(allowed: &'static str) -> Answer {
    let mut answer = refuse(StatusCode::METHOD_NOT_ALLOWED, format!("this address takes {allowed}"));
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

/// The status that goes with an error of the newest revision, which has a few of its own (basic/transports, "Streamable
/// HTTP"). Errors of handlers are answers like others.
pub(super) fn status_of(error: &ErrorObject) -> StatusCode {
    match error.code {
        ErrorCode::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        code if code.is_modern() => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// The status that goes with an error that was found before any handler was asked.
pub(super) fn status_of_refusal(error: &ErrorObject) -> StatusCode {
    match status_of(error) {
        StatusCode::OK => StatusCode::BAD_REQUEST,
        status => status,
    }
}
