//! Standard input and output as non-blocking pipes or sockets.
//!
//! A host connects pipes or sockets, which need no thread to wait for. `tokio::io::stdin` would run every read on a thread instead, and
//! keep the process alive until that read returns.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Standard input.
#[derive(Debug)]
pub struct StdioReader(Box<dyn StdioInput>);

/// Standard output.
#[derive(Debug)]
pub struct StdioWriter(Box<dyn StdioOutput>);

trait StdioInput: AsyncRead + Unpin + Send + std::fmt::Debug {}
impl<T: AsyncRead + Unpin + Send + std::fmt::Debug> StdioInput for T {}

trait StdioOutput: AsyncWrite + Unpin + Send + std::fmt::Debug {}
impl<T: AsyncWrite + Unpin + Send + std::fmt::Debug> StdioOutput for T {}

/// Returns the standard input and output of this process. Only protocol messages may be written to standard output.
///
/// # Errors
/// If they cannot be used, such as because they are closed.
pub fn stdio() -> io::Result<(StdioReader, StdioWriter)> {
    Ok((StdioReader(platform::stdin()?), StdioWriter(platform::stdout()?)))
}

#[cfg(unix)]
mod platform {
    use std::fs::File;
    use std::io;
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::fs::FileTypeExt as _;
    use std::os::unix::net::UnixStream as StdUnixStream;
    use std::pin::Pin;
    use std::task::{Context, Poll, ready};

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
    use tokio::net::UnixStream;
    use tokio::net::unix::pipe;

    use super::{StdioInput, StdioOutput};

    pub(super) fn stdin() -> io::Result<Box<dyn StdioInput>> {
        let fd = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(match kind(&fd)? {
            FileKind::Pipe => Box::new(GrowingPipe::new(pipe::Receiver::from_owned_fd(fd)?)),
            FileKind::Socket => Box::new(socket(fd)?),
            FileKind::Other => Box::new(tokio::io::stdin()),
        })
    }

    pub(super) fn stdout() -> io::Result<Box<dyn StdioOutput>> {
        let fd = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(match kind(&fd)? {
            FileKind::Pipe => Box::new(GrowingPipe::new(pipe::Sender::from_owned_fd(fd)?)),
            FileKind::Socket => Box::new(socket(fd)?),
            FileKind::Other => Box::new(tokio::io::stdout()),
        })
    }

    enum FileKind {
        Pipe,
        Socket,
        /// A terminal or a file.
        Other,
    }

    fn kind(fd: &OwnedFd) -> io::Result<FileKind> {
        let file_type = File::from(fd.try_clone()?).metadata()?.file_type();
        Ok(match file_type {
            kind if kind.is_fifo() => FileKind::Pipe,
            kind if kind.is_socket() => FileKind::Socket,
            _ => FileKind::Other,
        })
    }

