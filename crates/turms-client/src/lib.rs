//! Clients for the Model Context Protocol: for every revision and transport, for one server or many.
//!
//! Start with [`Client::builder`]. A [`Client`] connects to a child process, a byte stream or an in-process service, or
//! through any other connector. It negotiates the protocol revision, and has the same API for all revisions.
//!
//! # Features
//!
//! | feature | default | enables |
//! |---|---|---|
//! | `skills` | | operations on skills, and `SkillError` |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod app;
mod backend;
mod batch;
mod builder;
mod call;
mod client;
mod config;
mod connection;
mod control;
mod event;
mod extension;
mod group;
mod handler_error;
mod handlers;
mod incoming;
mod into_error;
mod layer;
mod members;
mod operations;
mod page;
mod pool;
mod reconnect;
mod request_context;
mod roots;
mod service;
#[cfg(feature = "skills")]
mod skill;
mod state;
mod subscription;
mod task;
mod tool_index;
mod version_cache;

pub use self::batch::{Batch, BatchCall, BatchResults};
pub use self::builder::ClientBuilder;
pub use self::call::error::{
    CallError, CallErrorKind, ClosedCause, DecodeCause, Delivery, InputCause, NoServerCause, TaskCause, TimeoutCause,
    UnsupportedCause,
};
pub use self::call::{Call, CallFuture};
pub use self::client::Client;
pub use self::config::{
    ConfigApp, ConfigError, ConfigErrorKind, ConfigFile, ConfigScope, EntryError, EntryErrorKind, McpConfig, Platform,
    ServerEntry, ServerTarget, known_config_files,
};
pub use self::event::{BreakerState, ConnectionEvent, Event, Events};
pub use self::extension::ClientExtension;
pub use self::group::{
    ClientGroup, ClientGroupBuilder, Collision, CollisionKind, GroupError, GroupEvents, GroupMember,
};
pub use self::handler_error::HandlerError;
pub use self::page::Items;
pub use self::pool::{MemberId, MemberStats, Pool, PoolBuilder, PoolError, PoolStats, PoolStrategy, PooledClient};
pub use self::reconnect::{Backoff, CircuitBreaker, HealthCheck, RetryPolicy};
pub use self::request_context::{RequestContext, RequestProgress};
pub use self::roots::Roots;
#[cfg(feature = "skills")]
pub use self::skill::SkillError;
pub use self::state::{ClientStats, PendingCall};
pub use self::subscription::{Change, Subscription};
pub use self::task::TaskHandle;
pub use self::version_cache::VersionCache;

pub use turms_core::transport::ChildCommand;
pub use turms_core::{CancellationToken, CloseInfo, ConnectError, TransportKind};
pub use turms_proto::session::{ConnectionStats, ConnectionStatus, VersionChoice};
