//! HTTP for the Model Context Protocol: Streamable HTTP of every revision, and the HTTP+SSE transport of 2024-11-05.
//!
//! # Servers
//!
//! Whatever is a service, or can become one, is served by [`ServeHttp`]: as a `tower` service that mounts into an application,
//! or listening by itself. Clients of every revision use the same address.
//!
//! ```no_run
//! use turms_http::ServeHttp;
//! use turms_server::{ServeError, Server};
//!
//! # async fn example() -> Result<(), ServeError> {
//! Server::new("calculator", "1.0.0").serve_http("127.0.0.1:8080").await
//! # }
//! ```
//!
//! What is safe is on: only loopback names are let in ([`AccessPolicy`]), and bodies, heads, streams, sessions and connections
//! are bounded in number, size and time ([`HttpService`], [`SessionOptions`], [`Listener`]).
//!
//! Handlers see the request they are called by: its `http::HeaderMap`, its `http::Uri`, [`PeerAddress`] and whatever the
//! application's own middleware put into its extensions. A `Principal` among those binds sessions to whoever began them.
//!
//! # Clients
//!
//! [`HttpConnector`] connects a client to a server, and finds out what it speaks. [`HttpTransport`] does so for the addresses
//! of a configuration. Credentials come from an [`Authorizer`].
//!
//! Types of other crates in the interface: `bytes` 1, `http` 1, `url` 2, and `tower-service` 0.3 and `http-body` 1 for an HTTP client
//! of one's own.
//!
//! # Features
//!
//! `client` and `server`, both on unless switched off; for servers that listen by themselves `http2`, and `tls`, which brings
//! it along.

#[cfg(feature = "client")]
mod client;
#[cfg(feature = "server")]
mod framing;
#[cfg(feature = "server")]
mod server;
#[cfg_attr(not(feature = "server"), allow(dead_code, reason = "only servers write events"))]
mod sse;

#[cfg(feature = "client")]
pub use self::client::{
    Authorizable, AuthorizeError, Authorizer, BearerToken, Challenge, Decision, DialAddress, DialError, HttpConnector,
    HttpError, HttpTransport,
};
/// For other crates of Turms. No part of the API.
#[cfg(feature = "client")]
#[doc(hidden)]
pub mod __internal {
    pub use crate::client::{DialOptions, DialOptionsError, DialProtocol, DialedStream, Dialer, RouteStream};
}
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use self::server::fuzzing;
#[cfg(feature = "server")]
pub use self::server::{
    AccessDenied, AccessPolicy, BodyError, BodyLimit, EventStream, HttpBody, HttpHandler, HttpService, Listener,
    PeerAddress, RequestHead, ServeHttp, SessionOptions,
};
pub use self::sse::{EventTooLong, SseDecoder, SseEvent};
