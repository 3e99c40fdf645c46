//! The connection that a dialer returns.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::client::legacy::connect::{Connected, Connection};

/// A connection to a server, with TLS for `https://`.
pub type DialedStream = MaybeHttpsStream<RouteStream>;

/// A connection to a server or to its proxy, before TLS.
pub struct RouteStream {
    io: Box<dyn Io>,
    /// `true` if requests go to a proxy and need absolute URLs.
    is_forwarded: bool,
}

trait Io: Read + Write + Send + Unpin {}

impl<T: Read + Write + Send + Unpin> Io for T {}

impl RouteStream {
    /// Wraps a connection to the server, which may go through the tunnel of a proxy.
    pub(super) fn direct(io: impl Read + Write + Send + Unpin + 'static) -> Self {
        Self { io: Box::new(io), is_forwarded: false }
    }

    /// Wraps a connection to a proxy that forwards requests.
    pub(super) fn forwarded(io: impl Read + Write + Send + Unpin + 'static) -> Self {
        Self { io: Box::new(io), is_forwarded: true }
    }
}

impl Connection for RouteStream {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.is_forwarded)
    }
}

impl Read for RouteStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl Write for RouteStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }
}

impl fmt::Debug for RouteStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteStream").field("is_forwarded", &self.is_forwarded).finish_non_exhaustive()
    }
}
