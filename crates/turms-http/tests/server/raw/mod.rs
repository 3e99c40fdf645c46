//! Every rule of the specification about statuses and headers, one request at a time.

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
