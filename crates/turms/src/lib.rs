//! A toolkit for the Model Context Protocol. This crate is the one to name in `Cargo.toml`: it has no code of its own and
//! re-exports the crates that do.
//!
//! ```no_run
//! use turms::prelude::*;
//!
//! /// Adds two numbers.
//! #[tool(read_only)]
//! async fn add(
//!     /// the first number
//!     a: f64,
//!     /// the second number
//!     b: f64,
//! ) -> f64 {
//!     a + b
//! }
//!
//! #[tokio::main]
//! async fn main() -> turms::Result<()> {
//!     Server::new("calculator", "1.0.0").tool(add).serve_stdio().await
//! }
//! ```
//!
//! - Functions become part of a server with [`macro@tool`], [`macro@prompt`] and [`macro@resource`], and the methods of an
//!   object with [`macro@handlers`]. The same can be written by hand with [`Tool::builder`], [`Prompt::builder`] and
//!   [`Resource::builder`].
//! - Extractors, which a function takes beside its arguments, implement [`FromCall`]; the values that it returns implement
//!   [`IntoCallToolResult`], [`IntoGetPromptResult`] or [`IntoReadResourceResult`]. [`ToolError`] is for functions that meet errors of
//!   several types; with the feature `anyhow` it looks into every `anyhow::Error`, too.
//! - A [`Client`] talks to servers of every revision: see [`client`].
//! - Extensions of the protocol are [`ServerExtension`]s and [`ClientExtension`]s; those of your own as well.
//! - With the feature `http`, servers are reached over HTTP (`serve_http`, or `into_http_service` to mount them in an
//!   application) and clients connect to URLs (`connect_http`, `http::HttpConnector` with options, and `http::HttpTransport` for those of a configuration).
//!   The feature `ws` does the same for WebSocket.
//! - Pages that hosts show are [`App`]s; a client that is a host says so with [`ClientBuilder::enable_apps`].
//! - [`types`] has the types of the protocol, [`layer`] services and middleware, [`transport`] connections, [`store`] what
//!   outlasts a request, and [`registry`] services by name. A program that needs the protocol without I/O depends on
//!   `turms-proto` instead.
//!
//! # Features
//!
//! | feature | default | enables |
//! |---|---|---|
//! | `client` | yes | [`Client`] and everything that calls servers |
//! | `server` | yes | [`Server`], the attributes and everything that makes servers |
//! | `http` | | `http-client` and `http-server` |
//! | `http-client` | | `http::HttpConnector` and `http::HttpTransport`; enables `client` |
//! | `http-server` | | `serve_http` and `http::HttpService`; enables `server` |
//! | `server-http2` | | HTTP/2 for servers with an `http::Listener`; enables `http-server` |
//! | `server-tls` | | TLS for servers with an `http::Listener`; enables `server-http2` |
//! | `ws` | | `ws-client` and `ws-server` |
//! | `ws-client` | | `ws::WsConnector` and `ws::WsTransport`; enables `client` |
//! | `ws-server` | | `serve_ws` and `ws::WsService`; enables `server` |
//! | `skills` | | skills of servers, and clients that list, read and verify them |
//! | `anyhow` | | protocol errors inside an `anyhow::Error` that a handler returns |
//!
//! # Types of your own
//!
//! Types that travel as arguments derive `serde::Deserialize` and `schemars::JsonSchema`; those that a tool returns as
//! [`Json`] derive `serde::Serialize` and `schemars::JsonSchema`. Name both crates in your `Cargo.toml` for that: what a
//! derive writes refers to its crate by name, so the derives cannot be had through this one.
//!
//! ```toml
//! schemars = "1"
//! serde = { version = "1", features = ["derive"] }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

/// Clients for the Model Context Protocol: for every revision and every transport, of one server or many.
///
/// [`Client::builder`](crate::Client::builder) is where to begin.
#[cfg(feature = "client")]
pub mod client {
    #[doc(inline)]
    pub use turms_client::*;
}

