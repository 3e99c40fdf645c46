//! Requests of 2026-07-28: each says everything for itself.

use http::StatusCode;
use turms_core::{
    BoxFuture, CallContext, ErrorOrigin, Guarded, GuardedNotify, Payload, Peer, Request, ServiceError, lower_outcome,
    written_outcome,
};
use turms_proto::header::{HeaderLookup, HeaderMismatch, check_method, check_name, check_version, name_member};
use turms_proto::method::Method;
use turms_proto::revision::tag_subscription;
use turms_proto::session::{Claim, Dialect};
use turms_proto::types::{Listen, ListenResult, Meta};
use turms_proto::{ErrorCode, ErrorObject, Incoming, Message, ProtocolVersion, RawJson, RequestId};

use super::HttpService;
use super::request::context::HttpSource;
use super::request::headers::McpHeaders;
use super::response::{self, Answer};
use super::single::{First, SingleCall, first};

/// What a request says of itself, and the name that its headers repeat, found in one pass.
pub(super) fn claim_of(request: &turms_proto::Request) -> Option<(Result<Claim, ErrorObject>, Option<RawJson>)> {
    let name = name_member(&request.method).unwrap_or("name");
    let [meta, name] = request.params.as_ref()?.members(["_meta", name]);
    Some((Claim::in_meta(&meta?)?, name))
}

/// Whether a request is let in, and as which revision (basic/transports, "Streamable HTTP"): the checks in the order in
/// which the conformance suite expects them.
pub(super) fn admit(
    request: &turms_proto::Request,
    claim: Result<Claim, ErrorObject>,
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

impl HttpService {
    /// Answers a request that stands alone, inside its own future.
    pub(super) async fn answer_alone(
        &self,
        request: turms_proto::Request,
        dialect: Dialect,
        meta: Option<Meta>,
        source: &HttpSource,
        status: fn(&ServiceError) -> StatusCode,
    ) -> Answer {
        let turms_proto::Request { id, method, params, .. } = request;
        let asked = source.known();
        let cx = CallContext::new(dialect, Peer::shared(asked.clone())).with_id(id.clone()).with_meta(meta);
        let cx = source.surround(cx);
        let payload = params.map_or_else(Payload::default, Payload::json);
        let call = Guarded::call(|| self.service.call(Request::raw(method.clone(), payload), cx));
        let version = dialect.version();
        match first(call, asked.voice()).await {
            First::Answer(outcome) => {
                asked.voice().leave();
                let outcome = lower_outcome(outcome, &method, version);
                let status = outcome.as_ref().err().map_or(StatusCode::OK, status);
                response::json(status, written_outcome(&id, outcome))
            }
            First::Word(call) => match self.state.streams.take(self.options.max_streams) {
                Some(permit) => {
                    let ending = (*method == *Listen::NAME)
                        .then(|| (Box::pin(self.closing()) as BoxFuture<'static, ()>, Ok(end_of_listening(&id))));
                    let finish = move |outcome| written_outcome(&id, lower_outcome(outcome, &method, version));
                    let call = SingleCall::new(call, asked, self.options.keep_alive, permit, finish);
                    response::events(call.until(ending))
                }
                None => {
                    asked.voice().leave();
                    response::overloaded(StatusCode::SERVICE_UNAVAILABLE, Some(&id), "too many streams are open")
                }
            },
        }
    }

    /// The core protocol has no notifications over HTTP in this revision, but applications may.
    pub(super) async fn hear_stateless(&self, incoming: Incoming, source: HttpSource) -> Answer {
        let Incoming::One(Message::Notification(notification)) = incoming else {
            return response::empty(StatusCode::BAD_REQUEST);
        };
        let cx = CallContext::new(Dialect::Stateless(ProtocolVersion::LATEST), Peer::nobody())
            .with_meta(Meta::of_params(notification.params.as_ref()));
        let cx = source.surround(cx);
        GuardedNotify::new(|| self.service.notify(notification.method, notification.params, cx)).await;
        response::empty(StatusCode::ACCEPTED)
    }
}

/// The answer to a listen request that the server ends (basic/patterns/subscriptions of 2026-07-28).
fn end_of_listening(id: &RequestId) -> Payload {
    let meta = Meta::of_params(Some(&tag_subscription(None, id)));
    Payload::new(ListenResult::new().meta(meta.unwrap_or_default()))
}

/// Parameters that cannot be read are a bad request; an error of a handler is an ordinary response.
pub(super) fn status_of_answer(error: &ServiceError) -> StatusCode {
    match error.origin() {
        ErrorOrigin::Params => StatusCode::BAD_REQUEST,
        _ => response::status_of(error),
    }
}
