//! The one path from a transport to a service.

use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, ready};

use turms_proto::jsonrpc::encode;
use turms_proto::{EncodeError, MethodName, Notification, ProtocolVersion, RequestId};

use crate::context::CallContext;
use crate::panic_guard::PanicGuard;
use crate::payload::Payload;
use crate::service::{CallResult, NotifyFuture, Request, ResponseFuture, Service};
use crate::service_error::{ErrorOrigin, ServiceError};

/// Calls a service for a peer. The result is lowered to the peer's revision, and a panic becomes an error.
///
/// Every transport calls services through this function and [`dispatch_notification`]. A transport supplies the context, with the
/// peer that the handler can notify, and writes the result by [`write_response`].
pub fn dispatch(service: &dyn Service, request: Request, cx: CallContext) -> Dispatch {
    let (method, lower_to) = (request.method.clone(), Some(cx.version()));
    Dispatch { call: PanicGuard::new(|| service.call(request, cx)), method, lower_to }
}

/// As [`dispatch`], for a caller in this process that takes results of the newest revision as they are.
pub fn dispatch_in_process(service: &dyn Service, request: Request, cx: CallContext) -> Dispatch {
    Dispatch { lower_to: None, ..dispatch(service, request, cx) }
}

/// Passes a notification of a peer to a service. A panic of the handler is caught.
pub async fn dispatch_notification(service: &dyn Service, notification: Notification, cx: CallContext) {
    // The router logs panics, with the name of the method.
    let _ = notification_guard(service, notification, cx).await;
}

/// As [`dispatch_notification`], as a future that does not borrow the service.
pub fn notification_guard(
    service: &dyn Service,
    notification: Notification,
    cx: CallContext,
) -> PanicGuard<NotifyFuture> {
    PanicGuard::new(|| service.notify(notification, cx))
}

/// The future of a call, returned by [`dispatch`].
#[must_use = "futures do nothing unless polled"]
pub struct Dispatch {
    call: PanicGuard<ResponseFuture>,
    method: MethodName,
    /// The revision of the peer; `None` if it takes results as they are.
    lower_to: Option<ProtocolVersion>,
}

impl Future for Dispatch {
    type Output = CallResult;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<CallResult> {
        let result =
            ready!(Pin::new(&mut self.call).poll(task)).unwrap_or_else(|panicked| Err(panicked.into_service_error()));
        let Some(version) = self.lower_to else { return Poll::Ready(result) };
        Poll::Ready(match result {
            Ok(mut payload) => match payload.lower_result(&self.method, version) {
                Ok(()) => Ok(payload),
                Err(problem) => {
                    let message = format!("{}: invalid result: {problem}", self.method);
                    Err(ServiceError::internal(ErrorOrigin::Internal, message))
                }
            },
            Err(mut error) => {
                error.lower(version);
                Err(error)
            }
        })
    }
}

impl std::fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatch").field("method", &self.method).finish_non_exhaustive()
    }
}

/// Appends a response to a buffer. A result that cannot be encoded as JSON becomes an error.
pub fn write_response(out: &mut Vec<u8>, id: &RequestId, result: CallResult) {
    let written = result.and_then(|payload| {
        encode::success_with(out, id, |out| payload.write(out)).map_err(|error| encode_failure(&error))
    });
    if let Err(error) = written {
        encode::failure(out, Some(id), &error);
    }
}

/// Encodes a response. The buffer is allocated once if the size is known.
#[must_use]
pub fn encode_response(id: &RequestId, result: CallResult) -> Vec<u8> {
    let size = result.as_ref().map_or(0, Payload::size_hint);
    let mut out = Vec::with_capacity(size + 256);
    write_response(&mut out, id, result);
    out
}

/// The error for a result that cannot be encoded as JSON.
pub(crate) fn encode_failure(error: &EncodeError) -> ServiceError {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    ServiceError::internal(ErrorOrigin::Internal, format!("cannot encode the result as JSON: {cause}"))
}
