//! One connection, and a request that is written to it.

use std::future::poll_fn;
use std::io::{self, IoSlice, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HOST, USER_AGENT};
use http::{HeaderMap, Method};
use reqwest::Url;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::WireError;
use super::response::Head;

pub(super) struct Connection {
    stream: TcpStream,
    /// What was read and not used yet.
    pub(super) input: BytesMut,
    /// A request that is answered already, though not all of it has gone.
    rest: Option<Request>,
}

/// A request as it is written.
#[derive(Clone)]
pub(super) struct Request {
    head: Vec<u8>,
    body: Bytes,
    written: usize,
}

impl Request {
    pub(super) fn new(method: &Method, url: &Url, host: &str, headers: &HeaderMap, body: &Bytes) -> Self {
        let mut head = Vec::with_capacity(512);
        head.extend_from_slice(method.as_str().as_bytes());
        head.push(b' ');
        head.extend_from_slice(url.path().as_bytes());
        if let Some(query) = url.query() {
            head.push(b'?');
            head.extend_from_slice(query.as_bytes());
        }
        head.extend_from_slice(b" HTTP/1.1\r\n");
        let mut header = |name: &str, value: &[u8]| {
            for part in [name.as_bytes(), b": ", value, b"\r\n"] {
                head.extend_from_slice(part);
            }
        };
        if !headers.contains_key(HOST) {
            header("host", host.as_bytes());
        }
        if !headers.contains_key(USER_AGENT) {
            header("user-agent", super::super::connector::USER_AGENT.as_bytes());
        }
        // How the request is framed is nobody else's to say.
        let is_ours = |name: &http::HeaderName| !matches!(*name, CONTENT_LENGTH | http::header::TRANSFER_ENCODING);
        for (name, value) in headers.iter().filter(|(name, _)| is_ours(name)) {
            header(name.as_str(), value.as_bytes());
        }
        if *method == Method::POST {
            // Writing to memory does not fail.
            let _ = write!(head, "content-length: {}\r\n", body.len());
        }
        head.extend_from_slice(b"\r\n");
        Self { head, body: body.clone(), written: 0 }
    }

    /// Whether nobody can have seen anything of it.
    pub(super) fn is_unsent(&self) -> bool {
        self.written == 0
    }

    fn is_written(&self) -> bool {
        self.written == self.head.len() + self.body.len()
    }

    fn poll_write(&mut self, stream: &mut TcpStream, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.is_written() {
            let head = self.head.get(self.written..).unwrap_or_default();
            let body = &self.body[self.written.saturating_sub(self.head.len())..];
            let pieces = [IoSlice::new(head), IoSlice::new(body)];
            match ready!(Pin::new(&mut *stream).poll_write_vectored(task, &pieces))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, input: BytesMut::new(), rest: None }
    }

    /// Writes a request and reads the head of the answer, which may come before all of the request has gone.
    pub(super) async fn exchange(&mut self, request: &mut Request) -> Result<Head, WireError> {
        let mut searched = 0;
        // A server that refuses a request may close without having read it, and yet have said why.
        let mut unwritten = None;
        poll_fn(|task| {
            if unwritten.is_none()
                && let Poll::Ready(Err(error)) = request.poll_write(&mut self.stream, task)
            {
                if request.is_unsent() {
                    return Poll::Ready(Err(WireError::Io(error)));
                }
                unwritten = Some(error);
            }
            loop {
                if let Some(mut head) = Head::take(&mut self.input, &mut searched)? {
                    head.keeps_alive &= request.is_written();
                    // Who refuses a request does not want the rest of it; who takes it may wait for it.
                    if !request.is_written() && unwritten.is_none() && head.status.is_success() {
                        self.rest = Some(request.clone());
                    }
                    return Poll::Ready(Ok(head));
                }
                match self.poll_fill(task, FIRST) {
                    Poll::Ready(Ok(0)) => {
                        let error = unwritten.take().map_or(WireError::Closed, WireError::Io);
                        return Poll::Ready(Err(error));
                    }
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(WireError::Io(error))),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }

    /// Reads what is there, with room for so much of it, and writes what is left of the request.
    pub(super) fn poll_fill(&mut self, task: &mut Context<'_>, room: usize) -> Poll<io::Result<usize>> {
        // If it cannot be written, the answer says why, or ends as well.
        if let Some(rest) = &mut self.rest
            && rest.poll_write(&mut self.stream, task).is_ready()
        {
            self.rest = None;
        }
        self.input.reserve(room);
        let before = self.input.len();
        let mut reading = std::pin::pin!(tokio::io::AsyncReadExt::read_buf(&mut self.stream, &mut self.input));
        ready!(reading.as_mut().poll(task))?;
        Poll::Ready(Ok(self.input.len() - before))
    }

    /// Whether the server has neither closed it nor said anything, as far as the runtime has heard.
    pub(super) fn is_quiet(&mut self) -> bool {
        let mut byte = [0];
        let mut read = ReadBuf::new(&mut byte);
        let reading = poll_fn(|task| Pin::new(&mut self.stream).poll_read(task, &mut read));
        // A task that has done much at once would be told to wait, whatever there is.
        let reading = std::pin::pin!(tokio::task::unconstrained(reading));
        reading.poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending()
    }

    /// The connection, if the server has neither closed it nor said anything. Asks the system: the runtime may have heard of
    /// nothing because nothing has run in it.
    pub(super) fn if_quiet(self) -> Option<Self> {
        let stream = self.stream.into_std().ok()?;
        let is_quiet = stream.peek(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        let stream = is_quiet.then(|| TcpStream::from_std(stream))?.ok()?;
        Some(Self { stream, ..self })
    }
}

/// How much of an answer is expected to come with its head.
const FIRST: usize = 4 * 1024;
