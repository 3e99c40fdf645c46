//! The part of an HTTP request that handlers can read.

use std::any::{Any, TypeId};
use std::sync::{Arc, OnceLock};

use http::HeaderValue;
use http::{Extensions, HeaderMap, Uri};
use turms_core::__internal::RequestInfo;
use turms_core::{BoxFuture, ErrorOrigin, PeerError, PeerTransport, Principal, Remote, ServiceError};
use turms_proto::header::{HeaderLookup, ParamHeaders};
use turms_proto::session::RequestOptions;
use turms_proto::{ErrorCode, ErrorObject, MethodName, Notification, Object, RawJson};

use super::RequestHead;
use crate::server::PeerAddress;
use crate::server::session::StreamControl;
use crate::server::stateless::NotificationQueue;

/// One HTTP request: its head, and the queue for notifications that its handler sends before the response. Also the
/// peer of a call without a session.
pub(in crate::server) struct HttpRequestInfo {
    head: RequestHead,
    /// Header map and URI, built on demand.
    built: OnceLock<Box<(HeaderMap, Uri)>>,
    /// `true` if headers mirror parts of the body, as in 2026-07-28.
    mirrors_body: bool,
    stream: Option<StreamControl>,
    notifications: NotificationQueue,
}

impl HttpRequestInfo {
    /// Creates the info of a request without event stream and mirrored headers.
    pub(in crate::server) fn new(head: RequestHead) -> Arc<Self> {
        Self::with(head, false, None)
    }

    /// Creates the info of a request with headers that mirror its body.
    pub(in crate::server) fn mirroring(head: RequestHead) -> Arc<Self> {
        Self::with(head, true, None)
    }

    /// Creates the info of a request with an event stream that its calls can control.
    pub(in crate::server) fn streaming(head: RequestHead, stream: StreamControl) -> Arc<Self> {
        Self::with(head, false, Some(stream))
    }

    fn with(head: RequestHead, mirrors_body: bool, stream: Option<StreamControl>) -> Arc<Self> {
        let (built, notifications) = (OnceLock::new(), NotificationQueue::default());
        Arc::new(Self { head, built, mirrors_body, stream, notifications })
    }

    /// The memory that the head takes, about.
    pub(in crate::server) fn head_bytes(&self) -> usize {
        self.head.bytes()
    }

    pub(in crate::server) fn principal(&self) -> Option<&Principal> {
        self.head.principal()
    }

    pub(in crate::server) fn notifications(&self) -> &NotificationQueue {
        &self.notifications
    }

    fn built(&self) -> (&HeaderMap, &Uri) {
        self.head.built().unwrap_or_else(|| {
            let (headers, uri) = &**self
                .built
                .get_or_init(|| Box::new((self.head.headers().into_owned(), self.head.uri().into_owned())));
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
            _ if kind == TypeId::of::<HeaderMap>() => of(Some(self.built().0)),
            _ if kind == TypeId::of::<Uri>() => of(Some(self.built().1)),
            _ if kind == TypeId::of::<Principal>() => of(self.head.guarded_principal()),
            _ if kind == TypeId::of::<Remote>() => Some(&Remote),
            _ if kind == TypeId::of::<PeerAddress>() => of(self.head.peer_ref()),
            _ if kind == TypeId::of::<StreamControl>() => of(self.stream.as_ref()),
            _ => None,
        }
    }

    fn extensions(&self) -> Option<&Extensions> {
        self.head.extensions()
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
            // Arguments that cannot be parsed, such as numbers out of range, cannot be compared.
            Some(Err(error)) => {
                let message = format!("the arguments cannot be compared with the headers that mirror them: {error}");
                return Err(mismatch(message));
            }
            None => serde_json::Value::Null,
        };
        let headers = self.built().0;
        mirrored
            .check(&arguments, |name| HeaderLookup::from_values(headers.get_all(name).iter().map(HeaderValue::to_str)))
            .map_err(|problem| mismatch(problem.to_string()))
    }
}

impl PeerTransport for HttpRequestInfo {
    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        self.notifications.notify(notification)
    }

    fn try_notify(&self, notification: Notification) -> bool {
        self.notifications.try_notify(notification)
    }

    fn request(
        &self,
        method: MethodName,
        params: Option<RawJson>,
        options: RequestOptions,
    ) -> BoxFuture<'_, Result<RawJson, PeerError>> {
        self.notifications.request(method, params, options)
    }
}
