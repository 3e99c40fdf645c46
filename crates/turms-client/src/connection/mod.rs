//! The connection to one server: opened and supervised by one task, and used by all calls.

mod batch;
mod open;
mod restore;
mod state;
pub(crate) mod stream_health;
mod supervisor;
mod translate;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use turms_core::PeerError;

pub(crate) use self::batch::{BatchGate, BatchTicket};
pub(crate) use self::state::{Connected, ConnectionState, ServerShared, Settings};
pub(crate) use self::supervisor::{MIN_UPTIME, Supervisor};
pub(crate) use self::translate::{declare_tasks, declares_tasks, offers_task};
use crate::call::error::{CallError, Delivery, Recovery};
use crate::call::{CallOutput, CallRequest};
use crate::layer::CallService;

/// Timeout for reading the close reason of a connection, such as the exit status of a process.
const CLOSE_REASON_TIMEOUT: Duration = Duration::from_millis(500);

/// Sends requests on the current connection: waits for it, translates, sends, decodes, reports failures. The innermost
/// layer.
pub(crate) struct ServerConnection {
    shared: Arc<ServerShared>,
}

impl ServerConnection {
    pub(crate) fn new(shared: Arc<ServerShared>) -> Self {
        Self { shared }
    }

    async fn connected(&self, call: &CallRequest) -> Result<Arc<Connected>, CallError> {
        match (self.shared.current(), call.generation) {
            (Some(connected), None) => Ok(connected),
            (Some(connected), Some(generation)) if connected.generation == generation => Ok(connected),
            (_, Some(_)) => Err(CallError::not_connected(call.target(), None)),
            (None, None) => {
                let timeout = self.shared.wait_time(&call.options);
                Box::pin(self.shared.ready(call.target(), timeout)).await
            }
        }
    }

    /// Converts the failure of a call: marks a lost connection, and adds a hint for retries.
    async fn failed(&self, connected: &Connected, call: &CallRequest, error: PeerError) -> CallError {
        let mut error = CallError::of_peer(call.target(), error);
        if error.delivery() == Delivery::Answered {
            self.shared.note_response(connected);
        }
        if error.is_disconnected() && !error.is_transport() {
            let closed = tokio::time::timeout(CLOSE_REASON_TIMEOUT, connected.control.closed());
            self.shared.mark_lost(connected, closed.await.unwrap_or_default()).await;
            error = error.with_end(|| connected.lost.get().cloned().unwrap_or_default());
        } else if verify::is_doubtful(&error) {
            verify::failure(&self.shared, connected, call).await;
        }
        let expired = connected.lost.get().is_some_and(|reason| reason.renewable);
        match error.delivery() {
            _ if connected.has_wrong_version() => error.with_recovery(Recovery::NewVersion),
            Delivery::NotSent if expired => error.with_recovery(Recovery::NewSession),
            _ => error,
        }
    }
}

impl CallService for ServerConnection {
    async fn call(&self, call: &CallRequest) -> Result<CallOutput, CallError> {
        let mut connected = self.connected(call).await?;
        let mut batch = None;
        if let Some(ticket) = &call.options.batch {
            batch = Box::pin(ticket.joins(&self.shared, &connected)).await.then_some(ticket);
            // The connection may have been lost meanwhile.
            connected = self.connected(call).await?;
        }
        let request = translate::request(&self.shared, &connected, call)?;
        let response = match batch {
            None => connected.channel.call_in_time(request).await,
            Some(ticket) => Box::pin(ticket.send(&connected, request)).await,
        };
        let payload = match response {
            Ok(payload) => payload,
            Err(error) => return Err(Box::pin(self.failed(&connected, call, error)).await),
        };
        if connected.streams.is_reported() {
            self.shared.note_response(&connected);
        }
        if !connected.is_verified() {
            Box::pin(verify::response(&self.shared, &connected, &payload)).await;
        }
        let outcome = (call.decode)(payload, connected.version()).map_err(|error| call.invalid(error))?;
        Ok(CallOutput { generation: connected.generation, ..CallOutput::new(outcome) })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use turms_core::transport::LocalConnector;
    use turms_server::Server;

    use super::*;
    use crate::{Client, ClientBuilder};

    /// Returns the state of a client that is connected to an empty in-process server, for the tests of layers.
    pub(crate) async fn shared(configure: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Arc<ServerShared> {
        let server = Server::new("empty", "1").build().expect("an empty server");
        let builder = configure(Client::builder("test", "1"));
        let shared = builder.shared(Arc::new(LocalConnector::new(server))).expect("a valid configuration");
        Supervisor::spawn(&shared, None).await.expect("a supervisor").expect("a connection");
        shared
    }
}
