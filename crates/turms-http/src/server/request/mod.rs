//! The head of an HTTP request.

pub(super) mod access;
pub(super) mod body;
pub(super) mod context;
pub(super) mod cors;
pub(super) mod headers;

use std::borrow::Cow;
use std::fmt;

use http::header::HeaderMap;
use http::request::Parts;
use http::uri::Authority;
use http::{Extensions, Method, Uri};
use turms_core::Principal;
use turms_proto::header::HeaderLookup;

use self::headers::{HeaderIndex, KnownHeader};
use crate::server::PeerAddress;
use crate::server::guard::{GuardRequest, HeaderSource};
use crate::server::http1::{HeaderSpan, RawHead, Span};

/// The head of a request.
///
/// Most headers are never read. A head that is parsed by the HTTP/1.1 implementation of this crate is kept as raw
/// bytes, and is converted to a [`HeaderMap`] on demand.
pub struct RequestHead {
    method: Method,
    peer: Option<PeerAddress>,
    /// The principal that the guard has returned.
    principal: Option<Principal>,
    repr: HeadRepr,
}

enum HeadRepr {
    /// From the HTTP/1.1 implementation of this crate.
    Raw(RawHead, HeaderIndex<Span>),
    /// From hyper, or from the application that this server is mounted in. The index has the positions of known headers
    /// among the values of the map.
    Parts(Box<Parts>, HeaderIndex<u16>),
}

impl RequestHead {
    pub(in crate::server) fn from_parts(mut parts: Parts, peer: Option<PeerAddress>) -> Self {
        // Often the only extension. Without it, no extensions have to be shared with handlers.
        let peer = peer.or_else(|| parts.extensions.remove());
        let index = HeaderIndex::new(
            parts.headers.iter().zip(0..).map(|((name, _), position)| (name.as_str().as_bytes(), position)),
        );
        Self { method: parts.method.clone(), peer, principal: None, repr: HeadRepr::Parts(Box::new(parts), index) }
    }

    /// Creates a head from raw bytes. `headers` are the positions of its headers in them.
    pub(in crate::server) fn from_raw(
        method: Method,
        head: RawHead,
        headers: &[HeaderSpan],
        peer: Option<PeerAddress>,
    ) -> Self {
        let index = HeaderIndex::new(headers.iter().map(|header| (head.bytes_of(header.name), header.value)));
        Self { method, peer, principal: None, repr: HeadRepr::Raw(head, index) }
    }

    /// Returns the method of the request.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Returns the address of the client, if it is known.
    #[must_use]
    pub fn peer(&self) -> Option<PeerAddress> {
        self.peer
    }

    pub(in crate::server) fn peer_ref(&self) -> Option<&PeerAddress> {
        self.peer.as_ref()
    }

    /// Converts to the type of the `http` crate, with the [`PeerAddress`] and the principal as extensions.
    #[must_use]
    pub fn into_parts(self) -> Parts {
        let mut parts = match self.repr {
            HeadRepr::Parts(parts, _) => *parts,
            HeadRepr::Raw(head, _) => {
                let (mut parts, ()) = http::Request::new(()).into_parts();
                (parts.method, parts.uri, parts.headers) = (self.method, head.uri(), head.header_map());
                parts
            }
        };
        if let Some(peer) = self.peer {
            parts.extensions.insert(peer);
        }
        if let Some(principal) = self.principal {
            parts.extensions.insert(principal);
        }
        parts
    }

    /// Returns all headers.
    pub(in crate::server) fn headers(&self) -> Cow<'_, HeaderMap> {
        match &self.repr {
            HeadRepr::Parts(parts, _) => Cow::Borrowed(&parts.headers),
            HeadRepr::Raw(head, _) => Cow::Owned(head.header_map()),
        }
    }

    pub(in crate::server) fn uri(&self) -> Cow<'_, Uri> {
        match &self.repr {
            HeadRepr::Parts(parts, _) => Cow::Borrowed(&parts.uri),
            HeadRepr::Raw(head, _) => Cow::Owned(head.uri()),
        }
    }

    /// Returns a known header.
    pub(in crate::server) fn lookup(&self, header: KnownHeader) -> HeaderLookup<'_> {
        match &self.repr {
            HeadRepr::Parts(parts, index) => index.lookup(header, |position| {
                parts.headers.values().nth(position.into()).and_then(|value| value.to_str().ok())
            }),
            HeadRepr::Raw(head, index) => index.lookup(header, |value| head.get(value)),
        }
    }

    /// Returns the authority of the request target, which is separate from the `Host` header.
    pub(in crate::server) fn authority(&self) -> Option<Cow<'_, Authority>> {
        match &self.repr {
            HeadRepr::Parts(parts, _) => parts.uri.authority().map(Cow::Borrowed),
            HeadRepr::Raw(head, _) if head.is_plain_path() => None,
            HeadRepr::Raw(head, _) => head.uri().into_parts().authority.map(Cow::Owned),
        }
    }

    /// Returns the path and the query of the request target.
    pub(in crate::server) fn path_and_query(&self) -> (Cow<'_, str>, Option<Cow<'_, str>>) {
        let uri = match &self.repr {
            HeadRepr::Parts(parts, _) => return (parts.uri.path().into(), parts.uri.query().map(Into::into)),
            HeadRepr::Raw(head, _) if head.is_plain_path() => {
                let target = head.target();
                return match target.split_once('?') {
                    Some((path, query)) => (path.into(), Some(query.into())),
                    None => (target.into(), None),
                };
            }
            HeadRepr::Raw(head, _) => head.uri(),
        };
        (uri.path().to_owned().into(), uri.query().map(|query| query.to_owned().into()))
    }

    /// Returns the extensions that the application's middleware added to the request.
    pub(in crate::server) fn extensions(&self) -> Option<&Extensions> {
        match &self.repr {
            HeadRepr::Parts(parts, _) => Some(&parts.extensions),
            HeadRepr::Raw(..) => None,
        }
    }

    /// Returns the authenticated principal of the request: from the guard, or else from middleware.
    pub(in crate::server) fn principal(&self) -> Option<&Principal> {
        self.guarded_principal().or_else(|| self.extensions()?.get())
    }

    /// Returns the principal that the guard has returned.
    pub(in crate::server) fn guarded_principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }

    /// Sets the principal that the guard has returned.
    pub(in crate::server) fn set_principal(&mut self, principal: Principal) {
        self.principal = Some(principal);
    }

    /// Returns the request for a guard.
    pub(in crate::server) fn guard_request(&self) -> GuardRequest<'_> {
        let headers = match &self.repr {
            HeadRepr::Parts(parts, _) => HeaderSource::Map(&parts.headers),
            HeadRepr::Raw(head, _) => HeaderSource::Raw(head),
        };
        GuardRequest::with(&self.method, self.path_and_query(), headers, self.extensions())
    }

    /// Returns the approximate memory of the head in bytes.
    pub(in crate::server) fn bytes(&self) -> usize {
        match &self.repr {
            HeadRepr::Parts(parts, _) => {
                parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
            }
            HeadRepr::Raw(head, _) => head.length(),
        }
    }

    /// Returns the header map and the URI if they exist already.
    pub(in crate::server) fn built(&self) -> Option<(&HeaderMap, &Uri)> {
        match &self.repr {
            HeadRepr::Parts(parts, _) => Some((&parts.headers, &parts.uri)),
            HeadRepr::Raw(..) => None,
        }
    }
}

impl fmt::Debug for RequestHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers may contain secrets.
        f.debug_struct("RequestHead").field("method", &self.method).field("peer", &self.peer).finish_non_exhaustive()
    }
}
