//! What an answer is made of: nothing, one piece, or events as they come.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame, SizeHint};

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
    pub(super) fn described(mut answer: http::Response<Self>) -> http::Response<Self> {
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
