//! What a request says before its body, read once.

use http::header::{ACCEPT, HeaderMap};
use turms_proto::header::HeaderLookup;
use turms_proto::revision::names_stateless;
use turms_proto::{Ability, ErrorObject, ProtocolVersion};

use super::request::{Name, RequestHead};

/// The headers that the protocol gives a meaning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) version: HeaderLookup<'a>,
    pub(super) method: HeaderLookup<'a>,
    pub(super) name: HeaderLookup<'a>,
    pub(super) last_event: HeaderLookup<'a>,
}

impl<'a> Head<'a> {
    pub(super) fn of(head: &'a RequestHead) -> Self {
        Self {
            version: head.lookup(Name::Version),
            method: head.lookup(Name::Method),
            name: head.lookup(Name::Called),
            last_event: head.lookup(Name::LastEvent),
        }
    }

    /// The revision that the header names, for a server that speaks these.
    pub(super) fn named(&self, versions: &[ProtocolVersion]) -> Named<'a> {
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
pub(super) enum Named<'a> {
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
pub(super) fn single<'a>(found: HeaderLookup<'a>, name: &str) -> Result<Option<&'a str>, ErrorObject> {
    match found {
        HeaderLookup::Absent => Ok(None),
        HeaderLookup::One(value) => Ok(Some(value.trim())),
        HeaderLookup::Repeated => Err(ErrorObject::invalid_request(format!("header {name:?} must be sent only once"))),
        _ => Err(ErrorObject::invalid_request(format!("header {name:?} must consist of visible ASCII characters"))),
    }
}

/// Whether the body can be read; what is wrong if it cannot.
pub(super) fn check_body(head: &RequestHead) -> Result<(), &'static str> {
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

pub(super) const JSON: &str = "application/json";
pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// Whether the client takes answers of both types.
pub(super) fn accepts_both(head: &RequestHead) -> bool {
    // As most clients say it, which needs no reading.
    let usual = head.lookup(Name::Accept) == HeaderLookup::One("application/json, text/event-stream");
    usual || (accepts(head, JSON) && accepts(head, EVENT_STREAM))
}

/// Whether the client takes answers of a type. Who says nothing takes anything.
pub(super) fn accepts(head: &RequestHead, wanted: &str) -> bool {
    match head.lookup(Name::Accept) {
        HeaderLookup::Absent => true,
        HeaderLookup::One(ranges) => is_in_ranges(wanted, ranges),
        _ => is_accepted(&head.headers(), wanted),
    }
}

fn is_accepted(headers: &HeaderMap, wanted: &str) -> bool {
    headers.get_all(ACCEPT).iter().any(|value| value.to_str().is_ok_and(|ranges| is_in_ranges(wanted, ranges)))
}

fn is_in_ranges(wanted: &str, ranges: &str) -> bool {
    ranges.split(',').any(|range| is_in_range(wanted, range))
}

fn is_in_range(wanted: &str, range: &str) -> bool {
    let refused = range.split(';').skip(1).any(|param| {
        let weight = param.trim().strip_prefix("q=").or_else(|| param.trim().strip_prefix("Q="));
        weight.is_some_and(|weight| weight.trim().parse::<f32>() == Ok(0.0))
    });
    let range = essence(range);
    let family = wanted.split('/').next().unwrap_or_default();
    let in_family = range.strip_suffix("/*").is_some_and(|of| of.eq_ignore_ascii_case(family));
    !refused && (range == "*/*" || in_family || range.eq_ignore_ascii_case(wanted))
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
        assert!(accepts(&both, JSON) && accepts(&both, EVENT_STREAM) && accepts_both(&both));
        assert!(accepts_both(&accept(&["text/event-stream", "application/json"])) && accepts_both(&accept(&[])));
        assert!(!accepts_both(&accept(&["application/json"])));
        let apart = accept(&["Application/JSON;q=0.5", "text/*"]);
        assert!(accepts(&apart, JSON) && accepts(&apart, EVENT_STREAM));
        let one = accept(&["application/json"]);
        assert!(accepts(&one, JSON) && !accepts(&one, EVENT_STREAM));
        let refused = accept(&["text/event-stream;q=0, application/json"]);
        assert!(!accepts(&refused, EVENT_STREAM));
        assert!(accepts(&accept(&["*/*"]), EVENT_STREAM) && accepts(&accept(&[]), JSON));
        assert!(!accepts(&accept(&["application/jsonp"]), JSON));
    }

    #[test]
    fn json_may_say_more_about_itself() {
        let of = |value| is_json(HeaderLookup::One(value));
        assert!(of("application/json") && of("Application/Json; charset=utf-8"));
        assert!(!of("text/plain") && !of("application/json-patch+json"));
        assert!(!is_json(HeaderLookup::Absent) && !is_json(HeaderLookup::Repeated));
    }
}
