//! Constants and headers of both sides of the handshake (RFC 6455, 4).

use http::header::{HeaderMap, HeaderName};

/// The subprotocol of MCP over WebSocket.
pub(crate) const SUBPROTOCOL: &str = "mcp";

/// The version of the WebSocket protocol.
pub(crate) const VERSION: &str = "13";

/// Iterates over the elements of a list header.
pub(crate) fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

/// Returns `true` if a list header has an element, ignoring case.
pub(crate) fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    tokens(headers, name).any(|own| own.eq_ignore_ascii_case(token))
}
