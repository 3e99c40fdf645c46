//! A WebSocket as the byte stream of a connection: one message per line.

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
use turms_proto::format_duration;

use crate::close::{CloseState, close_frame};
use crate::heartbeat::{Heartbeat, HeartbeatAction, HeartbeatOptions};

/// A WebSocket as a byte stream. Each text message is read as a line, and each line is written as a text message.
///
/// A message that is longer than [`MAX_FRAME_BYTES`] is sent in several frames, so that only one frame is buffered, pings and pongs are
/// sent between frames, and the writer waits for a peer that does not read.
#[derive(Debug)]
pub(crate) struct WsByteStream<S> {
    websocket: WebSocketStream<S>,
    role: Role,
    stage: SocketStage,
    limit: usize,
    /// The rest of the message that is being read.
    incoming: Option<Bytes>,
    /// The buffered part of the message that is being written.
    outgoing: BytesMut,
    /// `true` if a part of the message that is being written was sent.
    is_partly_sent: bool,
    /// A frame that did not fit into the write buffer.
    pending_frame: Option<Frame>,
    /// `true` if the last write had to wait for the peer.
    blocked: bool,
    heartbeat: Heartbeat,
    close: Arc<CloseState>,
    /// The timeout for the close frame of the peer, while closing.
    close_timeout: Option<Pin<Box<Sleep>>>,
}

/// Maximum number of bytes of a message in one frame.
const MAX_FRAME_BYTES: usize = 64 * 1024;

/// Number of buffered bytes above which the buffer is written to the connection, even without a flush.
const WRITE_BUFFER_BYTES: usize = 16 * 1024;

/// Space in the write buffer for pings, pongs and close frames, in addition to that for messages.
const CONTROL_FRAME_BYTES: usize = 4 * 1024;

/// Size of the read buffer of a connection.
const READ_BUFFER_BYTES: usize = 8 * 1024;

