//! Clients for the Model Context Protocol: one face for every revision, every transport, one server or many.
//!
//! [`Client::builder`] is where to begin. A [`Client`] is connected to a child process, a byte stream or a service in this
//! process, finds out which revision the server speaks, and offers the same operations for all of them.

mod answer;
mod app;
mod batch;
mod builder;
mod cache;
mod call;
mod cancel;
mod client;
mod config;
mod ear;

mod event;
mod extension;
mod fleet;
mod hearing;
mod job;
mod listen;
mod memory;
mod operation;
mod options;
mod page;
mod pending;
mod pool;
mod roots;
mod single;
#[cfg(feature = "skills")]
mod skill;
mod state;
mod supervision;
mod task;
mod tool;

pub use self::answer::{Answers, Refusal};
pub use self::batch::{Batch, BatchOutcomes, Slot};
pub use self::builder::ClientBuilder;
pub use self::call::error::{
    CallError, CallErrorKind, ClosedCause, DecodeCause, Delivery, InputCause, NoServerCause, TaskCause, TimeoutCause,
    UnsupportedCause,
};
pub use self::cancel::Cancel;
pub use self::client::Client;
pub use self::config::{
    Config, ConfigError, ConfigProblem, EntryError, EntryProblem, EnvFileError, Place, PlaceScope, Platform, ReadError,
    ServerEntry, Source, Target, known_places,
};
pub use self::event::{BreakerState, ConnectionEvent, Event, Events};
pub use self::extension::ClientExtension;
pub use self::fleet::{Collision, CollisionKind, Fleet, FleetBuilder, FleetEvents, Member, MemberError};
pub use self::listen::{Change, Subscription};
pub use self::memory::VersionMemory;
pub use self::operation::{Operation, OperationFuture};
pub use self::page::Items;
pub use self::pool::{Lease, MemberId, MemberStats, Pool, PoolBuilder, PoolError, PoolStats, Strategy};
pub use self::roots::Roots;
#[cfg(feature = "skills")]
pub use self::skill::SkillError;
pub use self::state::{PendingCall, Status};
pub use self::supervision::{Backoff, Breaker, HealthCheck, Retry, Supervision};
pub use self::task::TaskHandle;

pub use turms_core::transport::ChildCommand;
pub use turms_core::{ConnectError, Ended, UrlTransport};
pub use turms_proto::session::VersionChoice;
