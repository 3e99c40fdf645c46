//! Answers of every kind, and what they are made of: nothing, one piece, or events as they come.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use turms_proto::jsonrpc::encode;
use turms_proto::{ErrorCode, ErrorObject, RequestId};

/// The body of an answer.
pub struct HttpBody {
    repr: Repr,
    kind: Kind,
}

pub(super) enum Repr {
    Whole(Option<Bytes>),
    /// As [`Repr::Whole`], where nobody else holds it.
    Written(Vec<u8>),
    Events(Pin<Box<dyn EventSource>>),
}

/// What a body is, which the head of its answer says. Headers that are always the same need no map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// What its headers say.
    Other,
    Json,
    Events,
}

impl Kind {
    /// The headers that say so, as they are written.
    pub(super) fn lines(self) -> &'static str {
        match self {
            Self::Other => "",
            Self::Json => "content-type: application/json\r\n",
            // Proxies that gather answers before they pass them on would keep events from arriving.
            Self::Events => "content-type: text/event-stream\r\ncache-control: no-cache\r\nx-accel-buffering: no\r\n",
        }
    }

    fn describe(self, headers: &mut HeaderMap) {
        match self {
            Self::Other => {}
            Self::Json => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            }
            Self::Events => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
                headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
                headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
            }
        }
    }
}

/// Where the pieces of a stream come from. Dropping it says that nobody reads any more.
pub(crate) trait EventSource: Send {
    fn poll_piece(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

impl HttpBody {
    /// Nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self { repr: Repr::Whole(None), kind: Kind::Other }
    }

    /// One piece.
    #[must_use]
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = Some(bytes.into()).filter(|bytes| !bytes.is_empty());
        Self { repr: Repr::Whole(bytes), kind: Kind::Other }
    }

    pub(super) fn json(json: Vec<u8>) -> Self {
        Self { repr: Repr::Written(json), kind: Kind::Json }
    }

    pub(crate) fn events(source: impl EventSource + 'static) -> Self {
        Self { repr: Repr::Events(Box::pin(source)), kind: Kind::Events }
    }

    /// Says in the headers of an answer what its body is, for those who know no more than that.
    pub(super) fn described(mut answer: Response<Self>) -> Response<Self> {
        let kind = std::mem::replace(&mut answer.body_mut().kind, Kind::Other);
        kind.describe(answer.headers_mut());
        answer
    }

    pub(super) fn into_repr(self) -> (Kind, Repr) {
        (self.kind, self.repr)
    }
}

impl Body for HttpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut self.repr {
            Repr::Whole(bytes) => Poll::Ready(bytes.take()),
            Repr::Written(bytes) => {
                Poll::Ready(Some(std::mem::take(bytes).into()).filter(|bytes: &Bytes| !bytes.is_empty()))
            }
            Repr::Events(source) => source.as_mut().poll_piece(task),
        };
        piece.map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.repr {
            Repr::Whole(bytes) => bytes.is_none(),
            Repr::Written(bytes) => bytes.is_empty(),
            Repr::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.repr {
            Repr::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Repr::Written(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Repr::Events(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for HttpBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.repr {
            Repr::Whole(_) | Repr::Written(_) => "HttpBody::Whole",
            Repr::Events(_) => "HttpBody::Events",
        })
    }
}

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
