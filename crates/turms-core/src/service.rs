use std::sync::Arc;

use turms_proto::method::Method;
use turms_proto::{MethodName, Notification};

use crate::context::CallContext;
use crate::payload::Payload;
use crate::peer::BoxFuture;
use crate::service_error::ServiceError;

/// A request to a service.
#[derive(Debug)]
#[non_exhaustive]
pub struct Request {
    /// The method.
    pub method: MethodName,
    /// The parameters.
    pub params: Payload,
}

impl Request {
    /// Creates a request of a typed method. The parameters are not encoded.
    #[must_use]
    pub fn new<M: Method>(params: M::Params) -> Self {
        Self { method: MethodName::from_static(M::NAME), params: Payload::new(params) }
    }

    /// Creates a request with any method name.
    pub fn raw(method: impl Into<MethodName>, params: impl Into<Payload>) -> Self {
        Self { method: method.into(), params: params.into() }
    }
}

/// Keeps the parameters as they are; missing ones become an empty object.
impl From<turms_proto::Request> for Request {
    fn from(request: turms_proto::Request) -> Self {
        let params = request.params.map_or_else(Payload::default, Payload::json);
        Self { method: request.method, params }
    }
}

/// Responds to requests and handles notifications. Routers, layers and clients are services.
///
/// Transports catch panics and translate results, so a service need not. The revisions and limits of a server are part of its
/// [`Endpoint`](crate::Endpoint), so a layer has only these two methods to forward.
///
/// ```
/// # mod turms { pub use turms_core as layer; pub use turms_proto as jsonrpc; pub use turms_proto as types; }
/// use turms::jsonrpc::Notification;
/// use turms::layer::{CallContext, NotifyFuture, Payload, Request, ResponseFuture, Service};
/// use turms::types::RawJson;
///
/// /// Responds to every request with its method.
/// struct Echo;
///
/// impl Service for Echo {
///     fn call(&self, request: Request, _: CallContext) -> ResponseFuture {
///         Box::pin(async move { Ok(Payload::json(RawJson::string(&request.method))) })
///     }
///
///     fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
///         Box::pin(async {})
///     }
/// }
/// ```
pub trait Service: Send + Sync + 'static {
    /// Calls a method.
    ///
    /// Nothing happens before the future is polled. Dropping it cancels the call. The future does not borrow the
    /// service, so that a transport can move a long call into its own task.
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture;

    /// Handles a notification. As with [`Service::call`], nothing happens before the future is polled.
    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture;
}

/// The result of a call.
pub type CallResult = Result<Payload, ServiceError>;

/// The future returned by [`Service::call`].
pub type ResponseFuture = BoxFuture<'static, CallResult>;

/// The future returned by [`Service::notify`].
pub type NotifyFuture = BoxFuture<'static, ()>;

impl<S: Service + ?Sized> Service for Arc<S> {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        (**self).call(request, cx)
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        (**self).notify(notification, cx)
    }
}
