//! Writing of responses.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Buf as _, BufMut};
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, TRANSFER_ENCODING};
use http::response::Parts;
use http::{HeaderMap, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};

use super::connection::HttpConnection;
use super::io::ConnectionIo;
use crate::server::response::{BodyRepr, EventSource, HttpBody, ResponseBodyKind};

/// Parameters of the request and the connection that affect how a response is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResponseMode {
    /// `true` for the response to a `HEAD` request, which has no body.
    pub(super) is_head_request: bool,
    /// `true` if the client uses HTTP/1.0.
    pub(super) is_http10: bool,
    /// `true` if the connection stays open.
    pub(super) keep_alive: bool,
}

/// Maximum length of a response that is assembled on the stack and written at once.
const MAX_STACK_RESPONSE: usize = 4 * 1024;

/// Number of bytes after which events are written without waiting for further ones.
const STREAM_BUFFER: usize = 64 * 1024;

/// Maximum length of the head without the headers of the header map.
const FIXED_HEAD_LENGTH: usize = 512;

impl<I: AsyncRead + AsyncWrite + Send + Unpin> HttpConnection<I> {
    /// Writes a response. Returns `true` if the connection stays open.
    pub(super) async fn write(&mut self, response: Response<HttpBody>, mut mode: ResponseMode) -> io::Result<bool> {
        let (parts, body) = response.into_parts();
        let (kind, repr) = body.into_repr();
        let source = match repr {
            BodyRepr::Whole(bytes) => {
                self.io.write_whole(&parts, kind, bytes.as_deref().unwrap_or_default(), mode).await?;
                return Ok(mode.keep_alive);
            }
            BodyRepr::Written(bytes) => {
                self.io.write_whole(&parts, kind, &bytes, mode).await?;
                return Ok(mode.keep_alive);
            }
            BodyRepr::Events(source) => source,
        };
        // HTTP/1.0 has no chunks: the stream ends with the connection.
        mode.keep_alive &= !mode.is_http10;
        let framing = if mode.is_http10 { ResponseFraming::UntilClose } else { ResponseFraming::Chunked };
        let mut head = Vec::with_capacity(FIXED_HEAD_LENGTH + header_length(&parts.headers));
        write_head(&mut head, parts.status, &parts.headers, kind, framing, mode);
        // Frees memory that an open stream does not need.
        drop(parts);
        self.io.release_buffer();
        if mode.is_head_request {
            self.io.write_all(&head).await?;
            return Ok(mode.keep_alive);
        }
        let is_whole = self.io.write_stream(head, source, !mode.is_http10).await?;
        Ok(mode.keep_alive && is_whole)
    }
}

impl<I: AsyncRead + AsyncWrite + Send + Unpin> ConnectionIo<I> {
    async fn write_whole(
        &mut self,
        response: &Parts,
        kind: ResponseBodyKind,
        body: &[u8],
        mode: ResponseMode,
    ) -> io::Result<()> {
        let Parts { status, headers, .. } = response;
        let framing = if has_body(*status) { ResponseFraming::Length(body.len()) } else { ResponseFraming::None };
        let body = if mode.is_head_request || !has_body(*status) { &[] } else { body };
        let head_length = FIXED_HEAD_LENGTH + header_length(headers);
        if head_length + body.len() <= MAX_STACK_RESPONSE {
            return self
                .write_small(|out| {
                    write_head(out, *status, headers, kind, framing, mode);
                    out.put_slice(body);
                })
                .await;
        }
        let mut head = Vec::with_capacity(head_length);
        write_head(&mut head, *status, headers, kind, framing, mode);
        self.stream.write_all_buf(&mut head.as_slice().chain(body)).await?;
        self.stream.flush().await
    }

