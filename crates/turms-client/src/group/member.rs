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
    /// Its name in the group.
    pub name: String,
    /// The prefix of its tools and prompts, if names have prefixes.
    pub prefix: Option<String>,
    /// The state of its connection. A server that was never reached is closed.
    pub status: ConnectionStatus,
    /// The protocol revision that is spoken.
    pub version: Option<ProtocolVersion>,
    /// The name and version of the server, as it says. For display and logs.
    pub info: Option<Implementation>,
    /// The reason that it is not usable, or not completely.
    pub failure: Option<GroupError>,
}

/// The error of a server of a group.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// Its entry in the configuration is wrong.
    #[error(transparent)]
    Entry(Arc<EntryError>),
    /// It could not be reached.
    #[error(transparent)]
    Connect(ConnectError),
    /// The server is connected, but its lists could not be read the last time.
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

    /// The error of a call to the server.
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

/// The origin of a server.
#[derive(Clone)]
pub(super) enum Origin {
    Connector(Arc<dyn Connector>),
    /// As a configuration says; what connects it is asked for each time.
    Entry(Arc<ServerEntry>),
    /// Not at all: what the configuration says is wrong.
    Broken(Arc<EntryError>),
    /// It came as a client.
    Elsewhere,
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connector(connector) => f.debug_tuple("Connector").field(&connector.identity()).finish(),
            Self::Entry(entry) => f.debug_tuple("Entry").field(entry).finish(),
            Self::Broken(error) => f.debug_tuple("Broken").field(error).finish(),
            Self::Elsewhere => f.write_str("Elsewhere"),
        }
    }
}

/// The entry of a server.
pub(super) struct MemberEntry {
    /// Tells it from another that had the same name before.
    pub(super) id: u64,
    /// Tells its client from another that it had before.
    pub(super) placed: u64,
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
    pub(super) placed: u64,
    pub(super) name: Arc<str>,
    pub(super) prefix: Arc<str>,
    pub(super) client: Client,
    pub(super) lists: Arc<ListCache>,
    /// It is connected now, and not only about to be again.
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

    pub(super) fn reference(&self) -> Found {
        let Some(client) = self.client.clone() else {
            let why = self.failure.as_ref().map(|failure| failure.call_error(&self.name));
            return Err(Box::new((
                self.name.clone(),
                why.unwrap_or(CallErrorKind::Closed(ClosedCause::NotConnected(None))),
            )));
        };
        let (name, prefix, lists) = (self.name.clone(), self.prefix.clone(), self.lists.clone());
        let is_up = client.status() == ConnectionStatus::Ready;
        Ok(MemberRef { placed: self.placed, name, prefix, client, lists, is_up })
    }

    /// Returns `true` if the server may have such a list. One that does not declare anything may have all.
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

/// A server that was found, or why it cannot be used.
pub(super) type Found = Result<MemberRef, Box<(Arc<str>, CallErrorKind)>>;
