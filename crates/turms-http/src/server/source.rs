//! What handlers can see of the request that they are called by.

use std::any::{Any, TypeId};
use std::sync::Arc;

use http::request::Parts;
use http::{Extensions, HeaderMap, Uri};
use turms_core::{Context, HeadersRepeatBody, Source};

use super::PeerAddress;
use super::session::EventStream;

/// One request over HTTP: all that calls see of it in one piece, and what middleware added to it.
#[derive(Clone)]
pub(super) struct HttpSource {
    known: Arc<Known>,
    added: Option<Arc<Extensions>>,
}

struct Known {
    headers: HeaderMap,
    uri: Uri,
    peer: Option<PeerAddress>,
    repeats_body: Option<HeadersRepeatBody>,
    stream: Option<EventStream>,
}

impl HttpSource {
    /// A request that came from `peer`, if nobody has put somebody else into its extensions.
    pub(super) fn new(parts: Parts, peer: Option<PeerAddress>) -> Self {
        Self::with(parts, peer, None, None)
    }

    /// A request whose headers repeat its body.
    pub(super) fn repeating(parts: Parts, peer: Option<PeerAddress>) -> Self {
        Self::with(parts, peer, Some(HeadersRepeatBody::new()), None)
    }

    /// A request whose calls have a stream of events.
    pub(super) fn streaming(parts: Parts, peer: Option<PeerAddress>, stream: EventStream) -> Self {
        Self::with(parts, peer, None, Some(stream))
    }

    fn with(
        parts: Parts,
        peer: Option<PeerAddress>,
        repeats_body: Option<HeadersRepeatBody>,
        stream: Option<EventStream>,
    ) -> Self {
        let Parts { headers, uri, mut extensions, .. } = parts;
        // What the request itself says is not for others to say.
        extensions.remove::<HeaderMap>();
        extensions.remove::<Uri>();
        let added = (!extensions.is_empty()).then(|| Arc::new(extensions));
        Self { known: Arc::new(Known { headers, uri, peer, repeats_body, stream }), added }
    }

    /// A call by this request.
    pub(super) fn surround(&self, cx: Context) -> Context {
        let cx = cx.with_source(self.known.clone());
        match &self.added {
            Some(added) => cx.with_extensions(added.clone()),
            None => cx,
        }
    }
}

impl Source for Known {
    fn find(&self, kind: TypeId) -> Option<&dyn Any> {
        fn of<T: Any>(value: Option<&T>) -> Option<&dyn Any> {
            value.map(|value| value as &dyn Any)
        }
        match kind {
            _ if kind == TypeId::of::<HeaderMap>() => of(Some(&self.headers)),
            _ if kind == TypeId::of::<Uri>() => of(Some(&self.uri)),
            _ if kind == TypeId::of::<PeerAddress>() => of(self.peer.as_ref()),
            _ if kind == TypeId::of::<HeadersRepeatBody>() => of(self.repeats_body.as_ref()),
            _ if kind == TypeId::of::<EventStream>() => of(self.stream.as_ref()),
            _ => None,
        }
    }
}
