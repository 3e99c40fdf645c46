//! The headers that the protocol uses, and content negotiation.

use http::header::ACCEPT;
use turms_proto::header::{self, HeaderLookup};
use turms_proto::revision::names_stateless;
use turms_proto::{Ability, ErrorObject, ProtocolVersion};

use super::RequestHead;

/// The headers that every request is checked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum KnownHeader {
    Host,
    Origin,
    ContentType,
    ContentEncoding,
    Accept,
    ProtocolVersion,
    Method,
    Name,
    SessionId,
    LastEventId,
}

impl KnownHeader {
    const COUNT: usize = 10;

    /// Returns the header with this name, ignoring case.
    fn find(name: &[u8]) -> Option<Self> {
        // The length selects one candidate, or two that differ in the first letter.
        let header = match name.len() {
            4 => Self::Host,
            6 if name[0].eq_ignore_ascii_case(&b'a') => Self::Accept,
            6 => Self::Origin,
            8 => Self::Name,
            10 => Self::Method,
            12 => Self::ContentType,
            13 => Self::LastEventId,
            14 => Self::SessionId,
            16 => Self::ContentEncoding,
            20 => Self::ProtocolVersion,
            _ => return None,
        };
        // Most clients send lower case, which is faster to compare.
        let known = header.name().as_bytes();
        let is_found = name == known || name.eq_ignore_ascii_case(known);
        is_found.then_some(header)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Origin => "origin",
            Self::ContentType => "content-type",
            Self::ContentEncoding => "content-encoding",
            Self::Accept => "accept",
            Self::ProtocolVersion => header::PROTOCOL_VERSION,
            Self::Method => header::METHOD,
            Self::Name => header::NAME,
            Self::SessionId => header::SESSION_ID,
            Self::LastEventId => header::LAST_EVENT_ID,
        }
    }
}

/// The positions of the known headers of a request, found in one pass over all headers. Replaces nine lookups by name
/// per request.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) struct HeaderIndex<P>([HeaderPosition<P>; KnownHeader::COUNT]);

/// The position of a known header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum HeaderPosition<P> {
    Absent,
    /// The only header with its name.
    At(P),
    Repeated,
}

impl<P: Copy> HeaderIndex<P> {
    /// Indexes the headers of a request, each with its name and position.
    pub(in crate::server) fn new<'a>(headers: impl Iterator<Item = (&'a [u8], P)>) -> Self {
        let mut index = Self([HeaderPosition::Absent; KnownHeader::COUNT]);
        for (name, position) in headers {
            if let Some(header) = KnownHeader::find(name) {
                let slot = &mut index.0[header as usize];
                *slot = if matches!(slot, HeaderPosition::Absent) {
                    HeaderPosition::At(position)
                } else {
                    HeaderPosition::Repeated
                };
            }
        }
        index
    }

    /// Returns a known header. `read` returns its value, or `None` if it is not visible ASCII.
    pub(in crate::server) fn lookup<'a>(
        &self,
        header: KnownHeader,
        read: impl FnOnce(P) -> Option<&'a str>,
    ) -> HeaderLookup<'a> {
        match self.0[header as usize] {
            HeaderPosition::Absent => HeaderLookup::Absent,
            HeaderPosition::Repeated => HeaderLookup::Repeated,
            HeaderPosition::At(position) => read(position).map_or(HeaderLookup::NotText, HeaderLookup::One),
        }
    }
}

/// The protocol headers of a request.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) struct McpHeaders<'a> {
    pub(in crate::server) version: HeaderLookup<'a>,
    pub(in crate::server) method: HeaderLookup<'a>,
    pub(in crate::server) name: HeaderLookup<'a>,
    pub(in crate::server) last_event: HeaderLookup<'a>,
}

impl<'a> McpHeaders<'a> {
    pub(in crate::server) fn of(head: &'a RequestHead) -> Self {
        Self {
            version: head.lookup(KnownHeader::ProtocolVersion),
            method: head.lookup(KnownHeader::Method),
            name: head.lookup(KnownHeader::Name),
            last_event: head.lookup(KnownHeader::LastEventId),
        }
    }

    /// Returns the revision in the header, for a server that supports `versions`.
    pub(in crate::server) fn named(&self, versions: &[ProtocolVersion]) -> NamedVersion<'a> {
        let named = match self.version {
            HeaderLookup::Absent => return NamedVersion::Absent,
            HeaderLookup::One(named) => named.trim(),
            _ => return NamedVersion::Unreadable,
        };
        let supports_stateless = versions.iter().any(|version| version.has(Ability::Stateless));
        match named.parse() {
            _ if names_stateless(named) && supports_stateless => NamedVersion::Stateless(named),
            Ok(version) if versions.contains(&version) => NamedVersion::Handshake(version),
            _ => NamedVersion::Unsupported(named),
        }
    }
}

