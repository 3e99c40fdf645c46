//! Verification of a remembered protocol revision by the first response.

use turms_core::{CloseInfo, OutgoingRequest, Payload, PeerError};
use turms_proto::method::Method as _;
use turms_proto::session::RequestOptions;
use turms_proto::types::{Discover, DiscoverResult, EmptyParams};
use turms_proto::{Ability, ErrorCode, MethodName};

use super::state::{Connected, ServerShared};
use crate::call::CallRequest;
use crate::call::error::{CallError, CallErrorKind};

/// Verifies the revision by a response. Some older servers respond without a handshake, but without a `resultType`.
pub(super) async fn response(shared: &ServerShared, connected: &Connected, payload: &Payload) {
    let typed = connected.version().has(Ability::ResultType);
    if !typed || payload.as_raw().is_none_or(|raw| raw.member("resultType").is_some()) {
        connected.set_verified();
    } else {
        probe(shared, connected).await;
    }
}

/// Returns `true` for an error that a wrong revision may have caused.
pub(super) fn is_doubtful(error: &CallError) -> bool {
    error.error_response().is_some() || error.is_timeout() || matches!(error.kind(), CallErrorKind::Decode(_))
}

/// Verifies the revision after a call has failed.
pub(super) async fn failure(shared: &ServerShared, connected: &Connected, call: &CallRequest) {
    if !connected.is_verified() && &*call.method != Discover::NAME {
        probe(shared, connected).await;
    }
}

async fn probe(shared: &ServerShared, connected: &Connected) {
    let options = RequestOptions::default().timeout(shared.settings.probe_timeout);
    let probe = OutgoingRequest::new(MethodName::from_static(Discover::NAME), Payload::new(EmptyParams::new()));
    let response = connected.channel.call_in_time(probe.meta(connected.metadata()).options(options)).await;
    // A failure of the transport or of the server says nothing about the revision. Silence does so on a pipe, not over HTTP.
    let undecided = match &response {
        Err(PeerError::ErrorResponse(error)) => !is_of_older_server(error.code),
        Err(PeerError::Unreachable { .. } | PeerError::Unauthorized(_)) => true,
        Err(PeerError::TimedOut(_)) => !connected.control.info().is_ordered,
        _ => false,
    };
    if undecided {
        return;
    }
    if response.ok().and_then(|found| found.take::<DiscoverResult>().ok()).is_none() {
        shared.forget_version();
        connected.set_wrong_version();
        shared.mark_lost(connected, CloseInfo::new().how("changed its protocol version")).await;
    }
    connected.set_verified();
}

/// Returns `true` if servers that do not know `server/discover` respond with this code.
fn is_of_older_server(code: ErrorCode) -> bool {
    const SERVER_ERROR: ErrorCode = ErrorCode(-32000);
    let not_understood = [
        ErrorCode::PARSE_ERROR,
        ErrorCode::INVALID_REQUEST,
        ErrorCode::METHOD_NOT_FOUND,
        ErrorCode::UNSUPPORTED_VERSION,
    ];
    let not_initialized = [ErrorCode::INVALID_PARAMS, ErrorCode::RESOURCE_NOT_FOUND, SERVER_ERROR];
    not_understood.contains(&code) || not_initialized.contains(&code)
}
