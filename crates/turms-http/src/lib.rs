//! HTTP for the Model Context Protocol: Streamable HTTP of every revision, and the HTTP+SSE transport of 2024-11-05.

#[cfg(feature = "client")]
mod client;
#[cfg(feature = "server")]
mod server;
// Only servers write events.
#[cfg_attr(not(feature = "server"), allow(dead_code))]
mod sse;

#[cfg(feature = "client")]
pub use self::client::{
    Authorizable, AuthorizeError, Authorizer, BearerToken, Challenge, Decision, HttpConnector, HttpError, HttpTransport,
};
#[cfg(feature = "server")]
pub use self::server::{
    AccessDenied, AccessPolicy, EventStream, HttpBody, HttpService, Listener, PeerAddress, ServeHttp, SessionOptions,
};
pub use self::sse::{EventTooLong, SseDecoder, SseEvent};
