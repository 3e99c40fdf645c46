//! WebSocket for the Model Context Protocol: subprotocol `mcp`, one message per text frame.
//!
//! The specification has no such transport. It leaves room for one that keeps the messages and the lifecycle as they are, and
//! says how a connection is made, how messages are told apart, and how a call is given up; this page does. The official SDKs for
//! TypeScript and Python speak the same way over WebSocket.
//!
//! # A server
//!
//! Whatever can be served can be served over WebSocket: [`ServeWs`] adds `ws()`, a tower service for an application on hyper or
//! axum, and `serve_ws(..)`, which listens by itself.
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
//! listener.serve(server.ws().max_connections(100)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # A client
//!
//! [`WsConnector`] leads a client there.
//!
//! ```no_run
//! use turms_client::Client;
//! use turms_ws::WsConnector;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let connector = WsConnector::new("wss://example.com/mcp")?;
//! let client = Client::builder("me", "1.0.0").connect_to(connector).await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`WsTransport`] is for the addresses of a configuration file: `ClientGroupBuilder::transport(WsTransport::new())`.
//!
//! # On the wire
//!
//! - **Connection.** A `GET` request over HTTP/1.1 is upgraded (RFC 6455). The client asks for the subprotocol `mcp` and the server
//!   names it in its answer. A request that names none is served without one; one that names only others is refused. Who may
//!   connect is decided then: by `Host` and `Origin`, and by whatever stands in front of the service. A token goes into the
//!   `Authorization` header, never into the URL. After that, what holds for standard input and output holds here: a client of an
//!   older revision opens with `initialize`, and the connection is its session; one of 2026-07-28 says everything with each
//!   request.
//! - **Framing.** A text message, in however many frames, is exactly one JSON-RPC message, or a batch in 2025-03-26. White space
//!   in it is as free as in any JSON; a message of nothing else is passed over. There are no extensions, so there is no
//!   compression.
//! - **Cancellation.** `notifications/cancelled` gives a call up. The end of the connection gives up all that run over it.
//! - **Life.** A peer that has been quiet for 30 seconds is pinged; one that sends nothing for another 30 is given up.
//! - **End.** Whoever ends the connection sends a close frame and waits a moment for the other's.
//!
//! | code | when |
//! |---|---|
//! | 1000 | this side needs the connection no more |
//! | 1001 | the server is shutting down |
//! | 1002 | the peer broke the rules of WebSocket |
//! | 1003 | the peer sent a binary message |
//! | 1007 | the peer sent text that is not UTF-8 |
//! | 1009 | the peer sent a message that is longer than the limit |
//!
//! # Features
//!
//! `client` and `server`, both on by default. Without `server` there is no HTTP server among the dependencies; connections are
//! made by the dialer of `turms-http`.

#[cfg(any(feature = "client", feature = "server"))]
mod body;
#[cfg(feature = "client")]
mod client_handshake;
#[cfg(any(feature = "client", feature = "server"))]
mod close;
#[cfg(feature = "client")]
mod connector;
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
pub use self::client_handshake::WsConnectError;
#[cfg(feature = "client")]
pub use self::connector::WsConnector;
#[cfg(feature = "server")]
pub use self::service::{ServeWs, WsService};
#[cfg(feature = "client")]
pub use self::transport::WsTransport;
#[cfg(feature = "client")]
pub use self::url::WsUrlError;

/// What servers and connections are made of can travel between threads.
#[cfg(all(feature = "client", feature = "server"))]
const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<WsConnector>();
    is_send_and_sync::<WsService>();
};
