//! Writing answers.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Buf as _, BufMut, Bytes};
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, TRANSFER_ENCODING};
use http::{HeaderMap, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};

use super::Connection;
use super::io::Io;
use crate::server::body::{EventSource, HttpBody, Kind, Repr};

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
                let bytes = bytes.unwrap_or_default();
                self.io.write_whole(parts.status, &parts.headers, kind, bytes, rules).await?;
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
    async fn write_whole(
        &mut self,
        status: StatusCode,
        headers: &HeaderMap,
        kind: Kind,
        body: Bytes,
        rules: Rules,
    ) -> io::Result<()> {
        let length = if has_body(status) { Length::Known(body.len()) } else { Length::None };
        let body = if rules.is_head || !has_body(status) { Bytes::new() } else { body };
        let head_length = FIXED + length_of(headers);
        if head_length + body.len() <= SMALL {
            return self
                .write_small(|out| {
                    write_head(out, status, headers, kind, length, rules);
                    out.put_slice(&body);
                })
                .await;
        }
        let mut head = Vec::with_capacity(head_length);
        write_head(&mut head, status, headers, kind, length, rules);
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
    if status == StatusCode::OK {
        out.put_slice(b"HTTP/1.1 200 OK\r\n");
    } else {
        out.put_slice(b"HTTP/1.1 ");
        out.put_slice(status.as_str().as_bytes());
        out.put_slice(b" ");
        out.put_slice(status.canonical_reason().unwrap_or("Other").as_bytes());
        out.put_slice(b"\r\n");
    }
    out.put_slice(kind.lines().as_bytes());
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
        Length::Known(length) => {
            out.put_slice(b"content-length: ");
            put_number(out, length);
            out.put_slice(b"\r\n");
        }
        Length::Chunked => out.put_slice(b"transfer-encoding: chunked\r\n"),
        Length::None | Length::UntilEnd => {}
    }
    match (rules.keeps_alive, rules.is_old) {
        (false, _) => out.put_slice(b"connection: close\r\n"),
        (true, true) => out.put_slice(b"connection: keep-alive\r\n"),
        (true, false) => {}
    }
    out.put_slice(b"date: ");
    out.put_slice(&date());
    out.put_slice(b"\r\n\r\n");
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

fn put_number(out: &mut impl BufMut, mut number: usize) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.put_slice(&digits[at..]);
}

/// The time as answers say it, which is written anew once a second.
fn date() -> [u8; 29] {
    thread_local! {
        static WRITTEN: Cell<(u64, [u8; 29])> = const { Cell::new((0, [0; 29])) };
    }
    #[expect(clippy::disallowed_methods, reason = "answers say when they were made (RFC 9110, 6.6.1)")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (second, written) = WRITTEN.get();
    if second == now && second != 0 {
        return written;
    }
    let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(now));
    let mut written = [b' '; 29];
    let length = text.len().min(29);
    written[..length].copy_from_slice(&text.as_bytes()[..length]);
    WRITTEN.set((now, written));
    written
}
