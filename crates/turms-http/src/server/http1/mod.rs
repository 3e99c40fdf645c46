//! HTTP/1.1 for the connections of a [`Listener`](super::Listener). It knows nothing of MCP: an
//! [`HttpHandler`](super::HttpHandler) gets a head and a body and returns a response.
//!
//! | file | contents |
//! |---|---|
//! | `connection` | [`serve`]: the loop of one connection |
//! | `head` | [`HeadParser`](head::HeadParser): bytes in, [`ParsedHead`](head::ParsedHead) out; does no I/O |
//! | `body` | reads bodies; chunks are decoded by `crate::framing` |
//! | `response` | writes responses: small ones from the stack, streams in chunks |
//! | `io`, `rewind` | the byte stream and its buffer |
//! | `idle_timer`, `write_timeout` | the two timeouts of a connection |
//!
//! # Why not hyper
//!
//! It needs less memory and fewer instructions. A connection is one future of 2.2 KB, without a task, channel or timer per
//! request. A request is one buffer, and its head and body are slices of it. A header map is built only if a handler needs
//! one. A response is assembled on the stack and written with one system call. A connection without a request in progress, or
//! with an open event stream, holds no buffer.
//!
//! | measured when it replaced hyper, without LTO | hyper | this |
//! |---|---:|---:|
//! | instructions of a small call, 2026-07-28 | 74 503 | 47 583 |
//! | instructions of a small call in a session | 62 018 | 32 553 |
//! | allocations of a small call | 20 | 10 |
//! | idle connection | 26.6 KiB | 3.5 KiB |
//! | session with an open stream | 27.3 KiB | 5.8 KiB |
//!
//! The connection takes 8 300 of these instructions, 2 000 of them in `httparse`. Both need two system calls per call.
//! With LTO, and after the other parts became smaller, a small call of 2026-07-28 takes 23 000 instructions and 9 allocations.
//! With `Listener::serve_tower` it takes 36 100 and 22; a hyper server that echoes each body takes 14 900.
//! hyper serves HTTP/2, `tower` applications and upgrades, and also HTTP/1.1 after `Listener::use_hyper`.
//!
//! # Supported features
//!
//! HTTP/1.1 and HTTP/1.0; keep-alive and pipelining, with responses in the order of requests; bodies by `Content-Length` and in
//! chunks, with extensions and trailers, which are dropped; `Expect: 100-continue`, with the response after
//! [`HttpHandler::check`](super::HttpHandler::check); `HEAD`; targets that are a path, an `http` or `https` URL, or `*` with
//! `OPTIONS`; responses of known length and in chunks; a client that disconnects while its request is handled, which drops the
//! handler's future; graceful shutdown. Upgrades are not supported.
//!
//! # Rejected requests
//!
//! Everything that two implementations could interpret differently (RFC 9112, 11.2). The response states the reason,
//! and the connection closes. Each case has a test in `tests/server/framing.rs` or `malformed.rs`. The fuzz targets
//! `http_request` and `http_chunks` check that hyper interprets all other input in the same way.
//!
//! | status | for |
//! |---|---|
//! | 400 | syntax errors; a line that ends in LF only; folded headers; control characters; no `Host`, two, or an invalid one; an invalid target; `Content-Length` that is repeated, a list, signed or together with `Transfer-Encoding`; `Transfer-Encoding` in HTTP/1.0; invalid chunks and trailers |
//! | 408 | a body that does not arrive in time |
//! | 413 | a body over the limit, by its announced length or when it is reached |
//! | 431 | a head that is too long or has too many headers |
//! | 501 | a `Transfer-Encoding` other than `chunked` |
//!
//! # Limits
//!
//! | limit | default | set by |
//! |---|---:|---|
//! | length of a head | 65 535 bytes | fixed |
//! | headers of a request | 100 | fixed |
//! | head timeout and idle timeout | 30 s | `Listener::header_timeout` |
//! | time without progress of a write | 60 s | `Listener::write_timeout` |
//! | length and timeout of a body | 4 MiB, 30 s | `HttpService::max_body_bytes`, `body_timeout` |
//! | chunk line; all chunk extensions; trailers | 256 bytes; 16 KiB; 16 KiB and 100 fields | fixed |
//! | buffered bytes of further requests while one is handled | 64 KiB | fixed; then the connection closes |
//! | draining after a rejected request | 8 MiB, 1 s | fixed |

mod body;
mod connection;
mod head;
mod idle_timer;
mod io;
mod response;
#[cfg(feature = "server-http2")]
mod rewind;
#[cfg(test)]
mod tests;
mod write_timeout;

#[cfg(feature = "fuzzing")]
pub(super) use self::connection::HttpConnection;
pub(super) use self::connection::serve;
pub(super) use self::head::{HeaderSpan, RawHead, Span};
pub(super) use self::write_timeout::WriteTimeout;
