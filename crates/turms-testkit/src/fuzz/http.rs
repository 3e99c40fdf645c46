//! Compares the HTTP/1.1 parser of turms-http with hyper: method, target, headers and body of every request.
//!
//! turms-http refuses more requests than hyper, so it may stop earlier, but never later.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turms_http::__internal::{BodyError, BodyLimit, HttpHandler, RequestHead};
use turms_http::{HttpBody, fuzzing};

/// Maximum length of a body. Inputs are shorter.
const MAX_BODY_BYTES: usize = 1 << 20;

/// Fuzz target for requests. The first byte is the size of the pieces in which the rest, any number of requests, is read.
pub fn http_request(data: &[u8]) {
    let Some((size, input)) = data.split_first() else { return };
    check(input, usize::from(*size).max(1));
}

/// Fuzz target for chunked bodies. The first byte is the size of the pieces in which the rest, a chunked body and more, is read.
pub fn http_chunks(data: &[u8]) {
    const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let Some((size, chunks)) = data.split_first() else { return };
    check(&[HEAD, chunks].concat(), usize::from(*size).max(1));
}

fn check(input: &[u8], size: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let in_pieces = parse_with_ours(input, size).await;
        let whole = parse_with_ours(input, input.len().max(1)).await;
        assert_eq!(whole, in_pieces, "the result depends on the pieces");
        let hypers = parse_with_hyper(input).await;
        assert!(whole.len() <= hypers.len(), "hyper parses fewer requests:\n{whole:#?}\n{hypers:#?}");
        assert_eq!(whole, hypers[..whole.len()], "hyper parses other requests");
    });
}

/// A request with its whole body.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ParsedRequest {
    method: Method,
    target: String,
    headers: HeaderMap,
    body: Bytes,
}

#[derive(Default)]
struct RequestRecorder(Mutex<Vec<ParsedRequest>>);

impl RequestRecorder {
    fn record(&self, head: http::request::Parts, body: Bytes) {
        let request = ParsedRequest { method: head.method, target: head.uri.to_string(), headers: head.headers, body };
        self.0.lock().push(request);
    }
}

impl HttpHandler for RequestRecorder {
    async fn check(&self, _: &mut RequestHead) -> Result<BodyLimit, Box<Response<HttpBody>>> {
        Ok(BodyLimit::new(MAX_BODY_BYTES, Duration::from_secs(60)))
    }

    async fn handle(&self, head: RequestHead, body: Result<Bytes, BodyError>) -> Response<HttpBody> {
        if let Ok(body) = body {
            self.record(head.into_parts(), body);
        }
        Response::new(HttpBody::whole(""))
    }

    fn shutdown_requested(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }

    fn begin_shutdown(&self) {}

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}

async fn parse_with_ours(input: &[u8], size: usize) -> Vec<ParsedRequest> {
    let recorder = RequestRecorder::default();
    fuzzing::serve_connection(PiecewiseInput::new(input, size), &recorder).await;
    recorder.0.into_inner()
}

async fn parse_with_hyper(input: &[u8]) -> Vec<ParsedRequest> {
    let recorder = Arc::new(RequestRecorder::default());
    let service = hyper::service::service_fn(|request: http::Request<Incoming>| {
        let recorder = recorder.clone();
        async move {
            let (head, body) = request.into_parts();
            // Success would turn the connection into a tunnel.
            let status = if head.method == Method::CONNECT { StatusCode::BAD_REQUEST } else { StatusCode::OK };
            if let Some(body) = collect(body).await {
                recorder.record(head, body);
            }
            let mut response = Response::new(HttpBody::whole(""));
            *response.status_mut() = status;
            Ok::<_, Infallible>(response)
        }
    });
    let io = TokioIo::new(PiecewiseInput::new(input, input.len().max(1)));
    let mut builder = hyper::server::conn::http1::Builder::new();
    // The client still reads after the end of its input.
    builder.half_close(true).header_read_timeout(None);
    // An error was sent to the client.
    let _ = builder.serve_connection(io, service).await;
    recorder.0.lock().clone()
}

/// Collects a body; `None` if it is invalid.
async fn collect(body: Incoming) -> Option<Bytes> {
    let mut body = pin!(body);
    let mut all = Vec::new();
    while let Some(frame) = poll_fn(|task| body.as_mut().poll_frame(task)).await {
        if let Ok(data) = frame.ok()?.into_data() {
            all.extend_from_slice(&data);
        }
    }
    Some(all.into())
}

/// A client that sends its input in pieces of one size, and discards responses.
struct PiecewiseInput {
    rest: Bytes,
    size: usize,
}

impl PiecewiseInput {
    fn new(input: &[u8], size: usize) -> Self {
        Self { rest: Bytes::copy_from_slice(input), size }
    }
}

impl AsyncRead for PiecewiseInput {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let length = self.size.min(out.remaining()).min(self.rest.len());
        out.put_slice(&self.rest.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PiecewiseInput {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
