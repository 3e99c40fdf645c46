use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::process::{ChildStdin, ChildStdout};

/// Reads the standard output of a child process. It ends when the process and its group have exited, even if a process that has left the
/// group keeps the pipe open.
#[derive(Debug)]
pub struct ChildReader {
    pipe: ChildStdout,
    output: Arc<ChildOutput>,
}

impl ChildReader {
    pub(super) fn new(pipe: ChildStdout, output: Arc<ChildOutput>) -> Self {
        Self { pipe, output }
    }
}

impl AsyncRead for ChildReader {
    fn poll_read(mut self: Pin<&mut Self>, task: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.pipe).poll_read(task, buffer) {
            Poll::Pending if self.output.poll_ended(task).is_ready() => poll_rest(&self.pipe, buffer),
            poll => poll,
        }
    }
}

/// The function that receives a copy of standard output.
pub(super) type StdoutCallback = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// The standard output of a program, for a connection. Dropping it reads the rest in a task: a program that writes while it is being
/// ended must not fail because of a closed pipe.
pub(super) struct ObservedReader {
    /// `None` only while it is dropped.
    reader: Option<ChildReader>,
    callback: Option<StdoutCallback>,
}

impl ObservedReader {
    pub(super) fn new(reader: ChildReader, callback: Option<StdoutCallback>) -> Self {
        Self { reader: Some(reader), callback }
    }
}

impl AsyncRead for ObservedReader {
    fn poll_read(mut self: Pin<&mut Self>, task: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let Some(reader) = &mut self.reader else { return Poll::Ready(Ok(())) };
        let read = Pin::new(reader).poll_read(task, buffer);
        if let (Poll::Ready(_), Some(callback)) = (&read, &self.callback) {
            callback(&buffer.filled()[before..]);
        }
        read
    }
}

impl Drop for ObservedReader {
    fn drop(&mut self) {
        if let (Some(mut reader), Ok(runtime)) = (self.reader.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
        }
    }
}

/// Reads what is left in the pipe. The runtime may not have noticed yet that the pipe is readable.
#[cfg(unix)]
fn poll_rest(pipe: &ChildStdout, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
    use rustix::io::Errno;
    loop {
        match rustix::io::read(pipe, buffer.initialize_unfilled()) {
            Ok(count) => {
                buffer.advance(count);
                return Poll::Ready(Ok(()));
            }
            // The pipe is empty, so the reader reports the end.
            Err(Errno::AGAIN) => return Poll::Ready(Ok(())),
            Err(Errno::INTR) => {}
            Err(error) => return Poll::Ready(Err(error.into())),
        }
    }
}

/// On other systems a pending read runs in a thread and cannot be interrupted.
#[cfg(not(unix))]
fn poll_rest(_: &ChildStdout, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
    Poll::Pending
}

/// Tells the reader of standard output that the group has exited, so that no more output is expected.
#[derive(Debug, Default)]
pub(super) struct ChildOutput(Mutex<ChildOutputState>);

#[derive(Debug, Default)]
struct ChildOutputState {
    is_ended: bool,
    reader: Option<Waker>,
}

impl ChildOutput {
    fn poll_ended(&self, task: &Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        if state.is_ended {
            return Poll::Ready(());
        }
        register_waker(&mut state.reader, task);
        Poll::Pending
    }

    pub(super) fn end(&self) {
        let reader = {
            let mut state = self.0.lock();
            state.is_ended = true;
            state.reader.take()
        };
        reader.into_iter().for_each(Waker::wake);
    }
}

/// Writes to the standard input of a child process. Shutting it down or dropping it closes the pipe; after
/// [`Child::end`](super::Child::end) writing fails with `BrokenPipe`.
#[derive(Debug)]
pub struct ChildWriter {
    input: Arc<ChildInput>,
}

impl ChildWriter {
    pub(super) fn new(input: Arc<ChildInput>) -> Self {
        Self { input }
    }
}

impl AsyncWrite for ChildWriter {
    fn poll_write(self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.input.0.lock();
        let Some(pipe) = &mut state.pipe else { return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) };
        let poll = Pin::new(pipe).poll_write(task, bytes);
        if poll.is_pending() {
            register_waker(&mut state.writer, task);
        }
        poll
    }

    fn poll_flush(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.input.0.lock();
        let Some(pipe) = &mut state.pipe else { return Poll::Ready(Ok(())) };
        let poll = Pin::new(pipe).poll_flush(task);
        if poll.is_pending() {
            register_waker(&mut state.writer, task);
        }
        poll
    }

    /// Closes the pipe, which tokio's `ChildStdin` does only when it is dropped.
    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(self.as_mut().poll_flush(task));
        self.input.close();
        Poll::Ready(flushed)
    }
}

impl Drop for ChildWriter {
    fn drop(&mut self) {
        self.input.close();
    }
}

/// The standard input of a process. The supervisor can close it while a connection holds the writer.
#[derive(Debug)]
pub(super) struct ChildInput(Mutex<ChildInputState>);

#[derive(Debug)]
struct ChildInputState {
    pipe: Option<ChildStdin>,
    writer: Option<Waker>,
}

impl ChildInput {
    pub(super) fn new(pipe: ChildStdin) -> Self {
        Self(Mutex::new(ChildInputState { pipe: Some(pipe), writer: None }))
    }

    pub(super) fn close(&self) {
        let (pipe, writer) = {
            let mut state = self.0.lock();
            (state.pipe.take(), state.writer.take())
        };
        drop(pipe);
        writer.into_iter().for_each(Waker::wake);
    }
}

fn register_waker(slot: &mut Option<Waker>, task: &Context<'_>) {
    match slot {
        Some(waker) => waker.clone_from(task.waker()),
        None => *slot = Some(task.waker().clone()),
    }
}
