//! The write timeout of a connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A byte stream with a write timeout: writes fail if the client does not read for too long, so that a slow client
/// cannot hold server memory.
pub(in crate::server) struct WriteTimeout<I> {
    io: I,
    timeout: Duration,
    /// Runs while a write is pending. Created by the first pending write.
    timer: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
}

impl<I> WriteTimeout<I> {
    pub(in crate::server) fn new(io: I, timeout: Duration) -> Self {
        Self { io, timeout, timer: None, is_waiting: false }
    }

    #[cfg(feature = "server-http2")]
    pub(super) fn into_inner(self) -> I {
        self.io
    }

    fn check<T>(&mut self, task: &mut Context<'_>, write: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if write.is_ready() {
            self.is_waiting = false;
            return write;
        }
        let deadline = Instant::now() + self.timeout;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if !std::mem::replace(&mut self.is_waiting, true) {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(task).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for WriteTimeout<I> {
    fn poll_read(mut self: Pin<&mut Self>, task: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(task, out)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<I> {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.io).poll_write(task, bytes);
        self.check(task, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.io).poll_write_vectored(task, pieces);
        self.check(task, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flush = Pin::new(&mut self.io).poll_flush(task);
        self.check(task, flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shutdown = Pin::new(&mut self.io).poll_shutdown(task);
        self.check(task, shutdown)
    }
}
