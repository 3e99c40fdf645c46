//! The byte stream of a connection, and its read buffer.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};

#[cfg(feature = "server-http2")]
use super::rewind::Rewind;
use super::write_timeout::WriteTimeout;

/// Maximum number of bytes of one read, into a buffer on the stack.
const READ_LENGTH: usize = 16 * 1024;

/// Maximum number of buffered bytes that a client sends while its previous request is handled.
const MAX_READ_AHEAD: usize = 64 * 1024;

/// Timeout for draining the input after a rejected request. Closing a connection while the client is sending resets it,
/// and the client may then not read the response.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of bytes to drain.
const MAX_DRAIN: usize = 8 * 1024 * 1024;

pub(super) struct ConnectionIo<I> {
    pub(super) stream: WriteTimeout<I>,
    pub(super) input: BytesMut,
    /// `true` after input was dropped because the buffer was full: `input` then does not start with the next request.
    pub(super) has_dropped_input: bool,
}

impl<I> ConnectionIo<I> {
    pub(super) fn new(io: I, write_timeout: Duration) -> Self {
        Self { stream: WriteTimeout::new(io, write_timeout), input: BytesMut::new(), has_dropped_input: false }
    }

    #[cfg(feature = "server-http2")]
    pub(super) fn rewind(self) -> Rewind<I> {
        Rewind::new(self.input.freeze(), self.stream.into_inner())
    }

    /// Frees the buffer if it is empty.
    pub(super) fn release_buffer(&mut self) {
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
    }
}

impl<I: AsyncRead + AsyncWrite + Send + Unpin> ConnectionIo<I> {
    /// Reads the available input. An idle connection has no buffer.
    pub(super) fn poll_fill(&mut self, task: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut scratch = [const { MaybeUninit::uninit() }; READ_LENGTH];
        let mut read = ReadBuf::uninit(&mut scratch);
        ready!(Pin::new(&mut self.stream).poll_read(task, &mut read))?;
        self.input.extend_from_slice(read.filled());
        Poll::Ready(Ok(read.filled().len()))
    }

    /// Resolves when the client disconnects. Input that arrives meanwhile is buffered up to a limit. Beyond the limit
    /// it is read and dropped, in order to detect the end of the connection. The connection then closes after the
    /// response, and a client that pipelines has to send its other requests again (RFC 9112, 9.3.2).
    pub(super) fn poll_disconnected(&mut self, task: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.input.len() >= MAX_READ_AHEAD {
                self.input.clear();
                self.has_dropped_input = true;
            }
            match ready!(self.poll_fill(task)) {
                Ok(count) if count > 0 => {}
                _ => return Poll::Ready(()),
            }
        }
    }

    pub(super) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    /// Closes the connection, after draining the input if `drain` is `true`.
    pub(super) async fn close(&mut self, drain: bool) {
        let closing = async {
            if self.stream.shutdown().await.is_err() || !drain {
                return;
            }
            let mut drained = 0;
            while drained < MAX_DRAIN {
                self.input.clear();
                match std::future::poll_fn(|task| self.poll_fill(task)).await {
                    Ok(count) if count > 0 => drained += count,
                    _ => return,
                }
            }
        };
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, closing).await;
    }
}
