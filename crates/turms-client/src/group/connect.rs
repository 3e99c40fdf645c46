//! Connecting and reconnecting the servers of a group.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::sync::Semaphore;
use turms_core::Connector;

use super::backend::GroupShared;
use super::member::{GroupError, Origin};
use crate::call::SessionCall;
use crate::call::options::CallOptions;
use crate::client::Client;
use crate::members::send;

impl GroupShared {
    /// Connects to several servers, at most `limit` concurrently.
    pub(super) async fn connect_all(&self, names: &[String], limit: usize) {
        let permits = &Semaphore::new(limit);
        let connecting = names.iter().map(|name| async move {
            let _permit = permits.acquire().await;
            if let Err(error) = self.connect(name).await {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(target: "turms::client", server = ?name, error, "the server is not there");
            }
        });
        join_all(connecting).await;
    }

    /// Connects to one server.
    pub(super) async fn connect(&self, name: &str) -> Result<(), GroupError> {
        let (id, origin) = self.members.lock().origin_of(name)?;
        let client = match self.open(name, &origin).await {
            Ok(client) => client,
            Err(error) => {
                self.members.lock().fail(id, name, error.clone());
                return Err(error);
            }
        };
        self.restore(name, &client).await;
        // A variable, so that the lock is released before the `await`s below.
        let replaced = self.members.lock().set_client(id, name, client);
        match replaced {
            Ok(None) => Ok(()),
            Ok(Some(unused)) => {
                unused.close().await;
                Ok(())
            }
            Err((client, error)) => {
                client.close().await;
                Err(error)
            }
        }
    }

    async fn open(&self, name: &str, origin: &Origin) -> Result<Client, GroupError> {
        let connector: Arc<dyn Connector> = match origin {
            Origin::Connector(connector) => connector.clone(),
            Origin::Entry(entry) => (self.connectors)(name, entry).map_err(GroupError::Connect)?,
            Origin::InvalidEntry(error) => return Err(GroupError::Entry(error.clone())),
            Origin::Client => return Err(GroupError::ConnectedElsewhere),
        };
        let builder = self.builder.clone().server_name(name);
        builder.connect_within(connector, Some(self.connect_timeout)).await.map_err(GroupError::Connect)
    }

    /// Sets the log level and the resource subscriptions of the group on a newly connected server.
    async fn restore(&self, name: &str, client: &Client) {
        let (level, watched) = {
            let members = self.members.lock();
            let watched = members.watches.iter().filter(|watch| watch.servers.iter().any(|server| **server == *name));
            (members.log_level, watched.map(|watch| watch.uri.clone()).collect::<Vec<_>>())
        };
        let logs = client.server_capabilities().is_none_or(|capabilities| capabilities.logging.is_some());
        let options = CallOptions::default();
        let mut restored = Vec::new();
        if let Some(level) = level.filter(|_| logs) {
            restored.push(send(client, SessionCall::SetLogLevel(level), &options).await);
        }
        for uri in watched {
            restored.push(send(client, SessionCall::Subscribe(uri), &options).await);
        }
        for error in restored.into_iter().filter_map(Result::err) {
            tracing::warn!(target: "turms::client", server = ?name, %error, "could not be restored after reconnecting");
        }
    }
}
