//! The HTTP headers of MCP, as text.
//!
//! From revision 2026-07-28 on, a client repeats parts of the request body in headers, so that whatever stands between
//! the peers can route and limit without reading bodies; the server makes sure that both say the same (SEP-2243, as
//! revised on the transports page of that revision). This module knows names, values and rules; it does not know HTTP.

mod annotation;
mod mirror;
mod param;
mod value;

pub use self::annotation::{HeaderAnnotationError, MAX_SCHEMA_DEPTH};
pub use self::mirror::{HeaderLookup, HeaderMismatch, check_method, check_name, check_version, name_member};
pub use self::param::{ParamHeader, ParamHeaders, ParamType};
pub use self::value::{HeaderError, decode_value, encode_value};

/// The protocol revision of a request, since revision 2025-06-18; after the handshake where there is one.
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";

/// The method of a request, since revision 2026-07-28.
pub const METHOD: &str = "mcp-method";

/// What a request is about: the member of `params` that [`name_member`] tells, since revision 2026-07-28.
pub const NAME: &str = "mcp-name";

/// What the header of an annotated argument begins with, since revision 2026-07-28. See [`ParamHeaders`].
pub const PARAM_PREFIX: &str = "mcp-param-";

/// The session of a request, in revisions 2025-03-26 to 2025-11-25.
pub const SESSION_ID: &str = "mcp-session-id";

/// The last event a client has seen of a stream that broke, in revisions 2025-03-26 to 2025-11-25.
pub const LAST_EVENT_ID: &str = "last-event-id";
