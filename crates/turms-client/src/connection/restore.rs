//! Restores the desired state on a new connection: the log level and the resource subscriptions. Listen streams
//! (2026-07-28) are opened again by their own tasks.

use futures_util::future::join_all;
use std::time::Duration;
use turms_core::{OutgoingRequest, Payload};
use turms_proto::method::Method;
use turms_proto::session::RequestOptions;
use turms_proto::types::{ResourceParams, SetLevel, SetLevelParams, Subscribe};
use turms_proto::{Ability, MethodName};

use super::state::{Connected, ServerShared};

/// Timeout for each restored subscription and for the log level.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(10);

/// Restores the desired state on a new connection, before any call is sent on it.
pub(super) async fn restore(shared: &ServerShared, connected: &Connected) {
    shared.incoming.forget_all();
    let version = connected.version();
    let logs = connected.server().is_none_or(|server| server.capabilities.logging.is_some());
    if let Some(level) = shared.desired.log_level().filter(|_| logs && version.has(Ability::SessionLogLevel)) {
        request::<SetLevel>(connected, SetLevelParams::new(level)).await;
    }
    if !version.has(Ability::ListenStreams) {
        let watched = shared.desired.watched().into_iter();
        join_all(watched.map(|uri| request::<Subscribe>(connected, ResourceParams::new(uri)))).await;
    }
}

async fn request<M: Method>(connected: &Connected, params: M::Params) {
    let options = RequestOptions::default().timeout(RESTORE_TIMEOUT);
    let request =
        OutgoingRequest::new(MethodName::from_static(M::NAME), Payload::new(params)).options(options).background();
    if let Err(error) = connected.channel.call_in_time(request).await {
        tracing::warn!(target: "turms::client", method = M::NAME, %error, "could not be restored after reconnecting");
    }
}