/// The protocol revision in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum NamedVersion<'a> {
    /// There is no header.
    Absent,
    /// A revision with a handshake.
    Handshake(ProtocolVersion),
    /// A revision without a handshake, possibly newer than all known ones.
    Stateless(&'a str),
    /// A revision that the server does not support.
    Unsupported(&'a str),
    /// The header is repeated, or contains characters other than visible ASCII.
    Unreadable,
}

/// Returns the value of a header that must not be repeated, or the error.
pub(in crate::server) fn single<'a>(found: HeaderLookup<'a>, name: &str) -> Result<Option<&'a str>, ErrorObject> {
    match found {
        HeaderLookup::Absent => Ok(None),
        HeaderLookup::One(value) => Ok(Some(value.trim())),
        HeaderLookup::Repeated => Err(ErrorObject::invalid_request(format!("header {name:?} must be sent only once"))),
        _ => Err(ErrorObject::invalid_request(format!("header {name:?} must consist of visible ASCII characters"))),
    }
}

/// Checks that the body is JSON without compression.
pub(in crate::server) fn check_body(head: &RequestHead) -> Result<(), &'static str> {
    if !is_json(head.lookup(KnownHeader::ContentType)) {
        return Err("the body must be JSON: send \"Content-Type: application/json\"");
    }
    match head.lookup(KnownHeader::ContentEncoding) {
        HeaderLookup::Absent => Ok(()),
        HeaderLookup::One(encoding) if encoding.eq_ignore_ascii_case("identity") => Ok(()),
        _ => Err("the body must not be compressed: send it without \"Content-Encoding\""),
    }
}

/// Returns `true` if a content type is JSON.
fn is_json(content_type: HeaderLookup<'_>) -> bool {
    matches!(content_type, HeaderLookup::One(value) if value == JSON || essence(value).eq_ignore_ascii_case(JSON))
}

pub(in crate::server) const JSON: &str = "application/json";
pub(in crate::server) const EVENT_STREAM: &str = "text/event-stream";

/// Returns `true` if a POST accepts JSON and event streams. A POST without `Accept` accepts everything.
pub(in crate::server) fn accepts_both(head: &RequestHead) -> bool {
    // Fast path: the usual value needs no parsing.
    let usual = head.lookup(KnownHeader::Accept) == HeaderLookup::One("application/json, text/event-stream");
    usual || [JSON, EVENT_STREAM].iter().all(|wanted| accepts(head, wanted).unwrap_or(true))
}

/// Returns `true` if a GET accepts an event stream. The specification requires the `Accept` header.
pub(in crate::server) fn accepts_events(head: &RequestHead) -> bool {
    accepts(head, EVENT_STREAM).unwrap_or(false)
}

/// Returns `Some(true)` if `Accept` includes a media type, and `None` without the header.
fn accepts(head: &RequestHead, wanted: &str) -> Option<bool> {
    match head.lookup(KnownHeader::Accept) {
        HeaderLookup::Absent => None,
        HeaderLookup::One(ranges) => Some(is_in_ranges(wanted, ranges.split(','))),
        _ => {
            let headers = head.headers();
            let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
            Some(is_in_ranges(wanted, values.flat_map(|value| value.split(','))))
        }
    }
}

/// Returns `true` if the most specific matching range accepts the type (RFC 9110, 12.5.1), so that a type can be
/// excluded from `*/*`.
fn is_in_ranges<'a>(wanted: &str, ranges: impl Iterator<Item = &'a str>) -> bool {
    let known = ranges.filter_map(|range| Some((specificity(wanted, range)?, !is_excluded(range))));
    known.max().is_some_and(|(_, is_accepted)| is_accepted)
}

/// Returns the specificity of a media range for a type, or `None` if it does not match.
fn specificity(wanted: &str, range: &str) -> Option<u8> {
    let range = essence(range);
    let family = wanted.split('/').next().unwrap_or_default();
    if range.eq_ignore_ascii_case(wanted) {
        return Some(2);
    }
    match range.strip_suffix("/*")? {
        "*" => Some(0),
        of => of.eq_ignore_ascii_case(family).then_some(1),
    }
}

