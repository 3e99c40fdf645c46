//! How servers of a fleet are connected, at first and again.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::sync::Semaphore;
use turms_core::{ConnectError, Connector};

use super::many::Many;
use super::member::{MemberError, Origin};
use crate::client::Client;
use crate::options::CallOptions;

impl Many {
    /// Connects to several servers of the fleet, so many at once.
    pub(super) async fn attach_all(&self, names: &[String], at_once: usize) {
        let room = &Semaphore::new(at_once);
        let attaching = names.iter().map(|name| async move {
            // Nobody closes the semaphore, so there is always room in the end.
            let _room = room.acquire().await;
            if let Err(error) = self.attach(name).await {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(target: "turms::client", server = ?name, error, "the server is not there");
            }
        });
        join_all(attaching).await;
    }

    /// Connects to a server of the fleet.
    pub(super) async fn attach(&self, name: &str) -> Result<(), MemberError> {
        let (id, origin) = self.roster.lock().origin_of(name)?;
        let client = match self.open(name, &origin).await {
            Ok(client) => client,
            Err(error) => {
                self.roster.lock().fail(id, name, error.clone());
                return Err(error);
            }
        };
        self.restore(name, &client).await;
        // The lock is given back before anything is waited for.
        let placed = self.roster.lock().place(id, name, client);
        match placed {
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

    async fn open(&self, name: &str, origin: &Origin) -> Result<Client, MemberError> {
        let connector: Arc<dyn Connector> = match origin {
            Origin::Connector(connector) => connector.clone(),
            Origin::Entry(entry) => (self.connectors)(name, entry).map_err(MemberError::Connect)?,
            Origin::Broken(error) => return Err(MemberError::Entry(error.clone())),
            Origin::Elsewhere => return Err(MemberError::ConnectedElsewhere),
        };
        let connecting = self.builder.clone().connect_to(connector);
        match tokio::time::timeout(self.connect_timeout, connecting).await {
            Ok(connected) => connected.map_err(MemberError::Connect),
            Err(_) => Err(MemberError::Connect(ConnectError::TimedOut(self.connect_timeout))),
        }
    }

    /// Tells a server that comes later what the others were told: the log level, and what is watched at it.
    async fn restore(&self, name: &str, client: &Client) {
        let (level, watched) = {
            let roster = self.roster.lock();
            let watched = roster.watched.iter().filter(|(_, servers)| servers.iter().any(|server| **server == *name));
            (roster.log_level, watched.map(|(uri, _)| uri.clone()).collect::<Vec<_>>())
        };
        let logs = client.server_capabilities().is_none_or(|capabilities| capabilities.logging.is_some());
        let engine = client.engine();
        let mut restored = Vec::new();
        if let Some(level) = level.filter(|_| logs) {
            restored.push(engine.set_log_level(level, CallOptions::default()).await);
        }
        for uri in watched {
            restored.push(engine.subscribe(uri, CallOptions::default()).await);
        }
        for error in restored.into_iter().filter_map(Result::err) {
            tracing::warn!(target: "turms::client", server = ?name, %error, "could not be restored after reconnecting");
        }
    }
}
