//! The body of HTTP responses before the upgrade.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// The body of a response: the reason of a rejection, a document of the guard, or empty.
#[derive(Debug, Default)]
pub struct WsBody(Option<Bytes>);

#[cfg(feature = "server")]
impl From<Bytes> for WsBody {
    fn from(text: Bytes) -> Self {
        Self(Some(text).filter(|text| !text.is_empty()))
    }
}

#[cfg(feature = "server")]
impl From<WsBody> for turms_http::HttpBody {
    fn from(WsBody(text): WsBody) -> Self {
        text.map_or_else(Self::empty, Self::whole)
    }
}

impl http_body::Body for WsBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|text| Ok(Frame::data(text))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, Bytes::len) as u64)
    }
}