/// Returns `true` if the range has a weight of zero (`;q=0`).
fn is_excluded(range: &str) -> bool {
    range
        .split(';')
        .skip(1)
        .filter_map(|param| param.split_once('='))
        .any(|(name, weight)| name.trim().eq_ignore_ascii_case("q") && weight.trim().parse::<f32>() == Ok(0.0))
}

fn essence(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn every_known_header_is_found_in_any_case() {
        let all = [
            KnownHeader::Host,
            KnownHeader::Origin,
            KnownHeader::ContentType,
            KnownHeader::ContentEncoding,
            KnownHeader::Accept,
            KnownHeader::ProtocolVersion,
            KnownHeader::Method,
            KnownHeader::Name,
            KnownHeader::SessionId,
            KnownHeader::LastEventId,
        ];
        assert_eq!(all.len(), KnownHeader::COUNT);
        for (position, header) in all.into_iter().enumerate() {
            assert_eq!(header as usize, position);
            assert_eq!(KnownHeader::find(header.name().as_bytes()), Some(header));
            assert_eq!(KnownHeader::find(header.name().to_ascii_uppercase().as_bytes()), Some(header));
        }
        assert_eq!(KnownHeader::find(b"expect"), None);
        assert_eq!(KnownHeader::find(b""), None);
    }

    #[test]
    fn one_pass_finds_single_and_repeated_headers() {
        let headers = [("x", "0"), ("HOST", "1"), ("accept", "2"), ("mcp-name", "3"), ("Accept", "4")];
        let index = HeaderIndex::new(headers.into_iter().map(|(name, position)| (name.as_bytes(), position)));
        let lookup = |header| index.lookup(header, |value| Some(value).filter(|value| *value != "3"));
        assert_eq!(lookup(KnownHeader::Host), HeaderLookup::One("1"));
        assert_eq!(lookup(KnownHeader::Name), HeaderLookup::NotText);
        assert_eq!(lookup(KnownHeader::Accept), HeaderLookup::Repeated);
        assert_eq!(lookup(KnownHeader::Origin), HeaderLookup::Absent);
    }

    fn accept(values: &[&'static str]) -> RequestHead {
        let (mut parts, ()) = http::Request::new(()).into_parts();
        for value in values {
            parts.headers.append(ACCEPT, HeaderValue::from_static(value));
        }
        RequestHead::from_parts(parts, None)
    }

    #[test]
    fn media_types_are_matched_with_accept() {
        let both = accept(&["application/json, text/event-stream"]);
        assert!(accepts_both(&both) && accepts_events(&both));
        assert!(accepts_both(&accept(&["text/event-stream", "application/json"])));
        assert!(accepts_both(&accept(&[])) && !accepts_events(&accept(&[])));
        assert!(!accepts_both(&accept(&["application/json"])) && !accepts_both(&accept(&["text/event-stream"])));
        assert!(accepts_both(&accept(&["Application/JSON;q=0.5", "text/*"])));
        assert!(accepts_both(&accept(&["*/*"])) && !accepts_both(&accept(&["application/jsonp, text/*"])));
        assert_eq!(accepts(&accept(&["application/json"]), EVENT_STREAM), Some(false));
        assert_eq!(accepts(&accept(&[""]), EVENT_STREAM), Some(false));
    }

    #[test]
    fn the_most_specific_range_decides() {
        for range in [
            "*/*",
            "text/*",
            "*/*;q=0, text/event-stream",
            "text/*;q=0, text/event-stream;q=0.001",
            "*/*;q=0, text/*",
            "text/event-stream;q=0, text/event-stream",
            "image/*;q=0, */*",
        ] {
            assert!(accepts_events(&accept(&[range])), "{range}");
        }
        for range in [
            "text/event-stream;q=0",
            "text/event-stream; charset=utf-8; Q = 0.000, */*",
            "*/*;q=0",
            "text/*;q=0, */*",
            "text/event-stream;q=0, text/*;q=1, */*",
            "texts/*, text/event-streams",
        ] {
            assert!(!accepts_events(&accept(&[range])), "{range}");
        }
        assert!(!accepts_events(&accept(&["*/*", "text/event-stream;q=0"])));
    }

    #[test]
    fn a_json_content_type_may_have_parameters() {
        let of = |value| is_json(HeaderLookup::One(value));
        assert!(of("application/json") && of("Application/Json; charset=utf-8"));
        assert!(!of("text/plain") && !of("application/json-patch+json"));
        assert!(!is_json(HeaderLookup::Absent) && !is_json(HeaderLookup::Repeated));
    }
}
