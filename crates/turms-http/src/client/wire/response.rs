//! What comes back: the head of an answer, and its body piece by piece (RFC 9112, 4 and 6).

use std::future::poll_fn;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use httparse::{Header, Status};

use super::connection::Connection;
use super::pool::Pool;
use super::{WireError, within};
use crate::framing::{ChunkDecoder, Framing};

/// How long a head may be, and how many headers it may have.
pub(super) const MAX_HEAD: usize = 64 * 1024;
const MAX_HEADERS: usize = 100;

/// The head of an answer.
#[derive(Debug)]
pub(in super::super) struct Head {
    pub(in super::super) status: StatusCode,
    /// All of it as it came.
    text: Bytes,
    content_type: Range<usize>,
    /// Whether the connection can be used again.
    pub(super) keeps_alive: bool,
    /// How the body ends; with the connection, if nothing says otherwise.
    framing: Option<Framing>,
}

/// Why something is not the head of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in super::super) enum HeadError {
    #[error("{0}")]
    NotHttp(#[from] httparse::Error),
    #[error("its head is longer than {MAX_HEAD} bytes")]
    TooLong,
    #[error("its \"Content-Length\" is not one number")]
    Length,
    #[error("it switches to another protocol")]
    Switch,
}

impl Head {
    /// Takes a head from the beginning of what came, if all of it is there. Heads that only announce others are passed over.
    pub(super) fn take(input: &mut BytesMut, searched: &mut usize) -> Result<Option<Self>, HeadError> {
        loop {
            // What is not HTTP shows that early and may have no end; for the end of a long head it is looked once.
            if input.is_empty() || input.len() > SHORT && !is_complete(input, searched) {
                return if input.len() > MAX_HEAD { Err(HeadError::TooLong) } else { Ok(None) };
            }
            let Some((mut head, length)) = parse(input)? else { return Ok(None) };
            head.text = input.split_to(length).freeze();
            *searched = 0;
            match head.status {
                StatusCode::SWITCHING_PROTOCOLS => return Err(HeadError::Switch),
                status if status.is_informational() => {}
                _ => return Ok(Some(head)),
            }
        }
    }

    /// What is said about the content of the body; empty if nothing is.
    pub(in super::super) fn content_type(&self) -> &[u8] {
        self.text.get(self.content_type.clone()).unwrap_or_default()
    }

    /// All headers, for who wants them: most answers have none that anybody looks for.
    pub(in super::super) fn headers(&self) -> HeaderMap {
        let mut room = [const { MaybeUninit::<Header<'_>>::uninit() }; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut []);
        let config = httparse::ParserConfig::default();
        let mut headers = HeaderMap::new();
        // It was read before, so it can be read.
        if config.parse_response_with_uninit_headers(&mut response, &self.text, &mut room).is_ok() {
            for header in &*response.headers {
                let name = HeaderName::from_bytes(header.name.as_bytes());
                if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(header.value)) {
                    headers.append(name, value);
                }
            }
        }
        headers
    }
}

/// Whether an empty line is there, looked for in what was not searched yet.
fn is_complete(input: &[u8], searched: &mut usize) -> bool {
    let from = searched.saturating_sub(3);
    *searched = input.len();
    let ends = |end: &[u8]| memchr::memmem::find(&input[from..], end).is_some();
    ends(b"\r\n\r\n") || ends(b"\n\n") || ends(b"\n\r\n")
}

fn parse(input: &[u8]) -> Result<Option<(Head, usize)>, HeadError> {
    let mut room = [const { MaybeUninit::<Header<'_>>::uninit() }; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let Status::Complete(length) = config.parse_response_with_uninit_headers(&mut response, input, &mut room)? else {
        return Ok(None);
    };
    let status = response.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or(httparse::Error::Status)?;
    let said = Said::by(response.headers);
    let has_body = !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) && !status.is_informational();
    let framing = if has_body { said.framing()? } else { Some(Framing::Length(0)) };
    let stays = if response.version == Some(1) { !said.close } else { said.keep_alive && !said.close };
    // Who says both how long a body is and that it comes in chunks may be misunderstood by somebody between.
    let is_clear = !(said.coding.is_some() && said.length.is_some());
    let keeps_alive = stays && framing.is_some() && is_clear;
    let content_type = said.content_type.map_or(0..0, |value| {
        let start = value.as_ptr().addr() - input.as_ptr().addr();
        start..start + value.len()
    });
    Ok(Some((Head { status, text: Bytes::new(), content_type, keeps_alive, framing }, length)))
}

/// What the headers of an answer say about its end and what comes after it.
#[derive(Default)]
struct Said<'a> {
    content_type: Option<&'a [u8]>,
    /// The last transfer coding.
    coding: Option<&'a [u8]>,
    /// All that is said of the length, if it is the same.
    length: Option<Result<u64, HeadError>>,
    close: bool,
    keep_alive: bool,
}

