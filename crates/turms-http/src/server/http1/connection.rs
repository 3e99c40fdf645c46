//! One connection: reads a request, calls the handler, writes the response, and repeats.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use http::{Method, Response};
use tokio::io::{AsyncRead, AsyncWrite};

use super::head::{HeadError, HeadParser, RawHead};
use super::idle_timer::IdleTimer;
use super::io::ConnectionIo;
use super::response::ResponseMode;
use crate::framing::Framing;
use crate::server::PeerAddress;
use crate::server::handler::HttpHandler;
use crate::server::listener::AcceptedConnection;
use crate::server::options::ConnectionLimits;
use crate::server::request::RequestHead;
use crate::server::request::body::BodyError;
use crate::server::response::HttpBody;
use crate::server::shutdown::GracefulShutdown;

/// The connection preface of HTTP/2 (RFC 9113, 3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Serves one connection. An HTTP/2 connection is served by hyper if the feature `server-http2` is enabled.
pub(in crate::server) fn serve<H: HttpHandler>(
    accepted: AcceptedConnection,
    handler: Arc<H>,
) -> impl Future<Output = ()> + Send {
    let AcceptedConnection { stream, peer, limits, shutdown, permit } = accepted;
    // Built outside the future, which would otherwise contain it twice.
    let mut connection = HttpConnection::new(stream, peer, limits, shutdown);
    async move {
        let _version = connection.serve(&*handler).await;
        #[cfg(feature = "server-http2")]
        if _version == HttpVersion::Http2 {
            let HttpConnection { io, shutdown, .. } = connection;
            // Boxed, because it has 2 248 bytes that an HTTP/1.1 connection does not need.
            Box::pin(crate::server::hyper::serve_stream(io.rewind(), handler, peer, limits, &shutdown)).await;
        }
        drop(permit);
    }
}

/// One connection.
pub(in crate::server) struct HttpConnection<I> {
    pub(super) io: ConnectionIo<I>,
    idle: IdleTimer,
    is_first: bool,
    peer: Option<PeerAddress>,
    shutdown: Arc<GracefulShutdown>,
}

/// The HTTP version of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum HttpVersion {
    /// HTTP/1.1 or HTTP/1.0.
    Http1,
    /// HTTP/2, with all bytes still to be read.
    Http2,
}

/// A request before its body is read.
struct IncomingRequest {
    head: RequestHead,
    framing: Framing,
    keep_alive: bool,
    expects_continue: bool,
    is_http10: bool,
}

/// The next step of a connection.
enum NextStep {
    /// Wait for another request.
    Request,
    /// Close the connection, after draining the input if `drain` is `true`.
    Close { drain: bool },
    /// Respond to bytes that are not a valid request, and close the connection.
    Reject(HeadError),
    /// Pass the connection to hyper.
    Http2,
}

impl<I: AsyncRead + AsyncWrite + Send + Unpin> HttpConnection<I> {
    pub(in crate::server) fn new(
        io: I,
        peer: Option<PeerAddress>,
        limits: ConnectionLimits,
        shutdown: Arc<GracefulShutdown>,
    ) -> Self {
        let idle = IdleTimer::new(limits.header_timeout);
        Self { io: ConnectionIo::new(io, limits.write_timeout), idle, is_first: true, peer, shutdown }
    }

    /// Serves the requests of the connection until it closes or turns out to be HTTP/2.
    pub(in crate::server) async fn serve<H: HttpHandler>(&mut self, handler: &H) -> HttpVersion {
        loop {
            match self.serve_next(handler).await {
                Ok(NextStep::Request) => {}
                Ok(NextStep::Close { drain }) => {
                    self.io.close(drain).await;
                    return HttpVersion::Http1;
                }
                Ok(NextStep::Reject(error)) => {
                    let drain = self.reject(error, handler).await.is_ok();
                    self.io.close(drain).await;
                    return HttpVersion::Http1;
                }
                Ok(NextStep::Http2) => return HttpVersion::Http2,
                Err(error) => {
                    // Clients may disconnect at any time: this is not a server error.
                    tracing::debug!(%error, "a connection broke");
                    return HttpVersion::Http1;
                }
            }
        }
    }

    /// Serves the next request.
    async fn serve_next<H: HttpHandler>(&mut self, handler: &H) -> std::io::Result<NextStep> {
        let mut request = match self.next_request().await {
            Ok(request) => request,
            Err(next) => return Ok(next),
        };
        let IncomingRequest { framing, is_http10, .. } = request;
        let is_head_request = *request.head.method() == Method::HEAD;
        let (mut is_body_read, mut is_body_begun) = (false, false);
        let response = match handler.check(&mut request.head).await {
            Err(response) => *response,
            Ok(limit) => {
                let body = match limit.0 {
                    Some((max_length, timeout)) => {
                        let body = match self.take_buffered_body(framing, max_length) {
                            Some(body) => body,
                            None => {
                                is_body_begun = true;
                                self.read_body(framing, max_length, timeout, request.expects_continue).await?
                            }
                        };
                        is_body_read = body.is_ok();
                        body
                    }
                    None => Ok(Bytes::new()),
                };
                let handling = pin!(handler.handle(request.head, body));
                match self.until_disconnected(handling).await {
                    Some(response) => response,
                    None => return Ok(NextStep::Close { drain: false }),
                }
            }
        };
        // The rest of a partially read body must not be interpreted as another body.
        let is_at_next_request =
            !self.io.has_dropped_input && (is_body_read || (!is_body_begun && self.skip_buffered_body(framing)));
        let keep_alive = request.keep_alive && is_at_next_request && !self.shutdown.is_shutting_down();
        let keep_alive = self.write(response, ResponseMode { is_head_request, is_http10, keep_alive }).await?;
        self.io.release_buffer();
        self.idle.restart();
        Ok(match (keep_alive, is_at_next_request && !self.io.has_dropped_input) {
            (true, true) => NextStep::Request,
            (false, true) => NextStep::Close { drain: false },
            (_, false) => NextStep::Close { drain: true },
        })
    }

