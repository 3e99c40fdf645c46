//! What an answer is made of: nothing, one piece, or events as they come.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// The body of an answer.
pub struct HttpBody(Repr);

enum Repr {
    Whole(Option<Bytes>),
    Events(Pin<Box<dyn EventSource>>),
}

/// Where the pieces of a stream come from. Dropping it says that nobody reads any more.
pub(crate) trait EventSource: Send {
    fn poll_piece(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

impl HttpBody {
    /// Nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self(Repr::Whole(None))
    }

    /// One piece.
    #[must_use]
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Repr::Whole(Some(bytes.into()).filter(|bytes| !bytes.is_empty())))
    }

    pub(crate) fn events(source: impl EventSource + 'static) -> Self {
        Self(Repr::Events(Box::pin(source)))
    }
}

impl Body for HttpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut self.0 {
            Repr::Whole(bytes) => Poll::Ready(bytes.take()),
            Repr::Events(source) => source.as_mut().poll_piece(task),
        };
        piece.map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Repr::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Repr::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Repr::Events(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for HttpBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Repr::Whole(_) => "HttpBody::Whole",
            Repr::Events(_) => "HttpBody::Events",
        })
    }
}
