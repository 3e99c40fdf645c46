//! The HTTP+SSE transport of 2024-11-05: an event stream from the server, and a URL for messages to it.
//!
//! A session works like a stdio connection: posted messages are its input, events are its output, and it ends with its
//! stream.

use std::collections::HashMap;
use std::future::pending;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::SystemTime;

use bytes::{Buf as _, Bytes};
use http::request::Parts;
use http::{Extensions, StatusCode};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, DuplexStream, ReadBuf};
use tokio::sync::mpsc;
use turms_core::__internal::{LineExtensions, random_id};
use turms_core::{Connection, Principal, Remote};
use turms_proto::header::HeaderLookup;
use turms_proto::{Ability, Incoming, Lines};

use super::HttpState;
use super::guard::{SharedGuard, sleep_until};
use super::keep_alive::KeepAlive;
use super::request::RequestHead;
use super::request::body::BodyError;
use super::request::headers::{self, KnownHeader};
use super::response::EventSource;
use super::response::{self, HttpResponse};
use super::stream_limit::StreamPermit;
use crate::sse;

/// The query parameter for the session id in the message URL.
const SESSION_PARAM: &str = "session_id=";

pub(super) fn is_opening(head: &RequestHead) -> bool {
    last_segment(&head.path_and_query().0) == "sse" && head.lookup(KnownHeader::SessionId) == HeaderLookup::Absent
}

pub(super) fn is_message(head: &RequestHead) -> bool {
    // Most requests have no query.
    match head.path_and_query() {
        (path, Some(query)) => session_in(&query).is_some() && last_segment(&path) == "messages",
        _ => false,
    }
}

fn last_segment(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

fn session_in(query: &str) -> Option<&str> {
    query.split('&').find_map(|session| session.strip_prefix(SESSION_PARAM))
}

/// The open sessions, by id.
#[derive(Default)]
pub(super) struct SseSessions(Mutex<HashMap<String, SseSession>>);

#[derive(Clone)]
pub(super) struct SseSession {
    posted: mpsc::Sender<PostedMessage>,
    caller: Arc<SseCaller>,
}

/// A posted message, with the values that its calls see.
type PostedMessage = (Bytes, Arc<Extensions>);

/// The principal of a session. The key never changes; the rest is that of the last request.
struct SseCaller {
    key: Option<String>,
    /// The values that calls see: of the request that opened the session, with the current principal.
    extensions: Mutex<Arc<Extensions>>,
    /// The time at which the last of the tokens expires, if streams end then.
    expiry: Mutex<Option<SystemTime>>,
}

impl SseCaller {
    fn new(head: RequestHead, guard: &SharedGuard) -> Self {
        let key = head.principal().map(|principal| principal.key().to_owned());
        let expiry = Mutex::new(guard.stream_end(head.principal()));
        Self { key, extensions: Mutex::new(Arc::new(extensions_of(head))), expiry }
    }

    /// Returns `true` if a request has the same principal, possibly with other scopes.
    fn is_caller_of(&self, head: &RequestHead) -> bool {
        self.key.as_deref() == head.principal().map(Principal::key)
    }

    /// Returns the values for the calls of a request, with its principal: the scopes of a token may differ from those of the last
    /// one.
    fn renew(&self, head: &RequestHead, guard: &SharedGuard) -> Arc<Extensions> {
        let expiry = guard.stream_end(head.principal());
        let mut last = self.expiry.lock();
        *last = last.zip(expiry).map(|(last, expiry)| last.max(expiry));
        drop(last);
        let mut extensions = self.extensions.lock();
        if let Some(principal) = head.principal()
            && extensions.get::<Principal>() != Some(principal)
        {
            Arc::make_mut(&mut extensions).insert(principal.clone());
        }
        extensions.clone()
    }

    /// Resolves when the last token has expired.
    async fn expired(&self) {
        let mut known = *self.expiry.lock();
        while let Some(expiry) = known {
            sleep_until(expiry).await;
            let last = *self.expiry.lock();
            if last == known {
                return;
            }
            known = last;
        }
        pending().await
    }
}

impl HttpState {
    pub(super) fn open_http_sse(&self, head: RequestHead) -> HttpResponse {
        if !self.options.http_sse {
            return response::method_not_allowed("POST");
        }
        if !headers::accepts_events(&head) {
            let message = "this URL opens an event stream: send \"Accept: text/event-stream\"";
            return response::refuse(StatusCode::NOT_ACCEPTABLE, message);
        }
        if self.state.shutdown.has_begun() {
            return response::unavailable(None, "the server is shutting down");
        }
        let Some(permit) = self.state.streams.take(self.options.max_streams) else {
            return response::overloaded(StatusCode::SERVICE_UNAVAILABLE, None, "too many streams are open");
        };
        let id = random_id();
        let (posted, queue) = mpsc::channel(1);
        let (written, events) = tokio::io::duplex(64 * 1024);
        let versions: Vec<_> = self.versions().iter().copied().filter(|v| v.has(Ability::Handshake)).collect();
        let line_extensions = LineExtensions::default();
        let reader = PostedReader { queue, piece: Bytes::new(), line_extensions: line_extensions.clone() };
        let (connection, handle) = Connection::server(reader, written, &versions, self.limits().clone());
        let (connection, endpoint) = (connection.with_line_extensions(line_extensions), self.connection_endpoint());
        let caller = Arc::new(SseCaller::new(head, &self.options.guard));
        let (current, sessions, session_id) = (caller.clone(), self.state.sse_sessions.clone(), id.clone());
        // The result is ignored: the client sees the end of the stream.
        tokio::spawn(async move {
            let mut serving = pin!(connection.serve(&endpoint));
            tokio::select! {
                _ = &mut serving => return,
                () = current.expired() => {}
            }
            // Messages are not accepted any more. Calls that have begun may finish.
            sessions.0.lock().remove(&session_id);
            handle.shutdown();
            drop(serving.await);
        });
        let mut begin = Vec::new();
        sse::write_event(&mut begin, Some("endpoint"), None, format!("messages?{SESSION_PARAM}{id}").as_bytes());
        self.state.sse_sessions.0.lock().insert(id.clone(), SseSession { posted, caller });
        response::events(SseEvents {
            sessions: self.state.sse_sessions.clone(),
            id,
            begin: Some(begin.into()),
            events,
            // The writer limits the length of lines.
            lines: Lines::new(usize::MAX),
            keep_alive: KeepAlive::new(self.options.keep_alive),
            _permit: permit,
        })
    }

    /// Returns the session of a posted message, or the error response.
    pub(super) fn http_sse_session(&self, head: &RequestHead) -> Result<SseSession, Box<HttpResponse>> {
        if let Err(problem) = headers::check_body(head) {
            return Err(Box::new(response::refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, problem)));
        }
        let query = head.path_and_query().1.unwrap_or_default();
        let open = session_in(&query).and_then(|id| self.state.sse_sessions.0.lock().get(id).cloned());
        open.filter(|session| session.caller.is_caller_of(head)).ok_or_else(|| Box::new(no_sse_session()))
    }

    pub(super) async fn post_http_sse(&self, head: RequestHead, body: Result<Bytes, BodyError>) -> HttpResponse {
        let session = match self.http_sse_session(&head) {
            Ok(session) => session,
            Err(answer) => return *answer,
        };
        let bytes = match body {
            Ok(bytes) => bytes,
            Err(problem) => return response::refuse(problem.status(), problem.to_string()),
        };
        if let Err(invalid) = Incoming::decode(bytes.clone(), self.limits().max_batch) {
            return response::error(StatusCode::BAD_REQUEST, invalid.id.as_ref(), &invalid.error);
        }
        let message = (without_line_breaks(bytes), session.caller.renew(&head, &self.options.guard));
        match session.posted.send_timeout(message, self.options.body_timeout).await {
            Ok(()) => response::empty(StatusCode::ACCEPTED),
            Err(mpsc::error::SendTimeoutError::Closed(_)) => no_sse_session(),
            Err(mpsc::error::SendTimeoutError::Timeout(_)) => {
                let message = "too many messages are queued: read the responses first";
                response::overloaded(StatusCode::SERVICE_UNAVAILABLE, None, message)
            }
        }
    }
}