/// Servers for the Model Context Protocol: tools, resources, prompts, tasks and extensions.
///
/// [`Server::new`](crate::Server::new) is where to begin. An [`Endpoint`](crate::server::Endpoint) serves a service of your own.
#[cfg(feature = "server")]
pub mod server {
    #[doc(inline)]
    pub use turms_core::{Endpoint, EndpointInfo, IntoEndpoint, Limits, Shutdown};
    #[doc(inline)]
    pub use turms_server::*;
}

/// HTTP for servers and clients: Streamable HTTP of every revision, and the HTTP+SSE transport of 2024-11-05.
#[cfg(any(feature = "http-client", feature = "http-server"))]
pub mod http {
    #[doc(no_inline)]
    pub use ::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
    #[doc(inline)]
    pub use turms_http::*;
}

/// WebSocket for servers and clients: subprotocol `mcp`, one message per text frame.
#[cfg(any(feature = "ws-client", feature = "ws-server"))]
pub mod ws {
    #[doc(inline)]
    pub use turms_ws::*;
}

/// The types of the protocol: parameters and results of every revision, and a marker for every [`Method`](crate::types::Method).
pub mod types {
    #[doc(inline)]
    pub use turms_proto::method::{Method, Notification as NotificationMethod};
    #[doc(inline)]
    pub use turms_proto::types::*;
    #[doc(inline)]
    pub use turms_proto::{Ability, DecodeError, EncodeError, Object, RawJson};
}

/// JSON-RPC: ids, error codes, messages and their encoding.
pub mod jsonrpc {
    #[doc(inline)]
    pub use turms_proto::jsonrpc::*;
}

/// Services and the layers around them: timeouts, limits, tracing, and middleware of your own.
///
/// A [`Service`](crate::layer::Service) responds to a [`Request`](crate::layer::Request) in a
/// [`CallContext`](crate::layer::CallContext) with a [`Payload`](crate::layer::Payload).
#[doc(alias = "middleware")]
#[doc(alias = "tower")]
#[doc(alias = "interceptor")]
pub mod layer {
    #[doc(inline)]
    pub use turms_core::layer::*;
    #[doc(inline)]
    pub use turms_core::{
        BoxFuture, CallContext, CallResult, ErrorOrigin, NotifyFuture, Payload, Peer, PeerError, Remote, Request,
        ResponseFuture, Service, ServiceError, SessionHandle,
    };
}

/// The stores of a server, for what outlasts a request: sessions, the events of their streams, and tasks.
pub mod store {
    #[doc(inline)]
    pub use turms_core::BoxFuture;
    #[doc(inline)]
    pub use turms_core::store::*;
}

/// Connections and what opens them: standard input and output, child processes, byte streams, and connectors of your own.
pub mod transport {
    #[doc(inline)]
    pub use turms_core::transport::*;
    #[doc(inline)]
    pub use turms_core::{
        BoxFuture, CallClock, CallObserver, Channel, ChannelControl, CloseInfo, CloseReason, ConnectContext,
        ConnectError, Connection, ConnectionError, ConnectionHandle, Connector, CountedRequest, Counters, DropCause,
        InboundStream, Limits, ObservedCall, OpenChannel, OpenFailure, OutgoingRequest, PeerError, PeerTransport,
        ServerUrl, TransportInfo, TransportKind, UrlTransport,
    };
    #[doc(inline)]
    pub use turms_proto::session::{OpenError, RequestError, SessionError};
}

/// Services by name: a registry to register, call, notify, list and check them.
pub mod registry {
    #[doc(inline)]
    pub use turms_core::registry::*;
}

/// A client for unit tests of servers.
#[cfg(feature = "testing")]
pub mod testing {
    #[doc(inline)]
    pub use turms_testing::*;
}

/// The version of this crate.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

