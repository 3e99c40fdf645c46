//! The sockets of a listener and the streams of its connections.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};

/// A listening socket.
pub(super) enum Socket {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener),
}

impl Socket {
    /// Accepts a connection. Returns the client address for TCP only.
    pub(super) async fn accept(&self) -> io::Result<(ConnectionStream, Option<SocketAddr>)> {
        match self {
            Self::Tcp(socket) => {
                let (stream, peer) = socket.accept().await?;
                // Responses are written at once: waiting for more bytes would only delay them.
                let _ = stream.set_nodelay(true);
                Ok((ConnectionStream::Tcp(stream), Some(peer)))
            }
            #[cfg(unix)]
            Self::Unix(socket) => Ok((ConnectionStream::Unix(socket.accept().await?.0), None)),
        }
    }
}

/// The byte stream of an accepted connection.
pub(super) enum ConnectionStream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
    /// Boxed, because it has 1 232 bytes that a connection without TLS does not need.
    #[cfg(feature = "server-tls")]
    Tls(Box<tokio_rustls::server::TlsStream<Self>>),
}

macro_rules! each {
    ($this:expr, $method:ident $(, $argument:expr)*) => {
        match $this.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).$method($($argument),*),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).$method($($argument),*),
            #[cfg(feature = "server-tls")]
            Self::Tls(stream) => Pin::new(stream).$method($($argument),*),
        }
    };
}

impl AsyncRead for ConnectionStream {
    fn poll_read(self: Pin<&mut Self>, task: &mut TaskContext<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self, poll_read, task, buffer)
    }
}

impl AsyncWrite for ConnectionStream {
    fn poll_write(self: Pin<&mut Self>, task: &mut TaskContext<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        each!(self, poll_write, task, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        task: &mut TaskContext<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, poll_write_vectored, task, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        each!(self, poll_flush, task)
    }

    fn poll_shutdown(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        each!(self, poll_shutdown, task)
    }
}