    /// Responds to bytes that are not a valid request.
    async fn reject<H: HttpHandler>(&mut self, error: HeadError, handler: &H) -> std::io::Result<()> {
        tracing::debug!(%error, "invalid request");
        let response = handler.reject(error.status(), error.to_string());
        let mode = ResponseMode { is_head_request: false, is_http10: false, keep_alive: false };
        self.write(response, mode).await.map(drop)
    }

    /// Waits for the next head, until the client disconnects, the connection is idle for too long, or the listener
    /// shuts down.
    async fn next_request(&mut self) -> Result<IncomingRequest, NextStep> {
        let mut parser = HeadParser::default();
        poll_fn(|task| {
            loop {
                if let Some(next) = self.parse_buffered(&mut parser) {
                    return Poll::Ready(next);
                }
                match self.io.poll_fill(task) {
                    Poll::Ready(Ok(count)) if count > 0 => {}
                    Poll::Ready(_) => return Poll::Ready(Err(NextStep::Close { drain: false })),
                    Poll::Pending if self.shutdown.is_shutting_down() && self.io.input.is_empty() => {
                        return Poll::Ready(Err(NextStep::Close { drain: false }));
                    }
                    Poll::Pending => return self.idle.poll(task).map(|()| Err(NextStep::Close { drain: false })),
                }
            }
        })
        .await
    }

    /// Parses the buffered input. Returns `None` if the head is incomplete.
    fn parse_buffered(&mut self, parser: &mut HeadParser) -> Option<Result<IncomingRequest, NextStep>> {
        let input = &mut self.io.input;
        if input.is_empty() {
            return None;
        }
        if self.is_first && cfg!(feature = "server-http2") {
            if input.starts_with(PREFACE) {
                return Some(Err(NextStep::Http2));
            }
            if PREFACE.starts_with(input) {
                return None;
            }
            self.is_first = false;
        }
        // Some clients send an empty line after a body (RFC 9112, 2.2).
        while parser.is_fresh() && input.starts_with(b"\r") {
            match input.get(1) {
                Some(b'\n') => input.advance(2),
                Some(_) => break,
                None => return None,
            }
        }
        let parsed = match parser.parse(input) {
            Ok(parsed) => parsed?,
            Err(error) => return Some(Err(NextStep::Reject(error))),
        };
        let raw = RawHead::new(input.split_to(parsed.length).freeze(), parsed.target);
        Some(Ok(IncomingRequest {
            head: RequestHead::from_raw(parsed.method, raw, &parsed.headers, self.peer),
            framing: parsed.framing,
            keep_alive: parsed.keep_alive,
            expects_continue: parsed.expects_continue,
            is_http10: parsed.is_http10,
        }))
    }

    /// Waits for a response. Returns `None` if the client disconnects first.
    async fn until_disconnected<F>(&mut self, mut handling: Pin<&mut F>) -> Option<Response<HttpBody>>
    where
        F: Future<Output = Response<HttpBody>>,
    {
        poll_fn(|task| match handling.as_mut().poll(task) {
            Poll::Ready(response) => Poll::Ready(Some(response)),
            Poll::Pending => self.io.poll_disconnected(task).map(|()| None),
        })
        .await
    }

    /// Returns the body, or its error, if it is already buffered, as for most requests.
    fn take_buffered_body(&mut self, framing: Framing, max_length: usize) -> Option<Result<Bytes, BodyError>> {
        match framing {
            Framing::Length(0) => Some(Ok(Bytes::new())),
            Framing::Length(length) if length > max_length as u64 => Some(Err(BodyError::TooLong(max_length))),
            Framing::Length(length) if length <= self.io.input.len() as u64 => {
                Some(Ok(self.io.input.split_to(length as usize).freeze()))
            }
            _ => None,
        }
    }

    async fn read_body(
        &mut self,
        framing: Framing,
        max_length: usize,
        timeout: Duration,
        expects_continue: bool,
    ) -> std::io::Result<Result<Bytes, BodyError>> {
        if expects_continue && self.io.input.is_empty() {
            self.io.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let reading = async {
            match framing {
                Framing::Length(length) => self.io.read_exactly(length as usize).await,
                Framing::Chunked => self.io.read_chunks(max_length).await,
            }
        };
        Ok(tokio::time::timeout(timeout, reading).await.unwrap_or(Err(BodyError::Timeout(timeout))))
    }

    /// Skips an unread body if it is buffered. Otherwise the connection cannot be used for another request.
    fn skip_buffered_body(&mut self, framing: Framing) -> bool {
        match framing {
            Framing::Length(length) if length <= self.io.input.len() as u64 => {
                self.io.input.advance(length as usize);
                true
            }
            _ => false,
        }
    }
}
