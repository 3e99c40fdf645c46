//! Servers for the Model Context Protocol: tools, resources, prompts, tasks and extensions.
//!
//! A server consists of plain functions, and serves clients of every protocol revision:
//!
//! ```no_run
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use turms_server::{Args, Server, Tool};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     a: f64,
//!     b: f64,
//! }
//!
//! # async fn example() -> Result<(), turms_core::Error> {
//! let add = Tool::builder("add")
//!     .description("Adds two numbers.")
//!     .handler(|Args(add): Args<Add>| async move { add.a + add.b });
//! Server::new("calculator", "1.0.0").tool(add).serve_stdio().await
//! # }
//! ```
//!
//! # Logging
//!
//! Failed calls are reported as `tracing` events with the target `turms::server`: a panic or an internal error at level
//! error; a timeout, an exceeded limit or an unavailable dependency at level warn; an error of a handler or a missing scope
//! at level info; a rejected request at level debug. The fields are `method`, `tool` (or
//! `prompt`, `resource`), `session`, the request `id` and the error `code`; arguments and results are never logged.
//! Without a subscriber they cost nothing.
//!
//! # Features
//!
//! | feature | default | enables |
//! |---|---|---|
//! | `anyhow` | | `ToolError` finds protocol errors inside an `anyhow::Error` |
//! | `skills` | | `Skills`, the extension for skills |
//! | `tracing-subscriber-0_3` | | `ForwardTracing`, a layer for tracing-subscriber 0.3 |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod app;
mod build_error;
mod call_log;
mod catalog;
mod completion;
mod context;
mod current_call;
mod extension;
mod extract;
mod form;
#[cfg(feature = "tracing-subscriber-0_3")]
mod forward;
mod handle;
mod handler;
mod input;
mod input_call;
mod into_error;
mod layered;
mod prompt;
mod resource;
mod respond;
mod router;
mod schema;
mod seal;
mod sealed;
mod server;
mod session;
#[cfg(feature = "skills")]
mod skill;
mod subscriptions;
mod sync;
mod task;
mod text_arguments;
mod tool;
mod tool_error;
mod uri_spelling;

pub use self::app::{App, Apps};
pub use self::build_error::{BuildError, ComponentError};
pub use self::completion::CompletionRequest;
pub use self::context::{Context, Elicited, InputError};
pub use self::extension::{ExtensionBuilder, ServerExtension};
pub use self::extract::{Args, ClientInfo, Extension, Progress, State};
#[doc(hidden)]
pub use self::extract::{Argument, Arguments};
#[doc(hidden)]
pub use self::form::FormType;
#[cfg(feature = "tracing-subscriber-0_3")]
pub use self::forward::ForwardTracing;
pub use self::handle::{RegistrationError, ServerHandle};
pub use self::handler::{CallParts, FromCall, Handler, Rejection, SyncHandler};
pub use self::input_call::{InputCall, LogCall, ProgressReport};
pub use self::prompt::{IntoPrompt, Prompt, PromptBuilder};
pub use self::resource::{IntoResource, Resource, ResourceBuilder, ResourceUri};
pub use self::respond::{IntoCallToolResult, IntoCompletion, IntoGetPromptResult, IntoReadResourceResult, Json};
pub use self::router::Router;
pub use self::seal::RequestStateKey;
pub use self::server::{Component, Handlers, Server};
pub use self::session::Session;
#[cfg(feature = "skills")]
pub use self::skill::{Skill, SkillError, Skills};
pub use self::subscriptions::ListKind;
pub use self::task::TaskOptions;
pub use self::tool::{IntoTool, Tool, ToolBuilder};
pub use self::tool_error::ToolError;
pub use turms_core::{CancellationToken, CloseReason, InsufficientScopeError, Principal};
