use std::sync::Arc;

use tokio::sync::Semaphore;
use turms_proto::Notification;
use turms_proto::method::Method as _;
use turms_proto::types::Listen;

use super::Layer;
use crate::{CallContext, ErrorOrigin, NotifyFuture, Request, ResponseFuture, Service, ServiceError};

/// Lets only so many calls run at once; the others wait for their turn.
#[derive(Debug, Clone, Copy)]
pub struct ConcurrencyLimit(usize);

impl ConcurrencyLimit {
    /// So many.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(limit)
    }
}

impl<S: Service> Layer<S> for ConcurrencyLimit {
    type Service = ConcurrencyLimitService<S>;

    fn layer(&self, inner: S) -> ConcurrencyLimitService<S> {
        ConcurrencyLimitService { inner: Arc::new(inner), turns: Arc::new(Semaphore::new(self.0)) }
    }
}

/// See [`ConcurrencyLimit`].
#[derive(Debug)]
pub struct ConcurrencyLimitService<S> {
    inner: Arc<S>,
    turns: Arc<Semaphore>,
}

impl<S: Service> Service for ConcurrencyLimitService<S> {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        // A subscription lasts by design.
        if &*request.method == Listen::NAME {
            return self.inner.call(request, cx);
        }
        let (inner, turns) = (self.inner.clone(), self.turns.clone());
        Box::pin(async move {
            let turn = turns.acquire_owned().await;
            let _turn = turn.map_err(|_| ServiceError::internal(ErrorOrigin::Overloaded, "no more calls are taken"))?;
            inner.call(request, cx).await
        })
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        self.inner.notify(notification, cx)
    }
}
