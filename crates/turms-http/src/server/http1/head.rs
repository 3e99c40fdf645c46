//! The head of a request over HTTP/1.1 (RFC 9112): where it ends, what it says, and what is not one.

use std::mem::MaybeUninit;
use std::ops::Range;

use bytes::Bytes;
use bytestring::ByteString;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::uri::Scheme;
use http::{Method, StatusCode, Uri};
use httparse::Header;
use turms_proto::header::HeaderLookup;

use crate::framing::Framing;
use crate::server::request::Name;

/// How long a head may be, and how many headers it may have.
pub(super) const MAX_HEAD: usize = u16::MAX as usize;
const MAX_HEADERS: usize = 100;

/// A request that has begun.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) method: Method,
    pub(super) framing: Framing,
    /// Whether the client may ask something else afterwards.
    pub(super) keeps_alive: bool,
    /// Whether the client waits to be told to send the body.
    pub(super) awaits_continue: bool,
    pub(super) is_old: bool,
    pub(super) outline: Outline,
}

/// How long a head is, and where in it is what is looked for in every request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outline {
    pub(super) length: usize,
    target: Span,
    names_path_only: bool,
    known: [Span; Name::COUNT],
}

/// Why something is not a request, or not one for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadHead {
    #[error("the head of the request is longer than {MAX_HEAD} bytes")]
    TooLong,
    #[error("the request has more than {MAX_HEADERS} headers")]
    TooMany,
    #[error("this is not a request of HTTP/1.1: {0}")]
    NoRequest(#[from] httparse::Error),
    #[error("lines of a request end in CR LF, not in LF alone")]
    BareLineFeed,
    #[error("the method or the target of the request is invalid; a target is a path, or a URL of http or https")]
    Target,
    #[error("a request needs exactly one \"Host\", which is a name or an address and perhaps a port")]
    Host,
    #[error("\"Content-Length\" must be one number, and must not stand beside \"Transfer-Encoding\"")]
    Length,
    #[error("\"Transfer-Encoding\" needs HTTP/1.1")]
    CodingOfOld,
    #[error("bodies can be sent with \"Transfer-Encoding: chunked\" and with no other coding")]
    Coding,
}

impl BadHead {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::TooLong | Self::TooMany => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Coding => StatusCode::NOT_IMPLEMENTED,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

/// Looks for the end of a head in bytes that arrive little by little, at each of them once.
#[derive(Debug, Default)]
pub(super) struct Search {
    searched: usize,
}

impl Search {
    /// Whether nothing of a head was seen yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.searched == 0
    }

    /// How long the head is, once all of it is there. Empty lines before it are not part of it.
    pub(super) fn find(&mut self, input: &[u8]) -> Result<Option<usize>, BadHead> {
        for found in memchr::memchr_iter(b'\n', &input[self.searched..]) {
            let at = self.searched + found;
            let before = &input[..at];
            if before.last() != Some(&b'\r') {
                return Err(BadHead::BareLineFeed);
            }
            if before.ends_with(b"\r\n\r") {
                return if at < MAX_HEAD { Ok(Some(at + 1)) } else { Err(BadHead::TooLong) };
            }
        }
        self.searched = input.len();
        if input.len() > MAX_HEAD { Err(BadHead::TooLong) } else { Ok(None) }
    }
}

/// A head as it came.
#[derive(Debug)]
pub(in crate::server) struct WireHead {
    text: Text,
    outline: Outline,
}

#[derive(Debug)]
enum Text {
    /// Visible ASCII characters, as nearly always.
    Plain(ByteString),
    Other(Bytes),
}

/// A part of a head. None of those that are looked for is at its very beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Span {
    start: u16,
    length: u16,
}

impl Span {
    const ABSENT: Self = Self { start: 0, length: 0 };
    const REPEATED: Self = Self { start: 0, length: 1 };

    /// Where a part of `whole` begins in it.
    fn start(part: &[u8], whole: &[u8]) -> usize {
        // What is empty may be anywhere.
        if part.is_empty() { 1 } else { (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize) }
    }

