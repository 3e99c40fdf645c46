//! What our HTTP/1.1 understands, hyper understands alike: method, target, headers and body of every request.
//!
//! Ours refuses more than hyper does, so a conversation may end earlier here, never later.

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
use turms_http::{BodyError, BodyLimit, HttpBody, HttpHandler, RequestHead, fuzzing};

/// Maximum length of a body here. Inputs are shorter.
const MAX_BODY: usize = 1 << 20;

/// The first byte says how long the pieces are in which the rest, any number of requests, arrives.
pub fn http_request(data: &[u8]) {
    let Some((size, input)) = data.split_first() else { return };
    check(input, usize::from(*size).max(1));
}

/// The first byte says how long the pieces are in which the rest, a body in chunks and what follows it, arrives.
pub fn http_chunks(data: &[u8]) {
    const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let Some((size, chunks)) = data.split_first() else { return };
    check(&[HEAD, chunks].concat(), usize::from(*size).max(1));
}

fn check(input: &[u8], size: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let cut = read_by_ours(input, size).await;
        let whole = read_by_ours(input, input.len().max(1)).await;
        assert_eq!(whole, cut, "where the input is cut matters");
        let hypers = read_by_hyper(input).await;
        assert!(whole.len() <= hypers.len(), "hyper understands less:\n{whole:#?}\n{hypers:#?}");
        assert_eq!(whole, hypers[..whole.len()], "hyper understands something else");
    });
}

/// A request whose body has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Request {
    method: Method,
    target: String,
    headers: HeaderMap,
    body: Bytes,
}

#[derive(Default)]
struct Recorder(Mutex<Vec<Request>>);

impl Recorder {
    fn record(&self, head: http::request::Parts, body: Bytes) {
        let request = Request { method: head.method, target: head.uri.to_string(), headers: head.headers, body };
        self.0.lock().push(request);
    }
}

impl HttpHandler for Recorder {
    async fn check(&self, _: &mut RequestHead) -> Result<BodyLimit, Box<Response<HttpBody>>> {
        Ok(BodyLimit::new(MAX_BODY, Duration::from_secs(60)))
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

async fn read_by_ours(input: &[u8], size: usize) -> Vec<Request> {
    let recorder = Recorder::default();
    fuzzing::serve_connection(Input::new(input, size), &recorder).await;
    recorder.0.into_inner()
}

async fn read_by_hyper(input: &[u8]) -> Vec<Request> {
    let recorder = Arc::new(Recorder::default());
    let service = hyper::service::service_fn(|request: http::Request<Incoming>| {
        let recorder = recorder.clone();
        async move {
            let (head, body) = request.into_parts();
            // Success would make a tunnel of the connection.
            let status = if head.method == Method::CONNECT { StatusCode::BAD_REQUEST } else { StatusCode::OK };
            if let Some(body) = collect(body).await {
                recorder.record(head, body);
            }
            let mut response = Response::new(HttpBody::whole(""));
            *response.status_mut() = status;
            Ok::<_, Infallible>(response)
        }
    });
    let io = TokioIo::new(Input::new(input, input.len().max(1)));
    let mut builder = hyper::server::conn::http1::Builder::new();
    // The end of the input is not the end of the client.
    builder.half_close(true).header_read_timeout(None);
    // A connection that ends with an error has said so to the client.
    let _ = builder.serve_connection(io, service).await;
    recorder.0.lock().clone()
}

/// A whole body; `None` if it is broken.
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

/// A client that sends its input in pieces of one length, and reads whatever comes.
struct Input {
    rest: Bytes,
    size: usize,
}

impl Input {
    fn new(input: &[u8], size: usize) -> Self {
        Self { rest: Bytes::copy_from_slice(input), size }
    }
}

impl AsyncRead for Input {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let length = self.size.min(out.remaining()).min(self.rest.len());
        out.put_slice(&self.rest.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Input {
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
