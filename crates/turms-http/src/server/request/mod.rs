//! What a request says before its body, however it came.

pub(super) mod access;
pub(super) mod body;
pub(super) mod context;
pub(super) mod cors;
pub(super) mod headers;

use std::borrow::Cow;
use std::fmt;

use http::header::{self as standard, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::Authority;
use http::{Extensions, Method, Uri};
use turms_core::Principal;
use turms_proto::header::{self, HeaderLookup};

use crate::server::PeerAddress;
use crate::server::http1::WireHead;

/// What a request says before its body.
///
/// Most of what a request says is never looked at. What came over a connection of ours is kept as it came, and made into a map
/// of headers when somebody asks for one.
pub struct RequestHead {
    method: Method,
    peer: Option<PeerAddress>,
    said: Said,
}

enum Said {
    Parts(Box<Parts>),
    Wire(WireHead),
}

impl RequestHead {
    pub(in crate::server) fn new(parts: Parts, peer: Option<PeerAddress>) -> Self {
        Self { method: parts.method.clone(), peer, said: Said::Parts(Box::new(parts)) }
    }

    pub(in crate::server) fn of_wire(method: Method, head: WireHead, peer: Option<PeerAddress>) -> Self {
        Self { method, peer, said: Said::Wire(head) }
    }

    /// What is asked for.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Who is at the other end of the connection, if that is known.
    #[must_use]
    pub fn peer(&self) -> Option<PeerAddress> {
        self.peer
    }

    pub(in crate::server) fn peer_ref(&self) -> Option<&PeerAddress> {
        self.peer.as_ref()
    }

    /// All of it, with the [`PeerAddress`] among the extensions.
    #[must_use]
    pub fn into_parts(self) -> Parts {
        let mut parts = match self.said {
            Said::Parts(parts) => *parts,
            Said::Wire(head) => {
                let (mut parts, ()) = http::Request::new(()).into_parts();
                (parts.method, parts.uri, parts.headers) = (self.method, head.uri(), head.headers());
                parts
            }
        };
        if let Some(peer) = self.peer {
            parts.extensions.insert(peer);
        }
        parts
    }

    /// All headers.
    pub(in crate::server) fn headers(&self) -> Cow<'_, HeaderMap> {
        match &self.said {
            Said::Parts(parts) => Cow::Borrowed(&parts.headers),
            Said::Wire(head) => Cow::Owned(head.headers()),
        }
    }

    pub(in crate::server) fn uri(&self) -> Cow<'_, Uri> {
        match &self.said {
            Said::Parts(parts) => Cow::Borrowed(&parts.uri),
            Said::Wire(head) => Cow::Owned(head.uri()),
        }
    }

    /// What it has under the name of a header.
    pub(in crate::server) fn lookup(&self, name: Name) -> HeaderLookup<'_> {
        match &self.said {
            Said::Parts(parts) => {
                HeaderLookup::from_values(parts.headers.get_all(name.header()).iter().map(HeaderValue::to_str))
            }
            Said::Wire(head) => head.lookup(name),
        }
    }

    /// The name of a host that the address has, beside the one in the headers.
    pub(in crate::server) fn authority(&self) -> Option<Cow<'_, Authority>> {
        match &self.said {
            Said::Parts(parts) => parts.uri.authority().map(Cow::Borrowed),
            Said::Wire(head) if head.names_path_only() => None,
            Said::Wire(head) => head.uri().into_parts().authority.map(Cow::Owned),
        }
    }

    /// The path and the query of its address, as far as it has them.
    pub(in crate::server) fn path_and_query(&self) -> (Cow<'_, str>, Option<Cow<'_, str>>) {
        let uri = match &self.said {
            Said::Parts(parts) => return (parts.uri.path().into(), parts.uri.query().map(Into::into)),
            Said::Wire(head) if head.names_path_only() => {
                let target = head.target();
                return match target.split_once('?') {
                    Some((path, query)) => (path.into(), Some(query.into())),
                    None => (target.into(), None),
                };
            }
            Said::Wire(head) => head.uri(),
        };
        (uri.path().to_owned().into(), uri.query().map(|query| query.to_owned().into()))
    }

    /// What middleware has added to it.
    pub(in crate::server) fn extensions(&self) -> Option<&Extensions> {
        match &self.said {
            Said::Parts(parts) => Some(&parts.extensions),
            Said::Wire(_) => None,
        }
    }

    /// Takes out what middleware has added to it.
    pub(in crate::server) fn take_extensions(&mut self) -> Extensions {
        match &mut self.said {
            Said::Parts(parts) => std::mem::take(&mut parts.extensions),
            Said::Wire(_) => Extensions::new(),
        }
    }

    /// Who has proved to send it, if anybody has.
    pub(in crate::server) fn principal(&self) -> Option<&Principal> {
        self.extensions()?.get::<Principal>()
    }

    /// The headers and the address, where they are values already.
    pub(in crate::server) fn made(&self) -> Option<(&HeaderMap, &Uri)> {
        match &self.said {
            Said::Parts(parts) => Some((&parts.headers, &parts.uri)),
            Said::Wire(_) => None,
        }
    }
}

