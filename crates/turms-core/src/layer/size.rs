use turms_proto::Notification;

use super::Layer;
use crate::{
    CallContext, CallResult, ErrorOrigin, NotifyFuture, Payload, Request, ResponseFuture, Service, ServiceError,
};

/// Limits the size of responses. A larger one becomes an error.
#[derive(Debug, Clone, Copy)]
pub struct ResponseSizeLimitLayer(usize);

impl ResponseSizeLimitLayer {
    /// Creates a layer with a maximum number of bytes of JSON.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self(bytes)
    }
}

impl<S: Service> Layer<S> for ResponseSizeLimitLayer {
    type Service = ResponseSizeLimit<S>;

    fn layer(&self, inner: S) -> ResponseSizeLimit<S> {
        ResponseSizeLimit { inner, limit: self.0 }
    }
}

/// Service with a maximum size of responses, made by a [`ResponseSizeLimitLayer`].
#[derive(Debug, Clone)]
pub struct ResponseSizeLimit<S> {
    inner: S,
    limit: usize,
}

impl<S: Service> Service for ResponseSizeLimit<S> {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        let (method, limit) = (request.method.clone(), self.limit);
        let call = self.inner.call(request, cx);
        Box::pin(async move { check_size(call.await?, limit, &method) })
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        self.inner.notify(notification, cx)
    }
}

/// Checks the size. The payload stays typed, so that it can still be lowered to the peer's revision.
fn check_size(payload: Payload, limit: usize, method: &str) -> CallResult {
    let size = match payload.as_raw() {
        Some(json) => json.as_str().len(),
        None => {
            let mut out = Vec::new();
            // A payload that cannot be encoded is reported by `dispatch`.
            payload.write(&mut out).map(|()| out.len()).unwrap_or_default()
        }
    };
    if size > limit {
        let message = format!("{method}: the response has {size} bytes, more than the limit of {limit}");
        return Err(ServiceError::internal(ErrorOrigin::Internal, message));
    }
    Ok(payload)
}
