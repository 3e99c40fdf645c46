//! The HTTP headers of MCP.
//!
//! Since 2026-07-28, a client mirrors parts of the request body in headers, so that intermediaries can route and
//! rate-limit without parsing bodies. The server verifies that both match (SEP-2243, as revised on the transports page
//! of that revision). This module has the names, values and rules. It does not depend on an HTTP library.

mod annotation;
mod mirror;
mod param;
mod value;

pub use self::annotation::{HeaderAnnotationError, MAX_SCHEMA_DEPTH};
pub use self::mirror::{HeaderLookup, HeaderMismatch, check_method, check_name, check_version, name_member};
pub use self::param::{ParamHeader, ParamHeaders, ParamType};
pub use self::value::{HeaderError, decode_value, encode_value};

/// Protocol revision of a request, since 2025-06-18. In revisions with a handshake, it is sent after the handshake.
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";

/// Method of a request, since 2026-07-28.
pub const METHOD: &str = "mcp-method";

/// Target of a request: the member of `params` that [`name_member`] returns, since 2026-07-28.
pub const NAME: &str = "mcp-name";

/// Prefix of the headers of annotated arguments, since 2026-07-28. See [`ParamHeaders`].
pub const PARAM_PREFIX: &str = "mcp-param-";

/// Session id, in revisions 2025-03-26 to 2025-11-25.
pub const SESSION_ID: &str = "mcp-session-id";

/// Id of the last event received on an interrupted stream, in revisions 2025-03-26 to 2025-11-25.
pub const LAST_EVENT_ID: &str = "last-event-id";
