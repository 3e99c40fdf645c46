//! Requests of 2026-07-28, each of which is self-contained.

mod call_stream;
mod legacy;
mod notification_queue;

use std::future::pending;
use std::sync::Arc;

use http::StatusCode;
use turms_core::__internal::{dispatch, dispatch_notification, encode_response};
use turms_core::{CallContext, CallResult, ErrorOrigin, Payload, Peer, Request, ServiceError};
use turms_proto::header::{HeaderLookup, HeaderMismatch, check_method, check_name, check_version, name_member};
use turms_proto::method::Method;
use turms_proto::revision::tag_subscription;
use turms_proto::session::{Dialect, VersionClaim};
use turms_proto::types::{Listen, Meta, SubscriptionsListenResult};
use turms_proto::{ErrorCode, ErrorObject, Incoming, Message, ProtocolVersion, RawJson, RequestId};

use self::call_stream::{CallStream, FirstOutput, first_output};
pub(super) use self::notification_queue::NotificationQueue;
use super::HttpState;
use super::request::context::HttpRequestInfo;
use super::request::headers::McpHeaders;
use super::response::{self, HttpBody, HttpResponse};

/// Returns the protocol version claim of a request, and the name that its headers mirror. Found in one pass.
pub(super) fn claim_of(request: &turms_proto::Request) -> Option<(Result<VersionClaim, ErrorObject>, Option<RawJson>)> {
    let name = name_member(&request.method).unwrap_or("name");
    let [meta, name] = request.params.as_ref()?.members(["_meta", name]);
    Some((VersionClaim::in_meta(&meta?)?, name))
}

/// Checks a request against its headers and returns its revision (basic/transports, "Streamable HTTP"). The checks are
/// in the order that the conformance suite expects.
pub(super) fn admit(
    request: &turms_proto::Request,
    claim: Result<VersionClaim, ErrorObject>,
    name: Option<&RawJson>,
    head: &McpHeaders<'_>,
    versions: &[ProtocolVersion],
) -> Result<ProtocolVersion, ErrorObject> {
    if head.version == HeaderLookup::Absent {
        check_version(head.version, "").map_err(mismatch)?;
    }
    let claim = claim?;
    check_version(head.version, claim.version()).map_err(mismatch)?;
    claim.supported(versions)?;
    check_method(head.method, &request.method).map_err(mismatch)?;
    let name = name.and_then(RawJson::text);
    check_name(head.name, &request.method, name.as_deref()).map_err(mismatch)?;
    claim.admit(request, versions)
}

#[expect(clippy::needless_pass_by_value, reason = "used to map errors")]
fn mismatch(mismatch: HeaderMismatch) -> ErrorObject {
    ErrorObject::new(ErrorCode::HEADER_MISMATCH, mismatch.to_string())
}

impl HttpState {
    /// Runs a call without a session inside the future of its HTTP request.
    pub(super) async fn call(
        &self,
        request: turms_proto::Request,
        dialect: Dialect,
        meta: Option<Meta>,
        info: Arc<HttpRequestInfo>,
        status: fn(&ServiceError) -> StatusCode,
    ) -> HttpResponse {
        let (id, is_subscription) = (request.id.clone(), &*request.method == Listen::NAME);
        let cx = CallContext::new(dialect, Peer::shared(info.clone())).with_id(id.clone()).with_meta(meta);
        let cx = cx.with_request_info(info.clone());
        let call = dispatch(&**self.endpoint.service(), Request::from(request), cx);
        // What a handler leaves behind learns that the call is over, also if the call is dropped.
        let open = CloseOnDrop(Some(info.clone()));
        match first_output(call, info.notifications()).await {
            FirstOutput::Response(result) => self.respond(&id, result, status, &info),
            FirstOutput::Notification(call) => match self.state.streams.take(self.options.max_streams) {
                Some(permit) => {
                    open.keep();
                    let end = || self.stream_end(info.principal(), true).unwrap_or_else(|| Box::pin(pending()));
                    let ending = is_subscription.then(|| (end(), Ok(listen_result(&id))));
                    let finish = move |result| encode_response(&id, result);
                    let call = CallStream::new(call, info, self.options.keep_alive, permit, finish);
                    response::events(call.until(ending))
                }
                None if is_subscription => {
                    response::overloaded(StatusCode::SERVICE_UNAVAILABLE, Some(&id), "too many streams are open")
                }
                // The call runs already: it is answered without its notifications.
                None => {
                    drop(open);
                    tracing::debug!("notifications of a call are dropped: too many streams are open");
                    self.respond(&id, call.finish().await, status, &info)
                }
            },
        }
    }

    /// Handles a notification. The core protocol has none over HTTP in this revision, but applications may.
    pub(super) async fn notify(&self, incoming: Incoming, info: Arc<HttpRequestInfo>) -> HttpResponse {
        let Incoming::One(Message::Notification(notification)) = incoming else {
            return response::empty(StatusCode::BAD_REQUEST);
        };
        let cx = CallContext::new(Dialect::Stateless(ProtocolVersion::LATEST), Peer::disconnected())
            .with_meta(Meta::of_params(notification.params.as_ref()));
        let cx = cx.with_request_info(info.clone());
        dispatch_notification(&**self.endpoint.service(), notification, cx).await;
        response::empty(StatusCode::ACCEPTED)
    }
}

impl HttpState {
    /// Returns the JSON response of a call.
    fn respond(
        &self,
        id: &RequestId,
        result: CallResult,
        status: fn(&ServiceError) -> StatusCode,
        info: &HttpRequestInfo,
    ) -> HttpResponse {
        let mut response = match &result {
            Ok(_) => response::empty(StatusCode::OK),
            Err(error) if error.origin() == ErrorOrigin::Forbidden => {
                self.forbidden(info.principal(), error.required_scopes())
            }
            Err(error) => {
                let mut response = response::empty(status(error));
                if let Some(seconds) = retry_after(error).filter(|_| response.status() != StatusCode::OK) {
                    response.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
                }
                response
            }
        };
        *response.body_mut() = HttpBody::json(encode_response(id, result));
        response
    }
}

/// Closes the queue of a call that is dropped before its response.
struct CloseOnDrop(Option<Arc<HttpRequestInfo>>);

impl CloseOnDrop {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        if let Some(info) = &self.0 {
            info.notifications().close();
        }
    }
}

/// Returns the result of a listen request that the server ends (basic/patterns/subscriptions of 2026-07-28).
fn listen_result(id: &RequestId) -> Payload {
    let meta = Meta::of_params(Some(&tag_subscription(None, id)));
    Payload::new(SubscriptionsListenResult::new().meta(meta.unwrap_or_default()))
}

/// Returns the HTTP status for an error of 2026-07-28, by its origin. A rejected request has an error status. An error
/// that a handler returns is an ordinary response.
pub(super) fn status_of_error(error: &ServiceError) -> StatusCode {
    match error.origin() {
        ErrorOrigin::Params => StatusCode::BAD_REQUEST,
        ErrorOrigin::MethodNotFound => StatusCode::NOT_FOUND,
        ErrorOrigin::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        ErrorOrigin::Overloaded | ErrorOrigin::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorOrigin::TimedOut => StatusCode::GATEWAY_TIMEOUT,
        ErrorOrigin::Panic | ErrorOrigin::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        _ => response::status_of(error),
    }
}

/// Returns the delay in seconds before a retry, if the error has one.
fn retry_after(error: &ServiceError) -> Option<u64> {
    let wait: u64 = error.data.as_ref()?.member("retryAfterMs")?.decode().ok()?;
    Some(wait.div_ceil(1000))
}
