//! HTTP for the Model Context Protocol: Streamable HTTP of every revision, and the HTTP+SSE transport of 2024-11-05.

#[cfg(feature = "server")]
mod access;
mod sse;

#[cfg(feature = "server")]
pub use self::access::{AccessDenied, AccessPolicy};
pub use self::sse::{EventTooLong, SseDecoder, SseEvent};
