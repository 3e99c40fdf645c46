//! Responses and their bodies: empty, one buffer, or an event stream.

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

/// The body of a response.
pub struct HttpBody {
    repr: BodyRepr,
    kind: ResponseBodyKind,
}

pub(super) enum BodyRepr {
    Whole(Option<Bytes>),
    /// Same as [`BodyRepr::Whole`], without a reference count.
    Written(Vec<u8>),
    Events(Pin<Box<dyn EventSource>>),
}

/// The media type of a body. Its headers are constant and need no header map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseBodyKind {
    /// Defined by the headers of the response.
    Other,
    Json,
    Events,
}

impl ResponseBodyKind {
    /// Returns the header lines for HTTP/1.1.
    pub(super) fn header_lines(self) -> &'static str {
        match self {
            Self::Other => "",
            Self::Json => "content-type: application/json\r\n",
            // The last two prevent proxies from buffering events.
            Self::Events => "content-type: text/event-stream\r\ncache-control: no-cache\r\nx-accel-buffering: no\r\n",
        }
    }

    fn insert_headers(self, headers: &mut HeaderMap) {
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

/// The source of an event stream. It is dropped when the client stops reading.
pub(crate) trait EventSource: Send {
    fn poll_piece(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

impl HttpBody {
    /// Creates an empty body.
    #[must_use]
    pub fn empty() -> Self {
        Self { repr: BodyRepr::Whole(None), kind: ResponseBodyKind::Other }
    }

    /// Creates a body from one buffer.
    #[must_use]
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = Some(bytes.into()).filter(|bytes| !bytes.is_empty());
        Self { repr: BodyRepr::Whole(bytes), kind: ResponseBodyKind::Other }
    }

    pub(super) fn json(json: Vec<u8>) -> Self {
        Self { repr: BodyRepr::Written(json), kind: ResponseBodyKind::Json }
    }

    pub(crate) fn events(source: impl EventSource + 'static) -> Self {
        Self { repr: BodyRepr::Events(Box::pin(source)), kind: ResponseBodyKind::Events }
    }

    /// Adds the headers of the body to the response, for hyper and other applications, which do not know [`ResponseBodyKind`].
    pub(super) fn with_headers(mut response: Response<Self>) -> Response<Self> {
        let kind = std::mem::replace(&mut response.body_mut().kind, ResponseBodyKind::Other);
        kind.insert_headers(response.headers_mut());
        response
    }

    pub(super) fn into_repr(self) -> (ResponseBodyKind, BodyRepr) {
        (self.kind, self.repr)
    }
}

impl Body for HttpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut self.repr {
            BodyRepr::Whole(bytes) => Poll::Ready(bytes.take()),
            BodyRepr::Written(bytes) => {
                Poll::Ready(Some(std::mem::take(bytes).into()).filter(|bytes: &Bytes| !bytes.is_empty()))
            }
            BodyRepr::Events(source) => source.as_mut().poll_piece(task),
        };
        piece.map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.repr {
            BodyRepr::Whole(bytes) => bytes.is_none(),
            BodyRepr::Written(bytes) => bytes.is_empty(),
            BodyRepr::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.repr {
            BodyRepr::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            BodyRepr::Written(bytes) => SizeHint::with_exact(bytes.len() as u64),
            BodyRepr::Events(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for HttpBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.repr {
            BodyRepr::Whole(_) | BodyRepr::Written(_) => "HttpBody::Whole",
            BodyRepr::Events(_) => "HttpBody::Events",
        })
    }
}

pub(super) type HttpResponse = Response<HttpBody>;

pub(super) fn json(status: StatusCode, body: Vec<u8>) -> HttpResponse {
    let mut answer = Response::new(HttpBody::json(body));
    *answer.status_mut() = status;
    answer
}

pub(super) fn events(source: impl EventSource + 'static) -> HttpResponse {
    Response::new(HttpBody::events(source))
}

pub(super) fn empty(status: StatusCode) -> HttpResponse {
    let mut answer = Response::new(HttpBody::empty());
    *answer.status_mut() = status;
    answer
}

/// Creates an error response, with the id of the request if it is known.
pub(super) fn error(status: StatusCode, id: Option<&RequestId>, error: &ErrorObject) -> HttpResponse {
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

/// Creates an error response for an invalid request.
pub(super) fn refuse(status: StatusCode, message: impl Into<String>) -> HttpResponse {
    error(status, None, &ErrorObject::invalid_request(message))
}

/// Creates an error response with `Retry-After` for an exceeded limit: of the client (429), or of the server (503).
pub(super) fn overloaded(status: StatusCode, id: Option<&RequestId>, message: impl Into<String>) -> HttpResponse {
    let is_of_client = status == StatusCode::TOO_MANY_REQUESTS;
    let code = if is_of_client { ErrorCode::RATE_LIMITED } else { ErrorCode::OVERLOADED };
    retry_later(status, id, code, message)
}

/// Creates an error response with `Retry-After` for a server that shuts down or has a failing store.
pub(super) fn unavailable(id: Option<&RequestId>, message: impl Into<String>) -> HttpResponse {
    retry_later(StatusCode::SERVICE_UNAVAILABLE, id, ErrorCode::UNAVAILABLE, message)
}

fn retry_later(
    status: StatusCode,
    id: Option<&RequestId>,
    code: ErrorCode,
    message: impl Into<String>,
) -> HttpResponse {
    let mut answer = error(status, id, &ErrorObject::new(code, message));
    answer.headers_mut().insert(http::header::RETRY_AFTER, HeaderValue::from_static("5"));
    answer
}

pub(super) fn method_not_allowed(allowed: &'static str) -> HttpResponse {
    let mut answer = refuse(StatusCode::METHOD_NOT_ALLOWED, format!("allowed methods: {allowed}"));
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

/// Returns the HTTP status for an error of a stateless revision (basic/transports, "Streamable HTTP"). Errors of
/// handlers have the status 200.
pub(super) fn status_of(error: &ErrorObject) -> StatusCode {
    match error.code {
        ErrorCode::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        code if code.is_modern() => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// Returns the HTTP status for an error that occurs before a handler is called.
pub(super) fn status_of_refusal(error: &ErrorObject) -> StatusCode {
    match status_of(error) {
        StatusCode::OK => StatusCode::BAD_REQUEST,
        status => status,
    }
}
