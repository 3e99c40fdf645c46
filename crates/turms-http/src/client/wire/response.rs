//! What comes back: the head of an answer, and its body piece by piece (RFC 9112, 4 and 6).

use std::future::poll_fn;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode};
use httparse::{Header, Status};

use super::connection::Connection;
use super::pool::Pool;
use super::{WireError, within};
use crate::framing::{Chunks, Framing};

/// How long a head may be, and how many headers it may have.
pub(super) const MAX_HEAD: usize = 64 * 1024;
const MAX_HEADERS: usize = 100;

/// The head of an answer.
#[derive(Debug)]
pub(in super::super) struct Head {
    pub(in super::super) status: StatusCode,
    pub(in super::super) headers: HeaderMap,
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
            if !is_complete(input, searched) {
                // What is not HTTP may have no end.
                return match parse(input) {
                    _ if input.len() > MAX_HEAD => Err(HeadError::TooLong),
                    Err(error) => Err(error),
                    Ok(_) => Ok(None),
                };
            }
            let Some((head, length)) = parse(input)? else { return Ok(None) };
            input.advance(length);
            *searched = 0;
            match head.status {
                StatusCode::SWITCHING_PROTOCOLS => return Err(HeadError::Switch),
                status if status.is_informational() => {}
                _ => return Ok(Some(head)),
            }
        }
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
    let mut headers = HeaderMap::with_capacity(response.headers.len());
    for header in &*response.headers {
        let (name, value) = (HeaderName::from_bytes(header.name.as_bytes()), HeaderValue::from_bytes(header.value));
        headers
            .append(name.map_err(|_| httparse::Error::HeaderName)?, value.map_err(|_| httparse::Error::HeaderValue)?);
    }
    let has_body = !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) && !status.is_informational();
    let framing = if has_body { framing(&headers)? } else { Some(Framing::Length(0)) };
    let said = |word: &str| {
        let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|token| token.trim().eq_ignore_ascii_case(word))
    };
    let stays = if response.version == Some(1) { !said("close") } else { said("keep-alive") && !said("close") };
    // Who says both how long a body is and that it comes in chunks may be misunderstood by somebody between.
    let is_clear = !(headers.contains_key(TRANSFER_ENCODING) && headers.contains_key(CONTENT_LENGTH));
    let keeps_alive = stays && framing.is_some() && is_clear;
    Ok(Some((Head { status, headers, keeps_alive, framing }, length)))
}

fn framing(headers: &HeaderMap) -> Result<Option<Framing>, HeadError> {
    if let Some(coding) = headers.get_all(TRANSFER_ENCODING).iter().next_back() {
        let last = coding.as_bytes().rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
        return Ok(last.eq_ignore_ascii_case(b"chunked").then_some(Framing::Chunked));
    }
    let mut length = None;
    for value in headers.get_all(CONTENT_LENGTH) {
        let digits = value.to_str().ok().filter(|value| value.bytes().all(|byte| byte.is_ascii_digit()));
        let said: u64 = digits.and_then(|digits| digits.parse().ok()).ok_or(HeadError::Length)?;
        if length.replace(said).is_some_and(|before| before != said) {
            return Err(HeadError::Length);
        }
    }
    Ok(length.map(Framing::Length))
}

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
    Chunks(Chunks),
    /// All until the connection ends.
    Everything,
}

impl WireBody {
    pub(super) fn new(connection: Connection, head: &Head, read_timeout: Option<Duration>, pool: Arc<Pool>) -> Self {
        let left = match head.framing {
            Some(Framing::Length(length)) => Left::Bytes(length),
            Some(Framing::Chunked) => Left::Chunks(Chunks::default()),
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
            connection.input = BytesMut::new();
            self.pool.keep(connection);
        }
    }
}

/// How much room is made for what comes next: of a body that says how long it is, and of others.
const MOST_AT_ONCE: usize = 256 * 1024;
const SOME: usize = 8 * 1024;
