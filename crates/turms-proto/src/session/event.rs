use std::time::Duration;

use super::running::Ticket;
use crate::types::{DiscoverResult, Meta, ProgressParams};
use crate::{
    ErrorObject, Message, Notification, ProtocolVersion, RawJson, Request, RequestId, Response, format_duration,
};

/// Dialect of a message: the revision, and how it was determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// Negotiated in a handshake, for the whole connection.
    Handshake(ProtocolVersion),
    /// Declared by the message itself.
    Stateless(ProtocolVersion),
}

impl Dialect {
    /// Returns the revision.
    #[must_use]
    pub fn version(self) -> ProtocolVersion {
        match self {
            Self::Handshake(version) | Self::Stateless(version) => version,
        }
    }
}

/// A request from the peer. Its ticket is used to respond.
#[derive(Debug)]
#[non_exhaustive]
pub struct Call {
    /// The request.
    pub request: Request,
    /// Dialect of the request. For `initialize`, this is the negotiated revision.
    pub dialect: Dialect,
    /// Ticket for the response.
    pub ticket: Ticket,
    /// The `_meta` of the parameters, if it is an object.
    pub meta: Option<Meta>,
}

impl Call {
    /// Copies the contents, so that they do not keep the buffer of the received message alive.
    pub fn detach(&mut self) {
        self.request.detach();
        if self.meta.is_some() {
            let meta = self.request.params.as_ref().and_then(RawJson::meta);
            self.meta = meta.and_then(RawJson::into_object).map(Meta::from);
        }
    }
}

/// An event that results from a message or a timeout.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<T> {
    /// A message to send.
    Send(Message),
    /// Responses to send as one array.
    SendBatch(Vec<Response>),
    /// The connection is open and accepts requests.
    Opened(Box<Negotiated>),
    /// The connection failed to open.
    OpenFailed(OpenError),
    /// A request from the peer, to be answered with [`Session::answer`](super::Session::answer).
    /// [`Session::receive_call`](super::Session::receive_call) emits it only for requests of a batch and requests that
    /// end a session.
    Request(Box<Call>),
    /// A notification from the peer.
    Notification(Notification),
    /// A response from the peer, or the failure of a request.
    Answered {
        /// The value that was passed with the request.
        owner: T,
        /// Id of the request.
        id: RequestId,
        /// The result or the error.
        outcome: Result<RawJson, RequestError>,
    },
    /// Progress of an own request.
    Progress {
        /// Id of the request.
        id: RequestId,
        /// The reported progress.
        params: ProgressParams,
    },
    /// A notification for an own listen request.
    SubscriptionNotification {
        /// Id of the listen request.
        id: RequestId,
        /// The notification.
        notification: Notification,
    },
    /// The peer cancelled a request: stop and do not respond.
    Cancelled {
        /// The request.
        ticket: Ticket,
        /// Human-readable reason.
        reason: Option<String>,
    },
    /// The client sent `initialize` again: the previous session and everything that belongs to it has ended. The
    /// events of its running and pending requests come before this one, and the [`Event::Request`] of `initialize`
    /// after it.
    SessionEnded,
}

/// The server that a client is connected to, and the negotiated dialect.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Negotiated {
    /// The negotiated dialect.
    pub dialect: Dialect,
    /// Description of the server; `None` if the dialect was already known and the server was not queried.
    pub server: Option<DiscoverResult>,
}

impl Negotiated {
    /// Creates an opened connection with this dialect.
    #[must_use]
    pub fn new(dialect: Dialect, server: Option<DiscoverResult>) -> Self {
        Self { dialect, server }
    }
}

/// Error of a request.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The peer responded with an error.
    #[error("error response")]
    Peer(#[source] Box<ErrorObject>),
    /// The response is invalid.
    #[error("invalid response: {0}")]
    Invalid(String),
    /// The response was longer than the limit, so it was not read. The request may have run.
    #[error(
        "the response is longer than the limit of {limit} bytes: raise max_message_bytes of the connector or of the connection"
    )]
    TooLong {
        /// The limit, in bytes.
        limit: usize,
    },
    /// No response and no progress within the timeout.
    #[error("no response within {} (timeout)", format_duration(*.0))]
    TimedOut(Duration),
    /// No response within the maximum duration, which progress does not extend.
    #[error("no response within {} (max_duration)", format_duration(*.0))]
    MaxDuration(Duration),
    /// The connection is closed.
    #[error("connection closed before the response")]
    Closed,
}

impl RequestError {
    /// Returns `true` if the request timed out.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut(_) | Self::MaxDuration(_))
    }

    /// Returns `true` if the connection was closed first.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }
}

/// Error of opening a connection.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The client and server have no common revision.
    #[error("no common protocol version: the server supports {}, this client {}", list(theirs), list(ours))]
    NoCommonVersion {
        /// Versions that the server supports.
        theirs: Vec<String>,
        /// Versions that the client supports.
        ours: Vec<String>,
    },
    /// The server does not support `server/discover`, and the client options forbid the handshake.
    #[error("the server supports only older revisions, and this client is set to {}", list(ours))]
    OnlyOlder {
        /// Versions that the client supports.
        ours: Vec<String>,
        /// Error response of the server, if there is one.
        #[source]
        refusal: Option<Box<ErrorObject>>,
    },
    /// The server rejected the handshake.
    #[error("the server rejected the handshake")]
    Refused(#[source] Box<ErrorObject>),
    /// The response to the handshake is invalid.
    #[error("invalid response to the handshake: {0}")]
    Invalid(String),
    /// The server did not respond in time.
    #[error("no response to the handshake within its timeout")]
    TimedOut,
    /// The connection closed first.
    #[error("connection closed during the handshake")]
    Closed,
}

fn list(versions: &[String]) -> String {
    if versions.is_empty() { "none".to_owned() } else { versions.join(", ") }
}

/// Error of an operation that the connection does not allow in its current state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The connection is not open yet.
    #[error("the connection is not open yet")]
    NotReady,
    /// The connection is closed.
    #[error("the connection is closed")]
    Closed,
    /// The revision does not allow requests from servers.
    #[error("a server cannot send requests in this revision of the protocol")]
    NoServerRequests,
}
