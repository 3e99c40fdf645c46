use std::sync::Arc;

use tokio::sync::Semaphore;
use turms_proto::Notification;
use turms_proto::method::Method as _;
use turms_proto::types::Listen;

use super::Layer;
use crate::{CallContext, ErrorOrigin, NotifyFuture, Request, ResponseFuture, Service, ServiceError};

/// Limits the number of concurrent calls. More calls wait.
#[derive(Debug, Clone, Copy)]
pub struct ConcurrencyLimitLayer(usize);

impl ConcurrencyLimitLayer {
    /// Creates a layer with a maximum number of concurrent calls.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(limit)
    }
}

impl<S: Service> Layer<S> for ConcurrencyLimitLayer {
    type Service = ConcurrencyLimit<S>;

    fn layer(&self, inner: S) -> ConcurrencyLimit<S> {
        ConcurrencyLimit { inner: Arc::new(inner), permits: Arc::new(Semaphore::new(self.0)) }
    }
}

/// Service with a maximum number of concurrent calls, made by a [`ConcurrencyLimitLayer`].
#[derive(Debug)]
pub struct ConcurrencyLimit<S> {
    inner: Arc<S>,
    permits: Arc<Semaphore>,
}

impl<S: Service> Service for ConcurrencyLimit<S> {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        // A subscription is long-lived.
        if &*request.method == Listen::NAME {
            return self.inner.call(request, cx);
        }
        let (inner, permits) = (self.inner.clone(), self.permits.clone());
        Box::pin(async move {
            let permit = permits.acquire_owned().await;
            let closed = |_| ServiceError::internal(ErrorOrigin::Overloaded, "no more calls are accepted");
            let _permit = permit.map_err(closed)?;
            inner.call(request, cx).await
        })
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        self.inner.notify(notification, cx)
    }
}
