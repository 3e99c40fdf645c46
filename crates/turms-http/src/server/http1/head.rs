//! The head of a request (RFC 9112, 2 to 6). Does no I/O: takes bytes and returns the spans of its parts.

use std::mem::MaybeUninit;
use std::ops::Range;

use bytes::Bytes;
use bytestring::ByteString;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::uri::Scheme;
use http::{Method, StatusCode, Uri};
use httparse::Header;
use smallvec::SmallVec;

use crate::framing::Framing;

/// Maximum length of a head in bytes, so that an offset fits into 16 bits.
pub(in crate::server) const MAX_HEAD_LENGTH: usize = u16::MAX as usize;

/// Maximum number of headers.
pub(in crate::server) const MAX_HEADERS: usize = 100;

/// Number of headers that are indexed without an allocation.
const INLINE_HEADERS: usize = 16;

/// The parsed head of a request: message framing, connection options, and the spans of its parts.
#[derive(Debug)]
pub(in crate::server) struct ParsedHead {
    pub(in crate::server) method: Method,
    /// Length of the head in bytes.
    pub(in crate::server) length: usize,
    /// Length of the body.
    pub(in crate::server) framing: Framing,
    /// `true` if the client may send another request over this connection.
    pub(in crate::server) keep_alive: bool,
    /// `true` if the client waits for `100 Continue` before it sends the body.
    pub(in crate::server) expects_continue: bool,
    /// `true` for HTTP/1.0.
    pub(in crate::server) is_http10: bool,
    pub(in crate::server) target: RequestTarget,
    pub(in crate::server) headers: SmallVec<[HeaderSpan; INLINE_HEADERS]>,
}

/// The span of the request target.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) struct RequestTarget {
    span: Span,
    /// `true` for a path with an optional query, of characters that need no further check.
    is_plain_path: bool,
}

/// The spans of one header.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) struct HeaderSpan {
    pub(in crate::server) name: Span,
    pub(in crate::server) value: Span,
}

/// The range of a part of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct Span {
    start: u16,
    length: u16,
}

impl Span {
    /// Returns the span of `part`, which is a slice of `head`. No head is longer than [`MAX_HEAD_LENGTH`].
    fn of(part: &[u8], head: &[u8]) -> Self {
        // An empty part may be a slice of another buffer.
        let start = if part.is_empty() { 0 } else { offset(part, head) };
        Self { start: start as u16, length: part.len() as u16 }
    }

    fn range(self) -> Range<usize> {
        let start = usize::from(self.start);
        start..start + usize::from(self.length)
    }
}

fn offset(part: &[u8], head: &[u8]) -> usize {
    (part.as_ptr() as usize).saturating_sub(head.as_ptr() as usize)
}

/// Error for bytes that are not a valid or supported request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in crate::server) enum HeadError {
    #[error("the head of the request is longer than {MAX_HEAD_LENGTH} bytes")]
    TooLong,
    #[error("the request has more than {MAX_HEADERS} headers")]
    TooManyHeaders,
    #[error("not a valid HTTP/1.1 request: {0}")]
    Syntax(#[from] httparse::Error),
    #[error("a line of the request ends in LF only: lines must end in CR LF")]
    BareLineFeed,
    #[error("the method or the target of the request is invalid: the target must be a path, or an http or https URL")]
    Target,
    #[error("the request must have exactly one \"Host\" header: a name or an address, and optionally a port")]
    Host,
    #[error("\"Content-Length\" must be one number, without \"Transfer-Encoding\" beside it")]
    ContentLength,
    #[error("\"Transfer-Encoding\" requires HTTP/1.1")]
    TransferEncodingInHttp10,
    #[error("unsupported \"Transfer-Encoding\": only \"chunked\" is supported")]
    TransferEncoding,
}

