//! A toolkit for the Model Context Protocol. This crate is the one to name in `Cargo.toml`: it has no code of its own, and
//! brings together the crates that have.
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
//! - What a function may take beside its arguments implements [`FromCall`]; what it may return implements
//!   [`IntoCallToolResult`], [`IntoGetPromptResult`] or [`IntoReadResourceResult`]. [`ToolError`] is for functions that meet errors of
//!   several types; with the feature `anyhow` it looks into every `anyhow::Error`, too.
//! - A [`Client`] talks to servers of every revision: see [`client`].
//! - Extensions of the protocol are [`ServerExtension`]s and [`ClientExtension`]s; those of your own as well.
//! - With the feature `http`, servers are reached over HTTP (`serve_http`, or `http` to mount them into an application) and
//!   clients connect to URLs (`connect_http`, `http::HttpConnector` with options, and `http::HttpTransport` for those of a configuration). The feature `ws`
//!   does the same for WebSocket, `tls` lets servers listen with a certificate, and `http2` lets them speak HTTP/2 without one.
//! - Pages that hosts show are [`App`]s; a client that is a host says so with [`ClientBuilder::enable_apps`].
//! - With the feature `skills`, servers have skills for models (`Skills`), and clients list, read and verify them.
//! - The features `client` and `server` are on unless `default-features = false` turns them off: a program that is only one of
//!   the two builds without the other.
//! - [`types`] has the types of the protocol; [`proto`] and [`core`] the layers below.
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

#[cfg(feature = "client")]
#[doc(no_inline)]
pub use turms_client as client;
#[cfg(feature = "client")]
pub use turms_client::{Backoff, ChildCommand, Client, ClientBuilder, ClientExtension, ClientGroup, Pool};
#[doc(no_inline)]
pub use turms_core as core;
pub use turms_core::{Error, ErrorKind, Result};
#[cfg(any(feature = "http-client", feature = "http-server"))]
#[doc(no_inline)]
pub use turms_http as http;
#[cfg(feature = "http-client")]
pub use turms_http::ConnectHttp;
#[cfg(feature = "http-server")]
pub use turms_http::ServeHttp;
#[doc(no_inline)]
pub use turms_proto as proto;
#[doc(no_inline)]
pub use turms_proto::types;
#[cfg(feature = "server")]
pub use turms_server::{
    App, Apps, Args, BuildError, CallParts, CancellationToken, ClientInfo, CloseReason, CompletionRequest, Component,
    ComponentError, Context, Elicited, Extension, ExtensionBuilder, FromCall, Handler, Handlers, InputCall, InputError,
    IntoCallToolResult, IntoCompletion, IntoGetPromptResult, IntoPrompt, IntoReadResourceResult, IntoResource,
    IntoTool, Json, ListKind, LogCall, Principal, Progress, ProgressReport, Prompt, PromptBuilder, RegistrationError,
    Rejection, RequestStateKey, Resource, ResourceBuilder, ResourceUri, Router, SchemaError, Server, ServerExtension,
    ServerHandle, Session, State, SyncHandler, TaskOptions, Tool, ToolBuilder, ToolError, testing,
};
// What the attributes write refers to, and compile errors name.
#[cfg(feature = "server")]
#[doc(hidden)]
pub use turms_server::{Argument, Arguments, FormType};

#[cfg(all(feature = "server", feature = "skills"))]
pub use turms_server::{Skill, SkillError, Skills};
#[cfg(feature = "ws")]
#[doc(no_inline)]
pub use turms_ws as ws;
#[cfg(all(feature = "client", feature = "ws"))]
pub use turms_ws::ConnectWs;
#[cfg(all(feature = "server", feature = "ws"))]
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

/// What most servers name: `use turms::prelude::*;`.
pub mod prelude {
    #[cfg(feature = "http-client")]
    #[doc(no_inline)]
    pub use crate::ConnectHttp as _;
    #[cfg(all(feature = "client", feature = "ws"))]
    #[doc(no_inline)]
    pub use crate::ConnectWs as _;
    #[cfg(feature = "http-server")]
    #[doc(no_inline)]
    pub use crate::ServeHttp;
    #[cfg(all(feature = "server", feature = "ws"))]
    #[doc(no_inline)]
    pub use crate::ServeWs;
    #[doc(no_inline)]
    pub use crate::proto::ErrorObject;
    #[doc(no_inline)]
    pub use crate::types::{
        CallToolResult, Completion, Content, GetPromptResult, Meta, PromptMessage, ResourceContents,
    };
    #[cfg(feature = "server")]
    #[doc(no_inline)]
    pub use crate::{
        Args, CancellationToken, ClientInfo, CompletionRequest, Context, Elicited, Extension, Json, Principal,
        Progress, Prompt, Resource, Server, State, Tool, ToolError, handlers, prompt, resource, tool,
    };
}

/// What the attributes write refers to. Not for use by hand.
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
