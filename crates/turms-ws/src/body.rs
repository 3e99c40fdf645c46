//! The body of upgrade requests, which is empty, and of their responses.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// The body of a response to an upgrade request: the reason of a rejection, a document of the guard, or empty.
#[derive(Debug, Default)]
pub struct WsBody(Option<Bytes>);

#[cfg(feature = "server")]
impl From<Bytes> for WsBody {
    fn from(content: Bytes) -> Self {
        Self(Some(content).filter(|content| !content.is_empty()))
    }
}

#[cfg(feature = "server")]
impl From<WsBody> for turms_http::HttpBody {
    fn from(WsBody(content): WsBody) -> Self {
        content.map_or_else(Self::empty, Self::whole)
    }
}

impl http_body::Body for WsBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|content| Ok(Frame::data(content))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, Bytes::len) as u64)
    }
}