impl HeadError {
    /// Returns the status of the response.
    pub(in crate::server) fn status(self) -> StatusCode {
        match self {
            Self::TooLong | Self::TooManyHeaders => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::TransferEncoding => StatusCode::NOT_IMPLEMENTED,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

/// Parses the head at the start of a growing buffer. Each byte is searched once, even if the head arrives in many
/// pieces.
#[derive(Debug, Default)]
pub(in crate::server) struct HeadParser {
    searched: usize,
}

impl HeadParser {
    /// Returns `true` if no part of a head was seen.
    pub(in crate::server) fn is_fresh(&self) -> bool {
        self.searched == 0
    }

    /// Parses the head at the start of `input`. Returns `None` while it is incomplete. In each call, `input` starts
    /// with the `input` of the previous call.
    pub(in crate::server) fn parse(&mut self, input: &[u8]) -> Result<Option<ParsedHead>, HeadError> {
        // The first read usually contains the whole head, which then needs no search for its end.
        if self.is_fresh()
            && let Some(parsed) = parse_well_formed(input)
        {
            return parsed.map(Some);
        }
        match self.find_end(input)? {
            Some(end) => parse_complete(&input[..end]).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the length of the head once it is complete.
    fn find_end(&mut self, input: &[u8]) -> Result<Option<usize>, HeadError> {
        for found in memchr::memchr_iter(b'\n', &input[self.searched..]) {
            let at = self.searched + found;
            let before = &input[..at];
            if before.last() != Some(&b'\r') {
                return Err(HeadError::BareLineFeed);
            }
            if before.ends_with(b"\r\n\r") {
                return if at < MAX_HEAD_LENGTH { Ok(Some(at + 1)) } else { Err(HeadError::TooLong) };
            }
        }
        self.searched = input.len();
        if input.len() > MAX_HEAD_LENGTH { Err(HeadError::TooLong) } else { Ok(None) }
    }
}

/// Parses a head in one pass if it is complete and each line ends in CR LF, which `httparse` does not require.
fn parse_well_formed(input: &[u8]) -> Option<Result<ParsedHead, HeadError>> {
    if input.first()?.is_ascii_whitespace() {
        return None;
    }
    let mut headers = [const { MaybeUninit::<Header<'_>>::uninit() }; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(input, &mut headers) {
        Ok(httparse::Status::Complete(end)) if end <= MAX_HEAD_LENGTH && has_crlf_lines(&request, &input[..end]) => {
            Some(ParsedHead::new(&request, &input[..end]))
        }
        _ => None,
    }
}

fn has_crlf_lines(request: &httparse::Request<'_, '_>, head: &[u8]) -> bool {
    let follows_crlf = |header: &Header<'_>| {
        let start = offset(header.name.as_bytes(), head);
        matches!(head.get(start.wrapping_sub(2)..start), Some([b'\r', b'\n']))
    };
    head.ends_with(b"\r\n\r\n") && request.headers.iter().all(follows_crlf)
}

/// Parses a complete head with lines that end in CR LF.
fn parse_complete(head: &[u8]) -> Result<ParsedHead, HeadError> {
    let mut headers = [const { MaybeUninit::<Header<'_>>::uninit() }; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(head, &mut headers) {
        Ok(httparse::Status::Complete(_)) => ParsedHead::new(&request, head),
        Ok(httparse::Status::Partial) => Err(HeadError::Target),
        Err(httparse::Error::TooManyHeaders) => Err(HeadError::TooManyHeaders),
        Err(error) => Err(error.into()),
    }
}

impl ParsedHead {
    fn new(request: &httparse::Request<'_, '_>, head: &[u8]) -> Result<Self, HeadError> {
        let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version) else {
            return Err(HeadError::Target);
        };
        let method = Method::from_bytes(method.as_bytes()).map_err(|_| HeadError::Target)?;
        let is_plain_path = is_plain_path(target);
        if !is_plain_path && !is_valid_target(target, &method) {
            return Err(HeadError::Target);
        }
        let is_http10 = minor == 0;
        let mut message = MessageHeaders::default();
        let mut headers = SmallVec::with_capacity(request.headers.len());
        for header in &*request.headers {
            message.add(header, is_http10);
            let name = Span::of(header.name.as_bytes(), head);
            headers.push(HeaderSpan { name, value: Span::of(header.value, head) });
        }
        // HTTP/1.0 has no `Host`.
        if !message.has_valid_host.unwrap_or(is_http10) {
            return Err(HeadError::Host);
        }
        let target = RequestTarget { span: Span::of(target.as_bytes(), head), is_plain_path };
        Ok(Self {
            method,
            length: head.len(),
            framing: message.framing(is_http10)?,
            keep_alive: !message.close && (message.keep_alive || !is_http10),
            expects_continue: message.expects_continue && !is_http10,
            is_http10,
            target,
            headers,
        })
    }
}

/// The headers that define the framing of the message and the state of the connection.
#[derive(Default)]
struct MessageHeaders {
    has_valid_host: Option<bool>,
    content_length: Option<Result<u64, HeadError>>,
    is_chunked: Option<bool>,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
}

impl MessageHeaders {
    fn add(&mut self, header: &Header<'_>, is_http10: bool) {
        let (name, value) = (header.name, header.value);
        match name.len() {
            4 if name.eq_ignore_ascii_case("host") => {
                let is_valid = is_valid_host(value) || (is_http10 && value.is_empty());
                self.has_valid_host = Some(self.has_valid_host.is_none() && is_valid);
            }
            14 if name.eq_ignore_ascii_case("content-length") => {
                let is_repeated = self.content_length.is_some();
                self.content_length =
                    Some(if is_repeated { Err(HeadError::ContentLength) } else { parse_content_length(value) });
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                self.is_chunked = Some(self.is_chunked.is_none() && value.eq_ignore_ascii_case(b"chunked"));
            }
            10 if name.eq_ignore_ascii_case("connection") => {
                for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            6 if name.eq_ignore_ascii_case("expect") => {
                self.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
            }
            _ => {}
        }
    }

    /// Returns the framing of the body (RFC 9112, 6.3). Ambiguous framing is rejected.
    fn framing(&self, is_http10: bool) -> Result<Framing, HeadError> {
        match (self.is_chunked, self.content_length) {
            (None, None) => Ok(Framing::Length(0)),
            (None, Some(length)) => length.map(Framing::Length),
            (Some(_), Some(_)) => Err(HeadError::ContentLength),
            (Some(_), None) if is_http10 => Err(HeadError::TransferEncodingInHttp10),
            (Some(true), None) => Ok(Framing::Chunked),
            (Some(false), None) => Err(HeadError::TransferEncoding),
        }
    }
}

fn parse_content_length(value: &[u8]) -> Result<u64, HeadError> {
    // `parse` accepts a sign, too.
    let digits = std::str::from_utf8(value).ok().filter(|value| value.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or(HeadError::ContentLength)
}

/// Returns `true` for a host name or an address in brackets, with an optional port (RFC 9110, 7.2).
///
/// RFC 3986, 3.2.2, allows a comma in a name. It is rejected, because some implementations would see two names.
fn is_valid_host(host: &[u8]) -> bool {
    let port = match host.iter().rposition(|byte| matches!(byte, b':' | b']')) {
        Some(at) if host[at] == b':' => at,
        _ => host.len(),
    };
    let (name, port) = host.split_at(port);
    let is_in_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=".contains(byte);
    let is_name = match name {
        [b'[', inner @ .., b']'] => !inner.is_empty() && inner.iter().all(|byte| *byte == b':' || is_in_name(byte)),
        name => !name.is_empty() && name.iter().all(is_in_name),
    };
    is_name && port.iter().skip(1).all(u8::is_ascii_digit)
}

/// Returns `true` for a path that needs no further check.
fn is_plain_path(target: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~?=&%+:@,;".contains(&byte);
    target.starts_with('/') && target.bytes().all(is_plain)
}

/// Returns `true` for a target that a request with this method may have (RFC 9112, 3.2).
fn is_valid_target(target: &str, method: &Method) -> bool {
    match Uri::try_from(target) {
        Ok(uri) if uri.scheme().is_some() => {
            let is_http = matches!(uri.scheme(), Some(scheme) if *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS);
            is_http && uri.authority().is_some()
        }
        Ok(uri) if uri.authority().is_some() => method == Method::CONNECT,
        Ok(uri) if uri.path() == "*" => method == Method::OPTIONS,
        Ok(_) => true,
        Err(_) => false,
    }
}

/// A head as raw bytes. The spans of all headers are not kept: they would make the future of each connection 464 bytes
/// larger.
#[derive(Debug)]
pub(in crate::server) struct RawHead {
    text: HeadText,
    target: RequestTarget,
}

#[derive(Debug)]
enum HeadText {
    /// ASCII, as in nearly every head. Any part of it is valid UTF-8.
    Ascii(ByteString),
    Other(Bytes),
}

impl RawHead {
    /// Returns its length in bytes.
    pub(in crate::server) fn length(&self) -> usize {
        match &self.text {
            HeadText::Ascii(text) => text.len(),
            HeadText::Other(bytes) => bytes.len(),
        }
    }

    /// Creates a head from its bytes and the span of its target.
    pub(in crate::server) fn new(bytes: Bytes, target: RequestTarget) -> Self {
        let text = if bytes.is_ascii() {
            HeadText::Ascii(ByteString::try_from(bytes).unwrap_or_default())
        } else {
            HeadText::Other(bytes)
        };
        Self { text, target }
    }

    fn bytes(&self) -> &Bytes {
        match &self.text {
            HeadText::Ascii(text) => text.as_bytes(),
            HeadText::Other(bytes) => bytes,
        }
    }

    /// Returns the bytes of a part.
    pub(in crate::server) fn bytes_of(&self, span: Span) -> &[u8] {
        self.bytes().get(span.range()).unwrap_or_default()
    }

    /// Returns a part as a string, or `None` if it is not ASCII. The parser has rejected control characters.
    pub(in crate::server) fn get(&self, span: Span) -> Option<&str> {
        match &self.text {
            HeadText::Ascii(text) => text.get(span.range()),
            HeadText::Other(bytes) => {
                let part = bytes.get(span.range()).filter(|part| part.is_ascii())?;
                std::str::from_utf8(part).ok()
            }
        }
    }

    /// Returns the request target as it was sent.
    pub(in crate::server) fn target(&self) -> &str {
        self.get(self.target.span).unwrap_or_default()
    }

    /// Returns `true` if the target is a path with an optional query, of characters that need no further check.
    pub(in crate::server) fn is_plain_path(&self) -> bool {
        self.target.is_plain_path
    }

    pub(in crate::server) fn uri(&self) -> Uri {
        // Validated by the parser.
        Uri::from_maybe_shared(self.bytes().slice(self.target.span.range())).unwrap_or_default()
    }

    /// Returns the values of all headers with a name. Searches the lines of the head, which the parser has validated.
    pub(in crate::server) fn values(&self, name: HeaderName) -> impl Iterator<Item = &[u8]> {
        let (bytes, mut start) = (&self.bytes()[..], 0);
        let lines = memchr::memchr_iter(b'\n', bytes).map(move |end| {
            let line = &bytes[start..end];
            start = end + 1;
            line
        });
        lines.skip(1).filter_map(move |line| {
            let (name, length) = (name.as_str().as_bytes(), name.as_str().len());
            let is_same = line.get(length) == Some(&b':') && line[..length].eq_ignore_ascii_case(name);
            is_same.then(|| line[length + 1..].trim_ascii())
        })
    }

    /// Builds a map of all headers. The values are slices of the head.
    pub(in crate::server) fn header_map(&self) -> HeaderMap {
        let bytes = self.bytes();
        let parsed = parse_complete(bytes).map(|head| head.headers).unwrap_or_default();
        let mut headers = HeaderMap::with_capacity(parsed.len());
        for header in parsed {
            let name = HeaderName::from_bytes(&bytes[header.name.range()]);
            let value = HeaderValue::from_maybe_shared(bytes.slice(header.value.range()));
            if let (Ok(name), Ok(value)) = (name, value) {
                headers.append(name, value);
            }
        }
        headers
    }
}
