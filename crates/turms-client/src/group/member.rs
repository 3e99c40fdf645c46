use std::fmt;
use std::sync::Arc;

use turms_core::__internal::debug_error;
use turms_core::{ConnectError, Connector};
use turms_proto::ProtocolVersion;
use turms_proto::types::Implementation;

use super::list_cache::{ListCache, ListKind};
use super::naming::Naming;
use crate::call::error::{CallError, CallErrorKind, ClosedCause};
use crate::client::Client;
use crate::config::{EntryError, ServerEntry};
use turms_proto::session::ConnectionStatus;

/// A server of a group and its state.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GroupMember {
    /// The name of the server in the group.
    pub name: String,
    /// The prefix of its tools and prompts, if names have prefixes.
    pub prefix: Option<String>,
    /// The state of the connection; `Closed` if the server was never connected.
    pub status: ConnectionStatus,
    /// The negotiated protocol version.
    pub version: Option<ProtocolVersion>,
    /// The name and version that the server reports. For display and logs.
    pub info: Option<Implementation>,
    /// The error of a server that is not connected, or could not be listed.
    pub failure: Option<GroupError>,
}

/// Error of one server of a group.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The configuration entry of the server is invalid.
    #[error(transparent)]
    Entry(Arc<EntryError>),
    /// The server could not be reached.
    #[error(transparent)]
    Connect(ConnectError),
    /// The server is connected, but the last attempt to read its lists failed.
    #[error(transparent)]
    List(CallError),
    /// The connection was lost; the client reconnects.
    #[error("connection lost; reconnecting")]
    Reconnecting,
    /// The connection has closed.
    #[error("connection closed")]
    Disconnected,
    /// The group has no server of this name.
    #[error("the group has no server of this name")]
    Unknown,
    /// The group has a server of this name already.
    #[error("the group has a server of this name already")]
    NameTaken,
    /// The server was added as a client, so the group cannot connect it again.
    #[error("the server was added as a client; the group cannot connect it again")]
    ConnectedElsewhere,
    /// The group is closed.
    #[error("the group is closed")]
    Closed,
}

debug_error! {
    GroupError {
        Entry(error),
        Connect(error),
        List(error),
        Reconnecting,
        Disconnected,
        Unknown,
        NameTaken,
        ConnectedElsewhere,
        Closed,
    }
}

impl GroupError {
    /// Returns `true` if the configuration has to be corrected before the server can be reached.
    #[must_use]
    pub fn is_misconfigured(&self) -> bool {
        matches!(self, Self::Entry(_))
    }

    /// Returns `true` if the server did not respond in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::Connect(error) => error.is_timeout(),
            Self::List(error) => error.is_timeout(),
            _ => false,
        }
    }

    /// Returns the error of a call to the server.
    pub(super) fn call_error(&self, server: &str) -> CallErrorKind {
        match self {
            Self::Connect(error) => CallErrorKind::Closed(ClosedCause::NotConnected(Some(error.clone()))),
            Self::Entry(error) => {
                let unreachable = ConnectError::unreachable(format!("server {server:?}"), error.clone());
                CallErrorKind::Closed(ClosedCause::NotConnected(Some(unreachable)))
            }
            _ => CallErrorKind::Closed(ClosedCause::NotConnected(None)),
        }
    }
}

/// The source of a server in the group.
#[derive(Clone)]
pub(super) enum Origin {
    Connector(Arc<dyn Connector>),
    /// A configuration entry. Its connector is made for each connection attempt.
    Entry(Arc<ServerEntry>),
    /// An invalid configuration entry.
    InvalidEntry(Arc<EntryError>),
    /// A connected client, which the group cannot reconnect.
    Client,
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connector(connector) => f.debug_tuple("Connector").field(&connector.identity()).finish(),
            Self::Entry(entry) => f.debug_tuple("Entry").field(entry).finish(),
            Self::InvalidEntry(error) => f.debug_tuple("InvalidEntry").field(error).finish(),
            Self::Client => f.write_str("Client"),
        }
    }
}

/// A server of a group.
pub(super) struct MemberEntry {
    /// The id of this entry. A server that is added under the same name later gets another.
    pub(super) id: u64,
    /// The id of the client. It changes when the server is reconnected with a new client.
    pub(super) client_id: u64,
    pub(super) name: Arc<str>,
    /// The prefix of its tools and prompts; empty if names have no prefixes.
    pub(super) prefix: Arc<str>,
    pub(super) origin: Origin,
    pub(super) client: Option<Client>,
    pub(super) failure: Option<GroupError>,
    pub(super) lists: Arc<ListCache>,
}

/// A server that calls can be sent to.
#[derive(Clone)]
pub(super) struct MemberRef {
    pub(super) client_id: u64,
    pub(super) name: Arc<str>,
    pub(super) prefix: Arc<str>,
    pub(super) client: Client,
    pub(super) lists: Arc<ListCache>,
    /// `true` if the server is connected, `false` if it is reconnecting or closed.
    pub(super) is_up: bool,
}

impl MemberEntry {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn client(&self) -> Option<&Client> {
        self.client.as_ref()
    }

    pub(super) fn status(&self) -> ConnectionStatus {
        self.client.as_ref().map_or(ConnectionStatus::Closed, Client::status)
    }

    pub(super) fn failure(&self) -> Option<GroupError> {
        if let Some(failure) = &self.failure {
            return Some(failure.clone());
        }
        match self.status() {
            ConnectionStatus::Ready => self.lists.failure().cloned().map(GroupError::List),
            ConnectionStatus::Closed => Some(GroupError::Disconnected),
            _ => Some(GroupError::Reconnecting),
        }
    }

    /// Returns a reference to the server, or the error of a call if it has no client.
    pub(super) fn reference(&self) -> MemberResult {
        let Some(client) = self.client.clone() else {
            let why = self.failure.as_ref().map(|failure| failure.call_error(&self.name));
            return Err(Box::new((
                self.name.clone(),
                why.unwrap_or(CallErrorKind::Closed(ClosedCause::NotConnected(None))),
            )));
        };
        let (name, prefix, lists) = (self.name.clone(), self.prefix.clone(), self.lists.clone());
        let is_up = client.status() == ConnectionStatus::Ready;
        Ok(MemberRef { client_id: self.client_id, name, prefix, client, lists, is_up })
    }

    /// Returns `true` if the server may have such a list, or its capabilities are not known.
    pub(super) fn offers(&self, kind: ListKind) -> bool {
        let capabilities = self.client.as_ref().and_then(Client::server_capabilities);
        capabilities.is_none_or(|capabilities| kind.is_offered(&capabilities))
    }

    pub(super) fn member(&self, naming: &Naming) -> GroupMember {
        GroupMember {
            name: self.name.to_string(),
            prefix: naming.is_prefixed().then(|| self.prefix.to_string()),
            status: self.status(),
            version: self.client.as_ref().and_then(Client::protocol_version),
            info: self.client.as_ref().and_then(Client::server_info),
            failure: self.failure(),
        }
    }
}

/// A server, or the name of a server without a client and the error of a call to it.
pub(super) type MemberResult = Result<MemberRef, Box<(Arc<str>, CallErrorKind)>>;
