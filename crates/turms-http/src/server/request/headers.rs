//! What a request says before its body, read once.

use http::header::ACCEPT;
use turms_proto::header::HeaderLookup;
use turms_proto::revision::names_stateless;
use turms_proto::{Ability, ErrorObject, ProtocolVersion};

use super::{Name, RequestHead};

/// The headers that the protocol gives a meaning.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) struct Head<'a> {
    pub(in crate::server) version: HeaderLookup<'a>,
    pub(in crate::server) method: HeaderLookup<'a>,
    pub(in crate::server) name: HeaderLookup<'a>,
    pub(in crate::server) last_event: HeaderLookup<'a>,
}

impl<'a> Head<'a> {
    pub(in crate::server) fn of(head: &'a RequestHead) -> Self {
        Self {
            version: head.lookup(Name::Version),
            method: head.lookup(Name::Method),
            name: head.lookup(Name::Called),
            last_event: head.lookup(Name::LastEvent),
        }
    }

    /// The revision that the header names, for a server that speaks these.
    pub(in crate::server) fn named(&self, versions: &[ProtocolVersion]) -> Named<'a> {
        let named = match self.version {
            HeaderLookup::Absent => return Named::Older(None),
            HeaderLookup::One(named) => named.trim(),
            _ => return Named::Unreadable,
        };
        let speaks_newest = versions.iter().any(|version| version.has(Ability::Stateless));
        match named.parse() {
            _ if names_stateless(named) && speaks_newest => Named::Newest,
            Ok(version) if versions.contains(&version) => Named::Older(Some(version)),
            _ => Named::Unknown(named),
        }
    }
}

/// A revision as a header names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Named<'a> {
    /// One with a handshake, or none.
    Older(Option<ProtocolVersion>),
    /// One without a handshake.
    Newest,
    /// One that is not spoken here.
    Unknown(&'a str),
    /// The header is there more than once, or is not text.
    Unreadable,
}

/// A header that may be there once; what is wrong if it is there otherwise.
pub(in crate::server) fn single<'a>(found: HeaderLookup<'a>, name: &str) -> Result<Option<&'a str>, ErrorObject> {
    match found {
        HeaderLookup::Absent => Ok(None),
        HeaderLookup::One(value) => Ok(Some(value.trim())),
        HeaderLookup::Repeated => Err(ErrorObject::invalid_request(format!("header {name:?} must be sent only once"))),
        _ => Err(ErrorObject::invalid_request(format!("header {name:?} must consist of visible ASCII characters"))),
    }
}

/// Whether the body can be read; what is wrong if it cannot.
pub(in crate::server) fn check_body(head: &RequestHead) -> Result<(), &'static str> {
    if !is_json(head.lookup(Name::ContentType)) {
        return Err("the body must be JSON: send \"Content-Type: application/json\"");
    }
    match head.lookup(Name::ContentEncoding) {
        HeaderLookup::Absent => Ok(()),
        HeaderLookup::One(encoding) if encoding.eq_ignore_ascii_case("identity") => Ok(()),
        _ => Err("the body must not be compressed: send it without \"Content-Encoding\""),
    }
}

/// Whether the body says that it is JSON.
fn is_json(said: HeaderLookup<'_>) -> bool {
    matches!(said, HeaderLookup::One(value) if value == JSON || essence(value).eq_ignore_ascii_case(JSON))
}

pub(in crate::server) const JSON: &str = "application/json";
pub(in crate::server) const EVENT_STREAM: &str = "text/event-stream";

/// Returns `true` if a POST may be answered with JSON and with an event stream. A POST without `Accept` takes anything.
pub(in crate::server) fn accepts_both(head: &RequestHead) -> bool {
    // As most clients say it, which needs no reading.
    let usual = head.lookup(Name::Accept) == HeaderLookup::One("application/json, text/event-stream");
    usual || [JSON, EVENT_STREAM].iter().all(|wanted| accepts(head, wanted).unwrap_or(true))
}

/// Returns `true` if a GET asks for an event stream. The specification wants the header, so one without `Accept` does not.
pub(in crate::server) fn accepts_events(head: &RequestHead) -> bool {
    accepts(head, EVENT_STREAM).unwrap_or(false)
}

/// Returns whether `Accept` includes a media type; `None` without the header.
fn accepts(head: &RequestHead, wanted: &str) -> Option<bool> {
    match head.lookup(Name::Accept) {
        HeaderLookup::Absent => None,
        HeaderLookup::One(ranges) => Some(is_in_ranges(wanted, ranges.split(','))),
        _ => {
            let headers = head.headers();
            let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
            Some(is_in_ranges(wanted, values.flat_map(|value| value.split(','))))
        }
    }
}

/// The most specific range that has the type decides (RFC 9110, 12.5.1), so that one type can be excluded from `*/*`.
fn is_in_ranges<'a>(wanted: &str, ranges: impl Iterator<Item = &'a str>) -> bool {
    let known = ranges.filter_map(|range| Some((specificity(wanted, range)?, !is_excluded(range))));
    known.max().is_some_and(|(_, is_accepted)| is_accepted)
}

/// How closely a media range names a type; `None` if it does not include it.
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

/// Returns `true` for a weight of zero.
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

    fn accept(values: &[&'static str]) -> RequestHead {
        let (mut parts, ()) = http::Request::new(()).into_parts();
        for value in values {
            parts.headers.append(ACCEPT, HeaderValue::from_static(value));
        }
        RequestHead::new(parts, None)
    }

    #[test]
    fn types_are_accepted_as_the_client_says() {
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
    fn json_may_say_more_about_itself() {
        let of = |value| is_json(HeaderLookup::One(value));
        assert!(of("application/json") && of("Application/Json; charset=utf-8"));
        assert!(!of("text/plain") && !of("application/json-patch+json"));
        assert!(!is_json(HeaderLookup::Absent) && !is_json(HeaderLookup::Repeated));
    }
}