#[cfg(feature = "client")]
#[doc(inline)]
pub use turms_client::{Backoff, ChildCommand, Client, ClientBuilder, ClientExtension, ClientGroup, Pool};
#[doc(inline)]
pub use turms_core::{Error, ErrorKind, Result};
#[cfg(feature = "http-client")]
#[doc(inline)]
pub use turms_http::ConnectHttp;
#[cfg(feature = "http-server")]
#[doc(inline)]
pub use turms_http::ServeHttp;
#[doc(inline)]
pub use turms_proto::{ErrorObject, ProtocolVersion};
#[cfg(feature = "server")]
#[doc(inline)]
pub use turms_server::{
    App, Apps, Args, BuildError, CallParts, CancellationToken, ClientInfo, CloseReason, CompletionRequest, Component,
    ComponentError, Context, Elicited, Extension, ExtensionBuilder, FromCall, Handler, Handlers, InputCall, InputError,
    InsufficientScopeError, IntoCallToolResult, IntoCompletion, IntoGetPromptResult, IntoPrompt,
    IntoReadResourceResult, IntoResource, IntoTool, Json, ListKind, LogCall, Principal, Progress, ProgressReport,
    Prompt, PromptBuilder, RegistrationError, Rejection, RequestStateKey, Resource, ResourceBuilder, ResourceUri,
    Router, SchemaError, Server, ServerExtension, ServerHandle, Session, State, SyncHandler, TaskOptions, Tool,
    ToolBuilder, ToolError,
};
// What the attributes write refers to, and compile errors name.
#[cfg(feature = "server")]
#[doc(hidden)]
pub use turms_server::{Argument, Arguments, FormType};

#[cfg(all(feature = "server", feature = "skills"))]
#[doc(inline)]
pub use turms_server::{Skill, SkillError, Skills};
#[cfg(feature = "ws-client")]
#[doc(inline)]
pub use turms_ws::ConnectWs;
#[cfg(feature = "ws-server")]
#[doc(inline)]
pub use turms_ws::ServeWs;

#[cfg(feature = "server")]
#[doc = include_str!("../docs/tool.md")]
pub use turms_macros::tool;

#[cfg(feature = "server")]
#[doc = include_str!("../docs/prompt.md")]
pub use turms_macros::prompt;

#[cfg(feature = "server")]
#[doc = include_str!("../docs/resource.md")]
pub use turms_macros::resource;

#[cfg(feature = "server")]
#[doc = include_str!("../docs/handlers.md")]
pub use turms_macros::handlers;

/// The names that most programs use: `use turms::prelude::*;`.
pub mod prelude {
    #[cfg(feature = "http-client")]
    #[doc(no_inline)]
    pub use crate::ConnectHttp as _;
    #[cfg(feature = "ws-client")]
    #[doc(no_inline)]
    pub use crate::ConnectWs as _;
    #[doc(no_inline)]
    pub use crate::ErrorObject;
    #[cfg(feature = "http-server")]
    #[doc(no_inline)]
    pub use crate::ServeHttp as _;
    #[cfg(feature = "ws-server")]
    #[doc(no_inline)]
    pub use crate::ServeWs as _;
    #[doc(no_inline)]
    pub use crate::types::{CallToolResult, Content, GetPromptResult, PromptMessage, ResourceContents};
    #[cfg(feature = "server")]
    #[doc(no_inline)]
    pub use crate::{
        Args, CancellationToken, ClientInfo, CompletionRequest, Context, Elicited, Extension, Json, Principal,
        Progress, Prompt, Resource, Server, ServerHandle, Session, State, Tool, ToolError, handlers, prompt, resource,
        tool,
    };
    #[cfg(feature = "client")]
    #[doc(no_inline)]
    pub use crate::{ChildCommand, Client, ClientGroup};
}

/// Crates that the expansions of the attributes refer to. Not part of the API.
#[cfg(feature = "server")]
#[doc(hidden)]
pub mod __private {
    pub use {schemars, serde};
}

#[cfg(all(doctest, feature = "http"))]
#[doc = include_str!("../../../README.md")]
mod readme {}

/// The examples in the READMEs of the crates that are used through this one.
#[cfg(all(doctest, feature = "http", feature = "ws"))]
mod readmes {
    #[doc = include_str!("../README.md")]
    mod turms {}

    #[doc = include_str!("../../turms-client/README.md")]
    mod client {}

    #[doc = include_str!("../../turms-http/README.md")]
    mod http {}

    #[doc = include_str!("../../turms-macros/README.md")]
    mod macros {}

    #[doc = include_str!("../../turms-server/README.md")]
    mod server {}

    #[doc = include_str!("../../turms-ws/README.md")]
    mod ws {}
}
