//! HTTP for the Model Context Protocol: Streamable HTTP of every revision, and the HTTP+SSE transport of 2024-11-05.
//!
//! # Servers
//!
//! [`ServeHttp`] serves a server or an endpoint: as a `tower` service in an application, or with the [`Listener`] of
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
//! The defaults are safe: only loopback hosts are accepted ([`HttpService::allowed_hosts`]), and bodies, heads,
//! streams, sessions and connections have limits and timeouts ([`HttpService`], [`SessionOptions`], [`Listener`]).
//!
//! Handlers can read the HTTP request of their call: its `http::HeaderMap`, its `http::Uri`, its [`PeerAddress`], and
//! the extensions that the application's middleware adds. If the middleware adds a `Principal` extension, a session is
//! bound to the principal that started it.
//!
//! # Clients
//!
//! [`ConnectHttp`] adds `connect_http(url)` to the client builder. An [`HttpConnector`] has options, such as timeouts
//! and headers. An [`HttpTransport`] makes connectors for the URLs of a configuration file.
//!
//! # Authorization
//!
//! An [`Authorizer`] provides the credentials of a client: [`BearerToken`] is a fixed token, and applications implement the trait for
//! tokens that are refreshed or need a login. [`HttpConnector::authorizer`] sets it, and so does the connector of `turms-ws`:
//!
//! ```
//! use turms_http::{BearerToken, HttpConnector};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let connector = HttpConnector::new("https://example.com/mcp")?.authorizer(BearerToken::new("secret")?);
//! # Ok(())
//! # }
//! ```
//!
//! A response with 401 or 403 goes to [`Authorizer::rejected`], which obtains other credentials and [decides](Decision) about a retry.
//! A request is retried with other credentials at most three times. A retry with a nonce of the server (DPoP) is not counted, but
//! is not followed by another one. The timeouts of calls and of connecting are paused meanwhile. [`Challenge`] parses and writes
//! `WWW-Authenticate`. If the last retry is rejected, too, connecting fails with `ConnectError::Unauthorized` and a call with
//! `CallErrorKind::Unauthorized`; clients do not reconnect after it.
//!
//! # Features
//!
//! | feature | default | enables |
//! |---|---|---|
//! | `client` | yes | [`HttpConnector`] and [`HttpTransport`]; enables `authorize` |
//! | `authorize` | yes | [`Authorizer`] and its types, without an HTTP client |
//! | `server` | yes | [`ServeHttp`], [`HttpService`] and [`Listener`] |
//! | `server-http2` | | HTTP/2 for servers with a [`Listener`]; enables `server` |
//! | `server-tls` | | TLS for servers with a [`Listener`]; enables `server-http2` |
//!
//! # Types of other crates in the public API
//!
//! `bytes` 1, `http` 1, `url` 2, and for custom HTTP clients `tower-service` 0.3 and `http-body` 1.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "authorize")]
mod authorize;
mod challenge;
#[cfg(feature = "client")]
mod client;
#[cfg(feature = "server")]
mod framing;
#[cfg(feature = "server")]
mod server;
#[cfg_attr(not(feature = "server"), allow(dead_code, reason = "only servers write events"))]
mod sse;

#[cfg(feature = "authorize")]
pub use self::authorize::{
    AuthorizeError, AuthorizeRequest, AuthorizedResponse, Authorizer, BearerToken, Credentials, Decision,
    RequestPurpose, UnauthorizedResponse,
};
pub use self::challenge::Challenge;
#[cfg(feature = "client")]
pub use self::client::{ConnectHttp, DialAddress, DialError, HttpConnector, HttpError, HttpTransport};
/// For other crates of Turms. Not part of the API.
#[doc(hidden)]
pub mod __internal {
    #[cfg(feature = "authorize")]
    pub use crate::authorize::{AuthorizeAttempts, ServerAuthorizer, is_rejection};
    #[cfg(feature = "client")]
    pub use crate::client::{
        DialOptions, DialOptionsError, DialProtocol, DialedStream, Dialer, RouteStream, SentSecrets,
    };
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
