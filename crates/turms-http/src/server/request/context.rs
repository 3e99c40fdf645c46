//! What handlers can see of the request that they are called by.

use std::any::{Any, TypeId};
use std::sync::{Arc, OnceLock};

use bytestring::ByteString;
use http::HeaderValue;
use http::{Extensions, HeaderMap, Uri};
use turms_core::{BoxFuture, CallContext, ErrorOrigin, PeerError, PeerTransport, RequestInfo, ServiceError};
use turms_proto::header::{HeaderLookup, ParamHeaders};
use turms_proto::session::RequestOptions;
use turms_proto::{ErrorCode, ErrorObject, Notification, Object, RawJson};

use super::RequestHead;
use crate::server::PeerAddress;
use crate::server::session::EventStream;
use crate::server::voice::Voice;

/// One request over HTTP: all that calls see of it in one piece, and what middleware added to it.
#[derive(Clone)]
pub(in crate::server) struct HttpSource {
    known: Arc<HttpRequestInfo>,
    added: Option<Arc<Extensions>>,
}

/// What is known of a request, and what its handler says before it answers if that is said within the request.
pub(in crate::server) struct HttpRequestInfo {
    head: RequestHead,
    /// Headers and address as values, once a handler has asked for one of them.
    made: OnceLock<Box<(HeaderMap, Uri)>>,
    /// Set if headers mirror parts of the body, as they do in 2026-07-28.
    mirrors_body: bool,
    stream: Option<EventStream>,
    voice: Voice,
}

impl HttpSource {
    /// A request, which comes from its peer if nobody has put somebody else into its extensions.
    pub(in crate::server) fn new(head: RequestHead) -> Self {
        Self::with(head, false, None)
    }

    /// A request whose headers repeat its body.
    pub(in crate::server) fn repeating(head: RequestHead) -> Self {
        Self::with(head, true, None)
    }

    /// A request whose calls have a stream of events.
    pub(in crate::server) fn streaming(head: RequestHead, stream: EventStream) -> Self {
        Self::with(head, false, Some(stream))
    }

    fn with(mut head: RequestHead, mirrors_body: bool, stream: Option<EventStream>) -> Self {
        let mut extensions = head.take_extensions();
        // What the request itself says is not for others to say.
        extensions.remove::<HeaderMap>();
        extensions.remove::<Uri>();
        let added = (!extensions.is_empty()).then(|| Arc::new(extensions));
        let known = HttpRequestInfo { head, made: OnceLock::new(), mirrors_body, stream, voice: Voice::default() };
        Self { known: Arc::new(known), added }
    }

    /// The request, which is also the client as its handler sees it if everything happens within it.
    pub(in crate::server) fn known(&self) -> Arc<HttpRequestInfo> {
        self.known.clone()
    }

    /// A call by this request.
    pub(in crate::server) fn surround(&self, cx: CallContext) -> CallContext {
        let cx = cx.with_request_info(self.known.clone());
        match &self.added {
            Some(added) => cx.with_extensions(added.clone()),
            None => cx,
        }
    }
}

impl HttpRequestInfo {
    pub(in crate::server) fn voice(&self) -> &Voice {
        &self.voice
    }

    fn made(&self) -> (&HeaderMap, &Uri) {
        self.head.built().unwrap_or_else(|| {
            let (headers, uri) =
                &**self.made.get_or_init(|| Box::new((self.head.headers().into_owned(), self.head.uri().into_owned())));
            (headers, uri)
        })
    }
}

impl RequestInfo for HttpRequestInfo {
    fn get(&self, kind: TypeId) -> Option<&dyn Any> {
        fn of<T: Any>(value: Option<&T>) -> Option<&dyn Any> {
            value.map(|value| value as &dyn Any)
        }
        match kind {
            _ if kind == TypeId::of::<HeaderMap>() => of(Some(self.made().0)),
            _ if kind == TypeId::of::<Uri>() => of(Some(self.made().1)),
            _ if kind == TypeId::of::<PeerAddress>() => of(self.head.peer_ref()),
            _ if kind == TypeId::of::<EventStream>() => of(self.stream.as_ref()),
            _ => None,
        }
    }

    fn check_arguments(&self, mirrored: &ParamHeaders, arguments: Option<&Object>) -> Result<(), ServiceError> {
        if !self.mirrors_body {
            return Ok(());
        }
        let mismatch = |message: String| {
            ServiceError::new(ErrorOrigin::Params, ErrorObject::new(ErrorCode::HEADER_MISMATCH, message))
        };
        let arguments = match arguments.map(|arguments| serde_json::from_str(arguments.as_str())) {
            Some(Ok(arguments)) => arguments,
            // What cannot be read cannot be compared, such as a number beyond all numbers.
            Some(Err(error)) => {
                let message = format!("the arguments cannot be compared with the headers that repeat them: {error}");
                return Err(mismatch(message));
            }
            None => serde_json::Value::Null,
        };
        let headers = self.made().0;
        mirrored
            .check(&arguments, |name| HeaderLookup::from_values(headers.get_all(name).iter().map(HeaderValue::to_str)))
            .map_err(|problem| mismatch(problem.to_string()))
    }
}

impl PeerTransport for HttpRequestInfo {
    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        self.voice.notify(notification)
    }

    fn try_notify(&self, notification: Notification) -> bool {
        self.voice.try_notify(notification)
    }

    fn request(
        &self,
        method: ByteString,
        params: Option<RawJson>,
        options: RequestOptions,
    ) -> BoxFuture<'_, Result<RawJson, PeerError>> {
        self.voice.request(method, params, options)
    }
}
