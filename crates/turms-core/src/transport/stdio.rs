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

    use tokio::net::UnixStream;
    use tokio::net::unix::pipe;

    use super::{Read, Write};

    pub(super) fn stdin() -> io::Result<Box<dyn Read>> {
        let fd = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(match kind(&fd)? {
            Kind::Pipe => Box::new(pipe::Receiver::from_owned_fd(fd)?),
            Kind::Socket => Box::new(socket(fd)?),
            Kind::Other => Box::new(tokio::io::stdin()),
        })
    }

    pub(super) fn stdout() -> io::Result<Box<dyn Write>> {
        let fd = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(match kind(&fd)? {
            Kind::Pipe => Box::new(pipe::Sender::from_owned_fd(fd)?),
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
