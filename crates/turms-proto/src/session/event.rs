use std::time::Duration;

use super::running::Ticket;
use crate::types::{DiscoverResult, Meta, ProgressParams};
use crate::{ErrorObject, Message, Notification, ProtocolVersion, RawJson, Request, RequestId, Response};

/// In which of its two dialects a message of the peer's is to be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// As agreed in a handshake, for the whole connection.
    Handshake(ProtocolVersion),
    /// As the message says for itself.
    Stateless(ProtocolVersion),
}

impl Dialect {
    /// The revision.
    #[must_use]
    pub fn version(self) -> ProtocolVersion {
        match self {
            Self::Handshake(version) | Self::Stateless(version) => version,
        }
    }
}

/// A request of the peer's, to be answered through its ticket.
#[derive(Debug)]
#[non_exhaustive]
pub struct Call {
    /// The request.
    pub request: Request,
    /// How to understand it. For `initialize` this is the revision that was chosen.
    pub dialect: Dialect,
    /// How to answer it.
    pub ticket: Ticket,
    /// The `_meta` of its parameters, if that is an object.
    pub meta: Option<Meta>,
}

impl Call {
    /// Copies what it holds, so that it does not keep the message in memory that it was read from.
    pub fn detach(&mut self) {
        self.request.detach();
        if self.meta.is_some() {
            let meta = self.request.params.as_ref().and_then(RawJson::meta);
            self.meta = meta.and_then(RawJson::into_object).map(Meta::from);
        }
    }
}

/// Something that came of a message or of time passing.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<T> {
    /// Send this.
    Send(Message),
    /// Send this as one array.
    SendBatch(Vec<Response>),
    /// The connection is open: requests may be made.
    Opened(Box<Opened>),
    /// The connection could not be opened.
    OpenFailed(OpenError),
    /// A request of the peer, to be answered with [`Session::answer`](super::Session::answer). From
    /// [`Session::receive_call`](super::Session::receive_call) only a request of a batch, or one that has ended a session.
    Request(Box<Call>),
    /// The peer tells.
    Notification(Notification),
    /// The peer has answered.
    Answered {
        /// What the request was made with.
        owner: T,
        /// Its id.
        id: RequestId,
        /// The result, or why there is none.
        outcome: Result<RawJson, RequestError>,
    },
    /// A request of ours has come further.
    Progress {
        /// Its id.
        id: RequestId,
        /// How far.
        params: ProgressParams,
    },
    /// The peer tells something that belongs to a listen request of ours.
    Told {
        /// The request.
        id: RequestId,
        /// What.
        notification: Notification,
    },
    /// The peer does not wait for this answer any more: stop, and answer nothing.
    Cancelled {
        /// The request.
        ticket: Ticket,
        /// Why, for people.
        reason: Option<String>,
    },
    /// The client has sent `initialize` again: the session so far has ended, and whatever belongs to it ends with it. The events
    /// of what was running and pending in it come before this one, the [`Event::Request`] of `initialize` after it.
    SessionEnded,
}

/// Whom a client talks to, and how.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Opened {
    /// How.
    pub dialect: Dialect,
    /// What the server told of itself; `None` if the dialect was known and nobody asked.
    pub server: Option<DiscoverResult>,
}

impl Opened {
    /// A server that is spoken to in this dialect.
    #[must_use]
    pub fn new(dialect: Dialect, server: Option<DiscoverResult>) -> Self {
        Self { dialect, server }
    }
}

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The peer refused, or failed.
    #[error("the peer answered with an error")]
    Peer(#[source] Box<ErrorObject>),
    /// The peer's answer is not one.
    #[error("the peer's answer is not valid: {0}")]
    Invalid(String),
    /// The response was longer than the limit, so it was not read. The request may have run.
    #[error(
        "the response is longer than the limit of {limit} bytes: raise message_limit of the connector, or max_message_bytes of the connection"
    )]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// The peer did not answer in time, nor report progress.
    #[error("no answer within {0:?} (timeout)")]
    TimedOut(Duration),
    /// The peer did not answer within the time that progress does not renew.
    #[error("no answer within {0:?} (max_duration)")]
    MaxDuration(Duration),
    /// The connection is closed.
    #[error("the connection was closed before the answer came")]
    Closed,
}

impl RequestError {
    /// Whether the peer did not answer in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut(_) | Self::MaxDuration(_))
    }

    /// Whether the connection was closed first.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }
}

/// Why a connection could not be opened.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no revision that both sides speak.
    #[error("no common protocol version: the server speaks {}, this client {}", list(theirs), list(ours))]
    NoCommonVersion {
        /// What the server speaks.
        theirs: Vec<String>,
        /// What we speak.
        ours: Vec<String>,
    },
    /// The server does not know `server/discover`, and we were told not to fall back.
    #[error("the server speaks only older revisions, and this client was told to speak {}", list(ours))]
    OnlyOlder {
        /// What we were told to speak.
        ours: Vec<String>,
        /// What the server said, if anything.
        #[source]
        refusal: Option<Box<ErrorObject>>,
    },
    /// The server refused the handshake.
    #[error("the server refused the handshake")]
    Refused(#[source] Box<ErrorObject>),
    /// The server's answer to the handshake is not one.
    #[error("the server's answer to the handshake is not valid: {0}")]
    Invalid(String),
    /// The server did not answer in time.
    #[error("the server did not answer within the handshake timeout")]
    TimedOut,
    /// The connection was closed first.
    #[error("the connection was closed before it was open")]
    Closed,
}

fn list(versions: &[String]) -> String {
    if versions.is_empty() { "none".to_owned() } else { versions.join(", ") }
}

/// Why something cannot be done on a connection as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The connection is not open yet.
    #[error("the connection is not open yet")]
    NotReady,
    /// The connection is closed.
    #[error("the connection is closed")]
    Closed,
    /// The peer's revision has no requests by the server.
    #[error("a server cannot send requests in this revision of the protocol")]
    NoServerRequests,
}
