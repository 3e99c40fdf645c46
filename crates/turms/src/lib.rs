//! Servers and clients for the Model Context Protocol. Add this crate to `Cargo.toml`; it re-exports the other crates.
//!
//! ```toml
//! [dependencies]
//! turms = { git = "..", features = ["http"] }  # or `path = ".."`; see Features
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//! schemars = "1"  # with serde, for arguments and results that are structs
//! serde = { version = "1", features = ["derive"] }
//! serde_json = "1"  # for the arguments of calls
//! ```
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
//! - [`macro@tool`], [`macro@prompt`] and [`macro@resource`] turn functions into items of a server; [`macro@handlers`]
//!   does the same for the methods of a type. Without macros, use [`Tool::builder`], [`Prompt::builder`] and
//!   [`Resource::builder`].
//! - Handlers take arguments and extractors ([`FromCall`]), and return values that implement [`IntoCallToolResult`],
//!   [`IntoGetPromptResult`] or [`IntoReadResourceResult`]. [`ToolError`] is the error type for handlers that use `?`
//!   on errors of several types; with the feature `anyhow`, it also finds protocol errors inside an `anyhow::Error`.
//! - A [`Client`] connects to servers of every protocol revision: see [`client`].
//! - Protocol extensions implement [`ServerExtension`] and [`ClientExtension`]. You can write your own.
//! - The feature `http` serves over HTTP (`serve_http`, or `into_http_service` to mount a server in an application) and
//!   connects to URLs (`connect_http`, `http::HttpConnector` for options, `http::HttpTransport` for the URLs of a
//!   configuration file). The feature `ws` does the same for WebSocket.
//! - The feature `oauth` adds authorization: a client logs in with `oauth::OAuth`, and a server checks access tokens with
//!   `oauth::TokenGuard`. A handler takes the caller as a [`Principal`].
//! - An [`App`] is a UI that the host application displays. A client that is such a host calls
//!   [`ClientBuilder::enable_apps`].
//! - A handler uses its [`Context`] for progress, log messages, elicitation and sampling. It is dropped when its call is
//!   cancelled: see [`macro@tool`].
//! - [`ServerHandle`] notifies clients of changes, and adds and removes tools, prompts and resources of a running server.
//!   A handler takes it as an argument; [`Server::handle`] returns it before the server starts.
//! - Middleware of an HTTP application passes the caller to handlers as a [`Principal`] and other values as an
//!   [`Extension`]: see [`Principal`].
//! - [`types`] has the types of the protocol, [`layer`] services and middleware, [`transport`] connections, [`store`]
//!   the stores for sessions, events and tasks, and [`registry`] services by name. For the protocol without I/O, depend
//!   on `turms-proto` instead.
//!
//! Where an example imports from a crate that this one re-exports, such as `turms_oauth::OAuth`, the name is in the module
//! of this crate with the same name: `turms::oauth::OAuth`. The names that most programs need are at the root.
//!
//! # Features
//!
//! | feature | default | enables |
//! |---|---|---|
//! | `client` | yes | [`Client`] |
//! | `server` | yes | [`Server`] and the attribute macros |
//! | `http` | | `http-client` and `http-server` |
//! | `http-client` | | `http::HttpConnector` and `http::HttpTransport`; enables `client` |
//! | `http-server` | | `serve_http` and `http::HttpService`; enables `server` |
//! | `server-http2` | | HTTP/2 for servers with an `http::Listener`; enables `http-server` |
//! | `server-tls` | | TLS for servers with an `http::Listener`; enables `server-http2` |
//! | `ws` | | `ws-client` and `ws-server` |
//! | `ws-client` | | `ws::WsConnector` and `ws::WsTransport`; enables `client` |
//! | `ws-server` | | `serve_ws` and `ws::WsService`; enables `server` |
//! | `oauth` | | `oauth-client` and `oauth-server` |
//! | `oauth-client` | | `oauth::OAuth`: logins, token stores, each flow as functions; enables `http-client` |
//! | `oauth-server` | | `oauth::TokenGuard`: checks of access tokens; enables `http-server` |
//! | `oauth-dev` | | `oauth::dev`: an authorization server for development and tests; enables `oauth-server` |
//! | `oauth-keyring` | | `oauth::FileStore::keyring`: its key in the keyring of the operating system; enables `oauth-client` |
//! | `oauth-proxy` | | an authorization server in front of a provider without dynamic registration; enables `oauth-server` |
//! | `testing` | | `testing::TestClient`, for unit tests of servers; enables `client` |
//! | `skills` | | skills: served by servers; listed, read and verified by clients |
//! | `rustls-0_23` | | `ws::WsConnector::tls_config`, with a type of rustls 0.23 |
//! | `tracing-subscriber-0_3` | | `server::ForwardTracing`, a layer for tracing-subscriber 0.3 |
//! | `anyhow` | | `ToolError` finds protocol errors inside an `anyhow::Error` |
//!
//! # Your own types
//!
//! Argument types derive `serde::Deserialize` and `schemars::JsonSchema`. Types that a tool returns as [`Json`] derive
//! `serde::Serialize` and `schemars::JsonSchema`. Add both crates to your `Cargo.toml`: the generated code refers to
//! them by name, so this crate cannot re-export the derives.
//!
//! ```toml
//! schemars = "1"
//! serde = { version = "1", features = ["derive"] }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

