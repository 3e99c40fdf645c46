use std::time::Duration;

use turms_proto::method::Method as _;
use turms_proto::types::Listen;
use turms_proto::{Notification, format_duration};

use super::Layer;
use crate::{CallContext, ErrorOrigin, NotifyFuture, Request, ResponseFuture, Service, ServiceError};

/// Limits the duration of calls. A longer one is cancelled and becomes an error.
#[doc(alias = "deadline")]
#[doc(alias = "max_total_timeout")]
#[derive(Debug, Clone, Copy)]
pub struct TimeoutLayer(Duration);

impl TimeoutLayer {
    /// Creates a layer with a timeout.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self(limit)
    }
}

impl<S: Service> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, inner: S) -> Timeout<S> {
        Timeout { inner, limit: self.0 }
    }
}

/// Service with a timeout for calls, made by a [`TimeoutLayer`].
#[derive(Debug, Clone)]
pub struct Timeout<S> {
    inner: S,
    limit: Duration,
}

impl<S: Service> Service for Timeout<S> {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        // A subscription is long-lived.
        if &*request.method == Listen::NAME {
            return self.inner.call(request, cx);
        }
        let (method, limit) = (request.method.clone(), self.limit);
        let call = self.inner.call(request, cx);
        Box::pin(async move {
            match tokio::time::timeout(limit, call).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    let message = format!("{method}: no response within {}", format_duration(limit));
                    Err(ServiceError::internal(ErrorOrigin::TimedOut, message))
                }
            }
        })
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        self.inner.notify(notification, cx)
    }
}