    /// Some hosts connect a pair of sockets instead of pipes.
    fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
        let stream = StdUnixStream::from(fd);
        stream.set_nonblocking(true)?;
        UnixStream::from_std(stream)
    }

    /// A pipe that grows with the first large message.
    ///
    /// A pipe holds 64 KiB. Larger messages are written in several pieces, and for each piece one process waits for the other. With 8 calls
    /// of 100 KiB in flight, pipes of 512 KiB allow 1.2 times the calls per second.
    ///
    /// The capacity grows only on demand, because the kernel limits the sum over all pipes of a user, by default to 64 MiB.
    #[derive(Debug)]
    struct GrowingPipe<P> {
        pipe: P,
        /// Set after the first attempt to enlarge it.
        has_grown: bool,
    }

    impl<P: AsFd> GrowingPipe<P> {
        /// Number of bytes that make a pipe grow if they are read or written at once: half of the default capacity.
        const LARGE: usize = 32 * 1024;

        fn new(pipe: P) -> Self {
            Self { pipe, has_grown: false }
        }

        fn grow_for(&mut self, count: usize) {
            if count >= Self::LARGE && !self.has_grown {
                self.has_grown = true;
                grow(&self.pipe);
            }
        }
    }

    /// Capacity of a pipe that has grown. It is half of the maximum for a pipe: the default limit of 64 MiB for a user then allows 64 servers
    /// with both pipes grown. Calls per second relative to rmcp, with 8 calls of 100 KiB in flight: 1.26 at 512 KiB, 1.54 at 1 MiB, 1.02
    /// without growth.
    #[cfg(target_os = "linux")]
    const CAPACITY: usize = 512 * 1024;

    /// Enlarges a pipe. If the system refuses, the pipe keeps its capacity.
    #[cfg(target_os = "linux")]
    fn grow(pipe: &impl AsFd) {
        if rustix::pipe::fcntl_getpipe_size(pipe).is_ok_and(|capacity| capacity < CAPACITY) {
            let _ = rustix::pipe::fcntl_setpipe_size(pipe, CAPACITY);
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn grow(_: &impl AsFd) {}

    impl AsyncRead for GrowingPipe<pipe::Receiver> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            task: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut self.pipe).poll_read(task, buffer))?;
            self.grow_for(buffer.filled().len() - before);
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for GrowingPipe<pipe::Sender> {
        fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.grow_for(bytes.len());
            Pin::new(&mut self.pipe).poll_write(task, bytes)
        }

        fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.pipe).poll_flush(task)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.pipe).poll_shutdown(task)
        }
    }

    #[cfg(test)]
    #[cfg(target_os = "linux")]
    mod tests {
        use rustix::pipe::{fcntl_getpipe_size as capacity, fcntl_setpipe_size as set_capacity};
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

        use super::*;

        const LARGE: usize = GrowingPipe::<pipe::Sender>::LARGE;

        /// Returns the capacity of a grown pipe on this system, which may refuse to enlarge it.
        fn grown() -> usize {
            let (sender, _receiver) = pipe::pipe().unwrap();
            set_capacity(&sender, CAPACITY).or_else(|_| capacity(&sender)).unwrap()
        }

        #[tokio::test]
        async fn output_grows_with_the_first_large_message() {
            let (sender, _receiver) = pipe::pipe().unwrap();
            let (initial, mut output) = (capacity(&sender).unwrap(), GrowingPipe::new(sender));
            output.write_all(&[b'x'; LARGE - 1]).await.unwrap();
            assert_eq!(capacity(&output.pipe).unwrap(), initial);
            // The peer does not read, so a write takes as much as fits into the pipe.
            let grown = grown();
            let written = output.write(&vec![b'x'; 2 * grown]).await.unwrap();
            assert_eq!(capacity(&output.pipe).unwrap(), grown);
            assert!(written <= grown, "{written} bytes are in a pipe of {grown}");
            assert!(grown == initial || written > initial, "{written} bytes were written at once");
        }

        #[tokio::test]
        async fn input_grows_with_the_first_large_message() {
            let (mut sender, receiver) = pipe::pipe().unwrap();
            let (initial, mut input) = (capacity(&receiver).unwrap(), GrowingPipe::new(receiver));
            let mut buffer = vec![0; 2 * LARGE];
            for (count, expected) in [(LARGE - 1, initial), (LARGE, grown())] {
                sender.write_all(&buffer[..count]).await.unwrap();
                assert_eq!(input.read(&mut buffer).await.unwrap(), count);
                assert_eq!(capacity(&input.pipe).unwrap(), expected);
            }
        }

        #[tokio::test]
        async fn a_pipe_that_is_larger_keeps_its_capacity() {
            let (sender, _receiver) = pipe::pipe().unwrap();
            // Only a privileged process may set this capacity.
            if set_capacity(&sender, 2 * 1024 * 1024).is_err() {
                return;
            }
            let mut output = GrowingPipe::new(sender);
            output.write_all(&[b'x'; LARGE]).await.unwrap();
            assert_eq!(capacity(&output.pipe).unwrap(), 2 * 1024 * 1024);
        }
    }
}

#[cfg(not(unix))]
mod platform {
    use std::io;

    use super::{StdioInput, StdioOutput};

    pub(super) fn stdin() -> io::Result<Box<dyn StdioInput>> {
        Ok(Box::new(tokio::io::stdin()))
    }

    pub(super) fn stdout() -> io::Result<Box<dyn StdioOutput>> {
        Ok(Box::new(tokio::io::stdout()))
    }
}

impl AsyncRead for StdioReader {
    fn poll_read(mut self: Pin<&mut Self>, task: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(task, buffer)
    }
}

impl AsyncWrite for StdioWriter {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(task, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(task)
    }
}
