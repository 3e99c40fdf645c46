//! HTTP for the Model Context Protocol: Streamable HTTP of every revision, and the HTTP+SSE transport of 2024-11-05.
//!
//! # Servers
//!
//! Servers and endpoints are served with [`ServeHttp`]: as a `tower` service in an application, or with a listener of
//! this crate. Clients of every revision use the same URL.
//!
//! ```no_run
//! use turms_http::ServeHttp;
//! use turms_core::Error;
//! use turms_server::Server;
//!
//! # async fn example() -> Result<(), Error> {
//! Server::new("calculator", "1.0.0").serve_http("127.0.0.1:8080").await
//! # }
//! ```
//!
//! The defaults are safe: only loopback hosts are accepted ([`HttpService::allowed_hosts`]), and bodies, heads, streams, sessions and
//! connections have limits and timeouts ([`HttpService`], [`SessionOptions`], [`Listener`]).
//!
//! Handlers can read the HTTP request of their call: its `http::HeaderMap`, its `http::Uri`, its [`PeerAddress`], and
//! the extensions that the application's middleware adds. A `Principal` extension binds a session to the principal that
//! started it.
//!
//! # Clients
//!
//! [`ConnectHttp`] adds `connect_http(url)` to the builder of clients. [`HttpConnector`] has options and detects the protocol revision. [`HttpTransport`] does so for the
//! URLs of a configuration. An [`Authorizer`] provides credentials.
//!
//! Types of other crates in the public API: `bytes` 1, `http` 1, `url` 2, and `tower-service` 0.3 and `http-body` 1 for
//! custom HTTP clients.
//!
//! # Features
//!
//! | feature | default | enables |
//! |---|---|---|
//! | `client` | yes | [`HttpConnector`] and [`HttpTransport`] |
//! | `server` | yes | [`ServeHttp`], [`HttpService`] and [`Listener`] |
//! | `http2` | | HTTP/2 for servers with a [`Listener`]; enables `server` |
//! | `tls` | | TLS for servers with a [`Listener`]; enables `http2` |

#![cfg_attr(docsrs, feature(doc_cfg))]

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
    Authorizable, AuthorizeError, Authorizer, BearerToken, Challenge, ConnectHttp, Decision, DialAddress, DialError,
    HttpConnector, HttpError, HttpTransport,
};
/// For other crates of Turms. Not part of the API.
#[doc(hidden)]
pub mod __internal {
    #[cfg(feature = "client")]
    pub use crate::client::{DialOptions, DialOptionsError, DialProtocol, DialedStream, Dialer, RouteStream};
    #[cfg(feature = "server")]
    pub use crate::server::{
        AccessDenied, AccessPolicy, BodyError, BodyLimit, HttpHandler, RequestHead, SharedGuard, sleep_until,
    };
    pub use crate::sse::{EventTooLong, SseDecoder, SseEvent};
}
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use self::server::fuzzing;
#[cfg(feature = "server")]
pub use self::server::{
    Guard, GuardDocument, GuardRejection, GuardRequest, HttpBody, HttpService, Listener, PeerAddress, ServeHttp,
    SessionOptions, StreamControl,
};
