//! Writing answers.

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

use super::connection::Connection;
use super::io::Io;
use crate::server::response::{EventSource, HttpBody, Kind, Repr};

/// By which rules an answer is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// Whether only the head is wanted.
    pub(super) is_head: bool,
    /// Whether the client speaks HTTP/1.0.
    pub(super) is_old: bool,
    /// Whether the connection goes on.
    pub(super) keeps_alive: bool,
}

/// How long an answer may be to be gathered on the stack.
const SMALL: usize = 4 * 1024;

/// How much of a stream is gathered before it is written.
const GATHERED: usize = 64 * 1024;

/// How long the lines of a head may be that are not from a map.
const FIXED: usize = 512;

impl<I: AsyncRead + AsyncWrite + Send + Unpin> Connection<'_, I> {
    /// Writes an answer; whether the connection goes on after it.
    pub(super) async fn write(&mut self, answer: Response<HttpBody>, mut rules: Rules) -> io::Result<bool> {
        let (parts, body) = answer.into_parts();
        let (kind, repr) = body.into_repr();
        let source = match repr {
            Repr::Whole(bytes) => {
                self.io.write_whole(&parts, kind, bytes.as_deref().unwrap_or_default(), rules).await?;
                return Ok(rules.keeps_alive);
            }
            Repr::Written(bytes) => {
                self.io.write_whole(&parts, kind, &bytes, rules).await?;
                return Ok(rules.keeps_alive);
            }
            Repr::Events(source) => source,
        };
        // Nothing else says where a stream ends.
        rules.keeps_alive &= !rules.is_old;
        let framing = if rules.is_old { Length::UntilEnd } else { Length::Chunked };
        let mut head = Vec::with_capacity(FIXED + length_of(&parts.headers));
        write_head(&mut head, parts.status, &parts.headers, kind, framing, rules);
        // While it is open, a stream holds no more than it needs.
        drop(parts);
        self.io.release();
        if rules.is_head {
            self.io.write_all(&head).await?;
            return Ok(rules.keeps_alive);
        }
        let is_whole = self.io.write_stream(head, source, !rules.is_old).await?;
        Ok(rules.keeps_alive && is_whole)
    }
}

impl<I: AsyncRead + AsyncWrite + Send + Unpin> Io<I> {
    async fn write_whole(&mut self, answer: &Parts, kind: Kind, body: &[u8], rules: Rules) -> io::Result<()> {
        let Parts { status, headers, .. } = answer;
        let length = if has_body(*status) { Length::Known(body.len()) } else { Length::None };
        let body = if rules.is_head || !has_body(*status) { &[] } else { body };
        let head_length = FIXED + length_of(headers);
        if head_length + body.len() <= SMALL {
            return self
                .write_small(|out| {
                    write_head(out, *status, headers, kind, length, rules);
                    out.put_slice(body);
                })
                .await;
        }
        let mut head = Vec::with_capacity(head_length);
        write_head(&mut head, *status, headers, kind, length, rules);
        self.stream.write_all_buf(&mut head.as_slice().chain(body)).await?;
        self.stream.flush().await
    }

