//! A WebSocket, seen as the byte stream that a connection is driven over: one message a line.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use futures_core::Stream as _;
use futures_sink::Sink as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{Error as WsError, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, Role, WebSocketConfig};
#[cfg(feature = "server")]
use turms_core::ConnectionError;

use crate::close::{Farewell, close_frame};
use crate::heartbeat::{KeepAlive, Pulse, Silence};

/// A WebSocket as a byte stream. Each text message is read as a line, and each line is written as a text message.
///
/// A message that is longer than [`FRAGMENT`] leaves in several frames. So no more than that of it is held here, pings and
/// pongs find their way in between, and whoever writes sees whether the peer reads.
#[derive(Debug)]
pub(crate) struct Socket<S> {
    web: WebSocketStream<S>,
    role: Role,
    stage: Stage,
    limit: usize,
    /// The rest of the message that is being read.
    incoming: Option<Bytes>,
    /// The buffered part of the message that is being written.
    outgoing: BytesMut,
    /// `true` if a part of the message that is being written was sent.
    begun: bool,
    /// A frame for which there was no room.
    held: Option<Frame>,
    /// `true` if the last write had to wait for the peer.
    blocked: bool,
    pulse: Pulse,
    farewell: Arc<Farewell>,
    /// Until when a goodbye is waited for.
    patience: Option<Pin<Box<Sleep>>>,
}

/// Maximum number of bytes of a message in one frame.
const FRAGMENT: usize = 64 * 1024;

/// Number of buffered bytes above which they are written without a flush.
const GATHERED: usize = 16 * 1024;

/// Number of bytes for pings, pongs and close frames beside messages.
const CONTROL: usize = 4 * 1024;

/// Size of the read buffer, which every connection has.
const READ: usize = 8 * 1024;

/// Timeout for the close frame of the peer.
const CLOSING: Duration = Duration::from_secs(2);

