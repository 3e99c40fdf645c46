use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use turms_proto::{ErrorObject, Notification};

use super::Layer;
use crate::{
    CallContext, CallResult, ErrorOrigin, NotifyFuture, Payload, Request, ResponseFuture, Service, ServiceError,
};

/// A call, as the request of a `tower` service.
#[derive(Debug)]
#[non_exhaustive]
pub struct Call {
    /// The request.
    pub request: Request,
    /// The context of the call.
    pub context: CallContext,
}

/// Converts a `tower` layer to a layer around a [`Service`].
///
/// ```
/// # use turms_core as turms;
/// use turms::layer;
///
/// # struct Identity;
/// # impl<S> layer::Layer<S> for Identity { type Service = S; fn layer(&self, inner: S) -> S { inner } }
/// let layer = layer::from_tower(Identity);
/// # let _ = layer;
/// ```
pub fn from_tower<L>(layer: L) -> FromTowerLayer<L> {
    FromTowerLayer(layer)
}

/// The layer of [`from_tower`].
#[derive(Debug, Clone, Copy)]
pub struct FromTowerLayer<L>(L);

impl<S, L> Layer<S> for FromTowerLayer<L>
where
    S: Service + Clone,
    L: Layer<ToTower<S>>,
{
    type Service = FromTower<L::Service>;

    fn layer(&self, inner: S) -> FromTower<L::Service> {
        FromTower { inner: Arc::new(inner.clone()), service: self.0.layer(ToTower(inner)) }
    }
}

/// A [`Service`] as a `tower` service that is always ready.
#[derive(Debug, Clone)]
pub struct ToTower<S>(S);

impl<S: Service> tower_service::Service<Call> for ToTower<S> {
    type Response = Payload;
    type Error = BoxError;
    type Future = ToTowerFuture;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> ToTowerFuture {
        ToTowerFuture(self.0.call(call.request, call.context))
    }
}

type BoxError = Box<dyn Error + Send + Sync>;

/// The future of a [`ToTower`].
#[must_use = "futures do nothing unless polled"]
pub struct ToTowerFuture(ResponseFuture);

impl Future for ToTowerFuture {
    type Output = Result<Payload, BoxError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(task).map_err(BoxError::from)
    }
}

impl fmt::Debug for ToTowerFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToTowerFuture")
    }
}

/// A `tower` service as a [`Service`]. A [`ServiceError`] or an [`ErrorObject`] is returned as it is; another error becomes an internal
/// error.
///
/// `tower` middleware sees requests only; notifications go directly to the inner service.
#[derive(Clone)]
pub struct FromTower<T> {
    service: T,
    inner: Arc<dyn Service>,
}

impl<T> fmt::Debug for FromTower<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FromTower")
    }
}

impl<T> Service for FromTower<T>
where
    T: tower_service::Service<Call, Response = Payload> + Clone + Send + Sync + 'static,
    T::Error: Into<BoxError>,
    T::Future: Send,
{
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        let mut service = self.service.clone();
        Box::pin(async move {
            poll_fn(|task| service.poll_ready(task)).await.map_err(|error| to_service_error(error.into()))?;
            let called = service.call(Call { request, context: cx }).await;
            to_call_result(called)
        })
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        self.inner.notify(notification, cx)
    }
}

fn to_call_result<E: Into<BoxError>>(called: Result<Payload, E>) -> CallResult {
    called.map_err(|error| to_service_error(error.into()))
}

fn to_service_error(error: BoxError) -> ServiceError {
    let error = match error.downcast::<ServiceError>() {
        Ok(error) => return *error,
        Err(error) => error,
    };
    match error.downcast::<ErrorObject>() {
        Ok(error) => (*error).into(),
        Err(error) => ServiceError::internal(ErrorOrigin::Handler, error.to_string()),
    }
}
