//! What a request says before its body, read once.

use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use turms_proto::header::{self, HeaderLookup};
use turms_proto::revision::names_stateless;
use turms_proto::{Ability, ErrorObject, ProtocolVersion};

/// The headers that the protocol gives a meaning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) version: HeaderLookup<'a>,
    pub(super) method: HeaderLookup<'a>,
    pub(super) name: HeaderLookup<'a>,
    pub(super) session: HeaderLookup<'a>,
    pub(super) last_event: HeaderLookup<'a>,
}

impl<'a> Head<'a> {
    pub(super) fn of(headers: &'a HeaderMap) -> Self {
        Self {
            version: lookup(headers, header::PROTOCOL_VERSION),
            method: lookup(headers, header::METHOD),
            name: lookup(headers, header::NAME),
            session: lookup(headers, header::SESSION_ID),
            last_event: lookup(headers, header::LAST_EVENT_ID),
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

/// What a request has under the name of a header.
pub(super) fn lookup<'a>(headers: &'a HeaderMap, name: &str) -> HeaderLookup<'a> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => HeaderLookup::Absent,
        (Some(value), None) => value.to_str().map_or(HeaderLookup::NotText, HeaderLookup::One),
        (Some(_), Some(_)) => HeaderLookup::Repeated,
    }
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
pub(super) fn check_body(headers: &HeaderMap) -> Result<(), &'static str> {
    if !is_json(headers) {
        return Err("the body must be JSON: send \"Content-Type: application/json\"");
    }
    match headers.get(CONTENT_ENCODING) {
        Some(encoding) if !encoding.as_bytes().eq_ignore_ascii_case(b"identity") => {
            Err("the body must not be compressed: send it without \"Content-Encoding\"")
        }
        _ => Ok(()),
    }
}

/// Whether the body says that it is JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    match (values.next().and_then(|value| value.to_str().ok()), values.next()) {
        (Some(value), None) => essence(value).eq_ignore_ascii_case(JSON),
        _ => false,
    }
}

pub(super) const JSON: &str = "application/json";
pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// Whether the client takes answers of both types.
pub(super) fn accepts_both(headers: &HeaderMap) -> bool {
    // As most clients say it, which needs no reading.
    let usual = headers.get(ACCEPT).is_some_and(|value| value == "application/json, text/event-stream");
    usual || (accepts(headers, JSON) && accepts(headers, EVENT_STREAM))
}

/// Whether the client takes answers of a type. Who says nothing takes anything.
pub(super) fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let mut said = false;
    for value in headers.get_all(ACCEPT) {
        said = true;
        let Ok(value) = value.to_str() else { continue };
        if value.split(',').any(|range| is_in_range(wanted, range)) {
            return true;
        }
    }
    !said
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

    fn accept(values: &[&'static str]) -> HeaderMap {
        let values = values.iter().map(|value| (ACCEPT, HeaderValue::from_static(value)));
        values.collect()
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
        let of = |value| HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(value))]);
        assert!(is_json(&of("application/json")) && is_json(&of("Application/Json; charset=utf-8")));
        assert!(!is_json(&of("text/plain")) && !is_json(&of("application/json-patch+json")));
        assert!(!is_json(&HeaderMap::new()));
    }
}
