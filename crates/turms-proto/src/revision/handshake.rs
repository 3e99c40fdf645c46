//! Translation between the handshake and request metadata.

use super::{Ability, ProtocolVersion, Translate};
use crate::types::{DiscoverResult, InitializeParams, InitializeResult, Meta, RequestMeta, SetLevelParams, key};

/// Creates the request metadata that is equivalent to a handshake.
#[must_use]
pub fn meta_of_initialize(params: &InitializeParams, version: ProtocolVersion) -> RequestMeta {
    RequestMeta::new()
        .protocol_version(version.as_str())
        .client_capabilities(params.capabilities.clone())
        .client_info(params.client_info.clone())
}

/// Creates the handshake parameters that are equivalent to request metadata.
#[must_use]
pub fn initialize_of_meta(meta: &RequestMeta, version: ProtocolVersion) -> InitializeParams {
    let unnamed = || crate::types::Implementation::new("unknown", "0");
    let capabilities = meta.client_capabilities.clone().unwrap_or_default();
    let mut params =
        InitializeParams::new(version.as_str(), capabilities, meta.client_info.clone().unwrap_or_else(unnamed));
    params.lower(version);
    params
}

/// Creates the `logging/setLevel` parameters for the log level in request metadata.
#[must_use]
pub fn set_level_of_meta(meta: &RequestMeta) -> Option<SetLevelParams> {
    meta.log_level.map(SetLevelParams::new)
}

/// Converts the result of `initialize` to the result of `server/discover`.
#[must_use]
pub fn discover_of_initialize(result: InitializeResult) -> DiscoverResult {
    let mut meta = result.meta.unwrap_or_default();
    meta.set(key::SERVER_INFO, &result.server_info);
    let mut discovered = DiscoverResult::new([result.protocol_version], result.capabilities).meta(meta);
    discovered.instructions = result.instructions;
    discovered.extra = result.extra;
    discovered
}

/// Converts the result of `server/discover` to the result of `initialize` in the negotiated revision.
#[must_use]
pub fn initialize_of_discover(discovered: DiscoverResult, version: ProtocolVersion) -> InitializeResult {
    debug_assert!(version.has(Ability::Handshake));
    let mut meta = discovered.meta.unwrap_or_default();
    let unnamed = || crate::types::Implementation::new("unknown", "0");
    let server = meta.server_info().ok().flatten().unwrap_or_else(unnamed);
    meta.lower(version);
    let mut result = InitializeResult::new(version.as_str(), discovered.capabilities, server);
    result.meta = Some(meta).filter(|meta: &Meta| !meta.is_empty());
    result.instructions = discovered.instructions;
    result.extra = discovered.extra;
    result.lower(version);
    result
}
