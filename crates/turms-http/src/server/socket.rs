use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

/// A connection as it was accepted. One type for all kinds, so that the code which talks to them is there once.
pub(super) enum Accepted {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

macro_rules! of_each {
    ($this:expr, $method:ident $(, $argument:expr)*) => {
        match $this.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).$method($($argument),*),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).$method($($argument),*),
        }
    };
}

impl AsyncRead for Accepted {
    fn poll_read(self: Pin<&mut Self>, task: &mut TaskContext<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        of_each!(self, poll_read, task, room)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(self: Pin<&mut Self>, task: &mut TaskContext<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        of_each!(self, poll_write, task, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        task: &mut TaskContext<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        of_each!(self, poll_write_vectored, task, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        of_each!(self, poll_flush, task)
    }

    fn poll_shutdown(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        of_each!(self, poll_shutdown, task)
    }
}
