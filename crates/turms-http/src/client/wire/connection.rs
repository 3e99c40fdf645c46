//! One connection, and a request that is written to it.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::Method;
use http::header::{HOST, USER_AGENT};
use reqwest::Url;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::WireError;
use super::response::Head;
use crate::client::headers::Headers;

pub(super) struct Connection {
    stream: TcpStream,
    /// What was read and not used yet.
    pub(super) input: BytesMut,
    /// How much of an answer is expected to come with its head.
    first: usize,
    /// A request that is answered already, though not all of it has gone.
    rest: Option<Request<Bytes>>,
}

/// A request as it is written.
pub(super) struct Request<B> {
    head: Vec<u8>,
    body: B,
    written: usize,
}

impl<'a> Request<&'a Bytes> {
    pub(super) fn new(method: &Method, url: &Url, host: &str, headers: &Headers<'_>, body: &'a Bytes) -> Self {
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
        if !headers.contains(&HOST) {
            header("host", host.as_bytes());
        }
        if !headers.contains(&USER_AGENT) {
            header("user-agent", super::super::connector::USER_AGENT.as_bytes());
        }
        headers.each(|name, value| {
            // How the request is framed is nobody else's to say.
            if !matches!(name, "content-length" | "transfer-encoding") {
                header(name, value);
            }
        });
        if *method == Method::POST {
            header("content-length", decimal(body.len(), &mut [0; 20]));
        }
        head.extend_from_slice(b"\r\n");
        Self { head, body, written: 0 }
    }

    /// The same, for who goes on with it.
    fn taken(&mut self) -> Request<Bytes> {
        Request { head: std::mem::take(&mut self.head), body: self.body.clone(), written: self.written }
    }
}

/// A number as it is written.
fn decimal(mut number: usize, room: &mut [u8; 20]) -> &[u8] {
    let mut start = room.len();
    loop {
        start -= 1;
        room[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &room[start..];
        }
    }
}

impl<B: AsRef<[u8]>> Request<B> {
    /// Whether nobody can have seen anything of it.
    pub(super) fn is_unsent(&self) -> bool {
        self.written == 0
    }

    fn is_written(&self) -> bool {
        self.written == self.head.len() + self.body.as_ref().len()
    }

    fn poll_write(&mut self, stream: &mut TcpStream, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.is_written() {
            let head = self.head.get(self.written..).unwrap_or_default();
            let body = &self.body.as_ref()[self.written.saturating_sub(self.head.len())..];
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
        Self { stream, input: BytesMut::new(), first: SHORTEST, rest: None }
    }

    /// Holds no room while it waits for its next request.
    pub(super) fn rest(&mut self) {
        self.input = BytesMut::new();
    }

    /// Writes a request and reads the head of the answer, which may come before all of the request has gone.
    pub(super) async fn exchange(&mut self, request: &mut Request<&Bytes>) -> Result<Head, WireError> {
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
                        self.rest = Some(request.taken());
                    }
                    return Poll::Ready(Ok(head));
                }
                match self.poll_fill(task, self.first) {
                    Poll::Ready(Ok(0)) => {
                        let error = unwritten.take().map_or(WireError::Closed, WireError::Io);
                        return Poll::Ready(Err(error));
                    }
                    // Who answers at length does so again.
                    Poll::Ready(Ok(count)) if count >= self.first => self.first = LONGEST.min(2 * self.first),
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

/// How much of an answer is expected to come with its head: of the first, and at most. Allocators are quick with little.
const SHORTEST: usize = 1000;
const LONGEST: usize = 16 * 1024;
