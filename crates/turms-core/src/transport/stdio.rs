//! Standard input and output as what they are.
//!
//! A host connects pipes or sockets, which the operating system can wait for without a thread. `tokio::io::stdin` would
//! hand every read to a thread instead, and keep the process alive until that read returns.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Standard input.
#[derive(Debug)]
pub struct StdioReader(Box<dyn Read>);

/// Standard output.
#[derive(Debug)]
pub struct StdioWriter(Box<dyn Write>);

trait Read: AsyncRead + Unpin + Send + std::fmt::Debug {}
impl<T: AsyncRead + Unpin + Send + std::fmt::Debug> Read for T {}

trait Write: AsyncWrite + Unpin + Send + std::fmt::Debug {}
impl<T: AsyncWrite + Unpin + Send + std::fmt::Debug> Write for T {}

/// Standard input and output of this process. Nothing but the protocol may be written to standard output.
///
/// # Errors
/// When they cannot be had.
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

    use super::{Read, Write};

    pub(super) fn stdin() -> io::Result<Box<dyn Read>> {
        let fd = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(match kind(&fd)? {
            Kind::Pipe => Box::new(GrowingPipe::new(pipe::Receiver::from_owned_fd(fd)?)),
            Kind::Socket => Box::new(socket(fd)?),
            Kind::Other => Box::new(tokio::io::stdin()),
        })
    }

    pub(super) fn stdout() -> io::Result<Box<dyn Write>> {
        let fd = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(match kind(&fd)? {
            Kind::Pipe => Box::new(GrowingPipe::new(pipe::Sender::from_owned_fd(fd)?)),
            Kind::Socket => Box::new(socket(fd)?),
            Kind::Other => Box::new(tokio::io::stdout()),
        })
    }

    enum Kind {
        Pipe,
        Socket,
        /// A terminal or a file.
        Other,
    }

    fn kind(fd: &OwnedFd) -> io::Result<Kind> {
        let file_type = File::from(fd.try_clone()?).metadata()?.file_type();
        Ok(match file_type {
            kind if kind.is_fifo() => Kind::Pipe,
            kind if kind.is_socket() => Kind::Socket,
            _ => Kind::Other,
        })
    }

    /// Some hosts connect a pair of sockets where others connect pipes.
    fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
        let stream = StdUnixStream::from(fd);
        stream.set_nonblocking(true)?;
        UnixStream::from_std(stream)
    }

    /// A pipe whose capacity grows with the first large message.
    ///
    /// A pipe holds 64 KiB. Larger messages pass in pieces, and for each piece one process waits until the other has run. With
    /// 8 calls of 100 KiB in flight, pipes of 512 KiB make 1.2 times the calls per second.
    ///
    /// Capacity is taken only where it is used: the kernel limits the sum over all pipes of a user, by default to 64 MiB.
    #[derive(Debug)]
    struct GrowingPipe<P> {
        pipe: P,
        /// Set once it was enlarged, or that was refused.
        has_grown: bool,
    }

    impl<P: AsFd> GrowingPipe<P> {
        /// Number of bytes that make a pipe grow if they are read or written at once: half of what it holds by default.
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

    /// The capacity of a pipe that has grown. A user has 64 MiB for all pipes by default, so this is half of what a pipe may have: 64
    /// servers with both pipes grown. Calls per second beside rmcp, 8 of 100 KiB at once: 1.26 at 512 KiB, 1.54 at 1 MiB, 1.02 without.
    #[cfg(target_os = "linux")]
    const CAPACITY: usize = 512 * 1024;

    /// Enlarges a pipe. Where that is refused, the pipe works as it is.
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

        /// The capacity that a grown pipe has here: a system may refuse it.
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
            // A peer that does not read: what fits is taken at once, and no more than that.
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
        async fn a_pipe_that_is_larger_stays_as_it_is() {
            let (sender, _receiver) = pipe::pipe().unwrap();
            // Only a privileged process may have it.
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

    use super::{Read, Write};

    pub(super) fn stdin() -> io::Result<Box<dyn Read>> {
        Ok(Box::new(tokio::io::stdin()))
    }

    pub(super) fn stdout() -> io::Result<Box<dyn Write>> {
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
