//! WebSocket for the Model Context Protocol: subprotocol `mcp`, one message per text frame.
//!
//! This is a custom transport: the specification does not define WebSocket. It requires that a custom transport
//! preserves the message format and the lifecycle, and documents connections, framing and cancellation: see [Wire
//! format](#wire-format). The official SDKs for TypeScript and Python use WebSocket in the same way.
//!
//! # Servers
//!
//! [`ServeWs`] adds two methods to a server: `into_ws_service()` returns a tower service for an application on hyper or
//! axum, and `serve_ws(..)` listens on an address.
//!
//! ```no_run
//! use turms_http::Listener;
//! use turms_server::{Args, Server, Tool};
//! use turms_ws::ServeWs as _;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::new("echo", "1.0.0").tool(Tool::builder("echo").handler_sync(|Args(text): Args<String>| text));
//! let listener = Listener::bind("127.0.0.1:0").await?;
//! println!("ws://{}/", listener.address());
//! listener.serve(server.into_ws_service()?.max_connections(100)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Clients
//!
//! [`WsConnector`] connects a client.
//!
//! ```no_run
//! use turms_client::Client;
//! use turms_ws::WsConnector;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let connector = WsConnector::new("wss://example.com/mcp")?;
//! let client = Client::builder("me", "1.0.0").connect(connector).await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`WsTransport`] connects to the URLs of a configuration file: `ClientGroupBuilder::transport(WsTransport::new())`.
//!
//! # Wire format
//!
//! - **Connection.** A `GET` request over HTTP/1.1 is upgraded (RFC 6455). The client requests the subprotocol `mcp`
//!   and the server chooses it. A request without a subprotocol is accepted; a request with only other subprotocols is
//!   rejected. The server checks `Host` and `Origin` before the upgrade, and its guard or middleware the credentials. A
//!   token belongs in the `Authorization` header, never in the URL. After the upgrade, the rules of stdio apply: before
//!   2026-07-28, a client begins with `initialize`, and the connection is its session; since 2026-07-28, it sends all
//!   metadata with each request.
//! - **Framing.** A text message, in one or more frames, is exactly one JSON-RPC message, or a batch in 2025-03-26. It
//!   may contain white space like any JSON; a message of only white space is ignored. WebSocket extensions, such as
//!   compression, are not used.
//! - **Cancellation.** `notifications/cancelled` cancels a call. Closing the connection cancels all of its calls.
//! - **Heartbeat.** A peer that has sent nothing for 30 seconds is pinged. If it sends nothing for another 30, the
//!   connection is closed.
//! - **Close.** The side that closes the connection sends a close frame and waits up to 2 seconds for that of the peer.
//!
//! | code | when |
//! |---|---|
//! | 1000 | the sender no longer needs the connection |
//! | 1001 | the server is shutting down |
//! | 1002 | the peer violated the WebSocket protocol |
//! | 1003 | the peer sent a binary message |
//! | 1007 | the peer sent text that is not UTF-8 |
//! | 1008 | the access token of the client has expired |
//! | 1009 | the peer sent a message that is longer than the limit |
//!
//! # Features
//!
//! | feature | default | enables |
//! |---|---|---|
//! | `client` | yes | [`WsConnector`] and [`WsTransport`] |
//! | `rustls-0_23` | | `WsConnector::tls_config`, with a type of rustls 0.23; enables `client` |
//! | `server` | yes | [`ServeWs`] and [`WsService`]; without it, the crate does not depend on an HTTP server |

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(feature = "client", feature = "server"))]
mod body;
#[cfg(feature = "client")]
mod client_handshake;
#[cfg(any(feature = "client", feature = "server"))]
mod close;
#[cfg(feature = "client")]
mod connect_ws;
#[cfg(feature = "client")]
mod connector;
#[cfg(feature = "client")]
mod error;
#[cfg(any(feature = "client", feature = "server"))]
mod handshake;
#[cfg(any(feature = "client", feature = "server"))]
mod heartbeat;
#[cfg(feature = "server")]
mod service;
#[cfg(any(feature = "client", feature = "server"))]
mod socket;
#[cfg(feature = "client")]
mod transport;
#[cfg(feature = "server")]
mod upgrade;
#[cfg(feature = "client")]
mod url;

#[cfg(any(feature = "client", feature = "server"))]
pub use self::body::WsBody;
#[cfg(feature = "client")]
pub use self::connect_ws::ConnectWs;
#[cfg(feature = "client")]
pub use self::connector::WsConnector;
#[cfg(feature = "client")]
pub use self::error::WsError;
#[cfg(feature = "server")]
pub use self::service::{ServeWs, WsService};
#[cfg(feature = "client")]
pub use self::transport::WsTransport;

/// Checks that connectors and services are `Send` and `Sync`.
#[cfg(all(feature = "client", feature = "server"))]
const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<WsConnector>();
    is_send_and_sync::<WsService>();
};
