use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::AsyncWrite;
use turms_proto::session::Session;
use turms_proto::{Message, Request, RequestId, Response};

use super::now;
use crate::dispatch::write_response;
use crate::service::CallResult;

/// The write buffer of a connection. Messages are collected and written together.
#[derive(Debug)]
pub(super) struct WriteBuffer<W> {
    writer: W,
    buffer: Vec<u8>,
    written: usize,
    /// Number of bytes of the buffer that are responses.
    responses: usize,
    unflushed: bool,
    /// `true` if the peer has closed its input. Output is then discarded.
    is_broken: bool,
    /// `true` if the last write was pending: the peer must read first.
    is_blocked: bool,
    /// The time of the last write, or of the first buffered message if that is later.
    last_progress: Instant,
}

impl<W: AsyncWrite + Unpin> WriteBuffer<W> {
    /// Number of buffered bytes that are written before more is read. Equals the capacity of a pipe.
    const FULL: usize = 64 * 1024;

    /// Minimum and maximum capacity that an empty buffer keeps.
    const MIN_KEPT: usize = 64 * 1024;
    const MAX_KEPT: usize = 256 * 1024;

    pub(super) fn new(writer: W) -> Self {
        Self {
            writer,
            buffer: Vec::new(),
            written: 0,
            responses: 0,
            unflushed: false,
            is_broken: false,
            is_blocked: false,
            last_progress: now(),
        }
    }

    /// Discards all output from now on, because the peer has closed its input.
    pub(super) fn discard_all(&mut self) {
        self.is_broken = true;
        self.unflushed = false;
        self.discard();
    }

    fn discard(&mut self) {
        self.buffer = Vec::new();
        self.written = 0;
        self.responses = 0;
    }

    /// Number of bytes that wait to be written.
    pub(super) fn len(&self) -> usize {
        self.buffer.len() - self.written
    }

    /// Returns `true` if the output should be written before more is read. Always `false` while the peer does not read.
    pub(super) fn is_full(&self) -> bool {
        self.len() >= Self::FULL && !self.is_blocked
    }

    /// Number of bytes of responses that wait to be written.
    pub(super) fn responses(&self) -> usize {
        self.responses.min(self.len())
    }

    /// Returns the deadline for the peer to read; `None` if there is nothing to write.
    pub(super) fn stalled_at(&self, timeout: Duration) -> Option<Instant> {
        if self.len() == 0 { None } else { self.last_progress.checked_add(timeout) }
    }

    pub(super) fn is_stalled(&self, timeout: Duration) -> bool {
        self.stalled_at(timeout).is_some_and(|stalled| stalled <= now())
    }

    /// Prepares the buffer for a message. With a slow peer the buffer may never become empty, so the written part is
    /// removed as soon as it is as large as the rest.
    fn begin(&mut self) {
        if self.len() == 0 {
            self.last_progress = now();
        }
        if self.written > 0 && self.written >= self.len() {
            self.buffer.drain(..self.written);
            self.written = 0;
        }
    }

    pub(super) fn push<T>(&mut self, session: &mut Session<T>, message: &Message) {
        self.begin();
        let start = self.buffer.len();
        session.encode(message, &mut self.buffer);
        self.buffer.push(b'\n');
        if matches!(message, Message::Response(_)) {
            self.responses += self.buffer.len() - start;
        }
    }

    pub(super) fn push_batch<T>(&mut self, session: &mut Session<T>, responses: &[Response]) {
        self.begin();
        let start = self.buffer.len();
        session.encode_batch(responses, &mut self.buffer);
        self.buffer.push(b'\n');
        self.responses += self.buffer.len() - start;
    }

    /// Appends several requests, in a batch if the peer's revision has batches.
    pub(super) fn push_requests<T>(&mut self, session: &mut Session<T>, requests: Vec<Request>) {
        self.begin();
        if requests.len() > 1 && session.encode_requests(&requests, &mut self.buffer) {
            self.buffer.push(b'\n');
        } else {
            requests.into_iter().for_each(|request| self.push(session, &Message::Request(request)));
        }
    }

    pub(super) fn push_response<T>(&mut self, session: &mut Session<T>, id: &RequestId, result: CallResult) {
        self.begin();
        let start = self.buffer.len();
        write_response(&mut self.buffer, id, result);
        session.count_sent(self.buffer.len() - start);
        self.buffer.push(b'\n');
        self.responses += self.buffer.len() - start;
    }

    /// Writes as much as possible. Ready once everything is written; pending if there is nothing to write.
    pub(super) fn poll_write(&mut self, task: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        if self.is_broken {
            self.discard();
        }
        if self.len() == 0 && !self.unflushed {
            return Poll::Pending;
        }
        while self.written < self.buffer.len() {
            let written = Pin::new(&mut self.writer).poll_write(task, &self.buffer[self.written..]);
            self.is_blocked = written.is_pending();
            let count = ready!(written)?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += count;
            self.last_progress = now();
            self.unflushed = true;
        }
        let kept = self.buffer.len().clamp(Self::MIN_KEPT, Self::MAX_KEPT);
        self.buffer.clear();
        self.buffer.shrink_to(kept);
        self.written = 0;
        self.responses = 0;
        ready!(Pin::new(&mut self.writer).poll_flush(task))?;
        self.unflushed = false;
        Poll::Ready(Ok(()))
    }

    /// Writes everything, then shuts the writer down.
    pub(super) async fn drain(&mut self) -> io::Result<()> {
        if self.is_broken {
            return Ok(());
        }
        let written =
            if self.len() > 0 || self.unflushed { poll_fn(|task| self.poll_write(task)).await } else { Ok(()) };
        let closed = poll_fn(|task| Pin::new(&mut self.writer).poll_shutdown(task)).await;
        match written.and(closed) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            outcome => outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer that accepts up to 100 bytes whenever it is made ready.
    struct SlowWriter {
        is_ready: bool,
    }

    impl AsyncWrite for SlowWriter {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut TaskContext<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            let is_ready = std::mem::replace(&mut self.is_ready, false);
            if is_ready { Poll::Ready(Ok(bytes.len().min(100))) } else { Poll::Pending }
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn the_buffer_stays_small_with_a_slow_peer() {
        let mut task = TaskContext::from_waker(std::task::Waker::noop());
        let mut output = WriteBuffer::new(SlowWriter { is_ready: true });
        output.buffer.extend_from_slice(&[b'x'; 300]);
        for _ in 0..1000 {
            output.begin();
            output.buffer.extend_from_slice(&[b'x'; 100]);
            output.writer.is_ready = true;
            assert!(output.poll_write(&mut task).is_pending());
            assert_eq!(output.len(), 300);
            assert!(output.buffer.len() <= 1000, "the buffer has {} bytes", output.buffer.len());
        }
    }
}
