//! Opening a connection: with the cached revision, or by negotiation.

use std::sync::Arc;

use turms_core::{ConnectContext, ConnectError, OpenChannel};
use turms_proto::revision::newest_common;
use turms_proto::session::{ClientOptions, ConnectionStatus, Dialect, Negotiated, VersionChoice};
use turms_proto::{Ability, ProtocolVersion};

use super::state::{Connected, ServerShared};

/// Opens connection number `generation`, and restores the desired state on it. Credentials for a connection in the background are
/// obtained without the user.
pub(super) async fn open(
    shared: &Arc<ServerShared>,
    generation: u64,
    is_background: bool,
) -> Result<Arc<Connected>, ConnectError> {
    let settings = &shared.settings;
    let identity = shared.connector.identity();
    let ours = settings.choice.versions();
    let known = identity.as_deref().and_then(|server| settings.version_cache.recall(server));
    let known = known.filter(|known| ours.contains(&known.dialect.version()));
    // A stateless server may describe itself differently to each caller, so the cached revision is used only with a
    // cached description, which is shareable.
    let known = known.filter(|known| known.server.is_some() || known.dialect.version().has(Ability::Handshake));
    let established = match &known {
        Some(known) => match connect(shared, Some(known.dialect), is_background).await {
            // The server could not be reached, which says nothing about its revision: keep the cached one.
            Err(
                error @ (ConnectError::Unreachable { .. }
                | ConnectError::Rejected { .. }
                | ConnectError::Unauthorized { .. }),
            ) => Err(error),
            Err(_) if shared.connector.is_repeatable() => {
                shared.forget_version();
                negotiate(shared, is_background).await
            }
            connected => connected,
        },
        None => negotiate(shared, is_background).await,
    }?;
    let opened = established.negotiated.clone();
    // A negotiated revision needs no verification, only a cached one. An in-process service may not describe itself.
    let verified = opened.server.is_some() || known.is_none();
    let remembered = known.filter(|known| known.dialect == opened.dialect).and_then(|known| known.server);
    let negotiated = match (&opened.server, remembered) {
        (None, Some(server)) => Arc::new(Negotiated::new(opened.dialect, Some(server))),
        _ => opened,
    };
    if let Some(server) = identity.filter(|_| verified && is_worth_remembering(settings.choice, &negotiated, &ours)) {
        settings.version_cache.remember(&server, &negotiated);
    }
    shared.incoming.server.set_info(negotiated.server.as_ref().and_then(|server| server.server_info()));
    let metadata = shared.request_metadata(negotiated.dialect);
    let connected = Arc::new(Connected::new(established, negotiated, generation, verified, metadata));
    super::restore::restore(shared, &connected).await;
    Ok(connected)
}

/// Returns `true` if the revision should be cached: it was not chosen by the settings of this client, and it is not an
/// older one that was negotiated only because the server started too slowly for the probe.
fn is_worth_remembering(choice: VersionChoice, negotiated: &Negotiated, ours: &[ProtocolVersion]) -> bool {
    let version = negotiated.dialect.version();
    let free = choice == VersionChoice::Auto || version.is_latest();
    let theirs = negotiated.server.iter().flat_map(|server| &server.supported_versions).map(String::as_str);
    free && newest_common(theirs, ours).is_none_or(|newest| newest == version)
}

/// Connects with negotiation. Some old servers exit when they are probed with `server/discover`; they are started again
/// without the probe.
async fn negotiate(shared: &Arc<ServerShared>, is_background: bool) -> Result<OpenChannel, ConnectError> {
    let has = |ability| shared.settings.choice.versions().iter().any(|version| version.has(ability));
    let may_fall_back = has(Ability::Stateless) && has(Ability::Handshake) && shared.connector.is_repeatable();
    match connect(shared, None, is_background).await {
        Err(ConnectError::Closed(ended)) if may_fall_back => {
            tracing::debug!(target: "turms::client", %ended, "the server ended when it was probed; starting it again");
            connect(shared, Some(Dialect::Handshake(ProtocolVersion::LATEST_WITH_HANDSHAKE)), is_background).await
        }
        connected => connected,
    }
}

async fn connect(
    shared: &Arc<ServerShared>,
    known: Option<Dialect>,
    is_background: bool,
) -> Result<OpenChannel, ConnectError> {
    let settings = &shared.settings;
    let mut options = ClientOptions::new(settings.info.clone(), settings.capabilities.clone())
        .choice(settings.choice)
        .probe_timeout(settings.probe_timeout);
    options.handshake_timeout = settings.handshake_timeout;
    options.known = known;
    let state = Arc::downgrade(shared);
    let cx = ConnectContext::new(options, shared.incoming.clone()).on_initializing(move || {
        if let Some(shared) = state.upgrade() {
            shared.set_connecting(ConnectionStatus::Initializing);
        }
    });
    shared.connector.connect(cx.pauses(shared.pauses.clone()).background(is_background)).await
}
