use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::process::{ChildStdin, ChildStdout};

/// What a process writes to its standard output. Ends when the process and its group have ended, even if somebody who has
/// left the group holds the other end open.
#[derive(Debug)]
pub struct ChildReader {
    pipe: ChildStdout,
    output: Arc<Output>,
}

impl ChildReader {
    pub(super) fn new(pipe: ChildStdout, output: Arc<Output>) -> Self {
        Self { pipe, output }
    }
}

impl AsyncRead for ChildReader {
    fn poll_read(mut self: Pin<&mut Self>, task: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.pipe).poll_read(task, buffer) {
            Poll::Pending if self.output.poll_over(task).is_ready() => poll_left(&self.pipe, buffer),
            poll => poll,
        }
    }
}

/// Who hears what a program writes.
pub(super) type StdoutSink = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// What a program writes, for a connection. It is read to its end even if the connection has ended: a program that still
/// writes while it is being told to end must not fail because nobody reads.
pub(super) struct Overheard {
    /// There until it is dropped.
    reader: Option<ChildReader>,
    hear: Option<StdoutSink>,
}

impl Overheard {
    pub(super) fn new(reader: ChildReader, hear: Option<StdoutSink>) -> Self {
        Self { reader: Some(reader), hear }
    }
}

impl AsyncRead for Overheard {
    fn poll_read(mut self: Pin<&mut Self>, task: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let Some(reader) = &mut self.reader else { return Poll::Ready(Ok(())) };
        let read = Pin::new(reader).poll_read(task, buffer);
        if let (Poll::Ready(_), Some(hear)) = (&read, &self.hear) {
            hear(&buffer.filled()[before..]);
        }
        read
    }
}

impl Drop for Overheard {
    fn drop(&mut self) {
        if let (Some(mut reader), Ok(runtime)) = (self.reader.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
        }
    }
}

/// Reads what is in the pipe. That the runtime has not heard of anything does not mean that there is nothing.
#[cfg(unix)]
fn poll_left(pipe: &ChildStdout, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
    use rustix::io::Errno;
    loop {
        match rustix::io::read(pipe, buffer.initialize_unfilled()) {
            Ok(count) => {
                buffer.advance(count);
                return Poll::Ready(Ok(()));
            }
            Err(Errno::AGAIN) => return Poll::Ready(Ok(())),
            Err(Errno::INTR) => {}
            Err(error) => return Poll::Ready(Err(error.into())),
        }
    }
}

/// Elsewhere a read that has begun goes on in a thread and cannot be overtaken.
#[cfg(not(unix))]
fn poll_left(_: &ChildStdout, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
    Poll::Pending
}

/// Whether anybody can be expected to write to the standard output any more.
///
/// A lock, since it is told by whoever sees the end of the process and asked by whoever reads.
#[derive(Debug, Default)]
pub(super) struct Output(Mutex<OutputState>);

#[derive(Debug, Default)]
struct OutputState {
    over: bool,
    reader: Option<Waker>,
}

impl Output {
    fn poll_over(&self, task: &Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        if state.over {
            return Poll::Ready(());
        }
        wait(&mut state.reader, task);
        Poll::Pending
    }

    pub(super) fn end(&self) {
        let reader = {
            let mut state = self.0.lock();
            state.over = true;
            state.reader.take()
        };
        reader.into_iter().for_each(Waker::wake);
    }
}

/// What is written to the standard input of a process. Shutting it down or dropping it tells the process that no more will
/// come; after [`Child::end`](super::Child::end) writing fails as to a broken pipe.
#[derive(Debug)]
pub struct ChildWriter {
    input: Arc<Input>,
}

impl ChildWriter {
    pub(super) fn new(input: Arc<Input>) -> Self {
        Self { input }
    }
}

impl AsyncWrite for ChildWriter {
    fn poll_write(self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.input.0.lock();
        let Some(pipe) = &mut state.pipe else { return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) };
        let poll = Pin::new(pipe).poll_write(task, bytes);
        if poll.is_pending() {
            wait(&mut state.writer, task);
        }
        poll
    }

    fn poll_flush(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.input.0.lock();
        let Some(pipe) = &mut state.pipe else { return Poll::Ready(Ok(())) };
        let poll = Pin::new(pipe).poll_flush(task);
        if poll.is_pending() {
            wait(&mut state.writer, task);
        }
        poll
    }

    /// Closes the pipe, which tokio's own does only when it is dropped.
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

/// The standard input of a process, for as long as it is open.
///
/// A lock, since the end of a process closes it and a connection that is still being driven may hold the writer.
#[derive(Debug)]
pub(super) struct Input(Mutex<InputState>);

#[derive(Debug)]
struct InputState {
    pipe: Option<ChildStdin>,
    writer: Option<Waker>,
}

impl Input {
    pub(super) fn new(pipe: ChildStdin) -> Self {
        Self(Mutex::new(InputState { pipe: Some(pipe), writer: None }))
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

fn wait(place: &mut Option<Waker>, task: &Context<'_>) {
    match place {
        Some(waker) => waker.clone_from(task.waker()),
        None => *place = Some(task.waker().clone()),
    }
}
