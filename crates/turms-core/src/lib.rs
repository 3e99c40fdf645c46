//! The core of Turms: services, call contexts, connections and transports.
//!
//! - A [`Service`] responds to a [`Request`] in a [`CallContext`] with a [`Payload`].
//! - A [`Connection`] runs the protocol over a byte stream, as server or client, and passes incoming calls to a
//!   service.
//! - [`layer`] has layers around a service: timeouts, limits, tracing.
//! - A [`Connector`] opens [`Channel`]s for a client: to a child process, over a byte stream, or to an in-process
//!   service.
//! - [`registry`] finds services by name.
//! - [`store`] has the stores of sessions, events and tasks.
//! - [`transport`] has stdio, child processes, byte streams and in-memory pipes.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod blocking;
mod cancellation;
mod channel;
mod clock;
mod connect_client;
mod connection;
mod context;
mod counters;
mod dispatch;
mod endpoint;
mod error;
#[doc(alias = "middleware")]
#[doc(alias = "tower")]
#[doc(alias = "interceptor")]
pub mod layer;
mod limits;
mod panic_guard;
mod payload;
mod peer;
mod principal;
mod random;
pub mod registry;
mod service;
mod service_error;
mod session;
mod shutdown;
pub mod store;
mod text;
pub mod transport;
mod url;

/// For other crates of Turms. Not part of the API.
#[doc(hidden)]
pub mod __internal {
    pub use crate::__debug_error as debug_error;
    pub use crate::__into_error as into_error;
    pub use crate::blocking::run_blocking;
    pub use crate::channel::write_params;
    pub use crate::connect_client::ConnectClient;
    pub use crate::connection::LineExtensions;
    pub use crate::context::RequestInfo;
    pub use crate::dispatch::{
        Dispatch, dispatch, dispatch_in_process, dispatch_notification, encode_response, notification_guard,
        write_response,
    };
    pub use crate::error::debug_report;
    pub use crate::panic_guard::{HandlerPanicked, PanicGuard};
    pub use crate::random::{is_random_id, random_bytes, random_id};
    pub use crate::service_error::too_many_in_flight;
    pub use crate::text::{error_chain, escape_control};
}

pub use self::cancellation::CancellationToken;
pub use self::channel::{
    CallObserver, Channel, ChannelControl, CloseInfo, ConnectContext, ConnectError, Connector, DropCause,
    InboundStream, ObservedCall, OpenChannel, OutgoingRequest, TransportInfo,
};
pub use self::clock::{CallClock, ClockPause, ClockPauses};
pub use self::connection::{Connection, ConnectionError, ConnectionHandle, HandshakeError};
pub use self::context::{CallContext, Remote};
pub use self::counters::{CountedRequest, Counters};
pub use self::endpoint::{Endpoint, EndpointInfo, IntoEndpoint};
pub use self::error::{Error, ErrorKind, Result};
pub use self::limits::Limits;
pub use self::payload::Payload;
pub use self::peer::{BoxFuture, Peer, PeerError, PeerTransport};
pub use self::principal::{InsufficientScopeError, Principal};
pub use self::service::{CallResult, NotifyFuture, Request, ResponseFuture, Service};
pub use self::service_error::{ErrorOrigin, ServiceError};
pub use self::session::{ClientRecord, CloseReason, SessionHandle, SessionState};
pub use self::shutdown::Shutdown;
pub use self::url::{ServerUrl, TransportKind, UrlTransport};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
