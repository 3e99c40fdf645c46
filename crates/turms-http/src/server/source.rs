//! What handlers can see of the request that they are called by.

use std::any::{Any, TypeId};
use std::sync::{Arc, OnceLock};

use http::{Extensions, HeaderMap, Uri};
use turms_core::{Context, HeadersRepeatBody, Source};

use super::PeerAddress;
use super::request::RequestHead;
use super::session::EventStream;

/// One request over HTTP: all that calls see of it in one piece, and what middleware added to it.
#[derive(Clone)]
pub(super) struct HttpSource {
    known: Arc<Known>,
    added: Option<Arc<Extensions>>,
}

struct Known {
    head: RequestHead,
    /// Headers and address as values, once a handler has asked for one of them.
    made: OnceLock<Box<(HeaderMap, Uri)>>,
    repeats_body: Option<HeadersRepeatBody>,
    stream: Option<EventStream>,
}

impl HttpSource {
    /// A request, which comes from its peer if nobody has put somebody else into its extensions.
    pub(super) fn new(head: RequestHead) -> Self {
        Self::with(head, None, None)
    }

    /// A request whose headers repeat its body.
    pub(super) fn repeating(head: RequestHead) -> Self {
        Self::with(head, Some(HeadersRepeatBody::new()), None)
    }

    /// A request whose calls have a stream of events.
    pub(super) fn streaming(head: RequestHead, stream: EventStream) -> Self {
        Self::with(head, None, Some(stream))
    }

    fn with(mut head: RequestHead, repeats_body: Option<HeadersRepeatBody>, stream: Option<EventStream>) -> Self {
        let mut extensions = head.take_extensions();
        // What the request itself says is not for others to say.
        extensions.remove::<HeaderMap>();
        extensions.remove::<Uri>();
        let added = (!extensions.is_empty()).then(|| Arc::new(extensions));
        Self { known: Arc::new(Known { head, made: OnceLock::new(), repeats_body, stream }), added }
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

impl Known {
    fn made(&self) -> (&HeaderMap, &Uri) {
        self.head.made().unwrap_or_else(|| {
            let (headers, uri) =
                &**self.made.get_or_init(|| Box::new((self.head.headers().into_owned(), self.head.uri().into_owned())));
            (headers, uri)
        })
    }
}

impl Source for Known {
    fn find(&self, kind: TypeId) -> Option<&dyn Any> {
        fn of<T: Any>(value: Option<&T>) -> Option<&dyn Any> {
            value.map(|value| value as &dyn Any)
        }
        match kind {
            _ if kind == TypeId::of::<HeaderMap>() => of(Some(self.made().0)),
            _ if kind == TypeId::of::<Uri>() => of(Some(self.made().1)),
            _ if kind == TypeId::of::<PeerAddress>() => of(self.head.peer_ref()),
            _ if kind == TypeId::of::<HeadersRepeatBody>() => of(self.repeats_body.as_ref()),
            _ if kind == TypeId::of::<EventStream>() => of(self.stream.as_ref()),
            _ => None,
        }
    }
}