    fn of(part: &[u8], whole: &[u8]) -> Self {
        // No head is longer.
        Self { start: Self::start(part, whole) as u16, length: part.len() as u16 }
    }

    fn range(self) -> Range<usize> {
        let start = usize::from(self.start);
        start..start + usize::from(self.length)
    }
}

/// Reads a head at the beginning of what came, if all of it is there and its lines end as they should. Else there has to be a
/// [`Search`], which sees more and costs more.
pub(super) fn glance(input: &[u8]) -> Option<Result<Begun, BadHead>> {
    if input.first()?.is_ascii_whitespace() {
        return None;
    }
    let mut room = [const { MaybeUninit::<Header<'_>>::uninit() }; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(input, &mut room) {
        Ok(httparse::Status::Complete(end)) if end <= MAX_HEAD && ends_lines_well(&request, &input[..end]) => {
            Some(begin(&request, &input[..end]))
        }
        _ => None,
    }
}

/// Whether all lines end in CR LF.
fn ends_lines_well(request: &httparse::Request<'_, '_>, head: &[u8]) -> bool {
    let begins_line = |header: &Header<'_>| {
        let start = Span::start(header.name.as_bytes(), head);
        matches!(head.get(start.wrapping_sub(2)..start), Some([b'\r', b'\n']))
    };
    head.ends_with(b"\r\n\r\n") && request.headers.iter().all(begins_line)
}

/// Reads a whole head whose lines end in CR LF.
pub(super) fn parse(head: &[u8]) -> Result<Begun, BadHead> {
    let mut room = [const { MaybeUninit::<Header<'_>>::uninit() }; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(head, &mut room) {
        Ok(httparse::Status::Complete(_)) => begin(&request, head),
        Ok(httparse::Status::Partial) => Err(BadHead::Target),
        Err(httparse::Error::TooManyHeaders) => Err(BadHead::TooMany),
        Err(error) => Err(error.into()),
    }
}

fn begin(request: &httparse::Request<'_, '_>, whole: &[u8]) -> Result<Begun, BadHead> {
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version) else {
        return Err(BadHead::Target);
    };
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| BadHead::Target)?;
    let names_path_only = is_plain_path(target);
    if !names_path_only && !is_address(target, &method) {
        return Err(BadHead::Target);
    }
    let is_old = minor == 0;
    let mut known = [Span::ABSENT; Name::COUNT];
    let mut said = Said::default();
    for header in &*request.headers {
        if let Some(name) = Name::find(header.name) {
            let place = &mut known[name as usize];
            *place = if *place == Span::ABSENT { Span::of(header.value, whole) } else { Span::REPEATED };
        } else {
            said.hear(header);
        }
    }
    let is_right_host = match known[Name::Host as usize] {
        Span::REPEATED => false,
        // HTTP/1.0 needs none.
        Span { length: 0, .. } => is_old,
        host => is_host(&whole[host.range()]),
    };
    if !is_right_host {
        return Err(BadHead::Host);
    }
    let framing = said.framing(is_old)?;
    let keeps_alive = if is_old { said.keep_alive && !said.close } else { !said.close };
    let target = Span::of(target.as_bytes(), whole);
    let outline = Outline { length: whole.len(), target, names_path_only, known };
    let awaits_continue = said.awaits_continue && !is_old;
    Ok(Begun { method, framing, keeps_alive, awaits_continue, is_old, outline })
}

/// What the headers say of the connection and the body.
#[derive(Default)]
struct Said {
    length: Option<Result<u64, BadHead>>,
    coding: Option<bool>,
    close: bool,
    keep_alive: bool,
    awaits_continue: bool,
}

impl Said {
    fn hear(&mut self, header: &Header<'_>) {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        match header.name.len() {
            14 if is("content-length") => {
                self.length = Some(if self.length.is_some() { Err(BadHead::Length) } else { length(header.value) });
            }
            17 if is("transfer-encoding") => {
                let is_chunked = self.coding.is_none() && header.value.eq_ignore_ascii_case(b"chunked");
                self.coding = Some(is_chunked);
            }
            10 if is("connection") => {
                for token in header.value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    self.close |= token.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            6 if is("expect") => self.awaits_continue |= header.value.eq_ignore_ascii_case(b"100-continue"),
            _ => {}
        }
    }