fn no_sse_session() -> HttpResponse {
    response::refuse(StatusCode::NOT_FOUND, "there is no such session: its stream has ended")
}

/// Returns the extensions for the calls of a connection, from the request that opened it.
fn extensions_of(head: RequestHead) -> Extensions {
    let Parts { mut extensions, headers, uri, .. } = head.into_parts();
    extensions.insert(headers);
    extensions.insert(uri);
    extensions.insert(Remote);
    extensions
}

/// Replaces line breaks by spaces. JSON has line breaks only between tokens.
fn without_line_breaks(bytes: Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &bytes).is_none() {
        return bytes;
    }
    bytes.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}

/// A reader of the posted messages, as lines.
struct PostedReader {
    queue: mpsc::Receiver<PostedMessage>,
    piece: Bytes,
    line_extensions: LineExtensions,
}

impl AsyncRead for PostedReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut TaskContext<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.piece.is_empty() {
            match self.queue.poll_recv(task) {
                Poll::Ready(Some((message, extensions))) => {
                    self.line_extensions.push(extensions);
                    let mut line = Vec::with_capacity(message.len() + 1);
                    line.extend_from_slice(&message);
                    line.push(b'\n');
                    self.piece = line.into();
                }
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
            }
        }
        let count = self.piece.len().min(out.remaining());
        out.put_slice(&self.piece[..count]);
        self.piece.advance(count);
        Poll::Ready(Ok(()))
    }
}

/// The event stream of a session. Dropping it closes the session.
struct SseEvents {
    sessions: Arc<SseSessions>,
    id: String,
    begin: Option<Bytes>,
    events: DuplexStream,
    lines: Lines,
    keep_alive: KeepAlive,
    _permit: StreamPermit,
}

impl EventSource for SseEvents {
    fn poll_piece(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        if let Some(begin) = this.begin.take() {
            return Poll::Ready(Some(begin));
        }
        loop {
            let mut piece = Vec::new();
            while let Some(Ok(line)) = this.lines.next_line() {
                sse::write_event(&mut piece, Some("message"), None, &line);
            }
            if !piece.is_empty() {
                this.keep_alive.reset();
                return Poll::Ready(Some(piece.into()));
            }
            let buffer = this.lines.buffer();
            match std::pin::pin!(tokio::io::AsyncReadExt::read_buf(&mut this.events, buffer)).poll(task) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(None),
                Poll::Ready(Ok(_)) => {}
                Poll::Pending => break,
            }
        }
        this.keep_alive.poll(task).map(|comment| Some(Bytes::from_static(comment)))
    }
}

impl Drop for SseEvents {
    fn drop(&mut self) {
        self.sessions.0.lock().remove(&self.id);
    }
}