impl<'a> Said<'a> {
    fn by(headers: &[Header<'a>]) -> Self {
        let mut said = Self::default();
        for Header { name, value } in headers {
            match name.len() {
                10 if name.eq_ignore_ascii_case("connection") => {
                    let mut tokens = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
                    said.close |= tokens.clone().any(|token| token.eq_ignore_ascii_case(b"close"));
                    said.keep_alive |= tokens.any(|token| token.eq_ignore_ascii_case(b"keep-alive"));
                }
                12 if name.eq_ignore_ascii_case("content-type") => {
                    said.content_type.get_or_insert(value);
                }
                14 if name.eq_ignore_ascii_case("content-length") => said.hear_length(value),
                17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                    said.coding = value.rsplit(|byte| *byte == b',').next().map(<[u8]>::trim_ascii);
                }
                _ => {}
            }
        }
        said
    }

    fn hear_length(&mut self, value: &[u8]) {
        let digits = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let length = digits.and_then(|digits| digits.parse().ok()).ok_or(HeadError::Length);
        self.length = Some(match self.length {
            Some(before) if before != length => Err(HeadError::Length),
            _ => length,
        });
    }

    /// How the body ends, if anything says so.
    fn framing(&self) -> Result<Option<Framing>, HeadError> {
        match self.coding {
            Some(last) => Ok(last.eq_ignore_ascii_case(b"chunked").then_some(Framing::Chunked)),
            None => self.length.transpose().map(|length| length.map(Framing::Length)),
        }
    }
}

/// How long a head may be to be read without having been searched for its end.
const SHORT: usize = 4 * 1024;

/// The body of an answer. Once it has been read to its end, its connection can be used again; dropped before, it is closed.
pub(in super::super) struct WireBody {
    connection: Option<Connection>,
    left: Left,
    keeps_alive: bool,
    read_timeout: Option<Duration>,
    pool: Arc<Pool>,
}

/// What is yet to come of a body.
enum Left {
    Bytes(u64),
    Chunks(ChunkDecoder),
    /// All until the connection ends.
    Everything,
}

impl WireBody {
    pub(super) fn new(connection: Connection, head: &Head, read_timeout: Option<Duration>, pool: Arc<Pool>) -> Self {
        let left = match head.framing {
            Some(Framing::Length(length)) => Left::Bytes(length),
            Some(Framing::Chunked) => Left::Chunks(ChunkDecoder::default()),
            None => Left::Everything,
        };
        let mut body = Self { connection: Some(connection), left, keeps_alive: head.keeps_alive, read_timeout, pool };
        if matches!(body.left, Left::Bytes(0)) {
            body.end();
        }
        body
    }

    /// The next piece; `None` at the end.
    pub(in super::super) async fn piece(&mut self) -> Result<Option<Bytes>, WireError> {
        loop {
            if let Some(piece) = self.at_hand()? {
                return Ok(Some(piece));
            }
            let Some(connection) = &mut self.connection else { return Ok(None) };
            let room = match self.left {
                Left::Bytes(left) => usize::try_from(left).unwrap_or(usize::MAX).min(MOST_AT_ONCE),
                _ => SOME,
            };
            let reading = poll_fn(|task| connection.poll_fill(task, room));
            let count = within(self.read_timeout, async { reading.await.map_err(WireError::Io) }).await?;
            if count == 0 {
                self.connection = None;
                return if matches!(self.left, Left::Everything) { Ok(None) } else { Err(WireError::Closed) };
            }
        }
    }

    /// What has come already.
    fn at_hand(&mut self) -> Result<Option<Bytes>, WireError> {
        let Some(connection) = &mut self.connection else { return Ok(None) };
        let input = &mut connection.input;
        let (piece, is_over) = match &mut self.left {
            Left::Bytes(left) => {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= taken as u64;
                (input.split_to(taken), *left == 0)
            }
            Left::Chunks(chunks) => {
                let mut piece = BytesMut::new();
                let is_over = chunks.take(input, &mut piece, usize::MAX)?;
                (piece, is_over)
            }
            Left::Everything => (input.split(), false),
        };
        if is_over {
            self.end();
        }
        Ok(Some(piece.freeze()).filter(|piece| !piece.is_empty()))
    }

    fn end(&mut self) {
        if let Some(mut connection) = self.connection.take()
            && self.keeps_alive
            && connection.input.is_empty()
        {
            connection.rest();
            self.pool.keep(connection);
        }
    }
}

/// How much room is made for what comes next: of a body that says how long it is, and of others.
const MOST_AT_ONCE: usize = 256 * 1024;
const SOME: usize = 8 * 1024;