    /// Writes a response that `make` assembles on the stack. Allocates only for the part that the socket does not
    /// accept at once.
    async fn write_small(&mut self, make: impl Fn(&mut ReadBuf<'_>)) -> io::Result<()> {
        let rest = poll_fn(|task| {
            let mut room = [const { MaybeUninit::uninit() }; MAX_STACK_RESPONSE];
            let mut out = ReadBuf::uninit(&mut room);
            make(&mut out);
            let written = match Pin::new(&mut self.stream).poll_write(task, out.filled()) {
                Poll::Ready(Ok(written)) => written,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => 0,
            };
            Poll::Ready(Ok(out.filled()[written..].to_vec()))
        })
        .await?;
        if !rest.is_empty() {
            self.stream.write_all(&rest).await?;
        }
        self.stream.flush().await
    }

    /// Writes a stream as its events arrive. Returns `false` if the client disconnects.
    async fn write_stream(
        &mut self,
        head: Vec<u8>,
        mut source: Pin<Box<dyn EventSource>>,
        is_chunked: bool,
    ) -> io::Result<bool> {
        let mut buffer = head;
        loop {
            let step = poll_fn(|task| {
                while buffer.len() < STREAM_BUFFER {
                    match source.as_mut().poll_piece(task) {
                        Poll::Ready(Some(piece)) if is_chunked => write_chunk(&mut buffer, &piece),
                        Poll::Ready(Some(piece)) => buffer.extend_from_slice(&piece),
                        Poll::Ready(None) => return Poll::Ready(StreamStep::End),
                        Poll::Pending if buffer.is_empty() => {
                            return self.poll_disconnected(task).map(|()| StreamStep::Disconnected);
                        }
                        Poll::Pending => break,
                    }
                }
                Poll::Ready(StreamStep::Write)
            })
            .await;
            match step {
                StreamStep::Write => self.write_all(&std::mem::take(&mut buffer)).await?,
                StreamStep::End => {
                    drop(source);
                    if is_chunked {
                        buffer.extend_from_slice(b"0\r\n\r\n");
                    }
                    self.write_all(&buffer).await?;
                    return Ok(true);
                }
                StreamStep::Disconnected => return Ok(false),
            }
        }
    }
}

enum StreamStep {
    Write,
    End,
    Disconnected,
}

/// The framing of a response.
#[derive(Debug, Clone, Copy)]
enum ResponseFraming {
    /// No body, because of the status.
    None,
    Length(usize),
    Chunked,
    /// Until the connection closes.
    UntilClose,
}

/// Returns `true` if a response with this status has a body (RFC 9112, 6.3).
fn has_body(status: StatusCode) -> bool {
    !(status.is_informational() || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED)
}

/// Returns the encoded length of headers.
fn header_length(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
}

fn write_head(
    out: &mut impl BufMut,
    status: StatusCode,
    headers: &HeaderMap,
    kind: ResponseBodyKind,
    framing: ResponseFraming,
    mode: ResponseMode,
) {
    if status == StatusCode::OK && kind == ResponseBodyKind::Json {
        out.put_slice(&json_ok_head());
    } else {
        out.put_slice(b"HTTP/1.1 ");
        out.put_slice(status.as_str().as_bytes());
        out.put_slice(b" ");
        out.put_slice(status.canonical_reason().unwrap_or("Other").as_bytes());
        out.put_slice(b"\r\ndate: ");
        out.put_slice(&json_ok_head()[DATE_OFFSET..DATE_OFFSET + DATE_LENGTH]);
        out.put_slice(b"\r\n");
        out.put_slice(kind.header_lines().as_bytes());
    }
    for (name, value) in headers {
        // Written below.
        if matches!(*name, CONNECTION | CONTENT_LENGTH | DATE | TRANSFER_ENCODING) {
            continue;
        }
        out.put_slice(name.as_str().as_bytes());
        out.put_slice(b": ");
        out.put_slice(value.as_bytes());
        out.put_slice(b"\r\n");
    }
    match framing {
        ResponseFraming::Length(length) => put_length(out, length),
        ResponseFraming::Chunked => out.put_slice(b"transfer-encoding: chunked\r\n"),
        ResponseFraming::None | ResponseFraming::UntilClose => {}
    }
    match (mode.keep_alive, mode.is_http10) {
        (false, _) => out.put_slice(b"connection: close\r\n\r\n"),
        (true, true) => out.put_slice(b"connection: keep-alive\r\n\r\n"),
        (true, false) => out.put_slice(b"\r\n"),
    }
}

fn write_chunk(out: &mut Vec<u8>, piece: &[u8]) {
    // An empty chunk would end the body.
    if piece.is_empty() {
        return;
    }
    out.reserve(piece.len() + 20);
    out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
    out.extend_from_slice(piece);
    out.extend_from_slice(b"\r\n");
}

fn put_length(out: &mut impl BufMut, mut length: usize) {
    const NAME: &[u8] = b"content-length: ";
    let mut line = [0; NAME.len() + 20 + 2];
    line[..NAME.len()].copy_from_slice(NAME);
    let digits = length.checked_ilog10().unwrap_or(0) as usize + 1;
    let end = NAME.len() + digits;
    for place in line[NAME.len()..end].iter_mut().rev() {
        *place = b'0' + (length % 10) as u8;
        length /= 10;
    }
    line[end..end + 2].copy_from_slice(b"\r\n");
    out.put_slice(&line[..end + 2]);
}

/// The start of most responses.
const JSON_OK_HEAD: &[u8; 86] =
    b"HTTP/1.1 200 OK\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\ncontent-type: application/json\r\n";
const DATE_OFFSET: usize = 23;
const DATE_LENGTH: usize = 29;

/// Returns the start of most responses with the current date, which is formatted once per second and thread.
fn json_ok_head() -> [u8; JSON_OK_HEAD.len()] {
    thread_local! {
        static WRITTEN: Cell<(u64, [u8; JSON_OK_HEAD.len()])> = const { Cell::new((0, *JSON_OK_HEAD)) };
    }
    #[expect(clippy::disallowed_methods, reason = "responses have a date (RFC 9110, 6.6.1)")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (second, mut written) = WRITTEN.get();
    if second != now {
        let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(now));
        if text.len() == DATE_LENGTH {
            written[DATE_OFFSET..DATE_OFFSET + DATE_LENGTH].copy_from_slice(text.as_bytes());
        }
        WRITTEN.set((now, written));
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: StatusCode, kind: ResponseBodyKind, length: usize) -> String {
        let mut out = Vec::new();
        let mode = ResponseMode { is_head_request: false, is_http10: false, keep_alive: true };
        write_head(&mut out, status, &HeaderMap::new(), kind, ResponseFraming::Length(length), mode);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn heads_have_status_date_type_and_length() {
        for (status, reason) in [(StatusCode::OK, "200 OK"), (StatusCode::NOT_FOUND, "404 Not Found")] {
            let head = head(status, ResponseBodyKind::Json, 7);
            let lines: Vec<_> = head.split("\r\n").collect();
            let [first, date, kind, length, "", ""] = lines[..] else { panic!("{head}") };
            assert_eq!((first, kind), (&*format!("HTTP/1.1 {reason}"), "content-type: application/json"));
            assert_eq!(length, "content-length: 7");
            let date = httpdate::parse_http_date(date.strip_prefix("date: ").unwrap()).unwrap();
            assert!(date > UNIX_EPOCH + Duration::from_secs(1_700_000_000), "{head}");
        }
    }

    #[test]
    fn lengths_of_every_size_are_written() {
        for length in [0, 1, 9, 10, 99, 100, 4_096, 1_000_000, usize::MAX] {
            let head = head(StatusCode::OK, ResponseBodyKind::Other, length);
            assert!(head.contains(&format!("\r\ncontent-length: {length}\r\n\r\n")), "{head}");
        }
    }
}