/// The state of closing a socket.
#[derive(Debug)]
enum Stage {
    Open,
    /// Goodbye has been said, and the peer's is waited for.
    Closing,
    /// The peer has done something for which it is told goodbye. Nothing that it says is understood any more, but it is heard
    /// out for a while: an answer to a socket that is closed would take away what it has not read yet (RFC 9293, 3.10.7.1).
    Failing(String),
    Over,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// Over a stream on which the handshake is over. A message holds at most `limit` bytes.
    pub(crate) async fn new(
        stream: S,
        role: Role,
        limit: usize,
        keep_alive: KeepAlive,
        farewell: Arc<Farewell>,
    ) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ)
            .write_buffer_size(GATHERED)
            .max_write_buffer_size(GATHERED + FRAGMENT + CONTROL)
            .max_message_size(Some(limit))
            .max_frame_size(Some(limit));
        Self {
            web: WebSocketStream::from_raw_socket(stream, role, Some(config)).await,
            role,
            stage: Stage::Open,
            limit,
            incoming: None,
            outgoing: BytesMut::new(),
            begun: false,
            held: None,
            blocked: false,
            pulse: Pulse::new(keep_alive),
            farewell,
            patience: None,
        }
    }

    /// Gives what there is of a message; false if there is none.
    fn give(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
        let Some(line) = &mut self.incoming else { return false };
        let count = line.len().min(buffer.remaining());
        buffer.put_slice(&line[..count]);
        line.advance(count);
        if line.is_empty() && buffer.remaining() > 0 {
            buffer.put_slice(b"\n");
            self.incoming = None;
        }
        true
    }

    /// Reads the next message. Ready without one when there will be none.
    fn poll_message(&mut self, task: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        loop {
            match ready!(Pin::new(&mut self.web).poll_next(task)) {
                Some(Ok(message)) => {
                    self.pulse.heard();
                    self.take(message, task);
                }
                Some(Err(error)) => self.take_error(error, task)?,
                None => self.stage = Stage::Over,
            }
            if self.incoming.is_some() || !matches!(self.stage, Stage::Open | Stage::Closing) {
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn take(&mut self, message: Message, task: &mut TaskContext<'_>) {
        match message {
            Message::Text(text) => self.incoming = Some(on_one_line(text.into())),
            Message::Binary(_) => self.fail(CloseCode::Unsupported, "a message must be text, not binary", task),
            Message::Close(close) => self.take_goodbye(close.as_ref(), task),
            // Reading and writing answer pings on their way.
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
    }

    fn take_goodbye(&mut self, close: Option<&CloseFrame>, task: &mut TaskContext<'_>) {
        self.farewell.heard(close);
        self.stage = Stage::Over;
        // What could not leave now is tried again when the stream is shut down. The server closes first (RFC 6455, 7.1.1),
        // and at once: what still runs could not be answered anyway.
        if Pin::new(&mut self.web).poll_flush(task).is_ready() && self.role == Role::Server {
            let _ = Pin::new(self.web.get_mut()).poll_shutdown(task);
        }
    }

    fn take_error(&mut self, error: WsError, task: &mut TaskContext<'_>) -> io::Result<()> {
        match error {
            WsError::ConnectionClosed | WsError::AlreadyClosed => self.stage = Stage::Over,
            WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
                self.farewell.vanished();
                self.stage = Stage::Over;
            }
            WsError::Io(error) => {
                self.farewell.broke(&error);
                self.stage = Stage::Over;
                return Err(error);
            }
            WsError::Capacity(_) => {
                let reason = format!("a message is longer than the limit of {} bytes", self.limit);
                self.fail(CloseCode::Size, &reason, task);
            }
            WsError::Utf8(_) => self.fail(CloseCode::Invalid, "a message is not UTF-8", task),
            WsError::Protocol(error) => self.fail(CloseCode::Protocol, &error.to_string(), task),
            other => self.fail(CloseCode::Protocol, &other.to_string(), task),
        }
        Ok(())
    }

    fn fail(&mut self, code: CloseCode, reason: &str, task: &mut TaskContext<'_>) {
        self.farewell.misbehaved(reason);
        self.say_goodbye(close_frame(code, reason));
        self.stage = Stage::Failing(reason.to_owned());
        let _ = self.poll_failing(task);
    }

    fn say_goodbye(&mut self, close: CloseFrame) {
        // A peer that reads nothing does not read this either.
        let _ = Pin::new(&mut self.web).start_send(Message::Close(Some(close)));
        self.patience = Some(Box::pin(tokio::time::sleep(CLOSING)));
    }

    /// Ready when a peer that is at fault has been told so, or does not want to hear it.
    fn poll_failing(&mut self, task: &mut TaskContext<'_>) -> Poll<()> {
        if self.is_out_of_patience(task) || ready!(Pin::new(&mut self.web).poll_flush(task)).is_err() {
            return Poll::Ready(());
        }
        let stream = self.web.get_mut();
        if ready!(Pin::new(&mut *stream).poll_shutdown(task)).is_err() {
            return Poll::Ready(());
        }
        let mut thrown_away = [0; 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut thrown_away);
            let read = ready!(Pin::new(&mut *stream).poll_read(task, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                return Poll::Ready(());
            }
        }
    }

    /// Ready when the peer has answered our goodbye, or has been waited for long enough.
    fn poll_closing(&mut self, task: &mut TaskContext<'_>) -> Poll<()> {
        if self.is_out_of_patience(task) || ready!(Pin::new(&mut self.web).poll_flush(task)).is_err() {
            return Poll::Ready(());
        }
        loop {
            match ready!(Pin::new(&mut self.web).poll_next(task)) {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Poll::Ready(()),
                Some(Ok(_)) => {}
            }
        }
    }

    fn is_out_of_patience(&mut self, task: &mut TaskContext<'_>) -> bool {
        self.patience.as_mut().is_some_and(|patience| patience.as_mut().poll(task).is_ready())
    }

    /// Never ready while the peer shows that it is there.
    fn poll_pulse(&mut self, task: &mut TaskContext<'_>) -> Poll<io::Error> {
        loop {
            match ready!(self.pulse.poll(task)) {
                Silence::Ask => {
                    // If there is no room for it, the peer does not read what it was sent before.
                    let _ = Pin::new(&mut self.web).start_send(Message::Ping(Bytes::new()));
                    let _ = Pin::new(&mut self.web).poll_flush(task);
                }
                Silence::Over(silence) => {
                    self.farewell.fell_silent(silence);
                    self.stage = Stage::Over;
                    let problem = format!("the peer sent nothing for {silence:?}, and did not answer a ping");
                    return Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, problem));
                }
            }
        }
    }

    /// Ready when another frame may be sent.
    fn poll_room(&mut self, task: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        let ready = Pin::new(&mut self.web).poll_ready(task);
        ready!(self.watch(ready))?;
        if let Some(frame) = self.held.take() {
            let flushed = Pin::new(&mut self.web).poll_flush(task);
            match self.watch(flushed) {
                Poll::Ready(Ok(())) => self.send(frame)?,
                unfinished => {
                    self.held = Some(frame);
                    return unfinished;
                }
            }
        }
        if self.held.is_some() { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    fn send(&mut self, frame: Frame) -> io::Result<()> {
        match Pin::new(&mut self.web).start_send(Message::Frame(frame)) {
            Ok(()) => Ok(()),
            // Pongs have taken the room.
            Err(WsError::WriteBufferFull(message)) => {
                if let Message::Frame(frame) = *message {
                    self.held = Some(frame);
                }
                Ok(())
            }
            Err(error) => Err(broken(error)),
        }
    }

    fn send_collected(&mut self, last: bool) -> io::Result<()> {
        let kind = if self.begun { Data::Continue } else { Data::Text };
        self.begun = !last;
        let frame = Frame::message(self.outgoing.split().freeze(), OpCode::Data(kind), last);
        self.send(frame)
    }

    /// A peer that reads what it was made to wait for is alive, though its pongs may be long in coming: they wait behind all
    /// that it still has to read.
    fn watch(&mut self, written: Poll<Result<(), WsError>>) -> Poll<io::Result<()>> {
        match written {
            Poll::Pending => {
                self.blocked = true;
                Poll::Pending
            }
            Poll::Ready(Ok(())) => {
                if std::mem::take(&mut self.blocked) {
                    self.pulse.heard();
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(broken(error))),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut TaskContext<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.give(buffer) {
                return Poll::Ready(Ok(()));
            }
            match &self.stage {
                Stage::Open | Stage::Closing => match self.poll_message(task) {
                    Poll::Ready(outcome) => outcome?,
                    Poll::Pending => return self.poll_pulse(task).map(Err),
                },
                Stage::Failing(reason) => {
                    let problem = io::Error::new(io::ErrorKind::InvalidData, reason.clone());
                    ready!(self.poll_failing(task));
                    self.stage = Stage::Over;
                    return Poll::Ready(Err(problem));
                }
                // Not the end of a file: the peer hears nothing any more, so nothing needs to be finished for it.
                Stage::Over => return Poll::Ready(Err(gone())),
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if !matches!(self.stage, Stage::Open) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        ready!(self.poll_room(task))?;
        let room = FRAGMENT - self.outgoing.len();
        let part = &bytes[..bytes.len().min(room)];
        let end = memchr::memchr(b'\n', part);
        self.outgoing.extend_from_slice(&part[..end.unwrap_or(part.len())]);
        if end.is_some() || self.outgoing.len() == FRAGMENT {
            self.send_collected(end.is_some())?;
        }
        Poll::Ready(Ok(end.map_or(part.len(), |end| end + 1)))
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_room(task))?;
        let flushed = Pin::new(&mut self.web).poll_flush(task);
        self.watch(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.stage {
                Stage::Open => {
                    let words = self.farewell.words();
                    self.say_goodbye(words);
                    self.stage = Stage::Closing;
                }
                Stage::Closing => {
                    ready!(self.poll_closing(task));
                    self.stage = Stage::Over;
                }
                Stage::Failing(_) => {
                    ready!(self.poll_failing(task));
                    self.stage = Stage::Over;
                }
                Stage::Over => {
                    let _ = Pin::new(&mut self.web).poll_flush(task);
                    return Pin::new(self.web.get_mut()).poll_shutdown(task);
                }
            }
        }
    }
}

/// A message may be spread over several lines, which are white space in JSON. So is a carriage return, and a string can hold
/// neither: what was valid stays valid, and nothing becomes so.
fn on_one_line(text: Bytes) -> Bytes {
    let Some(first) = memchr::memchr(b'\n', &text) else { return text };
    let mut text = text.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&*shared));
    for byte in &mut text[first..] {
        if *byte == b'\n' {
            *byte = b'\r';
        }
    }
    text.freeze()
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the peer has closed the connection")
}

/// Returns `true` if an error only says that the peer has disconnected.
#[cfg(feature = "server")]
pub(crate) fn is_gone(error: &ConnectionError) -> bool {
    matches!(error, ConnectionError::Read(error) if error.kind() == io::ErrorKind::ConnectionAborted)
}

/// A peer that has said goodbye reads no more, like one that has closed a pipe.
fn broken(error: WsError) -> io::Error {
    match error {
        WsError::Io(error) => error,
        WsError::ConnectionClosed | WsError::AlreadyClosed | WsError::Protocol(ProtocolError::SendAfterClosing) => {
            io::ErrorKind::BrokenPipe.into()
        }
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests;