    /// How the body is framed (RFC 9112, 6.3). Whatever two readers could understand in two ways is refused.
    fn framing(&self, is_old: bool) -> Result<Framing, BadHead> {
        match (self.coding, self.length) {
            (None, None) => Ok(Framing::Length(0)),
            (None, Some(length)) => length.map(Framing::Length),
            (Some(_), Some(_)) => Err(BadHead::Length),
            (Some(_), None) if is_old => Err(BadHead::CodingOfOld),
            (Some(true), None) => Ok(Framing::Chunked),
            (Some(false), None) => Err(BadHead::Coding),
        }
    }
}

fn length(value: &[u8]) -> Result<u64, BadHead> {
    // As long as it has digits only, it can be parsed if it is not too long.
    let digits = std::str::from_utf8(value).ok().filter(|value| value.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or(BadHead::Length)
}

/// Returns `true` for a host name or an address in brackets, and perhaps a port (RFC 9110, 7.2).
///
/// A name may have a comma by the letter (RFC 3986, 3.2.2). None has, and some readers would see two names.
fn is_host(host: &[u8]) -> bool {
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

/// Whether an address is a path that needs no closer look.
fn is_plain_path(target: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~?=&%+:@,;".contains(&byte);
    target.starts_with('/') && target.bytes().all(is_plain)
}

/// Whether an address is one that a request of this method can have.
fn is_address(target: &str, method: &Method) -> bool {
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

impl WireHead {
    pub(super) fn new(bytes: Bytes, outline: Outline) -> Self {
        let text = if bytes.is_ascii() {
            // Which is text.
            Text::Plain(ByteString::try_from(bytes).unwrap_or_default())
        } else {
            Text::Other(bytes)
        };
        Self { text, outline }
    }

    fn bytes(&self) -> &Bytes {
        match &self.text {
            Text::Plain(text) => text.as_bytes(),
            Text::Other(bytes) => bytes,
        }
    }

    /// A part of it, if that is text; what is text and yet not visible has been refused.
    fn part(&self, span: Span) -> Option<&str> {
        match &self.text {
            Text::Plain(text) => text.get(span.range()),
            Text::Other(bytes) => {
                let part = bytes.get(span.range()).filter(|part| part.is_ascii())?;
                std::str::from_utf8(part).ok()
            }
        }
    }

    pub(in crate::server) fn lookup(&self, name: Name) -> HeaderLookup<'_> {
        match self.outline.known[name as usize] {
            Span::ABSENT => HeaderLookup::Absent,
            Span::REPEATED => HeaderLookup::Repeated,
            span => self.part(span).map_or(HeaderLookup::NotText, HeaderLookup::One),
        }
    }

    /// The address as it was sent.
    pub(in crate::server) fn target(&self) -> &str {
        self.part(self.outline.target).unwrap_or_default()
    }

    /// Whether the address is a path that is written in the simplest way, and perhaps a query.
    pub(in crate::server) fn names_path_only(&self) -> bool {
        self.outline.names_path_only
    }

    pub(in crate::server) fn uri(&self) -> Uri {
        // It was looked at when it came.
        Uri::from_maybe_shared(self.bytes().slice(self.outline.target.range())).unwrap_or_default()
    }

    /// Its headers as a map, whose values are parts of what came.
    pub(in crate::server) fn headers(&self) -> HeaderMap {
        let mut room = [const { MaybeUninit::<Header<'_>>::uninit() }; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut []);
        let mut headers = HeaderMap::new();
        if request.parse_with_uninit_headers(self.bytes(), &mut room).is_err() {
            return headers;
        }
        headers.reserve(request.headers.len());
        for header in &*request.headers {
            let value = HeaderValue::from_maybe_shared(self.bytes().slice_ref(header.value));
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(header.name.as_bytes()), value) {
                headers.append(name, value);
            }
        }
        headers
    }
}
