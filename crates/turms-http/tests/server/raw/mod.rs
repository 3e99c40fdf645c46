//! The rules of the specification about statuses and headers, checked with raw requests.

mod access;
mod http_sse;
mod listen;
mod media;
mod mirror;
mod post;
mod session;
mod stateless;
mod stream;
mod version;
