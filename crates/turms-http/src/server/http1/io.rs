//! The byte stream under a connection, and what was read of it and not used yet.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};

use super::rewind::Rewind;
use super::write_timeout::Stall;

/// How much is read at once.
const SCRATCH: usize = 16 * 1024;

/// Maximum number of bytes kept of what a client sends while its last request is answered.
const AHEAD: usize = 64 * 1024;

/// How long and for how much a client is heard that is told that nobody listens, so that it can read why.
const LAST_WORDS: Duration = Duration::from_secs(1);
const LAST_BYTES: usize = 8 * 1024 * 1024;

pub(super) struct Io<I> {
    pub(super) stream: Stall<I>,
    pub(super) input: BytesMut,
    /// Set when more was sent ahead than is kept: what is in `input` then is not what comes next.
    pub(super) has_dropped_input: bool,
}

impl<I> Io<I> {
    pub(super) fn new(io: I, write_timeout: Duration) -> Self {
        Self { stream: Stall::new(io, write_timeout), input: BytesMut::new(), has_dropped_input: false }
    }

    pub(super) fn rewound(self) -> Rewind<I> {
        Rewind::new(self.input.freeze(), self.stream.into_inner())
    }

    /// Gives the buffer back if nothing is in it.
    pub(super) fn release(&mut self) {
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
    }
}

impl<I: AsyncRead + AsyncWrite + Send + Unpin> Io<I> {
    /// Reads what is there: no room is kept for what is not.
    pub(super) fn poll_fill(&mut self, task: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut scratch = [const { MaybeUninit::uninit() }; SCRATCH];
        let mut read = ReadBuf::uninit(&mut scratch);
        ready!(Pin::new(&mut self.stream).poll_read(task, &mut read))?;
        self.input.extend_from_slice(read.filled());
        Poll::Ready(Ok(read.filled().len()))
    }

    /// Resolves when the client has gone away. What it sends meanwhile is kept for later, up to a limit. Beyond that it is
    /// read all the same, because the end of the connection comes after it, and dropped: the connection then ends with the
    /// answer, and a client that pipelines has to send again what was not answered (RFC 9112, 9.3.2).
    pub(super) fn poll_gone(&mut self, task: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.input.len() >= AHEAD {
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

    /// Ends the connection. A client that still sends something would lose what it was told last, so it is heard for a moment.
    pub(super) async fn hang_up(&mut self, is_sending: bool) {
        let ending = async {
            if self.stream.shutdown().await.is_err() || !is_sending {
                return;
            }
            let mut heard = 0;
            while heard < LAST_BYTES {
                self.input.clear();
                match std::future::poll_fn(|task| self.poll_fill(task)).await {
                    Ok(count) if count > 0 => heard += count,
                    _ => return,
                }
            }
        };
        // Whoever does not listen either is left alone.
        let _ = tokio::time::timeout(LAST_WORDS, ending).await;
    }
}
