use turms_proto::Notification;

use super::Layer;
use crate::{
    CallContext, CallResult, ErrorOrigin, NotifyFuture, Payload, Request, ResponseFuture, Service, ServiceError,
};

/// Refuses answers that are too big to be sent.
#[derive(Debug, Clone, Copy)]
pub struct ResponseSizeLimit(usize);

impl ResponseSizeLimit {
    /// Bigger than this, in bytes of JSON.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self(bytes)
    }
}

impl<S: Service> Layer<S> for ResponseSizeLimit {
    type Service = ResponseSizeLimitService<S>;

    fn layer(&self, inner: S) -> ResponseSizeLimitService<S> {
        ResponseSizeLimitService { inner, limit: self.0 }
    }
}

/// See [`ResponseSizeLimit`].
#[derive(Debug, Clone)]
pub struct ResponseSizeLimitService<S> {
    inner: S,
    limit: usize,
}

impl<S: Service> Service for ResponseSizeLimitService<S> {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        let (method, limit) = (request.method.clone(), self.limit);
        let call = self.inner.call(request, cx);
        Box::pin(async move { check(call.await?, limit, &method) })
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        self.inner.notify(notification, cx)
    }
}

/// The value stays a value, so that it can still be fitted to the peer; only its size is looked at.
fn check(payload: Payload, limit: usize, method: &str) -> CallResult {
    let size = match payload.as_raw() {
        Some(json) => json.as_str().len(),
        None => {
            let mut out = Vec::new();
            // What cannot be written is somebody else's to report.
            payload.write(&mut out).map(|()| out.len()).unwrap_or_default()
        }
    };
    if size > limit {
        let message = format!("the answer to {method} has {size} bytes, more than the limit of {limit}");
        return Err(ServiceError::internal(ErrorOrigin::Internal, message));
    }
    Ok(payload)
}