/// Clients for the Model Context Protocol: for every revision and transport, for one server or many.
///
/// Start with [`Client::builder`](crate::Client::builder). Options of all calls are methods of the
/// [builder](crate::ClientBuilder), options of one call are methods of [`Call`](crate::client::Call), which is sent when it
/// is awaited:
///
/// ```no_run
/// use std::time::Duration;
///
/// use turms::types::{CreateMessageResult, ElicitResult};
/// use turms::{Backoff, ChildCommand, Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::builder("my-app", "1.0.0")
///     .timeout(Duration::from_secs(10))
///     // Also retries calls that are safe to repeat: see `RetryPolicy`.
///     .reconnect(Backoff::new().max_attempts(20))
///     // Handlers for requests of the server: a form for the user, and a completion by the model.
///     .on_form(|form, _| async move {
///         println!("{}", form.message);
///         Ok(ElicitResult::accept(serde_json::json!({ "sure": true }))?)
///     })
///     .on_sampling(|_, _| async { Ok(CreateMessageResult::assistant("Paris", "my-model")) })
///     .connect_command(ChildCommand::new("notebook"))
///     .await?;
/// let report = client.call_tool("report", ()).on_progress(|report| println!("{}", report.progress)).await?;
/// let mut changes = client.subscribe("note://todo").await?;
/// while let Some(change) = changes.next().await {
///     println!("{change:?}");
/// }
/// # let _ = report;
/// # Ok(())
/// # }
/// ```
///
/// With the feature `http-client`, `connect_http(url)` and `connect(HttpConnector::new(url)?)` take the place of
/// `connect_command`.
#[cfg(feature = "client")]
pub mod client {
    #[doc(inline)]
    pub use turms_client::*;
}

/// Servers for the Model Context Protocol: tools, resources, prompts, tasks and extensions.
///
/// Start with [`Server::new`](crate::Server::new). An [`Endpoint`](crate::server::Endpoint) serves your own
/// [`Service`](crate::layer::Service).
#[cfg(feature = "server")]
pub mod server {
    #[doc(inline)]
    pub use turms_core::{Endpoint, EndpointInfo, IntoEndpoint, Limits, Shutdown};
    #[doc(inline)]
    pub use turms_server::*;
}

/// HTTP for servers and clients: Streamable HTTP of every revision, and the HTTP+SSE transport of 2024-11-05.
///
/// - A server listens by itself (`serve_http`, or a `Listener` for more options), or is mounted in an axum or hyper
///   application as an `HttpService`. Only loopback hosts are accepted unless `HttpService::allowed_hosts` names others.
/// - Handlers can read the HTTP request of their call: they extract its `HeaderMap`, and as an `Extension` its `Uri`, its
///   `PeerAddress` and each value that middleware of the application has inserted into the extensions of the request.
///   Middleware that checks tokens inserts a `Principal`; see `HttpService` for an example.
/// - A client connects with `connect_http(url)`, or with an `HttpConnector`, which has options: headers, an `Authorizer`
///   such as `BearerToken`, timeouts, a proxy.
#[cfg(any(feature = "http-client", feature = "http-server"))]
pub mod http {
    #[doc(no_inline)]
    pub use ::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
    #[doc(inline)]
    pub use turms_http::*;
}