    /// Writes what is made on the stack, which needs memory only if the client does not take it at once.
    async fn write_small(&mut self, make: impl Fn(&mut ReadBuf<'_>)) -> io::Result<()> {
        let rest = poll_fn(|task| {
            let mut room = [const { MaybeUninit::uninit() }; SMALL];
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

    /// Writes a stream as its pieces come; false if the client goes away meanwhile.
    async fn write_stream(
        &mut self,
        head: Vec<u8>,
        mut source: Pin<Box<dyn EventSource>>,
        is_chunked: bool,
    ) -> io::Result<bool> {
        let mut gathered = head;
        loop {
            let step = poll_fn(|task| {
                while gathered.len() < GATHERED {
                    match source.as_mut().poll_piece(task) {
                        Poll::Ready(Some(piece)) if is_chunked => write_chunk(&mut gathered, &piece),
                        Poll::Ready(Some(piece)) => gathered.extend_from_slice(&piece),
                        Poll::Ready(None) => return Poll::Ready(Step::Over),
                        Poll::Pending if gathered.is_empty() => return self.poll_gone(task).map(|()| Step::Gone),
                        Poll::Pending => break,
                    }
                }
                Poll::Ready(Step::Write)
            })
            .await;
            match step {
                Step::Write => self.write_all(&std::mem::take(&mut gathered)).await?,
                Step::Over => {
                    drop(source);
                    if is_chunked {
                        gathered.extend_from_slice(b"0\r\n\r\n");
                    }
                    self.write_all(&gathered).await?;
                    return Ok(true);
                }
                Step::Gone => return Ok(false),
            }
        }
    }
}

enum Step {
    Write,
    Over,
    Gone,
}

/// What a head says of the length of what follows it.
#[derive(Debug, Clone, Copy)]
enum Length {
    /// There is nothing, and no way to say so.
    None,
    Known(usize),
    Chunked,
    /// All until the connection ends.
    UntilEnd,
}

/// Whether an answer of this status has a body (RFC 9112, 6.3).
fn has_body(status: StatusCode) -> bool {
    !(status.is_informational() || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED)
}

/// How long headers are when they are written.
fn length_of(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
}

fn write_head(
    out: &mut impl BufMut,
    status: StatusCode,
    headers: &HeaderMap,
    kind: Kind,
    length: Length,
    rules: Rules,
) {
    if status == StatusCode::OK && kind == Kind::Json {
        out.put_slice(&usual_beginning());
    } else {
        out.put_slice(b"HTTP/1.1 ");
        out.put_slice(status.as_str().as_bytes());
        out.put_slice(b" ");
        out.put_slice(status.canonical_reason().unwrap_or("Other").as_bytes());
        out.put_slice(b"\r\ndate: ");
        out.put_slice(&usual_beginning()[DATE_IN_USUAL..DATE_IN_USUAL + DATE_LENGTH]);
        out.put_slice(b"\r\n");
        out.put_slice(kind.lines().as_bytes());
    }
    for (name, value) in headers {
        // How the answer is framed, and when it was made, is for us to say.
        if matches!(*name, CONNECTION | CONTENT_LENGTH | DATE | TRANSFER_ENCODING) {
            continue;
        }
        out.put_slice(name.as_str().as_bytes());
        out.put_slice(b": ");
        out.put_slice(value.as_bytes());
        out.put_slice(b"\r\n");
    }
    match length {
        Length::Known(length) => put_length(out, length),
        Length::Chunked => out.put_slice(b"transfer-encoding: chunked\r\n"),
        Length::None | Length::UntilEnd => {}
    }
    match (rules.keeps_alive, rules.is_old) {
        (false, _) => out.put_slice(b"connection: close\r\n\r\n"),
        (true, true) => out.put_slice(b"connection: keep-alive\r\n\r\n"),
        (true, false) => out.put_slice(b"\r\n"),
    }
}

fn write_chunk(out: &mut Vec<u8>, piece: &[u8]) {
    // An empty one would be the last.
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

/// What most answers begin with.
const USUAL: &[u8; 86] =
    b"HTTP/1.1 200 OK\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\ncontent-type: application/json\r\n";
const DATE_IN_USUAL: usize = 23;
const DATE_LENGTH: usize = 29;

/// What most answers begin with, at this time. It is written anew once a second.
fn usual_beginning() -> [u8; USUAL.len()] {
    thread_local! {
        static WRITTEN: Cell<(u64, [u8; USUAL.len()])> = const { Cell::new((0, *USUAL)) };
    }
    #[expect(clippy::disallowed_methods, reason = "answers say when they were made (RFC 9110, 6.6.1)")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (second, mut written) = WRITTEN.get();
    if second != now {
        let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(now));
        if text.len() == DATE_LENGTH {
            written[DATE_IN_USUAL..DATE_IN_USUAL + DATE_LENGTH].copy_from_slice(text.as_bytes());
        }
        WRITTEN.set((now, written));
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: StatusCode, kind: Kind, length: usize) -> String {
        let mut out = Vec::new();
        let rules = Rules { is_head: false, is_old: false, keeps_alive: true };
        write_head(&mut out, status, &HeaderMap::new(), kind, Length::Known(length), rules);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn heads_are_written_by_the_book() {
        for (status, reason) in [(StatusCode::OK, "200 OK"), (StatusCode::NOT_FOUND, "404 Not Found")] {
            let head = head(status, Kind::Json, 7);
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
            let head = head(StatusCode::OK, Kind::Other, length);
            assert!(head.contains(&format!("\r\ncontent-length: {length}\r\n\r\n")), "{head}");
        }
    }
}