impl fmt::Debug for RequestHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers may hold secrets.
        f.debug_struct("RequestHead").field("method", &self.method).field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// The headers that are looked for in every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Name {
    Host,
    Origin,
    ContentType,
    ContentEncoding,
    Accept,
    Version,
    Method,
    Called,
    Session,
    LastEvent,
}

impl Name {
    pub(in crate::server) const COUNT: usize = 10;

    /// The one that is written like this.
    pub(in crate::server) fn find(name: &str) -> Option<Self> {
        // Those of one length differ in their first letter.
        let found = match name.len() {
            4 => Self::Host,
            6 if name.starts_with(['a', 'A']) => Self::Accept,
            6 => Self::Origin,
            8 => Self::Called,
            10 => Self::Method,
            12 => Self::ContentType,
            13 => Self::LastEvent,
            14 => Self::Session,
            16 => Self::ContentEncoding,
            20 => Self::Version,
            _ => return None,
        };
        // As most clients write them.
        let is_usual = name == found.text();
        (is_usual || name.eq_ignore_ascii_case(found.text())).then_some(found)
    }

    fn text(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Origin => "origin",
            Self::ContentType => "content-type",
            Self::ContentEncoding => "content-encoding",
            Self::Accept => "accept",
            Self::Version => header::PROTOCOL_VERSION,
            Self::Method => header::METHOD,
            Self::Called => header::NAME,
            Self::Session => header::SESSION_ID,
            Self::LastEvent => header::LAST_EVENT_ID,
        }
    }

    fn header(self) -> HeaderName {
        match self {
            Self::Host => standard::HOST,
            Self::Origin => standard::ORIGIN,
            Self::ContentType => standard::CONTENT_TYPE,
            Self::ContentEncoding => standard::CONTENT_ENCODING,
            Self::Accept => standard::ACCEPT,
            other => HeaderName::from_static(other.text()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_however_it_is_written() {
        let all = [
            Name::Host,
            Name::Origin,
            Name::ContentType,
            Name::ContentEncoding,
            Name::Accept,
            Name::Version,
            Name::Method,
            Name::Called,
            Name::Session,
            Name::LastEvent,
        ];
        assert_eq!(all.len(), Name::COUNT);
        for (place, name) in all.into_iter().enumerate() {
            assert_eq!(name as usize, place);
            assert_eq!(Name::find(name.text()), Some(name));
            assert_eq!(Name::find(&name.text().to_ascii_uppercase()), Some(name));
            assert_eq!(name.header().as_str(), name.text());
        }
        assert_eq!(Name::find("expect"), None);
        assert_eq!(Name::find(""), None);
    }
}