/// WebSocket for servers and clients: subprotocol `mcp`, one message per text frame.
///
/// The items correspond to those of `http`: `serve_ws` and `WsService` for a server, `connect_ws` and `WsConnector` for a
/// client.
#[cfg(any(feature = "ws-client", feature = "ws-server"))]
pub mod ws {
    #[doc(inline)]
    pub use turms_ws::*;
}

/// Authorization: logins of clients, token stores, the token guard of servers, and each step of OAuth as a function.
///
/// A client logs in with an `OAuth` value, which is an authorizer of `HttpConnector`. A server checks tokens with a `TokenGuard`.
/// [`SigningKey`](crate::oauth::SigningKey) and [`JwkSet`](crate::oauth::JwkSet) are the keys of both.
#[cfg(any(feature = "oauth-client", feature = "oauth-server"))]
pub mod oauth {
    #[doc(inline)]
    pub use turms_oauth::*;
}

/// The types of the protocol: parameters and results of every revision, and a marker type for every
/// [`Method`](crate::types::Method).
pub mod types {
    #[doc(inline)]
    pub use turms_proto::method::{Method, NotificationMethod};
    #[doc(inline)]
    pub use turms_proto::revision::{Translate, UnknownVersionError, UnsupportedFeatureError};
    #[doc(inline)]
    pub use turms_proto::types::*;
    #[doc(inline)]
    pub use turms_proto::uri_template::TemplateError;
    #[doc(inline)]
    pub use turms_proto::{
        Ability, CanonicalError, DecodeError, DecodeErrorKind, EncodeError, Members, Number, Object, RawJson,
        SyntaxError, SyntaxErrorKind,
    };
}

/// JSON-RPC: messages, ids and error codes.
pub mod jsonrpc {
    #[doc(inline)]
    pub use turms_proto::MethodName;
    #[doc(inline)]
    pub use turms_proto::jsonrpc::{
        ErrorCode, ErrorObject, Message, MessageError, MessageErrorKind, Notification, ProgressToken, Request,
        RequestId, Response,
    };
}

/// Services and layers: timeouts, limits, tracing, and your own middleware.
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
        BoxFuture, CallContext, CallResult, ClientRecord, ErrorOrigin, NotifyFuture, Payload, Peer, PeerError, Remote,
        Request, ResponseFuture, Service, ServiceError, SessionHandle, SessionState,
    };
    #[doc(inline)]
    pub use turms_proto::session::{Dialect, RequestOptions};
}

/// The stores of a server, for state that outlives a request: sessions, the events of their streams, and tasks.
pub mod store {
    #[doc(inline)]
    pub use turms_core::BoxFuture;
    #[doc(inline)]
    pub use turms_core::store::*;
}

/// Connections and connectors: stdio, child processes, byte streams, and your own connectors.
pub mod transport {
    #[doc(inline)]
    pub use turms_core::transport::*;
    #[doc(inline)]
    pub use turms_core::{
        BoxFuture, CallClock, CallObserver, Channel, ChannelControl, ClockPause, ClockPauses, CloseInfo, CloseReason,
        ConnectContext, ConnectError, Connection, ConnectionError, ConnectionHandle, Connector, CountedRequest,
        Counters, DropCause, HandshakeError, InboundStream, Limits, ObservedCall, OpenChannel, OutgoingRequest,
        PeerError, PeerTransport, ServerUrl, TransportInfo, TransportKind, UrlTransport,
    };
    #[doc(inline)]
    pub use turms_proto::session::{ClientOptions, Dialect, Negotiated, OpenError, RequestOptions};
}

/// A registry of services by name: register, call, notify, list and check them.
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
    Router, Server, ServerExtension, ServerHandle, Session, State, SyncHandler, TaskOptions, Tool, ToolBuilder,
    ToolError,
};
// Used by the code that the attribute macros generate, and named in compile errors.
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

/// Common imports: `use turms::prelude::*;`.
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

/// Crates used by the code that the attribute macros generate. Not part of the API.
#[cfg(feature = "server")]
#[doc(hidden)]
pub mod __private {
    pub use {schemars, serde};
}

#[cfg(all(doctest, feature = "http"))]
#[doc = include_str!("../../../README.md")]
mod readme {}

#[cfg(all(doctest, feature = "http", feature = "oauth"))]
#[doc = include_str!("../../../docs/authorization.md")]
mod authorization {}

/// Runs the examples in the READMEs of the re-exported crates as doc tests.
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
