//! A minimal HTTP server on 127.0.0.1, whose sessions consist of their ids only.

use std::collections::HashSet;
use std::convert::Infallible;
use std::future::poll_fn;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::pin::Pin;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderValue, ORIGIN};
use http::{Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::answer::{Answered, Repeated, answer};

const SESSION: &str = "mcp-session-id";

static SESSIONS: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);

#[tokio::main]
pub(crate) async fn serve(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(Builder::new().serve_connection(TokioIo::new(stream), service_fn(respond)));
    }
}

async fn respond(request: Request<Incoming>) -> Result<Response<Whole>, hyper::Error> {
    let (parts, mut body) = request.into_parts();
    let headers = &parts.headers;
    if !is_local(headers) || headers.contains_key(ORIGIN) {
        return Ok(empty(StatusCode::FORBIDDEN));
    }
    let session = text(headers, SESSION);
    let is_known = session.is_none_or(|id| sessions().contains(id));
    match parts.method {
        _ if !is_known => return Ok(empty(StatusCode::NOT_FOUND)),
        Method::POST => {}
        _ => return Ok(empty(StatusCode::METHOD_NOT_ALLOWED)),
    }
    let all = read(&mut body).await?;
    let repeated = Repeated {
        version: text(headers, "mcp-protocol-version"),
        method: text(headers, "mcp-method"),
        name: text(headers, "mcp-name"),
    };
    let mut out = Vec::with_capacity(all.len() + 256);
    let answered = answer(&all, Some(repeated), &mut out);
    Ok(match answered {
        Answered::Invalid => empty(StatusCode::BAD_REQUEST),
        Answered::Accepted => empty(StatusCode::ACCEPTED),
        Answered::Response | Answered::Initialized => {
            let mut response = Response::new(Whole(Some(out.into())));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            if answered == Answered::Initialized
                && let Ok(id) = HeaderValue::from_str(&begin_session())
            {
                response.headers_mut().insert(SESSION, id);
            }
            response
        }
    })
}

/// Reads a whole body.
pub(crate) async fn read(body: &mut Incoming) -> Result<Bytes, hyper::Error> {
    let mut all: Option<Bytes> = None;
    while let Some(frame) = poll_fn(|task| Pin::new(&mut *body).poll_frame(task)).await {
        let Ok(data) = frame?.into_data() else { continue };
        all = Some(match all {
            None => data,
            Some(before) => [before, data].concat().into(),
        });
    }
    Ok(all.unwrap_or_default())
}

fn is_local(headers: &HeaderMap) -> bool {
    let host = text(headers, HOST.as_str()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name == "127.0.0.1" || name == "localhost"
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn sessions() -> std::sync::MutexGuard<'static, HashSet<String>> {
    SESSIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn begin_session() -> String {
    let mut sessions = sessions();
    let id = format!("{:016x}{:06x}", RandomState::new().hash_one(sessions.len()), sessions.len());
    sessions.insert(id.clone());
    id
}

fn empty(status: StatusCode) -> Response<Whole> {
    let mut response = Response::new(Whole(None));
    *response.status_mut() = status;
    response
}

/// A body in one piece.
pub(crate) struct Whole(pub(crate) Option<Bytes>);

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