/// Timeout for the close frame of the peer.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The progress of closing a socket.
#[derive(Debug)]
enum SocketStage {
    Open,
    /// The close frame is sent, and that of the peer is awaited.
    Closing,
    /// The peer has violated the protocol and is sent a close frame. Its input is read and discarded for a while: closing the socket with
    /// unread input would reset the connection, and the peer might not read the close frame (RFC 9293, 3.10.7.1).
    Failing(String),
    Closed,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WsByteStream<S> {
    /// Wraps a stream after the handshake. A message has at most `limit` bytes.
    pub(crate) async fn new(
        stream: S,
        role: Role,
        limit: usize,
        heartbeat: HeartbeatOptions,
        close: Arc<CloseState>,
    ) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_BYTES)
            .write_buffer_size(WRITE_BUFFER_BYTES)
            .max_write_buffer_size(WRITE_BUFFER_BYTES + MAX_FRAME_BYTES + CONTROL_FRAME_BYTES)
            .max_message_size(Some(limit))
            .max_frame_size(Some(limit));
        Self {
            websocket: WebSocketStream::from_raw_socket(stream, role, Some(config)).await,
            role,
            stage: SocketStage::Open,
            limit,
            incoming: None,
            outgoing: BytesMut::new(),
            is_partly_sent: false,
            pending_frame: None,
            blocked: false,
            heartbeat: Heartbeat::new(heartbeat),
            close,
            close_timeout: None,
        }
    }

    /// Copies the rest of the current message to a buffer. Returns `false` if there is none.
    fn copy_message(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
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

    /// Reads the next message. Ready without one when the socket is closed.
    fn poll_message(&mut self, task: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        loop {
            match ready!(Pin::new(&mut self.websocket).poll_next(task)) {
                Some(Ok(message)) => {
                    self.heartbeat.reset();
                    self.handle_message(message, task);
                }
                Some(Err(error)) => self.handle_error(error, task)?,
                None => self.stage = SocketStage::Closed,
            }
            if self.incoming.is_some() || !matches!(self.stage, SocketStage::Open | SocketStage::Closing) {
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn handle_message(&mut self, message: Message, task: &mut TaskContext<'_>) {
        match message {
            Message::Text(text) => self.incoming = Some(join_lines(text.into())),
            Message::Binary(_) => self.fail(CloseCode::Unsupported, "a message must be text, not binary", task),
            Message::Close(close) => self.handle_close(close.as_ref(), task),
            // tungstenite responds to pings while it reads and writes.
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
    }

    fn handle_close(&mut self, close: Option<&CloseFrame>, task: &mut TaskContext<'_>) {
        self.close.received(close);
        self.stage = SocketStage::Closed;
        // The rest of the output is written when the stream is shut down. The server closes first (RFC 6455, 7.1.1), and at
        // once: responses of running calls could not be sent anyway.
        if Pin::new(&mut self.websocket).poll_flush(task).is_ready() && self.role == Role::Server {
            let _ = Pin::new(self.websocket.get_mut()).poll_shutdown(task);
        }
    }

    fn handle_error(&mut self, error: WsError, task: &mut TaskContext<'_>) -> io::Result<()> {
        match error {
            WsError::ConnectionClosed | WsError::AlreadyClosed => self.stage = SocketStage::Closed,
            WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
                self.close.disconnected();
                self.stage = SocketStage::Closed;
            }
            WsError::Io(error) => {
                self.close.failed(&error);
                self.stage = SocketStage::Closed;
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
        self.close.violated(reason);
        self.send_close(close_frame(code, reason));
        self.stage = SocketStage::Failing(reason.to_owned());
        let _ = self.poll_failing(task);
    }

    fn send_close(&mut self, close: CloseFrame) {
        // A full write buffer is ignored: the peer does not read.
        let _ = Pin::new(&mut self.websocket).start_send(Message::Close(Some(close)));
        self.close_timeout = Some(Box::pin(tokio::time::sleep(CLOSE_TIMEOUT)));
    }

    /// Ready when a peer that has violated the protocol has received the close frame, or has timed out.
    fn poll_failing(&mut self, task: &mut TaskContext<'_>) -> Poll<()> {
        if self.has_close_timed_out(task) || ready!(Pin::new(&mut self.websocket).poll_flush(task)).is_err() {
            return Poll::Ready(());
        }
        let stream = self.websocket.get_mut();
        if ready!(Pin::new(&mut *stream).poll_shutdown(task)).is_err() {
            return Poll::Ready(());
        }
        let mut discarded = [0; 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut discarded);
            let read = ready!(Pin::new(&mut *stream).poll_read(task, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                return Poll::Ready(());
            }
        }
    }

    /// Ready when the peer has sent its close frame, or has timed out.
    fn poll_closing(&mut self, task: &mut TaskContext<'_>) -> Poll<()> {
        if self.has_close_timed_out(task) || ready!(Pin::new(&mut self.websocket).poll_flush(task)).is_err() {
            return Poll::Ready(());
        }
        loop {
            match ready!(Pin::new(&mut self.websocket).poll_next(task)) {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Poll::Ready(()),
                Some(Ok(_)) => {}
            }
        }
    }

    fn has_close_timed_out(&mut self, task: &mut TaskContext<'_>) -> bool {
        self.close_timeout.as_mut().is_some_and(|timeout| timeout.as_mut().poll(task).is_ready())
    }

    /// Sends pings. Ready when the peer does not respond to one.
    fn poll_heartbeat(&mut self, task: &mut TaskContext<'_>) -> Poll<io::Error> {
        loop {
            match ready!(self.heartbeat.poll(task)) {
                HeartbeatAction::Ping => {
                    // A full write buffer is ignored: the peer does not read.
                    let _ = Pin::new(&mut self.websocket).start_send(Message::Ping(Bytes::new()));
                    let _ = Pin::new(&mut self.websocket).poll_flush(task);
                }
                HeartbeatAction::TimedOut(silence) => {
                    self.close.ping_timed_out(silence);
                    self.stage = SocketStage::Closed;
                    let message =
                        format!("the peer sent nothing for {} and did not respond to a ping", format_duration(silence));
                    return Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, message));
                }
            }
        }
    }

    /// Ready when another frame can be sent.
    fn poll_send_ready(&mut self, task: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        let ready = Pin::new(&mut self.websocket).poll_ready(task);
        ready!(self.track_progress(ready))?;
        while let Some(frame) = self.pending_frame.take() {
            let flushed = Pin::new(&mut self.websocket).poll_flush(task);
            match self.track_progress(flushed) {
                // The buffer is empty now, and has space for the frame.
                Poll::Ready(Ok(())) => self.send_frame(frame)?,
                pending_or_error => {
                    self.pending_frame = Some(frame);
                    return pending_or_error;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn send_frame(&mut self, frame: Frame) -> io::Result<()> {
        match Pin::new(&mut self.websocket).start_send(Message::Frame(frame)) {
            Ok(()) => Ok(()),
            // Pongs have filled the buffer. `poll_send_ready` tries again.
            Err(WsError::WriteBufferFull(message)) => {
                if let Message::Frame(frame) = *message {
                    self.pending_frame = Some(frame);
                }
                Ok(())
            }
            Err(error) => Err(to_io_error(error)),
        }
    }

    fn send_buffered(&mut self, last: bool) -> io::Result<()> {
        let kind = if self.is_partly_sent { Data::Continue } else { Data::Text };
        self.is_partly_sent = !last;
        let frame = Frame::message(self.outgoing.split().freeze(), OpCode::Data(kind), last);
        self.send_frame(frame)
    }

    /// Restarts the heartbeat when a blocked write continues: a peer that reads is alive, although its pongs may be delayed by what it still
    /// has to read.
    fn track_progress(&mut self, written: Poll<Result<(), WsError>>) -> Poll<io::Result<()>> {
        match written {
            Poll::Pending => {
                self.blocked = true;
                Poll::Pending
            }
            Poll::Ready(Ok(())) => {
                if std::mem::take(&mut self.blocked) {
                    self.heartbeat.reset();
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(to_io_error(error))),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for WsByteStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut TaskContext<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.copy_message(buffer) {
                return Poll::Ready(Ok(()));
            }
            match &self.stage {
                SocketStage::Open | SocketStage::Closing => match self.poll_message(task) {
                    Poll::Ready(outcome) => outcome?,
                    Poll::Pending => return self.poll_heartbeat(task).map(Err),
                },
                SocketStage::Failing(reason) => {
                    let error = io::Error::new(io::ErrorKind::InvalidData, reason.clone());
                    ready!(self.poll_failing(task));
                    self.stage = SocketStage::Closed;
                    return Poll::Ready(Err(error));
                }
                // An error, not the end of a file: the peer does not read any more, so running calls need not finish.
                SocketStage::Closed => return Poll::Ready(Err(peer_closed())),
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WsByteStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if !matches!(self.stage, SocketStage::Open) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        ready!(self.poll_send_ready(task))?;
        let room = MAX_FRAME_BYTES - self.outgoing.len();
        let part = &bytes[..bytes.len().min(room)];
        let end = memchr::memchr(b'\n', part);
        self.outgoing.extend_from_slice(&part[..end.unwrap_or(part.len())]);
        if end.is_some() || self.outgoing.len() == MAX_FRAME_BYTES {
            self.send_buffered(end.is_some())?;
        }
        Poll::Ready(Ok(end.map_or(part.len(), |end| end + 1)))
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send_ready(task))?;
        let flushed = Pin::new(&mut self.websocket).poll_flush(task);
        self.track_progress(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.stage {
                SocketStage::Open => {
                    let frame = self.close.frame();
                    self.send_close(frame);
                    self.stage = SocketStage::Closing;
                }
                SocketStage::Closing => {
                    ready!(self.poll_closing(task));
                    self.stage = SocketStage::Closed;
                }
                SocketStage::Failing(_) => {
                    ready!(self.poll_failing(task));
                    self.stage = SocketStage::Closed;
                }
                SocketStage::Closed => {
                    let _ = Pin::new(&mut self.websocket).poll_flush(task);
                    return Pin::new(self.websocket.get_mut()).poll_shutdown(task);
                }
            }
        }
    }
}

/// Replaces line feeds by carriage returns, so that a message is one line. Both are white space in JSON and invalid in a string, so this
/// does not change whether or what a message is.
fn join_lines(text: Bytes) -> Bytes {
    let Some(first) = memchr::memchr(b'\n', &text) else { return text };
    let mut text = text.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&*shared));
    for byte in &mut text[first..] {
        if *byte == b'\n' {
            *byte = b'\r';
        }
    }
    text.freeze()
}

fn peer_closed() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the peer has closed the connection")
}

/// Returns `true` if an error only means that the peer has disconnected.
#[cfg(feature = "server")]
pub(crate) fn is_peer_closed(error: &ConnectionError) -> bool {
    matches!(error, ConnectionError::Read(error) if error.kind() == io::ErrorKind::ConnectionAborted)
}

/// Converts an error. A peer that has sent a close frame does not read any more, as with a broken pipe.
fn to_io_error(error: WsError) -> io::Error {
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
