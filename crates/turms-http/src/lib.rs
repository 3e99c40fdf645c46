//! HTTP for the Model Context Protocol: Streamable HTTP of every revision, and the HTTP+SSE transport of 2024-11-05.

#[cfg(feature = "server")]
mod server;
mod sse;

#[cfg(feature = "server")]
pub use self::server::{
    AccessDenied, AccessPolicy, EventStream, HttpBody, HttpService, Listener, PeerAddress, ServeHttp, SessionOptions,
};
pub use self::sse::{EventTooLong, SseDecoder, SseEvent};
