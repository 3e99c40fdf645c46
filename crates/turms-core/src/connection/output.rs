use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, ready};

use tokio::io::AsyncWrite;
use turms_proto::jsonrpc::encode;
use turms_proto::session::Session;
use turms_proto::{Message, RequestId, Response};

use super::unwritable;
use crate::service::Outcome;

/// What is to be written: messages gather in one buffer and leave together.
#[derive(Debug)]
pub(super) struct Output<W> {
    writer: W,
    buffer: Vec<u8>,
    written: usize,
    unflushed: bool,
}

impl<W: AsyncWrite + Unpin> Output<W> {
    /// Beyond this a buffer is given back once it is empty.
    const KEPT: usize = 64 * 1024;

    pub(super) fn new(writer: W) -> Self {
        Self { writer, buffer: Vec::new(), written: 0, unflushed: false }
    }

    /// How much waits to be written.
    pub(super) fn len(&self) -> usize {
        self.buffer.len() - self.written
    }

    pub(super) fn message<T>(&mut self, session: &mut Session<T>, message: &Message) {
        session.encode(message, &mut self.buffer);
        self.buffer.push(b'\n');
    }

    pub(super) fn batch<T>(&mut self, session: &mut Session<T>, responses: &[Response]) {
        session.encode_batch(responses, &mut self.buffer);
        self.buffer.push(b'\n');
    }

    pub(super) fn answer<T>(&mut self, session: &mut Session<T>, id: &RequestId, outcome: Outcome) {
        let start = self.buffer.len();
        let written = outcome.and_then(|payload| {
            encode::success_with(&mut self.buffer, id, |out| payload.write(out)).map_err(|error| unwritable(&error))
        });
        if let Err(error) = written {
            encode::failure(&mut self.buffer, Some(id), &error);
        }
        session.count_sent(self.buffer.len() - start);
        self.buffer.push(b'\n');
    }

    /// Writes what it can; ready once everything has gone, never ready if there was nothing.
    pub(super) fn poll_write(&mut self, task: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        if self.len() == 0 && !self.unflushed {
            return Poll::Pending;
        }
        while self.written < self.buffer.len() {
            let count = ready!(Pin::new(&mut self.writer).poll_write(task, &self.buffer[self.written..]))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += count;
            self.unflushed = true;
        }
        self.buffer.clear();
        self.buffer.shrink_to(Self::KEPT);
        self.written = 0;
        ready!(Pin::new(&mut self.writer).poll_flush(task))?;
        self.unflushed = false;
        Poll::Ready(Ok(()))
    }

    /// Writes everything, then closes.
    pub(super) async fn drain(&mut self) -> io::Result<()> {
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
